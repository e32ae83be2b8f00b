//! Programs and the machines that run them.

use crate::{Clipped, Demand, Origin};
use bytes::Bytes;
use quincunx_diag::{Class, Diagnostic, Result, suggestion};
use quincunx_graph::Quantiser;
use quincunx_report::{Heading, Table};
use quincunx_tensor::{DType, Tensor, Tensors, element_count, show_shape};
use quincunx_timeline::Timeline;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// A file in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Name, without folders for files that are written.
    pub name: String,
    /// Contents; shared, since models are large.
    pub bytes: Bytes,
}

impl File {
    /// A file from its name and contents.
    pub fn new(name: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        File { name: name.into(), bytes: bytes.into() }
    }

    /// The contents as UTF-8 text.
    ///
    /// # Errors
    /// `Q0503` with the offset of the first byte that is not UTF-8.
    pub fn text(&self) -> Result<&str> {
        std::str::from_utf8(&self.bytes).map_err(|error| {
            Diagnostic::invalid("Q0503", "expected UTF-8 text")
                .at_byte(error.valid_up_to() as u64)
                .name_file(&self.name)
        })
    }

    /// The name without folders.
    pub fn base_name(&self) -> &str {
        self.name.rsplit(['/', '\\']).next().unwrap_or_default()
    }

    /// The part of the name after the last dot, in lower case; empty without a dot.
    pub fn extension(&self) -> String {
        self.name.rsplit_once('.').map_or(String::new(), |(_, e)| e.to_ascii_lowercase())
    }
}

/// A kind of native file a program can be written as.
#[derive(Debug)]
pub struct EmitKind {
    /// Name for `--emit`.
    pub name: &'static str,
    /// One line.
    pub doc: &'static str,
}

/// An input or output of a program. All numbers cross a port as real numbers (f64).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Value name in the graph, or `in`/`out` for native files without names.
    pub name: String,
    /// Extents for one inference.
    pub shape: Vec<usize>,
    /// What the machine holds the numbers as; an input is moved onto it by the driver before it
    /// enters.
    #[serde(rename = "quantiser")]
    pub grid: Grid,
}

/// Which numbers a machine holds at a port. In `program.json`: `null`, the name of a type, or a
/// quantiser.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Grid {
    /// Any finite number: the program itself quantises.
    #[default]
    Real,
    /// Floats of a type; there is a code for infinity and NaN if the type has one.
    Float(#[serde(with = "type_name")] DType),
    /// Codes on a grid.
    Codes(Quantiser),
}

impl Grid {
    /// The quantiser of codes.
    pub fn quantiser(&self) -> Option<&Quantiser> {
        match self {
            Grid::Codes(quantiser) => Some(quantiser),
            Grid::Real | Grid::Float(_) => None,
        }
    }

    /// True when a port of this shape can have it: a float type, or a sound quantiser that
    /// broadcasts.
    pub fn fits(&self, shape: &[usize]) -> bool {
        match self {
            Grid::Real => true,
            Grid::Float(dtype) => dtype.is_float(),
            // In this order: only a quantiser that fits a shape of bounded size is expanded.
            Grid::Codes(quantiser) => quantiser.fits(shape) && quantiser.check().is_ok(),
        }
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Grid::Real => Ok(()),
            Grid::Float(dtype) => write!(f, "{dtype}"),
            Grid::Codes(quantiser) => write!(f, "{quantiser}"),
        }
    }
}

