//! Readers of machine code, JSON and text one behaviour at a time; the executor at its edges.

use crate::common::{FOLDERS, cases};
use quincunx_dais::binary::{self, Dialect, ReadOptions};
use quincunx_dais::files::{self, Pipeline};
use quincunx_dais::program::{Program, SlotType};
use quincunx_dais::simulate::{Executor, PipelineExecutor};
use quincunx_dais::text;
use quincunx_dais::verify::{Rules, verify};
use quincunx_diag::{Class, Diagnostic, Place, Source, SourceId, any_error};
use quincunx_num::Kif;

fn assemble(source: &str) -> Program {
    text::read(source, "x").unwrap().0
}

fn words(list: &[i32]) -> Vec<u8> {
    list.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn guess(bytes: &[u8]) -> Result<Dialect, String> {
    let read = binary::read(bytes, &ReadOptions::default());
    read.map(|read| read.dialect).map_err(|problems| problems[0].code().to_owned())
}

const ADDER: &str = "
    .dais
    .inputs 2
    %0 = input 0 : (1, 3, 2)
    %1 = input 1 : (1, 3, 2)
    %2 = add %0, %1 << 1 : (1, 5, 2)
    out %2
";

#[test]
fn dialects_are_recognised_by_length() {
    let program = assemble(ADDER);
    let write = |dialect| binary::write(&program, dialect).unwrap();
    assert_eq!(guess(&write(Dialect::D0)), Ok(Dialect::D0));
    assert_eq!(guess(&write(Dialect::D1)), Ok(Dialect::D1));
    assert_eq!(guess(&write(Dialect::D1Version0)), Ok(Dialect::D1Version0));
    assert_eq!(guess(&write(Dialect::D0)[4..]), Err("Q1051".to_owned()));
    assert_eq!(guess(&words(&[7; 20])), Err("Q1052".to_owned()));
    let forced = |bytes: &[u8], dialect| {
        binary::read(bytes, &ReadOptions { dialect: Some(dialect), lenient: false })
    };
    let read = forced(&write(Dialect::D1Version0), Dialect::D1).unwrap();
    assert_eq!(read.dialect, Dialect::D1Version0);
    assert!(forced(&write(Dialect::D1), Dialect::D1Version0).is_err());
    assert!(forced(&write(Dialect::D1), Dialect::D0).is_err());
}

#[test]
fn what_fits_two_dialects_is_not_guessed() {
    // As D0: 1 input, 1 output, 1 operation: 3 + 1 + 3 + 8 words. As D1: firmware 1, 1 input, 1
    // output, no operation, 5 empty tables: 6 + 1 + 3 + 5 words. Both are legal.
    let both = [1, 1, 1, 1, 0, 5, 0, -1, 0, -1, 0, 0, 0, 0, 0];
    assert_eq!(guess(&words(&both)), Err("Q1056".to_owned()));
    for dialect in [Dialect::D0, Dialect::D1] {
        let options = ReadOptions { dialect: Some(dialect), lenient: false };
        assert!(!any_error(&verify(
            &binary::read(&words(&both), &options).unwrap().program,
            &Rules::default()
        )));
    }
    // The sign of D0's output is the input shift of D1: only D0 is legal, which is not a proof.
    let mut only_d0 = both;
    only_d0[6] = 100;
    assert_eq!(guess(&words(&only_d0)), Err("Q1056".to_owned()));
    // As D0 the output reads slot 0 of none; as D1 there are no outputs and an empty table.
    assert_eq!(guess(&words(&[1, 1, 0, 0, 0, 1, 0])), Ok(Dialect::D1));
    // Too short for the header of D1, and a negative number of operations.
    assert_eq!(guess(&words(&[1, 0, 0, 0])), Ok(Dialect::D0));
    assert_eq!(guess(&words(&[1, 1, 0, 0, -1, 0, 0])), Ok(Dialect::D0));
}

/// The golden programs that da4ml 0.4 could have written, in both orders of the data words.
#[test]
fn the_order_of_data_words_is_what_makes_sense() {
    let (mut programs, mut high_first, mut open) = (0, 0, Vec::new());
    for case in cases(&FOLDERS) {
        let program = case.program();
        let Ok(low) = binary::write(&program, Dialect::D0) else { continue };
        let high = binary::write(&program, Dialect::D0Doc).unwrap();
        let forced = ReadOptions { dialect: Some(Dialect::D0), lenient: false };
        let expected = binary::read(&low, &forced).unwrap().program;
        let [own, other] = [&low, &high].map(|file| binary::read(file, &ReadOptions::default()));
        let (own, other) = (own.unwrap(), other.unwrap());
        assert_eq!((own.dialect, &own.program), (Dialect::D0, &expected), "{}", case.name);
        let is_named = other.warnings.iter().any(|warning| warning.code() == "Q1059");
        // Where the halves are equal throughout, the orders are the same.
        assert!(is_named || other.program == expected, "{}", case.name);
        if other.dialect == Dialect::D0Doc {
            assert!(is_named && other.program == expected, "{}", case.name);
            high_first += 1;
        } else if other.program != expected {
            open.push(case.name);
        }
        programs += 1;
    }
    assert!(programs > 15 && high_first > 10, "{programs}, {high_first}");
    // Its selections are as many and as small in both orders.
    assert_eq!(open, ["ops/one_bit"]);
}

#[test]
fn selections_decide_the_order_of_data_words() {
    let selection = |choices: &str, outputs: &str| {
        assemble(&format!(
            ".dais\n.inputs 4\n%0 = input 0 : (1, 3, 0)\n%1 = input 1 : (1, 3, 0)\n\
             %2 = input 2 : (1, 3, 0)\n%3 = input 3 : (1, 3, 0)\n{choices}{outputs}"
        ))
    };
    let all = "out %0\nout %1\nout %2\nout %3\n";
    let read = |program: &Program, dialect| {
        let bytes = binary::write(program, dialect).unwrap();
        binary::read(&bytes, &ReadOptions::default())
    };
    let code = |read: &binary::Read| read.warnings.first().map(Diagnostic::code);
    // What decides is not used but by the selection: in the other order nothing reads it.
    let clear = "%4 = add %3, %0 : (1, 4, 0)\n%5 = mux %4, %1, %2 : (1, 3, 0)\n";
    let clear = selection(clear, "out %0\nout %5\n");
    let (low, high) = (read(&clear, Dialect::D0).unwrap(), read(&clear, Dialect::D0Doc).unwrap());
    assert_eq!((low.dialect, code(&low)), (Dialect::D0, None));
    assert_eq!((high.dialect, code(&high)), (Dialect::D0Doc, Some("Q1059")));
    assert_eq!(low.program, high.program);
    // In the other order slot 0 decides, and a branch is shifted by 3.
    let shifted = selection("%4 = mux %3, %1, %2 : (1, 3, 0)\n", &format!("{all}out %4\n"));
    let (low, high) =
        (read(&shifted, Dialect::D0).unwrap(), read(&shifted, Dialect::D0Doc).unwrap());
    assert_eq!((low.dialect, code(&low)), (Dialect::D0, None));
    assert_eq!((high.dialect, code(&high)), (Dialect::D0Doc, Some("Q1059")));
    assert_eq!(low.program, high.program);
    // The two selections change places.
    let even = "%4 = mux %3, %1, %2 : (1, 3, 0)\n%5 = mux %0, %1, %2 << 3 : (1, 3, 0)\n";
    let even = selection(even, &format!("{all}out %4\nout %5\n"));
    for dialect in [Dialect::D0, Dialect::D0Doc] {
        let read = read(&even, dialect).unwrap();
        assert_eq!((read.dialect, code(&read)), (Dialect::D0, Some("Q1059")));
        assert!(read.warnings[0].help_text().unwrap().contains("--set dialect"));
    }
}

#[test]
fn sign_words_and_firmware() {
    let mut program = assemble(ADDER);
    program.firmware_version = -7;
    let mut bytes = binary::write(&program, Dialect::D1).unwrap();
    let read = binary::read(&bytes, &ReadOptions::default()).unwrap().program;
    assert_eq!(read.firmware_version, -7);
    // The sign of the output: any word but 0 negates.
    let sign = 4 * (6 + 2 + 2);
    bytes[sign + 2] = 1;
    let read = binary::read(&bytes, &ReadOptions::default()).unwrap().program;
    assert!(read.outputs[0].negate);
}

#[test]
fn dialects_have_names() {
    for dialect in Dialect::ALL {
        assert_eq!(Dialect::from_name(dialect.name()).unwrap(), dialect);
    }
    let problem = Dialect::from_name("d0_doc").unwrap_err();
    assert_eq!(problem.class(), Class::Usage);
    assert_eq!(problem.help_text(), Some("did you mean \"d0-doc\"?"));
}

const JSON: &str = "[[1,1],[0],[1],[0],[false],[[0,-1,-1,0,[-2.0,1.0,1.0],0.0,0.0],\
                    [0,-1,8,0,[0.0,3.0,1.0],1.5,Infinity]],-1,1,\
                    [{\"spec\":{\"hash\":\"Infinity\",\"out_qint\":{\"min\":0,\"max\":3,\"step\":1},\
                    \"inp_width\":2,\"new\":[{},null]},\"table\":[3,1,2,0]}]]";

#[test]
fn json_reads_tokens_of_python_outside_strings_only() {
    let program = files::read_json(JSON, false).unwrap().pipeline.stages.remove(0);
    assert_eq!(program.operations[1].cost, f64::INFINITY);
    assert_eq!(program.tables[0].hash.as_deref(), Some("Infinity"));
    assert_eq!(program.tables[0].range, Some((0.0, 3.0, 1.0)));
    let written = files::write_json(&program).unwrap();
    assert!(written.contains(",1.5,Infinity]"), "{written}");
    assert!(!written.contains("\"Infinity\""), "the hash is computed: {written}");
    let zero = "[[1,1],[0],[0],[0],[true],[[0,-1,-1,0,[0.0,0.0,Infinity],0.0,0.0]],-1,1]";
    let zero = files::read_json(zero, false).unwrap().pipeline.stages.remove(0);
    let step = f64::INFINITY;
    assert_eq!(zero.operations[0].slot_type, SlotType::Interval { min: 0.0, max: 0.0, step });
    let outputs = Executor::new(&zero).unwrap().run(&[5.0]).unwrap();
    assert_eq!(outputs[0].to_bits(), 0, "no negative zero");
}

#[test]
fn json_errors_have_places() {
    for (from, to, code) in [
        ("[[1,1]", "[[2,1]", "Q1062"),
        ("[[1,1]", "[[1,2]", "Q1062"),
        ("[1],[0]", "[-2],[0]", "Q1055"),
        ("[0],[false]", "[0],[\"x\"]", "Q1061"),
        ("-1,1,", "-1,", "Q1061"),
        ("[3,1,2,0]", "[3,1,2,4294967296]", "Q1061"),
        ("\"table\"", "\"tabel\"", "Q1061"),
        ("[0,-1,8,0,", "[0,-1,8,4294967296,", ""),
    ] {
        let text = JSON.replacen(from, to, 1);
        assert_ne!(text, JSON);
        match files::read_json(&text, false) {
            Ok(read) => {
                // The upper data word is not the pad in JSON; the pad follows from the operand.
                assert_eq!(code, "");
                assert_eq!(read.pipeline, files::read_json(JSON, false).unwrap().pipeline);
            }
            Err(problems) => {
                assert_eq!(problems[0].code(), code, "{text}");
                assert!(problems[0].place().is_some());
                assert_eq!(problems[0].class(), Class::Invalid);
            }
        }
    }
}

#[test]
fn data_of_json_is_modulo_2_64() {
    let json = |data: &str| {
        format!(
            "[[1,1],[0],[1],[0],[false],[[0,-1,-1,0,[-2.0,1.0,1.0],0.0,0.0],\
             [0,0,6,{data},[-2.0,1.5,0.5],0.0,0.0]],-1,1,null]"
        )
    };
    let read = |data| files::read_json(&json(data), false);
    let unsigned = read("18446744069414584320").unwrap().pipeline;
    assert_eq!(unsigned, read("-4294967296").unwrap().pipeline);
    assert_eq!(files::write_json(&unsigned.stages[0]).unwrap(), json("18446744069414584320"));
    assert!(read("18446744073709551616").is_err());
    assert!(read("-9223372036854775809").is_err());
}

#[test]
fn lookups_that_json_cannot_express_are_refused() {
    let source = "
        .dais
        .inputs 1
        .table 0
        .values 1, 2, 3
        %0 = input 0 : (1, 1, 0)
        %1 = lookup %0, table 0, pad 2 : (0, 2, 0)
        out %1
    ";
    let problem = files::write_json(&assemble(source)).unwrap_err();
    assert_eq!((problem.code(), problem.class()), ("Q1066", Class::Unsupported));
    // A type whose bits the table covers from the third value on, down to the sign, is narrowed.
    let program = assemble(&source.replace("pad 2", "pad 1"));
    let read = files::read_json(&files::write_json(&program).unwrap(), false).unwrap();
    assert_eq!(read.pipeline.stages[0].operations[1].inst, program.operations[1].inst);
    // From the lowest value on, but not up to the highest: an interval that reads all three.
    let program = assemble(&source.replace(", pad 2", ""));
    let read = files::read_json(&files::write_json(&program).unwrap(), false).unwrap();
    let stage = &read.pipeline.stages[0];
    let expected = SlotType::Interval { min: -2.0, max: 0.0, step: 1.0 };
    assert_eq!(stage.operations[0].slot_type, expected);
    assert!(!any_error(&verify(stage, &Rules::default())));
    // Values without entries that the type needs.
    let program = assemble(&source.replace("(1, 1, 0)", "(0, 3, 0)").replace(", pad 2", ""));
    assert_eq!(files::write_json(&program).unwrap_err().code(), "Q1066");
    // Two lookups that want the same lowest value, or different ones.
    for (pad, is_written) in [(1, true), (0, false)] {
        let second = format!("%2 = lookup %0, table 0, pad {pad} : (0, 2, 0)\nout");
        let program = assemble(&source.replace("pad 2", "pad 1").replace("out", &second));
        assert_eq!(files::write_json(&program).is_ok(), is_written);
    }
}

/// Zeros have no step in JSON; where that would change or break something, they are refused.
#[test]
fn steps_of_zeros_are_not_lost() {
    let source = "
        .dais
        .inputs 1
        %0 = input 0 : (1, 3, 2)
        %1 = quantise %0 : (0, -5, 5)
        %2 = READER
        out %2
    ";
    for (reader, refused) in [
        ("bits.or %0, %1 : (1, 3, 5)", true),
        ("mux %0, %0, %1 << 3 : (1, 3, 2)", false),
        ("mux %0, %1, %0 << 2 : (1, 7, 1)", false),
        ("mux %0, %1, %0 : (0, -5, 5)", true),
        ("add %0, %1 : (1, 3, 2)", false),
    ] {
        let source = source
            .replace("READER", reader)
            .replace("(0, -5, 5)\n        %2 = mux %0, %1", "(0, -1, 1)\n        %2 = mux %0, %1");
        let program = assemble(&source);
        assert!(!any_error(&verify(&program, &Rules::default())), "{source}");
        match files::write_json(&program) {
            Err(problem) => assert!(refused && problem.code() == "Q1065", "{source}"),
            Ok(json) => {
                assert!(!refused, "{source}");
                let read = files::read_json(&json, false).unwrap().pipeline.stages.remove(0);
                assert!(!any_error(&verify(&read, &Rules::default())), "{json}");
                for input in [-3.25, 2.75] {
                    let run = |p: &Program| Executor::new(p).unwrap().run(&[input]).unwrap();
                    assert_eq!(run(&read), run(&program));
                }
            }
        }
    }
}

/// `2^k - 1` is not a float for `k >= 54`; files hold `2^k` instead.
#[test]
fn a_max_that_no_float_holds_is_rounded_back() {
    let kif = |min, max, step| SlotType::Interval { min, max, step }.kif();
    let power = |exponent| 2f64.powi(exponent);
    assert_eq!(kif(-power(31), power(31), power(-30)), Kif::new(true, 31, 30));
    assert_eq!(kif(0.0, power(54), 1.0), Kif::new(false, 54, 0));
    assert_eq!(kif(0.0, power(53), 1.0), Kif::new(false, 54, 0), "2^53 - 1 is a float");
    assert_eq!(kif(0.0, power(53) - 1.0, 1.0), Kif::new(false, 53, 0));
    assert_eq!(kif(0.0, 4.0, 1.0), Kif::new(false, 3, 0));
}

fn errors(source: &str) -> Vec<Diagnostic> {
    text::read(source, "x").unwrap_err()
}

#[test]
fn text_reports_every_error_with_its_place() {
    let source = "\
.dais
.inputs 2
.inptu 0 << 1
%0 = input 0 : (1, 3, 2)
%1 = realu %0 : (1, 3, 2)
%2 = add %0 %1 : (1, 3, 2)
%4 = const 5 : (2, 3, 2)
%5 = const 5 : [0, 1]
out %5 << x
outt %5
.values 1
";
    let found: Vec<(usize, &str)> = errors(source)
        .iter()
        .map(|problem| {
            let (span, _) = &problem.labels()[0];
            let text = Source::new("", source);
            (text.line_column(span.start).0, problem.code())
        })
        .collect();
    let lines: Vec<usize> = found.iter().map(|&(line, _)| line).collect();
    assert_eq!(lines, [3, 5, 6, 7, 8, 9, 10, 11], "{found:?}");
    let help: Vec<String> =
        errors(source).iter().filter_map(|p| p.help_text().map(str::to_owned)).collect();
    assert!(help.contains(&"did you mean \".inputs\"?".to_owned()), "{help:?}");
    assert!(help.contains(&"did you mean \"relu\"?".to_owned()), "{help:?}");
    assert!(help.contains(&"did you mean \"out\"?".to_owned()), "{help:?}");
}

#[test]
fn text_keeps_both_forms_of_types() {
    let source = "\
.dais
.carry 8
.adder 6
.firmware 3
.inputs 1
.input 0 << -2
.table 0 : [-1, 1, 0.015625] width 5 hash \"a\\\"b #\"
.values 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
.values -17
%0 = input 0 : [-8, 7.5, 0.5]
%1 = quantise -%0 : (1, -4, 6) latency 2 cost 0.1
%2 = mux %0, %0, -%1 << -5 : (1, 3, 1)
%3 = bits.xor -%0, %1 << 2 : [0, 0, inf] cost 1e-300
out -%1 << -3
out zero
out -zero << 2
";
    let program = assemble(source);
    assert_eq!(text::print(&program), source);
}

#[test]
fn text_holds_pipelines() {
    let stage = "%0 = input 0 : (1, 3, 2)\nout %0\n";
    let source = format!(".dais\n.inputs 1\n{stage}\n.stage\n.inputs 1\n{stage}");
    let pipeline = text::parse(&source, SourceId(0)).unwrap();
    assert_eq!(pipeline.stages.len(), 2);
    assert_eq!(text::print_pipeline(&pipeline), source);
    assert_eq!(errors(&source)[0].code(), "Q1086");
    let mut executor = PipelineExecutor::new(&pipeline).unwrap();
    assert_eq!(executor.run(&[1.25]).unwrap(), [1.25]);
    let mut seen = Vec::new();
    executor.run_with(&[1.25], &mut |stage, index, _, _| seen.push((stage, index))).unwrap();
    assert_eq!(seen, [(0, 0), (1, 0)]);
}

#[test]
fn inputs_must_be_finite_and_complete() {
    let mut executor = Executor::new(&assemble(ADDER)).unwrap();
    assert_eq!(executor.run(&[1.0]).unwrap_err().code(), "Q1101");
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(executor.run(&[1.0, value]).unwrap_err().code(), "Q1102");
    }
    // Finite numbers of any size wrap exactly: 2^200 + 2^148 is 0 modulo 16.
    assert_eq!(executor.run(&[2f64.powi(200) + 2f64.powi(148), 0.25]).unwrap(), [0.5]);
    assert_eq!(executor.run(&[5e-324, -5e-324]).unwrap(), [-0.5]);
}

