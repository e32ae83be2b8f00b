//! A module around the design whose numbers are all equally wide: so many bits above and below the
//! point as the largest and the finest of them need, filled up with signs and zeros.

use super::netlist::{NetId, Wires};
use super::number::Wanted;
use super::print::Top;
use super::{Field, Language, MAX_PORT, verilog, vhdl};
use crate::program::common_type;
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::Kif;
use std::fmt::Write;

/// What the wrapper's ports hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Formats {
    pub(super) input: Kif,
    pub(super) output: Kif,
}

/// The common formats of a design's ports.
pub(super) fn formats(top: &Top<'_>) -> Formats {
    let common = |fields: &[Field]| common_type(fields.iter().map(|field| field.kif));
    Formats { input: common(&top.design.inputs), output: common(&top.design.outputs) }
}

/// Bits of a port of the wrapper.
fn width(fields: &[Field], kif: Kif) -> Result<u32> {
    let bits = fields.len() as u64 * u64::from(kif.width());
    match u32::try_from(bits) {
        Ok(width) if width <= MAX_PORT => Ok(width),
        _ => Err(Diagnostic::unsupported(
            "Q1185",
            format!("a port of the wrapper is {bits} bits wide, expected at most {MAX_PORT}"),
        )),
    }
}

/// The wrapper `NAME_wrapper`.
///
/// # Errors
/// `Q1185` when its ports are too wide.
pub(super) fn print(top: &Top<'_>, language: Language) -> Result<String> {
    let Formats { input, output } = formats(top);
    let (inputs, outputs) = (&top.design.inputs, &top.design.outputs);
    let (input_width, output_width) = (width(inputs, input)?, width(outputs, output)?);
    let bus = Wires::of_net(NetId::PORT, input_width);
    let into = inputs.iter().enumerate().fold(Wires::none(), |wires, (index, field)| {
        let padded = Field { low: index as u32 * input.width(), kif: input };
        wires.below(&padded.number(&bus).quantised(Wanted::from(field.kif)))
    });
    let bus = Wires::of_net(NetId::PORT, top.output_width());
    let out = outputs.iter().fold(Wires::none(), |wires, field| {
        wires.below(&field.number(&bus).quantised(Wanted::from(output)))
    });
    let shape = Shape { top, input: input_width, output: output_width, into, out };
    let mut text = String::new();
    let comment = if language == Language::Verilog { "//" } else { "--" };
    for (port, fields, kif) in [("model_inp", inputs, input), ("model_out", outputs, output)] {
        let _ = writeln!(
            text,
            "{comment} {port}: {} numbers of {} bits, {} of them after the point.",
            fields.len(),
            kif.width(),
            kif.fraction
        );
    }
    text.push('\n');
    match language {
        Language::Verilog => {
            text.push_str(verilog::TIMESCALE);
            print_verilog(&shape, &mut text);
        }
        Language::Vhdl => print_vhdl(&shape, &mut text),
    }
    Ok(text)
}

struct Shape<'a> {
    top: &'a Top<'a>,
    input: u32,
    output: u32,
    /// The input of the design as bits of the wrapper's.
    into: Wires,
    /// The output of the wrapper as bits of the design's.
    out: Wires,
}

fn print_verilog(shape: &Shape<'_>, out: &mut String) {
    let top = shape.top;
    let _ = writeln!(out, "module {}_wrapper (", top.name);
    let mut ports = Vec::new();
    if top.clocked() {
        out.push_str("  input clk,\n");
        ports.push(".clk(clk)".to_owned());
    }
    if shape.input > 0 {
        let _ = writeln!(out, "  input [{}:0] model_inp,", shape.input - 1);
    }
    let _ = writeln!(out, "  output [{}:0] model_out\n);", shape.output - 1);
    if top.input_width() > 0 {
        let bits = verilog::bits(&shape.into, &|_| ("model_inp", shape.input));
        let _ = writeln!(out, "  wire [{}:0] packed_inp = {bits};", top.input_width() - 1);
        ports.push(".model_inp(packed_inp)".to_owned());
    }
    let _ = writeln!(out, "  wire [{}:0] packed_out;", top.output_width() - 1);
    ports.push(".model_out(packed_out)".to_owned());
    let _ = writeln!(out, "  {} model ({});", top.name, ports.join(", "));
    let bits = verilog::bits(&shape.out, &|_| ("packed_out", top.output_width()));
    let _ = writeln!(out, "  assign model_out = {bits};\nendmodule");
}

fn print_vhdl(shape: &Shape<'_>, out: &mut String) {
    let top = shape.top;
    let name = format!("{}_wrapper", top.name);
    vhdl::print_entity(&name, top.clocked(), shape.input, shape.output, out);
    let _ = writeln!(out, "architecture rtl of {name} is");
    out.push_str(vhdl::REPEAT);
    let mut body = String::new();
    let mut ports = Vec::new();
    if top.clocked() {
        ports.push("clk => clk");
    }
    if top.input_width() > 0 {
        let _ = writeln!(out, "  signal inp : unsigned({} downto 0);", shape.input - 1);
        let high = top.input_width() - 1;
        let _ = writeln!(out, "  signal packed_inp : std_logic_vector({high} downto 0);");
        let bits = vhdl::value(&shape.into, &|_| ("inp", shape.input));
        let _ = writeln!(body, "  inp <= unsigned(model_inp);");
        let _ = writeln!(body, "  packed_inp <= std_logic_vector({bits});");
        ports.push("model_inp => packed_inp");
    }
    let high = top.output_width() - 1;
    let _ = writeln!(out, "  signal packed_out : std_logic_vector({high} downto 0);");
    let _ = writeln!(out, "  signal outp : unsigned({high} downto 0);");
    ports.push("model_out => packed_out");
    let bits = vhdl::value(&shape.out, &|_| ("outp", top.output_width()));
    let ports = ports.join(", ");
    let _ = writeln!(out, "begin\n{body}  model : entity work.{} port map ({ports});", top.name);
    let _ = writeln!(out, "  outp <= unsigned(packed_out);");
    let _ = writeln!(out, "  model_out <= std_logic_vector({bits});\nend architecture;");
}
