//! Pipelines of alkaid: `{"meta":"ALIRFSM","spec_version":4,"fsm":{"logic":…,"conns":…}}`. Programs by
//! name, and connections between signals, of which some are registers.
//! Facts: `alkaid` (`docs/bibliography.md`), and files that its `to_pipeline` wrote.
//!
//! A straight line from one input to one output is a pipeline. Which signals of it are registers
//! says how long it takes and not what it computes; a pipeline in memory has one at every boundary.
//! Everything else has a state, which programs here do not have.

use super::json::Json;
use super::read::{Reader, stages_within_limit};
use crate::program::{Pipeline, Program, places};
use crate::verify::{Rules, verify};
use quincunx_diag::{Diagnostic, Result, any_error};
use quincunx_num::Kif;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Programs and connections, as they are in the file.
pub(super) struct Fsm {
    logic: BTreeMap<String, Program>,
    connections: Vec<Connection>,
}

/// A connection of two signals.
#[derive(Default)]
struct Connection {
    from: Signal,
    to: Signal,
    /// It depends on another signal.
    is_conditional: bool,
}

/// A signal, or a part of one.
#[derive(Default)]
struct Signal {
    name: String,
    is_port: bool,
    types: Vec<Kif>,
    /// What a line of programs does not need, if the file asks for it.
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
            _ => connection.is_conditional |= !skip_null(json)?,
        }
        Ok(())
    })?;
    Ok(connection)
}

/// Passes over a value; true if it is `null`.
fn skip_null(json: &mut Json<'_>) -> Result<bool> {
    let is_null = json.null();
    if !is_null {
        json.skip()?;
    }
    Ok(is_null)
}

/// `[name,exposed,[[sign,integer,fraction],…],reset by,reset to,register,schedule,mode,attributes,
/// view,bias]`.
fn signal(json: &mut Json<'_>) -> Result<Signal> {
    json.expect(b'[')?;
    let name = json.string()?;
    json.expect(b',')?;
    let is_port = json.boolean()?;
    json.expect(b',')?;
    let mut types = Vec::new();
    json.array(|json| {
        json.expect(b'[')?;
        let signed = json.boolean()?;
        json.expect(b',')?;
        let integer = json.int32()?;
        json.expect(b',')?;
        types.push(Kif::new(signed, integer, json.int32()?));
        json.expect(b']')
    })?;
    let mut extra = None;
    let mut note = |is_there: bool, what| {
        if is_there {
            extra = extra.or(Some(what));
        }
    };
    for what in ["a reset", "a reset"] {
        json.expect(b',')?;
        note(!skip_null(json)?, what);
    }
    json.expect(b',')?;
    json.boolean()?;
    json.expect(b',')?;
    note(!is_dense(json)?, "a schedule with gaps");
    for _ in ["mode", "attributes"] {
        json.expect(b',')?;
        json.skip()?;
    }
    json.expect(b',')?;
    note(!is_whole(json, types.len())?, "a part");
    json.expect(b',')?;
    note(!skip_null(json)?, "an index");
    json.expect(b']')?;
    Ok(Signal { name, is_port, types, extra })
}

/// `null`, or `[[first],1]`: a sample in every step from the first on.
fn is_dense(json: &mut Json<'_>) -> Result<bool> {
    if json.null() {
        return Ok(true);
    }
    json.expect(b'[')?;
    let toggles = json.integers(i64::MIN.into(), i64::MAX.into(), |_| ())?;
    json.expect(b',')?;
    let period = json.integer(i64::MIN.into(), i64::MAX.into())?;
    json.expect(b']')?;
    Ok(toggles.len() == 1 && period == 1)
}

/// `null`, or `[0,count]`: all numbers of a signal.
fn is_whole(json: &mut Json<'_>, count: usize) -> Result<bool> {
    if json.null() {
        return Ok(true);
    }
    let view = json.integers(i64::MIN.into(), i64::MAX.into(), |bound| bound)?;
    Ok(view == [0, count as i128])
}

impl Fsm {
    /// The programs in the order in which a number passes through them.
    ///
    /// # Errors
    /// `Q1068` where the connections are no straight line from an input to an output, or drop bits.
    pub(super) fn pipeline(mut self) -> Result<Vec<Program>> {
        let mut rest = BTreeMap::new();
        let mut start = None;
        for connection in self.connections {
            connection.check()?;
            if connection.from.is_port && start.is_none() {
                start = Some(connection);
            } else if let Some(other) = rest.insert(connection.from.name.clone(), connection) {
                return Err(not_a_pipeline(&other.from, &other.to, "another beside it"));
            }
        }
        let Some(mut connection) = start else { return Err(no_line("no input is connected")) };
        let mut stages: Vec<Program> = Vec::new();
        loop {
            if let Some(stage) = stages.last() {
                leaves(stage, &connection)?;
            }
            if connection.to.is_port {
                break;
            }
            let inner = connection.to.name.strip_prefix("INTERNAL_");
            let name = inner.and_then(|name| name.strip_suffix("_inp"));
            let next = match name.and_then(|name| Some((name, self.logic.remove(name)?))) {
                Some((name, stage)) => {
                    enters(&stage, &connection)?;
                    stages.push(stage);
                    format!("INTERNAL_{name}_outp")
                }
                None => connection.to.name,
            };
            connection = rest.remove(&next).ok_or_else(|| {
                no_line(&format!("nothing reads the signal \"{}\"", shown(&next)))
            })?;
        }
        match (rest.first_key_value(), self.logic.first_key_value()) {
            (Some((_, Connection { from, to, .. })), _) => {
                Err(not_a_pipeline(from, to, "a place beside the line"))
            }
            (None, Some((name, _))) => {
                Err(no_line(&format!("nothing connects the program \"{}\"", shown(name))))
            }
            (None, None) if stages.is_empty() => Err(no_line("it has no program")),
            (None, None) => Ok(stages),
        }
    }
}

