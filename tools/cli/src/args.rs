//! Arguments that several verbs share.

use crate::options::TargetOptions;
use crate::verbs::Verb;
use clap::{Args, Parser, ValueEnum};
use quincunx::Selection;
use quincunx::diag::Diagnostic;
use quincunx::import::Options as ReadOptions;
use quincunx::report::Format;
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
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text",
          value_parser = clap::builder::PossibleValuesParser::new(["text", "json", "md", "csv", "html"]))]
    pub(crate) format: String,
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
        self.format.parse().unwrap_or_default()
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
}

impl ModelPart {
    /// The options that are given, by name.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let given = [
            (!self.outputs.is_empty()).then_some("--outputs"),
            (!self.inputs.is_empty()).then_some("--inputs"),
            (!self.input_shapes.is_empty()).then_some("--input-shape"),
        ];
        given.into_iter().flatten().collect()
    }

    /// For the reader.
    pub(crate) fn options(&self) -> ReadOptions {
        ReadOptions {
            outputs: self.outputs.clone(),
            inputs: self.inputs.clone(),
            input_shapes: self.input_shapes.iter().cloned().collect(),
            ..ReadOptions::default()
        }
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
    /// Data to quantise a float model with (.npy or .npz) [default: calib.npz beside the model]
    #[arg(long, value_name = "FILE")]
    pub(crate) calibrate: Option<PathBuf>,
    /// Keep batch normalisations as they are instead of folding them into the layers before them;
    /// targets that take float models (tcu) have their own options for that
    #[arg(long)]
    pub(crate) no_fold_batch_norm: bool,
}

impl Preparation {
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
#[derive(Args)]
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
