//! A page that shows what registers hold after each instruction: the kernel, and the image that it
//! makes of a test picture.
//!
//! The page has all of its data, its style and its script in it. Arrow keys, Home and End go from
//! instruction to instruction, as its slider does.

use crate::arch::ScampArch;
use crate::isa::Reg;
use crate::program::{Named, Program, Space, access};
use crate::simulate::{Executor, Settings};
use crate::symbolic::{Computed, Level, Term, Value, follow};
use quincunx_diag::{Diagnostic, Result};
use quincunx_report::Heading;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Side of the array of a page.
pub(super) const SIDE: usize = 32;

/// Most instructions of a page; each takes some kilobytes.
const MAX_INSTRUCTIONS: usize = 1000;

/// Largest kernel that is shown as a table, in cells from its first to its last one.
const MAX_CELLS: i64 = 225;

/// What registers hold after each instruction of a program.
pub(super) struct Steps<'a> {
    program: &'a Program,
    inputs: Vec<Named>,
    /// What each instruction writes.
    writes: Vec<BTreeSet<Named>>,
    images: Images,
}

impl<'a> Steps<'a> {
    /// Runs a legal program on the test picture.
    ///
    /// # Errors
    /// `Q5046` for a program that is too long; what the simulator says.
    pub(super) fn new(
        program: &'a Program,
        arch: &ScampArch,
        settings: &Settings,
    ) -> Result<Steps<'a>> {
        let count = program.instructions.len();
        if count > MAX_INSTRUCTIONS {
            let message = format!("{count} instructions, at most {MAX_INSTRUCTIONS} are shown");
            return Err(Diagnostic::unsupported("Q5046", message));
        }
        let inputs = program.input_registers(arch);
        // 1-bit registers have several names.
        let storage = |(space, register): Named| match space {
            Space::Analogue => (space, register),
            Space::Digital => (space, arch.digital(register).unwrap_or(register)),
        };
        let written = |inst| access(inst).writes.into_iter().map(storage).collect();
        let writes: Vec<BTreeSet<Named>> = program.instructions.iter().map(written).collect();
        let images = Images::new(program, arch, settings, &inputs, &writes)?;
        Ok(Steps { program, inputs, writes, images })
    }

    /// All registers that are read or written.
    pub(super) fn names(&self) -> BTreeSet<Named> {
        self.inputs.iter().copied().chain(self.writes.iter().flatten().copied()).collect()
    }

    /// The texts of the steps: first the inputs, then the instructions.
    pub(super) fn texts(&self) -> impl Iterator<Item = String> {
        let instructions = self.program.instructions.iter().map(|inst| inst.text());
        std::iter::once("inputs".to_owned()).chain(instructions)
    }

    /// The registers that a step writes, counted as the texts are, with their images.
    pub(super) fn writes(&self, step: usize) -> Vec<(Named, &[f64])> {
        let (names, start) = match step.checked_sub(1) {
            None => (self.inputs.iter().copied().collect(), None),
            Some(index) => (self.writes[index].clone(), Some(index)),
        };
        let image = |named: Named| match start {
            None => Some((named, self.images.start.get(&named).map_or(&[][..], Vec::as_slice))),
            Some(index) => Some((named, self.images.after.get(&(index, named))?.as_slice())),
        };
        names.into_iter().filter_map(image).collect()
    }
}

/// The page of a legal program.
///
/// # Errors
/// `Q5046` for a program that is too long for a page; what the simulator says.
pub(crate) fn page(
    program: &Program,
    arch: &ScampArch,
    settings: &Settings,
    heading: &Heading,
) -> Result<String> {
    let steps = Steps::new(program, arch, settings)?;
    let kernels = kernels(program, &steps.inputs, &steps.writes);
    let kernel = |step: usize, named: Named| match step.checked_sub(1) {
        None => own(named.1),
        Some(index) => {
            let kernel = kernels.get(&(index, named)).cloned();
            kernel.unwrap_or_else(|| json!("no kernel"))
        }
    };
    let of_step = |(step, text): (usize, String)| {
        let shown = |(named, image)| (label(named), steps.images.shown(image, kernel(step, named)));
        let writes: serde_json::Map<_, _> = steps.writes(step).into_iter().map(shown).collect();
        json!({ "text": text, "writes": writes })
    };
    let data = json!({
        "width": SIDE,
        "height": SIDE,
        "registers": steps.names().into_iter().map(label).collect::<Vec<_>>(),
        "steps": steps.texts().enumerate().map(of_step).collect::<Vec<_>>(),
    });
    // No text ends the script.
    let data = data.to_string().replace('<', "\\u003c");
    let body = format!(
        "<p><label>Instruction <input type=\"range\" id=\"at\" min=\"0\" value=\"0\"></label> \
         <output id=\"count\"></output></p>\n<div id=\"steps\"><ol id=\"list\" start=\"0\"></ol>\
         <div id=\"registers\"></div></div>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>\n{}</script>\n",
        include_str!("steps.js")
    );
    Ok(heading.page(include_str!("steps.css"), &body))
}

/// The name of a register; 1-bit registers are told apart.
pub(super) fn label((space, register): Named) -> String {
    match space {
        Space::Analogue => register.to_string(),
        Space::Digital => format!("{register} (1 bit)"),
    }
}

/// The kernel of what an input holds at first.
fn own(register: Reg) -> serde_json::Value {
    let value = Value::from([(Term { source: register, x: 0, y: 0 }, 1_i32.into())]);
    described(register, &value)
}

