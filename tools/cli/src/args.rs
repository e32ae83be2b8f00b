//! Arguments that several verbs share.

use crate::options::TargetOptions;
use crate::verbs::Verb;
use clap::{Args, Parser, ValueEnum};
use quincunx::diag::Diagnostic;
use quincunx::import::Options as ReadOptions;
use quincunx::report::Format;
use quincunx::{InputFile, Selection, data_shapes};
use std::num::NonZeroUsize;
use std::path::PathBuf;

pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0   success
  1   the answer is no: a check failed, judges disagree
  2   wrong usage
  3   an input file is malformed
  4   valid, but not supported, or it does not fit
  70  a bug in Quincunx
  74  the file system refuses: no such file, no permission, no space
  130 and 143, as the shell shows them: ended by SIGINT or SIGTERM

The result goes to stdout; progress and messages go to stderr.
A file name of - is stdin or stdout.";

/// Compiles networks for five machines, and runs and checks the programs.
#[derive(Parser)]
#[command(name = "quincunx", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options of every verb.
#[derive(Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Form of the result
    #[arg(long, global = true, value_name = "FORMAT",
          help = "Form of the result; csv is one table [default: text]",
          value_parser = clap::builder::PossibleValuesParser::new(["text", "json", "md", "csv", "html"]))]
    pub(crate) format: Option<String>,
    /// Only this table of the result, by its name in JSON, or `all` tables of a program, some of
    /// which are shown only on request; may be repeated
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) table: Vec<String>,
    /// Fit tables into so many columns: the middles of long names are left out, texts folded
    /// [default: those of the terminal, without a terminal any number]
    #[arg(long, global = true, value_name = "N", value_parser = columns)]
    pub(crate) columns: Option<NonZeroUsize>,
    /// Form of messages
    #[arg(long, global = true, value_enum, value_name = "FORM", default_value_t = Messages::Human)]
    pub(crate) message_format: Messages,
    /// Colours in messages; auto looks at the terminal and at NO_COLOR
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = Color::Auto)]
    pub(crate) color: Color,
    /// No progress, notes or warnings
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Also tell what every compiler pass did
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Number of threads; results do not depend on it [default: all]
    #[arg(short = 'j', long = "threads", global = true, value_name = "N", value_parser = count)]
    pub(crate) threads: Option<NonZeroUsize>,
}

impl Global {
    pub(crate) fn format(&self) -> Format {
        self.format.as_deref().and_then(|name| name.parse().ok()).unwrap_or_default()
    }

    /// The options about tables that are given, by name.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let given = [
            self.format.as_ref().map(|_| "--format"),
            (!self.table.is_empty()).then_some("--table"),
            self.columns.map(|_| "--columns"),
        ];
        given.into_iter().flatten().collect()
    }
}

/// Form of messages.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Messages {
    /// With source lines and help
    Human,
    /// One line each
    Short,
    /// One JSON object per line
    Json,
}

/// When messages have colours.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Where a text result goes.
#[derive(Args)]
pub(crate) struct TextOutput {
    /// Write the result to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Which machine, and its options.
#[derive(Args)]
pub(crate) struct Machine {
    /// Machine: a preset of the target (see `quincunx targets NAME`) or an architecture file
    #[arg(long, value_name = "PRESET|FILE")]
    pub(crate) arch: Option<String>,
    /// Option of the target (see `quincunx targets NAME`); may be repeated. --NAME VALUE does the
    /// same, or for a switch --NAME and --NAME=false
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = name_value)]
    set: Vec<(String, String)>,
    #[command(flatten)]
    options: TargetOptions,
}

impl Machine {
    /// The options that are given, by name.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let arch = self.arch.is_some().then_some("--arch");
        let set = (!self.set.is_empty()).then_some("--set");
        let own = (!self.options.given.is_empty()).then_some("an option of the target");
        arch.into_iter().chain(set).chain(own).collect()
    }

    /// Options of the target, by name.
    ///
    /// # Errors
    /// `Q0714` for an option with two values.
    pub(crate) fn options(&self) -> Result<Vec<(String, String)>, Diagnostic> {
        without_conflict(self.set.iter().chain(&self.options.given).cloned())
    }
}

