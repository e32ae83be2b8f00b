//! Networks of a folder as programs: `quincunx bench dais:networks`.

use super::{DEPTH_SLACK, EFFORT, OBJECTIVE, files};
use crate::TARGET;
use crate::arch::DaisArch;
use crate::artifact::Artifact;
use crate::isa::Inst;
use crate::program::{Operation, Program};
use quincunx_contract::bench::{Row, Run, Suite};
use quincunx_contract::plan::{Built, Division, Place, Plan};
use quincunx_contract::{ArchSource, Log, OptionInfo, Options, Refused, Target};
use quincunx_diag::{Diagnostic, Result, first};
use quincunx_graph::passes;
use quincunx_import::{Options as ImportOptions, read_onnx};
use std::any::Any;
use std::fs;

pub(super) const SUITE: Suite = Suite {
    name: "networks",
    doc: "the networks of a folder, from ONNX to programs",
    options: &[
        OptionInfo::text("models", "The folder of .onnx files with quantised networks", ""),
        OBJECTIVE,
        EFFORT,
        DEPTH_SLACK,
    ],
    run: measure,
};

fn measure(run: &Run) -> Result<Vec<Row>> {
    let chosen = ["objective", "effort", "depth-slack"].map(|name| (name, run.options.get(name)));
    let mut rows = Vec::new();
    for path in files(run, "models", "onnx", "Q1154")? {
        let file = path.to_string_lossy();
        let model = fs::read(&path).map_err(|problem| {
            Diagnostic::system("Q1154", "read the file", &problem).in_file(&*file)
        })?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let measured = measure_one(run, &name, &model, &chosen);
        rows.extend(measured.map_err(|problem| problem.name_file(&file))?);
    }
    Ok(rows)
}

/// A network on the machine.
pub(super) struct Compiled {
    /// A program for every part that the machine executes, at least one.
    pub(super) programs: Vec<Artifact>,
    /// Nodes left to the host.
    host_nodes: usize,
}

/// The median time of all that lies between the bytes of the model and the programs in memory, the
/// most memory of the process meanwhile, and the size of the programs.
pub(super) fn measure_one(
    run: &Run,
    name: &str,
    model: &[u8],
    chosen: &[(&str, &str)],
) -> Result<Vec<Row>> {
    let calls = run.calls(|| compile(model, chosen))?;
    let programs = || calls.last.programs.iter().flat_map(Artifact::stages);
    let (adders, bits) = adders(programs());
    let levels = programs().map(levels).max().unwrap_or(0);
    let row = Row::named(name);
    let mut rows = vec![
        row("adders", adders as f64, "", 0),
        row("bits", bits, "", 0),
        row("levels", f64::from(levels), "levels", 0),
        row("host_nodes", calls.last.host_nodes as f64, "", 0),
        row("seconds", calls.seconds, "s", 4),
    ];
    rows.extend(calls.peak.map(|bytes| row("peak_bytes", bytes as f64, "bytes", 0)));
    Ok(rows)
}

/// Compiles a model as `quincunx compile` does.
///
/// # Errors
/// `Q1155` for a network of which nothing runs on the machine; what is wrong with the model.
pub(super) fn compile(model: &[u8], chosen: &[(&str, &str)]) -> Result<Compiled> {
    let arch = TARGET.arch(&ArchSource::Default)?;
    let arch: &DaisArch = arch.of_target()?;
    let chosen: Vec<(String, String)> =
        chosen.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let options = Options::new(TARGET.info().options, &chosen)?;
    let graph = read_onnx(model.to_vec().into(), &ImportOptions::default()).map_err(first)?;
    let graph = passes::recognise_functions(&passes::fold_constants(&graph)?)?;
    let graph = passes::remove_dead(&passes::fold_batch_norm(&graph)?)?;
    let division = Division { graph: &graph, target: &TARGET, arch, options: &options };
    let Built { plan, programs } =
        division.build(Refused::default(), false, &mut Log::default())?;
    let artifact = |compiled: quincunx_contract::Compiled| {
        let program: Box<dyn Any> = compiled.program;
        program.downcast().map_err(|_| Diagnostic::bug("a program of another machine"))
    };
    let programs = programs.map_err(first)?.into_iter().flatten();
    let programs = programs.map(|compiled| artifact(compiled).map(|artifact| *artifact));
    let programs = programs.collect::<Result<Vec<Artifact>>>()?;
    if programs.is_empty() {
        return Err(nothing_to_measure(&plan));
    }
    let host_nodes = plan.rows.iter().filter(|row| row.place == Place::Host).count();
    Ok(Compiled { programs, host_nodes })
}

fn nothing_to_measure(plan: &Plan) -> Diagnostic {
    let problem = Diagnostic::unsupported("Q1155", "nothing of the network runs on the machine")
        .help("quantise the network first, as with `quincunx quantise`");
    let reasons = plan.rows.iter().filter_map(|row| Some((&row.node, row.reason.as_ref()?)));
    match reasons.map(|(node, reason)| format!("\"{node}\": {reason}")).next() {
        Some(reason) => problem.with_note(reason),
        None => problem,
    }
}