impl Connection {
    /// Error: `Q1068` where it does more than to pass on all numbers in every step.
    fn check(&self) -> Result<()> {
        let Connection { from, to, is_conditional } = self;
        let condition = is_conditional.then_some("a condition");
        let types = (from.types != to.types).then_some("two types");
        match from.extra.or(to.extra).or(condition).or(types) {
            Some(what) => Err(not_a_pipeline(from, to, what)),
            None => Ok(()),
        }
    }
}

/// What a signal holds must have all bits that a program takes of it.
fn enters(stage: &Program, connection: &Connection) -> Result<()> {
    if any_error(&verify(stage, &Rules { values: false, ..Rules::EXECUTABLE })) {
        return Ok(());
    }
    let top = |kif: &Kif| places(kif.integer) + places(kif.signed);
    let has = |(signal, own): (&Kif, &Kif)| {
        own.width() == 0 || (top(own) <= top(signal) && own.fraction <= signal.fraction)
    };
    let inputs = stage.input_types();
    let types = &connection.from.types;
    if types.len() == inputs.len() && types.iter().zip(&inputs).all(has) {
        return Ok(());
    }
    Err(not_a_pipeline(&connection.from, &connection.to, "another type than the program"))
}

/// A signal must hold what a program gives.
fn leaves(stage: &Program, connection: &Connection) -> Result<()> {
    if any_error(&verify(stage, &Rules { values: false, ..Rules::EXECUTABLE })) {
        return Ok(());
    }
    let types = &connection.from.types;
    let holds = |(signal, own): (&Kif, &Kif)| {
        let sign = if own.signed { signal.signed } else { true };
        let bits = own.integer <= signal.integer && own.fraction <= signal.fraction;
        own.width() == 0 || (sign && bits)
    };
    let outputs = signal_types(stage);
    if types.len() == outputs.len() && types.iter().zip(&outputs).all(holds) {
        return Ok(());
    }
    Err(not_a_pipeline(&connection.from, &connection.to, "another type than the program"))
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

fn not_a_pipeline(from: &Signal, to: &Signal, what: &str) -> Diagnostic {
    let (from, to) = (shown(&from.name), shown(&to.name));
    no_line(&format!("the connection of \"{from}\" to \"{to}\" has {what}"))
}

fn no_line(why: &str) -> Diagnostic {
    Diagnostic::unsupported("Q1068", format!("the ALIRFSM is no pipeline: {why}"))
        .at_byte(0)
        .help("expected programs one after the other, as alkaid's to_pipeline writes them")
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
        written(name, true, &types[at], is_register, &format!("[[{step}],1]"), mode)
    };
    let inner = |name: &str, is_register: bool, at: usize| {
        written(name, false, &types[at], is_register, "null", "rw")
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
    let connections: Vec<String> = pairs
        .iter()
        .map(|(from, to)| {
            format!("{{\"src\":{from},\"dst\":{to},\"enable_if\":null,\"alt_src\":null}}")
        })
        .collect();
    let mut order = vec!["\"model_inp\"".to_owned(), "\"model_inp_reg\"".to_owned()];
    for stage in 0..count {
        if stage > 0 {
            order.push(format!("\"stage{stage}_inp\""));
        }
        order.push(format!("\"INTERNAL_logic{stage}_inp\",\"INTERNAL_logic{stage}_outp\""));
    }
    order.push("\"model_out\"".to_owned());
    let (connections, order) = (connections.join(","), order.join(","));
    let _ = write!(out, "}},\"conns\":[{connections}],\"signal_order\":[{order}]}}");
    out
}

fn written(
    name: &str,
    is_port: bool,
    types: &[Kif],
    is_register: bool,
    schedule: &str,
    mode: &str,
) -> String {
    let kifs: Vec<String> =
        types.iter().map(|k| format!("[{},{},{}]", k.signed, k.integer, k.fraction)).collect();
    let (kifs, count) = (kifs.join(","), types.len());
    format!(
        "[\"{name}\",{is_port},[{kifs}],null,null,{is_register},{schedule},\"{mode}\",null,[0,{count}],null]"
    )
}
