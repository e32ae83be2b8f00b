//! `run`: a program on inputs.

use crate::executable::{Executable, Trace, top1};
use crate::{Dataset, Progress, parallel};
use quincunx_diag::Result;
use quincunx_report::{Cell, Column, Table};
use quincunx_tensor::{Tensor, Tensors};
use std::num::NonZeroUsize;

/// Numbers of an output that the table shows.
const SHOWN: usize = 10;

/// Runs every image, in order. With `layers`, traces have every value that can be observed.
///
/// # Errors
/// The first image that cannot be run.
pub fn run(
    executable: &Executable,
    data: &Dataset,
    layers: bool,
    threads: NonZeroUsize,
    progress: &dyn Progress,
) -> Result<Vec<Trace>> {
    progress.start("simulate", data.images.len());
    parallel::map(
        data.images.len(),
        threads,
        || executable.load(),
        |session, index| {
            let image = &data.images[index];
            let trace = if layers { session.run_traced(image)? } else { session.run(image)? };
            progress.step();
            Ok(trace)
        },
    )
}

/// The outputs of all images, stacked along the outermost axis.
///
/// # Errors
/// Images whose outputs differ in shape, which no program gives.
pub fn outputs(traces: &[Trace]) -> Result<Tensors> {
    stack(traces, |trace| &trace.outputs)
}

/// The observed values of all images, stacked along the outermost axis.
///
/// # Errors
/// As [`outputs`].
pub fn layers(traces: &[Trace]) -> Result<Tensors> {
    stack(traces, |trace| &trace.device)
}

fn stack(traces: &[Trace], of: impl Fn(&Trace) -> &Tensors) -> Result<Tensors> {
    let Some(first) = traces.first().map(&of) else { return Ok(Tensors::new()) };
    if traces.len() == 1 {
        return Ok(first.clone());
    }
    let stacked = first.iter().map(|(name, tensor)| {
        let mut parts: Vec<Tensor> =
            traces.iter().filter_map(|trace| of(trace).get(name).cloned()).collect();
        if tensor.shape().first() != Some(&1) {
            let shape: Vec<usize> = [1].iter().chain(tensor.shape()).copied().collect();
            parts = parts.iter().map(|part| part.reshape(&shape)).collect::<Result<_>>()?;
        }
        Ok((name.clone(), Tensor::concat_outer(&parts)?))
    });
    stacked.collect()
}

/// One row per image and output.
pub fn table(traces: &[Trace]) -> Table {
    let mut table = Table::new(
        "rows",
        vec![
            Column::number("image"),
            Column::text("output"),
            Column::text("type"),
            Column::text("shape"),
            Column::number("top1"),
            Column::text("values"),
        ],
    );
    for (image, trace) in traces.iter().enumerate() {
        for (name, tensor) in &trace.outputs {
            table.push(vec![
                image.into(),
                name.as_str().into(),
                tensor.dtype().name().into(),
                format!("{:?}", tensor.shape()).into(),
                top1(tensor).map_or(Cell::Empty, Cell::from),
                first_values(tensor).into(),
            ]);
        }
    }
    table
}

/// The first numbers, and a sign that there are more.
pub(crate) fn first_values(tensor: &Tensor) -> String {
    let values = tensor.to_f64();
    let mut text: Vec<String> = values.iter().take(SHOWN).map(|v| number(*v)).collect();
    if values.len() > SHOWN {
        text.push("…".to_owned());
    }
    text.join(" ")
}

/// The number itself when it is short, else rounded to five digits.
fn number(value: f64) -> String {
    let whole = value.to_string();
    match value.abs() {
        _ if whole.len() <= 8 => whole,
        0.001..1e6 => format!("{value:.4}"),
        _ => format!("{value:.4e}"),
    }
}