/// Element types by name.
mod type_name {
    use super::DType;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(dtype: &DType, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(dtype.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DType, D::Error> {
        let name = String::deserialize(from)?;
        let named = DType::all().find(|dtype| dtype.name() == name);
        named.ok_or_else(|| D::Error::custom(format!("unknown element type {name:?}")))
    }
}

impl Port {
    /// What the driver hands to the machine for this input: the numbers moved onto the port's grid,
    /// rounded exactly, as f64.
    ///
    /// # Errors
    /// `Q0505` for another shape, or a number for which the grid has no code: NaN and infinity,
    /// unless it is of floats that have one.
    pub fn encode(&self, tensor: &Tensor) -> Result<Vec<f64>> {
        if let Grid::Float(dtype) = self.grid {
            self.check_shape(tensor)?;
            let reals = tensor.reals();
            let rounded: Vec<f64> = reals.iter().map(|&real| dtype.round(real)).collect();
            let lost = |(real, rounded): &(&f64, &f64)| real.is_nan() && !rounded.is_nan();
            return match reals.iter().zip(&rounded).any(|pair| lost(&pair)) {
                true => Err(self.refuse(format!("holds NaN, for which {dtype} has no code"))),
                false => Ok(rounded),
            };
        }
        let reals = self.finite(tensor)?;
        let Some(quantiser) = self.grid.quantiser() else {
            return Ok(reals.into_owned());
        };
        let shape = if quantiser.is_uniform() { &[][..] } else { &self.shape };
        match quantiser.scalars(shape).as_deref() {
            Some([one]) => Ok(one.nearest_of(&reals)),
            Some(scalars) => Ok(reals.iter().zip(scalars).map(|(&x, q)| q.nearest(x)).collect()),
            None => Err(self.refuse("has a quantiser that does not broadcast to its shape".into())),
        }
    }

    /// The numbers before they are moved onto the grid, for machines that do so as they encode them.
    ///
    /// # Errors
    /// `Q0505` for another shape, NaN and infinity.
    pub fn finite<'t>(&self, tensor: &'t Tensor) -> Result<Cow<'t, [f64]>> {
        self.check_shape(tensor)?;
        let reals = tensor.reals();
        // A part without branches at a time, which is several times as fast as each number alone.
        let is_finite = |part: &&[f64]| part.iter().fold(true, |all, real| all & real.is_finite());
        let bad = reals.chunks(256).find(|part| !is_finite(part));
        match bad.and_then(|part| part.iter().find(|real| !real.is_finite())) {
            Some(bad) => Err(self.refuse(format!("holds {bad}, expected finite numbers"))),
            None => Ok(reals),
        }
    }

    fn check_shape(&self, tensor: &Tensor) -> Result<()> {
        if tensor.shape() == self.shape {
            return Ok(());
        }
        let (found, expected) = (show_shape(tensor.shape()), show_shape(&self.shape));
        Err(self.refuse(format!("has shape {found}, expected {expected}")))
    }

    fn refuse(&self, what: String) -> Diagnostic {
        Diagnostic::invalid("Q0505", format!("input \"{}\" {what}", self.name))
    }
}

/// What made-up random numbers of an input look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sample {
    /// Numbers between -1 and 1, moved onto the grid of the port.
    #[default]
    Fractions,
    /// Whole numbers below 2^53, for raw memory: `random & keep | set`.
    Words {
        /// The bits that are random.
        keep: u64,
        /// The bits that are one.
        set: u64,
    },
}

/// Where the value of a graph node can be read while the program runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerTap {
    /// Value name in the graph.
    pub value: String,
    /// Extents.
    pub shape: Vec<usize>,
    /// The instruction after which it is complete.
    pub after: usize,
    /// Where it is then, in the target's own notation.
    pub place: String,
}

/// A part of a program: the instructions of a layer of the graph, up to the first one of the next
/// section.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Name.
    pub name: String,
    /// Names of the graph's nodes that it computes.
    pub nodes: Vec<String>,
    /// Its first instruction; sections are in the order of instructions.
    pub first: usize,
    /// Multiplications with accumulation that the graph asks for.
    pub macs: u64,
    /// What the compiler decided about it, by name, in the target's own terms.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, u64>,
    /// Behind the last instruction of every piece that it was cut into, if it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<usize>,
}

/// What became of a constant of the graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstantUse {
    /// Its name in the graph.
    pub name: String,
    /// Who uses it: a layer, a node.
    pub user: String,
    /// It is a parameter of an operation; otherwise its numbers are in the program's data.
    pub parameter: bool,
    /// Its numbers.
    pub scalars: u64,
    /// Vectors of data that hold them: 0 of a parameter, and of numbers that are there already.
    pub vectors: u64,
}

/// What the driver makes of the numbers of an output: `factor * number + addend`, exact fractions
/// as text (`3/7`). Machines whose numbers are integers leave scales that are not powers of two to
/// the driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scaling {
    /// Name of the output.
    pub output: String,
    /// Factors: one per element, or one for all.
    pub factors: Vec<String>,
    /// Addends: one per element, or one for all.
    pub addends: Vec<String>,
}

