//! Lists of filters (`kernels.json`): the neutral form of kernels, of which `FILE#ID` names one.

use super::kernel::{Kernel, KernelFile, MAX_DEPTH, Mode};
use super::places::at;
use quincunx_diag::{Diagnostic, SourceId, suggestion};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The fields that are used; others are for readers.
#[derive(Deserialize)]
struct Filters {
    filters: Vec<Filter>,
}

#[derive(Deserialize)]
struct Filter {
    id: String,
    kernels: Vec<Entry>,
    input_register: String,
}

#[derive(Deserialize)]
struct Entry {
    out: String,
    log2_scale: i32,
    coeffs: Vec<Vec<f64>>,
}

/// True for JSON that looks like such a list.
pub(crate) fn is_filter_list(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && ["\"filters\"", "\"kernels\"", "\"coeffs\""].iter().all(|word| text.contains(word))
}

/// The filters of a list, each with a name of its own.
fn parse(text: &str, source: SourceId) -> Result<Vec<Filter>, Diagnostic> {
    let list: Filters = serde_json::from_str(text).map_err(|error| {
        let place = at(text, error.line(), error.column(), source);
        let message = format!("not a list of filters, line {}: {error}", error.line());
        Diagnostic::invalid("Q5050", message).label(place, "")
    })?;
    let mut ids = BTreeSet::new();
    match list.filters.iter().find(|filter| !ids.insert(&filter.id)) {
        Some(Filter { id, .. }) => {
            let message = format!("two filters of the list are called {id:?}");
            Err(Diagnostic::invalid("Q5052", message))
        }
        None => Ok(list.filters),
    }
}

/// All filters of a list.
///
/// # Errors
/// `Q5050` for text that is no such list, `Q5052` for a value that no kernel has and a name that is
/// there twice.
pub(crate) fn read_filters(text: &str) -> Result<Vec<KernelFile>, Diagnostic> {
    parse(text, SourceId(0))?.into_iter().map(Filter::kernels).collect()
}

/// The filter of a list that `name` ends with, behind `#`.
///
/// # Errors
/// As [`read_filters`], and `Q5069` for a name that no filter has.
pub(super) fn read_filter(
    text: &str,
    name: &str,
    source: SourceId,
) -> Result<KernelFile, Diagnostic> {
    let filters = parse(text, source)?;
    let id = name.rsplit_once('#').map_or("", |(_, id)| id);
    let help = suggestion(id, "filters", filters.iter().map(|filter| filter.id.as_str()));
    let filter = filters.into_iter().find(|filter| filter.id == id).ok_or_else(|| {
        Diagnostic::invalid("Q5069", "one filter of the list is expected: FILE#ID").help(help)
    })?;
    filter.kernels()
}

impl Filter {
    fn kernels(self) -> Result<KernelFile, Diagnostic> {
        let mut kernels = BTreeMap::new();
        for Entry { out, log2_scale, coeffs } in self.kernels {
            if log2_scale.unsigned_abs() > MAX_DEPTH {
                let message = format!("`log2_scale` of {out}: {log2_scale} is beyond {MAX_DEPTH}");
                return Err(Diagnostic::invalid("Q5052", message));
            }
            let entries = |row: Vec<f64>| row.into_iter().map(|entry| vec![entry]).collect();
            if coeffs.iter().all(Vec::is_empty) {
                let message = format!("the kernel of {out} has no entry");
                return Err(Diagnostic::invalid("Q5052", message));
            }
            let array = coeffs.into_iter().map(entries).collect();
            let kernel = Kernel { array, scale: 1.0, depth: log2_scale };
            if kernels.insert(out.clone(), kernel).is_some() {
                let message = format!("two kernels of the filter {:?} go to {out}", self.id);
                return Err(Diagnostic::invalid("Q5052", message));
            }
        }
        if kernels.is_empty() {
            return Err(Diagnostic::invalid("Q5052", "the filter holds no kernel"));
        }
        Ok(KernelFile {
            name: self.id,
            mode: Mode::Analogue,
            kernels,
            inputs: vec![self.input_register],
            registers: Vec::new(),
            max_depth: MAX_DEPTH,
            max_error: 0.0,
            digital: None,
            settings: BTreeMap::new(),
            warnings: Vec::new(),
        })
    }
}
