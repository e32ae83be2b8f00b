//! Verilog-2001. All nets are vectors without a sign, so that no rule about signed expressions
//! applies; products say `$signed` on both factors.

use super::netlist::{Cell, NetId, Netlist, Piece, Rom, Wires};
use super::print::{Module, Top, header, net_names};
use quincunx_num::Int;
use std::fmt::Write;

/// Nothing is delayed, but simulators want all files to say it or none, and testbenches wait.
pub(super) const TIMESCALE: &str = "`timescale 1ns / 1ps\n\n";

/// All modules of a design, the top one last.
pub(super) fn print(top: &Top<'_>) -> String {
    let mut out = header(top, "//");
    out.push_str(TIMESCALE);
    let modules = top.modules();
    for module in modules.iter().filter(|module| module.is_there()) {
        print_module(module, &mut out);
    }
    if !top.is_one_module() {
        print_top(top, &modules, &mut out);
    }
    out
}

fn print_module(module: &Module<'_>, out: &mut String) {
    let netlist = module.netlist;
    let names = net_names(netlist, "model_inp");
    let _ = writeln!(out, "module {} (", module.name);
    if netlist.input_width() > 0 {
        let _ = writeln!(out, "  input {} model_inp,", range(netlist.input_width()));
    }
    let _ = writeln!(out, "  output {} model_out\n);", range(netlist.output_width()));
    let live = netlist.live();
    for (number, rom) in netlist.roms().iter().enumerate() {
        print_rom(number, rom, out);
    }
    for (index, net) in netlist.nets().iter().enumerate().skip(1).filter(|(i, _)| live[*i]) {
        let (name, expression) = (&names[index], expression(&net.cell, &names, netlist));
        let _ = write!(out, "  wire {} {name} = {expression};", range(net.width));
        match module.comment(net.name) {
            Some(comment) => {
                let _ = writeln!(out, "  // {comment}");
            }
            None => out.push('\n'),
        }
    }
    print_outputs(module, &names, out);
    out.push_str("endmodule\n\n");
}

/// One assignment per output, so that each can be found.
fn print_outputs(module: &Module<'_>, names: &[String], out: &mut String) {
    let mut low = 0;
    for (index, output) in module.netlist.outputs().iter().enumerate() {
        let width = output.width();
        if width > 0 {
            let bits = wires(output, names, module.netlist);
            let high = low + width - 1;
            let comment = module.output_comment(index);
            let _ = writeln!(out, "  assign model_out[{high}:{low}] = {bits};  // {comment}");
        }
        low += width;
    }
}

fn range(width: u32) -> String {
    format!("[{}:0]", width - 1)
}

fn expression(cell: &Cell, names: &[String], netlist: &Netlist) -> String {
    let at = |x: &Wires| wires(x, names, netlist);
    match cell {
        Cell::Port => names[0].clone(),
        Cell::Wires(x) => at(x),
        Cell::Add(a, b) => format!("{} + {}", at(a), at(b)),
        Cell::Subtract(a, b) => format!("{} - {}", at(a), at(b)),
        Cell::Multiply { a, b, signed: true } => {
            format!("$signed({}) * $signed({})", at(a), at(b))
        }
        Cell::Multiply { a, b, signed: false } => format!("{} * {}", at(a), at(b)),
        Cell::Not(x) => format!("~{}", at(x)),
        Cell::And(a, b) => format!("{} & {}", at(a), at(b)),
        Cell::Or(a, b) => format!("{} | {}", at(a), at(b)),
        Cell::Xor(a, b) => format!("{} ^ {}", at(a), at(b)),
        Cell::Any(x) => format!("|{}", at(x)),
        Cell::All(x) => format!("&{}", at(x)),
        Cell::Select { condition, set, clear } => {
            format!("{} ? {} : {}", at(condition), at(set), at(clear))
        }
        Cell::Rom { rom, index } => format!("rom{rom}({})", at(index)),
    }
}

/// Wires as an expression: a net, bits of one, or a concatenation.
fn wires(wires: &Wires, names: &[String], netlist: &Netlist) -> String {
    let width = |net: NetId| netlist.nets()[net.index()].width;
    bits(wires, &|net| (names[net.index()].as_str(), width(net)))
}

