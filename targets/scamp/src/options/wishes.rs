//! What a compiler is asked for.

use super::noise::of_file;
use super::{MAX_POOL, USUAL_GRAPH, edge, readout, size, words, wrong};
use crate::arch::ScampArch;
use crate::bus::Halving;
use crate::files::Mode;
use crate::isa::Reg;
use crate::readout::Readout;
use crate::search::{Effort, Objective, Wish};
use crate::simulate::Edge;
use quincunx_contract::Options;
use quincunx_diag::{Diagnostic, Result};
use std::collections::{BTreeMap, BTreeSet};

/// How a program for kernels is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// Our own way.
    Default,
    /// Cain's.
    Cain,
    /// AUKE's.
    Auke,
}

impl Search {
    /// Names for the option `search`.
    pub(crate) const NAMES: [&'static str; 3] = ["default", "cain", "auke"];

    /// The search of a name; the default one for any other.
    fn named(name: &str) -> Search {
        match name {
            "cain" => Search::Cain,
            "auke" => Search::Auke,
            _ => Search::Default,
        }
    }
}

/// Where biases are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BiasPlace {
    /// On the array where it goes on from there.
    Auto,
    /// On the array.
    Array,
    /// By the driver.
    Driver,
}

impl BiasPlace {
    pub(super) const NAMES: [&'static str; 3] = ["auto", "array", "driver"];

    fn named(name: &str) -> BiasPlace {
        match name {
            "array" => BiasPlace::Array,
            "driver" => BiasPlace::Driver,
            _ => BiasPlace::Auto,
        }
    }
}

/// What a compiler is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wishes {
    /// The search.
    pub(crate) search: Search,
    /// What programs are chosen by.
    pub(crate) wish: Wish,
    /// Programs that are good in other ways are listed.
    pub(crate) pareto: bool,
    /// Programs are of bus steps, which halve so.
    pub(crate) bus: Option<Halving>,
    /// How hard it searches.
    pub(crate) effort: Effort,
    /// What macros leave in further registers may be used.
    pub(crate) leftovers: bool,
    /// Row names of the macros that programs may have.
    pub(crate) macros: BTreeSet<&'static str>,
    /// Most halvings of weights.
    pub(crate) depth: Option<u32>,
    /// Largest sum of errors.
    pub(crate) error: Option<f64>,
    /// Registers hold the values of a network times 2 to the power of this.
    pub(crate) scale: Option<i32>,
    /// Where biases are added.
    pub(crate) bias: BiasPlace,
    /// 1-bit registers for results.
    pub(crate) bits: Vec<Reg>,
    /// Registers of the input channels; none for any.
    pub(crate) inputs: Vec<Reg>,
    /// Registers of the results; none for any.
    pub(crate) outputs: Vec<Reg>,
    /// Registers that programs may use.
    pub(crate) pool: Vec<Reg>,
    /// Which registers compute.
    pub(crate) mode: Mode,
    /// Columns of the array.
    pub(crate) width: usize,
    /// Rows of the array.
    pub(crate) height: usize,
    /// What lies beyond the edge.
    pub(crate) edge: Edge,
    /// How results leave the array.
    pub(crate) readout: Readout,
    /// Bits of a number in digital mode.
    pub(crate) word: Option<usize>,
    /// Where the bits of numbers are, as JSON; nothing for anywhere.
    pub(crate) layout: String,
    /// Settings of Cain's search by their dotted names.
    pub(crate) cain: BTreeMap<String, String>,
    /// Nodes of the drawing of Cain's search.
    pub(crate) graph: usize,
}

fn registers(options: &Options, name: &str, arch: &ScampArch) -> Result<Vec<Reg>> {
    let mut list = Vec::new();
    for word in words(options.get(name)) {
        let register = Reg::new(word).filter(|register| arch.is_general(*register));
        let register = register.ok_or_else(|| {
            let message = format!("option {name}: {} has no analogue register {word}", arch.name);
            let names: Vec<String> = arch.analogue.iter().map(Reg::to_string).collect();
            Diagnostic::invalid("Q5055", message).help(format!("it has {}", names.join(" ")))
        })?;
        if list.contains(&register) {
            let message = format!("option {name} has {register} twice");
            return Err(Diagnostic::invalid("Q5055", message));
        }
        list.push(register);
    }
    match list.len() > MAX_POOL {
        true => {
            let message = format!("option {name} has {} registers, at most {MAX_POOL}", list.len());
            Err(Diagnostic::invalid("Q5055", message))
        }
        false => Ok(list),
    }
}

fn macros(text: &str, arch: &ScampArch) -> Result<BTreeSet<&'static str>> {
    let wanted =
        ScampArch::macro_set(if text.is_empty() { "all" } else { text }).map_err(|problem| {
            wrong("ops", text, "all, basic, every or mnemonics").help(problem.message())
        })?;
    let lacks = wanted.difference(&arch.macros).next();
    match (lacks, text.is_empty()) {
        (None, _) => Ok(wanted),
        (Some(_), true) => Ok(arch.macros.clone()),
        (Some(name), false) => {
            let message = format!("option ops: {} does not have the macro {name}", arch.name);
            Err(Diagnostic::invalid("Q5055", message))
        }
    }
}

impl Wishes {
    /// Programs may have all of these macros.
    pub(crate) fn has(&self, rows: &[&str]) -> bool {
        rows.iter().all(|row| self.macros.contains(row))
    }

    /// Programs are measured by more than their instructions.
    pub(crate) fn is_measured(&self) -> bool {
        self.pareto || self.wish.range.is_some() || self.wish.objective != Objective::Macros
    }