/// Images of registers.
struct Images {
    start: BTreeMap<Named, Vec<f64>>,
    after: BTreeMap<(usize, Named), Vec<f64>>,
    /// The largest magnitude, which is white or black everywhere.
    most: f64,
}

impl Images {
    fn new(
        program: &Program,
        arch: &ScampArch,
        settings: &Settings,
        inputs: &[Named],
        writes: &[BTreeSet<Named>],
    ) -> Result<Images> {
        let executor = Executor::new(program, arch, SIDE, SIDE, settings.clone())?;
        let given: Vec<(Named, Vec<f64>)> = inputs
            .iter()
            .enumerate()
            .map(|(index, &named)| (named, picture(index, named)))
            .collect();
        let of_step = |(index, list): (usize, &BTreeSet<Named>)| {
            let known = list.iter().filter(|named| executor.plane(**named).is_some());
            known.map(|&named| (index, named)).collect::<Vec<_>>()
        };
        let reads: Vec<(usize, Named)> = writes.iter().enumerate().flat_map(of_step).collect();
        let (_, found) = executor.run_reading(&given, &reads)?;
        let after: BTreeMap<_, _> = reads.into_iter().zip(found).collect();
        let start: BTreeMap<Named, Vec<f64>> = given.into_iter().collect();
        let all = start.values().chain(after.values()).flatten();
        let most = all.fold(1.0_f64, |most, value| most.max(value.abs()));
        Ok(Images { start, after, most })
    }

    /// A register with its kernel: greys as hexadecimal bytes, 0 in the middle.
    fn shown(&self, image: &[f64], kernel: serde_json::Value) -> serde_json::Value {
        let mut greys = String::new();
        for value in image {
            // Writing to a string cannot fail.
            let _ = write!(greys, "{:02x}", (127.5 + value / self.most * 127.5) as u8);
        }
        let least = image.iter().copied().fold(f64::INFINITY, f64::min);
        let most = image.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        json!({ "image": greys, "range": format!("{least} to {most}"), "kernel": kernel })
    }
}

/// The test picture of an input: a ramp, a disc, a bar and a single pixel; turned by a quarter for
/// every further input. 1-bit registers get the disc.
fn picture(index: usize, (space, _): Named) -> Vec<f64> {
    let pixel = |at: usize| {
        let (mut row, mut column) = (at / SIDE, at % SIDE);
        for _ in 0..index % 4 {
            (row, column) = (column, SIDE - 1 - row);
        }
        let apart = |a: usize, b: usize| a.abs_diff(b) * a.abs_diff(b);
        let disc = apart(row, 10) + apart(column, 10) < 36;
        match (row, column) {
            _ if space == Space::Digital => f64::from(u8::from(disc)),
            _ if disc => 96.0,
            (20..24, 4..20) => -64.0,
            (8, 24) => 127.0,
            (28.., _) => 4.0 * column as f64,
            _ => 0.0,
        }
    };
    (0..SIDE * SIDE).map(pixel).collect()
}

/// The kernels of analogue registers after the instructions that write them, as far as the program
/// can be followed without data.
fn kernels(
    program: &Program,
    inputs: &[Named],
    writes: &[BTreeSet<Named>],
) -> BTreeMap<(usize, Named), serde_json::Value> {
    let mut found = BTreeMap::new();
    // Behind a condition there are no kernels.
    let _ = follow(program, Level::Bus, &mut |index, state| {
        for &named in writes[index].iter().filter(|(space, _)| *space == Space::Analogue) {
            let value = state.value(named.1);
            let known = value.keys().all(|term| {
                term.source == Reg::NONE || inputs.contains(&(Space::Analogue, term.source))
            });
            let kernel = match known {
                true => described(named.1, &value),
                false => json!("of what was there before"),
            };
            found.insert((index, named), kernel);
        }
    });
    found
}

/// A table for every register that a value is made of, or words for large ones.
fn described(register: Reg, value: &Value) -> serde_json::Value {
    let sources: BTreeSet<Reg> = value.keys().map(|term| term.source).collect();
    let inputs: Vec<Reg> = sources.iter().copied().filter(|source| *source != Reg::NONE).collect();
    if value.is_empty() {
        return json!("0");
    }
    let tables: Option<Vec<_>> = sources.iter().map(|&source| table(source, value)).collect();
    match tables {
        Some(tables) => json!(tables),
        None => json!(Computed { output: register, value: value.clone(), inputs }.describe()),
    }
}

/// The part of a value that is of one register: its coefficients, the northmost row first. `None`
/// where it is too large.
fn table(source: Reg, value: &Value) -> Option<serde_json::Value> {
    let cells = || value.keys().filter(|term| term.source == source);
    let span = |of: fn(&Term) -> i32| {
        let all = || cells().map(of).map(i64::from).chain([0]);
        Some((all().min()?, all().max()?))
    };
    let ((west, east), (south, north)) = (span(|term| term.x)?, span(|term| term.y)?);
    if (east - west + 1).saturating_mul(north - south + 1) > MAX_CELLS {
        return None;
    }
    let cell = |x: i64, y: i64| {
        let term = Term { source, x: x as i32, y: y as i32 };
        value.get(&term).map_or("0".to_owned(), ToString::to_string)
    };
    let row = |y: i64| (west..=east).map(|x| cell(x, y)).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = (south..=north).rev().map(row).collect();
    let of = if source == Reg::NONE { "constant".to_owned() } else { source.to_string() };
    Some(json!({ "of": of, "rows": rows, "centre": [north, -west] }))
}
