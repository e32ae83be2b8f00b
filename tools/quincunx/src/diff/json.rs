//! JSON against JSON: paths whose values differ.

use crate::numbers::Tolerance;
use quincunx_report::{Cell, Column, Table};
use serde_json::Value;
use std::collections::BTreeSet;

/// Most values that differ which are kept; all are counted.
const MAX_CHANGES: usize = 10_000;

/// Characters of a value that people see.
const SHOWN: usize = 60;

/// A value that differs; `None` where it is absent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    /// Keys and indices, each after a `/`, escaped as in a JSON Pointer (RFC 6901).
    path: String,
    a: Option<Value>,
    b: Option<Value>,
}

/// The values that differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Changes {
    /// The first of them, in the order of their paths.
    pub(super) shown: Vec<Change>,
    /// How many there are.
    pub(super) count: usize,
}

impl Changes {
    fn add(&mut self, path: String, a: Option<&Value>, b: Option<&Value>) {
        self.count += 1;
        if self.shown.len() < MAX_CHANGES {
            self.shown.push(Change { path, a: a.cloned(), b: b.cloned() });
        }
    }
}

/// The values that differ. Numbers may differ by the tolerance.
pub(super) fn changes(a: &Value, b: &Value, tolerance: Tolerance) -> Changes {
    let mut found = Changes::default();
    walk(String::new(), Some(a), Some(b), tolerance, &mut found);
    found
}

fn walk(
    path: String,
    a: Option<&Value>,
    b: Option<&Value>,
    tolerance: Tolerance,
    found: &mut Changes,
) {
    match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                walk(path, a.get(key), b.get(key), tolerance, found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                let path = format!("{path}/{index}");
                walk(path, a.get(index), b.get(index), tolerance, found);
            }
        }
        (Some(a), Some(b)) if equal(a, b, tolerance) => {}
        (a, b) => found.add(path, a, b),
    }
}

fn equal(a: &Value, b: &Value, tolerance: Tolerance) -> bool {
    let near = || tolerance.near(a.as_f64()?, b.as_f64()?).then_some(());
    a == b || tolerance != Tolerance::EXACT && near().is_some()
}

pub(super) fn table(changes: &[Change], cut: bool) -> Table {
    let mut table = Table::new("rows", ["path", "a", "b"].map(Column::text).to_vec());
    let cell = |value: &Option<Value>| match value {
        None => Cell::Empty,
        Some(value) if cut => shorten(value.to_string()).into(),
        Some(value) => value.to_string().into(),
    };
    for change in changes {
        table.push(vec![change.path.as_str().into(), cell(&change.a), cell(&change.b)]);
    }
    table
}

fn shorten(text: String) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(a: &Value, b: &Value, tolerance: &str) -> Vec<String> {
        changes(a, b, tolerance.parse().unwrap())
            .shown
            .into_iter()
            .map(|change| change.path)
            .collect()
    }

    #[test]
    fn paths_are_pointers() {
        let a = json!({"a/b": {"~": 1}, "list": [1, 2, 3], "same": null, "gone": 1});
        let b = json!({"a/b": {"~": 2}, "list": [1, 5], "same": null, "kind": {}});
        assert_eq!(paths(&a, &b, "0"), ["/a~1b/~0", "/gone", "/kind", "/list/1", "/list/2"]);
        assert_eq!(paths(&json!([]), &json!({}), "0"), [""]);
        assert!(paths(&a, &a, "0").is_empty());
        for (path, value) in [("/list/1", json!(2)), ("/a~1b/~0", json!(1))] {
            assert_eq!(a.pointer(path), Some(&value));
        }
    }

    #[test]
    fn numbers_have_a_tolerance_and_words_have_none() {
        assert!(paths(&json!(1.0), &json!(1.25), "0.25").is_empty());
        assert_eq!(paths(&json!(1.0), &json!(1.5), "0.25").len(), 1);
        assert_eq!(paths(&json!(1), &json!("1"), "9").len(), 1);
        assert_eq!(
            paths(&json!(9_007_199_254_740_993_u64), &json!(9_007_199_254_740_992_u64), "0").len(),
            1
        );
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        assert_eq!(shorten("é".repeat(61)).chars().count(), 61);
        assert_eq!(shorten("é".repeat(60)), "é".repeat(60));
    }

    #[test]
    fn all_changes_are_counted_and_some_kept() {
        let (a, b): (Vec<u32>, Vec<u32>) = ((0..20_000).collect(), (1..20_001).collect());
        let found = changes(&json!(a), &json!(b), Tolerance::EXACT);
        assert_eq!((found.count, found.shown.len()), (20_000, MAX_CHANGES));
    }
}
