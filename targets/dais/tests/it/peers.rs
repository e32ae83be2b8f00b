//! da4ml and alkaid as judges: they load our JSON and predict the same outputs. See
//! `tests/peers/predict.py`; the tools are PyPI packages of the interpreter `QUINCUNX_PYTHON`.

use crate::common::cases;
use crate::common::random::program_in;
use quincunx_dais::binary::{Dialect, convert};
use quincunx_dais::files;
use quincunx_dais::isa::Inst;
use quincunx_dais::program::Program;
use quincunx_dais::simulate::Executor;
use quincunx_dais::{Effort, constant_product};
use quincunx_tensor::{Tensor, npy};
use quincunx_testkit::Random;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Samples of each program.
const SAMPLES: usize = 32;

/// The interpreter, if it has both tools. Without them the test says so and passes, or fails if
/// `QUINCUNX_REQUIRE_TOOLS` is 1.
pub(crate) fn python() -> Option<String> {
    let python = std::env::var("QUINCUNX_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = ["-c", "import da4ml.types, alkaid.types, numpy"];
    let found = Command::new(&python).args(import).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let required = std::env::var("QUINCUNX_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(!required, "{python} has no da4ml and alkaid");
    None
}

/// A folder for the programs of one test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

pub(crate) fn save(path: &Path, rows: &[Vec<f64>]) {
    let tensor = Tensor::from_vec(&[rows.len(), rows[0].len()], rows.concat()).unwrap();
    fs::write(path, npy::write_npy(&tensor)).unwrap();
}

/// What da4ml 0.6.0 gets wrong by its known defects: a condition without sign, of more than two
/// bits, is taken as set from its second-highest bit on; a type without bits has a top bit; and a
/// constant cannot be added to a step finer than that of the result.
fn da4ml_is_wrong(program: &Program) -> bool {
    program.operations.iter().any(|operation| match operation.inst {
        Inst::Mux { condition, .. } | Inst::MuxNegated { condition, .. } => {
            let kif = program.operations[condition.0 as usize].slot_type.kif();
            kif.width() == 0 || (!kif.signed && kif.width() > 2)
        }
        Inst::AddConstant { x, .. } => {
            let from = program.operations[x.0 as usize].slot_type.kif();
            operation.slot_type.kif().fraction < from.fraction
        }
        _ => false,
    })
}

/// Writes a program in all forms with inputs and our outputs, unless JSON cannot express it.
fn write(folder: &Path, name: &str, program: &Program, inputs: &[Vec<f64>]) {
    let d1 = convert(program, Dialect::D1).unwrap().program;
    let a4 = convert(program, Dialect::A4).unwrap().program;
    let (Ok(d1_json), Ok(json)) = (files::write_json(&d1), files::write_alir_json(&a4)) else {
        return;
    };
    let mut executor = Executor::new(program).unwrap();
    let outputs: Vec<Vec<f64>> = inputs.iter().map(|x| executor.run(x).unwrap()).collect();
    save(&folder.join(format!("{name}_in.npy")), inputs);
    save(&folder.join(format!("{name}_out.npy")), &outputs);
    if !da4ml_is_wrong(&d1) {
        fs::write(folder.join(format!("{name}.da4ml.json")), d1_json).unwrap();
    }
    fs::write(folder.join(format!("{name}.alkaid.json.gz")), files::compress(&json).unwrap())
        .unwrap();
    fs::write(folder.join(format!("{name}.alkaid.json")), json).unwrap();
}

/// Lets both tools run a folder; gives how many programs da4ml and alkaid ran.
pub(crate) fn judge(python: &str, folder: &Path) -> (usize, usize) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers/predict.py");
    let output = Command::new(python).arg(script).arg(folder).output().unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}\n{errors}");
    let count = |form: &str| {
        let mut words = text.split_whitespace();
        let word = words.find_map(|word| word.strip_prefix(form)?.strip_prefix('='));
        word.unwrap().parse().unwrap()
    };
    assert_eq!(count(".alkaid.json"), count(".alkaid.json.gz"));
    (count(".da4ml.json"), count(".alkaid.json"))
}

#[test]
fn random_programs_give_the_same_in_da4ml_and_alkaid() {
    let Some(python) = python() else { return };
    let folder = folder("peers-random");
    for seed in 0..60 {
        for dialect in [Dialect::D1, Dialect::A4] {
            let mut random = Random::new(seed);
            let program = program_in(&mut random, 25, dialect);
            let width = program.input_shifts.len();
            let sample = |random: &mut Random| (0..width).map(|_| random.float()).collect();
            let inputs: Vec<Vec<f64>> = (0..SAMPLES).map(|_| sample(&mut random)).collect();
            write(&folder, &format!("{}_{seed}", dialect.name()), &program, &inputs);
        }
    }
    let (da4ml, alkaid) = judge(&python, &folder);
    assert!(da4ml >= 40 && alkaid >= 100, "{da4ml}, {alkaid}");
}

#[test]
fn traced_programs_and_products_give_the_same_in_da4ml_and_alkaid() {
    let Some(python) = python() else { return };
    let folder = folder("peers-traced");
    for case in cases(&["traced", "alir4"]) {
        let name = case.name.replace('/', "_");
        write(&folder, &name, &case.program(), &case.inputs);
    }
    let mut random = Random::new(7);
    for size in [1, 3, 8, 12] {
        let mut weights = || i64::from(random.range(-99, 99));
        let weights: Vec<i64> = (0..size * size).map(|_| weights()).collect();
        let program =
            constant_product(&weights, size, &vec![(-128, 127); size], Effort::Fast, None).unwrap();
        let mut number = || f64::from(random.range(-128, 127));
        let inputs: Vec<Vec<f64>> =
            (0..SAMPLES).map(|_| (0..size).map(|_| number()).collect()).collect();
        write(&folder, &format!("product_{size}"), &program, &inputs);
    }
    let (da4ml, alkaid) = judge(&python, &folder);
    assert!(da4ml >= 12, "{da4ml}");
    assert_eq!(alkaid, cases(&["traced", "alir4"]).len() + 4);
}
