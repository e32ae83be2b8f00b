//! Machines of alkaid: `{"meta":"ALIRFSM","spec_version":4,"fsm":{"logic":…,"conns":…}}`. Programs by
//! name, and connections between signals, of which some are registers.
//! Facts: `alkaid` (`docs/bibliography.md`), and files that its `to_pipeline` and `FSM` wrote.
//!
//! A straight line from one input to one output is a pipeline. Which signals of it are registers
//! says how long it takes and not what it computes; a pipeline in memory has one at every boundary.
//! Everything else becomes one program with registers.

mod choices;
mod machine;

use super::json::{Json, python_float};
use super::read::{Reader, stages_within_limit};
use crate::program::{Pipeline, Program, places};
use crate::simulate::quantised;
use crate::verify::{Rules, verify};
use quincunx_diag::{Diagnostic, Result, any_error};
use quincunx_num::{Dyadic, Kif};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Write as _};
use std::ops::Range;

/// Programs and connections, as they are in the file.
pub(super) struct Fsm {
    logic: BTreeMap<String, Program>,
    connections: Vec<Connection>,
}

/// A connection of two signals.
#[derive(Clone, Default)]
struct Connection {
    from: Signal,
    to: Signal,
    /// It passes numbers on only while this one is 1.
    enable: Option<Signal>,
    /// What it passes on else.
    other: Option<Signal>,
}

/// A signal, or a part of one.
#[derive(Clone, Default)]
struct Signal {
    name: String,
    is_port: bool,
    is_register: bool,
    types: Vec<Kif>,
    /// What a register starts with, where the file says it.
    start: Option<Vec<f64>>,
    /// While this one is 1, a register takes what it starts with.
    reset: Option<Box<Signal>>,
    /// The first step in which it holds what it should.
    first: i128,
    /// Which of its numbers are meant.
    part: Range<usize>,
    /// What cannot be read, if the file asks for it.
    extra: Option<&'static str>,
}

impl Reader {
    /// The value of `"fsm"`.
    pub(super) fn fsm(&mut self, json: &mut Json<'_>) -> Result<Fsm> {
        let mut fsm = Fsm { logic: BTreeMap::new(), connections: Vec::new() };
        json.object(|json, key| match key {
            "logic" => json.object(|json, name| {
                json.expect(b'[')?;
                json.expect(b'[')?;
                let program = self.program(json)?;
                fsm.logic.insert(name.to_owned(), program);
                stages_within_limit(json, fsm.logic.len())
            }),
            "conns" => json.array(|json| {
                fsm.connections.push(connection(json)?);
                Ok(())
            }),
            _ => json.skip(),
        })?;
        Ok(fsm)
    }
}

fn connection(json: &mut Json<'_>) -> Result<Connection> {
    let mut connection = Connection::default();
    json.object(|json, key| {
        match key {
            "src" => connection.from = signal(json)?,
            "dst" => connection.to = signal(json)?,
            "enable_if" => connection.enable = optional(json)?,
            "alt_src" => connection.other = optional(json)?,
            _ => json.skip()?,
        }
        Ok(())
    })?;
    Ok(connection)
}

/// `null`, or a signal.
fn optional(json: &mut Json<'_>) -> Result<Option<Signal>> {
    if json.null() { Ok(None) } else { signal(json).map(Some) }
}

/// `[name,exposed,[[sign,integer,fraction],…],reset by,reset to,register,schedule,mode,attributes,
/// view,bias]`. What a register is reset to is also what it starts with.
fn signal(json: &mut Json<'_>) -> Result<Signal> {
    signal_in(json, true)
}

/// A signal whose reset may be read; that of a reset is not, so that files cannot nest them deeply.
fn signal_in(json: &mut Json<'_>, may_reset: bool) -> Result<Signal> {
    let mut signal = Signal::default();
    json.expect(b'[')?;
    signal.name = json.string()?;
    json.expect(b',')?;
    signal.is_port = json.boolean()?;
    json.expect(b',')?;
    json.array(|json| {
        json.expect(b'[')?;
        let signed = json.boolean()?;
        json.expect(b',')?;
        let integer = json.int32()?;
        json.expect(b',')?;
        signal.types.push(Kif::new(signed, integer, json.int32()?));
        json.expect(b']')
    })?;
    json.expect(b',')?;
    if !json.null() {
        if may_reset {
            signal.reset = Some(Box::new(signal_in(json, false)?));
        } else {
            json.skip()?;
            signal.extra = Some("a reset that is reset");
        }
    }
    json.expect(b',')?;
    signal.start = floats(json)?;
    json.expect(b',')?;
    signal.is_register = json.boolean()?;
    json.expect(b',')?;
    match dense(json)? {
        Some(first) => signal.first = first,
        None => signal.extra = Some("a schedule with gaps"),
    }
    for _ in ["mode", "attributes"] {
        json.expect(b',')?;
        json.skip()?;
    }
    json.expect(b',')?;
    match part(json, signal.types.len())? {
        Some(part) => signal.part = part,
        None => signal.extra = Some("a part that is not there"),
    }
    json.expect(b',')?;
    if !json.null() {
        json.skip()?;
        signal.extra = Some("an index");
    }
    json.expect(b']')?;
    Ok(signal)
}

