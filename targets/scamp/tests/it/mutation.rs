//! Planted faults: wrong results of macros against golden data, illegal operands against the rules of
//! the documents, and corrupted programs against the checkers.

use crate::common::{
    Random, analogue_cases, golden_text, is_legal, kernel_programs, parse, reg, scamp5,
};
use quincunx_diag::any_error;
use quincunx_isa::{Coverage, Layout};
use quincunx_scamp::files::{KernelFile, read_kernels};
use quincunx_scamp::isa::{Class, Inst, TABLE};
use quincunx_scamp::program::{Program, Space};
use quincunx_scamp::simulate::{Executor, Settings};
use quincunx_scamp::verify::{verify, verify_kernels};
use quincunx_testkit::{Verdict, campaign};

/// Macros that the golden data covers: all but those of the sensor and the deprecated spellings,
/// which `differential.rs` covers together with everything that is not a macro.
fn covered(row: usize) -> bool {
    let name = TABLE.rows[row].name;
    let layout = Layout::fixed(&TABLE).unwrap();
    let inst = Inst::from_raw(&TABLE.random_of(row, &mut |_| 0, &layout)).unwrap();
    matches!(inst.class(), Class::Macro) && !name.ends_with("Direction")
}

#[test]
fn every_macro_is_executed_and_its_faults_are_noticed() {
    let cases = analogue_cases();
    let mut coverage = Coverage::new(&TABLE);
    for inst in cases.iter().flat_map(|case| &case.program.instructions) {
        coverage.mark(inst.row());
    }
    let faults: [fn(&mut f64); 2] = [|v| *v += 1.0, |v| *v = 0.5 - *v];
    for row in (0..TABLE.rows.len()).filter(|&row| covered(row)) {
        let name = TABLE.rows[row].name;
        assert!(coverage.count(row) > 0, "{name}");
        for fault in faults {
            let noticed = cases.iter().any(|case| {
                let uses = |index: usize| case.program.instructions[index].row() == row;
                let indices: Vec<usize> =
                    (0..case.program.instructions.len()).filter(|&index| uses(index)).collect();
                !indices.is_empty() && {
                    let outcome = case.run_with(&mut |index, planes| {
                        if indices.contains(&index) {
                            planes.analogue.iter_mut().for_each(|plane| fault(&mut plane[0]));
                        }
                    });
                    outcome.map_or(true, |outcome| !case.agrees(&outcome))
                }
            });
            assert!(noticed, "{name}");
        }
    }
}

/// The column "illegal when" of the documents.
fn documented(inst: &Inst) -> bool {
    use Inst as I;
    match *inst {
        I::Add { a, b, .. } | I::Addx { a, b, .. } | I::Add2x { a, b, .. } => a != b,
        I::Add3 { a, b, c, .. } => a != b && b != c && a != c,
        I::Sub { y, b, .. } | I::Subx { y, b, .. } | I::Sub2x { y, b, .. } => y != b,
        I::Neg { y, x } | I::Abs { y, x } | I::Divq { y, x } => y != x,
        I::Div { y, z, x } => y != z && z != x && y != x,
        I::DivFrom { y, z, t, x } => y != z && z != t && y != t && x != y && x != z,
        I::Diva { y, z, t } => y != z && z != t && y != t,
        _ => true,
    }
}

/// All operands of all macros of the documents: legal exactly where these say so.
#[test]
fn legality_is_as_documented() {
    let mut refused = 0;
    for form in [
        "res($1)",
        "res($1, $2)",
        "mov($1, $2)",
        "add($1, $2, $3)",
        "add($1, $2, $3, $4)",
        "sub($1, $2, $3)",
        "neg($1, $2)",
        "abs($1, $2)",
        "divq($1, $2)",
        "div($1, $2, $3)",
        "div($1, $2, $3, $4)",
        "diva($1, $2, $3)",
        "movx($1, $2, north)",
        "mov2x($1, $2, east, south)",
        "addx($1, $2, $3, west)",
        "add2x($1, $2, $3, north, north)",
        "subx($1, $2, east, $3)",
        "sub2x($1, $2, south, west, $3)",
    ] {
        for choice in 0..256_usize {
            let mut source = form.to_owned();
            for place in 0..4 {
                let name = ["A", "B", "C", "F"][choice >> (2 * place) & 3];
                source = source.replace(["$1", "$2", "$3", "$4"][place], name);
            }
            let program = parse(&source);
            let expected = documented(&program.instructions[0]);
            assert_eq!(is_legal(&program), expected, "{source}");
            refused += usize::from(!expected);
        }
    }
    assert!(refused > 1000, "{refused}");
}

