//! Testbenches that check themselves: they read the vectors from two files of hexadecimal numbers,
//! one line each, and say PASS or FAIL in the last line. Unknown bits are wrong bits.

use super::print::Top;
use super::vectors::Vectors;
use super::{Language, verilog, vhdl};
use quincunx_num::Int;
use std::fmt::Write;

/// Mismatches that are shown.
const SHOWN: u32 = 10;

/// Numbers of a port, one per line, with all digits of the port's width.
pub(super) fn hex(values: &[Int], width: u32) -> String {
    let digits = (width.div_ceil(4) as usize).max(1);
    values.iter().fold(String::new(), |mut out, value| {
        let _ = writeln!(out, "{:0>digits$}", value.in_radix(16).to_string());
        out
    })
}

/// The testbench `NAME_tb`, which compares what is computed, before the driver scales it.
pub(super) fn print(top: &Top<'_>, vectors: &Vectors, language: Language) -> String {
    let (comment, text) = match language {
        Language::Verilog => ("//", for_verilog(top, vectors)),
        Language::Vhdl => ("--", for_vhdl(top, vectors)),
    };
    let notes = top.scalings.iter().map(|line| format!("{comment} {line}\n"));
    notes.chain([text]).collect()
}

/// The steps of a check: when a vector goes in, and which one comes out.
struct Steps {
    vectors: usize,
    /// Clock cycles; a combinational module has none.
    latency: usize,
    /// Number of steps.
    count: usize,
}

impl Steps {
    fn new(top: &Top<'_>, vectors: &Vectors) -> Steps {
        let (vectors, latency) = (vectors.outputs.len(), top.latency() as usize);
        // In step i vector i goes in and, before the clock edge, vector i - latency comes out.
        Steps { vectors, latency, count: vectors + latency }
    }
}

fn for_verilog(top: &Top<'_>, vectors: &Vectors) -> String {
    let (name, steps) = (top.name, Steps::new(top, vectors));
    let Steps { vectors, latency, count } = steps;
    let (input, output) = (top.input_width(), top.output_width());
    let mut out = String::from(verilog::TIMESCALE);
    // Several testbenches in one simulation must not end each other.
    let _ = writeln!(out, "module {name}_tb;\n  parameter FINISH = 1;");
    let mut ports = vec!["    .model_out(model_out)".to_owned()];
    if input > 0 {
        let _ = writeln!(out, "  reg [{}:0] model_inp;", input - 1);
        let _ = writeln!(out, "  reg [{}:0] inputs [0:{}];", input - 1, vectors - 1);
        ports.insert(0, "    .model_inp(model_inp)".to_owned());
    }
    if top.clocked() {
        out.push_str("  reg clk;\n");
        ports.insert(0, "    .clk(clk)".to_owned());
    }
    let _ = writeln!(out, "  wire [{}:0] model_out;", output - 1);
    let _ = writeln!(out, "  reg [{}:0] expected [0:{}];", output - 1, vectors - 1);
    out.push_str("  integer step, vector, failures;\n\n");
    let _ = writeln!(out, "  {name} dut (\n{}\n  );\n", ports.join(",\n"));
    out.push_str("  initial begin\n");
    if input > 0 {
        let _ = writeln!(out, "    $readmemh(\"{name}_in.hex\", inputs);");
    }
    let _ = writeln!(out, "    $readmemh(\"{name}_out.hex\", expected);");
    let clear = if top.clocked() { "\n    clk = 1'b0;" } else { "" };
    let _ = writeln!(out, "    failures = 0;{clear}");
    let _ = writeln!(out, "    for (step = 0; step < {count}; step = step + 1) begin");
    if input > 0 {
        let _ = writeln!(out, "      if (step < {vectors}) model_inp = inputs[step];");
    }
    let _ = writeln!(out, "      #1 vector = step - {latency};");
    out.push_str("      if (vector >= 0 && model_out !== expected[vector]) begin\n");
    let _ = writeln!(out, "        if (failures < {SHOWN})");
    out.push_str(
        "          $display(\"vector %0d: %h, expected %h\", vector, model_out, expected[vector]);\n",
    );
    out.push_str("        failures = failures + 1;\n      end\n");
    if top.clocked() {
        out.push_str("      clk = 1'b1;\n      #1 clk = 1'b0;\n");
    }
    out.push_str("    end\n");
    let _ = writeln!(
        out,
        "    if (failures == 0) $display(\"PASS {name}: {vectors} vectors\");\n    \
         else $display(\"FAIL {name}: %0d of {vectors} vectors\", failures);"
    );
    out.push_str("    if (FINISH) $finish;\n  end\nendmodule\n");
    out
}

