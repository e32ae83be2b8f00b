//! Files of alkaid one behaviour at a time.

use quincunx_dais::binary::{self, Dialect, ReadOptions};
use quincunx_dais::files::{self, Pipeline};
use quincunx_dais::program::Program;
use quincunx_dais::simulate::Executor;
use quincunx_dais::text;
use quincunx_diag::{Class, Diagnostic, SourceId};

const WIDE: &str = "[-1024.0,1023.75,0.25],0,0]";

fn file(version: i32, inputs: &str, operation: &str) -> String {
    format!(
        "{{\"model\":[[2,1],[0,0],[2],[0],[false],[{inputs},{operation}],-1,1,null],\
         \"meta\":\"ALIRModel\",\"spec_version\":{version}}}"
    )
}

fn inputs_as_lists() -> String {
    let input = |index| format!("[[],-1,[{index}],[-8.0,7.75,0.25],0,0]");
    format!("{},{}", input(0), input(1))
}

fn inputs_as_words() -> String {
    let input = |index| format!("[{index},-1,-1,0,[-8.0,7.75,0.25],0,0]");
    format!("{},{}", input(0), input(1))
}

fn read(text: &str) -> Result<Program, Diagnostic> {
    match files::read_json(text, false) {
        Ok(mut read) => {
            assert_eq!(read.dialect, Dialect::A4);
            Ok(read.pipeline.stages.remove(0))
        }
        Err(mut problems) => Err(problems.remove(0)),
    }
}

/// The third operation, as text.
fn third(text: &str) -> String {
    let printed = text::print(&read(text).unwrap());
    let line = printed.lines().find(|line| line.starts_with("%2 = ")).unwrap();
    line["%2 = ".len()..].split(" : ").next().unwrap().to_owned()
}

/// What alkaid 0.8.2 makes of files of version 2 (its `upgrade_dict`, tried out).
#[test]
fn version_2_has_words() {
    let packed = |low: i32, high: i32| (i64::from(high) << 32) | i64::from(low.cast_unsigned());
    for (words, expected) in [
        (format!("0,1,0,2,{WIDE}"), "add %0, %1 << 2"),
        (format!("0,1,1,-1,{WIDE}"), "sub %0, %1 << -1"),
        (format!("0,-1,2,0,{WIDE}"), "relu %0"),
        (format!("0,-1,-2,0,{WIDE}"), "neg %0"),
        (format!("0,-1,3,0,{WIDE}"), "quantise %0"),
        (format!("0,-1,4,{},{WIDE}", packed(5, 3)), "add_scaled %0, 5 >> 3"),
        (format!("0,-1,4,{},{WIDE}", packed(-5, -1)), "add_scaled %0, -5 >> -1"),
        (format!("0,-1,4,{},{WIDE}", packed(-5, 2)), "add_const %0, -5"),
        (format!("-1,-1,5,-3,{WIDE}"), "const -3"),
        (format!("0,1,6,{},{WIDE}", packed(1, 2)), "mux %1, %0, %1 << 2"),
        (format!("0,1,7,0,{WIDE}"), "mul %0, %1"),
        (format!("0,-1,9,1,{WIDE}"), "bits.any %0"),
        (format!("0,1,10,{},{WIDE}", packed(-1, 1 << 24)), "bits.or %0, %1 << -1"),
    ] {
        let text = file(2, &inputs_as_words(), &format!("[{words}"));
        assert_eq!(third(&text), expected, "{text}");
        assert_eq!(read(&text.replace(":2}", ":3}")).unwrap_err().code(), "Q1090");
        assert_eq!(read(&text.replace(":2}", ":4}")).unwrap_err().code(), "Q1090");
    }
    for (words, code) in [
        (format!("0,-1,-3,0,{WIDE}"), "Q1005"),
        (format!("0,1,-6,1,{WIDE}"), "Q1005"),
        // alkaid ignores the bits that would negate an operand.
        (format!("0,1,10,{},{WIDE}", packed(0, 1)), "Q1005"),
        (format!("0,1,-2,0,{WIDE}"), "Q2112"),
        (format!("0,1,4,0,{WIDE}"), "Q2112"),
        (format!("0,1,11,0,{WIDE}"), "Q2111"),
    ] {
        let text = file(2, &inputs_as_words(), &format!("[{words}"));
        assert_eq!(read(&text).unwrap_err().code(), code, "{text}");
    }
}

#[test]
fn version_3_has_quantisers_without_shift() {
    let bare = file(3, &inputs_as_lists(), &format!("[[0],3,[],{WIDE}"));
    assert_eq!(third(&bare), "quantise %0");
    assert_eq!(read(&bare.replace(":3}", ":4}")).unwrap_err().code(), "Q1090");
    let shifted = file(3, &inputs_as_lists(), &format!("[[0],3,[-2],{WIDE}"));
    assert_eq!(third(&shifted), "rescale %0 << -2");
}

