//! `diff`.

use crate::args::TextOutput;
use crate::console::Console;
use crate::input;
use crate::output;
use clap::Args;
use quincunx::diag::Result;
use quincunx::diff::{Settings, Side, diff, value_order};
use quincunx::report::Heading;
use quincunx::target::folder::Folder;
use quincunx::{Outcome, Tolerance, targets};
use std::path::{Path, PathBuf};

/// Show what differs between two files or program folders of one kind
///
/// Text and assembly text: a unified diff of lines. Machine code and other native files: the
/// same of their assembly text. Models: the same of their text form, and a row per constant. Arrays
/// (.npy, .npz): a row per array. JSON: the paths whose values differ. Program folders: what their
/// descriptions say differently, and the text of the programs that differ.
///
/// Exits with 1 when something differs.
#[derive(Args)]
pub(crate) struct Diff {
    /// File or program folder
    a: PathBuf,
    /// File or program folder
    b: PathBuf,
    /// How far numbers of arrays and JSON may differ: ABS + REL * |B| [default: 0]
    #[arg(long, value_name = "ABS[,REL]", default_value = "0", hide_default_value = true)]
    tolerance: Tolerance,
    /// Equal lines to show around lines that differ
    #[arg(short = 'U', long, value_name = "LINES", default_value = "3")]
    context: usize,
    /// List arrays in the order in which this model or program folder computes them, so that the
    /// first difference is where two traces part
    #[arg(long, value_name = "FILE|FOLDER")]
    order: Option<PathBuf>,
    #[command(flatten)]
    output: TextOutput,
}

impl Diff {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        output::expect(&self.output.output)?;
        let (a, b) = (side(&self.a)?, side(&self.b)?);
        let order = match &self.order {
            Some(path) => value_order(&side(path)?, targets())?,
            None => Vec::new(),
        };
        let settings = Settings { tolerance: self.tolerance, context: self.context, order };
        let difference = diff(&a, &b, targets(), &settings)?;
        let heading = Heading::new("Difference").of(format!(
            "{} and {}",
            input::subject(std::slice::from_ref(&self.a)),
            input::subject(std::slice::from_ref(&self.b))
        ));
        let report = difference.report(console.format).headed(heading);
        console.report(&report, self.output.output.as_deref())?;
        Ok(difference.exit_code())
    }
}

fn side(path: &Path) -> Result<Side> {
    match path.is_dir() {
        true => {
            output::reads(Folder::files_at(path).iter().map(PathBuf::as_path))?;
            Ok(Side::Folder(path.to_owned()))
        }
        false => input::open(path).map(Side::File),
    }
}
