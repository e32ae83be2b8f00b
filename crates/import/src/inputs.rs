//! Types and shapes of the graph's inputs, and what the user said about them.

#![deny(clippy::arithmetic_side_effects)]

use crate::dtype;
use crate::options::Options;
use crate::proto::{DimensionProto, GraphProto, ShapeProto, ValueProto};
use crate::tensor::{MAX_EXTENT, MAX_RANK};
use quincunx_diag::{Diagnostic, Result, did_you_mean};
use quincunx_tensor::{DType, Shape, show_shape};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// An input as the graph wants it.
pub(crate) struct Input<'m> {
    pub(crate) name: &'m str,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(crate) symbols: Vec<Option<String>>,
}

/// One extent as declared.
enum Extent {
    Fixed(usize),
    Symbol(String),
}

/// The inputs of a graph that are not initialisers, with every symbol bound.
pub(crate) fn read_inputs<'m>(
    graph: &'m GraphProto,
    options: &Options,
    problems: &mut Vec<Diagnostic>,
) -> Vec<Input<'m>> {
    let constants: FxHashSet<&str> =
        graph.initializer.iter().filter_map(|tensor| tensor.name.as_deref()).collect();
    let mut declared = Vec::new();
    let mut by_name = FxHashMap::default();
    for input in &graph.input {
        let name = input.name.as_deref().unwrap_or("");
        if constants.contains(name) {
            continue;
        }
        if by_name.insert(name, ()).is_some() {
            problems.push(two_values(name));
            continue;
        }
        match declaration(input, options) {
            Ok((dtype, extents)) => declared.push((name, dtype, extents)),
            Err(problem) => problems.push(problem),
        }
    }
    check_names(options, &graph.input, &constants, &declared, problems);
    let bindings = match bindings(options, &declared) {
        Ok(bindings) => bindings,
        Err(problem) => {
            problems.push(problem);
            return Vec::new();
        }
    };
    declared
        .into_iter()
        .map(|(name, dtype, extents)| bind(name, dtype, extents, options, &bindings))
        .collect()
}

/// Two values of one name.
pub(crate) fn two_values(name: &str) -> Diagnostic {
    Diagnostic::invalid("Q0409", format!("two values are named \"{name}\""))
        .help("names of inputs, initialisers and node outputs must be unique")
}

type Declared<'m> = (&'m str, DType, Vec<Extent>);

/// Type and extents of an input; extents come from the options if the model has none.
fn declaration(input: &ValueProto, options: &Options) -> Result<(DType, Vec<Extent>)> {
    let name = input.name.as_deref().unwrap_or("");
    if name.is_empty() {
        return Err(problem("an input has no name".to_owned()));
    }
    let Some(tensor) = input.r#type.as_ref().and_then(|t| t.tensor.as_ref()) else {
        return Err(unsupported(format!("input \"{name}\" is not a dense tensor")));
    };
    let dtype = dtype::from_onnx(tensor.elem_type.unwrap_or(0)).map_err(|found| {
        unsupported(format!("input \"{name}\" has element type {found}")).help(dtype::SUPPORTED)
    })?;
    let given = options.input_shapes.get(name);
    match (&tensor.shape, given) {
        (None, None) => Err(problem(format!("input \"{name}\" has no shape"))
            .help(format!("give it one, as in --input-shape {name}=1x3x224x224"))),
        (None, Some(shape)) => Ok((dtype, shape.iter().map(|&e| Extent::Fixed(e)).collect())),
        (Some(shape), None) => Ok((dtype, extents(name, shape, false)?)),
        (Some(shape), Some(given)) if shape.dim.len() == given.len() => {
            Ok((dtype, extents(name, shape, true)?))
        }
        (Some(shape), Some(given)) => Err(Diagnostic::usage(
            "Q0415",
            format!(
                "input \"{name}\" has {} axes, the given shape {} has {}",
                shape.dim.len(),
                show_shape(given),
                given.len()
            ),
        )),
    }
}