#[test]
fn the_object_must_be_a_program() {
    let good = file(4, &inputs_as_lists(), &format!("[[0,1],0,[0],{WIDE}"));
    assert!(read(&good).is_ok());
    // Keys may come in any order, and others are passed over.
    let (model, rest) = good.split_once(",\"meta\"").unwrap();
    let rest = rest.trim_end_matches('}');
    assert!(read(&format!("{{\"meta\"{rest},\"new\":[{{}}],{}}}", &model[1..])).is_ok());
    assert!(read(&good.replace("ALIRModel", "DAISModel")).is_ok());
    for (from, to, class) in [
        ("ALIRModel", "Keras", Class::Invalid),
        (":4}", ":5}", Class::Unsupported),
        (":4}", ":1}", Class::Unsupported),
        (",\"spec_version\":4", "", Class::Invalid),
        (",\"meta\":\"ALIRModel\"", "", Class::Invalid),
        ("\"model\"", "\"modell\"", Class::Invalid),
    ] {
        let problem = read(&good.replace(from, to)).unwrap_err();
        assert_eq!((problem.code(), problem.class()), ("Q1090", class), "{to}");
    }
}

#[test]
fn malformed_lists_are_refused() {
    for (lists, code) in [
        ("[[0],0,[0],", "Q1092"),
        ("[[0,1],0,[],", "Q1092"),
        ("[[0,1],0,[0,0],", "Q1092"),
        ("[[0],-2,[0],", "Q1092"),
        ("[[0],3,[],", "Q1090"),
        ("[[0],4,[1],", "Q1092"),
        ("[[0],8,[],", "Q1092"),
        ("[[0],8,[0,0],", "Q1092"),
        ("[[0,1],11,[1,0],", "Q1092"),
        ("[[0,1,1],11,[1,0,1,0,2,0],", "Q1094"),
        ("[[0,1,1],11,[1,0,1,0,1,70000],", "Q2103"),
        ("[[0],-3,[],", "Q1091"),
        ("[[0],12,[],", "Q1091"),
        ("[[0],9,[3],", "Q2103"),
        ("[[-1],-2,[],", "Q1061"),
        ("[[0],-2,[],x", "Q1061"),
    ] {
        let text = file(4, &inputs_as_lists(), &format!("{lists}{WIDE}"));
        assert_eq!(read(&text).unwrap_err().code(), code, "{text}");
    }
}

/// Sums of other than three terms take several operations; outputs follow their slots.
#[test]
fn sums_have_any_number_of_terms() {
    for (terms, expected) in [
        ("[],11,[],", 0.0),
        ("[0],11,[0,1],", -3.0),
        ("[0,1],11,[1,0,0,1],", -2.5),
        ("[0,1,1],11,[1,0,0,1,1,-1],", -1.5),
        ("[0,1,0,1],11,[1,0,1,0,1,0,1,0],", 7.0),
        ("[0,0,1,0,1],11,[1,0,1,0,0,2,1,-1,0,0],", -6.25),
    ] {
        let text = file(4, &inputs_as_lists(), &format!("[{terms}{WIDE}"));
        let program = read(&text).unwrap();
        assert_eq!(Executor::new(&program).unwrap().run_strict(&[1.5, 2.0]).unwrap(), [expected]);
        let bytes = binary::write(&program, Dialect::A4).unwrap();
        let again = binary::read(&bytes, &ReadOptions::default()).unwrap().program;
        assert_eq!(Executor::new(&again).unwrap().run(&[1.5, 2.0]).unwrap(), [expected]);
    }
    // A sum that reads itself or later slots.
    let text = file(4, &inputs_as_lists(), &format!("[[2,0],11,[1,0,1,0],{WIDE}"));
    assert_eq!(read(&text).unwrap_err().code(), "Q1001");
    let text = file(4, &inputs_as_lists(), &format!("[[2,0,0,0],11,[1,0,1,0,1,0,1,0],{WIDE}"));
    assert_eq!(read(&text).unwrap_err().code(), "Q1001");
}

