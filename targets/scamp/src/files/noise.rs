//! Noise files: TOML that says what errors a device has.

use crate::arch::ScampArch;
use crate::isa::Reg;
use crate::simulate::{Noise, Pattern, WriteErrors};
use quincunx_contract::parse_toml;
use quincunx_diag::{Diagnostic, Place, Result, Source, did_you_mean};
use quincunx_tensor::{npy::read_npy, show_shape};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use toml::Spanned;

/// Largest size of biases, deviations and numbers of maps.
const MAX: f64 = 1e9;

/// Largest gain.
const MAX_GAIN: f64 = 2.0;

/// The file. Absent keys are those of an ideal device.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NoiseFile {
    seed: u64,
    device: Option<u64>,
    bus: WriteFile,
    bus2: WriteFile,
    bus3: WriteFile,
    mismatch: PatternFile,
    offset: PatternFile,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WriteFile {
    sigma: Option<Spanned<f64>>,
    bias: Option<Spanned<f64>>,
    gain: Option<Spanned<f64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PatternFile {
    sigma: Option<Spanned<f64>>,
    maps: BTreeMap<String, Spanned<String>>,
}

/// A noise file as it is read, and what it is for.
struct Reader<'a> {
    path: &'a str,
    arch: &'a ScampArch,
    /// Rows and columns of the array.
    size: (usize, usize),
}

/// Reads a noise file, and the maps that it names, for an array of so many rows and columns.
///
/// # Errors
/// `Q5140` for a file that cannot be read, `Q5141` for one that is no noise file, `Q5142` for what it
/// says, `Q0204` to `Q0206` for maps that are no arrays.
pub(crate) fn read_noise(path: &str, arch: &ScampArch, size: (usize, usize)) -> Result<Noise> {
    let unreadable = |error| Diagnostic::system("Q5140", "read it", &error).in_file(path);
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let reader = Reader { path, arch, size };
    reader.noise(&text).map_err(|problem| match problem.place() {
        Some(&Place::File { path: ref file, offset: Some(at) }) if file.is_empty() => {
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            let (line, column) = Source::new(path, text).line_column(at);
            problem.in_file(format!("{path}:{line}:{column}"))
        }
        _ => problem.name_file(path),
    })
}

/// A value that is not possible.
fn wrong<T>(value: &Spanned<T>, message: String) -> Diagnostic {
    Diagnostic::invalid("Q5142", message).at_byte(value.span().start as u64)
}

/// A number, or the one that stands for an absent one.
fn number(
    name: &str,
    value: Option<&Spanned<f64>>,
    absent: f64,
    range: RangeInclusive<f64>,
) -> Result<f64> {
    let Some(spanned) = value else { return Ok(absent) };
    let number = *spanned.get_ref();
    let (low, high) = (range.start(), range.end());
    match range.contains(&number) {
        true => Ok(number),
        false => Err(wrong(spanned, format!("{name} is {number}, expected {low} to {high}"))),
    }
}

impl WriteFile {
    fn errors(&self) -> Result<WriteErrors> {
        Ok(WriteErrors {
            sigma: number("sigma", self.sigma.as_ref(), 0.0, 0.0..=MAX)?,
            bias: number("bias", self.bias.as_ref(), 0.0, -MAX..=MAX)?,
            gain: number("gain", self.gain.as_ref(), 1.0, 0.0..=MAX_GAIN)?,
        })
    }
}

impl Reader<'_> {
    fn noise(&self, text: &str) -> Result<Noise> {
        let file: NoiseFile = parse_toml("Q5141", text)?;
        Ok(Noise {
            writes: [file.bus.errors()?, file.bus2.errors()?, file.bus3.errors()?],
            mismatch: self.pattern(&file.mismatch)?,
            offset: self.pattern(&file.offset)?,
            seed: file.seed,
            device: file.device,
        })
    }

    fn pattern(&self, file: &PatternFile) -> Result<Pattern> {
        let sigma = number("sigma", file.sigma.as_ref(), 0.0, 0.0..=MAX)?;
        let mut maps = BTreeMap::new();
        for (name, map) in &file.maps {
            let general = || self.arch.analogue.iter().copied().chain([Reg::NEWS]);
            let register = general().find(|register| register.to_string() == *name);
            let register = register.ok_or_else(|| {
                let message = format!("a map is of {name:?}, which is no register to write");
                let names: Vec<String> = general().map(|register| register.to_string()).collect();
                let help = did_you_mean(name, names.iter().map(String::as_str));
                let help = help.unwrap_or_else(|| format!("maps are of {}", names.join(" ")));
                wrong(map, message).help(help)
            })?;
            maps.insert(register, self.map(map)?.into());
        }
        Ok(Pattern { sigma, maps })
    }

    /// The numbers of a map, whose file lies beside the noise file.
    fn map(&self, name: &Spanned<String>) -> Result<Vec<f64>> {
        let path = Path::new(self.path).with_file_name(name.get_ref());
        let shown = path.to_string_lossy();
        let unreadable = |error| Diagnostic::system("Q5140", "read it", &error).in_file(&*shown);
        let bytes = std::fs::read(&path).map_err(unreadable)?;
        let tensor = read_npy(bytes).map_err(|problem| problem.name_file(&shown))?;
        let (rows, columns) = self.size;
        if tensor.shape() != [rows, columns] {
            let found = format!("{shown} has shape {}", show_shape(tensor.shape()));
            let help = "a map has a number for every element of the array; `--size` sets the array";
            return Err(
                wrong(name, format!("{found}, the array has {rows} rows of {columns}")).help(help)
            );
        }
        let numbers = tensor.to_f64();
        let of_row = |(row, numbers): (usize, &[f64])| {
            let column = numbers.iter().position(|number| !(-MAX..=MAX).contains(number))?;
            Some((row, column, numbers[column]))
        };
        match numbers.chunks(columns.max(1)).enumerate().find_map(of_row) {
            Some((row, column, number)) => {
                let place = format!("row {row}, column {column} of {shown}");
                let message = format!("{place} is {number}, expected {} to {MAX}", -MAX);
                Err(wrong(name, message))
            }
            None => Ok(numbers),
        }
    }
}
