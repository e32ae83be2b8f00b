//! Writes small ONNX models, as many bytes as they need and no more.

/// A field of a message: its number and contents.
fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = varint(u64::from(number << 3 | 2));
    out.extend(varint(bytes.len() as u64));
    out.extend(bytes);
    out
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn number(field: u32, value: i64) -> Vec<u8> {
    [varint(u64::from(field << 3)), varint(value.cast_unsigned())].concat()
}

/// An attribute of a node.
#[derive(Clone, Debug)]
pub(crate) enum Attribute {
    Int(i64),
    Ints(Vec<i64>),
    Float(f32),
    Text(&'static str),
}

impl Attribute {
    fn encode(&self, name: &str) -> Vec<u8> {
        let (value, kind) = match self {
            Attribute::Float(real) => ([varint(2 << 3 | 5), real.to_le_bytes().into()].concat(), 1),
            Attribute::Int(value) => (number(3, *value), 2),
            Attribute::Text(text) => (field(4, text.as_bytes()), 3),
            Attribute::Ints(values) => (values.iter().flat_map(|&v| number(8, v)).collect(), 7),
        };
        [field(1, name.as_bytes()), value, number(20, kind)].concat()
    }
}

/// A model with the float input `x`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    graph: Vec<u8>,
    nodes: usize,
}

impl Model {
    /// A model with an input of this shape.
    pub(crate) fn new(shape: &[usize]) -> Model {
        Model { graph: field(11, &value("x", shape)), nodes: 0 }
    }

    /// Appends a node.
    #[must_use]
    pub(crate) fn node(
        mut self,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[(&str, Attribute)],
    ) -> Model {
        let mut node: Vec<u8> = inputs.iter().flat_map(|name| field(1, name.as_bytes())).collect();
        node.extend(outputs.iter().flat_map(|name| field(2, name.as_bytes())));
        node.extend(field(3, format!("n{}", self.nodes).as_bytes()));
        node.extend(field(4, op.as_bytes()));
        node.extend(attributes.iter().flat_map(|(name, a)| field(5, &a.encode(name))));
        self.graph.extend(field(1, &node));
        self.nodes += 1;
        self
    }

    /// Appends float weights.
    #[must_use]
    pub(crate) fn floats(mut self, name: &str, shape: &[usize], reals: &[f32]) -> Model {
        let raw: Vec<u8> = reals.iter().flat_map(|real| real.to_le_bytes()).collect();
        self.graph.extend(field(5, &tensor(name, shape, 1, &raw)));
        self
    }

    /// Appends whole numbers.
    #[must_use]
    pub(crate) fn ints(mut self, name: &str, numbers: &[i64]) -> Model {
        let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.graph.extend(field(5, &tensor(name, &[numbers.len()], 7, &raw)));
        self
    }

    /// The file, with these outputs.
    pub(crate) fn finish(mut self, opset: i64, outputs: &[&str]) -> Vec<u8> {
        self.graph.extend(field(2, b"g"));
        let no_shape = [field(1, &number(1, 1))].concat();
        for name in outputs {
            let info = [field(1, name.as_bytes()), field(2, &no_shape)].concat();
            self.graph.extend(field(12, &info));
        }
        let version = number(2, opset);
        [number(1, 5), field(7, &self.graph), field(8, &version)].concat()
    }
}

fn tensor(name: &str, shape: &[usize], kind: i64, raw: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = shape.iter().flat_map(|&extent| number(1, extent as i64)).collect();
    out.extend(number(2, kind));
    out.extend(field(8, name.as_bytes()));
    out.extend(field(9, raw));
    out
}

fn value(name: &str, shape: &[usize]) -> Vec<u8> {
    let dims: Vec<u8> =
        shape.iter().flat_map(|&extent| field(1, &number(1, extent as i64))).collect();
    let of_tensor = [number(1, 1), field(2, &dims)].concat();
    [field(1, name.as_bytes()), field(2, &field(1, &of_tensor))].concat()
}
