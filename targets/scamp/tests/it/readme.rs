//! The table of expansions in the README is that of the code.

use quincunx_scamp::expand::EXPANSIONS;
use quincunx_scamp::isa::TABLE;

/// The rows as the README has them.
fn table() -> String {
    let row = |&(name, steps): &(&str, &[&str])| {
        let row = TABLE.rows.iter().find(|row| row.name == name).unwrap();
        let form: String = row.syntax.chars().filter(|c| !"{}".contains(*c)).collect();
        format!("| `{}` | `{form}` | `{}` |\n", row.mnemonic, steps.join("; "))
    };
    EXPANSIONS.iter().map(row).collect()
}

#[test]
fn the_readme_has_every_expansion() {
    let readme = include_str!("../../README.md");
    let table = table();
    assert!(readme.contains(&table), "expected\n{table}");
}
