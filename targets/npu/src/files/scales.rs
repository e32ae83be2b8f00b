//! Quantisation scales: node name to record. Facts: `gemini` (`docs/bibliography.md`).

use super::Json;
use quincunx_diag::Problems;
use quincunx_report::Table;

/// Rules: `Q4072` for keys and types, `Q4074` for values.
pub(super) fn check(file: &Json, problems: &mut Problems) {
    for (name, record) in file.members().unwrap_or(&[]) {
        for key in ["input_dtype", "output_dtype"] {
            let known = record.get(key).is_some_and(is_dtype);
            problems.rule(known, "Q4072", || format!("{name} has no {key}"));
        }
        for key in ["input_scale", "output_scale"] {
            scale(name, key, record.get(key), problems);
        }
        for (key, other) in
            [("output_scale", "output_zero_point"), ("input_scale", "input_zero_point")]
        {
            let both = record.get(key).is_some() == record.get(other).is_some();
            problems.rule(both, "Q4072", || format!("{name} has only one of {key} and {other}"));
        }
        let weights = record.get("weight_scale");
        if weights.is_some() != record.get("weight_dtype").is_some() {
            problems
                .error("Q4072", format!("{name} has only one of weight_scale and weight_dtype"));
        }
        let weights = weights.and_then(Json::list);
        for weight in weights.unwrap_or(&[]) {
            scale(name, "weight_scale", Some(weight), problems);
        }
    }
}

/// A name, or a list of names.
fn is_dtype(value: &Json) -> bool {
    match value {
        Json::Text(_) => true,
        Json::List(list) => list.iter().all(|entry| entry.text().is_some()),
        _ => false,
    }
}

fn scale(name: &str, key: &str, value: Option<&Json>, problems: &mut Problems) {
    let Some(value) = value else { return };
    let right = match value {
        // An input that is not quantised has no scale.
        Json::List(list) => list.iter().all(|entry| match entry {
            Json::Null => true,
            entry => entry.real().is_some_and(|scale| scale > 0.0),
        }),
        value => value.real().is_some_and(|scale| scale > 0.0),
    };
    problems.rule(right, "Q4074", || format!("{key} of {name} is not positive"));
}

pub(super) fn tables(file: &Json) -> Vec<Table> {
    let records = file.members().unwrap_or(&[]);
    let with = |key: &str| records.iter().filter(|(_, record)| record.get(key).is_some()).count();
    let mut table = Table::properties("scales");
    table.property("records", records.len());
    table.property("with weights", with("weight_scale"));
    table.property("with output scale", with("output_scale"));
    vec![table]
}
