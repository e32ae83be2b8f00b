//! Files both ways, ports, and the programs behind them.

use crate::common::random::{program, rows, small};
use crate::common::{golden, root};
use quincunx_contract::{Engine, File, Log, Target as _};
use quincunx_diag::SourceId;
use quincunx_tcu::arch::DataType;
use quincunx_tcu::binary;
use quincunx_tcu::files::{Bus, Sample, Samples};
use quincunx_tcu::isa::TABLE;
use quincunx_tcu::{TARGET, TcuArch, text};
use quincunx_tensor::{Tensor, Tensors};
use quincunx_testkit::{Random, options};
use std::collections::BTreeSet;

fn files(name: &str) -> Vec<File> {
    let folder = root().join("compiled");
    let read = |name: &str| File::new(name, std::fs::read(folder.join(name)).unwrap());
    let first = read(&format!("{name}.tmodel"));
    let others = TARGET.companions(&first);
    std::iter::once(first).chain(others.iter().map(|name| read(name))).collect()
}

type Opened = Result<Box<dyn quincunx_contract::Program>, Vec<quincunx_diag::Diagnostic>>;

fn open_with(files: &[File], arch: &TcuArch, given: &[(&str, &str)]) -> Opened {
    TARGET.read(files, None, arch, &options(&TARGET, given), &mut Log::default())
}

fn open(name: &str, given: &[(&str, &str)]) -> Box<dyn quincunx_contract::Program> {
    open_with(&files(name), &TcuArch::preset("cmoda7").unwrap(), given).unwrap()
}

#[test]
fn random_programs_are_written_and_read() {
    for seed in 0..40 {
        for (data_type, threads) in [(DataType::FP16BP8, 1), (DataType::Float32, 2)] {
            let mut arch = small(data_type, threads);
            arch.instruction_bytes = (seed % 2 == 0).then_some(9);
            let program = program(&mut Random::new(seed), &arch, 50);
            let bytes = binary::write(&program).unwrap();
            assert_eq!(binary::read(&bytes, &arch, false).unwrap().program, program);
            let printed = text::print(&program);
            assert_eq!(text::parse(&printed, SourceId(0), &arch).unwrap(), program, "{printed}");
            assert!(text::recognises(&printed));
        }
    }
}

/// The kit's own laws: every instruction of every machine encodes, decodes, prints and parses.
#[test]
fn every_row_on_every_golden_machine() {
    for case in golden("encodings.json").as_array().unwrap() {
        let arch = crate::common::arch(&case["arch"]);
        let coder = binary::Coder::new(&arch).unwrap();
        let mut random = Random::new(7);
        for row in rows(&arch) {
            for _ in 0..20 {
                let raw = TABLE.random_of(row, &mut |n| random.below(n), coder.layout());
                let word = TABLE.encode(&raw, coder.layout()).unwrap();
                let (again, warnings) = TABLE.decode(&word, coder.layout(), false).unwrap();
                assert_eq!((again, warnings.len()), (raw, 0));
            }
        }
    }
}

#[test]
fn the_forms_of_the_specification() {
    let arch = TcuArch::preset("artya7100t").unwrap();
    let source = "[0] 0 DataMove(<-) Local(0) DRAM1(0) 72(+1)\r\n\
        [1] 0 LoadWeights Local(0) 8(+1)\r\n\
        [2] 0 MatMul Local(0) Acc(0)\r\n\
        [3] 0 DataMove(<-) Local(8191)@2^7 Acc(5)@2^1\r\n\
        [4] 0 SIMD(RW) Acc(7) Acc(9) O=Max(I,R1)\r\n\
        [5] 0 SIMD(R) Acc(0) Acc(9) R1=Move(I)\r\n\
        [6] 0 NoOp\r\n\
        [7] 0 Configure Timeout 100\r\n";
    let program = text::parse(source, SourceId(0), &arch).unwrap();
    assert_eq!(text::print(&program), source);
    let bytes = binary::write(&program).unwrap();
    let words = [
        "0000000000480022",
        "0000080000000030",
        "0000000000000010",
        "ffff05001000002c",
        "07000900007a0043",
        "0000090000110041",
        "0000000000000000",
        "48060000000000f0",
    ];
    let found: Vec<String> =
        bytes.chunks(8).map(|word| word.iter().map(|b| format!("{b:02x}")).collect()).collect();
    assert_eq!(found, words);
    let loose = text::parse("LoadWeight Zeroes # one row\n", SourceId(0), &arch).unwrap();
    assert_eq!(text::print(&loose), "[0] 0 LoadWeights Zeroes\r\n");
}

