//! Types and shapes of the graph's inputs, and what the user said about them.

#![deny(clippy::arithmetic_side_effects)]

use crate::dtype;
use crate::options::Options;
use crate::proto::{DimensionProto, GraphProto, ShapeProto, ValueProto};
use crate::survey::DeclaredInput;
use crate::tensor::{MAX_EXTENT, MAX_RANK};
use crate::values::given_value;
use quincunx_diag::{Diagnostic, Result, did_you_mean};
use quincunx_graph::depends_on_extents;
use quincunx_tensor::{DType, Shape, Tensor, show_shape};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};

/// An input as the graph wants it.
pub(crate) struct Input<'m> {
    pub(crate) name: &'m str,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(crate) symbols: Vec<Option<String>>,
    /// The shape as the file declares it, for people.
    pub(crate) declared: String,
    /// Some extent is 1 because nobody said otherwise.
    pub(crate) open: bool,
    /// The numbers that the user fixed it to.
    pub(crate) value: Option<Tensor>,
}

impl Input<'_> {
    /// What a survey says about it.
    pub(crate) fn describe(&self) -> DeclaredInput {
        DeclaredInput {
            name: self.name.to_owned(),
            dtype: self.dtype,
            declared: self.declared.clone(),
            shape: self.shape.clone(),
            fixed: self.value.is_some(),
        }
    }
}

/// One extent as declared.
enum Extent {
    Fixed(usize),
    Symbol(String),
}

impl Extent {
    /// As it is shown: a name that the file does not have is `?`.
    fn show(&self, input: &str) -> String {
        match self {
            Extent::Fixed(extent) => extent.to_string(),
            Extent::Symbol(symbol) if is_made_up(symbol, input) => "?".to_owned(),
            // One long name may stand in many messages.
            Extent::Symbol(symbol) => symbol.chars().take(32).collect(),
        }
    }
}

/// True for the name of an extent that the file leaves open without one: `input:axis`.
fn is_made_up(symbol: &str, input: &str) -> bool {
    symbol.strip_prefix(input).is_some_and(|rest| rest.starts_with(':'))
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
    let mut inputs: Vec<Input<'m>> = declared
        .into_iter()
        .map(|(name, dtype, extents)| bind(name, dtype, extents, options, &bindings))
        .collect();
    for input in &mut inputs {
        let Some(text) = options.input_values.get(input.name) else { continue };
        match given_value(input.name, input.dtype, &input.shape, text) {
            Ok(value) => (input.value, input.open) = (Some(value), false),
            Err(problem) => problems.push(problem),
        }
    }
    inputs
}

/// What helps when the shapes of a model do not fit: the option that binds open extents.
pub(crate) fn shape_help(open: &[(String, String)]) -> Option<String> {
    let (name, declared) = open.first()?;
    let extents: Vec<&str> = declared.trim_matches(['[', ']']).split(", ").collect();
    let is_open = |extent: &str| extent.parse::<usize>().is_err();
    // One image, and as many elements as images and signals often have along other axes.
    let image = extents.len() >= 4;
    let batch = is_open(extents[0]);
    let example = |(axis, extent)| match axis {
        _ if !is_open(extent) => extent,
        0 => "1",
        _ if image => "224",
        _ if batch || extents.len().checked_sub(1) == Some(axis) => "512",
        _ => "1",
    };
    let example: Vec<&str> = extents.iter().copied().enumerate().map(example).collect();
    let all: Vec<String> =
        open.iter().take(8).map(|(name, declared)| format!("{name} {declared}")).collect();
    Some(format!(
        "extents that the file leaves open are 1 unless given, as in --input-shape {name}={}; the \
         inputs with open extents: {}",
        example.join("x"),
        all.join(", ")
    ))
}

/// Adds [`shape_help`] to the first problem that other extents may solve.
pub(crate) fn with_shape_help(
    mut problems: Vec<Diagnostic>,
    open: &[(String, String)],
) -> Vec<Diagnostic> {
    let first = problems.iter_mut().find(|p| depends_on_extents(p) && p.help_text().is_none());
    if let (Some(first), Some(help)) = (first, shape_help(open)) {
        *first = first.clone().help(help);
    }
    problems
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
    let given: BTreeSet<&String> =
        options.input_shapes.keys().chain(options.input_values.keys()).collect();
    for name in given.into_iter().filter(|name| !names.contains(&name.as_str())) {
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

/// The extent of every symbol the user fixed, directly or by a shape, and of those that arrays of
/// the data have.
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
    for (name, _, extents) in declared {
        let Some(array) = array_of(name, declared, options) else { continue };
        for (symbol, extent) in sampled(extents, array) {
            bindings.entry(symbol.to_owned()).or_insert(extent);
        }
    }
    Ok(bindings)
}

/// Shape of the array that is the data of an input: the one of its name, or the only array for the
/// only input.
fn array_of<'o>(
    name: &str,
    declared: &[Declared<'_>],
    options: &'o Options,
) -> Option<&'o Vec<usize>> {
    let shapes = &options.data_shapes;
    let only = || shapes.values().next().filter(|_| shapes.len() == 1 && declared.len() == 1);
    shapes.get(name).filter(|_| !options.input_shapes.contains_key(name)).or_else(only)
}

/// The symbols of an input with the extents that an array has there. An axis more than the input
/// has, or else the outermost one where it is open, counts images.
fn sampled<'e>(
    extents: &'e [Extent],
    array: &'e [usize],
) -> impl Iterator<Item = (&'e str, usize)> {
    let one = match array.len().checked_sub(extents.len()) {
        Some(0) => array,
        Some(1) => &array[1..],
        _ => &[],
    };
    let counts = array.len() == extents.len();
    extents.iter().zip(one).enumerate().filter_map(move |(axis, (extent, &found))| match extent {
        Extent::Symbol(symbol) if axis > 0 || !counts => Some((symbol.as_str(), found)),
        Extent::Symbol(_) | Extent::Fixed(_) => None,
    })
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
    let shown: Vec<String> = extents.iter().map(|extent| extent.show(name)).collect();
    let open = |extent: &Extent| matches!(extent, Extent::Symbol(s) if !bindings.contains_key(s));
    let open = given.is_none() && extents.iter().any(open);
    for (axis, extent) in extents.into_iter().enumerate() {
        let (declared, symbol) = match extent {
            Extent::Fixed(extent) => (extent, None),
            Extent::Symbol(symbol) => (bindings.get(&symbol).copied().unwrap_or(1), Some(symbol)),
        };
        shape.push(given.and_then(|g| g.get(axis)).copied().unwrap_or(declared));
        symbols.push(symbol);
    }
    let declared = format!("[{}]", shown.join(", "));
    Input { name, dtype, shape, symbols, declared, open, value: None }
}

fn problem(message: String) -> Diagnostic {
    Diagnostic::invalid("Q0414", message)
}

fn unsupported(message: String) -> Diagnostic {
    Diagnostic::unsupported("Q0414", message)
}