const SIDE: usize = 26;
/// Further than any value of the programs travels.
const MARGIN: usize = 10;

/// The outputs of a program away from the edge; `None` if it cannot be run.
fn outputs(program: &Program, file: &KernelFile, image: &[f64]) -> Option<Vec<f64>> {
    let mut program = program.clone();
    program.inputs = Some(file.inputs.iter().map(|name| reg(name)).collect());
    program.outputs = Some(file.outputs().into_iter().map(reg).collect());
    let executor = Executor::new(&program, &scamp5(), SIDE, SIDE, Settings::default()).ok()?;
    let outcome = executor.run(&[((Space::Analogue, reg("A")), image.to_vec())]).ok()?;
    let mut list = Vec::new();
    for name in file.outputs() {
        let values = outcome.register((Space::Analogue, reg(name)))?;
        for row in MARGIN..SIDE - MARGIN {
            list.extend_from_slice(&values[row * SIDE + MARGIN..(row + 1) * SIDE - MARGIN]);
        }
    }
    Some(list)
}

/// Changes an operand, drops, doubles or exchanges instructions, or puts another one in.
fn corrupt(program: &Program, random: &mut Random) -> Program {
    let mut list = program.instructions.clone();
    let at = random.below(list.len() as u64) as usize;
    match random.below(6) {
        0 => drop(list.remove(at)),
        1 => list.insert(at, list[at]),
        2 => {
            let other = random.below(list.len() as u64) as usize;
            list.swap(at, other);
        }
        3 => {
            let rows: Vec<usize> = (0..TABLE.rows.len()).filter(|&row| covered(row)).collect();
            let row = rows[random.below(rows.len() as u64) as usize];
            list[at] = crate::common::legal_instruction(row, random);
        }
        _ => {
            let mut raw = list[at].to_raw();
            let layout = Layout::fixed(&TABLE).unwrap();
            let fresh = TABLE.random_of(raw.row, &mut |n| random.below(n), &layout);
            let operand = random.below(raw.values.len().max(1) as u64) as usize;
            if let Some(value) = raw.values.get_mut(operand) {
                *value = fresh.values[operand];
            }
            list[at] = Inst::from_raw(&raw).unwrap();
        }
    }
    Program { instructions: list, ..program.clone() }
}

/// 1,000 corruptions of programs that compute their kernels: each is refused, or its outputs are
/// those of the valid program.
#[test]
fn no_corruption_is_missed() {
    let programs: Vec<(Program, KernelFile)> = kernel_programs()
        .into_iter()
        .filter(|(_, program)| program.length() <= 22)
        .map(|(id, program)| {
            let file = golden_text(&format!("cain_inputs/{id}.json"));
            (program, read_kernels(&file).unwrap())
        })
        .collect();
    let [refused, harmless] = campaign(|random| {
        let (program, file) = &programs[random.below(programs.len())];
        let corrupted = corrupt(program, random);
        let rules = any_error(&verify(&corrupted, &scamp5()));
        if rules
            || verify_kernels(&corrupted, file, &scamp5()).map_or(true, |found| !found.is_empty())
        {
            return Some(Verdict::Rejected);
        }
        let image = random.codes(SIDE * SIDE);
        let expected = outputs(program, file, &image);
        assert!(expected.is_some());
        Some(if outputs(&corrupted, file, &image) == expected {
            Verdict::Harmless
        } else {
            Verdict::Missed(format!("{:?}", corrupted.instructions))
        })
    });
    assert!(refused > 700, "{refused} refused, {harmless} harmless");
}

/// Numbers of two bits, the sum of a pixel and its east neighbour; in super-pixel mode the two bits
/// lie side by side.
const DIGITAL: [(&str, &str); 2] = [
    (
        r#"{"name": "d", "target": "scamp5", "mode": "digital", "goalSystem": "atom",
        "maxApproximationDepth": 0, "maxApproximationError": 0, "filter": {"DB": [[0, 1, 1]]},
        "registerAllocator": {"name": "linearScan", "availableRegisters": [],
        "initialRegisters": ["DA"]}, "pairGen": {"bits": 2,
        "regMapping": {"DA": ["R5", "R6"], "DB": ["R7", "R8"]}}}"#,
        "CLR(R1, R2, R3, R4); SET(R4); DNEWS0(R7, R5); DNEWS0(R8, R6); AND(R9, R7, R5);
        XOR(R7, R7, R5); XOR(R8, R8, R6); XOR(R8, R8, R9)",
    ),
    (
        r#"{"name": "s", "target": "scamp5", "mode": "superpixel",
        "maxApproximationDepth": 0, "maxApproximationError": 0, "filter": {"R7": [[0, 0, 1]]},
        "registerAllocator": {"name": "linearScan", "availableRegisters": [],
        "initialRegisters": ["R5"]}, "pairGen": {"width": 2, "height": 1, "bitOrder": [[[1, 2]]]}}"#,
        "CLR(R1, R2, R3, R4); SET(R4); DNEWS0(R6, R5); DNEWS0(R7, R6); SET(R0); NOT(R12, R7);
        NOT(R7, R12)",
    ),
];

