//! The page on models lists the operators that are read.

use quincunx_import::{supported_operators, supported_tensorflow_operators};
use std::fs;
use std::path::Path;

/// Longest line of a list.
const WIDTH: usize = 100;

/// Names in lines.
fn lines(names: &[&str]) -> String {
    let mut text = String::new();
    let mut length = 0;
    for (index, name) in names.iter().enumerate() {
        let last = index + 1 == names.len();
        let word = format!("`{name}`{}", if last { "." } else { "," });
        if length > 0 && length + 1 + word.len() > WIDTH {
            text += "\n";
            length = 0;
        } else if length > 0 {
            text += " ";
            length += 1;
        }
        length += word.len();
        text += &word;
    }
    text + "\n"
}

/// The page with the list between a mark and the next end replaced.
fn with_list(page: &str, mark: &str, names: &[&str]) -> String {
    let start = format!("<!-- {mark} -->\n");
    let (before, rest) = page.split_once(&start).expect("the page has the mark");
    let (_, after) = rest.split_once("<!-- end -->").expect("the list has an end");
    format!("{before}{start}{}<!-- end -->{after}", lines(names))
}

#[test]
fn the_page_on_models_lists_every_operator() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/models.md");
    let page = fs::read_to_string(&path).unwrap();
    let expected = with_list(&page, "onnx", &supported_operators());
    let expected = with_list(&expected, "tensorflow", &supported_tensorflow_operators());
    if std::env::var("QUINCUNX_BLESS").is_ok_and(|value| value == "1") {
        fs::write(&path, &expected).unwrap();
    } else {
        assert!(page == expected, "docs/models.md is out of date; QUINCUNX_BLESS=1 writes it anew");
    }
}