/// `named` gives the name and the width of a net.
pub(super) fn bits<'a>(wires: &Wires, named: &dyn Fn(NetId) -> (&'a str, u32)) -> String {
    let piece = |piece: &Piece| match *piece {
        Piece::Bits { net, low, width } => match named(net) {
            (name, all) if all == width => name.to_owned(),
            (name, _) if width == 1 => format!("{name}[{low}]"),
            (name, _) => format!("{name}[{}:{low}]", low + width - 1),
        },
        Piece::Repeat { net, bit, count } => format!("{{{count}{{{}[{bit}]}}}}", named(net).0),
        Piece::Constant { ref value, width } => literal(value, width),
    };
    match wires.pieces() {
        [only] => piece(only),
        pieces => {
            let pieces: Vec<String> = pieces.iter().rev().map(piece).collect();
            format!("{{{}}}", pieces.join(", "))
        }
    }
}

fn literal(value: &Int, width: u32) -> String {
    format!("{width}'h{}", value.in_radix(16))
}

/// A table as a function: a case statement without don't-cares.
fn print_rom(number: usize, rom: &Rom, out: &mut String) {
    let (width, index) = (rom.width, rom.index_width);
    let _ = writeln!(out, "  function {} rom{number};", range(width));
    let _ = writeln!(out, "    input {} index;", range(index));
    let _ = writeln!(out, "    case (index)");
    for entry in 0..rom.entries.len() {
        let bits = literal(&rom.entry(entry), width);
        let _ = writeln!(out, "      {index}'d{entry}: rom{number} = {bits};");
    }
    let zero = literal(&Int::ZERO, width);
    let _ = writeln!(out, "      default: rom{number} = {zero};");
    let _ = writeln!(out, "    endcase\n  endfunction");
}

/// Stages and registers.
fn print_top(top: &Top<'_>, modules: &[Module<'_>], out: &mut String) {
    let _ = writeln!(out, "module {} (", top.name);
    if top.clocked() {
        let _ = writeln!(out, "  input clk,");
    }
    if top.input_width() > 0 {
        let _ = writeln!(out, "  input {} model_inp,", range(top.input_width()));
    }
    let _ = writeln!(out, "  output {} model_out\n);", range(top.output_width()));
    let mut steps = String::new();
    let ranks = top.input_registers();
    let mut bus = register("model_inp", "inp", top.input_width(), ranks, out, &mut steps);
    let state = top.design.state_width();
    if state > 0 {
        let start = literal(top.design.start(), state);
        let _ = writeln!(out, "  reg {} state = {start};", range(state));
        let whole = modules[0].netlist.output_width();
        let next = bits(&top.design.state.next, &|_| ("stage0_out", whole));
        let _ = writeln!(steps, "    state <= {next};");
        bus = if top.input_width() > 0 { format!("{{state, {bus}}}") } else { "state".to_owned() };
    }
    for (stage, module) in modules.iter().enumerate() {
        let (input, output) = (module.netlist.input_width(), module.netlist.output_width());
        let mut ports = Vec::new();
        if input > 0 {
            let linked =
                top.link(stage).map(|link| bits(link, &|_| (bus.as_str(), top.link_width(stage))));
            ports.push(format!(".model_inp({})", linked.unwrap_or_else(|| bus.clone())));
        }
        let stage_out = format!("stage{stage}_out");
        if module.is_there() {
            let _ = writeln!(out, "  wire {} {stage_out};", range(output));
            ports.push(format!(".model_out({stage_out})"));
            let _ = writeln!(out, "  {} stage{stage} ({});", module.name, ports.join(", "));
        }
        let (own, name) = (top.own_width(stage), format!("stage{stage}"));
        // What registers hold next is above what leaves.
        bus = match own < output {
            true => format!("{stage_out}{}", range(own)),
            false => stage_out,
        };
        bus = register(&bus, &name, own, top.registers, out, &mut steps);
    }
    if top.clocked() {
        let _ = writeln!(out, "  always @(posedge clk) begin\n{steps}  end");
    }
    let _ = writeln!(out, "  assign model_out = {bus};\nendmodule");
}

/// Registers behind a bus, one after the other; the name of the last one.
fn register(
    bus: &str,
    name: &str,
    width: u32,
    ranks: u32,
    out: &mut String,
    steps: &mut String,
) -> String {
    let mut last = bus.to_owned();
    for rank in (0..ranks).filter(|_| width > 0) {
        let next = format!("{name}_rank{rank}");
        // A start value keeps simulators from showing unknown bits before numbers arrive.
        let zero = literal(&Int::ZERO, width);
        let _ = writeln!(out, "  reg {} {next} = {zero};", range(width));
        let _ = writeln!(steps, "    {next} <= {last};");
        last = next;
    }
    last
}