/// Upstream's other name of NoOp is read, with and without a thread, and written as NoOp.
#[test]
fn wait_is_read_as_noop() {
    let arch = TcuArch { number_of_threads: 2, ..TcuArch::preset("artya7100t").unwrap() };
    let program = text::parse("[0] 1 Wait\r\n1 Wait(1)\nWait\n", SourceId(0), &arch).unwrap();
    assert_eq!(text::print(&program), "[0] 1 NoOp\r\n[1] 1 NoOp(1)\r\n[2] 0 NoOp\r\n");
    assert!(text::recognises("[0] 0 Wait(1)\r\n") && !text::recognises("Waits\n"));
}

#[test]
fn wrong_text_is_refused_at_its_place() {
    let arch = TcuArch::preset("artya7100t").unwrap();
    for (line, code) in [
        ("MatMul Local(8192) Acc(0)", "Q2103"),
        ("MatMul Local(0)@2^8 Acc(0)", "Q2103"),
        ("[3] 0 NoOp", "Q3023"),
        ("1 NoOp", "Q3010"),
        ("LoadLUT Local(0) 0", "Q3012"),
        ("SIMD(R) Acc(0) Acc(0) O=Lookup(I)", "Q3021"),
        ("SIMD(R) Acc(0) Acc(0) O=Max(I)", "Q3020"),
        ("SIMD(R) Acc(0) Acc(0) O=Max(I,R2)", "Q3022"),
        ("SIMD(Q) Acc(0) Acc(0) O=Zero", "Q2101"),
        ("Matmul Local(0) Acc(0)", "Q2102"),
        ("NoOp NoOp", "Q2101"),
        ("Wait(1", "Q2101"),
        ("Wait(1)", "Q2103"),
        ("Wait(256)", "Q2103"),
        ("Waits", "Q2102"),
    ] {
        let problems = text::parse(&format!("NoOp\n  {line}\n"), SourceId(0), &arch).unwrap_err();
        assert_eq!(problems[0].code(), code, "{line}: {problems:?}");
        assert!(problems[0].labels()[0].0.start >= 7, "{line}");
    }
}

#[test]
fn a_model_runs_with_one_command() {
    let case = golden("compiled_models.json");
    let case =
        case.as_array().unwrap().iter().find(|c| c["name"] == "t_gemm_artya7100t_iso").unwrap();
    let program = open("t_gemm_artya7100t_iso", &[]);
    assert_eq!(program.verify(), []);
    let interface = program.interface().clone();
    let [input] = &interface.inputs[..] else { panic!("{interface:?}") };
    let decode = |bytes: Vec<u8>| -> Vec<f64> {
        bytes.chunks(2).map(|b| f64::from(i16::from_le_bytes([b[0], b[1]])) / 256.0).collect()
    };
    let image = decode(crate::common::hex(&case["inputs_hex"][0]));
    assert_eq!(input.shape, [image.len() / 8, 8]);
    let tensor = Tensor::from_vec(&input.shape, image).unwrap();
    let mut machine = program.load(Engine::Exec).unwrap();
    // Nothing of one run is left for the next one.
    for _ in 0..2 {
        let outputs = machine.run(&Tensors::from([(input.name.clone(), tensor.clone())])).unwrap();
        let output = &case["outputs"][0];
        let found = &outputs[output["name"].as_str().unwrap()];
        assert_eq!(found.to_f64(), decode(crate::common::hex(&output["hex"])));
        assert!(machine.notes().is_empty());
    }
    assert_eq!(machine.run(&Tensors::new()).unwrap_err().code(), "Q0310");
}

#[test]
fn models_are_written_as_they_were_read() {
    let name = "t_conv3_same_artya7100t_both";
    let emitted = open(name, &[]).emit("tmodel", name).unwrap();
    assert_eq!(emitted, files(name));
    let renamed = open(name, &[]).emit("tmodel", "other").unwrap();
    assert_eq!(renamed[1].name, "other.tprog");
    assert!(open_with(&renamed, &TcuArch::preset("cmoda7").unwrap(), &[]).is_ok());
}

