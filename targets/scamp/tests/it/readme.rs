//! The table of expansions in the README is that of the code.

use quincunx_scamp::isa::TABLE;

/// The rows as the README has them.
fn table() -> String {
    let row = |row: &quincunx_isa::Row| {
        let form: String = row.syntax.chars().filter(|c| !"{}".contains(*c)).collect();
        format!("| `{}` | `{form}` | `{}` |\n", row.mnemonic, row.steps.join("; "))
    };
    TABLE.rows.iter().filter(|row| !row.steps.is_empty()).map(row).collect()
}

#[test]
fn the_readme_has_every_expansion() {
    let readme = include_str!("../../README.md");
    let table = table();
    assert!(readme.contains(&table), "expected\n{table}");
}