fn is_adder(inst: &Inst) -> bool {
    matches!(inst, Inst::Add { .. } | Inst::Sub { .. })
}

/// Adders, and the bits of all of them in the cost model of da4ml.
pub(super) fn adders<'a>(programs: impl Iterator<Item = &'a Program>) -> (usize, f64) {
    let operations = programs.flat_map(|program| &program.operations);
    let adders = operations.filter(|operation| is_adder(&operation.inst));
    adders.fold((0, 0.0), |(count, bits), adder| (count + 1, bits + adder.cost))
}

/// Adders on the longest chain of operations.
fn levels(program: &Program) -> u32 {
    let mut levels: Vec<u32> = Vec::with_capacity(program.operations.len());
    for Operation { inst, .. } in &program.operations {
        let before = inst.operands().map(|slot| levels[slot.0 as usize]).max().unwrap_or(0);
        levels.push(before + u32::from(is_adder(inst)));
    }
    levels.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_graph::{Constant, Gemm, Graph, Op, Quantiser};
    use quincunx_import::{ExportOptions, write_onnx};
    use quincunx_tensor::{DType, Tensor};
    use std::num::NonZeroUsize;
    use std::path::Path;

    fn bench(folder: &Path) -> Result<Vec<Row>> {
        let given = [("models", &*folder.to_string_lossy()), ("effort", "fast")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let options = Options::new(SUITE.options, &given).unwrap();
        (SUITE.run)(&Run { threads: NonZeroUsize::MIN, repeat: NonZeroUsize::MIN, options })
    }

    fn value(rows: &[Row], name: &str, metric: &str) -> f64 {
        rows.iter().find(|row| row.name == name && row.metric == metric).unwrap().value
    }

    /// Products of two integers of 4 bits with these weights, of which rows are inputs.
    fn dense(weights: Vec<i8>, quantised: bool) -> Vec<u8> {
        let mut graph = Graph::new("dense");
        let mut x = graph.add_input("x", DType::F32, &[1, 2], &[]).unwrap();
        if quantised {
            let op = Op::Quantise(Quantiser::symmetric(true, 4, 1.0));
            x = graph.add_node("quant", op, &[Some(x)], "quantised").unwrap();
        }
        let shape = [2, weights.len() / 2];
        let quantiser = quantised.then(|| Quantiser::symmetric(true, 6, 1.0));
        let tensor = if quantised {
            Tensor::from_vec(&shape, weights).unwrap()
        } else {
            Tensor::from_vec(&shape, weights.into_iter().map(f32::from).collect()).unwrap()
        };
        let w = graph.add_constant("w", Constant { tensor, quantiser }).unwrap();
        let gemm = Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: false };
        let y = graph.add_node("dense", Op::Gemm(gemm), &[Some(x), Some(w)], "y").unwrap();
        graph.add_output(y);
        write_onnx(&graph, &ExportOptions::default()).unwrap()
    }

    /// Counted by hand: `s = x + y` and `s + 2 s` take an adder each, one after the other. The bits
    /// are those of the operands from the lowest bit of both on: 4 of integers from -8 to 7, 5 of
    /// `2 s` from -32 to 28, whose lowest bit is 0.
    #[test]
    fn networks_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        };
        write("two.onnx", &dense(vec![1, 3, 1, 3], true));
        write("one.onnx", &dense(vec![1, 1], true));
        write("notes.txt", b"");
        let rows = bench(folder.path()).unwrap();
        for (name, adders, levels) in [("one", 1.0, 1.0), ("two", 2.0, 2.0)] {
            assert_eq!(value(&rows, name, "adders"), adders, "{name}");
            assert_eq!(value(&rows, name, "levels"), levels, "{name}");
            assert_eq!(value(&rows, name, "host_nodes"), 0.0, "{name}");
            assert!(value(&rows, name, "seconds") > 0.0, "{name}");
        }
        assert_eq!(value(&rows, "one", "bits"), 4.0);
        assert_eq!(value(&rows, "two", "bits"), 4.0 + 5.0);
    }

    #[test]
    fn folders_without_networks_are_refused() {
        assert_eq!(bench(Path::new("")).unwrap_err().code(), "Q1150");
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(bench(&folder.path().join("none")).unwrap_err().code(), "Q1154");
        assert_eq!(bench(folder.path()).unwrap_err().code(), "Q1154");
        let path = folder.path().join("a.onnx");
        std::fs::write(&path, dense(vec![1, 1], false)).unwrap();
        let problem = bench(folder.path()).unwrap_err();
        assert_eq!(problem.code(), "Q1155");
        assert!(format!("{problem:?}").contains("a.onnx"), "{problem:?}");
        std::fs::write(&path, b"no network").unwrap();
        let problem = bench(folder.path()).unwrap_err();
        assert!(format!("{problem:?}").contains("a.onnx"), "{problem:?}");
    }
}