/// Every option once.
///
/// # Errors
/// `Q0714` for an option with two values: which of them was meant cannot be known.
pub(crate) fn without_conflict(
    given: impl Iterator<Item = (String, String)>,
) -> Result<Vec<(String, String)>, Diagnostic> {
    let mut options: Vec<(String, String)> = Vec::new();
    for (name, value) in given {
        match options.iter().find(|(other, _)| *other == name) {
            None => options.push((name, value)),
            Some((_, other)) if *other == value => {}
            Some((_, other)) => {
                let message = format!("option {name} is given as {other:?} and as {value:?}");
                return Err(Diagnostic::usage("Q0714", message)
                    .help(format!("give it once, by --{name} or by --set")));
            }
        }
    }
    Ok(options)
}

/// Which part of a model is read.
#[derive(Args)]
pub(crate) struct ModelPart {
    /// Values of the model that become the outputs, separated by commas; what they do not need is
    /// ignored [default: the model's outputs]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    outputs: Vec<String>,
    /// Values of the model that become inputs, separated by commas; what computes them is ignored
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    inputs: Vec<String>,
    /// Shape of an input, as NAME=1x3x224x224 or NAME=[1,3,224,224]; may be repeated
    #[arg(long = "input-shape", value_name = "NAME=SHAPE", value_parser = input_shape)]
    input_shapes: Vec<(String, Vec<usize>)>,
    /// Number of an input that becomes a constant, as sr=16000, or numbers separated by commas for
    /// all its elements; may be repeated
    #[arg(long = "input-value", value_name = "NAME=NUMBERS", value_parser = name_numbers)]
    input_values: Vec<(String, String)>,
}

impl ModelPart {
    /// The options that are given, by name.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let given = [
            (!self.outputs.is_empty()).then_some("--outputs"),
            (!self.inputs.is_empty()).then_some("--inputs"),
            (!self.input_shapes.is_empty()).then_some("--input-shape"),
            (!self.input_values.is_empty()).then_some("--input-value"),
        ];
        given.into_iter().flatten().collect()
    }

    /// For the reader; extents that are left open are those of the first data file.
    ///
    /// # Errors
    /// `Q0714` for an input with two shapes or values; those of reading data.
    pub(crate) fn options<'a>(
        &self,
        data: impl IntoIterator<Item = &'a InputFile>,
    ) -> Result<ReadOptions, Diagnostic> {
        each_once("--input-shape", &self.input_shapes)?;
        each_once("--input-value", &self.input_values)?;
        Ok(ReadOptions {
            outputs: self.outputs.clone(),
            inputs: self.inputs.clone(),
            input_shapes: self.input_shapes.iter().cloned().collect(),
            input_values: self.input_values.iter().cloned().collect(),
            data_shapes: data.into_iter().next().map(data_shapes).transpose()?.unwrap_or_default(),
            ..ReadOptions::default()
        })
    }
}

/// Refuses an input that is named twice with different things.
fn each_once<T: PartialEq>(option: &str, given: &[(String, T)]) -> Result<(), Diagnostic> {
    for (index, (name, value)) in given.iter().enumerate() {
        if given[..index].iter().any(|(other, first)| other == name && first != value) {
            let message = format!("{option} is given twice for {name:?}");
            return Err(Diagnostic::usage("Q0714", message));
        }
    }
    Ok(())
}

/// `NAME=NUMBERS`; a name may hold `=`.
fn name_numbers(text: &str) -> Result<(String, String), String> {
    match text.rsplit_once('=') {
        Some((name, numbers)) if !name.is_empty() && !numbers.is_empty() => {
            Ok((name.to_owned(), numbers.to_owned()))
        }
        _ => Err("expected NAME=NUMBER or NAME=NUMBER,NUMBER,...".to_owned()),
    }
}