/// What native files alone do not say about a program: names and grids of its ports, where
/// graph values can be observed, and which instructions belong to which layer. Stored in
/// `program.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    /// Inputs in order.
    pub inputs: Vec<Port>,
    /// Outputs in order.
    pub outputs: Vec<Port>,
    /// Observable graph values.
    pub layers: Vec<LayerTap>,
    /// What the driver makes of outputs that are not those of the network yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scalings: Vec<Scaling>,
    /// Which instructions belong to which layer; empty when that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<Section>,
    /// What became of the constants of the graph, in the order of use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constants: Vec<ConstantUse>,
    /// Constants with numbers that the machine's type does not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clipped: Vec<Clipped>,
    /// Values of which only a part is right.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rims: Vec<Rim>,
}

impl Interface {
    /// The number of the layer that a tap reads, which has such an element.
    ///
    /// # Errors
    /// `Q9999` for a tap of another program and an element that the value does not have.
    pub fn layer(&self, tap: &LayerTap, element: usize) -> Result<usize> {
        let number = self.layers.iter().position(|layer| layer == tap);
        let has = element_count(&tap.shape).is_some_and(|count| element < count);
        number.filter(|_| has).ok_or_else(|| {
            Diagnostic::bug(format!(
                "the program has no layer {:?} with element {element}",
                tap.value
            ))
        })
    }
}

/// A value of which the machine computes only the inner part right; nobody judges the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rim {
    /// Value name in the graph.
    pub value: String,
    /// For every axis the first index that is right, and the one behind the last.
    pub inside: Vec<(usize, usize)>,
}

impl Rim {
    /// True for the element with this number, in row-major order, of a value of this shape.
    pub fn holds(&self, shape: &[usize], element: usize) -> bool {
        let mut rest = element;
        shape.iter().zip(&self.inside).rev().all(|(&extent, &(from, to))| {
            let index = rest % extent.max(1);
            rest /= extent.max(1);
            (from..to).contains(&index)
        })
    }
}

/// Which simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The fastest one that the target has for this program; numbers and notes are those of `Exec`.
    Fast,
    /// The readable one, instruction by instruction.
    Exec,
    /// The same, and a result that leaves the type of its place is a fault.
    Checked,
}

/// Size of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Instructions.
    pub instructions: u64,
    /// Bytes of machine code and data.
    pub bytes: u64,
    /// Cycles of one inference; `None` while the target has no timing model.
    pub cycles: Option<u64>,
    /// Cycles from one inference to the next where they overlap; `None` where they follow each
    /// other.
    pub interval: Option<u64>,
    /// Cycles in a second, when the clock is known.
    pub hertz: Option<f64>,
    /// Further figures of this machine: name and value.
    pub figures: Vec<(&'static str, String)>,
}

impl Stats {
    /// Seconds of one inference, when they are known.
    pub fn seconds(&self) -> Option<f64> {
        Some(self.cycles? as f64 / self.hertz?)
    }

    /// Inferences in a second, one after the other or overlapping, when that is known.
    pub fn rate(&self) -> Option<f64> {
        let cycles = self.interval.or(self.cycles).filter(|&cycles| cycles > 0)?;
        Some(self.hertz? / cycles as f64)
    }
}

/// A family of rules that [`Program::verify`] checks.
#[derive(Clone, Debug)]
pub struct Check {
    /// What holds when no problem has one of the codes.
    pub holds: &'static str,
    /// Codes of the family, as ranges from a first to a last one.
    pub codes: &'static [(&'static str, &'static str)],
    /// How many things are checked.
    pub count: u64,
    /// What these are: `operations`.
    pub things: &'static str,
    /// Checked only in programs without errors.
    pub needs_legal: bool,
}

impl Check {
    /// Rules that are checked in every program.
    pub fn new(
        holds: &'static str,
        codes: &'static [(&'static str, &'static str)],
        count: usize,
        things: &'static str,
    ) -> Check {
        Check { holds, codes, count: count as u64, things, needs_legal: false }
    }

    /// The same, checked only in programs without errors.
    #[must_use]
    pub fn of_legal(self) -> Check {
        Check { needs_legal: true, ..self }
    }

    /// True when a problem with this code breaks a rule of the family.
    pub fn has(&self, code: &str) -> bool {
        self.codes.iter().any(|(first, last)| (*first..=*last).contains(&code))
    }
}

/// Tables about a program, under a name.
#[derive(Debug)]
pub struct View {
    /// Name.
    pub name: &'static str,
    /// One line.
    pub doc: &'static str,
    /// What shows it.
    pub verb: Verb,
}

