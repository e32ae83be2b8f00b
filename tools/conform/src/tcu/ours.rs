//! Programs of our compiler: the machine's numbers as the golden model has them, upstream's
//! numbers where upstream follows ONNX, and never more cycles.

use super::{Check, arch, compiled, equal, find_model, first, hex, list, number, text};
use crate::report::Report;
use crate::{Request, folder};
use quincunx_contract::{Compiled, Compiler, Engine, Log, Options, Target};
use quincunx_diag::{Diagnostic, any_error};
use quincunx_graph::Graph;
use quincunx_import::read_onnx;
use quincunx_tcu::time::{engines, estimate};
use quincunx_tcu::{Artifact, TARGET, TcuArch};
use quincunx_tensor::{Tensor, Tensors};
use serde_json::Value;
use std::path::Path;

/// Upstream's outputs further than this from the float ones are not those of the network: rounding
/// alone is off by less than 0.1 in every case.
const OTHER_NETWORK: f64 = 0.25;

/// Compiles the networks of a list of upstream's programs for the same machines, with upstream's
/// strategies: where the driver moves constants, their moves are cycles of neither.
pub(super) fn run(json: &Value, request: &Request<'_>, report: &mut Report) {
    let mut tallies = MODELS.map(|_| Tally::default());
    for case in list(json) {
        let (name, model) = (text(case, "name"), text(case, "model"));
        let ours = format!("{name} compiled here");
        match find_model(model, request) {
            Some(path) => report.case(&ours, check(case, &path, request, &mut tallies)),
            None => report.skip(&ours, format!("models/{model}.onnx is not there")),
        }
    }
    tallies.iter().zip(MODELS).for_each(|(tally, model)| tally.report(model, report));
}

/// Timing models, as [`costs`] gives them.
const MODELS: [&str; 2] = ["current", "two-engine"];

/// Cycles of programs by one timing model.
#[derive(Default)]
struct Tally {
    /// Of upstream, compat and free, in upstream's strategies.
    sums: [u64; 3],
    programs: usize,
    /// Those of ours that take more cycles than upstream's.
    above: Vec<String>,
}

impl Tally {
    fn add(&mut self, name: &str, cycles: [u64; 3]) {
        self.programs += 1;
        self.sums.iter_mut().zip(cycles).for_each(|(sum, cycles)| *sum += cycles);
        let [upstream, ours @ ..] = cycles;
        for (rounding, cycles) in ["compat", "free"].into_iter().zip(ours) {
            if cycles > upstream {
                self.above.push(format!("{name} {rounding}: {cycles}, upstream's {upstream}"));
            }
        }
    }

    fn report(&self, model: &str, report: &mut Report) {
        let ([upstream, compat, free], above) = (self.sums, self.above.len());
        report.note(format!(
            "{model} cycles of {} programs in upstream's strategies: {upstream} upstream, {compat} compat, {free} free; \
             above upstream's: {above} of {}",
            self.programs,
            2 * self.programs
        ));
        self.above.iter().for_each(|line| report.note(format!("  {model}: {line}")));
    }
}

fn check(case: &Value, model: &Path, request: &Request<'_>, tallies: &mut [Tally; 2]) -> Check {
    let arch = arch(&case["arch_params"])?;
    let graph = read(model)?;
    let images: Vec<&Value> = list(&case["inputs_hex"]).collect();
    equal("the number of inputs", images.len(), graph.inputs().len())?;
    let inputs = graph.inputs().iter().zip(images).map(|(&id, image)| {
        let value = &graph[id];
        Ok((value.name.clone(), unpack(&hex(image)?, &value.shape, &arch)?))
    });
    let inputs: Tensors = inputs.collect::<Check<_>>()?;
    let strategy = strategy(case)?;
    let compat = compile(&graph, &arch, "compat", strategy)?;
    let found = judged(&graph, &arch, &compat, &inputs)?;
    if case["max_abs_error_vs_float"].as_f64().is_some_and(|error| error < OTHER_NETWORK) {
        for output in list(&case["outputs"]) {
            let name = text(output, "name");
            let found = found.get(name).ok_or_else(|| format!("there is no output {name:?}"))?;
            let expected = unpack(&hex(&output["hex"])?, found.shape(), &arch)?;
            equal(&format!("output {name:?}"), found.to_f64(), expected.to_f64())?;
        }
    }
    let free = compile(&graph, &arch, "free", strategy)?;
    judged(&graph, &arch, &free, &inputs)?;
    let name = text(case, "name");
    let upstream = number(case, "aggregate_cycles")?;
    let ours = [costs_of(&compat)?, costs_of(&free)?];
    tallies[0].add(name, [upstream, ours[0][0], ours[1][0]]);
    // The other model needs upstream's program, which a folder may lack.
    let folder = request.dir.join("compiled");
    if folder.join(format!("{name}.tmodel")).is_file() {
        let [_, engines] = costs(&compiled::read(&folder, name)?.program);
        tallies[1].add(name, [engines, ours[0][1], ours[1][1]]);
    }
    not_above("compat", ours[0][0], upstream)?;
    not_above("free", ours[1][0], upstream)?;
    own_strategy(&graph, &arch, &inputs, &found, upstream, strategy)
}

/// With our default strategy the numbers are the same, and so is the comparison where upstream's
/// driver moves no constants.
fn own_strategy(
    graph: &Graph,
    arch: &TcuArch,
    inputs: &Tensors,
    found: &Tensors,
    upstream: u64,
    strategy: &str,
) -> Check {
    for rounding in ["compat", "free"] {
        let auto = compile(graph, arch, rounding, "auto")?;
        let numbers = judged(graph, arch, &auto, inputs)?;
        if rounding == "compat" {
            equal("what the two strategies give", &numbers, found)?;
        }
        if !strategy.contains("consts") {
            not_above(&format!("{rounding} with the strategy auto"), cycles(&auto), upstream)?;
        }
    }
    Ok(())
}