/// `null`, or numbers.
fn floats(json: &mut Json<'_>) -> Result<Option<Vec<f64>>> {
    let mut numbers = Vec::new();
    if json.null() {
        return Ok(None);
    }
    json.array(|json| {
        numbers.push(json.float()?);
        Ok(())
    })?;
    Ok(Some(numbers))
}

/// The first of the steps, if it holds a sample in every step from there on: `null` or
/// `[[first],1]`.
fn dense(json: &mut Json<'_>) -> Result<Option<i128>> {
    if json.null() {
        return Ok(Some(0));
    }
    json.expect(b'[')?;
    let toggles = json.integers(i64::MIN.into(), i64::MAX.into(), |step| step)?;
    json.expect(b',')?;
    let period = json.integer(i64::MIN.into(), i64::MAX.into())?;
    json.expect(b']')?;
    Ok(match toggles[..] {
        [first] if period == 1 => Some(first),
        _ => None,
    })
}

/// `null` for all numbers of a signal, or `[first,end]`, if there are such numbers.
fn part(json: &mut Json<'_>, count: usize) -> Result<Option<Range<usize>>> {
    if json.null() {
        return Ok(Some(0..count));
    }
    let view = json.integers(i64::MIN.into(), i64::MAX.into(), |bound| bound)?;
    let [first, end] = view[..] else { return Ok(None) };
    let part = usize::try_from(first).ok().zip(usize::try_from(end).ok());
    Ok(part
        .map(|(first, end)| first..end)
        .filter(|part| part.start <= part.end && part.end <= count))
}

impl Fsm {
    /// The programs in the order in which a number passes through them, or the one program that all
    /// are together; and warnings.
    ///
    /// # Errors
    /// `Q1068` where the connections drop bits, are not complete, or depend on more than every step
    /// gives; errors of programs with registers.
    pub(super) fn stages(mut self) -> Result<(Vec<Program>, Vec<Diagnostic>)> {
        for connection in &self.connections {
            self.check(connection)?;
        }
        self.resolve_choices()?;
        let Some(names) = self.line() else {
            let (program, warnings) = machine::program(&self)?;
            return Ok((vec![program], warnings));
        };
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        Ok((names.iter().filter_map(|name| self.logic.remove(name)).collect(), Vec::new()))
    }

    /// The names of the programs, if all signals are one line through all programs.
    fn line(&self) -> Option<Vec<&str>> {
        let mut rest = BTreeMap::new();
        for connection in self.connections.iter().filter(|connection| connection.is_whole()) {
            rest.insert(&*connection.from.name, connection);
        }
        if rest.len() < self.connections.len() {
            return None;
        }
        let mut at =
            &*self.connections.iter().find(|connection| connection.from.is_port)?.from.name;
        let mut names = Vec::new();
        loop {
            let to = &rest.remove(at)?.to;
            at = &to.name;
            if to.is_port {
                break;
            }
            if let Some(name) = self.program_at(at, "_inp") {
                names.push(name);
                at = rest.get_key_value(&*format!("INTERNAL_{name}_outp"))?.0;
            }
        }
        (rest.is_empty() && names.len() == self.logic.len()).then_some(names)
    }

    /// The program whose inputs or outputs a signal is.
    fn program_at(&self, signal: &str, end: &str) -> Option<&str> {
        let name = signal.strip_prefix("INTERNAL_")?.strip_suffix(end)?;
        self.logic.get_key_value(name).map(|(name, _)| &**name)
    }

    /// Error: `Q1068` where a connection does more than to pass on numbers in every step.
    fn check(&self, connection: &Connection) -> Result<()> {
        let Connection { from, to, .. } = connection;
        let refuse = |what| {
            let (from, to) = (shown(&from.name), shown(&to.name));
            Err(unfit(&format!("the connection of \"{from}\" to \"{to}\" has {what}")))
        };
        if let Some(what) = from.extra.or(to.extra) {
            return refuse(what);
        }
        if from.part.len() != to.part.len() {
            return refuse("parts of different lengths");
        }
        let program = |signal: &Signal, end| self.logic.get(self.program_at(&signal.name, end)?);
        let enters = program(to, "_inp").map(|program| enters(program, &to.types));
        let leaves = program(from, "_outp").map(|program| leaves(program, &from.types));
        if enters == Some(false) || leaves == Some(false) {
            return refuse("another type than the program");
        }
        let mut pairs = from.types[from.part.clone()].iter().zip(&to.types[to.part.clone()]);
        // A program takes the bits that it wants of a number.
        if enters.is_none() && !pairs.all(|(from, to)| holds(to, from)) {
            return refuse("a type that drops bits");
        }
        Ok(())
    }
}