/// What shows a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `time`.
    Time,
    /// `time --synth`, which runs a synthesis tool.
    Synth,
    /// `compile`, in its summary: tables of properties.
    Compile,
    /// `inspect`.
    Inspect,
    /// `inspect --table`: what is too long to be shown always.
    Table,
}

impl dyn Program + '_ {
    /// The tables of a view.
    ///
    /// # Errors
    /// `Q0508` for a name that no view has; as [`Program::tables`].
    pub fn view(&self, name: &str) -> Result<Vec<Table>> {
        let names = self.views().iter().map(|view| view.name);
        if names.clone().any(|known| known == name) {
            return self.tables(name);
        }
        Err(Diagnostic::usage("Q0508", format!("the program has no view {name:?}"))
            .help(suggestion(name, "views", names)))
    }

    /// The tables of all views that a verb shows.
    ///
    /// # Errors
    /// As [`Program::tables`].
    pub fn shown_by(&self, verb: Verb) -> Result<Vec<Table>> {
        let views = self.views().iter().filter(|view| view.verb == verb);
        Ok(views.map(|view| self.tables(view.name)).collect::<Result<Vec<_>>>()?.concat())
    }
}

/// A compiled or read program.
pub trait Program: Any + Send + Sync {
    /// Ports and observable graph values.
    fn interface(&self) -> &Interface;
    /// What made-up random numbers of the input at a place in the interface look like.
    fn sample(&self, _input: usize) -> Sample {
        Sample::Fractions
    }
    /// Writes native files of one of the target's kinds ([`Info::kinds`](crate::Info::kinds)), which
    /// the caller has checked.
    ///
    /// # Errors
    /// When the program cannot be expressed in that kind.
    fn emit(&self, kind: &str, stem: &str) -> Result<Vec<File>>;
    /// The kind of files in which a folder holds this program, where that is not the target's
    /// [`folder_kind`](crate::Info::folder_kind).
    fn folder_kind(&self) -> Option<&'static str> {
        None
    }

    /// As [`Program::emit`], where pictures get this heading with a title of their own.
    ///
    /// # Errors
    /// As [`Program::emit`].
    fn emit_headed(&self, kind: &str, stem: &str, _heading: &Heading) -> Result<Vec<File>> {
        self.emit(kind, stem)
    }
    /// Legality and hazard rules; an empty list means the program is legal.
    fn verify(&self) -> Vec<Diagnostic>;

    /// The rules that it breaks: the errors of [`Program::verify`] but what cannot be judged and what
    /// the program was meant to compute. A machine may have a shorter way to them.
    fn illegal(&self) -> Vec<Diagnostic> {
        let mut problems = self.verify();
        problems.retain(|problem| problem.is_error() && problem.class() == Class::Invalid);
        problems
    }

    /// The families of rules that [`Program::verify`] checks in this program.
    fn checks(&self) -> Vec<Check> {
        Vec::new()
    }
    /// What keeps the program from running at the machine's clock, as warnings.
    fn clock_warnings(&self) -> Vec<Diagnostic> {
        Vec::new()
    }
    /// Prepares a simulator.
    ///
    /// # Errors
    /// When the program is not legal, or the target has no such simulator.
    fn load(&self, engine: Engine) -> Result<Box<dyn Machine>>;
    /// Runs one inference in the readable simulator, up to where the value of a layer tap is read, and
    /// tells which instruction gave an element (row-major) its number; `None` when no instruction did,
    /// as for numbers of an input.
    ///
    /// # Errors
    /// `Q0522` for a program whose values cannot be followed; as [`Program::load`] and [`Machine::run`].
    fn origin(&self, inputs: &Tensors, tap: &LayerTap, element: usize) -> Result<Option<Origin>>;
    /// When what happens, by the machine's timing model. Values of tensors never matter.
    ///
    /// # Errors
    /// A program that the model cannot time.
    fn time(&self) -> Result<Timeline>;
    /// Size figures.
    fn stats(&self) -> Stats;
    /// What it takes of the machine and what holds it up.
    ///
    /// # Errors
    /// As [`Program::time`].
    fn demand(&self) -> Result<Demand> {
        Ok(Demand::of(&self.time()?))
    }
    /// True when an inference depends on those before it: all run in order on one machine, which
    /// begins anew when it is loaded.
    fn keeps_state(&self) -> bool {
        false
    }
    /// The views of the program.
    fn views(&self) -> &'static [View] {
        &[]
    }
    /// The tables of one of [`Program::views`], which the caller has checked.
    ///
    /// # Errors
    /// As [`Program::time`]; a tool that is missing or fails.
    fn tables(&self, _view: &str) -> Result<Vec<Table>> {
        Ok(Vec::new())
    }
    /// For the target to find its own type again.
    fn as_any(&self) -> &dyn Any;
}

