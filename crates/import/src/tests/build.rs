//! A short way to write model files.

use crate::dtype;
use crate::options::Options;
use crate::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OpsetProto, ShapeProto,
    TensorProto, TensorTypeProto, TypeProto, ValueProto, attribute_kind as kind,
};
use crate::read_onnx;
use prost::Message;
use quincunx_diag::Diagnostic;
use quincunx_graph::{Graph, Op};
use quincunx_tensor::{DType, Tensor};

/// A model under construction.
#[derive(Clone, Default)]
pub(crate) struct Model(pub(crate) ModelProto);

impl Model {
    /// A model of this opset, without inputs.
    pub(crate) fn empty(opset: i64) -> Self {
        let version = |domain: &str, version| OpsetProto {
            domain: Some(domain.into()),
            version: Some(version),
        };
        Model(ModelProto {
            ir_version: Some(8),
            graph: Some(GraphProto { name: Some("test".into()), ..GraphProto::default() }),
            opset_import: vec![version("", opset), version("qonnx.custom_op.general", 1)],
            ..ModelProto::default()
        })
    }

    /// A model with the float input `x` and the output `y`.
    pub(crate) fn new(opset: i64, shape: &[i64]) -> Self {
        Model::empty(opset).input("x", DType::F32, shape).output("y")
    }

    pub(crate) fn graph(&mut self) -> &mut GraphProto {
        self.0.graph.as_mut().unwrap()
    }

    pub(crate) fn input(mut self, name: &str, dtype: DType, shape: &[i64]) -> Self {
        self.graph().input.push(value(name, dtype, shape));
        self
    }

    pub(crate) fn output(mut self, name: &str) -> Self {
        self.graph().output.push(ValueProto { name: Some(name.into()), r#type: None });
        self
    }

    pub(crate) fn init(mut self, name: &str, tensor: &Tensor) -> Self {
        self.graph().initializer.push(tensor_proto(name, tensor));
        self
    }

    pub(crate) fn floats(self, name: &str, shape: &[usize], values: &[f32]) -> Self {
        self.init(name, &Tensor::from_vec(shape, values.to_vec()).unwrap())
    }

    pub(crate) fn longs(self, name: &str, values: &[i64]) -> Self {
        self.init(name, &Tensor::from_vec(&[values.len()], values.to_vec()).unwrap())
    }

    /// A standard node named after its output.
    pub(crate) fn node(
        self,
        operator: &str,
        inputs: &[&str],
        output: &str,
        attributes: Vec<AttributeProto>,
    ) -> Self {
        self.domain_node("", operator, inputs, &[output], attributes)
    }

    pub(crate) fn domain_node(
        mut self,
        domain: &str,
        operator: &str,
        inputs: &[&str],
        outputs: &[&str],
        attribute: Vec<AttributeProto>,
    ) -> Self {
        self.graph().node.push(NodeProto {
            input: inputs.iter().map(|&i| i.to_owned()).collect(),
            output: outputs.iter().map(|&o| o.to_owned()).collect(),
            name: Some(format!("{}_node", outputs.first().unwrap_or(&""))),
            op_type: Some(operator.to_owned()),
            domain: Some(domain.to_owned()),
            attribute,
        });
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.encode_to_vec()
    }

    pub(crate) fn read(&self) -> Result<Graph, Vec<Diagnostic>> {
        self.read_with(&Options::default())
    }

    pub(crate) fn read_with(&self, options: &Options) -> Result<Graph, Vec<Diagnostic>> {
        let graph = read_onnx(self.bytes().into(), options)?;
        assert_eq!(graph.verify(), []);
        Ok(graph)
    }

    /// The only problem of the model.
    pub(crate) fn problem(&self) -> Diagnostic {
        let mut problems = self.read().unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.remove(0)
    }

    /// The operation that computes `y`.
    pub(crate) fn last_op(&self) -> Op {
        let graph = self.read().unwrap();
        let producer = graph[graph.value_named("y").unwrap()].producer.unwrap();
        graph[producer].op.clone()
    }
}

pub(crate) fn value(name: &str, dtype: DType, shape: &[i64]) -> ValueProto {
    let dim = shape.iter().map(|&e| DimensionProto { dim_value: Some(e), dim_param: None });
    let tensor = TensorTypeProto {
        elem_type: Some(dtype::to_onnx(dtype)),
        shape: Some(ShapeProto { dim: dim.collect() }),
    };
    ValueProto { name: Some(name.into()), r#type: Some(TypeProto { tensor: Some(tensor) }) }
}

pub(crate) fn tensor_proto(name: &str, tensor: &Tensor) -> TensorProto {
    TensorProto {
        dims: tensor.shape().iter().map(|&e| e as i64).collect(),
        data_type: Some(dtype::to_onnx(tensor.dtype())),
        name: Some(name.into()),
        raw_data: Some(crate::packed::pack(tensor.dtype(), tensor.bytes())),
        ..TensorProto::default()
    }
}

pub(crate) fn attribute(name: &str, kind: i32) -> AttributeProto {
    AttributeProto { name: Some(name.into()), kind: Some(kind), ..AttributeProto::default() }
}

pub(crate) fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { i: Some(i), ..attribute(name, kind::INT) }
}

pub(crate) fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { f: Some(f), ..attribute(name, kind::FLOAT) }
}

pub(crate) fn text(name: &str, s: &str) -> AttributeProto {
    AttributeProto { s: Some(s.to_owned().into()), ..attribute(name, kind::STRING) }
}

pub(crate) fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto { ints: values.to_vec(), ..attribute(name, kind::INTS) }
}

pub(crate) fn floats(name: &str, values: &[f32]) -> AttributeProto {
    AttributeProto { floats: values.to_vec(), ..attribute(name, kind::FLOATS) }
}

pub(crate) fn texts(name: &str, values: &[&str]) -> AttributeProto {
    let strings = values.iter().map(|&value| value.to_owned().into()).collect();
    AttributeProto { strings, ..attribute(name, kind::STRINGS) }
}