impl Connection {
    /// True if it passes on all of a signal as it is.
    fn is_whole(&self) -> bool {
        let is_whole = |signal: &Signal| signal.part == (0..signal.types.len());
        is_whole(&self.from) && is_whole(&self.to) && self.from.types == self.to.types
    }
}

/// True when a type has all bits that another takes of a number.
fn has(signal: &Kif, own: &Kif) -> bool {
    let top = |kif: &Kif| places(kif.integer) + places(kif.signed);
    own.width() == 0 || (top(own) <= top(signal) && own.fraction <= signal.fraction)
}

/// True when a type has every value of another.
fn holds(signal: &Kif, own: &Kif) -> bool {
    let sign = if own.signed { signal.signed } else { true };
    own.width() == 0 || (sign && own.integer <= signal.integer && own.fraction <= signal.fraction)
}

/// True when a signal has all bits that a program takes of it.
fn enters(program: &Program, types: &[Kif]) -> bool {
    is_illegal(program) || fit(types, &program.input_types(), has)
}

/// True when a signal holds what a program gives.
fn leaves(program: &Program, types: &[Kif]) -> bool {
    is_illegal(program) || fit(types, &signal_types(program), holds)
}

fn fit(types: &[Kif], own: &[Kif], fits: fn(&Kif, &Kif) -> bool) -> bool {
    types.len() == own.len() && types.iter().zip(own).all(|(signal, own)| fits(signal, own))
}

/// What is wrong with it is said when it is verified.
fn is_illegal(program: &Program) -> bool {
    any_error(&verify(program, &Rules { values: false, ..Rules::EXECUTABLE }))
}

/// The types of the outputs of a program, where one that is always 0 has no bits.
fn signal_types(program: &Program) -> Vec<Kif> {
    let types = program.output_types();
    let pairs = program.outputs.iter().zip(types);
    pairs.map(|(output, kif)| output.source.map_or(Kif::ZERO, |_| kif)).collect()
}

fn shown(name: &str) -> String {
    name.chars().take(40).collect::<String>().escape_debug().to_string()
}

fn unfit(why: &str) -> Diagnostic {
    Diagnostic::unsupported("Q1068", format!("the ALIRFSM cannot be read: {why}"))
        .at_byte(0)
        .help("expected programs, wires, and registers that take a number in every step")
}

/// The member `"fsm"` of a pipeline whose stages are written already, with a register at every
/// boundary.
pub(super) fn write(pipeline: &Pipeline, stages: &[String]) -> String {
    let count = stages.len();
    let mut out = String::from("{\"logic\":{");
    for (index, stage) in stages.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(out, "{comma}\"logic{index}\":{stage}");
    }
    let inputs = pipeline.stages.first().map(Program::input_types).unwrap_or_default();
    let outputs = pipeline.stages.iter().map(signal_types);
    let types: Vec<Vec<Kif>> = std::iter::once(inputs).chain(outputs).collect();
    let port = |name: &str, is_register: bool, at: usize, mode: &str| {
        let step = if at == 0 { 0 } else { count.saturating_add(1) };
        let schedule = format!("[[{step}],1]");
        Written { is_register, schedule, ..Written::of(name, mode, &types[at]) }.to_string()
    };
    let inner = |name: &str, is_register: bool, at: usize| {
        Written { is_register, ..Written::of(name, "rw", &types[at]) }.to_string()
    };
    let register = |stage: usize| match stage {
        0 => inner("model_inp_reg", true, 0),
        _ => inner(&format!("stage{stage}_inp"), true, stage),
    };
    let mut pairs: Vec<(String, String)> = (0..count)
        .map(|stage| (register(stage), inner(&format!("INTERNAL_logic{stage}_inp"), false, stage)))
        .collect();
    pairs.push((port("model_inp", false, 0, "r"), register(0)));
    for (stage, program) in (1..=count).zip(0_usize..) {
        let from = inner(&format!("INTERNAL_logic{program}_outp"), false, stage);
        let to = if stage == count { port("model_out", true, stage, "w") } else { register(stage) };
        pairs.push((from, to));
    }
    let mut order = vec!["\"model_inp\"".to_owned(), "\"model_inp_reg\"".to_owned()];
    for stage in 0..count {
        if stage > 0 {
            order.push(format!("\"stage{stage}_inp\""));
        }
        order.push(format!("\"INTERNAL_logic{stage}_inp\",\"INTERNAL_logic{stage}_outp\""));
    }
    order.push("\"model_out\"".to_owned());
    let _ = write!(out, "}},{}}}", connected(&pairs, &order));
    out
}

