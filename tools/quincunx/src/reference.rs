//! `run --compare`: what a run gave against arrays that someone else computed.

use crate::executable::{Executable, Trace, top1};
use crate::formats::Format;
use crate::numbers::{Contrast, Tolerance};
use crate::{InputFile, run};
use quincunx_diag::{Class, Diagnostic, Result, did_you_mean};
use quincunx_report::{Cell, Column, Report, Table};
use quincunx_tensor::{Tensor, Tensors, element_count, show_shape};
use std::collections::BTreeSet;

/// Default tolerance of numbers that the host computed in f32, in units of the largest number of
/// the expected array: sums of thousands of products in another order stay well below it.
const HOST_TOLERANCE: f64 = 1e-5;

/// One value of the network against its reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the value.
    pub value: String,
    /// Element type and shape that the run gave, over all images.
    pub found: String,
    /// Those of the reference.
    pub expected: String,
    /// What was allowed.
    pub tolerance: Tolerance,
    /// The difference; `None` when the shapes differ.
    pub contrast: Option<Contrast>,
    /// Images whose class is that of the reference; `None` for values that are not outputs.
    pub top1: Option<usize>,
}

impl Row {
    /// True when no element differs by more than the tolerance.
    pub fn agrees(&self) -> bool {
        self.contrast.as_ref().is_some_and(|contrast| contrast.mismatches == 0)
    }
}

/// A run against a reference.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// One row per value that both have, in the order in which the network computes them.
    pub rows: Vec<Row>,
    /// Images that were run.
    pub images: usize,
    /// Arrays of the reference that the run has not, and outputs without a reference.
    pub warnings: Vec<Diagnostic>,
}

/// Names of the arrays of a reference file.
///
/// # Errors
/// Those of reading arrays.
pub fn names(reference: &InputFile) -> Result<BTreeSet<String>> {
    let arrays = crate::data::read_arrays(reference).map_err(|p| p.name_file(&reference.name))?;
    Ok(arrays.into_keys().collect())
}

/// Compares the values of a run with the arrays of a reference file, stacked over the images as
/// [`run::outputs`] stacks them.
///
/// Without a tolerance, numbers of the machine and integers must be equal; numbers that the host
/// computed in floating point may differ by 1e-5 times the largest number of the reference array.
///
/// # Errors
/// `Q0634` when no array of the reference is a value of the run; those of reading arrays.
pub fn judge(
    reference: &InputFile,
    executable: &Executable,
    traces: &[Trace],
    tolerance: Option<Tolerance>,
) -> Result<Judgement> {
    let mut arrays =
        crate::data::read_arrays(reference).map_err(|p| p.name_file(&reference.name))?;
    let outputs = run::outputs(traces)?;
    let mut values = run::layers(traces)?;
    values.extend(outputs.clone());
    adopt_unnamed(&mut arrays, executable);
    if Format::of(&reference.name, &reference.bytes) == Some(Format::Csv) {
        stack_rows(&mut arrays, &values)?;
    }
    let order = order(executable, &values);
    let mut judgement = Judgement {
        rows: Vec::new(),
        images: traces.len(),
        warnings: unmatched(&arrays, &values, &outputs, reference, &order),
    };
    for name in order {
        let (Some(found), Some(expected)) = (values.get(&name), arrays.get(&name)) else {
            continue;
        };
        let on_machine = executable.is_of_machine(&name);
        let tolerance = tolerance.unwrap_or_else(|| default(found, expected, on_machine));
        let mut row = row(&name, found, expected, tolerance)?;
        if row.contrast.is_some() && outputs.contains_key(&name) {
            row.top1 = Some(same_classes(traces, &name, expected)?);
        }
        judgement.rows.push(row);
    }
    if judgement.rows.is_empty() {
        let known = self::order(executable, &values).join(", ");
        return Err(Diagnostic::invalid(
            "Q0634",
            "no array of the reference is a value of the run",
        )
        .help(format!("values are: {known}"))
        .in_file(&reference.name));
    }
    Ok(judgement)
}

/// The one array of a `.npy` file is the only output.
fn adopt_unnamed(arrays: &mut Tensors, executable: &Executable) {
    if let [output] = &executable.outputs[..]
        && let Some(array) = arrays.remove("")
    {
        arrays.insert(output.clone(), array);
    }
}

/// A CSV file has rows and nothing else: those of all images one after the other, as it is written.
fn stack_rows(arrays: &mut Tensors, values: &Tensors) -> Result<()> {
    for (name, array) in arrays {
        let Some(value) = values.get(name) else { continue };
        let same_rows = array.shape().last() == value.shape().last();
        if same_rows && element_count(array.shape()) == element_count(value.shape()) {
            *array = array.reshape(value.shape())?;
        }
    }
    Ok(())
}

