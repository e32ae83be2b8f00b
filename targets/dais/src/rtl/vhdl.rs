//! VHDL-2008. All nets are `unsigned`; products convert both factors to `signed`. A module is one
//! process that computes its nets in order, as variables: event-driven simulators then evaluate each
//! once per input, where signals would be evaluated again for every change on the way to it.

use super::netlist::{Bit, Cell, NetId, Netlist, Piece, Rom, Wires};
use super::print::{Module, Top, header, net_names};
use quincunx_num::Int;
use std::fmt::Write;

/// What every design unit begins with.
pub(super) const CONTEXT: &str =
    "library ieee;\nuse ieee.std_logic_1164.all;\nuse ieee.numeric_std.all;\n\n";

/// All entities of a design, the top one last.
pub(super) fn print(top: &Top<'_>) -> String {
    let mut out = header(top, "--");
    let modules = top.modules();
    for module in modules.iter().filter(|module| module.is_there()) {
        print_module(module, &mut out);
    }
    if !top.is_one_module() {
        print_top(top, &modules, &mut out);
    }
    out
}

pub(super) fn print_entity(name: &str, clocked: bool, input: u32, output: u32, out: &mut String) {
    out.push_str(CONTEXT);
    let _ = writeln!(out, "entity {name} is\n  port (");
    if clocked {
        let _ = writeln!(out, "    clk : in std_logic;");
    }
    if input > 0 {
        let _ = writeln!(out, "    model_inp : in std_logic_vector{};", range(input));
    }
    let _ = writeln!(out, "    model_out : out std_logic_vector{}", range(output));
    let _ = writeln!(out, "  );\nend entity;\n");
}

fn print_module(module: &Module<'_>, out: &mut String) {
    let netlist = module.netlist;
    let names = net_names(netlist, "inp");
    let (input, output) = (netlist.input_width(), netlist.output_width());
    print_entity(&module.name, false, input, output, out);
    let _ = writeln!(out, "architecture rtl of {} is", module.name);
    out.push_str(REPEAT);
    out.push_str(FUNCTIONS);
    for (number, rom) in netlist.roms().iter().enumerate() {
        print_rom(number, rom, out);
    }
    let live = netlist.live();
    let nets = || netlist.nets().iter().enumerate().filter(|(i, net)| live[*i] && net.width > 0);
    out.push_str("begin\n  process (all)\n");
    for (index, net) in nets() {
        let _ = writeln!(out, "    variable {} : unsigned{};", names[index], range(net.width));
    }
    out.push_str("  begin\n");
    for (index, net) in nets() {
        let (name, expression) = (&names[index], expression(&net.cell, &names, netlist));
        let _ = write!(out, "    {name} := {expression};");
        match module.comment(net.name) {
            Some(comment) => {
                let _ = writeln!(out, "  -- {comment}");
            }
            None => out.push('\n'),
        }
    }
    print_outputs(module, &names, out);
    out.push_str("  end process;\nend architecture;\n\n");
}

/// One bit, several times.
pub(super) const REPEAT: &str = "  function rep(b : std_logic; n : positive) return unsigned is
    constant r : unsigned(n - 1 downto 0) := (others => b);
  begin
    return r;
  end function;
";

/// Choices and tests as functions, because sequential statements have no expressions for them in
/// every tool.
const FUNCTIONS: &str = "  function sel(c : std_logic; a, b : unsigned) return unsigned is
  begin
    if c = '1' then
      return a;
    end if;
    return b;
  end function;
  function flag(c : boolean) return unsigned is
  begin
    if c then
      return \"1\";
    end if;
    return \"0\";
  end function;
";

fn print_outputs(module: &Module<'_>, names: &[String], out: &mut String) {
    let mut low = 0;
    for (index, output) in module.netlist.outputs().iter().enumerate() {
        let width = output.width();
        if width > 0 {
            let bits = operand(output, names, module.netlist);
            let high = low + width - 1;
            let comment = module.output_comment(index);
            let target = format!("model_out({high} downto {low})");
            let _ = writeln!(out, "    {target} <= std_logic_vector({bits});  -- {comment}");
        }
        low += width;
    }
}

