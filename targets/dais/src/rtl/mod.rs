//! Register-transfer level: Verilog-2001 and VHDL-2008 of a program or pipeline.
//!
//! | file | what it holds |
//! |---|---|
//! | `wires.rs`, `netlist.rs` | bits, cells, modules: the form that everything else is made from |
//! | `number.rs`, `lower.rs` | from instructions to cells |
//! | `rom.rs` | tables in the order of the bits that choose from them |
//! | `ports.rs` | which bits of the ports belong to which number |
//! | `evaluate.rs` | what a module computes |
//! | `estimate.rs`, `parts.rs` | LUTs and flip-flops it will take; what parts have of them |
//! | `stage.rs`, `logic.rs`, `gates.rs`, `mapping.rs` | what the estimate counts: gates, and the LUTs that cover them |
//! | `verilog.rs`, `vhdl.rs` | the two languages |
//! | `testbench.rs`, `wrapper.rs`, `project.rs` | what goes with a module |
//! | `synth.rs` | Yosys on it |

mod estimate;
mod evaluate;
mod gates;
mod logic;
mod lower;
mod mapping;
mod names;
pub mod netlist;
mod number;
mod parts;
mod ports;
mod print;
mod project;
mod rom;
mod settings;
mod stage;
mod synth;
mod testbench;
mod vectors;
mod verilog;
mod vhdl;
mod wires;
mod wrapper;

pub use estimate::Estimate;
pub use names::module_name;
pub(crate) use parts::capacity;
pub use ports::Field;
pub(crate) use ports::input_fields;
pub(crate) use project::driver;
pub(crate) use rom::entries_by_bits;
pub(crate) use settings::OPTIONS;
pub use settings::Settings;
pub use synth::{Synthesis, synthesise};
pub(crate) use vectors::samples;
pub use vectors::{Samples, Vectors};

use crate::ports::scaling_lines;
use crate::program::{Pipeline, Program};
use crate::verify::{Rules, verify_pipeline};
use netlist::{NetId, Netlist, Wires};
use number::Wanted;
use print::Top;
use quincunx_contract::{File, Interface};
use quincunx_diag::{Diagnostic, Result, first_error};
use quincunx_num::{Dyadic, Int};

/// Widest port that is written, in bits.
pub const MAX_PORT: u32 = 1 << 20;

/// A language of the generated files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Verilog-2001.
    Verilog,
    /// VHDL-2008.
    Vhdl,
}

impl Language {
    /// Its name, which is also the kind of files.
    pub fn name(self) -> &'static str {
        match self {
            Language::Verilog => "verilog",
            Language::Vhdl => "vhdl",
        }
    }

    /// Ending of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Language::Verilog => "v",
            Language::Vhdl => "vhd",
        }
    }
}

/// Everything that is written about a program in a language: the design `NAME.v`, a wrapper, a
/// testbench with its vectors, constraints, scripts and a description. `stem` is what the files
/// are called unless the settings say otherwise; names are made legal.
///
/// # Errors
/// As [`Design::new`]; `Q1183` and `Q1184` for vectors that cannot be had, `Q1185` for ports that
/// are too wide.
pub fn emit(
    pipeline: &Pipeline,
    interface: &Interface,
    language: Language,
    settings: &Settings,
    stem: &str,
) -> Result<Vec<File>> {
    let design = Design::new(pipeline)?;
    let samples = vectors::samples(&design.inputs, pipeline, &interface.inputs, settings)?;
    let vectors = Vectors::of(&design, &samples);
    let name = settings.name.clone().unwrap_or_else(|| module_name(stem));
    let registers = settings.registers.unwrap_or(default_registers(pipeline));
    let (inputs, scalings) = (&interface.inputs, &scaling_lines(interface));
    let top = Top { name: &name, design: &design, pipeline, registers, inputs, scalings };
    let count = vectors.outputs.len();
    let mut files = design_files(&top, &vectors, language)?;
    files.extend(project::files(&top, settings, language, interface, count));
    Ok(files)
}

