//! Texts are read as what they were written from, in every dialect.

use crate::common::{
    Random, golden, kernel_programs, legal_instruction, parse, program, reg, rows,
};
use quincunx_scamp::isa::{Class, Inst, TABLE};
use quincunx_scamp::program::Program;
use quincunx_scamp::text::{CSIM, Dialect, print};

fn dialects() -> [Dialect; 3] {
    [Dialect::Cain, Dialect::Jss("sim.x".to_owned()), Dialect::Cpp("filter".to_owned())]
}

#[test]
fn the_tables_are_sound() {
    assert_eq!(TABLE.check(), Vec::<String>::new());
    assert_eq!(CSIM.check(), Vec::<String>::new());
}

#[test]
fn random_programs() {
    let mut random = Random::new(11);
    for seed in 0..300 {
        let rows: Vec<usize> = rows().collect();
        let instructions = (0..1 + random.below(12))
            .map(|_| {
                let row = rows[random.below(rows.len() as u64) as usize];
                legal_instruction(row, &mut random)
            })
            .collect();
        let is_analogue = |inst: &Inst| inst.logic().is_none();
        let mut program = Program::new(instructions);
        if seed % 2 == 0 && program.instructions.iter().all(is_analogue) {
            program.inputs = Some(vec![reg("A"), reg("C")]);
            program.outputs = Some(vec![reg("B")]);
        }
        for dialect in dialects() {
            let text = print(&program, &dialect).unwrap();
            assert_eq!(parse(&text), program, "{text}");
        }
        let listing = print(&program, &Dialect::Bus).unwrap();
        assert_eq!(parse(&listing), program.expanded(), "{listing}");
    }
}

#[test]
fn golden_programs() {
    for (id, program) in kernel_programs() {
        for dialect in dialects() {
            assert_eq!(parse(&print(&program, &dialect).unwrap()), program, "{id}");
        }
    }
}

/// Programs with several kernels keep each begin and end.
#[test]
fn several_kernels() {
    for case in golden("superpixel_programs.json")["cases"].as_array().unwrap() {
        let program = program(&case["program"]);
        let frames = program.instructions.iter().filter(|i| i.class() == Class::Frame).count();
        assert!(frames > 2);
        let text = print(&program, &Dialect::Cain).unwrap();
        assert_eq!(parse(&text), program);
        let ops = case["ops_executed"].as_u64().unwrap();
        assert!(text.contains(&format!("/* ops: {ops}, ")), "{}", case["id"]);
    }
}

#[test]
fn csim() {
    let source = "north(B,A) // comment\nEAST";
    assert!(quincunx_scamp::text::parse(source, quincunx_diag::SourceId(0)).is_err());
    let text = "div2(B,A) // (0, 0, 1, 0)\nwest(C,B) // (-1, 0, 0, 0)\nneg(C,B) // (0, 0, 0, 1)\n\
        add(A,B,C)\nsub(A,A,C)\nsouth(A,A) // (0, -1, 0, 0)\n";
    let program = parse(text);
    let texts: Vec<String> = program.instructions.iter().map(Inst::text).collect();
    assert_eq!(texts[..2], ["divq(B, A)", "movx(C, B, west)"]);
    assert_eq!(print(&program, &Dialect::Csim).unwrap(), text);
    let listed = parse("/*Inputs in: [A, B]*/ add(C, A, B); /*Null Instruction: [] <- [C, A]*/");
    assert!(listed.inputs.is_some() && listed.outputs.is_some());
    assert_eq!(parse(&print(&listed, &Dialect::Csim).unwrap()), listed);
    let problem = print(&parse("add(A, B, C, D)"), &Dialect::Csim).unwrap_err();
    assert_eq!(problem.code(), "Q5004");
}

/// What C allows between the words of a statement.
#[test]
fn layouts_of_text() {
    let expected = parse("add(A, B, C); movx(A, A, north)");
    for source in [
        "add ( A , B , C ) ; movx(A,A,north);",
        "add(A,\n    B, // first\n    C);\n/* then */ movx(A, A, north);",
        "\u{20}add(A,B,C)\r\nmovx(A,A,north)\r\n",
        "/*Kernel Code!*/scamp5_kernel_begin();add(A,B,C);movx(A,A,north);scamp5_kernel_end();",
        "s.add(s.A, s.B, s.C); s.movx(s.A, s.A, north);",
        "/*/*SP Add(..)*/ */ add(A, B, C); /*\n/* x */*/ movx(A, A, north);",
    ] {
        assert_eq!(parse(source), expected, "{source}");
    }
}

#[test]
fn inputs_and_outputs_of_comments() {
    let program = parse("/*Inputs in: [A, B]*/ add(C, A, B); /*Null Instruction: [] <- [C]*/");
    assert_eq!(program.inputs, Some(vec![reg("A"), reg("B")]));
    assert_eq!(program.outputs, Some(vec![reg("C")]));
    // Virtual registers of digital programs are none of the machine's.
    let program = parse("/*Inputs in: [DA]*/ NOT(DB1, DA1); /*Null Instruction: [] <- [DB]*/");
    assert_eq!((program.inputs, program.outputs), (None, None));
}
