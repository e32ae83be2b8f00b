//! Options of the target: what a reader keeps with the program, and what a compiler is asked for.

use crate::arch::ScampArch;
use crate::bus::Halving;
use crate::files::{MAX_DEPTH, Mode, read_noise};
use crate::isa::Reg;
use crate::readout::Readout;
use crate::search::{Effort, Objective, Wish};
use crate::simulate::{Edge, Noise, Settings, WorkLimit};
use crate::time::Model;
use quincunx_contract::{OptionInfo, Options, Use};
use quincunx_diag::{Diagnostic, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Largest exponent of the scale of registers, and minus the least one.
pub(crate) const MAX_SCALE: i32 = 60;

/// Most registers that compiled programs may be told to use.
pub(crate) const MAX_POOL: usize = 32;

/// Most nodes of a drawing of Cain's search, and how many it has if nothing is said.
const MAX_GRAPH: usize = 1000;
const USUAL_GRAPH: usize = 50;

/// The options.
pub(crate) const OPTIONS: &[OptionInfo] = &[
    OptionInfo::flag("fix", "rewrite illegal and deprecated instructions when reading", false)
        .used_by(&[Use::Read]),
    OptionInfo::one_of(
        "edge",
        "what lies beyond the array: zeros, or what was there (Cain)",
        "zero",
        &["zero", "stale"],
    )
    .used_by(&[Use::Compile, Use::Run]),
    OptionInfo::text(
        "size",
        "elements of the array as WIDTHxHEIGHT; empty for those of the machine",
        "",
    )
    .used_by(&[Use::Compile, Use::Run, Use::Show]),
    OptionInfo::one_of("cost-model", "what instructions cost", "bus_0.19us", &Model::NAMES)
        .used_by(&[Use::Time, Use::Show]),
    OptionInfo::one_of("readout", "how results leave the array", "analogue", &Readout::NAMES)
        .used_by(&[Use::Compile, Use::Run, Use::Show]),
    OptionInfo::whole(
        "events",
        "most events of an image that --readout events gives; auto: one for each element",
        "auto",
        1..=crate::arch::MAX_ELEMENTS as i128,
    )
    .or("auto")
    .used_by(&[Use::Compile, Use::Run, Use::Show]),
    OptionInfo::one_of(
        "input-range",
        "raw: inputs as they are; half: halved, as cameras give 0 to 255",
        "raw",
        &["raw", "half"],
    )
    .used_by(&[Use::Run]),
    OptionInfo::file("noise", "TOML file with the errors of the device; it also gives --sigma")
        .used_by(&[Use::Compile, Use::Run]),
    OptionInfo::real(
        "noise-bus",
        "standard deviation of the noise of a write with one receiver; auto: that of --noise, else 0",
        "auto",
        0.0..=1e9,
    )
    .or("auto")
    .used_by(&[Use::Run]),
    OptionInfo::real("noise-bus2", "the same with two receivers", "auto", 0.0..=1e9)
        .or("auto")
        .used_by(&[Use::Run]),
    OptionInfo::real("noise-bus3", "the same with three and more", "auto", 0.0..=1e9)
        .or("auto")
        .used_by(&[Use::Run]),
    OptionInfo::real(
        "mismatch",
        "deviation of the share a register takes, fixed per element, for registers without a map; auto: \
         that of --noise, else 0",
        "auto",
        0.0..=1e9,
    )
    .or("auto")
    .used_by(&[Use::Run]),
    OptionInfo::real("noise-scale", "all errors of the device are so many times as large", "1", 0.0..=1e3)
        .used_by(&[Use::Run]),
    OptionInfo::whole(
        "seed",
        "which run the noise comes from, and which device unless --noise says; auto: that of --noise, else 0",
        "auto",
        0..=u64::MAX as i128,
    )
    .or("auto")
    .used_by(&[Use::Run]),
    OptionInfo::flag("saturate", "values stop at the saturation of the machine", false)
        .used_by(&[Use::Run]),
    OptionInfo::whole(
        "max-work",
        "what an image of `run`, and all of `verify`, may cost, in millions of units of about 1 ns",
        "4000",
        1..=1_000_000_000,
    )
    .used_by(&[Use::Run, Use::Verify]),
    OptionInfo::text("simulator-name", "name of the simulator in the JSS format", "s")
        .used_by(&[Use::Write]),
    OptionInfo::text("function", "name of the function in the C++ header", "kernel")
        .used_by(&[Use::Write]),
    OptionInfo::one_of("text-format", "how programs are written", "cain", &["cain", "jss"])
        .used_by(&[Use::Write]),
    OptionInfo::one_of("search", "how a program for kernels is found", "default", &Search::NAMES)
        .used_by(&[Use::Compile]),
    OptionInfo::one_of(
        "effort",
        "how hard the default search and AUKE's try",
        "default",
        &Effort::NAMES,
    )
    .used_by(&[Use::Compile]),
    OptionInfo::flag(
        "leftovers",
        "the default search uses what macros leave in further registers, such as -x/2 of div",
        false,
    )
    .used_by(&[Use::Compile]),
    OptionInfo::one_of(
        "objective",
        "what the default search makes least: instructions, bus steps, or noise of the outputs",
        "macros",
        &Objective::NAMES,
    )
    .used_by(&[Use::Compile]),
    OptionInfo::text(
        "sigma",
        "standard deviations of the noise of writes with one receiver, two, three and more, for --objective \
         and --pareto; empty for those of --noise, else 1 1 1",
        "",
    )
    .used_by(&[Use::Compile]),
    OptionInfo::flag(
        "pareto",
        "list the programs of which none is worse in instructions, bus steps and noise",
        false,
    )
    .used_by(&[Use::Compile]),
    OptionInfo::text(
        "range",
        "values of the images that enter, LO..HI, for which no register of any layer may saturate; empty \
         for no check",
        "",
    )
    .used_by(&[Use::Compile]),
    OptionInfo::flag("bus", "programs of bus steps instead of macros", false)
        .used_by(&[Use::Compile]),
    OptionInfo::one_of(
        "halving",
        "how --bus halves: quick, with the mismatch of the receivers, or corrected, in more steps",
        "quick",
        &Halving::NAMES,
    )
    .used_by(&[Use::Compile]),
    OptionInfo::text(
        "ops",
        "macros of compiled programs, but for AUKE's: all or basic (Cain's sets), every, or a list of mnemonics; empty for \
         all where the machine has them, else those it has",
        "",
    )
    .used_by(&[Use::Compile]),
    OptionInfo::whole("depth", "most halvings of weights", "auto", 0..=MAX_DEPTH as i128)
        .or("auto")
        .used_by(&[Use::Compile]),
    OptionInfo::real("error", "largest sum of errors of the weights of a layer", "auto", 0.0..=1e9)
        .or("auto")
        .used_by(&[Use::Compile]),
    OptionInfo::whole(
        "scale",
        "registers hold the values of a network times 2^SCALE; auto: as the numbers that IN brings in need it",
        "auto",
        -(MAX_SCALE as i128)..=MAX_SCALE as i128,
    )
    .or("auto")
    .used_by(&[Use::Compile]),
    OptionInfo::one_of(
        "bias",
        "where biases are added: array, driver (exactly, as results are read), or auto: on the array where it \
         goes on from there",
        "auto",
        &BiasPlace::NAMES,
    )
    .used_by(&[Use::Compile]),
    OptionInfo::text("input-registers", "registers of the input channels; empty for any", "")
        .used_by(&[Use::Compile]),
    OptionInfo::text("output-registers", "registers of the results; empty for any", "")
        .used_by(&[Use::Compile]),
    OptionInfo::text("registers", "registers that programs may use; empty for all", "")
        .used_by(&[Use::Compile]),
    OptionInfo::one_of(
        "mode",
        "which registers compute",
        "analogue",
        &["analogue", "digital", "superpixel"],
    )
    .used_by(&[Use::Compile]),
    OptionInfo::whole("bits", "bits of a number in digital mode", "auto", 1..=32)
        .or("auto")
        .used_by(&[Use::Compile]),
    OptionInfo::text(
        "layout",
        "where the bits of numbers are in digital and super-pixel mode: JSON, the fields of Cain's \
         pairGen with inputs, outputs and registers",
        "",
    )
    .used_by(&[Use::Compile]),
    OptionInfo::whole(
        "search-graph",
        "with --search cain: how many of its first nodes the passes search.dot and search.svg show \
         (--dump-after); auto: 50",
        "auto",
        1..=MAX_GRAPH as i128,
    )
    .or("auto")
    .used_by(&[Use::Compile]),
    OptionInfo::text("cain", "settings of Cain's search: JSON, an object of dotted names and texts", "")
        .used_by(&[Use::Compile]),
];

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
    const NAMES: [&'static str; 3] = ["auto", "array", "driver"];

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

/// Words between commas and blanks.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ']).filter(|word| !word.is_empty())
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

/// What the noise file says, if there is one, for an array of so many columns and rows.
fn of_file(
    options: &Options,
    arch: &ScampArch,
    (width, height): (usize, usize),
) -> Result<Option<Noise>> {
    let path = options.get("noise");
    (!path.is_empty()).then(|| read_noise(path, arch, (height, width))).transpose()
}

/// The errors of the device: those of the noise file, where options do not say otherwise.
fn noise(options: &Options, arch: &ScampArch, size: (usize, usize)) -> Result<Option<Noise>> {
    let mut noise = of_file(options, arch, size)?.unwrap_or_default();
    for (name, write) in
        ["noise-bus", "noise-bus2", "noise-bus3"].into_iter().zip(&mut noise.writes)
    {
        write.sigma = options.real_or(name).unwrap_or(write.sigma);
    }
    noise.mismatch.sigma = options.real_or("mismatch").unwrap_or(noise.mismatch.sigma);
    noise.seed = options.whole_or("seed").unwrap_or(noise.seed);
    noise.scale(options.real("noise-scale"));
    Ok((!noise.is_none()).then_some(noise))
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

fn edge(options: &Options) -> Edge {
    if options.get("edge") == "stale" { Edge::Stale } else { Edge::Zero }
}

/// The values of the options.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) fix: bool,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) settings: Settings,
    pub(crate) model: Model,
    pub(crate) readout: Readout,
    pub(crate) half: bool,
    pub(crate) simulator: String,
    pub(crate) function: String,
    /// Programs are written for a simulator unless another kind is asked for.
    pub(crate) jss: bool,
}

fn wrong(name: &str, value: &str, expected: &str) -> Diagnostic {
    Diagnostic::usage("Q5013", format!("option {name} is {value:?}, expected {expected}"))
}

fn size(text: &str, arch: &ScampArch) -> Result<(usize, usize)> {
    if text.is_empty() {
        return Ok((arch.width, arch.height));
    }
    let parts = text.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    let legal = |(w, h): &(usize, usize)| {
        let count = (*w as u64).saturating_mul(*h as u64);
        (1..=crate::arch::MAX_ELEMENTS).contains(&count)
    };
    parts.filter(legal).ok_or_else(|| wrong("size", text, "WIDTHxHEIGHT such as 256x256"))
}

fn word(options: &Options, name: &str) -> Result<String> {
    let text = options.get(name);
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_word.then(|| text.to_owned()).ok_or_else(|| wrong(name, text, "a name"))
}

/// How results leave an array of so many elements.
fn readout(options: &Options, elements: usize) -> Result<Readout> {
    let (name, events) = (options.get("readout"), options.whole_or("events"));
    let contradiction = if events.is_some() && name != "events" {
        Some("option events does nothing without --readout events")
    } else if options.get("mode") != "analogue" && name != "analogue" {
        Some("option readout does nothing beside option mode: bits of numbers are read")
    } else {
        None
    };
    match contradiction {
        Some(message) => Err(Diagnostic::invalid("Q5055", message).help("leave one of them out")),
        None => Ok(Readout::from_name(name, events.unwrap_or(elements).min(elements))),
    }
}

impl Chosen {
    /// # Errors
    /// `Q5013` for a value that means nothing, `Q5055` for options that contradict each other.
    pub(crate) fn new(options: &Options, arch: &ScampArch) -> Result<Chosen> {
        let (width, height) = size(options.get("size"), arch)?;
        let settings = Settings {
            edge: edge(options),
            noise: noise(options, arch, (width, height))?,
            saturation: options.flag("saturate").then_some(arch.saturation),
            work: WorkLimit(1_000_000 * options.whole::<u64>("max-work")),
        };
        Ok(Chosen {
            fix: options.flag("fix"),
            width,
            height,
            settings,
            model: Model::from_name(options.get("cost-model")),
            readout: readout(options, width.saturating_mul(height))?,
            half: options.get("input-range") == "half",
            simulator: word(options, "simulator-name")?,
            function: word(options, "function")?,
            jss: options.get("text-format") == "jss",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_contract::ArchSource;

    #[test]
    fn the_default_limit_is_the_one_of_the_library() {
        let options = Options::new(OPTIONS, &[]).unwrap();
        let chosen = Chosen::new(&options, &ScampArch::from_source(&ArchSource::Default).unwrap());
        assert_eq!(chosen.unwrap().settings.work, WorkLimit::default());
    }
}
