//! Named arrays against named arrays.

use super::Settings;
use crate::numbers::Contrast;
use quincunx_diag::Result;
use quincunx_report::{Cell, Column, Table};
use quincunx_tensor::{Tensor, Tensors, show_shape};
use std::collections::BTreeSet;

/// A row per array, and whether all are the same. Two arrays are the same when type and shape are
/// and no number differs by more than the tolerance.
pub(super) fn table(a: &Tensors, b: &Tensors, settings: &Settings) -> Result<(bool, Table)> {
    let mut columns = ["array", "status", "a", "b"].map(Column::text).to_vec();
    let measures = Contrast::columns(["value_a", "value_b"]);
    let width = columns.len() + measures.len();
    columns.extend(measures);
    let mut table = Table::new("rows", columns);
    let mut all_same = true;
    for name in names(a, b, &settings.order) {
        let (a, b) = (a.get(name), b.get(name));
        let describe =
            |tensor: &Tensor| format!("{}{}", tensor.dtype(), show_shape(tensor.shape()));
        let contrast = match (a, b) {
            (Some(a), Some(b)) if a.shape() == b.shape() => {
                Some(Contrast::of(a, b, settings.tolerance)?)
            }
            _ => None,
        };
        let status = status(a, b, contrast.as_ref());
        all_same &= status == "same";
        let mut cells: Vec<Cell> =
            vec![name.into(), status.into(), a.map(describe).into(), b.map(describe).into()];
        cells.extend(contrast.iter().flat_map(Contrast::cells));
        cells.resize(width, Cell::Empty);
        table.push(cells);
    }
    Ok((all_same, table))
}

fn status(a: Option<&Tensor>, b: Option<&Tensor>, contrast: Option<&Contrast>) -> &'static str {
    match (a, b, contrast) {
        (None, _, _) => "only in b",
        (_, None, _) => "only in a",
        (_, _, None) => "shape",
        (_, _, Some(contrast)) if contrast.mismatches > 0 => "differs",
        (Some(a), Some(b), _) if a.dtype() != b.dtype() => "type",
        _ => "same",
    }
}

/// All names, those with a known order first.
fn names<'a>(a: &'a Tensors, b: &'a Tensors, order: &'a [String]) -> Vec<&'a str> {
    let all: BTreeSet<&str> = a.keys().chain(b.keys()).map(String::as_str).collect();
    let mut seen = BTreeSet::new();
    let ordered = order.iter().map(String::as_str).filter(|name| all.contains(name));
    let mut names: Vec<&str> = ordered.chain(all.iter().copied()).collect();
    names.retain(|name| seen.insert(*name));
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_report::{Format, Report};

    #[test]
    fn rows_follow_the_order_and_say_what_differs() {
        let f32s = |v: &[f32]| Tensor::from_vec(&[v.len()], v.to_vec()).unwrap();
        let i64s = Tensor::from_vec(&[1], vec![7_i64]).unwrap();
        let arrays = |entries: &[(&str, &Tensor)]| -> Tensors {
            entries.iter().map(|(name, tensor)| ((*name).to_owned(), (*tensor).clone())).collect()
        };
        let (one, two) = (f32s(&[1.0, 2.0]), f32s(&[1.0, 2.5]));
        let a = arrays(&[("z", &one), ("b", &one), ("t", &f32s(&[7.0])), ("only", &one)]);
        let b = arrays(&[("z", &two), ("b", &f32s(&[1.0])), ("t", &i64s), ("x", &one)]);
        let settings = Settings { order: vec!["z".into(), "none".into()], ..Settings::default() };
        let (same, rows) = table(&a, &b, &settings).unwrap();
        let csv = Report::from(rows).render(Format::Csv);
        let lines: Vec<&str> = csv.lines().skip(1).collect();
        assert!(!same);
        assert_eq!(
            lines,
            [
                "z,differs,f32[2],f32[2],2,1,[1],2,2.5,0.5,0.2",
                "b,shape,f32[2],f32[1],,,,,,,",
                "only,only in a,f32[2],,,,,,,,",
                "t,type,f32[1],i64[1],1,0,,,,0,0",
                "x,only in b,,f32[2],,,,,,,",
            ]
        );
        let close = Settings { tolerance: "0.5".parse().unwrap(), ..Settings::default() };
        let z = |tensor: &Tensor| arrays(&[("z", tensor)]);
        assert!(table(&z(&one), &z(&two), &close).unwrap().0);
    }
}
