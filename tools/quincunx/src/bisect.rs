//! `run --bisect`: where a machine parts from its model.
//!
//! Two questions, of every value of the machine that can be observed, in the order of computation:
//!
//! * Does it leave the model by more than its number formats explain? The model's own operators are
//!   applied to the machine's own operands, and the difference is held against a bound for each element
//!   ([`mod@quincunx_graph::execute::bounds`]). An error of an earlier layer is thus not found again.
//! * Does the simulator leave the golden model? Then the instruction that wrote the first wrong element
//!   is told, with its operands.

use crate::compare::element_difference;
use crate::compile::goldens;
use crate::executable::{Body, Executable, Goldens, Session, Stage, Trace};
use crate::{Dataset, Progress, Setup, convert};
use quincunx_contract::plan::Plan;
use quincunx_contract::{Computing, Engine, Numerics, Origin, Program, Rim, compiler_of};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::execute::bounds::{Computed, Precision, bounds};
use quincunx_graph::execute::{self, Keep};
use quincunx_graph::passes::{Scaled, extract};
use quincunx_graph::{Graph, Node, NodeId, Op, Value, ValueId};
use quincunx_report::{Cell, Column, Table};
use quincunx_tensor::{Tensor, Tensors};
use std::collections::{BTreeMap, BTreeSet};

/// Most elementary operations of a layer that are done in exact arithmetic; larger ones are computed in
/// f32, whose own roundings the bound then holds too.
const MAX_EXACT: u64 = 1 << 26;

/// A machine that programs were compiled for.
pub struct Machine<'a> {
    /// The graphs of its segments.
    pub plan: &'a Plan,
    /// Its parameters and options.
    pub setup: &'a Setup<'a>,
    /// Values that are those of the model times a power of two.
    pub scaled: &'a BTreeMap<String, Scaled>,
}

/// Programs, and what they are to be.
pub struct Case<'a> {
    /// The programs.
    pub executable: &'a Executable,
    /// Their machines, by number.
    pub machines: &'a [Machine<'a>],
    /// The model as given.
    pub model: &'a Graph,
}

/// How far a value of a machine is from what the model makes of the machine's operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Name of the value in the program.
    pub value: String,
    /// Numbers of it.
    pub elements: usize,
    /// The difference; or why it is not told.
    pub departure: std::result::Result<Departure, String>,
    /// The simulator equals the golden model.
    pub bit_exact: bool,
}

/// The element of a value that uses most of its bound, or the first one beyond it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Departure {
    /// Its number, row-major.
    pub element: usize,
    /// What the machine has, without its scale.
    pub found: f64,
    /// What the model makes of the machine's operands.
    pub expected: f64,
    /// How far these may be apart.
    pub bound: f64,
}

impl Departure {
    fn error(&self) -> f64 {
        (self.found - self.expected).abs()
    }

    /// More than what is rounded explains. The bound itself is computed in f64.
    fn is_beyond(&self) -> bool {
        let is_same = self.found == self.expected || self.found.is_nan() && self.expected.is_nan();
        // A NaN is never within.
        let is_within = self.error() <= self.bound * (1.0 + 1e-9);
        !is_same && !is_within
    }

    fn share(&self) -> f64 {
        if self.found == self.expected { 0.0 } else { self.error() / self.bound }
    }
}

/// What was found on one image.
pub struct Bisection {
    /// The image: the first one on which anything is wrong, or the first of all.
    pub image: usize,
    /// Its values, in the order of computation.
    pub layers: Vec<Judged>,
    /// What is wrong; empty when nothing is.
    pub problems: Vec<Diagnostic>,
    /// The instruction that wrote the first element with which the simulator leaves the golden model.
    pub origin: Option<Origin>,
}