/// What the program makes of bits in all registers, away from the edge.
fn digital_outputs(program: &Program, outputs: &[&str], seed: u64) -> Vec<f64> {
    let names = (0..13).map(|number| format!("R{number}")).collect::<Vec<_>>();
    let mut program = program.clone();
    program.inputs = Some(names.iter().map(|name| reg(name)).collect());
    let mut random = Random::new(seed);
    let planes: Vec<_> = names
        .iter()
        .map(|name| {
            let plane = (0..SIDE * SIDE).map(|_| random.below(2) as f64).collect();
            ((Space::Digital, reg(name)), plane)
        })
        .collect();
    let executor = Executor::new(&program, &scamp5(), SIDE, SIDE, Settings::default()).unwrap();
    let outcome = executor.run(&planes).unwrap();
    let mut list = Vec::new();
    for name in outputs {
        let values = outcome.register((Space::Digital, reg(name))).unwrap_or_default();
        let inner = (MARGIN..SIDE - MARGIN).filter(|_| !values.is_empty());
        for row in inner {
            list.extend_from_slice(&values[row * SIDE + MARGIN..(row + 1) * SIDE - MARGIN]);
        }
    }
    list
}

/// 1,000 corruptions of digital and super-pixel programs: each is refused, or its outputs are those
/// of the valid program, whatever the registers hold at the start.
#[test]
fn no_digital_corruption_is_missed() {
    let outputs: [&[&str]; 2] = [&["R7", "R8"], &["R7"]];
    let programs = DIGITAL.map(|(file, source)| (read_kernels(file).unwrap(), parse(source)));
    for (file, program) in &programs {
        assert_eq!(verify_kernels(program, file, &scamp5()).unwrap(), []);
    }
    let [refused, harmless] = campaign(|random| {
        let which = random.below(2_usize);
        let (file, program) = &programs[which];
        let corrupted = corrupt_bits(program, random);
        let accepted = !any_error(&verify(&corrupted, &scamp5()))
            && verify_kernels(&corrupted, file, &scamp5()).is_ok_and(|found| found.is_empty());
        if !accepted {
            return Some(Verdict::Rejected);
        }
        let same = |seed| {
            let run = |program| digital_outputs(program, outputs[which], seed);
            !run(program).is_empty() && run(program) == run(&corrupted)
        };
        Some(if same(1) && same(2) {
            Verdict::Harmless
        } else {
            Verdict::Missed(format!("{:?}", corrupted.instructions))
        })
    });
    assert!(refused > 500 && harmless > 0, "{refused} refused, {harmless} harmless");
}

/// Changes an operand, drops or exchanges instructions, or puts another one on bits in.
fn corrupt_bits(program: &Program, random: &mut Random) -> Program {
    let mut list = program.instructions.clone();
    let at = random.below(list.len() as u64) as usize;
    let layout = Layout::fixed(&TABLE).unwrap();
    match random.below(6) {
        0 => drop(list.remove(at)),
        1 => {
            let other = random.below(list.len() as u64) as usize;
            list.swap(at, other);
        }
        2 => loop {
            let row = random.below(TABLE.rows.len() as u64) as usize;
            let raw = TABLE.random_of(row, &mut |n| random.below(n), &layout);
            let inst = Inst::from_raw(&raw).unwrap();
            if matches!(inst.class(), Class::Digital(_)) {
                list[at] = inst;
                break;
            }
        },
        _ => {
            let mut raw = list[at].to_raw();
            let fresh = TABLE.random_of(raw.row, &mut |n| random.below(n), &layout);
            let operand = random.below(raw.values.len().max(1) as u64) as usize;
            if let Some(value) = raw.values.get_mut(operand).filter(|value| **value != 0) {
                *value = fresh.values[operand];
            }
            if let Some(inst) = Inst::from_raw(&raw) {
                list[at] = inst;
            }
        }
    }
    Program { instructions: list, ..program.clone() }
}
