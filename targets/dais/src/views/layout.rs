//! Places of items: a column for every level, rows where connections are short.

use super::picture::Picture;

/// Times that the columns are gone through, forwards and backwards.
const SWEEPS: usize = 6;

/// Column and row of every item, and rows of the highest column.
pub(super) struct Layout {
    pub(super) places: Vec<(usize, f64)>,
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// Every item goes to the column of its level. Within a column, items are sorted by the mean row
/// of their neighbours in the columns before, then in those behind, several times.
pub(super) fn layout(picture: &Picture) -> Layout {
    let count = picture.items.len();
    let mut columns: Vec<Vec<usize>> = Vec::new();
    for (index, item) in picture.items.iter().enumerate() {
        if columns.len() <= item.level {
            columns.resize(item.level + 1, Vec::new());
        }
        columns[item.level].push(index);
    }
    columns.retain(|column| !column.is_empty());
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    let (mut before, mut behind) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for &(from, to) in picture.edges.keys() {
        before[to].push(from);
        behind[from].push(to);
    }
    let mut row = vec![0.0; count];
    columns.iter().for_each(|column| spread(column, rows, &mut row));
    for sweep in 0..SWEEPS {
        let neighbours = if sweep % 2 == 0 { &before } else { &behind };
        let order: Box<dyn Iterator<Item = &mut Vec<usize>>> = match sweep % 2 {
            0 => Box::new(columns.iter_mut()),
            _ => Box::new(columns.iter_mut().rev()),
        };
        for column in order {
            let mean = |&index: &usize| {
                let near = &neighbours[index];
                if near.is_empty() {
                    return row[index];
                }
                near.iter().map(|&other: &usize| row[other]).sum::<f64>() / near.len() as f64
            };
            let mut keyed: Vec<(f64, usize)> = column.iter().map(|i| (mean(i), *i)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            *column = keyed.into_iter().map(|(_, index)| index).collect();
            spread(column, rows, &mut row);
        }
    }
    let mut places = vec![(0, 0.0); count];
    for (number, column) in columns.iter().enumerate() {
        column.iter().for_each(|&index| places[index] = (number, row[index]));
    }
    Layout { places, columns: columns.len(), rows }
}

/// Divides the height among the items of a column.
fn spread(column: &[usize], rows: usize, row: &mut [f64]) {
    let gap = rows as f64 / column.len() as f64;
    for (number, &index) in column.iter().enumerate() {
        row[index] = (number as f64 + 0.5) * gap;
    }
}