/// Names of one side only.
fn unmatched(
    arrays: &Tensors,
    values: &Tensors,
    outputs: &Tensors,
    reference: &InputFile,
    known: &[String],
) -> Vec<Diagnostic> {
    let names = |tensors: &Tensors| tensors.keys().cloned().collect::<Vec<_>>();
    let warn = |message: String, name: &str, among: &[String]| {
        Diagnostic::warning("Q0635", message)
            .help_if(did_you_mean(name, among.iter().map(String::as_str)))
            .in_file(&reference.name)
    };
    let unknown = arrays.keys().filter(|name| !values.contains_key(*name)).map(|name| {
        let message = format!("array {name:?} is not a value of the run, so it is not compared");
        warn(message, name, known)
    });
    let missing = outputs.keys().filter(|name| !arrays.contains_key(*name)).map(|name| {
        warn(format!("there is no array for the output {name:?}"), name, &names(arrays))
    });
    unknown.chain(missing).collect()
}

/// The names in the order in which the network computes them.
fn order(executable: &Executable, values: &Tensors) -> Vec<String> {
    let mut names = executable.value_order();
    names.extend(values.keys().cloned());
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

fn default(found: &Tensor, expected: &Tensor, on_machine: bool) -> Tolerance {
    if on_machine || !found.dtype().is_float() {
        return Tolerance::EXACT;
    }
    let finite = expected.to_f64().into_iter().filter(|value| value.is_finite());
    let largest = finite.map(f64::abs).fold(0.0, f64::max);
    Tolerance { absolute: HOST_TOLERANCE * largest, relative: 0.0 }
}

fn row(name: &str, found: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Result<Row> {
    // One image may have the axis that counts images or not.
    let extents = |tensor: &Tensor| {
        let ones = tensor.shape().iter().take_while(|&&extent| extent == 1).count();
        tensor.shape()[ones..].to_vec()
    };
    let comparable = extents(found) == extents(expected);
    let contrast = comparable.then(|| Contrast::of(found, expected, tolerance)).transpose()?;
    let describe = |tensor: &Tensor| format!("{}{}", tensor.dtype(), show_shape(tensor.shape()));
    Ok(Row {
        value: name.to_owned(),
        found: describe(found),
        expected: describe(expected),
        tolerance,
        contrast,
        top1: None,
    })
}

/// Images whose largest output is at the same place as in the reference.
fn same_classes(traces: &[Trace], name: &str, expected: &Tensor) -> Result<usize> {
    let size = expected.len() / traces.len().max(1);
    let stacked = expected.reshape(&[traces.len(), size])?;
    let same = traces.iter().enumerate().filter(|(index, trace)| {
        trace.outputs.get(name).and_then(top1) == top1(&stacked.outer(*index))
    });
    Ok(same.count())
}

impl Judgement {
    /// True when every compared value agrees.
    pub fn agrees(&self) -> bool {
        self.rows.iter().all(Row::agrees)
    }

    /// The first value, in the order of computation, that differs.
    pub fn difference(&self) -> Option<Diagnostic> {
        let differing = self.rows.iter().filter(|row| !row.agrees()).count();
        let row = self.rows.iter().find(|row| !row.agrees())?;
        let what = match row.contrast.as_ref().and_then(|contrast| contrast.first.as_ref()) {
            Some(first) => {
                format!("element {:?} is {}, expected {}", first.index, first.found, first.expected)
            }
            None => format!("it is {}, expected {}", row.found, row.expected),
        };
        let of = self.rows.len();
        let message = format!("{differing} of {of} values differ, first {:?}: {what}", row.value);
        Some(Diagnostic::answer("Q0636", message))
    }

    /// The exit code: 1 when a value differs.
    pub fn exit_code(&self) -> u8 {
        if self.agrees() { 0 } else { Class::Answer.exit_code() }
    }

    /// A row per value.
    pub fn report(&self) -> Report {
        let mut columns =
            ["value", "status", "found", "expected", "tolerance"].map(Column::text).to_vec();
        columns.extend(Contrast::columns(["found_value", "expected_value"]));
        columns.push(Column::number("top1"));
        let measures = columns.len() - 6;
        let mut table = Table::new("rows", columns);
        for row in &self.rows {
            let status = match (&row.contrast, row.agrees()) {
                (None, _) => "shape",
                (_, true) => "same",
                (_, false) => "differs",
            };
            let mut cells: Vec<Cell> = vec![
                row.value.as_str().into(),
                status.into(),
                row.found.as_str().into(),
                row.expected.as_str().into(),
                row.tolerance.to_string().into(),
            ];
            match &row.contrast {
                Some(contrast) => cells.extend(contrast.cells()),
                None => cells.resize(5 + measures, Cell::Empty),
            }
            cells.push(
                row.top1.map_or(Cell::Empty, |same| {
                    Cell::Share(same as f64 / self.images.max(1) as f64)
                }),
            );
            table.push(cells);
        }
        Report::from(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_csv_file_are_those_of_all_images() {
        let tensor = |shape: &[usize]| {
            let count = element_count(shape).unwrap();
            Tensor::from_vec(shape, vec![0.0_f64; count]).unwrap()
        };
        let values = Tensors::from([("y".to_owned(), tensor(&[2, 3, 4]))]);
        let cases: [(&[usize], &[usize]); 3] =
            [(&[6, 4], &[2, 3, 4]), (&[4, 6], &[4, 6]), (&[3, 4], &[3, 4])];
        for (found, expected) in cases {
            let mut arrays = Tensors::from([("y".to_owned(), tensor(found))]);
            stack_rows(&mut arrays, &values).unwrap();
            assert_eq!(arrays["y"].shape(), expected);
        }
    }
}
