//! Typed access to the attributes of a node.

#![deny(clippy::arithmetic_side_effects)]

use crate::proto::{AttributeProto, GraphProto, TensorProto, attribute_kind as kind};
use quincunx_diag::{Diagnostic, Result, did_you_mean};

/// The attributes of one node. Every attribute must be read once: one that nobody reads could
/// change the meaning of the node, so [`Attributes::finish`] reports it.
pub(crate) struct Attributes<'m> {
    all: &'m [AttributeProto],
    read: Vec<bool>,
    known: Vec<&'static str>,
}

/// More than any operator has.
const MOST: usize = 64;

impl<'m> Attributes<'m> {
    /// Wraps a list of attributes.
    ///
    /// # Errors
    /// `Q0407` when a name is given twice or there are too many.
    pub(crate) fn new(all: &'m [AttributeProto]) -> Result<Self> {
        if all.len() > MOST {
            return Err(malformed(format!("{} attributes; no operator has so many", all.len())));
        }
        for (index, attribute) in all.iter().enumerate() {
            if all[..index].iter().any(|earlier| earlier.name == attribute.name) {
                return Err(malformed(format!("attribute \"{}\" is given twice", name(attribute))));
            }
        }
        Ok(Attributes { all, read: vec![false; all.len()], known: Vec::new() })
    }

    /// An integer.
    pub(crate) fn int(&mut self, name: &'static str) -> Result<Option<i64>> {
        self.get(name, kind::INT, |a| a.i.is_some(), |a| a.i.unwrap_or(0))
    }

    /// An integer that is 0 or 1.
    pub(crate) fn flag(&mut self, name: &'static str, default: bool) -> Result<bool> {
        match self.int(name)? {
            None => Ok(default),
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            Some(other) => {
                Err(malformed(format!("attribute \"{name}\" is {other}, expected 0 or 1")))
            }
        }
    }

    /// A number.
    pub(crate) fn float(&mut self, name: &'static str) -> Result<Option<f32>> {
        self.get(name, kind::FLOAT, |a| a.f.is_some(), |a| a.f.unwrap_or(0.0))
    }

    /// A text.
    pub(crate) fn string(&mut self, name: &'static str) -> Result<Option<&'m str>> {
        let bytes =
            self.get(name, kind::STRING, |a| a.s.is_some(), |a| a.s.as_deref().unwrap_or(&[]))?;
        bytes
            .map(std::str::from_utf8)
            .transpose()
            .map_err(|_| malformed(format!("attribute \"{name}\" is not valid text")))
    }

    /// A list of texts.
    pub(crate) fn texts(&mut self, name: &'static str) -> Result<Option<Vec<&'m str>>> {
        let lists = self.get(name, kind::STRINGS, |a| !a.strings.is_empty(), |a| &a.strings)?;
        let texts = lists.map(|list| list.iter().map(|text| std::str::from_utf8(text)).collect());
        texts.transpose().map_err(|_| malformed(format!("attribute \"{name}\" is not valid text")))
    }

    /// A list of integers.
    pub(crate) fn ints(&mut self, name: &'static str) -> Result<Option<&'m [i64]>> {
        self.get(name, kind::INTS, |a| !a.ints.is_empty(), |a| a.ints.as_slice())
    }

    /// A list of numbers.
    pub(crate) fn floats(&mut self, name: &'static str) -> Result<Option<&'m [f32]>> {
        self.get(name, kind::FLOATS, |a| !a.floats.is_empty(), |a| a.floats.as_slice())
    }

    /// A tensor.
    pub(crate) fn tensor(&mut self, name: &'static str) -> Result<Option<&'m TensorProto>> {
        let found = self.get(name, kind::TENSOR, |a| a.t.is_some(), |a| a.t.as_deref())?;
        match found {
            Some(None) => Err(malformed(format!("attribute \"{name}\" holds no tensor"))),
            Some(tensor) => Ok(tensor),
            None => Ok(None),
        }
    }

    /// A graph.
    pub(crate) fn graph(&mut self, name: &'static str) -> Result<Option<&'m GraphProto>> {
        let found = self.get(name, kind::GRAPH, |a| a.g.is_some(), |a| a.g.as_deref())?;
        match found {
            Some(None) => Err(malformed(format!("attribute \"{name}\" holds no graph"))),
            Some(graph) => Ok(graph),
            None => Ok(None),
        }
    }

    /// Accepts an attribute without looking at it, because it has no effect on inference.
    pub(crate) fn ignore(&mut self, name: &'static str) {
        self.take(name);
    }

    /// True when the attribute is present; does not count as reading it.
    pub(crate) fn has(&self, wanted: &str) -> bool {
        self.all.iter().any(|a| name(a) == wanted)
    }

    /// Reports the first attribute that was not read.
    ///
    /// # Errors
    /// `Q0406`.
    pub(crate) fn finish(&self) -> Result<()> {
        let Some(index) = self.read.iter().position(|read| !read) else {
            return Ok(());
        };
        let unknown = name(&self.all[index]);
        let message = format!("attribute \"{unknown}\" is not supported");
        let help = did_you_mean(unknown, self.known.iter().copied()).unwrap_or_else(|| match self
            .known
            .as_slice()
        {
            [] => "this operator has no attributes here".to_owned(),
            known => format!("supported attributes: {}", known.join(", ")),
        });
        Err(Diagnostic::unsupported("Q0406", message).help(help))
    }

    fn take(&mut self, wanted: &'static str) -> Option<&'m AttributeProto> {
        self.known.push(wanted);
        let index = self.all.iter().position(|a| name(a) == wanted)?;
        self.read[index] = true;
        Some(&self.all[index])
    }

    fn get<T>(
        &mut self,
        wanted: &'static str,
        expected: i32,
        is_set: impl Fn(&AttributeProto) -> bool,
        value: impl Fn(&'m AttributeProto) -> T,
    ) -> Result<Option<T>> {
        let Some(attribute) = self.take(wanted) else {
            return Ok(None);
        };
        if attribute.ref_attr_name.as_deref().is_some_and(|reference| !reference.is_empty()) {
            return Err(malformed(format!(
                "attribute \"{wanted}\" refers to a function attribute outside a function"
            )));
        }
        // Files of the first IR versions have no type; there the field that is set decides.
        let found = attribute.kind.unwrap_or(kind::UNDEFINED);
        let fits = found == expected || (found == kind::UNDEFINED && is_set(attribute));
        if !fits {
            return Err(malformed(format!(
                "attribute \"{wanted}\" is {}, expected {}",
                kind_name(found),
                kind_name(expected)
            )));
        }
        Ok(Some(value(attribute)))
    }
}

fn name(attribute: &AttributeProto) -> &str {
    attribute.name.as_deref().unwrap_or("")
}

fn kind_name(code: i32) -> &'static str {
    match code {
        kind::UNDEFINED => "of no type",
        kind::FLOAT => "a number",
        kind::INT => "an integer",
        kind::STRING => "a text",
        kind::TENSOR => "a tensor",
        kind::FLOATS => "a list of numbers",
        kind::INTS => "a list of integers",
        kind::GRAPH => "a graph",
        kind::STRINGS => "a list of texts",
        9 => "a list of tensors",
        10 => "a list of graphs",
        11 => "a sparse tensor",
        12 => "a list of sparse tensors",
        _ => "of another type",
    }
}

/// An attribute that is not what the standard says.
pub(crate) fn malformed(message: String) -> Diagnostic {
    Diagnostic::invalid("Q0407", message)
}