#[test]
fn overflow_is_kept_and_reported_on_request() {
    let source = "
        .dais
        .inputs 1
        %0 = input 0 : (1, 3, 0)
        %1 = add %0, %0 : (1, 3, 0)
        %2 = quantise %1 : (1, 3, 0)
        out %1
        out %2
    ";
    let mut executor = Executor::new(&assemble(source)).unwrap();
    assert_eq!(executor.run(&[7.0]).unwrap(), [14.0, -2.0]);
    assert_eq!(executor.run_strict(&[3.0]).unwrap(), [6.0, 6.0]);
    let problem = executor.run_strict(&[7.0]).unwrap_err();
    assert_eq!((problem.code(), problem.class()), ("Q1105", Class::Answer));
}

/// In dialect d0 a mux does not quantise.
#[test]
fn strict_runs_of_the_seed_layout_report_a_mux() {
    let source = "
        .dais
        .inputs 1
        %0 = input 0 : (1, 3, 0)
        %1 = mux %0, %0, -%0 << 2 : (1, 3, 0)
        %2 = add %0, %0 << 1 : (1, 3, 0)
        %3 = mux %0, %2, -%0 << 3 : (1, 3, 0)
        out %1
    ";
    let program = assemble(source);
    let mut plain = Executor::new(&program).unwrap();
    let mut exact = Executor::new(&program).unwrap().with_exact_mux(true);
    assert_eq!(plain.run_strict(&[2.0]).unwrap(), [-8.0]);
    assert_eq!(plain.run(&[3.0]).unwrap(), [4.0], "wrapped: -12 is 4 modulo 16");
    let problem = exact.run_strict(&[3.0]).unwrap_err();
    assert_eq!((problem.code(), problem.place()), ("Q1105", Some(&Place::Instruction(1))));
    assert!(problem.message().starts_with("the result -12 does not fit"), "{problem}");
    assert_eq!(exact.run(&[3.0]).unwrap(), [4.0], "other runs quantise");
    assert_eq!(exact.run_strict(&[-2.0]).unwrap(), [-2.0]);
    // -8 fits, -16 does not; the sum before the second mux comes first.
    assert_eq!(exact.run_strict(&[2.0]).unwrap_err().place(), Some(&Place::Instruction(3)));
    assert_eq!(exact.run_strict(&[-4.0]).unwrap_err().place(), Some(&Place::Instruction(2)));
    let mut pipeline = PipelineExecutor::new(&program.clone().into()).unwrap().with_exact_mux(true);
    let problem = pipeline.run_strict(&[3.0]).unwrap_err();
    assert_eq!((problem.code(), problem.notes().len()), ("Q1105", 0));
    // A fault of an earlier run is not one of this.
    for executor_fault in [exact.run_strict(&[f64::NAN]), pipeline.run_strict(&[f64::NAN])] {
        assert_eq!(executor_fault.unwrap_err().code(), "Q1102");
    }
    assert_eq!(pipeline.run(&[3.0]).unwrap(), [4.0]);
    assert_eq!(pipeline.run_strict(&[f64::NAN]).unwrap_err().code(), "Q1102");
    let stages = vec![assemble(".dais\n.inputs 1\n%0 = input 0 : (1, 3, 0)\nout %0\n"), program];
    let mut pipeline = PipelineExecutor::new(&Pipeline { stages }).unwrap().with_exact_mux(true);
    let problem = pipeline.run_strict(&[3.0]).unwrap_err();
    assert_eq!((problem.code(), problem.notes()), ("Q1105", &["in stage 1".to_owned()][..]));
}