fn range(width: u32) -> String {
    format!("({} downto 0)", width - 1)
}

fn expression(cell: &Cell, names: &[String], netlist: &Netlist) -> String {
    let at = |x: &Wires| operand(x, names, netlist);
    match cell {
        Cell::Port => "unsigned(model_inp)".to_owned(),
        Cell::Wires(x) => wires(x, names, netlist),
        Cell::Add(a, b) => format!("{} + {}", at(a), at(b)),
        Cell::Subtract(a, b) => format!("{} - {}", at(a), at(b)),
        Cell::Multiply { a, b, signed: true } => {
            format!("unsigned(signed({}) * signed({}))", at(a), at(b))
        }
        Cell::Multiply { a, b, signed: false } => format!("{} * {}", at(a), at(b)),
        Cell::Not(x) => format!("not {}", at(x)),
        Cell::And(a, b) => format!("{} and {}", at(a), at(b)),
        Cell::Or(a, b) => format!("{} or {}", at(a), at(b)),
        Cell::Xor(a, b) => format!("{} xor {}", at(a), at(b)),
        Cell::Any(x) => format!("flag({} /= 0)", at(x)),
        Cell::All(x) => format!("flag(not {} = 0)", at(x)),
        Cell::Select { condition, set, clear } => {
            format!("sel({}, {}, {})", bit(condition, names), at(set), at(clear))
        }
        Cell::Rom { rom, index } => format!("rom{rom}(to_integer({}))", at(index)),
    }
}

/// The one bit of a condition.
fn bit(x: &Wires, names: &[String]) -> String {
    match x.bits().next() {
        Some(Bit::Of(net, at)) => format!("{}({at})", names[net.index()]),
        Some(Bit::Known(true)) => "'1'".to_owned(),
        Some(Bit::Known(false)) | None => "'0'".to_owned(),
    }
}

/// Wires as an operand.
fn operand(x: &Wires, names: &[String], netlist: &Netlist) -> String {
    qualified(x, wires(x, names, netlist))
}

/// A concatenation with its type, which would be guessed where nothing else says it: rows of bits
/// put together might be a table.
fn qualified(x: &Wires, text: String) -> String {
    if x.pieces().len() > 1 { format!("unsigned'({text})") } else { text }
}

/// Wires as an operand; `named` gives the name and the width of a net.
pub(super) fn value<'a>(wires: &Wires, named: &dyn Fn(NetId) -> (&'a str, u32)) -> String {
    qualified(wires, bits(wires, named))
}

fn wires(wires: &Wires, names: &[String], netlist: &Netlist) -> String {
    let width = |net: NetId| netlist.nets()[net.index()].width;
    bits(wires, &|net| (names[net.index()].as_str(), width(net)))
}

/// `named` gives the name and the width of a net.
fn bits<'a>(wires: &Wires, named: &dyn Fn(NetId) -> (&'a str, u32)) -> String {
    let piece = |piece: &Piece| match *piece {
        Piece::Bits { net, low, width } => match named(net) {
            (name, all) if all == width => name.to_owned(),
            (name, _) => format!("{name}({} downto {low})", low + width - 1),
        },
        Piece::Repeat { net, bit, count } => format!("rep({}({bit}), {count})", named(net).0),
        // The type of a bare literal between operators would be guessed.
        Piece::Constant { ref value, width } => format!("unsigned'({})", literal(value, width)),
    };
    let pieces: Vec<String> = wires.pieces().iter().rev().map(piece).collect();
    pieces.join(" & ")
}

fn literal(value: &Int, width: u32) -> String {
    let digits = value.in_radix(2).to_string();
    format!("\"{digits:0>width$}\"", width = width as usize)
}