#[test]
fn byte_code_is_checked() {
    let text = file(4, &inputs_as_lists(), &format!("[[0,1],0,[0],{WIDE}"));
    let bytes = binary::write(&read(&text).unwrap(), Dialect::A4).unwrap();
    let code = |bytes: &[u8]| {
        let read = binary::read(bytes, &ReadOptions { dialect: Some(Dialect::A4), lenient: false });
        read.map(|_| ()).map_err(|problems| problems[0].code())
    };
    let patched = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        bytes
    };
    assert_eq!(code(&bytes), Ok(()));
    assert_eq!(code(&patched(0, b'B')), Err("Q1052"));
    assert_eq!(code(&patched(4, 3)), Err("Q1052"));
    assert_eq!(code(&patched(8, 200)), Err("Q1051"));
    assert_eq!(code(&bytes[..bytes.len() - 1]), Err("Q1051"));
    assert_eq!(code(&[&bytes[..], &[0]].concat()), Err("Q1051"));
    let operations = 24 + 4 * (2 + 2) + 1;
    assert_eq!(code(&patched(operations, 12)), Err("Q1091"));
    assert_eq!(code(&patched(operations + 1, 2)), Err("Q1054"));
    assert_eq!(code(&patched(operations - 1, 2)), Err("Q1054"), "the sign of the output");
    // The sign byte of an output and every byte of the header, one after the other.
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let _ = code(&patched(at, value));
        }
    }
}

/// Two stages with a register at every boundary, as alkaid's `to_pipeline` writes them.
fn pipeline_file() -> (Pipeline, String) {
    let text = ".dais\n.inputs 2\n%0 = input 0 : [-8, 7, 1]\n%1 = input 1 : [0, 3, 0.5]
%2 = add %0, %1 : [-8, 10, 0.5]\nout %2\nout -%1 << 1\nout zero
.stage\n.inputs 3\n%0 = input 0 : [-8, 10, 0.5]\n%1 = input 1 : [-6, 0, 1]
%2 = sub %0, %1 << 1 : [-8, 22, 0.5]\nout %2\n";
    let pipeline = text::parse(text, SourceId(0)).unwrap();
    let json = files::write_alir_pipeline_json(&pipeline).unwrap();
    (pipeline, json)
}

#[test]
fn pipelines_are_lines_of_programs() {
    let (pipeline, json) = pipeline_file();
    let read = files::read_json(&json, false).unwrap();
    assert_eq!(read.dialect, Dialect::A4);
    assert_eq!(read.pipeline, pipeline);
    assert_eq!(files::write_alir_pipeline_json(&read.pipeline).unwrap(), json);
    // A register more or less is a matter of time only.
    let wire = json.replace(
        "\"model_inp_reg\",false,[[true,3,0],[false,2,1]],null,null,true",
        "\"model_inp_reg\",false,[[true,3,0],[false,2,1]],null,null,false",
    );
    assert_ne!(wire, json);
    assert_eq!(files::read_json(&wire, false).unwrap().pipeline, read.pipeline);
}

/// What is neither a line of programs nor one with registers.
#[test]
fn q1068_what_cannot_be_read() {
    let (_, json) = pipeline_file();
    let refused = |from: &str, to: &str| {
        let changed = json.replace(from, to);
        assert_ne!(changed, json, "{from}");
        let problems = files::read_json(&changed, false).unwrap_err();
        assert_eq!(problems[0].code(), "Q1068", "{to}: {problems:?}");
        assert_eq!(problems[0].class(), Class::Unsupported);
        problems[0].message().to_owned()
    };
    // Feedback, a reset, a condition, a choice, gaps, a part, an index.
    refused("\"model_out\",true", "\"stage1_inp\",false");
    let bit = "[\"en\",true,[[false,1,0]],null,null,false,null,\"r\",null,[0,1],null]";
    refused("[false,2,1]],null,null,true", &format!("[false,2,1]],{bit},null,true"));
    refused("\"enable_if\":null", &format!("\"enable_if\":{bit}"));
    refused("\"alt_src\":null", &format!("\"alt_src\":{bit}"));
    refused("[[3],1]", "[[3,4],2]");
    refused("[0,1],null]", "[0,2],null]");
    refused("[0,3],null]", "[0,3],[\"i\",3]]");
    // Signals that drop bits, or have other counts; programs and signals that are not connected.
    refused("[true,3,0],", "[true,2,0],");
    refused("[[true,5,1]]", "[[true,4,1]]");
    refused("[[true,5,1]]", "[[true,5,1],[true,5,1]]");
    refused("INTERNAL_logic1_inp", "INTERNAL_logic2_inp");
    refused("INTERNAL_logic1_outp", "elsewhere");
    refused("model_inp\",true", "model_inp\",false");
    let start = json.find("\"conns\":[").unwrap();
    refused(&json[start..], "\"conns\":[]}}");
    let message = refused("INTERNAL_logic1_outp", "INTERNAL_logic0_outp");
    assert!(message.contains("\"INTERNAL_logic0_outp\" to"), "{message}");
    let unnamed = json.replace("\"fsm\"", "\"frame\"");
    assert_eq!(files::read_json(&unnamed, false).unwrap_err()[0].code(), "Q1090");
}
