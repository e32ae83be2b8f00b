//! Texts of reports to numbers. Facts: `vendor-reports` (`docs/bibliography.md`). Only the lines that
//! are looked for matter, so that versions may differ in all others.

use quincunx_diag::{Diagnostic, Result};

/// Longest report that is read, in bytes.
pub const MAX_LENGTH: usize = 1 << 26;

/// Longest name of a design that is kept.
const MAX_NAME: usize = 256;

/// Who wrote a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Vivado of AMD.
    Vivado,
    /// Quartus of Intel.
    Quartus,
}

impl Tool {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Vivado => "Vivado",
            Tool::Quartus => "Quartus",
        }
    }
}

/// What a report says; absent what it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// LUTs.
    pub lut: Option<f64>,
    /// Adaptive logic modules of Intel.
    pub alm: Option<f64>,
    /// Flip-flops.
    pub ff: Option<f64>,
    /// Multiplier blocks.
    pub dsp: Option<f64>,
    /// Memory blocks; halves of one count half.
    pub bram: Option<f64>,
    /// Highest clock frequency in MHz.
    pub fmax: Option<f64>,
    /// Worst slack of setup in ns; below 0 the clock is missed.
    pub wns: Option<f64>,
}

/// A report.
#[derive(Clone, Debug, PartialEq)]
pub struct VendorReport {
    /// Its file.
    pub file: String,
    /// Who wrote it.
    pub tool: Tool,
    /// The design, if it is named.
    pub design: Option<String>,
    /// The numbers.
    pub figures: Figures,
}

/// The kinds of reports, by names of files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Utilisation,
    Timing,
    Fitter,
    TimingAnalyser,
}

fn kind_of(name: &str) -> Option<Kind> {
    let name = name.to_ascii_lowercase();
    if name.ends_with(".fit.rpt") || name.ends_with(".fit.summary") {
        return Some(Kind::Fitter);
    }
    if name.ends_with(".sta.rpt") {
        return Some(Kind::TimingAnalyser);
    }
    let stem = name.strip_suffix(".rpt")?;
    match (stem.contains("utilization"), stem.contains("timing")) {
        (true, _) => Some(Kind::Utilisation),
        (false, true) => Some(Kind::Timing),
        _ => None,
    }
}

/// True for names of reports: `*utilization*.rpt` and `*timing*.rpt` of Vivado, `*.fit.rpt`,
/// `*.fit.summary` and `*.sta.rpt` of Quartus.
pub fn is_report(name: &str) -> bool {
    kind_of(name).is_some()
}

/// A report from its name and bytes.
///
/// # Errors
/// `Q0664` when it is too long, has none of the figures that its name promises, or a number cannot
/// be read.
pub fn parse(name: &str, bytes: &[u8]) -> Result<VendorReport> {
    let refuse = |message: String| {
        let help = "give reports as the tool has written them, or leave the file out of the folder";
        Err(Diagnostic::invalid("Q0664", message).in_file(name).help(help))
    };
    if bytes.len() > MAX_LENGTH {
        return refuse(format!("a report is longer than {} MiB", MAX_LENGTH >> 20));
    }
    let Some(kind) = kind_of(name) else {
        return refuse("the name is not that of a report of Vivado or Quartus".to_owned());
    };
    let text = String::from_utf8_lossy(bytes);
    let mut found = Found { file: name, design: None, figures: Figures::default() };
    match kind {
        Kind::Utilisation => found.lines(&text, utilisation)?,
        Kind::Timing => found.vivado_timing(&text)?,
        Kind::Fitter => found.lines(&text, fitter)?,
        Kind::TimingAnalyser => found.quartus_timing(&text)?,
    }
    if found.figures == Figures::default() {
        let what = match kind {
            Kind::Utilisation | Kind::Fitter => "it does not say what the design takes",
            Kind::Timing | Kind::TimingAnalyser => "it says nothing of slack or frequency",
        };
        return refuse(what.to_owned());
    }
    let tool = match kind {
        Kind::Utilisation | Kind::Timing => Tool::Vivado,
        Kind::Fitter | Kind::TimingAnalyser => Tool::Quartus,
    };
    let Found { design, figures, .. } = found;
    Ok(VendorReport { file: name.to_owned(), tool, design, figures })
}

/// A figure of a report.
type Field = fn(&mut Figures) -> &mut Option<f64>;

/// The figure of a name in reports of what a design takes.
type Names = fn(&str) -> Option<Field>;

/// Rows of Vivado: those of parts with slices, of parts with CLBs, and of Versal.
fn utilisation(name: &str) -> Option<Field> {
    // A star leads to a footnote.
    match name.trim_end_matches('*') {
        "Slice LUTs" | "CLB LUTs" => Some(|figures| &mut figures.lut),
        "Slice Registers" | "CLB Registers" | "Registers" => Some(|figures| &mut figures.ff),
        "DSPs" | "DSP Slices" => Some(|figures| &mut figures.dsp),
        "Block RAM Tile" => Some(|figures| &mut figures.bram),
        _ => None,
    }
}