#[test]
fn lookups_outside_the_table_are_reported() {
    let source = "
        .dais
        .inputs 1
        .table 0
        .values 10, 20
        %0 = input 0 : (1, 1, 0)
        %1 = lookup %0, table 0, pad 1 : (0, 5, 0)
        out %1
    ";
    let mut executor = Executor::new(&assemble(source)).unwrap();
    assert_eq!(executor.run(&[-1.0]).unwrap(), [10.0]);
    assert_eq!(executor.run(&[0.0]).unwrap(), [20.0]);
    for input in [-2.0, 1.0] {
        assert_eq!(executor.run(&[input]).unwrap_err().code(), "Q1103");
    }
}

/// Types beyond 64 bits run exactly, up to the rounding of the output to a float.
#[test]
fn wide_types_are_exact() {
    let source = "
        .dais
        .inputs 1
        %0 = input 0 : (1, 99, 100)
        %1 = mul %0, %0 : (1, 199, 200)
        %2 = add_const %1, 1 : (1, 199, 200)
        %3 = sub %2, %1 : (1, 199, 200)
        %4 = quantise -%1 : (0, 150, 0)
        out %3
        out %1
        out %4
    ";
    let program = assemble(source);
    assert!(any_error(&verify(&program, &Rules::default())));
    let mut executor = Executor::new(&program).unwrap();
    let outputs = executor.run(&[2f64.powi(60) + 256.0]).unwrap();
    let square = (2f64.powi(60) + 256.0).powi(2);
    assert_eq!(outputs, [2f64.powi(-200), square, 2f64.powi(150) - square]);
}

/// The example of the README: the lines from `.dais` on, up to the blank line behind them.
#[test]
fn the_example_of_the_readme_runs() {
    let readme = include_str!("../../README.md");
    let start = readme.find("    .dais\n").unwrap();
    let length = readme[start..].find("\n\n").unwrap();
    let mut executor = Executor::new(&assemble(&readme[start..start + length])).unwrap();
    assert_eq!(executor.run(&[1.0, 2.25]).unwrap(), [1.75, 3.5, 0.0]);
    assert_eq!(executor.run(&[1.0, 0.25]).unwrap(), [0.0, -0.5, 0.0]);
}
