//! Typed access to the attributes of a node.

#![deny(clippy::arithmetic_side_effects)]

use super::proto::{AttrValue, NodeDef, TensorProto, TensorShapeProto};
use quincunx_diag::{Diagnostic, Result};

/// The attributes of one node. Absent ones have the default of the operator's definition, since
/// files may leave defaults out.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'m>(pub(crate) &'m NodeDef);

impl<'m> Attributes<'m> {
    /// An integer.
    pub(crate) fn int(self, name: &str, default: i64) -> Result<i64> {
        Ok(self.get(name, "an integer", |a| a.i)?.unwrap_or(default))
    }

    /// A number.
    pub(crate) fn float(self, name: &str, default: f32) -> Result<f32> {
        Ok(self.get(name, "a number", |a| a.f)?.unwrap_or(default))
    }

    /// A truth value.
    pub(crate) fn flag(self, name: &str, default: bool) -> Result<bool> {
        Ok(self.get(name, "true or false", |a| a.b)?.unwrap_or(default))
    }

    /// The number of an element type.
    pub(crate) fn dtype(self, name: &str) -> Result<Option<i32>> {
        self.get(name, "a type", |a| a.r#type)
    }

    /// A text.
    pub(crate) fn text(self, name: &str, default: &'static str) -> Result<&'m str> {
        let Some(bytes) = self.get(name, "a text", |a| a.s.as_deref())? else {
            return Ok(default);
        };
        std::str::from_utf8(bytes)
            .map_err(|_| malformed(format!("attribute \"{name}\" is not valid text")))
    }

    /// A list of integers; empty when absent.
    pub(crate) fn ints(self, name: &str) -> Result<&'m [i64]> {
        let list = self.get(name, "a list", |a| a.list.as_deref())?;
        Ok(list.map_or(&[], |list| &list.i))
    }

    /// A list of texts; empty when absent.
    pub(crate) fn texts(self, name: &str) -> Result<Vec<&'m str>> {
        let list = self.get(name, "a list", |a| a.list.as_deref())?;
        let texts = list.map_or(&[][..], |list| &list.s).iter();
        texts
            .map(|bytes| std::str::from_utf8(bytes))
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| malformed(format!("attribute \"{name}\" has no valid text")))
    }

    /// A shape.
    pub(crate) fn shape(self, name: &str) -> Result<Option<&'m TensorShapeProto>> {
        self.get(name, "a shape", |a| a.shape.as_deref())
    }

    /// A tensor.
    pub(crate) fn tensor(self, name: &str) -> Result<Option<&'m TensorProto>> {
        self.get(name, "a tensor", |a| a.tensor.as_deref())
    }

    fn get<T>(
        self,
        name: &str,
        expected: &str,
        field: impl Fn(&'m AttrValue) -> Option<T>,
    ) -> Result<Option<T>> {
        // Of entries with one key the last counts, as in every protobuf map.
        let Some(entry) = self.0.attr.iter().rev().find(|entry| entry.key == name) else {
            return Ok(None);
        };
        let found = entry.value.as_ref().and_then(field);
        match found {
            Some(found) => Ok(Some(found)),
            None => Err(malformed(format!("attribute \"{name}\" is not {expected}"))),
        }
    }
}

/// An attribute or parameter that cannot be.
pub(crate) fn malformed(message: String) -> Diagnostic {
    Diagnostic::invalid("Q0407", message)
}