/// The member `"fsm"` of a program with registers, which is written already. A register has the bits
/// that it is given and those that are read of it.
pub(super) fn write_machine(program: &Program, written: &str) -> String {
    let (inputs, outputs) = program.ends();
    let (taken, given) = (program.input_types(), signal_types(program));
    let pairs = given[outputs..].iter().zip(&taken[inputs..]);
    let held: Vec<Kif> = pairs.map(|(a, b)| union(*a, *b)).collect();
    let start = program.state.iter().zip(&taken[inputs..]).map(|(value, kif)| start(*value, *kif));
    let start: Vec<String> = start.map(|value| python_float(value.unwrap_or(0.0))).collect();
    let start = format!("[{}]", start.join(","));
    let inp = |part| Written { part, ..Written::of("INTERNAL_logic0_inp", "rw", &taken) };
    let outp = |part| Written { part, ..Written::of("INTERNAL_logic0_outp", "rw", &given) };
    let state =
        Written { is_register: true, start: start.clone(), ..Written::of("state", "rw", &held) };
    let schedule = |step: u8| format!("[[{step}],1]");
    let model_inp =
        Written { schedule: schedule(0), ..Written::of("model_inp", "r", &taken[..inputs]) };
    let model_out = Written {
        is_register: true,
        schedule: schedule(1),
        ..Written::of("model_out", "w", &given[..outputs])
    };
    let pairs = [
        (model_inp, inp(0..inputs)),
        (state.clone(), inp(inputs..taken.len())),
        (outp(0..outputs), model_out),
        (outp(outputs..given.len()), state),
    ];
    let there = pairs.iter().filter(|(from, _)| !from.part.is_empty());
    let pairs: Vec<(String, String)> =
        there.map(|(from, to)| (from.to_string(), to.to_string())).collect();
    let order = ["model_inp", "state", "INTERNAL_logic0_inp", "INTERNAL_logic0_outp", "model_out"];
    let order = order.map(|name| format!("\"{name}\""));
    format!("{{\"logic\":{{\"logic0\":{written}}},{}}}", connected(&pairs, &order))
}

/// The smallest type that holds two.
fn union(a: Kif, b: Kif) -> Kif {
    match (a.width(), b.width()) {
        (_, 0) => a,
        (0, _) => b,
        _ => Kif::new(a.signed || b.signed, a.integer.max(b.integer), a.fraction.max(b.fraction)),
    }
}

/// What a register of a type starts with, if a file gives a number; `None` if it is none.
fn start(value: f64, kif: Kif) -> Option<f64> {
    let value = quantised(&Dyadic::from_f64(value)?, 0, kif);
    Some(Dyadic::new(value, kif.fraction.saturating_neg()).to_f64())
}

/// The members `"conns"` and `"signal_order"`.
fn connected(pairs: &[(String, String)], order: &[String]) -> String {
    let connection = |(from, to): &(String, String)| {
        format!("{{\"src\":{from},\"dst\":{to},\"enable_if\":null,\"alt_src\":null}}")
    };
    let connections: Vec<String> = pairs.iter().map(connection).collect();
    let (connections, order) = (connections.join(","), order.join(","));
    format!("\"conns\":[{connections}],\"signal_order\":[{order}]")
}

/// A signal, or a part of one, as it is written. Only ports are read or written alone.
#[derive(Clone)]
struct Written<'a> {
    name: &'a str,
    mode: &'a str,
    types: &'a [Kif],
    start: String,
    is_register: bool,
    schedule: String,
    part: Range<usize>,
}

impl<'a> Written<'a> {
    /// All of a wire.
    fn of(name: &'a str, mode: &'a str, types: &'a [Kif]) -> Written<'a> {
        let null = || "null".to_owned();
        let (is_register, part) = (false, 0..types.len());
        Written { name, mode, types, start: null(), is_register, schedule: null(), part }
    }
}

impl Display for Written<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Written { name, mode, types, start, is_register, schedule, part } = self;
        let kif = |k: &Kif| format!("[{},{},{}]", k.signed, k.integer, k.fraction);
        let kifs: Vec<String> = types.iter().map(kif).collect();
        let (is_port, kifs, Range { start: low, end }) = (*mode != "rw", kifs.join(","), part);
        write!(
            f,
            "[\"{name}\",{is_port},[{kifs}],null,{start},{is_register},{schedule},\"{mode}\",null,[{low},{end}],null]"
        )
    }
}