fn for_vhdl(top: &Top<'_>, vectors: &Vectors) -> String {
    let (name, steps) = (top.name, Steps::new(top, vectors));
    let Steps { vectors, latency, count } = steps;
    let (input, output) = (top.input_width(), top.output_width());
    let mut out = vhdl::CONTEXT.trim_end().to_owned();
    let _ = writeln!(out, "\nuse std.textio.all;\n\nentity {name}_tb is\nend entity;\n");
    let _ = writeln!(out, "architecture sim of {name}_tb is");
    out.push_str(READ);
    let mut ports = vec!["model_out => model_out".to_owned()];
    if input > 0 {
        let _ = writeln!(out, "  signal model_inp : std_logic_vector({} downto 0);", input - 1);
        ports.insert(0, "model_inp => model_inp".to_owned());
    }
    if top.clocked() {
        out.push_str("  signal clk : std_logic := '0';\n");
        ports.insert(0, "clk => clk".to_owned());
    }
    let _ = writeln!(out, "  signal model_out : std_logic_vector({} downto 0);", output - 1);
    let ports = ports.join(", ");
    let _ = writeln!(out, "begin\n  dut : entity work.{name} port map ({ports});\n");
    out.push_str("  process\n");
    if input > 0 {
        let _ = writeln!(out, "    file inputs : text open read_mode is \"{name}_in.hex\";");
        let _ = writeln!(out, "    variable bits : std_logic_vector({} downto 0);", input - 1);
    }
    let _ = writeln!(out, "    file results : text open read_mode is \"{name}_out.hex\";");
    let _ = writeln!(out, "    variable expected : std_logic_vector({} downto 0);", output - 1);
    let _ = writeln!(out, "    variable failures : natural := 0;\n  begin");
    let _ = writeln!(out, "    for step in 0 to {} loop", count - 1);
    if input > 0 {
        let _ = writeln!(out, "      if step < {vectors} then");
        let _ = writeln!(out, "        read_bits(inputs, bits);\n        model_inp <= bits;");
        let _ = writeln!(out, "      end if;");
    }
    out.push_str("      wait for 1 ns;\n");
    let _ = writeln!(out, "      if step >= {latency} then");
    out.push_str("        read_bits(results, expected);\n        if model_out /= expected then\n");
    out.push_str("          failures := failures + 1;\n");
    let shown = "report \"wrong: vector \" & integer'image";
    let _ = writeln!(out, "          if failures <= {SHOWN} then");
    let _ = writeln!(out, "            {shown}(step - {latency});");
    out.push_str("          end if;\n        end if;\n      end if;\n");
    if top.clocked() {
        out.push_str("      clk <= '1';\n      wait for 1 ns;\n      clk <= '0';\n");
    }
    out.push_str("    end loop;\n");
    let fail = format!("\"FAIL {name}: \" & integer'image(failures) & \" of {vectors} vectors\"");
    let _ = writeln!(out, "    assert failures = 0 report {fail} severity failure;");
    let _ =
        writeln!(out, "    report \"PASS {name}: {vectors} vectors\";\n    wait;\n  end process;");
    out.push_str("end architecture;\n");
    out
}

/// Reads a line of hexadecimal digits into bits, the last digit lowest.
const READ: &str = "  procedure read_bits(file source : text; bits : out std_logic_vector) is
    variable l : line;
    variable value : natural;
    variable position : natural;
    constant top : natural := bits'length - 1;
    variable result : std_logic_vector(top downto 0) := (others => '0');
  begin
    readline(source, l);
    for i in l'range loop
      case l(i) is
        when '0' to '9' => value := character'pos(l(i)) - character'pos('0');
        when others => value := character'pos(l(i)) - character'pos('a') + 10;
      end case;
      for b in 0 to 3 loop
        position := 4 * (l'high - i) + b;
        if position <= top then
          if (value / 2 ** b) mod 2 = 1 then
            result(position) := '1';
          end if;
        end if;
      end loop;
    end loop;
    bits := result;
  end procedure;
";
