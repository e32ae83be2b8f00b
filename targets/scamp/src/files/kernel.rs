//! Cain's input files: filters, registers and settings of the search.
//!
//! Facts: `cain` (`docs/bibliography.md`).

use super::layout::{self, DigitalLayout};
use super::places::{at, located};
use crate::goal::{Bag, Cell, Goal, position};
use crate::isa::Reg;
use quincunx_diag::{Diagnostic, SourceId, did_you_mean};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Largest depth of the approximation that is tried, and largest depth of a kernel.
pub const MAX_DEPTH: u32 = 60;

/// Most channels of a kernel.
const MAX_CHANNELS: usize = 1 << 10;

/// Which kind of program is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Analogue registers.
    Analogue,
    /// Unsigned numbers in 1-bit registers.
    Digital,
    /// Signed numbers spread over a block of elements.
    SuperPixel,
}

/// One kernel of a filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Entries in weights of the file, not scaled: row, column, channel; the first row northmost.
    pub array: Vec<Vec<Vec<f64>>>,
    /// Factor.
    pub scale: f64,
    /// Power of two by which the entries are multiplied as well.
    pub depth: i32,
}

/// A kernel file.
#[derive(Clone, Debug)]
pub struct KernelFile {
    /// Name of the run.
    pub name: String,
    /// Which kind of program.
    pub mode: Mode,
    /// Kernels by output register, in the order of names.
    pub kernels: BTreeMap<String, Kernel>,
    /// Registers of the inputs, in the order of channels.
    pub inputs: Vec<String>,
    /// Registers that a program may use, outputs first.
    pub registers: Vec<String>,
    /// Largest depth of the approximation.
    pub max_depth: u32,
    /// Largest sum of errors that is accepted before the largest depth is used.
    pub max_error: f64,
    /// Where the bits of numbers are, in digital and super-pixel mode.
    pub digital: Option<DigitalLayout>,
    /// Every other setting by its dotted name, in the order of names.
    pub settings: BTreeMap<String, String>,
    /// What looks wrong and does not matter.
    pub warnings: Vec<Diagnostic>,
}

pub(super) type Read<T> = Result<T, Diagnostic>;

/// Reads a file.
///
/// # Errors
/// `Q5050` for text that is not a JSON object, `Q5051` for a field that is missing or has another
/// type, `Q5052` for a value that no kernel has.
pub fn read_kernels(text: &str) -> Read<KernelFile> {
    read(text, SourceId(0))
}

/// The same of the source of this number, in which problems and warnings have places.
pub(super) fn read(text: &str, source: SourceId) -> Read<KernelFile> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let message = format!("not JSON, line {line} column {column}: {error}");
        Diagnostic::invalid("Q5050", message).label(at(text, line, column, source), "")
    })?;
    let Value::Object(object) = value else {
        return Err(Diagnostic::invalid("Q5050", "expected a JSON object"));
    };
    let mut file = Reader { warnings: Vec::new() }
        .file(&object)
        .map_err(|problem| located(problem, text, source))?;
    let warnings = std::mem::take(&mut file.warnings);
    file.warnings = warnings.into_iter().map(|problem| located(problem, text, source)).collect();
    Ok(file)
}

const KNOWN: [&str; 13] = [
    "name",
    "verbose",
    "target",
    "mode",
    "goalSystem",
    "maxApproximationDepth",
    "maxApproximationError",
    "3d",
    "filter",
    "registerAllocator",
    "runConfig",
    "pairGen",
    "verifier",
];

struct Reader {
    warnings: Vec<Diagnostic>,
}

pub(super) fn missing(name: &str, expected: &str) -> Diagnostic {
    Diagnostic::invalid("Q5051", format!("`{name}`: expected {expected}"))
}

pub(super) fn wrong(name: &str, what: String) -> Diagnostic {
    Diagnostic::invalid("Q5052", format!("`{name}`: {what}"))
}

fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Read<&'a str> {
    object.get(name).and_then(Value::as_str).ok_or_else(|| missing(name, "a text"))
}

pub(super) fn object<'a>(
    parent: &'a Map<String, Value>,
    name: &str,
) -> Read<&'a Map<String, Value>> {
    parent.get(name).and_then(Value::as_object).ok_or_else(|| missing(name, "an object"))
}

fn number(value: &Value, name: &str) -> Read<f64> {
    value.as_f64().filter(|v| v.is_finite()).ok_or_else(|| missing(name, "a number"))
}

/// One of some words, in any case.
fn word(object: &Map<String, Value>, name: &str, words: &[&str]) -> Read<usize> {
    let found = text(object, name)?;
    words.iter().position(|word| word.eq_ignore_ascii_case(found)).ok_or_else(|| {
        wrong(name, format!("{found:?}, expected one of {}", words.join(", ")))
            .help_if(did_you_mean(found, words.iter().copied()))
    })
}

