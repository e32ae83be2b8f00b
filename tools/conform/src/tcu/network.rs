//! Whole networks: what they give in the machine's arithmetic, and what our programs of them give.

use super::{Check, arch, equal, hex, number, ours, random::Pcg64, text};
use quincunx_contract::{Compiler, Numerics};
use quincunx_diag::Diagnostic;
use quincunx_tcu::{TARGET, TcuArch};
use quincunx_tensor::{Tensor, Tensors};
use serde_json::{Value, json};
use std::path::Path;

/// How the cases state their input.
const INPUT_RULE: &str = "numpy PCG64(";

/// A network with one input and one output, `[1, C]`.
pub(super) fn check(case: &Value, model: &Path) -> Check {
    let arch = arch(&case["arch"])?;
    let graph = ours::read(model)?;
    let [input] = graph.inputs() else { return Err("expected one input".to_owned()) };
    let inputs = Tensors::from([(
        graph[*input].name.clone(),
        random_input(text(case, "input"), &graph[*input].shape)?,
    )]);
    let failed = |problem: Diagnostic| problem.to_string();
    let compat = Numerics(json!({
        "data_type": arch.data_type, "lanes": arch.array_size, "rounding": "compat",
    }));
    let golden = TARGET.prepare(&graph, &arch, &compat).map_err(failed)?;
    let golden = golden.run(&inputs).map_err(failed)?;
    same_output("the golden model", case, &arch, &golden)?;
    let compiled = ours::compile(&graph, &arch, "compat", "auto")?;
    let found = ours::judged(&graph, &arch, &compiled, &inputs)?;
    same_output("the program", case, &arch, &found)?;
    let upstream = number(case, "aggregate_cycles")?;
    ours::not_above("compat", ours::cycles(&compiled), upstream)?;
    let free = ours::compile(&graph, &arch, "free", "auto")?;
    ours::judged(&graph, &arch, &free, &inputs)?;
    ours::not_above("free", ours::cycles(&free), upstream)
}

/// Numbers of `numpy PCG64(SEED).uniform(-1,1,SHAPE) float32`, rounded to multiples of 1/256.
fn random_input(rule: &str, shape: &[usize]) -> Check<Tensor> {
    let unknown = || format!("the rule of the input is unknown: {rule:?}");
    let (seed, rest) = rule
        .strip_prefix(INPUT_RULE)
        .and_then(|rest| rest.split_once(").uniform(-1,1,("))
        .ok_or_else(unknown)?;
    let (extents, rest) =
        rest.split_once(")) float32, then round(x*256)/256").ok_or_else(unknown)?;
    if !rest.is_empty() && !rest.starts_with(';') {
        return Err(unknown());
    }
    let extents: Result<Vec<usize>, _> = extents.split(',').map(str::parse).collect();
    equal("the shape of the input", &extents.map_err(|_| unknown())?[..], shape)?;
    let mut random = Pcg64::new(seed.parse().map_err(|_| unknown())?);
    let draw = |_| {
        let number = random.uniform(-1.0, 1.0) as f32;
        (number * 256.0).round_ties_even() / 256.0
    };
    let numbers: Vec<f32> = (0..shape.iter().product()).map(draw).collect();
    Tensor::from_vec(shape, numbers).map_err(|problem| problem.to_string())
}

/// The output is that of the case, scalar for scalar.
fn same_output(whose: &str, case: &Value, arch: &TcuArch, found: &Tensors) -> Check {
    let name = text(case, "output_name");
    let found = found.get(name).ok_or_else(|| format!("{whose} has no output {name:?}"))?;
    let found = found.to_f64();
    let bytes = hex(&case["output_hex"])?;
    let scalars = bytes.chunks(arch.data_type.bytes()).map(|bytes| arch.data_type.read(bytes));
    let expected: Vec<f64> = scalars.map(|scalar| arch.data_type.decode(scalar)).collect();
    let (expected, padding) = expected.split_at_checked(found.len()).ok_or("too few outputs")?;
    equal("what pads the outputs", padding.iter().any(|&number| number != 0.0), false)?;
    equal(&format!("the output of {whose}"), &found[..], expected)
}
