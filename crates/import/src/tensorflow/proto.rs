//! The GraphDef messages, reduced to the fields Quincunx uses. Field numbers are the contract;
//! fields that are not listed are skipped by the decoder.
//!
//! Function libraries (field 2 of a graph) and function attributes (field 10) are left out on
//! purpose: without them no message nests in itself, so decoding cannot recurse deeply.

use bytes::Bytes;
use prost::Message;

/// A whole file.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GraphDef {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<NodeDef>,
}

/// One operation.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeDef {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) op: String,
    /// `node`, `node:output` or, for an order without data, `^node`.
    #[prost(string, repeated, tag = "3")]
    pub(crate) input: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) attr: Vec<AttrEntry>,
}

/// One entry of the map from names to attributes.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttrEntry {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AttrValue>,
}

/// An attribute; one field is present.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttrValue {
    #[prost(message, optional, boxed, tag = "1")]
    pub(crate) list: Option<Box<ListValue>>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) s: Option<Bytes>,
    #[prost(int64, optional, tag = "3")]
    pub(crate) i: Option<i64>,
    #[prost(float, optional, tag = "4")]
    pub(crate) f: Option<f32>,
    #[prost(bool, optional, tag = "5")]
    pub(crate) b: Option<bool>,
    #[prost(int32, optional, tag = "6")]
    pub(crate) r#type: Option<i32>,
    #[prost(message, optional, boxed, tag = "7")]
    pub(crate) shape: Option<Box<TensorShapeProto>>,
    #[prost(message, optional, boxed, tag = "8")]
    pub(crate) tensor: Option<Box<TensorProto>>,
}

/// A list attribute; one field has entries.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListValue {
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(crate) s: Vec<Bytes>,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) i: Vec<i64>,
}

/// A shape that may be unknown, wholly or in places.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorShapeProto {
    #[prost(message, repeated, tag = "2")]
    pub(crate) dim: Vec<Dim>,
    #[prost(bool, tag = "3")]
    pub(crate) unknown_rank: bool,
}

/// One extent; -1 when it is unknown.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dim {
    #[prost(int64, tag = "1")]
    pub(crate) size: i64,
}

/// A tensor; its elements are in one of several fields.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorProto {
    #[prost(int32, tag = "1")]
    pub(crate) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) tensor_shape: Option<TensorShapeProto>,
    #[prost(bytes = "bytes", tag = "4")]
    pub(crate) tensor_content: Bytes,
    #[prost(float, repeated, tag = "5")]
    pub(crate) float_val: Vec<f32>,
    #[prost(double, repeated, tag = "6")]
    pub(crate) double_val: Vec<f64>,
    #[prost(int32, repeated, tag = "7")]
    pub(crate) int_val: Vec<i32>,
    #[prost(int64, repeated, tag = "10")]
    pub(crate) int64_val: Vec<i64>,
    #[prost(bool, repeated, tag = "11")]
    pub(crate) bool_val: Vec<bool>,
    #[prost(int32, repeated, tag = "13")]
    pub(crate) half_val: Vec<i32>,
    #[prost(uint32, repeated, tag = "16")]
    pub(crate) uint32_val: Vec<u32>,
    #[prost(uint64, repeated, tag = "17")]
    pub(crate) uint64_val: Vec<u64>,
}
