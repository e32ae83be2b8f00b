//! The manual of a machine's instructions, from its table.

use crate::layout::Layout;
use crate::table::{Operand, Row, Table};
use quincunx_diag::{Diagnostic, Result, did_you_mean};
use serde_json::{Value, json};

/// Form of a manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManualFormat {
    /// For terminals.
    Text,
    /// For the book.
    Markdown,
    /// For machines.
    Json,
}

impl Table {
    /// The manual of one mnemonic, or of all instructions. With a layout it also says where each
    /// field lies.
    ///
    /// # Errors
    /// `Q2102` for an unknown mnemonic.
    pub fn manual(
        &self,
        mnemonic: Option<&str>,
        layout: Option<&Layout>,
        format: ManualFormat,
    ) -> Result<String> {
        let rows: Vec<&Row> = match mnemonic {
            None => self.rows.iter().collect(),
            Some(name) => self.rows_called(name),
        };
        if let (true, Some(name)) = (rows.is_empty(), mnemonic) {
            let message =
                format!("{} has no instruction \"{}\"", self.machine, name.escape_debug());
            let known = format!("the instructions are {}", self.mnemonics().join(", "));
            return Err(Diagnostic::usage("Q2102", message)
                .with_note(known)
                .help_if(did_you_mean(name, self.mnemonics())));
        }
        Ok(match format {
            ManualFormat::Text => rows.iter().map(|row| self.row_text(row, layout)).collect(),
            ManualFormat::Markdown => {
                rows.iter().map(|row| self.row_markdown(row, layout)).collect()
            }
            ManualFormat::Json => self.json(&rows, layout),
        })
    }

    /// The rows with this mnemonic, or with the part before its first dot: `bits.not` is a form of
    /// `bits`.
    fn rows_called(&self, name: &str) -> Vec<&Row> {
        let rows = |name: &str| -> Vec<&Row> {
            self.rows.iter().filter(|row| row.mnemonic == name).collect()
        };
        match (rows(name), name.split_once('.')) {
            (found, Some((stem, _))) if found.is_empty() => rows(stem),
            (found, _) => found,
        }
    }

    fn row_text(&self, row: &Row, layout: Option<&Layout>) -> String {
        let mut text = format!("{}\n", row.form());
        for line in row.doc {
            text += &format!("    {}\n", line.trim());
        }
        for operand in row.operands {
            text += &format!("    {:<12} {}", operand.name, values(operand));
            text +=
                &operand.doc.iter().map(|line| format!("; {}", line.trim())).collect::<String>();
            text += "\n";
        }
        if self.has_code() {
            text += &format!("    encoding     {}\n", encoding(row, layout));
        }
        text + "\n"
    }

    fn row_markdown(&self, row: &Row, layout: Option<&Layout>) -> String {
        let mut text = format!("### `{}`\n\n", row.form());
        for line in row.doc {
            text += &format!("{}\n", line.trim());
        }
        if !row.operands.is_empty() {
            text += "\n| operand | values | meaning |\n|---|---|---|\n";
        }
        for operand in row.operands {
            let doc: Vec<&str> = operand.doc.iter().map(|line| line.trim()).collect();
            let values = values(operand).replace('|', "\\|");
            text += &format!("| `{}` | {values} | {} |\n", operand.name, doc.join(" "));
        }
        if self.has_code() {
            text += &format!("\nEncoding: {}.\n", encoding(row, layout));
        }
        text + "\n"
    }

    /// The allowed values of an operand: what the layout says, else what the row says.
    fn range(&self, row: &Row, operand: &Operand, layout: Option<&Layout>) -> Option<(i128, i128)> {
        let of_layout = || {
            let index = self.rows.iter().position(|other| std::ptr::eq(other, row))?;
            let position = row.operands.iter().position(|other| std::ptr::eq(other, operand))?;
            layout?.range(index, position)
        };
        of_layout().or(operand.range)
    }

    fn json(&self, rows: &[&Row], layout: Option<&Layout>) -> String {
        let join = |lines: &[&str]| lines.iter().map(|l| l.trim()).collect::<Vec<_>>().join(" ");
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| {
                let operands: Vec<Value> = row
                    .operands
                    .iter()
                    .map(|o| {
                        json!({
                            "name": o.name,
                            "values": o.kind.describe(),
                            "range": self.range(row, o, layout)
                                .map(|(low, high)| [low.to_string(), high.to_string()]),
                            "default": o.default.map(|value| value.to_string()),
                            "field": o.field,
                            "doc": join(o.doc),
                        })
                    })
                    .collect();
                json!({
                    "name": row.name,
                    "mnemonic": row.mnemonic,
                    "syntax": row.form(),
                    "doc": join(row.doc),
                    "operands": operands,
                    "fields": fields(row, layout),
                    "encoding": encoding(row, layout),
                })
            })
            .collect();
        let manual = json!({ "schema": 1, "machine": self.machine, "instructions": rows });
        format!("{manual:#}\n")
    }
}

/// Kind, allowed range and default of an operand, in words.
fn values(operand: &Operand) -> String {
    let mut text = operand.kind.describe();
    if let Some((low, high)) = operand.range {
        text += &format!(", {low} to {high}");
    }
    if let Some(default) = operand.default {
        text += &format!(" ({default} if absent)");
    }
    text
}

/// The fields of the encoding: the fixed ones have a `value`, the others the name of their
/// `operand`; `bits` are pieces `[lowest, width]` when the layout is known.
fn fields(row: &Row, layout: Option<&Layout>) -> Vec<Value> {
    let bits = |field: &str| layout.and_then(|layout| layout.pieces(field)).map(<[_]>::to_vec);
    let fixed = row.matches.iter().map(
        |(field, value)| json!({ "field": field, "value": value.to_string(), "bits": bits(field) }),
    );
    let stored = row.operands.iter().filter_map(|operand| {
        let field = operand.field?;
        Some(json!({ "field": field, "operand": operand.name, "bits": bits(field) }))
    });
    fixed.chain(stored).collect()
}

/// The fixed fields with their values, then the fields of the operands.
fn encoding(row: &Row, layout: Option<&Layout>) -> String {
    let place = |field: &str| {
        let pieces = layout.and_then(|layout| layout.pieces(field)).unwrap_or(&[]);
        let bits = |&(at, width): &(u32, u32)| match width {
            0 => "no bits".to_owned(),
            1 => at.to_string(),
            _ => format!("{}:{at}", at + width - 1),
        };
        let pieces: Vec<String> = pieces.iter().map(bits).collect();
        if pieces.is_empty() { String::new() } else { format!(" [{}]", pieces.join(", ")) }
    };
    let fixed =
        row.matches.iter().map(|(field, value)| format!("{field}{} = {value}", place(field)));
    let stored = row.operands.iter().filter_map(|operand| {
        let field = operand.field?;
        Some(format!("{field}{} = {}", place(field), operand.name))
    });
    fixed.chain(stored).collect::<Vec<_>>().join(", ")
}
