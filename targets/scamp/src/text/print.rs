//! Writing programs.

use super::csim;
use super::frame::{Frames, framed};
use crate::expand::{Steps, expand, is_macro};
use crate::isa::{Class, Inst, Reg, TABLE};
use crate::program::Program;
use quincunx_diag::Result;
use std::fmt::Write as _;

/// A form of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Cain's default format.
    Cain,
    /// Cain's format for a simulator in JavaScript, with the simulator's name.
    Jss(String),
    /// A C++ header with a function of this name.
    Cpp(String),
    /// Every macro as its bus steps, in Cain's default format.
    Bus,
    /// AUKE's text.
    Csim,
}

/// The text of a program.
///
/// # Errors
/// `Q5004` for an instruction that the dialect cannot express.
pub fn print(program: &Program, dialect: &Dialect) -> Result<String> {
    Ok(match dialect {
        Dialect::Cain => Cain { simulator: None, by_steps: false }.print(program),
        Dialect::Jss(name) => Cain { simulator: Some(name), by_steps: false }.print(program),
        Dialect::Bus => Cain { simulator: None, by_steps: true }.print(program),
        Dialect::Cpp(name) => header(program, name),
        Dialect::Csim => csim::print(program)?,
    })
}

/// Registers in brackets.
pub(super) fn list(registers: &[Reg]) -> String {
    let names: Vec<String> = registers.iter().map(Reg::to_string).collect();
    format!("[{}]", names.join(", "))
}

/// Cain's formats: lines with a blank at their end, blank lines, and a count of all of it.
struct Cain<'a> {
    simulator: Option<&'a str>,
    by_steps: bool,
}

/// What the last line counts.
#[derive(Default)]
struct Counts {
    ops: usize,
    selects: usize,
    comments: usize,
    other: usize,
}

impl Cain<'_> {
    fn print(&self, program: &Program) -> String {
        let (mut out, mut counts) = (String::new(), Counts::default());
        let (mut frames, begin) = Frames::new(&program.instructions);
        self.comment("Kernel Code!", &mut out, &mut counts);
        self.blank(&mut out, &mut counts);
        if let Some(inputs) = &program.inputs {
            self.comment(&format!("Inputs in: {}", list(inputs)), &mut out, &mut counts);
            self.blank(&mut out, &mut counts);
        }
        if let Some(begin) = begin {
            self.instruction(&begin, &mut out, &mut counts);
            self.blank(&mut out, &mut counts);
        }
        for inst in &program.instructions {
            let mut steps = Steps::from_slice(&[*inst]);
            if self.by_steps && is_macro(inst) {
                self.comment(&inst.text(), &mut out, &mut counts);
                steps = expand(inst);
            }
            for step in &steps {
                let frame = frames.before(step);
                frame.iter().for_each(|frame| self.instruction(frame, &mut out, &mut counts));
                self.instruction(step, &mut out, &mut counts);
            }
        }
        if let Some(outputs) = &program.outputs {
            let text = format!("Null Instruction: [] <- {}", list(outputs));
            self.comment(&text, &mut out, &mut counts);
            self.blank(&mut out, &mut counts);
        }
        if let Some(end) = frames.end() {
            self.instruction(&end, &mut out, &mut counts);
            self.blank(&mut out, &mut counts);
        }
        let Counts { ops, selects, comments, other } = counts;
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "/* ops: {ops}, selects: {selects}, comments: {comments}, other: {other}  */"
        );
        out
    }

    fn comment(&self, text: &str, out: &mut String, counts: &mut Counts) {
        counts.comments += 1;
        let _ = writeln!(out, "/*{text}*/");
    }

    /// A line that is itself a line end; it counts as a comment.
    fn blank(&self, out: &mut String, counts: &mut Counts) {
        counts.comments += 1;
        out.push_str("\n\n");
    }

    fn instruction(&self, inst: &Inst, out: &mut String, counts: &mut Counts) {
        match inst.class() {
            Class::Frame => counts.other += 1,
            class => {
                counts.ops += 1;
                counts.selects += usize::from(class == Class::Pattern);
            }
        }
        let _ = match (self.simulator, inst) {
            (None, _) => writeln!(out, "{}; ", inst.text()),
            (Some(_), Inst::KernelBegin {}) => writeln!(out, "/*Kernel Begin*/"),
            (Some(_), Inst::KernelEnd {}) => writeln!(out, "/*Kernel End*/"),
            (Some(name), _) => writeln!(out, "{}; ", with_simulator(inst, name)),
        };
    }
}

/// An instruction with the name of the simulator before its mnemonic and its registers.
fn with_simulator(inst: &Inst, name: &str) -> String {
    let raw = inst.to_raw();
    let row = &TABLE.rows[raw.row];
    let text = TABLE.print(&raw);
    let inner = text.strip_prefix(row.mnemonic).unwrap_or(&text);
    let inner = inner.trim_start_matches('(').trim_end_matches(')');
    let registers: Vec<String> = inst.registers().map(|r| r.to_string()).collect();
    let argument = |text: &str| match registers.iter().any(|register| register == text) {
        true => format!("{name}.{text}"),
        false => text.to_owned(),
    };
    let arguments: Vec<String> =
        inner.split(", ").filter(|text| !text.is_empty()).map(argument).collect();
    format!("{name}.{}({})", row.mnemonic, arguments.join(", "))
}

/// A header with one function that runs the kernel.
fn header(program: &Program, name: &str) -> String {
    let mut out = String::from("#pragma once\n#include <scamp5.hpp>\n\n");
    // The reader finds the lists in comments of Cain's form.
    if let Some(inputs) = &program.inputs {
        let _ = writeln!(out, "/*Inputs in: {}*/", list(inputs));
    }
    if let Some(outputs) = &program.outputs {
        let _ = writeln!(out, "/*Null Instruction: [] <- {}*/", list(outputs));
    }
    let _ = writeln!(out, "inline void {name}() {{");
    out.push_str("    using namespace SCAMP5_PE;\n");
    let list = framed(&program.instructions);
    for inst in &list {
        let is_outside = inst.class() == Class::Frame || inst.class().is_controller();
        let depth = if is_outside { 4 } else { 8 };
        let _ = writeln!(out, "{:depth$}{};", "", inst.text());
    }
    out.push_str("}\n");
    out
}
