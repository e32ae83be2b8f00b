//! Machine code. The opcodes are public (`qiming` in `docs/bibliography.md`), all else is ours
//! ("QNX-NPU-1") and not what the chip reads.
//!
//! A file is the letters `QNPU`, the version, the number of instructions (both 32 bits, little
//! endian), and 16 bytes per instruction. What machine code has no room for may follow as JSON, the
//! side section: maps, times, and numbers, lists and member names that do not come back from a word.

#![deny(clippy::arithmetic_side_effects)]

use crate::arch::NpuArch;
use crate::isa::{Inst, Number, Queue, Queues, TABLE};
use crate::ports::NamedTensor;
use crate::program::{Indices, Line, Map, Program, Spelling};
use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::{Bits, Kind, OperandValue as _, RawInst};
use serde::{Deserialize, Serialize};

/// Ending of files with the DRAM behind a base register.
pub(crate) const DATA: &str = ".dram.bin";

const MAGIC: &[u8] = b"QNPU";
const VERSION: u32 = 1;
/// Bytes of magic, version and count.
const HEADER: usize = 12;
/// Bytes of an instruction.
pub const WORD: usize = 16;

/// What follows the words.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Side {
    /// Per line: `[slyr, clyr, s_flyr, c_flyr, wkl, tile]`, or nothing where the text elides it.
    maps: Vec<Option<MapRecord>>,
    /// Per line of a trace: start and end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    times: Vec<(u64, u64)>,
    /// Line, operand and text of numbers that are not those of a word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    numbers: Vec<(usize, usize, String)>,
    /// Line, operand and entries of lists in another order than that of the mask.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    queues: Vec<(usize, usize, Vec<String>)>,
    /// Line, operand and name of members that the table does not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    members: Vec<(usize, usize, String)>,
    /// What belongs to the program besides its lines.
    #[serde(default, skip_serializing_if = "Attached::is_empty")]
    attached: Attached,
}

/// What belongs to a compiled program besides its lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attached {
    /// Inputs and outputs in DRAM, by name.
    pub tensors: Vec<NamedTensor>,
    /// Files with the DRAM behind a base: base and name of the file.
    pub data: Vec<(u8, String)>,
}

impl Attached {
    /// True when there is nothing.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty() && self.data.is_empty()
    }
}

type MapRecord = (i32, Indices2, i32, Indices2, i32, Option<i32>);
type Indices2 = Vec<i32>;

