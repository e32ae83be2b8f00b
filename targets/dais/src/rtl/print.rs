//! What both printers share: modules with their names and comments.

use super::names::net_name;
use super::netlist::{Name, Netlist, Wires};
use super::{Design, Language};
use crate::isa::TABLE;
use crate::program::{Output, Pipeline, Program};
use quincunx_contract::Port;
use std::fmt::Write;

/// A design with everything that is printed of it.
#[derive(Debug)]
pub(super) struct Top<'a> {
    pub(super) name: &'a str,
    pub(super) design: &'a Design,
    pub(super) pipeline: &'a Pipeline,
    /// Registers behind the input and behind every stage; a program with registers of its own has
    /// these behind its outputs only.
    pub(super) registers: u32,
    /// The inputs, whose grids the driver moves numbers onto.
    pub(super) inputs: &'a [Port],
    /// What the driver makes of the outputs, in words.
    pub(super) scalings: &'a [String],
}

/// A stage of it.
#[derive(Debug)]
pub(super) struct Module<'a> {
    pub(super) name: String,
    pub(super) netlist: &'a Netlist,
    program: &'a Program,
}

impl Top<'_> {
    /// True for the one combinational module that needs none around it.
    pub(super) fn is_one_module(&self) -> bool {
        self.design.stages.len() == 1 && !self.clocked()
    }

    pub(super) fn clocked(&self) -> bool {
        self.registers > 0 || self.design.state_width() > 0
    }

    /// Registers behind the input: none where others would see what they start with.
    pub(super) fn input_registers(&self) -> u32 {
        if self.design.state_width() > 0 { 0 } else { self.registers }
    }

    /// Clock cycles from a number on the input port to its result on the output port.
    pub(super) fn latency(&self) -> u32 {
        self.input_registers() + self.registers * self.design.stages.len() as u32
    }

    pub(super) fn input_width(&self) -> u32 {
        self.design.input_width()
    }

    pub(super) fn output_width(&self) -> u32 {
        self.design.output_width()
    }

    pub(super) fn modules(&self) -> Vec<Module<'_>> {
        let name = |stage: usize| match self.is_one_module() {
            true => self.name.to_owned(),
            false => format!("{}_stage{stage}", self.name),
        };
        let pairs = self.design.stages.iter().zip(&self.pipeline.stages).enumerate();
        pairs
            .map(|(stage, (netlist, program))| Module { name: name(stage), netlist, program })
            .collect()
    }

    /// What a stage but the first takes from the bus in front of it, which is net 0; `None` if it is
    /// all of the bus as it is.
    pub(super) fn link(&self, stage: usize) -> Option<&Wires> {
        let link = stage.checked_sub(1).map(|link| &self.design.links[link])?;
        let whole = Wires::of_net(super::netlist::NetId::PORT, self.link_width(stage));
        (*link != whole).then_some(link)
    }

    /// Bits of the bus behind a stage, what its registers hold next left out.
    pub(super) fn own_width(&self, stage: usize) -> u32 {
        match stage + 1 == self.design.stages.len() {
            true => self.output_width(),
            false => self.design.stages[stage].output_width(),
        }
    }

    /// Bits of the bus in front of a stage.
    pub(super) fn link_width(&self, stage: usize) -> u32 {
        match stage.checked_sub(1) {
            Some(before) => self.design.stages[before].output_width(),
            None => self.input_width(),
        }
    }
}

impl Module<'_> {
    /// False for a stage of which no bit leaves: later ones read zeros.
    pub(super) fn is_there(&self) -> bool {
        self.netlist.output_width() > 0
    }

    /// The operation that a net is the result of, as assembly text.
    pub(super) fn comment(&self, name: Name) -> Option<String> {
        let Name::Slot(slot) = name else { return None };
        let operation = self.program.operations.get(slot as usize)?;
        let mut text = format!("%{slot} = ");
        TABLE.print_to(&operation.inst.to_raw(), &mut text);
        text.push_str(" : ");
        crate::text::print_type(operation.slot_type, &mut text);
        Some(text)
    }

    /// What an output is.
    pub(super) fn output_comment(&self, index: usize) -> String {
        let Output { source, shift, negate } = self.program.outputs[index];
        let sign = if negate { "-" } else { "" };
        let source = source.map_or("zero".to_owned(), |slot| format!("%{}", slot.0));
        match shift {
            0 => format!("out {index} = {sign}{source}"),
            shift => format!("out {index} = {sign}{source} << {shift}"),
        }
    }
}

/// The names of all nets; `port` is that of net 0.
pub(super) fn net_names(netlist: &Netlist, port: &str) -> Vec<String> {
    let name = |name| match name {
        Name::Port => port.to_owned(),
        other => net_name(other),
    };
    netlist.nets().iter().map(|net| name(net.name)).collect()
}

/// What the file is, as comments.
pub(super) fn header(top: &Top<'_>, comment: &str) -> String {
    let mut out = String::new();
    let fields = |fields: &[super::Field]| fields.iter().filter(|f| f.width() > 0).count();
    let design = top.design;
    let mut line = |text: String| {
        let _ = writeln!(out, "{comment} {text}");
    };
    line(format!("{}: written by Quincunx from a dais program.", top.name));
    for (port, fields, width) in [
        ("model_inp", fields(&design.inputs), top.input_width()),
        ("model_out", fields(&design.outputs), top.output_width()),
    ] {
        line(format!("{port}: {fields} numbers in {width} bits, the first one lowest."));
    }
    for Port { name, grid, .. } in top.inputs {
        if let Some(quantiser) = grid.quantiser() {
            // A name may hold anything.
            let name = name.escape_default();
            line(format!("Input {name}: outside of this file numbers are moved onto {quantiser}."));
        }
    }
    match design.state_width() {
        0 => {}
        bits => line(format!("Registers hold {bits} bits from one cycle to the next.")),
    }
    line(match top.clocked() {
        true => format!("A result every cycle, {} cycles after its input.", top.latency()),
        false => "Combinational: no clock, no state.".to_owned(),
    });
    out.push('\n');
    out
}

/// The text of a design in a language.
pub(super) fn print(top: &Top<'_>, language: Language) -> String {
    match language {
        Language::Verilog => super::verilog::print(top),
        Language::Vhdl => super::vhdl::print(top),
    }
}