#[test]
fn tracepoints_watches_and_saturation_are_reported() {
    let arch = small(DataType::FP8BP4, 1);
    let source = "DataMove(<-) Local(0) DRAM0(0)\nDataMove(->) Local(0) Acc(3)\n\
        DataMove(->Acc) Local(0) Acc(3)\nDataMove(<-) Local(1) Acc(3)\nDataMove(->) Local(1) DRAM0(1)\n";
    let given = [("tracepoint", "2"), ("watch", "Acc(2+2)")];
    let file = [File::new("x.tasm", source)];
    let program = open_with(&file, &arch, &given).unwrap();
    let ports: Vec<_> =
        program.interface().inputs.iter().map(|p| (&p.name[..], &p.shape[..])).collect();
    assert_eq!(ports, [("dram0", &[1, 3][..])]);
    let input = Tensor::from_vec(&[1, 3], vec![7.0, -7.0, 0.5]).unwrap();
    let inputs = Tensors::from([("dram0".to_owned(), input)]);
    let mut machine = program.load(Engine::Exec).unwrap();
    let outputs = machine.run(&inputs).unwrap();
    assert_eq!(outputs["dram0_out"].to_f64()[3..], [7.9375, -8.0, 1.0]);
    let notes = machine.notes();
    let codes: Vec<_> = notes.iter().map(quincunx_diag::Diagnostic::code).collect();
    assert_eq!(codes, ["Q3069", "Q3068", "Q3069"], "{notes:?}");
    let [clipped] = &machine.clipped()[..] else { panic!("one layer saturates") };
    assert_eq!(clipped.to_string(), "results of program: 2 numbers lie beyond -8 to 7.9375");
    assert_eq!(clipped.first, Some(2));
    let problem = program.load(Engine::Checked).unwrap().run(&inputs).unwrap_err();
    assert_eq!(problem.code(), "Q3063");
    for (name, value, code) in [("watch", "Acc(12)", "Q3076"), ("watch", "x", "Q3076")] {
        let problems = open_with(&file, &arch, &[(name, value)]).err().unwrap();
        assert_eq!(problems[0].code(), code);
    }
}

#[test]
fn dram_offsets_move_what_a_program_sees() {
    let arch = small(DataType::FP16BP8, 1);
    let source = "Configure DRAM0Offset 1\nDataMove(<-) Local(0) DRAM0(0)\nConfigure DRAM0Offset 0\n\
        DataMove(->) Local(0) DRAM0(1)\nDataMove(<-) Local(1) DRAM0(0)\nDataMove(->) Local(1) DRAM0(2)\n";
    let program = open_with(&[File::new("x.tasm", source)], &arch, &[]).unwrap();
    let input = Tensor::from_vec(&[1, 3], vec![1.0, 2.0, 3.0]).unwrap();
    let inputs = Tensors::from([("dram0".to_owned(), input)]);
    let outputs = program.load(Engine::Exec).unwrap().run(&inputs).unwrap();
    assert_eq!(outputs["dram0_out"].to_f64(), [1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0]);
    // The host's own base shifts everything with it.
    let shifted =
        open_with(&[File::new("x.tasm", source)], &arch, &[("dram0-offset", "1")]).unwrap();
    let mut machine = shifted.load(Engine::Exec).unwrap();
    let outputs = machine.run(&inputs).unwrap();
    assert_eq!(outputs["dram0_out"].to_f64()[..3], [1.0, 2.0, 3.0]);
    assert_eq!(machine.notes()[0].code(), "Q3066");
}

