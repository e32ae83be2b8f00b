//! Nothing takes time that grows with the square of its input: every verb on texts, models and data
//! of n and 2n lines, nodes, ports, columns and errors, in processor time of the process.

use crate::support::{file, quincunx};
use quincunx::graph::{Binary, Graph, Op, Unary};
use quincunx::import::write_onnx;
use quincunx::tensor::{DType, Tensor};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The processor time of all threads of a run, which must end with this code.
fn time_of(arguments: &[String], code: i32) -> Duration {
    // In /proc times are in hundredths of a second.
    const TICK: Duration = Duration::from_millis(10);
    let mut command = Command::new(env!("CARGO_BIN_EXE_quincunx"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    // The times stay there from the end of a process until somebody waits for it.
    let ticks = loop {
        let text = std::fs::read_to_string(&stat).unwrap();
        let fields: Vec<&str> = text.rsplit(") ").next().unwrap().split(' ').collect();
        if fields[0] == "Z" {
            break fields[11].parse::<u32>().unwrap() + fields[12].parse::<u32>().unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    assert_eq!(child.wait().unwrap().code(), Some(code), "{arguments:?}");
    TICK * ticks
}

/// Runs a command on inputs of n and 2n: at most three times as long.
fn grows(n: usize, code: i32, arguments: impl Fn(usize) -> Vec<String>) {
    let [one, two] = [n, 2 * n].map(arguments);
    let mut found = Vec::new();
    // What else the machine does may disturb once.
    for _ in 0..2 {
        let times = [&one, &two].map(|arguments| time_of(arguments, code));
        // Less is not measured well.
        if times[1] <= 3 * times[0] + Duration::from_millis(20) {
            return;
        }
        found.push(times);
    }
    panic!("{one:?} and twice as much: {found:?}");
}

/// Verbs on a text of n and 2n parts.
fn texts(
    name: &str,
    n: usize,
    code: i32,
    verbs: &[&str],
    options: &[&str],
    text: &dyn Fn(usize) -> String,
) {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out").to_str().unwrap().to_owned();
    let [one, two] =
        [n, 2 * n].map(|n| file(place.path(), &format!("{n}.{name}"), text(n).as_bytes()));
    for verb in verbs {
        grows(n, code, |count| {
            let path = if count == n { &one } else { &two };
            let mut arguments: Vec<&str> = verb.split(' ').collect();
            match arguments[0] {
                "run" => arguments.extend(["--data", "zeros"]),
                "asm" => arguments.extend(["-o", &out]),
                "diff" => arguments.push(path),
                _ => {}
            }
            arguments.push(path);
            let options =
                if arguments[0] == "diff" { &options[..2.min(options.len())] } else { options };
            let options = options.iter().map(|option| match (arguments[0], *option) {
                ("diff", "-t") => "--target",
                (_, option) => option,
            });
            arguments.iter().copied().chain(options).map(str::to_owned).collect()
        });
    }
}

/// A golden file.
fn golden(path: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    std::fs::read_to_string(folder.join(path)).unwrap()
}

const TYPE: &str = "[-8, 7.75, 0.25]";

/// A program of n inputs, which are its outputs.
fn wide(n: usize) -> String {
    let inputs: String = (0..n).map(|i| format!("%{i} = input {i} : {TYPE}\n")).collect();
    let outputs: String = (0..n).map(|i| format!("out %{i}\n")).collect();
    format!(".dais\n.inputs {n}\n{inputs}{outputs}")
}

/// Each operation reads the one before it.
fn chain(n: usize, operation: &str) -> String {
    let lines =
        (1..n).map(|i| format!("%{i} = {}\n", operation.replace("LAST", &format!("%{}", i - 1))));
    format!(
        ".dais\n.inputs 1\n%0 = input 0 : {TYPE}\n{}out %{}\n",
        lines.collect::<String>(),
        n - 1
    )
}

#[test]
fn dais() {
    let on = ["-t", "dais"];
    let all = ["run", "time", "inspect", "disasm", "asm"];
    texts("dasm", 10_000, 0, &all, &on, &|n| chain(n, "quantise LAST : [-8, 7.75, 0.25]"));
    texts("dasm", 10_000, 0, &["verify", "run", "time", "asm", "diff"], &[], &wide);
    texts("dasm", 2_000, 0, &["asm --emit verilog", "asm --emit vhdl"], &on, &wide);
    let sub = "sub LAST, %0 : [-1048576, 1048575.75, 0.25]";
    texts("dasm", 2_500, 0, &["verify", "asm --emit verilog"], &on, &|n| chain(n, sub));
    texts("dasm", 40_000, 1, &["verify"], &on, &|n| chain(n, "add LAST, %999999 : [-9, 7, 0.25]"));
    texts("dasm", 40_000, 3, &["verify"], &on, &|n| chain(n, "bla LAST"));
}

#[test]
fn dpas() {
    let line = "dpas.8x4 (16|M0) r16:d r16:d r136:ub r152.0:ub\n";
    let all = ["verify", "run", "time", "inspect", "disasm", "asm", "diff"];
    let on = |swsb| ["--target", "dpas", "--arch", "xehpc", "--swsb", swsb];
    let lines = |n| line.repeat(n);
    texts("xeasm", 7_000, 0, &all[..6], &on("ignore"), &lines);
    texts("xeasm", 7_000, 0, &all[6..], &[], &lines);
    texts("xeasm", 7_000, 0, &["verify", "disasm"], &on("auto"), &lines);
    texts("xeasm", 7_000, 1, &["verify"], &on("check"), &lines);
    texts("xeasm", 12_000, 3, &["verify"], &on("check"), &|n| line.repeat(n).replace("16|", "8|"));
    texts("xeasm", 6_000, 3, &["verify"], &on("check"), &|n| line.repeat(n).replace("8x4", "9x4"));
    let visa = |byte: &str, n: usize| {
        let product =
            format!("dpas.s8.s8.8.8 (M1, 16) V32.{byte} V32.0 V33.0 V34(0,0)\n").repeat(n);
        golden("dpas/files/gemm.visaasm").replace("ret", &format!("{product}ret"))
    };
    let on = ["--target", "dpas", "--arch", "xehpc"];
    texts("visaasm", 7_000, 0, &all[..6], &on, &|n| visa("0", n));
    texts("visaasm", 7_000, 1, &["verify"], &on, &|n| visa("4", n));
}

#[test]
fn scamp() {
    let on = ["--target", "scamp"];
    let small = ["--target", "scamp", "--size", "4x4"];
    let lines =
        |n| format!("scamp5_kernel_begin();\n{}scamp5_kernel_end();\n", "sub(A,A,B);\n".repeat(n));
    texts("txt", 1_200, 0, &["run", "inspect"], &small, &lines);
    texts("txt", 1_200, 0, &["verify", "time", "disasm", "asm"], &on, &lines);
    texts("txt", 1_200, 0, &["diff"], &[], &lines);
    texts("txt", 800, 1, &["verify"], &on, &|n| "diva(A,A,C);\nadd(Z,A,B);\n".repeat(n));
    texts("txt", 2_500, 3, &["verify"], &on, &|n| "divo(A,A,C);\n".repeat(n));
}

#[test]
fn npu() {
    let on = ["--target", "npu"];
    let all = ["verify", "run", "time", "inspect", "disasm", "asm"];
    let fragment = |name: &str| golden(&format!("npu/fragments/{name}.asm.txt"));
    let legal = fragment("f02_load_quantise_store");
    texts("asm.txt", 300, 0, &all, &on, &|n| legal.repeat(n));
    texts("asm.txt", 300, 0, &["diff"], &[], &|n| legal.repeat(n));
    let deadlock = legal.replace("'Next_Insts': ['LD']", "'Next_Insts': []");
    texts("asm.txt", 300, 1, &["verify"], &on, &|n| deadlock.repeat(n));
    let unordered = fragment("e03_unordered_war");
    texts("asm.txt", 300, 1, &["verify"], &on, &|n| unordered.repeat(n));
    texts("asm.txt", 2_500, 3, &["verify"], &on, &|n| "[pe_cnv, {}]\n".repeat(n));
}

#[test]
fn tcu() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tcu/compiled");
    let program = folder.join("t_add_artya7100t_iso.tprog");
    let text = quincunx(&["disasm", program.to_str().unwrap(), "-t", "tcu"]).text();
    let lines: Vec<&str> = text.lines().map(|line| line.split_once("] ").unwrap().1).collect();
    let text = lines.join("\n") + "\n";
    let on = ["--target", "tcu"];
    let all = ["verify", "run", "time", "inspect", "disasm", "asm"];
    texts("tasm", 120, 0, &all, &on, &|n| text.repeat(n));
    texts("tasm", 120, 0, &["diff"], &[], &|n| text.repeat(n));
    let line = "DataMove(<-) Local(8190) DRAM1(0) 72(+1)\n";
    texts("tasm", 10_000, 1, &["verify"], &on, &|n| line.repeat(n));
    texts("tasm", 7_000, 3, &["verify"], &on, &|n| line.repeat(n).replace("Move", "Movo"));
}

/// Layers one behind the other, side by side on one input, or each with ports of its own.
fn model(kind: &str, n: usize) -> Graph {
    let mut graph = Graph::new(kind);
    let row = [1, 4];
    let mut x = graph.add_input("x", DType::F32, &row, &[]).unwrap();
    for i in 0..n {
        if kind == "ports" {
            x = graph.add_input(&format!("x{i}"), DType::F32, &row, &[]).unwrap();
        }
        let name = |what: &str| format!("{what}{i}");
        let weights = Tensor::from_vec(&[4, 4], vec![0.25_f32; 16]).unwrap();
        let y = match kind {
            "products" => {
                let weights = graph.add_constant(&name("w"), weights).unwrap();
                graph.add_node(&name("n"), Op::MatMul, &[Some(x), Some(weights)], &name("v"))
            }
            "sums" => {
                let add = Op::Binary(Binary::Add);
                graph.add_node(&name("n"), add, &[Some(x), Some(x)], &name("v"))
            }
            _ => graph.add_node(&name("n"), Op::Unary(Unary::Relu), &[Some(x)], &name("v")),
        };
        let y = y.unwrap();
        match kind {
            "ports" | "fan" => graph.add_output(y),
            _ => x = y,
        }
    }
    if !["ports", "fan"].contains(&kind) {
        graph.add_output(x);
    }
    graph
}

/// Commands on models of n and 2n layers; QUANTISED is the quantised one.
fn models(kind: &str, n: usize, commands: &[&str]) {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out").to_str().unwrap().to_owned();
    let paths = [n, 2 * n].map(|n| {
        let bytes = write_onnx(&model(kind, n), &Default::default()).unwrap();
        let model = file(place.path(), &format!("{n}.onnx"), &bytes);
        let quantised = place.path().join(format!("q{n}.onnx")).to_str().unwrap().to_owned();
        if commands.iter().any(|command| command.contains("QUANTISED")) {
            let run = quincunx(&["quantise", &model, "--calibrate", "random:1", "-o", &quantised]);
            assert_eq!(run.code, 0, "{}", run.stderr);
        }
        [model, quantised]
    });
    for command in commands {
        grows(n, 0, |count| {
            let [model, quantised] = &paths[usize::from(count != n)];
            let word = |word| match word {
                "MODEL" => model.clone(),
                "QUANTISED" => quantised.clone(),
                "OUT" => out.clone(),
                word => word.to_owned(),
            };
            command.split(' ').map(word).collect()
        });
        let _ = std::fs::remove_dir_all(&out).or_else(|_| std::fs::remove_file(&out));
    }
}

#[test]
fn networks() {
    let host = ["inspect MODEL", "run MODEL --data zeros"];
    for kind in ["products", "sums", "fan", "ports"] {
        models(kind, 4_000, &host);
    }
    let tcu = ["compile MODEL -t tcu -o OUT", "compare MODEL -t tcu --data random:1"];
    for kind in ["products", "sums", "fan", "ports"] {
        models(kind, 800, &tcu);
    }
    let quantise = ["quantise MODEL --calibrate random:1 -o OUT"];
    let dais = ["compile QUANTISED -t dais -o OUT", "compare QUANTISED -t dais --data random:1"];
    for kind in ["products", "ports"] {
        models(kind, 200, &quantise);
        models(kind, 200, &dais);
    }
}

#[test]
fn data() {
    let place = tempfile::tempdir().unwrap();
    let relu = |n: usize| {
        let mut graph = Graph::new("relu");
        let x = graph.add_input("x", DType::F32, &[1, n], &[]).unwrap();
        let y = graph.add_node("n", Op::Unary(Unary::Relu), &[Some(x)], "y").unwrap();
        graph.add_output(y);
        let bytes = write_onnx(&graph, &Default::default()).unwrap();
        file(place.path(), &format!("{n}.onnx"), &bytes)
    };
    let command = |words: [&str; 4]| words.map(str::to_owned).to_vec();
    grows(300_000, 0, |n| {
        let row = vec!["0.5"; n].join(",");
        let data = file(place.path(), &format!("{n}.csv"), row.as_bytes());
        command(["run", &relu(n), "--data", &data])
    });
    grows(4_000, 0, |n| {
        let data = file(place.path(), &format!("{n}r.csv"), "0.5,1,2,3\n".repeat(n).as_bytes());
        command(["run", &relu(4), "--data", &data])
    });
    grows(12_000, 0, |n| {
        let keys: String = (0..n).map(|i| format!("\"k{i}\": 1, ")).collect();
        let known = r#""data_type":"FP16BP8","array_size":8,"dram0_depth":99,"dram1_depth":99,
            "local_depth":32,"accumulator_depth":16,"simd_registers_depth":0,"stride0_depth":1,
            "stride1_depth":1"#;
        let text = format!("{{{keys}{known}}}");
        let arch = file(place.path(), &format!("{n}.tarch"), text.as_bytes());
        command(["targets", "tcu", "--arch", &arch])
    });
}