/// A table as a constant array.
fn print_rom(number: usize, rom: &Rom, out: &mut String) {
    let last = rom.entries.len() - 1;
    let (name, kind) = (format!("rom{number}"), format!("rom{number}_t"));
    let entry = range(rom.width);
    let _ = writeln!(out, "  type {kind} is array (0 to {last}) of unsigned{entry};");
    let _ = writeln!(out, "  constant {name} : {kind} := (");
    for entry in 0..=last {
        let bits = literal(&rom.entry(entry), rom.width);
        let comma = if entry < last { "," } else { "" };
        let _ = writeln!(out, "    {entry} => {bits}{comma}");
    }
    out.push_str("  );\n");
}

/// Stages and registers.
fn print_top(top: &Top<'_>, modules: &[Module<'_>], out: &mut String) {
    print_entity(top.name, top.clocked(), top.input_width(), top.output_width(), out);
    let _ = writeln!(out, "architecture rtl of {} is", top.name);
    out.push_str(REPEAT);
    let (mut body, mut steps) = (String::new(), String::new());
    let mut bus = String::new();
    if top.input_width() > 0 {
        let _ = writeln!(out, "  signal inp : unsigned{};", range(top.input_width()));
        body.push_str("  inp <= unsigned(model_inp);\n");
        bus = register("inp", "inp", top.input_width(), top.input_registers(), out, &mut steps);
    }
    let state = top.design.state_width();
    if state > 0 {
        let start = literal(top.design.start(), state);
        let _ = writeln!(out, "  signal state : unsigned{} := {start};", range(state));
        let whole = modules[0].netlist.output_width();
        let next = value(&top.design.state.next, &|_| ("stage0", whole));
        let _ = writeln!(steps, "      state <= {next};");
        bus = if top.input_width() > 0 { format!("(state & {bus})") } else { "state".to_owned() };
    }
    for (stage, module) in modules.iter().enumerate() {
        let (input, output) = (module.netlist.input_width(), module.netlist.output_width());
        if !module.is_there() {
            continue;
        }
        let mut ports = Vec::new();
        if input > 0 {
            let linked =
                top.link(stage).map(|link| value(link, &|_| (bus.as_str(), top.link_width(stage))));
            let linked = linked.unwrap_or_else(|| bus.clone());
            let _ = writeln!(out, "  signal stage{stage}_inp : std_logic_vector{};", range(input));
            let _ = writeln!(body, "  stage{stage}_inp <= std_logic_vector({linked});");
            ports.push(format!("model_inp => stage{stage}_inp"));
        }
        let _ = writeln!(out, "  signal stage{stage}_out : std_logic_vector{};", range(output));
        let _ = writeln!(out, "  signal stage{stage} : unsigned{};", range(output));
        ports.push(format!("model_out => stage{stage}_out"));
        let (name, ports) = (&module.name, ports.join(", "));
        let _ = writeln!(body, "  instance{stage} : entity work.{name} port map ({ports});");
        let _ = writeln!(body, "  stage{stage} <= unsigned(stage{stage}_out);");
        let (own, name) = (top.own_width(stage), format!("stage{stage}"));
        // What registers hold next is above what leaves.
        bus = match own < output {
            true => format!("{name}{}", range(own)),
            false => name.clone(),
        };
        bus = register(&bus, &name, own, top.registers, out, &mut steps);
    }
    if top.clocked() {
        let edge = "  process (clk)\n  begin\n    if rising_edge(clk) then\n";
        let _ = write!(body, "{edge}{steps}    end if;\n  end process;\n");
    }
    let _ = write!(out, "begin\n{body}  model_out <= std_logic_vector({bus});\n");
    out.push_str("end architecture;\n");
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
    for rank in 0..ranks {
        let next = format!("{name}_rank{rank}");
        let range = range(width);
        let _ = writeln!(out, "  signal {next} : unsigned{range} := (others => '0');");
        let _ = writeln!(steps, "      {next} <= {last};");
        last = next;
    }
    last
}