#[test]
fn lookups_give_the_difference_and_the_entries() {
    let arch = small(DataType::FP16BP8, 1);
    let source = "DataMove(<-) Local(0) DRAM0(0) 12(+1)\nLoadLUT Local(0) 0\nLoadLUT Local(4) 1\n\
        LoadLUT Local(8) 2\nDataMove(->) Local(12) Acc(0)\nSIMD(RW) Acc(1) Acc(0) R2=Lookup(I)\n\
        SIMD(W) Acc(2) Acc(0) O=Move(R3)\nSIMD(W) Acc(3) Acc(0) O=Move(R4)\n\
        SIMD(W) Acc(4) Acc(0) O=Move(R2)\nDataMove(<-) Local(0) Acc(1) 3(+1)\n\
        DataMove(->) Local(0) DRAM0(13) 3(+1)\n";
    let program = open_with(&[File::new("x.tasm", source)], &arch, &[]).unwrap();
    let keys = [0.0, 1.0, 2.0, 4.0].map(|key| [key; 3]).concat();
    let tables: Vec<f64> =
        [10.0, 11.0, 12.0, 13.0, 20.0, 21.0, 22.0, 23.0].map(|v| [v; 3]).concat();
    // A tie goes to the lower key.
    let numbers = [1.5, 3.0, -9.0];
    let image = [&keys[..], &tables, &numbers].concat();
    let input = Tensor::from_vec(&[13, 3], image).unwrap();
    let inputs = Tensors::from([("dram0".to_owned(), input)]);
    let outputs = program.load(Engine::Exec).unwrap().run(&inputs).unwrap();
    let found = &outputs["dram0_out"].to_f64()[13 * 3..];
    let difference = [0.5, 1.0, -9.0];
    assert_eq!(found[..3], difference);
    assert_eq!(found[3..6], [11.0, 12.0, 10.0]);
    assert_eq!(found[6..9], [21.0, 22.0, 20.0]);
    assert_eq!(found[9..], difference);
}

#[test]
fn samples_and_their_analysis() {
    let given = [("sample-interval", "16"), ("sample-block", "32")];
    let program = open("t_resblock_artya7100t_consts", &given);
    let file = program.emit("samples", "x").unwrap().remove(0);
    let samples = Samples::read(&file.bytes, 32).unwrap();
    assert_eq!(samples.write(), file.bytes);
    assert!(samples.words.len().is_multiple_of(32) && samples.is_last(31) && !samples.is_last(32));
    assert_eq!(samples.problems(), []);
    let counters: Vec<u32> =
        samples.words.iter().filter(|s| s.is_valid()).map(|s| s.program_counter()).collect();
    // The counter starts at 1 behind the host's configuration, which counts too.
    assert!(counters.windows(2).skip(1).all(|pair| pair[0] <= pair[1]));
    let met: BTreeSet<_> = Bus::ALL
        .into_iter()
        .filter(|&bus| samples.words.iter().any(|s| s.bus(bus) == (true, true)))
        .collect();
    assert_eq!(met.len(), Bus::ALL.len());
    let arch = TcuArch::preset("pynqz1").unwrap();
    let document = TARGET.document(&file, &arch, &options(&TARGET, &given)).unwrap().unwrap();
    assert_eq!((document.tables.len(), document.problems.len()), (3, 0));
    let mut bytes = Sample::new(5).with(Bus::MemPortA, true, false).0.to_le_bytes().to_vec();
    assert_eq!(bytes[5], 0x10);
    bytes[7] = 1;
    let cut = Samples::read(&bytes, 2).unwrap();
    let codes: Vec<_> = cut.problems().iter().map(quincunx_diag::Diagnostic::code).collect();
    assert_eq!(codes, ["Q3037", "Q3038"]);
    assert_eq!(Samples::read(&bytes[1..], 2).unwrap_err().code(), "Q3036");
    // Without an interval there is nothing to write.
    let silent = open("t_gemm_artya7100t_iso", &[]).emit("samples", "x");
    assert_eq!(silent.unwrap_err().code(), "Q3084");
}

#[test]
fn the_stream_of_the_host() {
    for (name, width) in [("t_gemm_artya7100t_iso", 8), ("t_conv_bn_relu_ultra96v2_iso", 16)] {
        let program = open(name, &[("stream-bytes", &width.to_string())]);
        let stream = program.emit("stream", "x").unwrap().remove(0);
        assert_eq!(stream.extension(), "tstream");
        assert!(stream.bytes.len().is_multiple_of(width));
        let own = program.emit("tprog", "x").unwrap().remove(0);
        let position = stream.bytes.windows(own.bytes.len()).position(|part| part == own.bytes);
        assert!(position.is_some_and(|position| position > 0));
    }
    let program = open("t_gemm_artya7100t_iso", &[("flush-probe", "false")]);
    let stream = program.emit("stream", "x").unwrap().remove(0);
    let own = program.emit("tprog", "x").unwrap().remove(0);
    assert!(stream.bytes.ends_with(&own.bytes));
}