/// `NAME=1x3x224x224` or `NAME=[1,3,224,224]`; a name may hold `=`, a scalar is `NAME=[]`.
fn input_shape(text: &str) -> Result<(String, Vec<usize>), String> {
    let wrong = || "expected NAME=1x3x224x224 or NAME=[1,3,224,224]".to_owned();
    let (name, shape) =
        text.rsplit_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
    let list = shape.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let extents: Vec<&str> = match list {
        Some(list) if list.trim().is_empty() => Vec::new(),
        Some(list) => list.split(',').collect(),
        None => shape.split('x').collect(),
    };
    let extents = extents.into_iter().map(|extent| extent.trim().parse().ok());
    Ok((name.to_owned(), extents.collect::<Option<Vec<usize>>>().ok_or_else(wrong)?))
}

/// How program files are read.
#[derive(Args)]
pub(crate) struct Reading {
    /// The target [default: the one that recognises the files]
    #[arg(short, long, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) machine: Machine,
    /// Read programs that break minor rules, with warnings
    #[arg(long)]
    pub(crate) lenient: bool,
}

/// How a model becomes the graph that is compiled.
#[derive(Args)]
pub(crate) struct Preparation {
    #[command(flatten)]
    pub(crate) part: ModelPart,
    /// Data to quantise a float model with: .npy or .npz, random:SEED, zeros or ones [default:
    /// calib.npz beside the model]
    #[arg(long, value_name = "FILE|random:SEED")]
    pub(crate) calibrate: Option<String>,
    /// Keep batch normalisations as they are instead of folding them into the layers before them;
    /// targets that take float models (tcu) have their own options for that
    #[arg(long)]
    pub(crate) no_fold_batch_norm: bool,
}

impl Preparation {
    /// The data to calibrate with, if it is made up.
    pub(crate) fn made_up(&self) -> Option<&str> {
        let text = self.calibrate.as_deref()?;
        quincunx::Dataset::generate(text, &[], 0).map(|_| text)
    }

    /// The options about quantising and folding that are given, by name.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let calibrate = self.calibrate.is_some().then_some("--calibrate");
        let keep = self.no_fold_batch_norm.then_some("--no-fold-batch-norm");
        calibrate.into_iter().chain(keep).collect()
    }
}

/// Inputs of a network or program.
#[derive(Args)]
pub(crate) struct Data {
    /// Inputs: .npy, .npz (arrays by input name); for one input also .csv, .png or .pgm; or
    /// random:SEED, zeros, ones
    #[arg(short, long, value_name = "FILE|random:SEED|zeros|ones")]
    pub(crate) data: String,
    #[command(flatten)]
    pub(crate) images: Images,
}

/// Which images.
#[derive(Clone, Args)]
pub(crate) struct Images {
    /// Use only the first N images, or those from A up to but not including B, counted from 0
    /// [default: all images of a file, 1 of random:SEED, zeros or ones]
    #[arg(long, value_name = "N|A..B")]
    pub(crate) images: Option<Selection>,
}

/// A number of things, of which there must be one.
pub(crate) fn count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a whole number of at least 1".to_owned())
}

/// Columns that a table can be read in.
fn columns(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().filter(|number: &NonZeroUsize| number.get() >= 40);
    number.ok_or_else(|| "expected a whole number of at least 40".to_owned())
}

fn name_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_inputs() {
        let shape = |text| input_shape(text).map(|(name, shape)| (name, shape.to_vec()));
        assert_eq!(shape("x=1x3x8"), Ok(("x".to_owned(), vec![1, 3, 8])));
        assert_eq!(shape("a=b:0=[1, 2]"), Ok(("a=b:0".to_owned(), vec![1, 2])));
        assert_eq!(shape("x=7"), Ok(("x".to_owned(), vec![7])));
        assert_eq!(shape("x=[]"), Ok(("x".to_owned(), vec![])));
        for text in ["x", "=1x2", "x=", "x=1x", "x=-1x2", "x=[1,2", "x=1,2", "x=[1,,2]"] {
            assert!(shape(text).is_err(), "{text}");
        }
    }
}