/// Cycles of a program by [`MODELS`].
fn costs(program: &quincunx_tcu::program::Program) -> [u64; 2] {
    [estimate(program, false).aggregate.cycles, engines(program).total]
}

/// Cycles of a compiled program by [`MODELS`].
fn costs_of(compiled: &Compiled) -> Check<[u64; 2]> {
    let artifact = compiled.program.as_any().downcast_ref::<Artifact>();
    artifact.map(|artifact| costs(&artifact.package().program)).ok_or("not a program".to_owned())
}

/// The strategy in which upstream compiled a program.
fn strategy(case: &Value) -> Check<&'static str> {
    match text(case, "strategy") {
        "iso" => Ok("local-isolated"),
        "vars" => Ok("local-vars"),
        "consts" => Ok("local-consts"),
        "both" => Ok("local-vars-and-consts"),
        unknown => Err(format!("there is no strategy {unknown:?}")),
    }
}

/// A cell of the benchmark table: the program is legal and takes no more cycles than upstream's.
pub(super) fn cell(case: &Value, model: &Path) -> Check {
    let arch = arch(&case["arch"])?;
    let graph = read(model)?;
    let key = "upstream_measured_cycles_current_model";
    let recreated = "upstream_recreated_cycles_current_model";
    let upstream = number(case, key).or_else(|_| number(case, recreated))?;
    ["compat", "free"].into_iter().try_for_each(|rounding| {
        not_above(rounding, cycles(&compile(&graph, &arch, rounding, "auto")?), upstream)
    })
}

/// A network.
pub(super) fn read(model: &Path) -> Check<Graph> {
    let graph = read_onnx(folder::read(model)?.into(), &Default::default());
    graph.map_err(|problems| first(&problems))
}

/// A legal program of a network.
pub(super) fn compile(
    graph: &Graph,
    arch: &TcuArch,
    rounding: &str,
    strategy: &str,
) -> Check<Compiled> {
    let given = [("rounding", rounding), ("strategy", strategy)];
    let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let options = Options::new(TARGET.info().options, &given).map_err(|p| p.to_string())?;
    let compiled = TARGET.compile(graph, arch, &options, &mut Log::default());
    let compiled = compiled.map_err(|problem| format!("{rounding}: {}", problem.first()))?;
    let problems = compiled.program.verify();
    if any_error(&problems) {
        return Err(format!("the verifier rejects the {rounding} program: {}", first(&problems)));
    }
    Ok(compiled)
}

/// Cycles of a program as upstream adds them up.
pub(super) fn cycles(compiled: &Compiled) -> u64 {
    compiled.program.stats().cycles.unwrap_or(u64::MAX)
}

/// Fails when a program takes more cycles than upstream's.
pub(super) fn not_above(rounding: &str, cycles: u64, upstream: u64) -> Check {
    if cycles <= upstream {
        return Ok(());
    }
    let above = cycles - upstream;
    Err(format!("{rounding}: {cycles} cycles, {above} more than upstream's {upstream}"))
}

/// What a program gives. Both simulators agree with the golden model at every value that can be
/// observed.
pub(super) fn judged(
    graph: &Graph,
    arch: &TcuArch,
    compiled: &Compiled,
    inputs: &Tensors,
) -> Check<Tensors> {
    let failed = |problem: Diagnostic| problem.to_string();
    let golden = TARGET.prepare(graph, arch, &compiled.numerics).map_err(failed)?;
    let golden = golden.run(inputs).map_err(failed)?;
    let mut outputs = Tensors::new();
    for engine in [Engine::Exec, Engine::Fast] {
        let mut machine = compiled.program.load(engine).map_err(failed)?;
        let traced = machine.run_traced(inputs).map_err(failed)?;
        outputs = machine.run(inputs).map_err(failed)?;
        equal("the number of outputs", outputs.len(), graph.outputs().len())?;
        for (name, found) in traced.iter().chain(&outputs) {
            let missing = || format!("the golden model has no value {name:?}");
            let expected = golden.get(name).ok_or_else(missing)?;
            let what = format!("{engine:?}: value {name:?} against the golden model");
            equal(&what, found.to_f64(), expected.to_f64())?;
        }
    }
    Ok(outputs)
}

/// A tensor `[N, C, ...]` from vectors: positions, each with its channels in whole vectors.
fn unpack(vectors: &[u8], shape: &[usize], arch: &TcuArch) -> Check<Tensor> {
    let &[batch, channels, ref space @ ..] = shape else {
        return Err(format!("no layout for {shape:?}"));
    };
    let (plane, lanes) = (space.iter().product::<usize>(), arch.lanes());
    let data_type = arch.data_type;
    let scalars: Vec<f64> = vectors
        .chunks(data_type.bytes())
        .map(|bytes| data_type.decode(data_type.read(bytes)))
        .collect();
    let width = channels.div_ceil(lanes) * lanes;
    equal("the size of an image", scalars.len(), batch * plane * width)?;
    let mut reals = Vec::with_capacity(batch * plane * channels);
    for n in 0..batch {
        for c in 0..channels {
            reals.extend((0..plane).map(|p| scalars[(n * plane + p) * width + c]));
        }
    }
    Tensor::from_vec(shape, reals).map_err(|problem| problem.to_string())
}
