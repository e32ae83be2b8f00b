//! `quantise`.

use crate::args::{Data, Images, ModelPart};
use crate::console::Console;
use crate::input;
use crate::output::{self, is_stdout};
use clap::{Args, ValueEnum};
use quincunx::diag::{Diagnostic, Sources};
use quincunx::graph::passes::{Method, Scheme};
use quincunx::import::Dialect;
use quincunx::quantise::{Job, Widths, data_beside, quantise, scheme_named, table};
use quincunx::report::{Heading, Report};
use quincunx::{InputFile, InputSpec, Model, Outcome};
use std::path::PathBuf;

const WIDTHS_HELP: &str = "\
The file of --widths is TOML. Keys at the top hold for every layer, those of a [[layer]] for the
layers whose name fits; later entries outweigh earlier ones:

  weights = 8            # bits of weights
  activations = 8        # bits of results and inputs
  signed = false         # sign of the codes of results
  scheme = \"affine\"      # or \"pow2\", or such as \"uniform:FP16BP8\"

  [[layer]]
  name = \"conv*\"         # * is any characters, ? is one
  weights = 4

  [[layer]]
  name = \"fc2\"
  skip = true            # stays float

The same as a list: layer = [{ name = \"conv*\", weights = 4 }, { name = \"fc2\", skip = true }]";

/// Quantise a float model and write it as ONNX
///
/// Prints a row per layer: the range of its result on the calibration data, the grid, and the
/// signal to quantisation noise ratio of result and weights. Errors of earlier layers are part of
/// the ratio of a result.
#[derive(Args)]
#[command(after_help = WIDTHS_HELP)]
pub(crate) struct Quantise {
    /// Model: ONNX or a frozen TensorFlow graph
    model: PathBuf,
    #[command(flatten)]
    part: ModelPart,
    /// Write the quantised model here; - is stdout, which then has no table
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Data to calibrate with: .npy, .npz (arrays by input name), random:SEED, zeros or ones
    /// [default: calib.npz beside the model]
    #[arg(long, value_name = "FILE|random:SEED|zeros|ones")]
    calibrate: Option<String>,
    #[command(flatten)]
    images: Images,
    /// Kind of grids: affine-int8 (8 bits; scale and zero point per activation, scale per output channel of
    /// weights), pow2 (8 bits; every scale is a power of two, no zero points), or uniform:FORMAT (one
    /// fixed-point format for all numbers: FP8BP4, FP16BP8, FP18BP10, FP32BP16 and the like; batch
    /// normalisations stay as they are)
    #[arg(long, value_name = "SCHEME", default_value = "affine-int8")]
    scheme: String,
    /// How ranges follow from the data
    #[arg(long, value_enum, default_value_t = MethodName::Mse)]
    method: MethodName,
    /// Share of the numbers, in percent, that --method percentile keeps in range, 50 to 100
    /// [default: 99.99]
    #[arg(long, value_name = "P")]
    percentile: Option<f64>,
    /// Codes of activations [default: u8 for affine-int8, by range for pow2]
    #[arg(long, value_enum)]
    activations: Option<Sign>,
    /// Widths, schemes and exceptions for single layers, which override --scheme and --activations
    #[arg(long, value_name = "FILE.toml")]
    widths: Option<PathBuf>,
    /// How quantisers are written
    #[arg(long, value_enum, default_value_t = DialectName::Auto)]
    dialect: DialectName,
    /// Keep batch normalisations as they are instead of folding them into the layers before them
    #[arg(long)]
    no_fold_batch_norm: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MethodName {
    /// From the lowest to the highest number
    MinMax,
    /// Without the tails, see --percentile
    Percentile,
    /// The range of least squared error; also for weights of affine-int8
    Mse,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sign {
    /// Unsigned
    U8,
    /// Signed
    S8,
}

#[derive(Clone, Copy, ValueEnum)]
enum DialectName {
    /// QuantizeLinear and DequantizeLinear; an error where they cannot express a quantiser
    Qdq,
    /// QONNX Quant
    Qonnx,
    /// qdq where it can, else qonnx
    Auto,
}

impl Quantise {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        let method = self.method()?;
        let scheme = scheme_named(&self.scheme)?;
        output::expect([&self.output])?;
        let file = input::open(&self.model)?;
        let (data, data_file) = self.data_file()?;
        let model = Model::read_with(&file, &self.part.options(&data_file)?)?;
        let widths = self.widths.as_deref().map(|path| Widths::read(&input::open(path)?));
        let widths = widths.transpose()?;
        let inputs = InputSpec::of(&model.graph);
        let data = input::dataset(&data, data_file.as_ref(), &inputs, console)?;
        let job = Job {
            // A fixed-point machine has no batch normalisation in its weights by itself.
            fold_batch_norm: !self.no_fold_batch_norm && !matches!(scheme, Scheme::Uniform { .. }),
            scheme,
            signed: self.activations.map(|sign| sign == Sign::S8),
            method,
            widths: widths.as_ref(),
            dialect: match self.dialect {
                DialectName::Qdq => Dialect::Qdq,
                DialectName::Qonnx => Dialect::Qonnx,
                DialectName::Auto => Dialect::Auto,
            },
            threads: console.threads,
            ..Job::new(&model, &data.images)
        };
        let result = quantise(&job, console.progress())?;
        console.diagnostics(&result.warnings, &Sources::new());
        console.write(Some(&self.output), &result.file)?;
        if !is_stdout(&self.output) {
            let heading = Heading::new("Quantisation").of(model.file_name());
            console.report(&Report::from(table(&result)).headed(heading), None)?;
        }
        Ok(0)
    }

    fn method(&self) -> Outcome<Method> {
        match (self.method, self.percentile) {
            (MethodName::Percentile, percent) => Ok(Method::Percentile(percent.unwrap_or(99.99))),
            (_, Some(_)) => {
                Err(Diagnostic::usage("Q0708", "--percentile is for --method percentile").into())
            }
            (MethodName::MinMax, None) => Ok(Method::MinMax),
            (MethodName::Mse, None) => Ok(Method::Mse),
        }
    }

    /// The data to calibrate with, and its file where it is not made up.
    fn data_file(&self) -> Outcome<(Data, Option<InputFile>)> {
        let images = Images { images: self.images.images.clone() };
        let data = Data { data: self.calibrate.clone().unwrap_or_default(), images };
        let file = match &self.calibrate {
            Some(_) => input::data_file(&data)?,
            None => Some(input::noted(data_beside(&self.model)?)?),
        };
        Ok((data, file))
    }
}
