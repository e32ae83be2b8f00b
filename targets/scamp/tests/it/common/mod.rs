//! Golden cases, read from `tests/golden/scamp`, and random programs.
#![allow(dead_code, unreachable_pub, reason = "every test uses a part")]

pub mod reference;

pub use quincunx_testkit::Random;

use quincunx_diag::{SourceId, any_error};
use quincunx_isa::Layout;
use quincunx_scamp::ScampArch;
use quincunx_scamp::isa::{Class, Inst, Reg, TABLE};
use quincunx_scamp::program::{Named, Program, Space};
use quincunx_scamp::simulate::{Edge, Executor, Outcome, Settings};
use quincunx_scamp::text;
use quincunx_scamp::verify::verify;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the golden data.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/scamp")
}

pub fn golden(name: &str) -> Value {
    serde_json::from_str(&golden_text(name)).unwrap()
}

pub fn golden_text(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

pub fn reg(name: &str) -> Reg {
    Reg::new(name).unwrap()
}

pub fn scamp5() -> ScampArch {
    ScampArch::preset("scamp5").unwrap()
}

pub fn parse(text: &str) -> Program {
    text::parse(text, SourceId(0)).unwrap()
}

/// A program from a list of statements.
pub fn program(lines: &Value) -> Program {
    let lines: Vec<&str> = lines.as_array().unwrap().iter().map(|l| l.as_str().unwrap()).collect();
    parse(&lines.join("; "))
}

pub fn is_legal(program: &Program) -> bool {
    !any_error(&verify(program, &scamp5()))
}

pub type Images = Vec<(Named, Vec<f64>)>;

/// A program with images for some registers and the images expected of others.
pub struct Case {
    pub name: String,
    pub program: Program,
    pub width: usize,
    pub height: usize,
    pub edge: Edge,
    pub inputs: Images,
    pub outputs: Images,
}

impl Case {
    /// The images of the outputs, with something done after every instruction.
    pub fn run_with(
        &self,
        mutate: quincunx_scamp::simulate::Mutate<'_>,
    ) -> Result<Outcome, quincunx_diag::Diagnostic> {
        let settings = Settings { edge: self.edge, ..Settings::default() };
        let mut program = self.program.clone();
        program.inputs = Some(self.inputs.iter().map(|((_, r), _)| *r).collect());
        program.outputs = Some(self.outputs.iter().map(|((_, r), _)| *r).collect());
        let executor = Executor::new(&program, &scamp5(), self.width, self.height, settings)?;
        executor.run_with(&self.inputs, mutate)
    }

    /// True if all outputs are as expected.
    pub fn agrees(&self, outcome: &Outcome) -> bool {
        self.outputs.iter().all(|(named, image)| outcome.register(*named).as_ref() == Some(image))
    }
}

pub fn image(rows: &Value) -> Vec<f64> {
    let rows = rows.as_array().unwrap().iter();
    rows.flat_map(|row| row.as_array().unwrap()).map(|n| n.as_f64().unwrap()).collect()
}

fn images(value: &Value) -> Images {
    let object = value.as_object().unwrap().iter();
    object.map(|(name, rows)| ((Space::Analogue, reg(name)), image(rows))).collect()
}

/// The analogue cases of the golden data, in both edge modes.
pub fn analogue_cases() -> Vec<Case> {
    let mut list = Vec::new();
    for file in ["emu_instructions.json", "emu_random.json", "emu_abs_reference_only.json"] {
        for case in golden(file).as_array().unwrap() {
            for (mode, edge) in [("zero", Edge::Zero), ("stale", Edge::Stale)] {
                list.push(Case {
                    name: format!("{}.{mode}", case["id"].as_str().unwrap()),
                    program: program(&case["program"]),
                    width: case["width"].as_u64().unwrap() as usize,
                    height: case["height"].as_u64().unwrap() as usize,
                    edge,
                    inputs: images(&case["inputs"]),
                    outputs: images(&case[format!("outputs_{mode}_edge")]),
                });
            }
        }
    }
    list
}

/// Every golden program that computes kernels: its id and the program.
pub fn kernel_programs() -> Vec<(String, Program)> {
    let lists = [golden("programs.json"), golden("best_known.json")["programs"].clone()];
    let cases = lists.iter().flat_map(|list| list.as_array().unwrap().clone());
    cases.map(|c| (c["id"].as_str().unwrap().to_owned(), program(&c["program"]))).collect()
}

/// A random instruction of a row that is legal by itself, kernel begin and end aside.
pub fn legal_instruction(row: usize, random: &mut Random) -> Inst {
    let layout = Layout::fixed(&TABLE).unwrap();
    for _ in 0..100_000 {
        let raw = TABLE.random_of(row, &mut |n| random.below(n), &layout);
        let inst = Inst::from_raw(&raw).unwrap();
        let arch = generous();
        if !any_error(&verify(&Program::new(vec![inst]), &arch)) {
            return inst;
        }
    }
    panic!("no legal {}", TABLE.rows[row].name);
}

/// The default machine, with as many receivers as the table has.
pub fn generous() -> ScampArch {
    let mut arch = scamp5();
    arch.max_receivers = 6;
    arch.max_sources = vec![12];
    arch
}

/// Rows but kernel begin and end.
pub fn rows() -> impl Iterator<Item = usize> {
    (0..TABLE.rows.len())
        .filter(|&row| !["KernelBegin", "KernelEnd"].contains(&TABLE.rows[row].name))
}

/// A random legal program.
pub fn random_program(length: usize, random: &mut Random) -> Program {
    let rows: Vec<usize> = rows().collect();
    let pick = |random: &mut Random| {
        let row = rows[random.below(rows.len() as u64) as usize];
        legal_instruction(row, random)
    };
    Program::new((0..length).map(|_| pick(random)).collect())
}

/// True for instructions whose results depend on data by conditions.
pub fn is_condition(inst: &Inst) -> bool {
    matches!(inst.class(), Class::Condition | Class::All)
        || matches!(inst, Inst::Abs { .. } | Inst::WhereBit { .. } | Inst::AllBits {})
}