/// A program loaded into a simulator.
pub trait Machine: Send {
    /// One inference: real numbers for every input port, by name; returns every output port.
    ///
    /// # Errors
    /// Inputs that are missing or do not fit; faults of the program at run time.
    fn run(&mut self, inputs: &Tensors) -> Result<Tensors>;

    /// One inference that returns every output port and the value of every layer tap, by name.
    ///
    /// # Errors
    /// As [`Machine::run`].
    fn run_traced(&mut self, inputs: &Tensors) -> Result<Tensors>;

    /// Most inferences that [`Machine::run_batch`] gains from; 1 where it does not.
    fn batch(&self) -> usize {
        1
    }

    /// As [`Machine::run`], one inference after the other, for machines without notes.
    fn run_batch(&mut self, images: &[Tensors]) -> Vec<Result<Tensors>> {
        images.iter().map(|image| self.run(image)).collect()
    }

    /// The outputs of as many inferences, whose inputs, of type f64, lie stacked along a new outermost axis; so
    /// do the outputs. `None` where the machine takes them one by one, or where one is at fault: what
    /// [`Machine::run_batch`] says then is said.
    fn run_stacked(&mut self, _inputs: &Tensors, _images: usize) -> Option<Tensors> {
        None
    }

    /// Results of the last run that saturated, by layer.
    fn clipped(&mut self) -> Vec<Clipped> {
        Vec::new()
    }

    /// What was noticed in the last run besides numbers, as notes and warnings: tracepoints.
    fn notes(&mut self) -> Vec<Diagnostic> {
        Vec::new()
    }

    /// Tables about the last run that an option asks for.
    fn tables(&mut self) -> Vec<Table> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rims_hold_the_inner_elements() {
        let rim = Rim { value: "v".to_owned(), inside: vec![(0, 1), (1, 3), (0, 2)] };
        let held: Vec<usize> = (0..12).filter(|&at| rim.holds(&[1, 4, 3], at)).collect();
        assert_eq!(held, [3, 4, 6, 7]);
    }

    fn encoded(grid: Grid, reals: &[f64]) -> Result<Vec<f64>> {
        let port = Port { name: "x".to_owned(), shape: vec![reals.len()], grid };
        port.encode(&Tensor::from_vec(&port.shape, reals.to_vec())?)
    }

    #[test]
    fn floats_round_to_even_and_keep_infinities() {
        let reals = [1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, 3e38, -f64::INFINITY];
        let found = encoded(Grid::Float(DType::BF16), &reals).unwrap();
        assert_eq!(found, [1.0, 1.015_625, 226.0 / 128.0 * 2.0_f64.powi(127), -f64::INFINITY]);
        let half = encoded(Grid::Float(DType::F16), &[65_519.0, 65_520.0, 1e-8, f64::NAN]).unwrap();
        assert_eq!(half[..3], [65_504.0, f64::INFINITY, 0.0]);
        assert!(half[3].is_nan());
        assert_eq!(encoded(Grid::Float(DType::F32), &[0.1]).unwrap(), [f64::from(0.1_f32)]);
        assert_eq!(encoded(Grid::Real, &[f64::NAN]).unwrap_err().code(), "Q0505");
        let narrow = Grid::Float(DType::Narrow(quincunx_tensor::Narrow::E2M1));
        assert_eq!(encoded(narrow, &[f64::NAN]).unwrap_err().code(), "Q0505");
    }

    /// Program folders hold grids as they always did: `null` or a quantiser; types by name.
    #[test]
    fn grids_are_stored_as_null_a_name_or_a_quantiser() {
        let codes = Grid::Codes(Quantiser::symmetric(true, 8, 0.5));
        for (grid, start) in
            [(Grid::Real, "null"), (Grid::Float(DType::BF16), "\"bf16\""), (codes, "{")]
        {
            let text = serde_json::to_string(&grid).unwrap();
            assert!(text.starts_with(start), "{text}");
            assert_eq!(serde_json::from_str::<Grid>(&text).unwrap(), grid);
        }
        assert!(serde_json::from_str::<Grid>("\"float\"").is_err());
        assert!(!Grid::Float(DType::I8).fits(&[1]));
    }
}