/// Rows of Quartus: of parts with ALMs, and of those with logic elements.
fn fitter(name: &str) -> Option<Field> {
    match name {
        "Logic utilization (in ALMs)" => Some(|figures| &mut figures.alm),
        "Total combinational functions" | "Combinational ALUT usage for logic" => {
            Some(|figures| &mut figures.lut)
        }
        "Total registers" => Some(|figures| &mut figures.ff),
        "Total DSP Blocks" | "Embedded Multiplier 9-bit elements" => {
            Some(|figures| &mut figures.dsp)
        }
        "Total RAM Blocks" => Some(|figures| &mut figures.bram),
        _ => None,
    }
}

/// What was found so far in a file.
struct Found<'a> {
    file: &'a str,
    design: Option<String>,
    figures: Figures,
}

impl Found<'_> {
    /// A number at the beginning of a text, such as `1,234 / 427,200 ( < 1 % )` or `312.5 MHz`.
    fn number(&self, text: &str, line: usize) -> Result<f64> {
        let word = text.split([' ', '/']).next().unwrap_or_default().replace(',', "");
        let number = word.parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| {
            let found: String = text.chars().take(40).collect();
            let message = format!("expected a number, found {found:?}");
            Diagnostic::invalid("Q0664", message)
                .in_file(format!("{}:{line}", self.file))
                .help("give reports as the tool has written them")
        })
    }

    /// Rows of a name and a number; the first of a name counts, which is that of the whole design.
    fn lines(&mut self, text: &str, names: Names) -> Result<()> {
        for (line, cells) in rows(text) {
            let [name, value, ..] = &cells[..] else { continue };
            self.take_design(name, value);
            let Some(field) = names(name) else { continue };
            if field(&mut self.figures).is_none() {
                *field(&mut self.figures) = Some(self.number(value, line)?);
            }
        }
        Ok(())
    }

    fn take_design(&mut self, name: &str, value: &str) {
        if ["Design", "Top-level Entity Name"].contains(&name) && self.design.is_none() {
            self.design = Some(value.chars().take(MAX_NAME).collect());
        }
    }

    /// The worst slack from the summary of the design; the frequency from that and the period, where
    /// there is one clock.
    fn vivado_timing(&mut self, text: &str) -> Result<()> {
        let mut lines = text.lines().enumerate().peekable();
        let mut periods = Vec::new();
        while let Some((_, line)) = lines.next() {
            if let [name, value] = &cells_of(line)[..] {
                self.take_design(name, value);
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.first() == Some(&"WNS(ns)") && self.figures.wns.is_none() {
                let values = lines.nth(1).unwrap_or((0, ""));
                let first = values.1.split_whitespace().next().unwrap_or_default();
                // Without a constraint there is no slack.
                if first != "NA" {
                    self.figures.wns = Some(self.number(first, values.0 + 1)?);
                }
            }
            if words.starts_with(&["Clock", "Waveform(ns)", "Period(ns)"]) && periods.is_empty() {
                lines.next();
                while let Some((at, row)) = lines.next_if(|(_, row)| !row.trim().is_empty()) {
                    // The waveform is in braces, with a space between its numbers.
                    let period = row.rsplit_once('}').map_or("", |(_, period)| period);
                    periods.push(self.number(period.trim(), at + 1)?);
                }
            }
        }
        if let (Some(wns), [period]) = (self.figures.wns, &periods[..]) {
            self.figures.fmax =
                Some(1000.0 / (period - wns)).filter(|fmax| (0.0..1e9).contains(fmax));
        }
        Ok(())
    }

    /// The lowest frequency and slack of all clocks and all conditions of the part.
    fn quartus_timing(&mut self, text: &str) -> Result<()> {
        let (mut fmax, mut slack) = (None, None);
        for (line, cells) in rows(text) {
            let lower = |known: &mut Option<f64>, number: f64| {
                *known = Some(known.map_or(number, |known| known.min(number)));
            };
            match &cells[..] {
                [title] => {
                    fmax = title.ends_with("Fmax Summary").then_some(());
                    slack = title.ends_with("Setup Summary").then_some(());
                }
                [name, value] => self.take_design(name, value),
                ["Fmax" | "Clock", ..] => {}
                [first, _, _, ..] if fmax.is_some() => {
                    let number = self.number(first, line)?;
                    lower(&mut self.figures.fmax, number);
                }
                [_, second, _, ..] if slack.is_some() => {
                    let number = self.number(second, line)?;
                    lower(&mut self.figures.wns, number);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The cells of a line of a table: between bars, semicolons or, in a summary, around a colon.
fn cells_of(line: &str) -> Vec<&str> {
    let line = line.trim();
    let Some(bar @ ('|' | ';')) = line.chars().next() else {
        return line.split_once(" : ").map_or(Vec::new(), |(a, b)| vec![a.trim(), b.trim()]);
    };
    let inside = line[1..].strip_suffix(bar).unwrap_or(&line[1..]);
    // What stands before the table has colons inside of a bar.
    match inside.split_once(" : ") {
        Some((name, value)) if !inside.contains(bar) => vec![name.trim(), value.trim()],
        _ => inside.split(bar).map(str::trim).collect(),
    }
}

/// The rows of all tables, with the numbers of their lines.
fn rows(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = text.lines().enumerate();
    lines.map(|(line, text)| (line + 1, cells_of(text))).filter(|(_, cells)| !cells.is_empty())
}

#[cfg(test)]
mod tests;
