//! Files of a machine's ecosystem that are not programs.

use quincunx_diag::Diagnostic;
use quincunx_report::Table;

/// What such a file holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// What it is, in words: `scheduler IR`.
    pub kind: String,
    /// Numbers about it, and its contents.
    pub tables: Vec<Table>,
    /// Key and text of what is not a table.
    pub texts: Vec<(String, String)>,
    /// Rules of its format that it breaks, and warnings.
    pub problems: Vec<Diagnostic>,
}