    /// # Errors
    /// `Q5055` for registers and macros that the machine does not have, and options that contradict
    /// each other; `Q5013` for a value that means nothing.
    pub(crate) fn new(options: &Options, arch: &ScampArch) -> Result<Wishes> {
        let [inputs, outputs, mut pool] = ["input-registers", "output-registers", "registers"]
            .map(|name| registers(options, name, arch));
        if pool.as_ref().is_ok_and(Vec::is_empty) {
            pool = Ok(arch.analogue.iter().copied().take(MAX_POOL).collect());
        }
        let (outputs, pool) = (outputs?, pool?);
        if let Some(output) = outputs.iter().find(|output| !pool.contains(output)) {
            let message =
                format!("option output-registers names {output}, which is not among the registers");
            return Err(Diagnostic::invalid("Q5055", message)
                .help("`--registers` names all registers that programs may use"));
        }
        let (width, height) = size(options.get("size"), arch)?;
        of_default_search(options)?;
        let readout = readout(options, width.saturating_mul(height))?;
        of_others(options, readout)?;
        Ok(Wishes {
            wish: wish(options, arch, (width, height))?,
            pareto: options.flag("pareto"),
            bus: options.flag("bus").then(|| Halving::named(options.get("halving"))),
            search: Search::named(options.get("search")),
            effort: Effort::named(options.get("effort")),
            leftovers: options.flag("leftovers"),
            macros: macros(options.get("ops"), arch)?,
            depth: options.whole_or("depth"),
            error: options.real_or("error"),
            scale: options.whole_or("scale"),
            bias: BiasPlace::named(options.get("bias")),
            bits: arch.plain_bits(),
            inputs: inputs?,
            outputs,
            pool,
            mode: match options.get("mode") {
                "digital" => Mode::Digital,
                "superpixel" => Mode::SuperPixel,
                _ => Mode::Analogue,
            },
            width,
            height,
            edge: edge(options),
            readout,
            word: options.whole_or("bits"),
            layout: options.get("layout").to_owned(),
            cain: settings(options.get("cain"))?,
            graph: options.whole_or("search-graph").unwrap_or(USUAL_GRAPH),
        })
    }
}

/// Refuses what only the default search does beside another one, and what it does with macros beside
/// bus steps.
fn of_default_search(options: &Options) -> Result<()> {
    let objective = options.get("objective");
    let given = [
        ("leftovers", options.flag("leftovers")),
        ("pareto", options.flag("pareto")),
        ("objective", !["macros", "bus"].contains(&objective)),
        ("objective", objective != "macros"),
        ("range", !options.get("range").is_empty()),
        ("bus", options.flag("bus")),
    ];
    let of_macros = if options.flag("bus") { &given[..3] } else { &[] };
    let (list, beside) = match options.get("search") {
        "default" => (of_macros, "bus"),
        _ => (&given[..], "search"),
    };
    match list.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => {
            let message = format!("option {name} does nothing beside option {beside}");
            Err(Diagnostic::invalid("Q5055", message).help("leave one of them out"))
        }
        None => Ok(()),
    }
}

/// Refuses what does nothing beside a mode or a search.
fn of_others(options: &Options, readout: Readout) -> Result<()> {
    if options.get("mode") != "analogue" && readout != Readout::Analogue {
        let message = "option readout does nothing beside option mode: bits of numbers are read";
        return Err(Diagnostic::invalid("Q5055", message).help("leave one of them out"));
    }
    if options.get("search-graph") != "auto" && options.get("search") != "cain" {
        let message = "option search-graph does nothing without --search cain";
        return Err(Diagnostic::invalid("Q5055", message).help("leave it out, or search so"));
    }
    Ok(())
}

/// Three deviations, of an option or of the noise file.
fn sigma(options: &Options, arch: &ScampArch, size: (usize, usize)) -> Result<[f64; 3]> {
    let text = options.get("sigma");
    let is_noise = |list: &[f64; 3]| {
        list.iter().all(|sigma| (0.0..=1e9).contains(sigma))
            && list.iter().any(|&sigma| sigma > 0.0)
    };
    if !text.is_empty() {
        let list: Option<Vec<f64>> = words(text).map(|word| word.parse().ok()).collect();
        let list = list.and_then(|list| <[f64; 3]>::try_from(list).ok());
        let expected = "three deviations such as 1 1.5 2";
        return list.filter(is_noise).ok_or_else(|| wrong("sigma", text, expected));
    }
    let file = of_file(options, arch, size)?.map(|noise| noise.sigma());
    let counts = options.flag("pareto") || options.get("objective") == "noise";
    match file {
        Some(list) if is_noise(&list) => Ok(list),
        Some(_) if counts => {
            let message =
                "the file of option noise has no sigma above 0, by which programs are compared";
            Err(Diagnostic::invalid("Q5055", message).help("`--sigma` gives some"))
        }
        _ => Ok([1.0; 3]),
    }
}

/// What programs are chosen by.
fn wish(options: &Options, arch: &ScampArch, size: (usize, usize)) -> Result<Wish> {
    let text = options.get("range");
    let range = match text.is_empty() {
        true => None,
        false => {
            let expected = "LO..HI such as -128..127";
            Some(text.parse().map_err(|()| wrong("range", text, expected))?)
        }
    };
    Ok(Wish {
        objective: Objective::named(options.get("objective")),
        sigma: sigma(options, arch, size)?,
        range,
    })
}

/// The settings of Cain in a text; none in an empty one.
fn settings(text: &str) -> Result<BTreeMap<String, String>> {
    if text.is_empty() {
        return Ok(BTreeMap::new());
    }
    serde_json::from_str(text).map_err(|error| wrong("cain", text, &format!("JSON: {error}")))
}
