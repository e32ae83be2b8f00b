//! The global input IN: loads, IN as a source, and where kernels end for the controller.

use crate::common::reference::Reference;
use crate::common::{Random, generous, legal_instruction, parse, reg, rows, scamp5};
use quincunx_num::Ratio;
use quincunx_scamp::isa::{Class, Inst, Reg};
use quincunx_scamp::program::{Program, Space, access};
use quincunx_scamp::simulate::{Executor, Settings};
use quincunx_scamp::symbolic::{Level, computed};
use quincunx_scamp::text::{Dialect, print};
use quincunx_scamp::verify::verify;

fn codes(source: &str) -> Vec<&'static str> {
    verify(&parse(source), &scamp5()).iter().map(quincunx_diag::Diagnostic::code).collect()
}

#[test]
fn loads_are_read_and_verified() {
    for text in ["scamp5_load_in(-128)", "scamp5_load_in(127)", "scamp5_load_in(A, -5)"] {
        assert_eq!(parse(text).instructions[0].text(), text);
        assert_eq!(codes(text), [""; 0]);
    }
    for text in ["scamp5_load_in(128)", "scamp5_load_in(A, -129)", "scamp5_load_in()"] {
        assert!(quincunx_scamp::text::parse(text, quincunx_diag::SourceId(0)).is_err(), "{text}");
    }
    assert_eq!(codes("scamp5_load_in(G, 1)"), ["Q5020"]);
    assert_eq!(codes("scamp5_load_in(IN, 1)"), ["Q5021"]);
}

#[test]
fn macros_take_in_where_they_only_read() {
    for text in
        ["sub(F, F, IN)", "add(A, IN, B)", "movx(A, IN, north)", "divq(A, IN)", "abs(A, IN)"]
    {
        assert_eq!(codes(text), [""; 0], "{text}");
    }
    for text in ["mov(IN, A)", "div(A, B, IN)", "diva(IN, A, B)", "scamp5_load_in(IN, 3)"] {
        assert_eq!(codes(text), ["Q5021"], "{text}");
    }
    assert_eq!(codes("add(A, IN, IN)"), ["Q5022"]);
}

/// A program that loads IN does not use it before; one that never does has it as an input.
#[test]
fn in_is_loaded_before_it_is_used() {
    assert_eq!(codes("mov(A, IN); scamp5_load_in(3)"), ["Q5110"]);
    assert_eq!(codes("scamp5_load_in(B, 3); mov(A, IN)"), [""; 0]);
    assert_eq!(codes("mov(A, IN)"), [""; 0]);
    let inputs = |source: &str| parse(source).input_registers(&scamp5());
    assert_eq!(inputs("mov(A, IN)"), [(Space::Analogue, Reg::IN)]);
    assert_eq!(inputs("scamp5_load_in(3); mov(A, IN)"), []);
    let outputs = parse("scamp5_load_in(3); mov(A, IN)").output_registers(&scamp5());
    assert_eq!(outputs, [(Space::Analogue, reg("A"))]);
}

#[test]
fn in_is_a_constant() {
    let describe = |source: &str| {
        let list = computed(&parse(source), Level::Bus, &scamp5()).unwrap();
        assert_eq!(list, computed(&parse(source), Level::Meaning, &scamp5()).unwrap());
        list[0].describe()
    };
    assert_eq!(describe("scamp5_load_in(5); add(B, A, IN)"), "<1> + 5");
    assert_eq!(describe("scamp5_load_in(A, -5); scamp5_load_in(3); sub(A, A, IN)"), "-8");
    assert_eq!(describe("scamp5_load_in(5); movx(B, IN, east); scamp5_load_in(-5)"), "5");
    assert_eq!(describe("scamp5_load_in(B, 6); subx(B, A, east, B)"), "<0 0 1> + -6");
}