impl Reader {
    fn file(mut self, object: &Map<String, Value>) -> Read<KernelFile> {
        for key in object.keys().filter(|key| !KNOWN.contains(&key.as_str())) {
            let problem = Diagnostic::warning("Q5053", format!("`{key}`: the field is unknown"));
            self.warnings.push(problem.help_if(did_you_mean(key, KNOWN)));
        }
        let name = text(object, "name")?.to_owned();
        word(object, "target", &["scamp5"])?;
        let modes = [Mode::Analogue, Mode::Digital, Mode::SuperPixel];
        let mode = modes[word(object, "mode", &["analogue", "digital", "superpixel"])?];
        if mode != Mode::SuperPixel {
            word(object, "goalSystem", &["atom", "array"])?;
        }
        let max_depth = self.max_depth(object)?;
        let name_of_error = "maxApproximationError";
        let max_error = match object.get(name_of_error) {
            Some(value) => number(value, name_of_error)?,
            None => return Err(missing(name_of_error, "a number")),
        };
        let kernels = self.filter(self::object(object, "filter")?)?;
        let (inputs, registers) = self.registers(object, &kernels, mode)?;
        let channels = kernels.values().flat_map(|kernel| kernel.array.iter().flatten());
        let channels = channels.map(Vec::len).max().unwrap_or(0);
        if channels > inputs.len() {
            let what = format!("{} names, the filter has {channels} channels", inputs.len());
            return Err(wrong("registerAllocator.initialRegisters", what));
        }
        let digital = match mode {
            Mode::Analogue => None,
            Mode::Digital => Some(layout::digital(self::object(object, "pairGen")?)?),
            Mode::SuperPixel => Some(layout::super_pixel(self::object(object, "pairGen")?)?),
        };
        let mut settings = BTreeMap::new();
        for key in ["verbose", "goalSystem", "3d", "runConfig", "pairGen", "verifier"] {
            if let Some(value) = object.get(key) {
                flatten(key, value, &mut settings);
            }
        }
        self.lint_settings(object);
        let warnings = self.warnings;
        Ok(KernelFile {
            name,
            mode,
            kernels,
            inputs,
            registers,
            max_depth,
            max_error,
            digital,
            settings,
            warnings,
        })
    }

    fn max_depth(&mut self, object: &Map<String, Value>) -> Read<u32> {
        let name = "maxApproximationDepth";
        let value = object.get(name).and_then(Value::as_i64);
        let value = value.ok_or_else(|| missing(name, "a whole number"))?;
        let depth = u32::try_from(value.max(0)).unwrap_or(u32::MAX);
        if depth > MAX_DEPTH {
            let message = format!("`{name}` is {value}; depths up to {MAX_DEPTH} are tried");
            self.warnings.push(Diagnostic::warning("Q5053", message));
        }
        Ok(depth.min(MAX_DEPTH))
    }

    fn filter(&mut self, filter: &Map<String, Value>) -> Read<BTreeMap<String, Kernel>> {
        if filter.is_empty() {
            return Err(wrong("filter", "it holds no kernel".to_owned()));
        }
        let mut kernels = BTreeMap::new();
        for (name, value) in filter {
            let kernel = kernel(name, value)?;
            let widths: BTreeSet<usize> = kernel.array.iter().map(Vec::len).collect();
            if widths.iter().all(|width| *width == 0) {
                return Err(wrong(&format!("filter.{name}"), "it has no entry".to_owned()));
            }
            if widths.len() > 1 {
                let message = format!("`filter.{name}`: rows differ in length");
                let problem = Diagnostic::warning("Q5053", message);
                self.warnings.push(problem.help("shorter ones end in zeros, as Cain reads them"));
            }
            kernels.insert(name.clone(), kernel);
        }
        Ok(kernels)
    }

    /// Input registers and the pool: outputs, then the available registers that are not there yet.
    fn registers(
        &mut self,
        file: &Map<String, Value>,
        kernels: &BTreeMap<String, Kernel>,
        mode: Mode,
    ) -> Read<(Vec<String>, Vec<String>)> {
        let allocator = object(file, "registerAllocator")?;
        word(allocator, "name", &["linearScan"])?;
        let list = |name: &str| {
            let mut names = Vec::new();
            let whole = format!("registerAllocator.{name}");
            collect_names(allocator.get(name).unwrap_or(&Value::Null), &whole, None, &mut names)?;
            Ok::<_, Diagnostic>(names)
        };
        let (available, inputs) = (list("availableRegisters")?, list("initialRegisters")?);
        let mut pool: Vec<String> = kernels.keys().cloned().collect();
        let mut known: BTreeSet<String> = pool.iter().cloned().collect();
        for name in available {
            if known.insert(name.clone()) {
                pool.push(name);
            }
        }
        if mode == Mode::Analogue
            && let Some(bad) = pool.iter().chain(&inputs).find(|name| Reg::new(name).is_none())
        {
            let of = match (kernels.contains_key(bad), inputs.contains(bad)) {
                (true, _) => "filter",
                (_, true) => "registerAllocator.initialRegisters",
                _ => "registerAllocator.availableRegisters",
            };
            return Err(wrong(of, format!("{bad:?} is not the name of a register")));
        }
        Ok((inputs, pool))
    }