/// The declared extents. With `overridden`, nonsense is accepted since it will be replaced.
fn extents(name: &str, shape: &ShapeProto, overridden: bool) -> Result<Vec<Extent>> {
    let extent = |(axis, dim): (usize, &DimensionProto)| match (dim.dim_value, &dim.dim_param) {
        // Some exporters write -1 for an extent they leave open.
        (Some(-1), _) => Ok(Extent::Symbol(format!("{name}:{axis}"))),
        (Some(value), _) => match usize::try_from(value) {
            Ok(extent) if value <= MAX_EXTENT => Ok(Extent::Fixed(extent)),
            _ if overridden => Ok(Extent::Fixed(0)),
            _ => Err(problem(format!(
                "input \"{name}\" has extent {value} at axis {axis}, expected 0 to 2^40"
            ))
            .help(format!("give it one, as in --input-shape {name}=1x3x224x224"))),
        },
        // Paddle's exporter calls every open extent "?", which names none of them.
        (None, Some(symbol)) if !symbol.is_empty() && symbol != "?" => {
            Ok(Extent::Symbol(symbol.clone()))
        }
        (None, _) => Ok(Extent::Symbol(format!("{name}:{axis}"))),
    };
    if shape.dim.len() > MAX_RANK {
        return Err(problem(format!(
            "input \"{name}\" has {} axes; at most {MAX_RANK} are accepted",
            shape.dim.len()
        )));
    }
    shape.dim.iter().enumerate().map(extent).collect()
}

/// Every name the user gave must exist.
fn check_names(
    options: &Options,
    inputs: &[ValueProto],
    constants: &FxHashSet<&str>,
    declared: &[Declared<'_>],
    problems: &mut Vec<Diagnostic>,
) {
    let names: Vec<&str> = inputs
        .iter()
        .filter_map(|input| input.name.as_deref())
        .filter(|name| !constants.contains(name))
        .collect();
    for name in options.input_shapes.keys().filter(|name| !names.contains(&name.as_str())) {
        problems.push(unknown("input", name, &names));
    }
    let symbols: Vec<&str> = declared
        .iter()
        .flat_map(|(_, _, extents)| extents)
        .filter_map(|extent| match extent {
            Extent::Symbol(symbol) => Some(symbol.as_str()),
            Extent::Fixed(_) => None,
        })
        .collect();
    for symbol in options.bindings.keys().filter(|symbol| !symbols.contains(&symbol.as_str())) {
        problems.push(unknown("symbolic extent", symbol, &symbols));
    }
}

pub(crate) fn unknown(what: &str, name: &str, names: &[&str]) -> Diagnostic {
    let help = did_you_mean(name, names.iter().copied()).or_else(|| match names {
        [] => Some(format!("the model has no {what}")),
        names => {
            let first: Vec<&str> = names.iter().take(16).copied().collect();
            Some(format!("the model has: {}", first.join(", ")))
        }
    });
    Diagnostic::usage("Q0415", format!("the model has no {what} \"{name}\"")).help_if(help)
}

/// The extent of every symbol the user fixed, directly or by a shape.
fn bindings(options: &Options, declared: &[Declared<'_>]) -> Result<BTreeMap<String, usize>> {
    let mut bindings = options.bindings.clone();
    for (name, _, extents) in declared {
        let Some(shape) = options.input_shapes.get(*name) else {
            continue;
        };
        for (extent, &given) in extents.iter().zip(shape) {
            let Extent::Symbol(symbol) = extent else {
                continue;
            };
            let bound = *bindings.entry(symbol.clone()).or_insert(given);
            if bound != given {
                return Err(Diagnostic::usage(
                    "Q0415",
                    format!("symbolic extent \"{symbol}\" is given as {bound} and as {given}"),
                ));
            }
        }
    }
    Ok(bindings)
}

fn bind<'m>(
    name: &'m str,
    dtype: DType,
    extents: Vec<Extent>,
    options: &Options,
    bindings: &BTreeMap<String, usize>,
) -> Input<'m> {
    let given = options.input_shapes.get(name);
    let mut shape = Shape::new();
    let mut symbols = Vec::new();
    for (axis, extent) in extents.into_iter().enumerate() {
        let (declared, symbol) = match extent {
            Extent::Fixed(extent) => (extent, None),
            Extent::Symbol(symbol) => (bindings.get(&symbol).copied().unwrap_or(1), Some(symbol)),
        };
        shape.push(given.and_then(|g| g.get(axis)).copied().unwrap_or(declared));
        symbols.push(symbol);
    }
    Input { name, dtype, shape, symbols }
}

fn problem(message: String) -> Diagnostic {
    Diagnostic::invalid("Q0414", message)
}

fn unsupported(message: String) -> Diagnostic {
    Diagnostic::unsupported("Q0414", message)
}