/// IN in the place of any operand that is only read, against the second simulator.
#[test]
fn in_as_a_source_agrees() {
    let mut random = Random::new(31);
    let (mut count, analogue) = (0, |register| (Space::Analogue, register));
    for row in rows() {
        for _ in 0..20 {
            let inst = legal_instruction(row, &mut random);
            let access = access(&inst);
            let reads: Vec<_> = access.reads.difference(&access.writes).copied().collect();
            let general = reads.iter().find(|named| scamp5().is_general(named.1));
            let Some(&(Space::Analogue, old)) = general else { continue };
            let inst =
                inst.map_registers(|register| if register == old { Reg::IN } else { register });
            let level = random.range(0, 256) as i8;
            let program = Program::new(vec![Inst::LoadIn { v: level }, inst]);
            let executor = Executor::new(&program, &generous(), 4, 3, Settings::default()).unwrap();
            let mut reference = Reference::new(4, 3);
            let images: Vec<_> = ["A", "B", "C", "D", "E", "F", "NEWS", "PIX"]
                .map(|name| {
                    let image: Vec<f64> = random.codes(12).iter().map(|v| v * 720.0).collect();
                    for (at, &value) in reference.elements().zip(&image) {
                        reference.values.insert((reg(name), at), Ratio::try_from(value).unwrap());
                    }
                    (analogue(reg(name)), image)
                })
                .into();
            let outcome = executor.run(&images).unwrap();
            program.instructions.iter().for_each(|inst| reference.step(inst));
            let registers = access.writes.iter().filter(|named| named.0 == Space::Analogue);
            for &named in registers {
                let found = outcome.register(named).unwrap();
                let expected = reference.elements().map(|at| reference.value(named.1, at));
                let expected: Vec<f64> = expected.map(|value| value.to_f64().value()).collect();
                assert_eq!(found, expected, "{:?}: {named:?}", program.instructions);
            }
            count += 1;
        }
    }
    assert!(count > 200, "{count}");
}

/// Texts end the kernel where the controller works, and a reader takes that away again.
#[test]
fn kernels_end_for_the_controller() {
    let program = parse("mov(B, A); scamp5_load_in(3); add(B, B, IN); scamp5_load_in(C, 4)");
    let text = print(&program, &Dialect::Cpp("f".into())).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim).skip(5).collect();
    let expected = [
        "scamp5_kernel_begin();",
        "mov(B, A);",
        "scamp5_kernel_end();",
        "scamp5_load_in(3);",
        "scamp5_kernel_begin();",
        "add(B, B, IN);",
        "scamp5_kernel_end();",
        "scamp5_load_in(C, 4);",
        "}",
    ];
    assert_eq!(lines, expected);
    for dialect in [Dialect::Cpp("f".into()), Dialect::Cain, Dialect::Jss("s".into())] {
        assert_eq!(parse(&print(&program, &dialect).unwrap()), program);
    }
    let listing = parse(&print(&program, &Dialect::Bus).unwrap());
    assert_eq!(listing, program.expanded());
    assert_eq!(verify(&listing, &scamp5()), []);
    // On the wrong side of a begin or end.
    let inside = "scamp5_kernel_begin(); scamp5_load_in(3); scamp5_kernel_end();";
    assert_eq!(codes(inside), ["Q5028"]);
    let own = parse(
        "scamp5_kernel_begin(); res(A); scamp5_kernel_end(); scamp5_kernel_begin(); \
        res(B); scamp5_kernel_end();",
    );
    let frames = own.instructions.iter().filter(|inst| inst.class() == Class::Frame).count();
    assert_eq!(frames, 4);
    assert_eq!(parse(&print(&own, &Dialect::Cain).unwrap()), own);
}

/// A constant that moves is spoilt where zeros come in.
#[test]
fn constants_reach_everywhere() {
    use quincunx_scamp::symbolic::{Reaches, reaches};
    let spoilt = |source: &str| {
        let program = parse(source);
        let reads = [(program.instructions.len() - 1, (Space::Analogue, reg("A")))];
        let state = Reaches::new(&[], [5; 4], false);
        reaches(&program, state, &reads).unwrap().0[0].spoilt
    };
    assert_eq!(spoilt("scamp5_load_in(3); mov(A, IN)"), [0; 4]);
    assert_eq!(spoilt("scamp5_load_in(3); movx(A, IN, east)"), [0, 1, 0, 0]);
    assert_eq!(spoilt("scamp5_load_in(0); movx(A, IN, east)"), [0; 4]);
}
