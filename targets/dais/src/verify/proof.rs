//! What a program does with its values: results that may leave their types, and results that
//! nothing reads.

use super::ranges::{Care, Given, Range, Ranges};
use crate::isa::Inst;
use crate::program::{Operation, Program, SlotType, lookup_offset};
use quincunx_diag::{Diagnostic, Place};
use quincunx_num::{Int, Interval};

/// Slots that a message names.
const MAX_NAMED: usize = 8;

/// Proves that no result leaves its type, and warns where it cannot (`Q1036`). Where the proof needs
/// declared intervals of quantised results, it says so (`Q1038`).
pub(super) fn overflows(
    program: &Program,
    ranges: &Ranges,
    given: Option<&Given>,
) -> Vec<Diagnostic> {
    if ranges.overflows.is_empty() {
        return Vec::new();
    }
    let trusting = Ranges::with(program, given, Care::Trusting);
    let still = |index| trusting.overflows.binary_search_by_key(&index, |(i, _)| *i).is_ok();
    let (mut problems, mut more, mut trusted) = (Vec::new(), Vec::new(), Vec::new());
    for (index, range) in &ranges.overflows {
        let operation = &program.operations[*index];
        match operation.inst {
            // These have warnings of their own.
            Inst::Constant { .. } | Inst::Lookup { .. } => {}
            _ if !still(*index) => trusted.push(*index),
            _ if problems.len() < MAX_NAMED => {
                problems.push(overflow(operation, range).at(Place::Instruction(*index)));
            }
            _ => more.push(*index),
        }
    }
    problems.extend(further(program, &more));
    if !trusted.is_empty() {
        let count = trusted.len();
        let (plural, fit, their) =
            if count == 1 { ("", "fits", "its type") } else { ("s", "fit", "their types") };
        let message = format!(
            "{count} result{plural} {fit} {their} if quantised ones fit their declared intervals"
        );
        problems.push(Diagnostic::note("Q1038", message).with_note(named(&trusted)));
    }
    problems
}

/// The overflows after the first few, in one warning.
fn further(program: &Program, slots: &[usize]) -> Option<Diagnostic> {
    let count = slots.len();
    let plural = if count == 1 { "" } else { "s" };
    let message = format!("{count} more result{plural} may overflow");
    let problem = Diagnostic::warning("Q1036", message).with_note(named(slots));
    let by_bits = |operation: &Operation| matches!(operation.slot_type, SlotType::Kif(_));
    let problem = match program.operations.iter().all(by_bits) {
        true => problem.help("machine code keeps bits, not ranges: verify the JSON or assembly"),
        false => problem,
    };
    (count > 0).then_some(problem)
}

/// The first few of a list of slots.
fn named(slots: &[usize]) -> String {
    let named: Vec<String> = slots.iter().take(MAX_NAMED).map(|slot| format!("%{slot}")).collect();
    let more = if slots.len() > MAX_NAMED { ", …" } else { "" };
    format!("{}{more}", named.join(", "))
}

fn overflow(operation: &Operation, range: &Range) -> Diagnostic {
    let (mnemonic, kif) = (operation.inst.mnemonic(), operation.slot_type.kif());
    let (low, high) = kif.range();
    let (least, most) = (&range.low, &range.high);
    let message = format!("`{mnemonic}` may overflow: its results are {least} to {most}");
    let step = Interval::new(range.low.clone(), range.high.clone(), kif.exponent()).kif();
    Diagnostic::warning("Q1036", message)
        .with_note(format!("in units of its step; type {kif} holds {low} to {high}"))
        .help(format!("type {step} holds all of them; quantise to drop bits on purpose"))
}

/// Reports lookups whose operand may have no entry (`Q1039`). A type given by its bits may be wider than
/// the values, which machine code cannot say, so that this is no more than a note. Where the proof
/// needs declared intervals of quantised results, it says that instead (`Q1038`).
pub(super) fn lookups(
    program: &Program,
    ranges: &Ranges,
    given: Option<&Given>,
) -> Option<Diagnostic> {
    let found = outside(program, ranges);
    if found.is_empty() {
        return None;
    }
    let still = outside(program, &Ranges::with(program, given, Care::Trusting));
    if still.is_empty() {
        let message = "lookups have entries if quantised operands fit their declared intervals";
        return Some(Diagnostic::note("Q1038", message).with_note(named(&found)));
    }
    let message = "lookups may read outside their tables";
    Some(Diagnostic::note("Q1039", message).with_note(named(&still)))
}

/// Lookups whose operand may have no entry.
fn outside(program: &Program, ranges: &Ranges) -> Vec<usize> {
    let reads_outside = |operation: &Operation| {
        let Inst::Lookup { x, table, pad } = operation.inst else { return false };
        let operand = program.operations[x.0 as usize].slot_type.kif();
        let offset = lookup_offset(operand, pad);
        let range = &ranges.slots[x.0 as usize];
        let end = Int::from(program.tables[table.0 as usize].values.len());
        &range.low + &offset < Int::ZERO || &range.high + &offset >= end
    };
    let operations = program.operations.iter().enumerate();
    operations.filter(|(_, o)| reads_outside(o)).map(|(index, _)| index).collect()
}

/// Reports operations whose results neither outputs nor live operations read (`Q1037`). Inputs are
/// part of the program's interface.
pub(super) fn dead(program: &Program) -> Option<Diagnostic> {
    let live = live(program);
    let is_dead = |(index, operation): &(usize, &Operation)| {
        !live[*index] && !matches!(operation.inst, Inst::Input { .. })
    };
    let dead: Vec<usize> =
        program.operations.iter().enumerate().filter(is_dead).map(|(index, _)| index).collect();
    let count = dead.len();
    let them = if count == 1 { "it" } else { "them" };
    (count > 0).then(|| {
        let message = format!("{count} of {} operations: no output needs {them}", live.len());
        Diagnostic::note("Q1037", message)
            .with_note(named(&dead))
            .help(format!("tools that make hardware leave {them} out"))
    })
}

/// Which operations the outputs depend on. The program has no errors.
fn live(program: &Program) -> Vec<bool> {
    let mut live = vec![false; program.operations.len()];
    for slot in program.outputs.iter().filter_map(|output| output.source) {
        live[slot.0 as usize] = true;
    }
    for (index, operation) in program.operations.iter().enumerate().rev() {
        if live[index] {
            operation.inst.operands().for_each(|slot| live[slot.0 as usize] = true);
        }
    }
    live
}