/// Judges image after image until something is wrong.
///
/// # Errors
/// Numerics of another graph; images that cannot be run.
pub fn bisect(case: &Case<'_>, data: &Dataset, progress: &dyn Progress) -> Result<Bisection> {
    let machines: Vec<_> = case.machines.iter().map(|m| (m.plan, m.setup)).collect();
    let goldens = goldens(case.executable, &machines)?;
    let mut session = case.executable.load_with(Engine::Exec)?;
    progress.start("bisect", data.images.len());
    let mut first = None;
    for (index, image) in data.images.iter().enumerate() {
        let found = one(case, &goldens, &mut session, image)
            .map_err(|problem| data.at_image(index, problem))?;
        progress.step();
        let found = Bisection { image: data.first + index, ..found };
        if !found.problems.is_empty() {
            return Ok(found);
        }
        first.get_or_insert(found);
    }
    first.ok_or_else(|| Diagnostic::bug("data without an image"))
}

/// One image.
fn one(
    case: &Case<'_>,
    goldens: &Goldens,
    session: &mut Session<'_>,
    image: &Tensors,
) -> Result<Bisection> {
    let mut trace = session.run_layers(image)?;
    let mut golden = case.executable.golden(goldens, image)?;
    case.executable.blank(&mut trace.device)?;
    case.executable.blank(&mut golden.device)?;
    let mut found = Bisection { image: 0, layers: Vec::new(), problems: Vec::new(), origin: None };
    for stage in &case.executable.stages {
        let Body::Device { program, numerics } = &stage.body else { continue };
        let machine = case.machines.get(stage.machine).ok_or_else(|| bug("a machine"))?;
        let graph = machine.plan.segment(&stage.name).ok_or_else(|| bug("the graph"))?;
        let given = given(stage, &**program, image, &trace)?;
        let known = known(graph, &given, &**program, &trace)?;
        let rims = &program.interface().rims;
        let segment = Segment { model: case.model, machine, graph, numerics, rims, known };
        for (_, node) in graph.nodes() {
            let name = &graph[node.output].name;
            let value = trace.device.get(name).filter(|_| !given.contains_key(name));
            let Some(value) = value else { continue };
            let departure = segment.departure(node.output, value)?;
            let expected = golden.device.get(name);
            let differs = expected.and_then(|expected| element_difference(value, expected));
            if let Ok(departure) = &departure
                && departure.is_beyond()
            {
                found.tell(|| beyond(name, departure));
            }
            if let Some((element, text)) = &differs
                && found.layers.iter().all(|layer| layer.bit_exact)
            {
                let told = origin(&**program, &given, name, *element);
                found.tell(|| differs_at(name, text, &told));
                found.origin = told.ok().flatten();
            }
            let (elements, bit_exact) = (value.len(), differs.is_none());
            found.layers.push(Judged { value: name.clone(), elements, departure, bit_exact });
        }
    }
    Ok(found)
}

fn bug(what: &str) -> Diagnostic {
    Diagnostic::bug(format!("{what} of a device stage is not there"))
}

/// What a stage of the machine reads, as it is handed to it.
fn given(stage: &Stage, program: &dyn Program, image: &Tensors, trace: &Trace) -> Result<Tensors> {
    let ports = &program.interface().inputs;
    let value = |name: &String| {
        let outside = image.get(name);
        let inside = || trace.host.get(name).or_else(|| trace.device.get(name));
        let tensor = outside.or_else(inside).ok_or_else(|| bug("an operand"))?;
        let tensor = convert::to_f64(tensor)?;
        let port = ports.iter().find(|port| port.name == *name && outside.is_none());
        Ok((name.clone(), port.map_or(Ok(tensor.clone()), |port| port.bounded(&tensor))?))
    };
    stage.inputs.iter().map(value).collect()
}

/// The numbers of a segment that are known: inputs as the machine holds them, and what was observed.
fn known(graph: &Graph, given: &Tensors, program: &dyn Program, trace: &Trace) -> Result<Tensors> {
    let mut known = Tensors::new();
    for (_, value) in graph.values().filter(|(_, value)| value.constant.is_none()) {
        let name = &value.name;
        let port = program.interface().inputs.iter().find(|port| port.name == *name);
        if let Some(tensor) = given.get(name) {
            let held = match port {
                Some(port) => Tensor::from_vec(tensor.shape(), port.encode(tensor)?)?,
                None => tensor.clone(),
            };
            known.insert(name.clone(), held);
        } else if let Some(tensor) = trace.device.get(name) {
            known.insert(name.clone(), convert::to_f64(tensor)?);
        }
    }
    Ok(known)
}

