//! `man`.

use crate::args::{Cli, EXIT_CODES};
use crate::console::Console;
use crate::output;
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man as Page;
use clap_mangen::roff::{Roff, bold, roman};
use quincunx::Outcome;
use quincunx::diag::{Diagnostic, did_you_mean};
use std::io;
use std::path::PathBuf;

/// Files that verbs read and write, for the manual page.
const FILES: &[(&str, &str)] = &[
    (
        "*.onnx",
        "Models: float, QDQ (QuantizeLinear and DequantizeLinear), QOperator (QLinearConv) or QONNX (Quant).",
    ),
    ("*.pb", "Models: frozen TensorFlow graphs."),
    ("*.npy, *.npz", "Arrays: inputs by name with optional labels, outputs, traces, references."),
    ("calib.npz", "Data to quantise a float model with, looked for beside the model."),
    ("FOLDER/program.json", "Description of a program folder: machine, plan, ports, SHA-256 sums."),
    ("FOLDER/SEGMENT/", "Native files of a device segment, or the model of a host segment."),
];

/// Print the manual page of Quincunx, or of a verb
///
/// The page is roff source: `quincunx man | man -l -` shows it.
#[derive(Args)]
pub(crate) struct Man {
    /// The verb
    #[arg(conflicts_with = "dir")]
    verb: Option<String>,
    /// Write all pages into this folder: quincunx.1 and quincunx-VERB.1
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self, console: &Console) -> Outcome<u8> {
        let mut root = Cli::command().disable_help_subcommand(true);
        root.build();
        if let Some(folder) = &self.dir {
            output::file(&folder.join("quincunx.1"), &page(&root)?)?;
            for verb in root.get_subcommands() {
                output::file(&folder.join(format!("{}.1", title(verb))), &page(verb)?)?;
            }
            return Ok(0);
        }
        let command = match &self.verb {
            None => &root,
            Some(name) => root.find_subcommand(name).ok_or_else(|| unknown(&root, name))?,
        };
        console.write(None, &page(command)?)?;
        Ok(0)
    }
}

fn unknown(root: &Command, name: &str) -> Diagnostic {
    Diagnostic::usage("Q0711", format!("no verb is named {name:?}"))
        .help_if(did_you_mean(name, root.get_subcommands().map(Command::get_name)))
}

/// `quincunx-run`.
fn title(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// The page as roff.
fn page(command: &Command) -> Outcome<Vec<u8>> {
    let mut out = Vec::new();
    write(command, &mut out)
        .map_err(|error| Diagnostic::bug(format!("cannot make the manual page: {error}")))?;
    Ok(one_preamble(&out))
}

/// Every section comes with the two lines that define the apostrophe; the first ones are enough.
fn one_preamble(page: &[u8]) -> Vec<u8> {
    let mut defined = 0;
    let lines = page.split_inclusive(|&byte| byte == b'\n').filter(|line| {
        let defines = line.starts_with(b".ie \\n(.g .ds Aq") || line.starts_with(b".el .ds Aq");
        defined += usize::from(defines);
        !defines || defined <= 2
    });
    lines.flatten().copied().collect()
}

fn write(command: &Command, out: &mut Vec<u8>) -> io::Result<()> {
    let verbs = command.has_subcommands();
    let page = Page::new(command.clone()).title(title(command)).section("1").manual("Quincunx");
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    if verbs {
        page.render_subcommands_section(out)?;
        streams(out)?;
    } else if command.get_after_help().is_some() {
        page.render_extra_section(out)?;
    }
    exit_status(out)?;
    if verbs {
        files(out)?;
        page.render_version_section(out)?;
    } else {
        see_also(out)?;
    }
    Ok(())
}

fn streams(out: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", ["STREAMS"]);
    for line in EXIT_CODES.lines().skip_while(|line| !line.is_empty()).skip(1) {
        roff.text([roman(line)]);
    }
    roff.to_writer(out)
}

/// The same codes that `--help` lists.
fn exit_status(out: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for line in EXIT_CODES.lines().skip(1).take_while(|line| !line.is_empty()) {
        if let Some((code, meaning)) = line.trim().split_once(' ') {
            roff.control("TP", []).text([bold(code)]).text([roman(meaning.trim())]);
        }
    }
    roff.to_writer(out)
}

fn files(out: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", ["FILES"]);
    for &(name, meaning) in FILES {
        roff.control("TP", []).text([bold(name)]).text([roman(meaning)]);
    }
    roff.to_writer(out)
}

fn see_also(out: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold("quincunx"), roman("(1)")]);
    roff.to_writer(out)
}
