//! High-level synthesis: programs as C++ functions on fixed-point numbers, for three compilers.
//!
//! | file | what it holds |
//! |---|---|
//! | `fixed.rs` | types and expressions of C++ |
//! | `lower.rs` | from instructions to statements |
//! | `header.rs` | the function, its types and tables, and what it uses |
//! | `top.rs` | what the compilers begin with |
//! | `testbench.rs` | a program that checks the function |
//! | `project.rs` | scripts, and what the files are as JSON |

mod fixed;
mod header;
mod lower;
mod project;
mod testbench;
mod top;

pub use lower::MAX_WIDTH;

use crate::ports::scaling_lines;
use crate::program::{Pipeline, common_type};
use crate::rtl::{Samples, Settings, ends_of_logic, input_fields, module_name, samples};
use fixed::Fixed;
use lower::Lowered;
use quincunx_contract::{File, Interface};
use quincunx_diag::Result;
use quincunx_num::Kif;

/// A compiler of C++ to hardware, with its library of fixed-point types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Vitis HLS of AMD: `ap_fixed` and `ap_ufixed`.
    Vitis,
    /// oneAPI of Intel: `ac_fixed` in a SYCL kernel.
    OneApi,
    /// Catapult of Siemens: `ac_fixed`.
    Catapult,
}

impl Flavour {
    /// All of them.
    pub const ALL: [Flavour; 3] = [Flavour::Vitis, Flavour::OneApi, Flavour::Catapult];

    /// Its name, which is also the kind of files.
    pub fn name(self) -> &'static str {
        match self {
            Flavour::Vitis => "vitis",
            Flavour::OneApi => "oneapi",
            Flavour::Catapult => "catapult",
        }
    }

    /// What people call the compiler.
    fn compiler(self) -> &'static str {
        match self {
            Flavour::Vitis => "Vitis HLS",
            Flavour::OneApi => "oneAPI",
            Flavour::Catapult => "Catapult",
        }
    }
}

/// Everything that is written about a program for a compiler: a header with the function, a top,
/// a testbench with its vectors, a script and a description. `stem` is what the files are called
/// unless the settings say otherwise; names are made legal.
///
/// # Errors
/// The first error of a program that is not legal; `Q1180` when no bit leaves it, `Q1191` for a
/// number that is too wide, `Q1183` and `Q1184` for vectors that cannot be had.
pub fn emit(
    pipeline: &Pipeline,
    interface: &Interface,
    flavour: Flavour,
    settings: &Settings,
    stem: &str,
) -> Result<Vec<File>> {
    let (first, _) = ends_of_logic(pipeline)?;
    let fields = &input_fields(first)[..first.ends().0];
    let samples = samples(fields, pipeline, &interface.inputs, settings)?;
    emit_with_samples(pipeline, interface, flavour, settings, stem, &samples)
}

/// As [`emit`], with vectors that are known already.
///
/// # Errors
/// As [`emit`], but for vectors.
pub fn emit_with_samples(
    pipeline: &Pipeline,
    interface: &Interface,
    flavour: Flavour,
    settings: &Settings,
    stem: &str,
    samples: &Samples,
) -> Result<Vec<File>> {
    let (first, last) = ends_of_logic(pipeline)?;
    let (inputs, outputs) = (first.ends().0, last.ends().1);
    let [mut input_types, mut output_types] = [first.input_types(), last.output_types()];
    input_types.truncate(inputs);
    output_types.truncate(outputs);
    let (input, output) = (Numbers::new(input_types), Numbers::new(output_types));
    let name = settings.name.clone().unwrap_or_else(|| module_name(stem));
    let lowered = lower::lower(pipeline, flavour, input.fixed)?;
    let scalings = scaling_lines(interface);
    let design = Design { name: &name, flavour, input, output, lowered, interface, scalings };
    let vectors = samples.outputs.len();
    let mut files = vec![
        File::new(header::SUPPORT, header::support(flavour)),
        File::new(format!("{name}.h"), header::print(&design)),
        File::new(top::file_name(&design), top::print(&design)),
        File::new(format!("{name}_tb.cpp"), testbench::print(&design, vectors)),
        File::new(
            format!("{name}_in.hex"),
            testbench::vectors(&design.input, flavour, &samples.inputs),
        ),
        File::new(
            format!("{name}_out.hex"),
            testbench::vectors(&design.output, flavour, &samples.outputs),
        ),
    ];
    files.extend(project::files(&design, pipeline, settings, vectors));
    Ok(files)
}

/// The numbers of an array: all in one type, which holds the type of each.
#[derive(Debug)]
struct Numbers {
    kifs: Vec<Kif>,
    fixed: Fixed,
}

impl Numbers {
    fn new(kifs: Vec<Kif>) -> Numbers {
        let fixed = Fixed::of(common_type(kifs.iter().copied()));
        Numbers { kifs, fixed }
    }

    /// Elements of the array; C++ has none without any.
    fn count(&self) -> usize {
        self.kifs.len().max(1)
    }
}

/// A function with everything that is printed of it.
#[derive(Debug)]
struct Design<'a> {
    name: &'a str,
    flavour: Flavour,
    input: Numbers,
    output: Numbers,
    lowered: Lowered,
    interface: &'a Interface,
    /// What the driver makes of the outputs, in words.
    scalings: Vec<String>,
}

impl Design<'_> {
    /// True when a program has registers of its own, whose values the caller keeps.
    fn has_state(&self) -> bool {
        !self.lowered.registers.is_empty()
    }

    /// The function's arguments behind the arrays.
    fn state_argument(&self) -> &'static str {
        if self.has_state() { ", state" } else { "" }
    }
}
