//! The tables and figures of Cain's paper, made again: `quincunx bench scamp:paper`.
//!
//! What the paper says stands beside what is found here, under names that begin with `published`.
//! Searches are counted in nodes, where the paper measured seconds.
//!
//! Facts: `cain-paper` section 4 (`docs/bibliography.md`).

mod figures;
mod plot;
mod samples;
mod tables;

use crate::arch::ScampArch;
use quincunx_contract::OptionInfo;
use quincunx_contract::bench::{Row, Run, Suite};
use quincunx_diag::{Diagnostic, Result};
use std::path::Path;

/// Tables 1 and 2, the numbers of children, figures 3 and 4.
pub(crate) const SUITE: Suite = Suite {
    name: "paper",
    doc: "tables and figures of Cain's paper beside what is found here",
    options: &[
        OptionInfo::one_of(
            "only",
            "one of the tables and figures, or all",
            "all",
            &["all", "table1", "table2", "children", "fig3-left", "fig3-right", "fig4"],
        ),
        OptionInfo::whole(
            "samples",
            "random filters of each kind, the paper's number by default",
            "auto",
            1..=1000,
        )
        .or("auto"),
        OptionInfo::whole("nodes", "nodes of each search of a figure", "auto", 1..=1_000_000)
            .or("auto"),
        OptionInfo::text("out", "folder for a JSON file of each part and pictures of figures", ""),
    ],
    run: measure,
};

/// A table or figure.
struct Part {
    name: &'static str,
    make: fn(&Wishes<'_>) -> Result<Made>,
}

const PARTS: &[Part] = &[
    Part { name: "table1", make: tables::table1 },
    Part { name: "table2", make: tables::table2 },
    Part { name: "children", make: tables::children },
    Part { name: "fig3-left", make: figures::fig3_left },
    Part { name: "fig3-right", make: figures::fig3_right },
    Part { name: "fig4", make: figures::fig4 },
];

/// Rows, and a picture of them.
struct Made {
    rows: Vec<Row>,
    picture: Option<String>,
}

/// What is asked for.
struct Wishes<'a> {
    run: &'a Run,
    arch: ScampArch,
}

impl Wishes<'_> {
    /// Random filters, if not said otherwise.
    fn samples(&self, usual: usize) -> usize {
        self.run.options.whole_or("samples").unwrap_or(usual)
    }

    /// Nodes of a search, if not said otherwise.
    fn nodes(&self, usual: u64) -> u64 {
        self.run.options.whole_or("nodes").unwrap_or(usual)
    }
}

fn measure(run: &Run) -> Result<Vec<Row>> {
    let (only, out) = (run.options.get("only"), run.options.get("out"));
    let wishes = Wishes { run, arch: ScampArch::preset("scamp5")? };
    let mut rows = Vec::new();
    for part in PARTS.iter().filter(|part| ["all", part.name].contains(&only)) {
        let made = (part.make)(&wishes)?;
        if !out.is_empty() {
            write(Path::new(out), part.name, &made)?;
        }
        rows.extend(made.rows);
    }
    Ok(rows)
}

fn write(folder: &Path, name: &str, made: &Made) -> Result<()> {
    let row = |row: &Row| serde_json::json!({ "name": row.name, "metric": row.metric, "value": row.value, "unit": row.unit });
    let rows: Vec<serde_json::Value> = made.rows.iter().map(row).collect();
    let text = format!("{:#}\n", serde_json::Value::Array(rows));
    let picture = made.picture.iter().map(|picture| ("svg", picture.clone()));
    for (extension, text) in [("json", text)].into_iter().chain(picture) {
        let path = folder.join(format!("{name}.{extension}"));
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
        written.map_err(|error| {
            Diagnostic::system("Q5135", "write it", &error).in_file(path.to_string_lossy())
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_contract::Options;
    use std::num::NonZeroUsize;

    fn rows(given: &[(&str, &str)], threads: usize) -> Vec<Row> {
        let given: Vec<(String, String)> =
            given.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let options = Options::new(SUITE.options, &given).unwrap();
        let threads = NonZeroUsize::new(threads).unwrap();
        measure(&Run { threads, repeat: NonZeroUsize::MIN, options }).unwrap()
    }

    /// All figures, small: the same for one thread and two, and written as JSON and pictures.
    #[test]
    fn figures_are_made_again() {
        let folder = std::env::temp_dir().join(format!("quincunx-paper-{}", std::process::id()));
        let out = folder.to_str().unwrap();
        for part in ["fig3-left", "fig3-right", "fig4"] {
            let few = [("only", part), ("samples", "2"), ("nodes", "60")];
            let found = rows(&[&few[..], &[("out", out)]].concat(), 1);
            assert!(found.len() > 3, "{found:?}");
            assert_eq!(found, rows(&few, 2));
            let written = std::fs::read_to_string(folder.join(format!("{part}.json"))).unwrap();
            let written: serde_json::Value = serde_json::from_str(&written).unwrap();
            assert_eq!(written.as_array().unwrap().len(), found.len());
            let picture = std::fs::read_to_string(folder.join(format!("{part}.svg"))).unwrap();
            assert!(picture.starts_with("<svg") && picture.contains("polyline"));
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// The numbers of children are near to those of the paper, which stand beside them.
    #[test]
    fn children_of_analognet2() {
        let rows = rows(&[("only", "children")], 1);
        let values: Vec<f64> = rows.iter().map(|row| row.value).collect();
        let [all, own_all, near, own_near] = values[..] else { panic!("{rows:?}") };
        assert_eq!((all, near), (37_163.0, 239.0));
        assert!((own_all / all - 1.0).abs() < 0.01 && own_near < near, "{rows:?}");
    }
}