#[test]
fn timing_models() {
    let figure = |timeline: &quincunx_timeline::Timeline, name: &str| {
        timeline.figures().iter().find(|f| f.name == name).map(|f| f.value.clone()).unwrap()
    };
    let case = golden("compiled_models.json");
    for case in case.as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let current = open(name, &[]).time().unwrap();
        let sum = figure(&current, "sum of all instructions");
        assert_eq!(sum, format!("{} cycles", case["aggregate_cycles"]));
        let reported = figure(&current, "as upstream reports");
        assert_eq!(reported, format!("{} cycles", case["reported_execution_cycles"]));
        let two = open(name, &[("timing", "two-engine")]).time().unwrap();
        let old = open(name, &[("timing", "early-2022")]).time().unwrap();
        assert!(two.total() > 0 && old.total() >= current.total(), "{name}");
        if case["arch_params"]["number_of_threads"] == 1 {
            assert_eq!(current.total(), case["aggregate_cycles"].as_u64().unwrap());
        }
    }
    // Computed by hand: two reads of a kind, a write, a product behind weights, and one behind it.
    let arch = TcuArch::preset("pynqz1").unwrap();
    let source = "DataMove(<-) Local(0) DRAM0(0) 9(+1)\nDataMove(<-) Local(10) DRAM0(0) 9(+1)\n\
        DataMove(->) Local(0) DRAM0(0) 4(+1)\nLoadWeights Local(0) 8(+1)\nMatMul Local(0) Acc(0) 3(+1)\n\
        MatMul Local(0) Acc(0)\nSIMD(RW) Acc(0) Acc(0) O=Move(I)\nNoOp\nConfigure Timeout 10\n";
    for (model, cycles) in [
        ("current", 10 + 10 + 5 + 9 + (4 + 8) + 1 + 1 + 1),
        ("early-2022", (20 + 32) + 20 + 5 + 9 + (4 + 8) + 1 + 1 + 1),
        // Reads 42 and 10 end at 53, the write at 58; weights follow at 58 because of the lower
        // half of local memory, the products at 67, and the last result comes 15 cycles later.
        ("two-engine", 58 + 9 + 4 + 1 + 15 + 2),
    ] {
        let file = File::new("x.tasm", source);
        let timeline = open_with(&[file], &arch, &[("timing", model)]).unwrap().time().unwrap();
        assert_eq!(timeline.total(), cycles, "{model}");
    }
    let slow = open_with(&[File::new("x.tasm", source)], &arch, &[("timeout", "11")]).unwrap();
    assert_eq!(figure(&slow.time().unwrap(), "timeout flag"), "1 times, first at instruction 4");
}

#[test]
fn wrong_files_are_refused() {
    let arch = TcuArch::preset("pynqz1").unwrap();
    let good = files("t_gemm_artya7100t_iso");
    let code = |files: &[File]| open_with(files, &arch, &[]).err().unwrap()[0].code();
    assert_eq!(code(&good[..2]), "Q3070");
    let mut cut = good.clone();
    cut[1] = File::new(good[1].name.clone(), good[1].bytes.slice(8..));
    assert_eq!(code(&cut), "Q3071");
    assert_eq!(code(&[good[0].clone(), good[0].clone()]), "Q3078");
    let text = good[0].text().unwrap().to_owned();
    for (from, to, expected) in [
        ("\"base\":0", "\"base\":1048576", "Q3032"),
        ("t_gemm_artya7100t_iso.tprog", "../x.tprog", "Q3031"),
        ("\"name\"", "\"nam\"", "Q3030"),
        ("{", "[", "Q3030"),
        ("\"array_size\":8", "\"array_size\":0", "Q3002"),
    ] {
        let broken = File::new("x.tmodel", text.replacen(from, to, 1));
        assert_eq!(code(&[broken, good[1].clone(), good[2].clone()]), expected);
    }
    let odd = File::new("x.tprog", vec![0; 9]);
    assert_eq!(code(&[odd]), "Q3013");
    let mut unused = vec![0; 8];
    unused[1] = 0x80;
    let unused = File::new("x.tprog", unused);
    assert_eq!(code(std::slice::from_ref(&unused)), "Q2112");
    assert!(open_with(&[unused], &arch, &[("lenient", "true")]).is_ok());
    assert_eq!(
        code(&[File::new("x.tprog", vec![0; 8]), File::new("x.tdata", vec![0; 3])]),
        "Q3034"
    );
}