/// True if the bytes begin like machine code.
pub fn recognises(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Writes machine code, with the side section if `side`.
///
/// # Errors
/// `Q2103` for a value that its field cannot hold; `Q2122` when the addresses of the architecture
/// are too wide.
pub fn write(program: &Program, arch: &NpuArch, side: bool) -> Result<Vec<u8>> {
    write_with(program, arch, side.then(Attached::default).as_ref())
}

/// As [`write()`], with a side section if anything is attached to it.
///
/// # Errors
/// As [`write()`].
pub fn write_with(program: &Program, arch: &NpuArch, side: Option<&Attached>) -> Result<Vec<u8>> {
    let layout = arch.layout()?;
    let mut out = Vec::with_capacity(end_of(program.lines.len()));
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    let count = u32::try_from(program.lines.len())
        .map_err(|_| Diagnostic::unsupported("Q4013", "the program has more than 2^32 lines"))?;
    out.extend_from_slice(&count.to_le_bytes());
    for (number, line) in (1..).zip(&program.lines) {
        let place = |problem: Diagnostic| problem.with_note(format!("in line {number}"));
        let word = TABLE.encode(&line.inst.to_raw(), &layout).map_err(place)?;
        out.extend_from_slice(&word.to_le_bytes()[..WORD]);
    }
    if let Some(attached) = side {
        let side = Side { attached: attached.clone(), ..side_of(program) };
        let text = serde_json::to_string(&side);
        out.extend_from_slice(text.map_err(|error| Diagnostic::bug(error.to_string()))?.as_bytes());
    }
    Ok(out)
}

fn side_of(program: &Program) -> Side {
    let mut side = Side::default();
    let spelling = |s: &Spelling| (s.line, s.operand, s.member.clone());
    side.members = program.spellings.iter().map(spelling).collect();
    side.times = program.lines.iter().filter_map(|line| line.time).collect();
    for (index, line) in program.lines.iter().enumerate() {
        side.maps.push(line.map.as_ref().map(|map| {
            let (clyr, c_flyr) = (map.clyr.to_vec(), map.c_flyr.to_vec());
            (map.slyr, clyr, map.s_flyr, c_flyr, map.wkl, map.tile)
        }));
        let raw = line.inst.to_raw();
        for (operand, (spec, &value)) in
            line.inst.spec().operands.iter().zip(&raw.values).enumerate()
        {
            match restored(spec.kind, value) {
                Some(Restored::Number(number)) => {
                    side.numbers.push((index, operand, format!("{number:?}")));
                }
                Some(Restored::Queues(list)) => {
                    let names = list.iter().map(|queue| queue.name().to_owned()).collect();
                    side.queues.push((index, operand, names));
                }
                None => {}
            }
        }
    }
    side
}

/// A value that a word does not give back.
enum Restored {
    Number(Number),
    Queues(Queues),
}

fn restored(kind: Kind, value: i128) -> Option<Restored> {
    if is_number(kind) {
        let number = Number::from_raw(value)?;
        let back = Number::real(f64::from(number.single()));
        return (back != Some(number)).then_some(Restored::Number(number));
    }
    if is_list(kind) {
        let list = Queues::from_raw(value)?;
        return (Queues::of_mask(list.mask()) != list).then_some(Restored::Queues(list));
    }
    None
}

fn is_number(kind: Kind) -> bool {
    // Of all custom kinds only numbers take a whole number that is not a list.
    matches!(kind, Kind::Custom(custom) if (custom.legal)(Number::whole(0).to_raw()))
}

fn is_list(kind: Kind) -> bool {
    let Kind::Custom(custom) = kind else { return false };
    let all = Queue::ALL.into_iter().collect::<Queues>().to_raw();
    (custom.legal)(all) && !is_number(kind)
}

/// Where the words of so many lines end.
fn end_of(lines: usize) -> usize {
    lines.saturating_mul(WORD).saturating_add(HEADER)
}

/// Reads machine code.
///
/// # Errors
/// `Q4014` for another header or length, `Q4015` for a side section that does not fit; whatever
/// decoding says of a word, with its place.
pub fn read(bytes: &[u8], arch: &NpuArch) -> Result<Program> {
    read_with(bytes, arch).map(|(program, _)| program)
}

/// The names of the files that belong to machine code; none where it cannot be read.
pub fn companions(bytes: &[u8]) -> Vec<String> {
    let Some((&header, rest)) = bytes.split_first_chunk::<HEADER>().filter(|_| recognises(bytes))
    else {
        return Vec::new();
    };
    let [.., e, f, g, h] = header;
    let words = (u32::from_le_bytes([e, f, g, h]) as usize).saturating_mul(WORD);
    let side: Option<Side> = rest.get(words..).and_then(|side| serde_json::from_slice(side).ok());
    side.map_or_else(Vec::new, |side| {
        side.attached.data.into_iter().map(|(_, name)| name).collect()
    })
}

/// As [`read`], with what is attached to the program.
///
/// # Errors
/// As [`read`].
pub fn read_with(bytes: &[u8], arch: &NpuArch) -> Result<(Program, Attached)> {
    let wrong = |message: String| Diagnostic::invalid("Q4014", message);
    let Some((&header, rest)) = bytes.split_first_chunk::<HEADER>().filter(|_| recognises(bytes))
    else {
        return Err(wrong("expected machine code, which begins with QNPU".to_owned()).at_byte(0));
    };
    let [.., a, b, c, d, e, f, g, h] = header;
    let (version, count) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    if version != VERSION {
        return Err(wrong(format!("version is {version}, expected {VERSION}")).at_byte(4));
    }
    let count = count as usize;
    let Some((words, side)) = rest.split_at_checked(count.saturating_mul(WORD)) else {
        let message =
            format!("{count} instructions are announced, {} are there", rest.len() / WORD);
        return Err(wrong(message).at_byte(8));
    };
    let layout = arch.layout()?;
    let mut program = Program::default();
    for (index, word) in words.chunks_exact(WORD).enumerate() {
        let place = |problem: Diagnostic| problem.at_byte(end_of(index) as u64);
        let bits = Bits::from_le_bytes(word).unwrap_or(Bits::ZERO);
        let (raw, _) = TABLE.decode(&bits, &layout, false).map_err(place)?;
        let inst = Inst::from_raw(&raw).ok_or_else(|| Diagnostic::bug("a decoded value"))?;
        program.lines.push(Line { inst, map: None, time: None });
    }
    let mut attached = Attached::default();
    if !side.is_empty() {
        let place = |problem: Diagnostic| problem.at_byte(end_of(count) as u64);
        let mut side: Side = serde_json::from_slice(side)
            .map_err(|error| place(Diagnostic::invalid("Q4015", error.to_string())))?;
        attached = std::mem::take(&mut side.attached);
        apply(side, &mut program).map_err(|what| {
            place(Diagnostic::invalid("Q4015", format!("the side section does not fit: {what}")))
        })?;
    }
    Ok((program, attached))
}

/// Puts the side section where it belongs; the error says what does not fit.
fn apply(side: Side, program: &mut Program) -> std::result::Result<(), String> {
    let lines = program.lines.len();
    if side.maps.len() != lines || !(side.times.is_empty() || side.times.len() == lines) {
        return Err(format!("maps and times are not those of {lines} lines"));
    }
    for (line, map) in program.lines.iter_mut().zip(side.maps) {
        line.map = map.map(|(slyr, clyr, s_flyr, c_flyr, wkl, tile)| {
            let (clyr, c_flyr) = (Indices::from_vec(clyr), Indices::from_vec(c_flyr));
            Map { slyr, clyr, s_flyr, c_flyr, wkl, tile }
        });
    }
    for (line, time) in program.lines.iter_mut().zip(side.times) {
        if time.0 > time.1 {
            return Err("a line ends before it starts".to_owned());
        }
        line.time = Some(time);
    }
    for (line, operand, text) in side.numbers {
        let value =
            Number::parse(text.as_bytes()).ok_or_else(|| format!("{text:?} is not a number"))?;
        let same = |old: i128| {
            let old = Number::from_raw(old).map(Number::single);
            old == Some(value.single())
        };
        replace(program, line, operand, is_number, &same, value.to_raw())?;
    }
    for (line, operand, names) in side.queues {
        let queue = |name: &String| Queue::from_name(name.as_bytes());
        let list: Option<Queues> = names.iter().map(queue).collect();
        let list = list.filter(|list| list.len() == names.len());
        let list = list.ok_or_else(|| format!("{names:?} is not a list of queues"))?;
        let same = |old: i128| Queues::from_raw(old).is_some_and(|old| old.mask() == list.mask());
        replace(program, line, operand, is_list, &same, list.to_raw())?;
    }
    let mut last = None;
    for (line, operand, member) in side.members {
        let kind = program.lines.get(line).and_then(|l| l.inst.spec().operands.get(operand));
        let enumeration = kind.and_then(|operand| match operand.kind {
            Kind::Custom(custom) => crate::isa::enumeration_of(custom),
            _ => None,
        });
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let right = enumeration.is_some() && !member.is_empty() && member.chars().all(word);
        if !right || last.is_some_and(|last| last >= (line, operand)) {
            return Err(format!("member {member:?} of line {line}"));
        }
        last = Some((line, operand));
        program.spellings.push(Spelling { line, operand, member });
    }
    Ok(())
}

/// Replaces an operand by one that machine code stores in the same way.
fn replace(
    program: &mut Program,
    line: usize,
    operand: usize,
    is_kind: fn(Kind) -> bool,
    same: &dyn Fn(i128) -> bool,
    value: i128,
) -> std::result::Result<(), String> {
    let wrong = || format!("operand {operand} of line {line}");
    let place = program.lines.get_mut(line).ok_or_else(wrong)?;
    let RawInst { row, mut values } = place.inst.to_raw();
    let spec = place.inst.spec().operands.get(operand).ok_or_else(wrong)?;
    if !is_kind(spec.kind) || !same(values[operand]) {
        return Err(wrong());
    }
    values[operand] = value;
    place.inst = Inst::from_raw(&RawInst { row, values }).ok_or_else(wrong)?;
    Ok(())
}