/// A pipeline has registers at every boundary, a single program has none.
pub(crate) fn default_registers(pipeline: &Pipeline) -> u32 {
    u32::from(pipeline.stages.len() > 1)
}

/// The design, its wrapper, and its testbench with vectors.
fn design_files(top: &Top<'_>, vectors: &Vectors, language: Language) -> Result<Vec<File>> {
    let (name, extension) = (top.name, language.extension());
    let mut files = vec![
        File::new(format!("{name}.{extension}"), print::print(top, language)),
        File::new(format!("{name}_wrapper.{extension}"), wrapper::print(top, language)?),
        File::new(format!("{name}_tb.{extension}"), testbench::print(top, vectors, language)),
    ];
    if top.input_width() > 0 {
        let inputs = testbench::hex(&vectors.inputs, top.input_width());
        files.push(File::new(format!("{name}_in.hex"), inputs));
    }
    let outputs = testbench::hex(&vectors.outputs, top.output_width());
    files.push(File::new(format!("{name}_out.hex"), outputs));
    Ok(files)
}

/// A design and a testbench for vectors that are known already.
///
/// # Errors
/// As [`Design::new`], and `Q1185`.
pub fn emit_with_vectors(
    pipeline: &Pipeline,
    language: Language,
    registers: u32,
    name: &str,
    vectors: &Vectors,
) -> Result<Vec<File>> {
    let (design, name) = (Design::new(pipeline)?, module_name(name));
    let top = Top { name: &name, design: &design, pipeline, registers, inputs: &[], scalings: &[] };
    design_files(&top, vectors, language)
}

/// The logic of a program, or of the stages of a pipeline one after the other.
#[derive(Clone, Debug)]
pub struct Design {
    stages: Vec<Netlist>,
    /// What each stage but the first gets from the output of the one before it, which is net 0.
    links: Vec<Wires>,
    inputs: Vec<Field>,
    outputs: Vec<Field>,
    /// For every stage which nets matter.
    live: Vec<Vec<bool>>,
    /// The registers of a program, which has one stage.
    state: State,
}

/// Registers, which are the upper bits of the input port of their stage.
#[derive(Clone, Debug)]
struct State {
    /// What they start with.
    start: Int,
    /// What they hold next, from the output of the stage, which is net 0.
    next: Wires,
}

impl Design {
    /// Lowers every stage.
    ///
    /// # Errors
    /// The first error of a program that is not legal; `Q1180` when no bit leaves it, `Q1185` for a
    /// port of more than [`MAX_PORT`] bits.
    pub fn new(pipeline: &Pipeline) -> Result<Design> {
        let (first, last) = ends_of_logic(pipeline)?;
        pipeline.stages.iter().try_for_each(check_ports)?;
        let (mut inputs, mut outputs) = (ports::input_fields(first), ports::output_fields(last));
        let (state_inputs, state_outputs) =
            (inputs.split_off(first.ends().0), outputs.split_off(last.ends().1));
        let stages: Vec<Netlist> = pipeline.stages.iter().map(lower::lower).collect();
        let links = pipeline.stages.windows(2).map(|pair| {
            let outputs = ports::output_fields(&pair[0]);
            link(&outputs, &ports::input_fields(&pair[1]))
        });
        let start = |&value| Dyadic::from_f64(value).unwrap_or(Dyadic::ZERO);
        let start: Vec<Dyadic> = first.state.iter().map(start).collect();
        let start = ports::put(&state_inputs, &start);
        Ok(Design {
            links: links.collect(),
            state: State { start, next: link(&state_outputs, &state_inputs) },
            inputs,
            outputs,
            live: stages.iter().map(Netlist::live).collect(),
            stages,
        })
    }

    /// The stages.
    pub fn stages(&self) -> &[Netlist] {
        &self.stages
    }

    /// Where the inputs lie in the port `model_inp`.
    pub fn inputs(&self) -> &[Field] {
        &self.inputs
    }

    /// Where the outputs lie in the port `model_out`.
    pub fn outputs(&self) -> &[Field] {
        &self.outputs
    }

    /// Bits of the port `model_inp`.
    pub fn input_width(&self) -> u32 {
        self.inputs.last().map_or(0, Field::end)
    }

