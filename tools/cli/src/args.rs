//! Arguments that several verbs share.

use crate::verbs::Verb;
use clap::{Args, Parser, ValueEnum};
use quincunx::report::Format;
use std::num::NonZeroUsize;
use std::path::PathBuf;

const EXIT_CODES: &str = "\
Exit codes:
  0   success
  1   the answer is no: a check failed, judges disagree
  2   wrong usage
  3   an input file is malformed
  4   valid, but not supported, or it does not fit
  70  a bug in Quincunx

The result goes to stdout; progress and messages go to stderr.
A file name of - is stdin or stdout.";

/// Compiles networks for five machines, runs and checks the programs.
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
    /// Threads; results do not depend on it [default: all]
    #[arg(short = 'j', long = "threads", global = true, value_name = "N")]
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
    /// Option of the target (see `quincunx targets NAME`); may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = name_value)]
    pub(crate) set: Vec<(String, String)>,
}

/// How a model becomes the graph that is compiled.
#[derive(Args)]
pub(crate) struct Preparation {
    /// Data to quantise a float model with (.npy or .npz) [default: calib.npz beside the model]
    #[arg(long, value_name = "FILE")]
    pub(crate) calibrate: Option<PathBuf>,
    /// Keep batch normalisations as they are instead of folding them into the layers before them
    #[arg(long)]
    pub(crate) no_fold_batch_norm: bool,
}

/// Inputs of a network or program.
#[derive(Args)]
pub(crate) struct Data {
    /// Inputs: .npy, .npz (arrays by input name), random:SEED, zeros or ones
    #[arg(short, long, value_name = "FILE|random:SEED|zeros|ones")]
    pub(crate) data: String,
    /// Images to make up for random:SEED, zeros or ones
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) images: NonZeroUsize,
}

fn name_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}