    /// What Cain's manual says and its code does not accept.
    fn lint_settings(&mut self, object: &Map<String, Value>) {
        if object.get("verifier").and_then(Value::as_str) == Some("none") {
            let text =
                "`verifier`: Cain accepts \"None\" only, although its manual writes \"none\"";
            self.warnings.push(Diagnostic::warning("Q5053", text));
        }
        let strategy = object.get("pairGen").and_then(|p| p.get("strategy"));
        if strategy.and_then(|s| s.get("heuristic")).is_some_and(Value::is_string) {
            let text = "`pairGen.strategy.heuristic`: Cain accepts an object with a `name` only";
            self.warnings.push(Diagnostic::warning("Q5053", text));
        }
    }
}

/// A list of names, or in super-pixel mode a list of lists whose names get the bank before them.
pub(super) fn collect_names(
    value: &Value,
    name: &str,
    bank: Option<usize>,
    names: &mut Vec<String>,
) -> Read<()> {
    let list = value.as_array().ok_or_else(|| missing(name, "a list of names"))?;
    for (index, entry) in list.iter().enumerate() {
        match (entry, bank) {
            (Value::String(text), None) => names.push(text.clone()),
            (Value::String(text), Some(bank)) => names.push(format!("{bank}:{text}")),
            (Value::Array(_), None) => collect_names(entry, name, Some(index), names)?,
            _ => return Err(missing(name, "a list of names")),
        }
    }
    Ok(())
}

fn kernel(name: &str, value: &Value) -> Read<Kernel> {
    let name = &format!("filter.{name}");
    let (array, scale, depth) = match value {
        Value::Object(object) => {
            let scale =
                object.get("scale").map_or(Ok(1.0), |v| number(v, &format!("{name}.scale")));
            let depth = match object.get("depth") {
                None => 0,
                Some(value) => value
                    .as_i64()
                    .ok_or_else(|| missing(&format!("{name}.depth"), "a whole number"))?,
            };
            (object.get("array").unwrap_or(&Value::Null), scale?, depth)
        }
        other => (other, 1.0, 0),
    };
    if depth.unsigned_abs() > u64::from(MAX_DEPTH) {
        let what = format!("a depth of {depth}, expected -{MAX_DEPTH} to {MAX_DEPTH}");
        return Err(wrong(name, what));
    }
    let rows = array.as_array().ok_or_else(|| missing(name, "rows of numbers"))?;
    let row = |row: &Value| {
        let entries = row.as_array().ok_or_else(|| missing(name, "rows of numbers"))?;
        entries.iter().map(|entry| channels(name, entry)).collect::<Read<Vec<_>>>()
    };
    let array = rows.iter().map(row).collect::<Read<Vec<_>>>()?;
    Ok(Kernel { array, scale, depth: depth as i32 })
}

fn channels(name: &str, entry: &Value) -> Read<Vec<f64>> {
    match entry {
        Value::Array(list) if list.len() > MAX_CHANNELS => {
            Err(wrong(name, format!("{} channels, at most {MAX_CHANNELS}", list.len())))
        }
        Value::Array(list) => list.iter().map(|value| number(value, name)).collect(),
        single => Ok(vec![number(single, name)?]),
    }
}

/// Settings by dotted names.
fn flatten(name: &str, value: &Value, settings: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                flatten(&format!("{name}.{key}"), value, settings);
            }
        }
        Value::String(text) => drop(settings.insert(name.to_owned(), text.clone())),
        other => drop(settings.insert(name.to_owned(), other.to_string())),
    }
}

impl Kernel {
    /// Weights by cell; entries of 0 are left out.
    fn weights(&self) -> Vec<(Cell, f64)> {
        let width = self.array.iter().map(Vec::len).max().unwrap_or(0);
        let mut weights = Vec::new();
        for (i, row) in self.array.iter().enumerate() {
            for (j, entry) in row.iter().enumerate() {
                let (x, y) = position(i, j, self.array.len(), width);
                for (z, &value) in (0..).zip(entry).filter(|&(_, &value)| value != 0.0) {
                    let weight = value * self.scale * 2.0_f64.powi(self.depth);
                    weights.push((Cell { x, y, z }, weight));
                }
            }
        }
        weights
    }
}

