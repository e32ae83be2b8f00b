//! Which rows a test has reached.

use crate::table::Table;

/// Counts how often each row of a table was used, so that a test can demand that all were.
#[derive(Clone, Debug)]
pub struct Coverage {
    table: &'static Table,
    counts: Vec<u64>,
}

impl Coverage {
    /// Nothing used yet.
    pub fn new(table: &'static Table) -> Coverage {
        Coverage { table, counts: vec![0; table.rows.len()] }
    }

    /// Notes one use of a row. Rows that do not exist are ignored.
    pub fn mark(&mut self, row: usize) {
        if let Some(count) = self.counts.get_mut(row) {
            *count += 1;
        }
    }

    /// How often a row was used.
    pub fn count(&self, row: usize) -> u64 {
        self.counts.get(row).copied().unwrap_or(0)
    }

    /// Names of the rows that were never used.
    pub fn missing(&self) -> Vec<&'static str> {
        let unused = |(row, _): &(_, &u64)| self.counts[*row] == 0;
        self.counts
            .iter()
            .enumerate()
            .filter(unused)
            .map(|(row, _)| self.table.rows[row].name)
            .collect()
    }
}