/// A segment on a machine, with the numbers of one image.
struct Segment<'a> {
    model: &'a Graph,
    machine: &'a Machine<'a>,
    graph: &'a Graph,
    numerics: &'a Numerics,
    rims: &'a [Rim],
    known: Tensors,
}

impl Segment<'_> {
    /// How far a value is from what the model makes of the machine's operands, or why that is not told.
    fn departure(
        &self,
        id: ValueId,
        found: &Tensor,
    ) -> Result<std::result::Result<Departure, String>> {
        let part = match self.part(id) {
            Ok(part) => part,
            Err(why) => return Ok(Err(why)),
        };
        let (expected, reference) = part.expected();
        let setup = self.machine.setup;
        let compiler = compiler_of(setup.target)?;
        let computing =
            Computing { arch: &*setup.arch, options: &setup.options, numerics: self.numerics };
        let precision =
            |node: &Node| -> Precision { compiler.precision(&part.compiled, node, computing) };
        let computed =
            Computed { precision: &precision, is_given: &|value| self.is_given(value), reference };
        let radii = bounds(&part.compiled, &part.inputs, &computed);
        let (expected, radii) = match (expected, radii) {
            (Err(problem), _) | (_, Err(problem)) => return Ok(Err(problem.message().to_owned())),
            (Ok(expected), Ok(mut radii)) => (expected, radii.remove(&self.graph[id].name)),
        };
        let Some(radii) = radii else {
            return Ok(Err("the compiled graph does not compute it".to_owned()));
        };
        let scale = 2.0_f64.powi(-part.exponent);
        Ok(self
            .worst((id, found), &expected, &radii, scale)
            .ok_or_else(|| "the model has another number of elements".to_owned()))
    }

    /// The model has the same constant, or quantises the same value in the same way.
    fn is_given(&self, value: &Value) -> bool {
        let Some(own) = self.model.value_named(&value.name) else { return false };
        if value.constant.is_some() {
            return self.model[own].constant == value.constant;
        }
        let quantiser = |graph: &Graph, id: ValueId| match &graph[graph[id].producer?].op {
            Op::Quantise(quantiser) => Some(quantiser.clone()),
            _ => None,
        };
        let compiled = self.graph.value_named(&value.name);
        let compiled = compiled.and_then(|id| quantiser(self.graph, id));
        compiled.is_some() && compiled == quantiser(self.model, own)
    }

    /// The name of a value in the model, and the exponent of its scale. What was quantised on the way to
    /// the machine is the model's value before that.
    fn in_model(&self, id: ValueId) -> (&str, i32) {
        let value = &self.graph[id];
        if let Some(scaled) = self.machine.scaled.get(&value.name) {
            return (&scaled.value, scaled.exponent);
        }
        let known = self.model.value_named(&value.name).is_some();
        let node = value.producer.map(|node| &self.graph[node]).filter(|_| !known);
        match node.map(|node| (&node.op, node.input(0))) {
            Some((Op::Quantise(_), Some(before))) => self.in_model(before),
            _ => (&value.name, 0),
        }
    }

    /// The first element beyond its bound; without one that which uses most of it. What nobody judges is
    /// left out.
    fn worst(
        &self,
        (id, found): (ValueId, &Tensor),
        expected: &[f64],
        radii: &[f64],
        scale: f64,
    ) -> Option<Departure> {
        let name = &self.graph[id].name;
        let rims: Vec<&Rim> = self.rims.iter().filter(|rim| rim.value == *name).collect();
        let numbers = found.to_f64();
        if numbers.len() != expected.len() || radii.len() != expected.len() {
            return None;
        }
        let judged = |&at: &usize| rims.iter().all(|rim| rim.holds(found.shape(), at));
        let mut worst: Option<Departure> = None;
        for element in (0..numbers.len()).filter(judged) {
            let (found, bound) = (numbers[element] * scale, radii[element] * scale);
            let departure = Departure { element, found, expected: expected[element], bound };
            if departure.is_beyond() {
                return Some(departure);
            }
            if worst.is_none_or(|worst| departure.share() > worst.share()) {
                worst = Some(departure);
            }
        }
        worst
    }

    /// What computes a value from known ones, in the compiled graph and in the model.
    fn part(&self, id: ValueId) -> std::result::Result<Part, String> {
        let internal = |problem: Diagnostic| problem.message().to_owned();
        let is_known = |id: ValueId| self.known.contains_key(&self.graph[id].name);
        let nodes =
            behind(self.graph, id, &is_known).ok_or("it depends on what is not observed")?;
        let compiled = extract(self.graph, &nodes).map_err(internal)?;
        let (mut inputs, mut model_inputs) = (Tensors::new(), Tensors::new());
        for &input in compiled.inputs() {
            let name = &compiled[input].name;
            let tensor = self.known.get(name).ok_or("an operand is not observed")?;
            inputs.insert(name.clone(), tensor.clone());
            let own = self.graph.value_named(name).ok_or("an operand is not in the graph")?;
            let (name, exponent) = self.in_model(own);
            let factor = 2.0_f64.powi(-exponent);
            let numbers = tensor.to_f64().into_iter().map(|number| number * factor).collect();
            let unscaled = Tensor::from_vec::<f64>(tensor.shape(), numbers).map_err(internal)?;
            if model_inputs.insert(name.to_owned(), unscaled).is_some() {
                return Err("the machine has two versions of an operand".to_owned());
            }
        }
        let (name, exponent) = self.in_model(id);
        let own = self.model.value_named(name).ok_or("the model does not have it")?;
        let borders = |id: ValueId| model_inputs.contains_key(&self.model[id].name);
        let model = match model_inputs.get(name) {
            Some(same) => Reference::Same(same.to_f64()),
            None => {
                let nodes = behind(self.model, own, &borders)
                    .ok_or("the model computes it from other values than the machine")?;
                let graph = extract(self.model, &nodes).map_err(internal)?;
                let inputs = typed(&graph, model_inputs)?;
                Reference::Computed { name: name.to_owned(), graph: Box::new(graph), inputs }
            }
        };
        let inputs = typed(&compiled, inputs)?;
        Ok(Part { exponent, compiled, inputs, model })
    }
}