    /// Bits of the port `model_out`.
    pub fn output_width(&self) -> u32 {
        self.outputs.last().map_or(0, Field::end)
    }

    /// The input port for some numbers: each is rounded down to its field's step and wrapped.
    ///
    /// # Errors
    /// `Q1181` for another count of numbers, or one that is not finite.
    pub fn pack(&self, inputs: &[f64]) -> Result<Int> {
        let expected = self.inputs.len();
        if inputs.len() != expected {
            let found = inputs.len();
            let message = format!("the module has {expected} inputs, found {found} numbers");
            return Err(Diagnostic::invalid("Q1181", message));
        }
        let number = |value: f64| {
            let message = || format!("an input is {value}, expected a finite number");
            Dyadic::from_f64(value).ok_or_else(|| Diagnostic::invalid("Q1181", message()))
        };
        let numbers = inputs.iter().map(|&value| number(value)).collect::<Result<Vec<_>>>()?;
        Ok(ports::put(&self.inputs, &numbers))
    }

    /// The numbers on the output port, rounded to the nearest f64.
    pub fn unpack(&self, output: &Int) -> Vec<f64> {
        self.outputs.iter().map(|field| field.get(output).to_f64()).collect()
    }

    /// Bits of the registers of a program.
    pub fn state_width(&self) -> u32 {
        self.state.next.width()
    }

    /// What these registers start with.
    pub fn start(&self) -> &Int {
        &self.state.start
    }

    /// The output port when the input port has these bits, before anything changed registers.
    pub fn evaluate(&self, input: &Int) -> Int {
        self.step(&mut self.start().clone(), input)
    }

    /// As [`Design::evaluate`], with what the registers hold, which becomes what they hold next.
    pub fn step(&self, state: &mut Int, input: &Int) -> Int {
        let mut bits = input + (&*state << self.input_width() as usize);
        for (number, (stage, live)) in self.stages.iter().zip(&self.live).enumerate() {
            if number > 0 {
                bits = evaluate::gather(&self.links[number - 1], std::slice::from_ref(&bits));
            }
            bits = evaluate::evaluate(stage, live, &bits);
        }
        *state = evaluate::gather(&self.state.next, std::slice::from_ref(&bits));
        wires::low_bits(&bits, self.output_width())
    }
}

/// The first and the last stage of a legal pipeline that some bit leaves.
///
/// # Errors
/// The first error of a program that is not legal; `Q1180` when no bit leaves it.
pub(crate) fn ends_of_logic(pipeline: &Pipeline) -> Result<(&Program, &Program)> {
    first_error(verify_pipeline(pipeline, &Rules::EXECUTABLE))?;
    let (Some(first), Some(last)) = (pipeline.stages.first(), pipeline.stages.last()) else {
        return Err(Diagnostic::invalid("Q1180", "a pipeline without stages has no logic"));
    };
    if last.output_types()[..last.ends().1].iter().all(|kif| kif.width() == 0) {
        let message = "all outputs are 0 by their types, no bit leaves the module";
        return Err(Diagnostic::unsupported("Q1180", message));
    }
    Ok((first, last))
}

/// Ports of a width that can be written.
fn check_ports(program: &Program) -> Result<()> {
    for (port, kifs) in [("inputs", program.input_types()), ("outputs", program.output_types())] {
        let bits: u64 = kifs.iter().map(|kif| u64::from(kif.width())).sum();
        if bits > u64::from(MAX_PORT) {
            let message =
                format!("the {port} have {bits} bits together, expected at most {MAX_PORT}");
            return Err(Diagnostic::unsupported("Q1185", message));
        }
    }
    Ok(())
}

/// The input port of a stage as wires of the output port before it.
fn link(outputs: &[Field], inputs: &[Field]) -> Wires {
    let bus = Wires::of_net(NetId::PORT, outputs.last().map_or(0, Field::end));
    let pairs = outputs.iter().zip(inputs);
    pairs.fold(Wires::none(), |wires, (output, input)| {
        wires.below(&output.number(&bus).quantised(Wanted::from(input.kif)))
    })
}
