//! The C++ header compiles against a stub of the kernel API, which is a second simulator: programs
//! that it runs give what ours gives.

use crate::common::{Images, Random, is_condition, kernel_programs, legal_instruction, reg, rows};
use quincunx_scamp::isa::{Inst, TABLE};
use quincunx_scamp::program::{Program, Space};
use quincunx_scamp::simulate::{Executor, Settings};
use quincunx_scamp::text::{Dialect, print};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The array of the stub.
const WIDTH: usize = 6;
const HEIGHT: usize = 5;

/// Its registers, in the order in which it reads and prints them.
const ANALOGUE: [&str; 9] = ["A", "B", "C", "D", "E", "F", "NEWS", "PIX", "IN"];
const BITS: [&str; 16] = [
    "R0", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11", "R12", "FLAG",
    "SELECT", "RECT",
];

/// False where there is no compiler, which is a failure if tools are required.
fn has_compiler() -> bool {
    let found = Command::new("c++").arg("--version").output().is_ok();
    let required = std::env::var("QUINCUNX_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(found || !required, "c++ is missing");
    found
}

/// What the API does not have: the emulator's input, and bus steps with more than three receivers.
fn is_in_api(row: usize) -> bool {
    !["Input", "Bus4", "Bus5", "Bus6"].contains(&TABLE.rows[row].name)
}

/// Instructions on registers that the stub has.
fn is_named(inst: &Inst) -> bool {
    let known = |name: &str| {
        let neighbours = ["XN", "XE", "XS", "XW"];
        let aliases =
            ["RF", "RS", "RW", "RN", "RE", "RP", "S0", "S1", "S2", "S3", "S4", "S5", "S6"];
        [&ANALOGUE[..], &BITS, &neighbours, &aliases].iter().any(|list| list.contains(&name))
    };
    inst.registers().all(|register| known(&register.to_string()))
}

fn drawn(list: &[usize], random: &mut Random, fits: impl Fn(&Inst) -> bool) -> Inst {
    loop {
        let row = list[random.below(list.len() as u64) as usize];
        let inst = legal_instruction(row, random);
        if is_named(&inst) && fits(&inst) {
            return inst;
        }
    }
}

/// Golden programs; every instruction of the API; bus steps and 1-bit instructions under masks.
fn programs() -> Vec<Program> {
    let mut list: Vec<Program> = kernel_programs().into_iter().map(|(_, p)| p).take(12).collect();
    let mut random = Random::new(31);
    let api: Vec<usize> = rows().filter(|&row| is_in_api(row)).collect();
    for &row in &api {
        let mut own: Vec<Inst> =
            (0..2).map(|_| drawn(&api, &mut random, |inst| !is_condition(inst))).collect();
        own.push(drawn(&[row], &mut random, |_| true));
        list.push(Program::new(own));
    }
    let masked: Vec<usize> = api
        .iter()
        .copied()
        .filter(|&row| {
            let name = TABLE.rows[row].name;
            name.starts_with("Bus") || ["Where", "WhereBit", "Xor", "Dnews1"].contains(&name)
        })
        .collect();
    for _ in 0..24 {
        list.push(Program::new((0..8).map(|_| drawn(&masked, &mut random, |_| true)).collect()));
    }
    list
}

/// Multiples of 6 to the 8th, so that halves and thirds stay whole.
fn images(random: &mut Random) -> Images {
    let size = WIDTH * HEIGHT;
    let unit = 6.0_f64.powi(8);
    let codes = |random: &mut Random| random.codes(size).into_iter().map(|v| v * unit).collect();
    let analogue = ANALOGUE.map(|name| ((Space::Analogue, reg(name)), codes(random)));
    let bits = BITS.map(|name| {
        // FLAG is set everywhere where a program begins.
        let image = if name == "FLAG" { vec![1.0; size] } else { random.bits(size) };
        ((Space::Digital, reg(name)), image)
    });
    analogue.into_iter().chain(bits).collect()
}

/// The registers that the stub prints for each program.
fn of_stub(programs: &[Program], inputs: &[Images], folder: &Path) -> Vec<Vec<f64>> {
    let stub = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api");
    let mut main = String::from("#include \"run.hpp\"\n");
    let mut calls = String::new();
    for (number, program) in programs.iter().enumerate() {
        let name = format!("kernel_{number}");
        let header = print(program, &Dialect::Cpp(name.clone())).unwrap();
        fs::write(folder.join(format!("{name}.hpp")), header).unwrap();
        let _ = writeln!(main, "#include \"{name}.hpp\"");
        let _ = writeln!(calls, "    read_registers();\n    {name}();\n    print_registers();");
    }
    let _ = write!(main, "int main() {{\n{calls}    return 0;\n}}\n");
    fs::write(folder.join("main.cpp"), main).unwrap();
    let built = Command::new("c++")
        .args(["-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", "-o", "run", "main.cpp", "-I"])
        .arg(stub)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut numbers = String::new();
    for value in inputs.iter().flatten().flat_map(|(_, image)| image) {
        let _ = write!(numbers, "{value} ");
    }
    let mut child = Command::new(folder.join("run"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(numbers.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    text.lines().map(line).collect()
}

#[test]
fn headers_run_on_the_api() {
    if !has_compiler() {
        return;
    }
    let programs = programs();
    let mut random = Random::new(32);
    let inputs: Vec<Images> = programs.iter().map(|_| images(&mut random)).collect();
    let place = tempfile::tempdir().unwrap();
    let found = of_stub(&programs, &inputs, place.path());
    assert_eq!(found.len(), programs.len());
    let arch = crate::common::generous();
    let mut compared = 0;
    for ((program, images), found) in programs.iter().zip(&inputs).zip(&found) {
        let executor = Executor::new(program, &arch, WIDTH, HEIGHT, Settings::default()).unwrap();
        let given: Images =
            images.iter().filter(|((_, register), _)| *register != reg("FLAG")).cloned().collect();
        let outcome = executor.run(&given).unwrap();
        for ((named, _), stub) in images.iter().zip(found.chunks(WIDTH * HEIGHT)) {
            // Registers that a program does not use have no plane.
            let Some(ours) = outcome.register(*named) else { continue };
            assert_eq!(ours, stub, "{} of {:?}", named.1, program.instructions);
            compared += 1;
        }
    }
    assert!(compared > 3 * programs.len(), "{compared}");
}