/// The nearest whole number, halves upwards.
fn round(value: f64) -> f64 {
    (value + 0.5).floor()
}

impl KernelFile {
    /// The depth of the approximation and its error: the first depth whose error is small enough,
    /// else the largest one.
    pub fn approximation(&self) -> (u32, f64) {
        let weights: Vec<f64> =
            self.kernels.values().flat_map(|kernel| kernel.weights()).map(|(_, w)| w).collect();
        let error = |depth: u32| {
            let unit = 2.0_f64.powi(depth as i32);
            weights.iter().map(|w| (w - round(w * unit) / unit).abs()).sum::<f64>()
        };
        let found = (0..=self.max_depth).map(|depth| (depth, error(depth)));
        let mut last = (self.max_depth, error(self.max_depth));
        for (depth, error) in found {
            if error <= self.max_error {
                last = (depth, error);
                break;
            }
        }
        last
    }

    /// The final goals in units of `2^-depth`, in the order of the output registers.
    ///
    /// # Errors
    /// `Q5054` when a count is too large.
    pub fn goals(&self, depth: u32) -> Read<Bag> {
        let unit = 2.0_f64.powi(depth as i32);
        let goal = |(name, kernel): (&String, &Kernel)| {
            let mut goal = Goal::default();
            for (cell, weight) in kernel.weights() {
                let count = round(weight * unit);
                if count.is_nan() || count.abs() >= 2.0_f64.powi(52) {
                    let message = format!("`filter.{name}`: {count} units of 2^-{depth} in a cell");
                    return Err(Diagnostic::unsupported("Q5054", message));
                }
                goal.set(cell, count as i64);
            }
            Ok(goal)
        };
        self.kernels.iter().map(goal).collect::<Read<Vec<_>>>().map(Bag)
    }

    /// The names of the output registers, in the order of the goals.
    pub fn outputs(&self) -> Vec<&str> {
        self.kernels.keys().map(String::as_str).collect()
    }

    /// The names of the inputs that the kernels read.
    pub(crate) fn channel_inputs(&self) -> &[String] {
        self.inputs.get(..self.channels()).unwrap_or(&self.inputs)
    }

    /// Number of input channels that the kernels read.
    pub fn channels(&self) -> usize {
        let entries = self.kernels.values().flat_map(|kernel| kernel.array.iter().flatten());
        entries.map(Vec::len).max().unwrap_or(0).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(filter: &str, depth: u32, error: f64) -> KernelFile {
        read_kernels(&format!(
            "{{\"name\": \"t\", \"target\": \"scamp5\", \"mode\": \"analogue\", \"goalSystem\": \"atom\", \
             \"maxApproximationDepth\": {depth}, \"maxApproximationError\": {error}, \
             \"filter\": {filter}, \"registerAllocator\": {{\"name\": \"linearScan\", \
             \"availableRegisters\": [\"A\", \"B\"], \"initialRegisters\": [\"A\"]}}}}"
        ))
        .unwrap()
    }

    #[test]
    fn halves_round_upwards() {
        let file = file("{\"A\": [[0.5, -0.5, 0.25]]}", 0, 0.0);
        assert_eq!(file.approximation(), (0, 1.25));
        assert_eq!(file.goals(0).unwrap().0[0].compact(), "<1 0 0>");
    }

    #[test]
    fn the_first_depth_that_is_good_enough() {
        let filter = "{\"B\": {\"array\": [[3, 1]], \"depth\": -3}, \"A\": {\"array\": [[1]], \"scale\": 0.5}}";
        assert_eq!(file(filter, 6, 0.0).approximation(), (3, 0.0));
        assert_eq!(file(filter, 6, 0.3).approximation(), (1, 0.25));
        assert_eq!(file(filter, 6, 0.0).outputs(), ["A", "B"]);
        // The bag has one frame for all its goals.
        assert_eq!(file(filter, 6, 0.0).goals(3).unwrap().compact(), "{<0 4 0>, <3 1 0>}");
    }

    #[test]
    fn ragged_rows_have_the_width_of_the_longest() {
        let file = file("{\"A\": [[1], [1, 2, 3], []]}", 0, 0.0);
        assert_eq!(file.goals(0).unwrap().0[0].compact(), "<1 0 0; 1 2 3; 0 0 0>");
    }

    #[test]
    fn bad_files_are_refused() {
        for (text, code) in [
            ("", "Q5050"),
            ("[]", "Q5050"),
            ("{}", "Q5051"),
            ("{\"name\": 3}", "Q5051"),
            ("{\"name\": \"a\", \"target\": \"scamp6\"}", "Q5052"),
            ("{\"name\": \"a\", \"target\": \"scamp5\"}", "Q5051"),
        ] {
            assert_eq!(read_kernels(text).unwrap_err().code(), code, "{text}");
        }
    }
}