/// What a value is in the model.
enum Reference {
    /// The same as an operand.
    Same(Vec<f64>),
    /// What a part of the model makes of operands.
    Computed { name: String, graph: Box<Graph>, inputs: Tensors },
}

impl Part {
    /// What the model makes of the machine's operands, and what is rounded on the way, relative to the
    /// sizes of numbers.
    fn expected(&self) -> (Result<Vec<f64>>, f64) {
        let (name, graph, inputs) = match &self.model {
            Reference::Same(numbers) => return (Ok(numbers.clone()), 0.0),
            Reference::Computed { name, graph, inputs } => (name, graph, inputs),
        };
        let absent = || bug("a value of the model");
        let work: u64 = graph.nodes().map(|(_, node)| graph.work(node)).sum();
        if work <= MAX_EXACT
            && let Ok(values) = execute::exact(graph, inputs, Keep::Outputs)
        {
            return (values.get(name).map(execute::ExactTensor::to_f64).ok_or_else(absent), 0.0);
        }
        let values = execute::float(graph, inputs, Keep::Outputs);
        let numbers = values.and_then(|all| all.get(name).map(Tensor::to_f64).ok_or_else(absent));
        (numbers, 2.0_f64.powi(-24))
    }
}

/// What computes a value, twice.
struct Part {
    /// Of the power of two by which the machine's value is larger.
    exponent: i32,
    compiled: Graph,
    inputs: Tensors,
    model: Reference,
}

/// The nodes between a value and those where the walk stops; `None` when it comes to an input first.
fn behind(graph: &Graph, id: ValueId, stops: &dyn Fn(ValueId) -> bool) -> Option<Vec<NodeId>> {
    let mut nodes = BTreeSet::from([graph[id].producer?]);
    let mut open: Vec<NodeId> = nodes.iter().copied().collect();
    while let Some(node) = open.pop() {
        for operand in graph[node].operands() {
            if graph[operand].constant.is_some() || stops(operand) {
                continue;
            }
            let producer = graph[operand].producer?;
            if nodes.insert(producer) {
                open.push(producer);
            }
        }
    }
    Some(nodes.into_iter().collect())
}

/// The inputs of a graph in its types; the numbers must not change.
fn typed(graph: &Graph, numbers: Tensors) -> std::result::Result<Tensors, String> {
    let input = |&id: &ValueId| {
        let Value { name, dtype, .. } = &graph[id];
        let tensor = numbers.get(name).ok_or("the model reads what the machine does not")?;
        let held = convert::for_host(tensor, *dtype).ok();
        let held = held.filter(|held| held.to_f64() == tensor.to_f64());
        let held =
            held.ok_or_else(|| format!("an operand has numbers that {dtype} does not hold"))?;
        Ok((name.clone(), held))
    };
    graph.inputs().iter().map(input).collect()
}

fn beyond(name: &str, departure: &Departure) -> Diagnostic {
    let Departure { element, found, expected, bound } = departure;
    let error = departure.error();
    let message = format!(
        "\"{name}\" leaves the model: element {element} is {found}, where the model makes {expected} of \
         the machine's operands"
    );
    let explained = match bound {
        0.0 => "nothing is rounded there that the model does not round".to_owned(),
        bound => {
            format!("they are {error:.3e} apart, and what the machine rounds explains {bound:.3e}")
        }
    };
    Diagnostic::answer("Q0629", message).with_note(explained)
}

fn differs_at(name: &str, text: &str, told: &Result<Option<Origin>>) -> Diagnostic {
    let problem = Diagnostic::answer(
        "Q0620",
        format!("the simulator leaves the golden model: value {name:?} {text}"),
    );
    match told {
        Ok(Some(Origin { place, text, .. })) => {
            problem.with_note(format!("{place} wrote it: {text}"))
        }
        Ok(None) => problem.with_note("no instruction writes it"),
        Err(why) => problem.with_note(why.message().to_owned()),
    }
}

fn origin(
    program: &dyn Program,
    given: &Tensors,
    name: &str,
    element: usize,
) -> Result<Option<Origin>> {
    let tap = program.interface().layers.iter().find(|tap| tap.value == name);
    let nowhere = || Origin::not_followed("the program does not say where this value lies");
    let tap = tap.ok_or_else(nowhere)?;
    program.origin(given, tap, element)
}

impl Bisection {
    /// Keeps the first problem of a kind: what comes behind it may follow from it.
    fn tell(&mut self, problem: impl FnOnce() -> Diagnostic) {
        let problem = problem();
        if self.problems.iter().all(|known| known.code() != problem.code()) {
            self.problems.push(problem);
        }
    }

    /// A row per value.
    pub fn table(&self) -> Table {
        let columns = vec![
            Column::text("value"),
            Column::number("elements"),
            Column::text("golden"),
            Column::number("error"),
            Column::number("bound"),
            Column::number("used"),
            Column::text("result"),
        ];
        let mut table = Table::new("layers", columns);
        for layer in &self.layers {
            let known = layer.departure.as_ref();
            let number = |of: fn(&Departure) -> f64| {
                known.map_or(Cell::Empty, |departure| Cell::Brief(of(departure)))
            };
            let result = match &layer.departure {
                Ok(departure) if departure.is_beyond() => "leaves the model",
                Ok(_) => "explained",
                Err(why) => why.as_str(),
            };
            table.push(vec![
                layer.value.as_str().into(),
                layer.elements.into(),
                if layer.bit_exact { "equal" } else { "differs" }.into(),
                number(Departure::error),
                number(|departure| departure.bound),
                number(Departure::share),
                result.into(),
            ]);
        }
        table
    }

    /// The instruction that wrote the first wrong element, as a table: what it read and wrote.
    pub fn origin_table(&self) -> Option<Table> {
        let Origin { place, text, operands, result } = self.origin.as_ref()?;
        let columns = ["what", "place", "value"].map(Column::text);
        let mut table = Table::new("origin", columns.into());
        let mut push = |what: &str, place: &str, value: &str| {
            table.push(vec![what.into(), place.into(), value.into()]);
        };
        push("instruction", place, text);
        operands.iter().for_each(|(place, number)| push("read", place, number));
        push("wrote", &result.0, &result.1);
        Some(table)
    }
}
