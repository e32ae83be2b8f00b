//! Corruptions of legal programs: wrong tokens, addresses, sizes, regions and configurations.

use super::Random;
use quincunx_isa::RawInst;
use quincunx_npu::isa::{Inst, Queue};
use quincunx_npu::program::Program;

/// Another value of an operand of this name and value; `None` where the corruption does not apply.
pub type Corruption = fn(&Inst, &str, i128, &mut Random) -> Option<i128>;

/// What a corruption of an operand is, and what breaks a rule rather than asks for other numbers:
/// a window moved inside its tensor, or a tensor read as a smaller one, is another legal program.
pub const CORRUPTIONS: &[(&str, Corruption)] = &[
    ("address", address),
    ("far address", far_address),
    ("weight buffer", weight_buffer),
    ("region", region),
    ("size", size),
    ("capacity", capacity),
    ("registers", registers),
    ("signals", signals),
];

/// An address in L2 is a little off.
fn address(inst: &Inst, operand: &str, value: i128, random: &mut Random) -> Option<i128> {
    let moved = match operand {
        "dtaddr" => !matches!(inst.mnemonic(), "sta_mov" | "lw_mov" | "sopw_mov"),
        "staddr" => matches!(inst.mnemonic(), "pe_conv" | "vp_self" | "dt_cal" | "sta_mov"),
        "staddr1" => inst.mnemonic() == "vp_self",
        _ => false,
    };
    let step = 8 * (1 + random.below(40) as i128);
    moved.then_some(if random.below(2) == 0 { value + step } else { value - step })
}

/// An address in L2 is somewhere else.
fn far_address(inst: &Inst, operand: &str, _: i128, random: &mut Random) -> Option<i128> {
    let moved = match operand {
        "dtaddr" => !matches!(inst.mnemonic(), "sta_mov" | "lw_mov"),
        "staddr" => !matches!(inst.mnemonic(), "lda_mov" | "ldw_mov" | "lw_mov"),
        "staddr1" => inst.mnemonic() == "vp_self",
        _ => false,
    };
    moved.then(|| 8 * (3 + random.below(1 << 19) as i128 * 2))
}

/// An address in the weight buffer, aligned or not, inside or not.
fn weight_buffer(inst: &Inst, operand: &str, _: i128, random: &mut Random) -> Option<i128> {
    let moved = operand == "swaddr" || operand == "dtaddr" && inst.mnemonic() == "lw_mov";
    let align = [1, 32][random.below(2) as usize];
    moved.then(|| align * random.below(40_000 / align as u64) as i128)
}

/// Another region, and regions that begin and end elsewhere; those that are so short that tensors
/// are loaded over each other are other legal programs.
fn region(_: &Inst, operand: &str, value: i128, random: &mut Random) -> Option<i128> {
    match operand {
        "sbsg" | "dbsg" | "sbsg1" => Some(random.below(4) as i128),
        "last0" if value == 8191 => Some(random.below(8192) as i128),
        "len0" if value == 0 => Some(4096 + random.below(4096) as i128),
        "len1" | "last1" if value > 0 => Some(random.below(20) as i128),
        _ => None,
    }
}

/// Extents: tiles that are written shrink or grow, tensors in L2 that are written have any size,
/// those that are read grow.
fn size(inst: &Inst, operand: &str, value: i128, random: &mut Random) -> Option<i128> {
    let (stem, _) = operand.rsplit_once('_')?;
    let any =
        random.below((value.unsigned_abs() as u64).saturating_mul(2).saturating_add(3)) as i128;
    let grown = value + 1 + random.below(9) as i128;
    match (inst.mnemonic(), stem) {
        ("lda_mov" | "pe_cfg_tp", "tile") => Some(any),
        ("vp_cfg_tp", "tile") => Some(any),
        ("dt_cal", "tile") => Some(any),
        ("pe_cfg_tp", "kernel") => Some(any),
        ("lda_cfg" | "ldw_cfg" | "lw_cfg" | "pe_cfg_fm" | "vp_cfg_fm" | "dt_cfg", "dest") => {
            Some(any)
        }
        ("pe_cfg_fm" | "vp_cfg_fm" | "dt_cfg" | "sta_cfg", "source") => Some(grown),
        ("lw_mov" | "ldw_mov", "size") if operand == "size_k" => Some(any),
        _ => None,
    }
}

/// Mini tiles, which the buffers of the array hold or not.
fn capacity(_: &Inst, operand: &str, value: i128, random: &mut Random) -> Option<i128> {
    let mini = ["mtk0", "mtc0", "mti_h", "mti_w"].contains(&operand);
    mini.then(|| value + random.below(60) as i128)
}

/// Another set of registers, which nothing configures.
fn registers(inst: &Inst, operand: &str, value: i128, _: &mut Random) -> Option<i128> {
    (operand == "rs" && !inst.is_config()).then_some(1 - value)
}

/// A signal is not awaited or not given, or comes from another core.
fn signals(inst: &Inst, operand: &str, value: i128, random: &mut Random) -> Option<i128> {
    match (inst.mnemonic(), operand) {
        ("si_syn_cfg" | "so_syn_cfg", "syn") => Some(value ^ (1 + random.below(3) as i128)),
        ("si_syn_cfg" | "so_syn_cfg", "core") => Some(random.below(4) as i128),
        _ => None,
    }
}

/// The first configuration of its kind is missing, or comes when its queue has gone on.
pub fn unconfigure(program: &mut Program, random: &mut Random) -> Option<&'static str> {
    let line = random.below(program.lines.len() as u64) as usize;
    let inst = program.lines[line].inst;
    let mut earlier = program.lines[..line].iter();
    if !inst.is_config() || earlier.any(|other| other.inst.row() == inst.row()) {
        return None;
    }
    if random.below(2) == 0 {
        program.lines.remove(line);
        return Some("configuration removed");
    }
    let later = (line + 1..program.lines.len()).find(|&other| {
        let other = &program.lines[other].inst;
        other.queue() == inst.queue() && !other.is_config()
    })?;
    let moved = program.lines.remove(line);
    program.lines.insert(later, moved);
    Some("configuration comes late")
}

/// Sets an operand of a line to another value.
pub fn corrupt_operand(program: &mut Program, random: &mut Random) -> Option<&'static str> {
    let (kind, corruption) = CORRUPTIONS[random.below(CORRUPTIONS.len() as u64) as usize];
    let mut changes = Vec::new();
    for (line, inst) in program.instructions().enumerate() {
        let RawInst { row, values } = inst.to_raw();
        for (index, operand) in inst.spec().operands.iter().enumerate() {
            let Some(value) = corruption(inst, operand.name, values[index], random) else {
                continue;
            };
            let mut values = values.clone();
            values[index] = value;
            let changed = Inst::from_raw(&RawInst { row, values }).filter(|other| other != inst);
            changes.extend(changed.map(|inst| (line, inst)));
        }
    }
    if changes.is_empty() {
        return None;
    }
    let (line, inst) = changes.swap_remove(random.below(changes.len() as u64) as usize);
    program.lines[line].inst = inst;
    Some(kind)
}

/// A line takes or leaves another tensor of its layer, and axes come in another order: another legal
/// program, but not one of the same network.
pub fn misdirect(program: &mut Program, random: &mut Random) -> Option<&'static str> {
    const PLACES: [&str; 3] = ["staddr", "staddr1", "dtaddr"];
    let operands = |inst: &Inst| {
        let RawInst { values, .. } = inst.to_raw();
        let operands = inst.spec().operands.iter().map(|operand| operand.name).enumerate();
        operands.map(|(index, name)| (index, name, values[index])).collect::<Vec<_>>()
    };
    let is_l2 = |inst: &Inst, name: &str| match inst.mnemonic() {
        "vp_self" | "vp_pool" | "dt_cal" | "pe_conv" => PLACES.contains(&name),
        "lw_mov" => name == "staddr",
        _ => false,
    };
    let layer = |line: usize| program.lines[line].map.as_ref().map(|map| map.slyr);
    let line = random.below(program.lines.len() as u64) as usize;
    let inst = program.lines[line].inst;
    let mut changes = Vec::new();
    for (index, name, value) in operands(&inst) {
        if is_l2(&inst, name) {
            let others = (0..program.lines.len()).filter(|&other| layer(other) == layer(line));
            let others = others.flat_map(|other| {
                let other = program.lines[other].inst;
                operands(&other).into_iter().filter(move |(_, name, _)| is_l2(&other, name))
            });
            let others = others.filter(|(.., other)| *other != value);
            changes.extend(others.map(|(.., other)| (index, other, "another tensor of the layer")));
        }
        if (inst.mnemonic(), name) == ("dt_cal", "order") {
            changes.push((index, (value + 1 + random.below(5) as i128) % 6, "another order"));
        }
    }
    if changes.is_empty() {
        return None;
    }
    let (index, value, what) = changes.swap_remove(random.below(changes.len() as u64) as usize);
    let RawInst { row, mut values } = inst.to_raw();
    values[index] = value;
    program.lines[line].inst = Inst::from_raw(&RawInst { row, values })?;
    Some(what)
}

/// Whether a line is one of several configurations of its kind.
fn repeated(program: &Program, line: usize) -> bool {
    let inst = &program.lines[line].inst;
    inst.is_config() && program.instructions().filter(|other| other.row() == inst.row()).count() > 1
}

/// Removes, adds or moves a token, or exchanges two lines.
pub fn corrupt(program: &mut Program, random: &mut Random) -> String {
    let line = random.below(program.lines.len() as u64) as usize;
    let other = random.below(program.lines.len() as u64) as usize;
    let queue = Queue::ALL[random.below(9) as usize];
    let inst = program.lines[line].inst;
    let (mut prev, mut next) = inst.tokens().unwrap_or_default();
    let kind = random.below(7);
    match kind {
        0 => prev = prev.without(queue),
        1 => next = next.without(queue),
        2 => drop(prev.push(queue)),
        3 => drop(next.push(queue)),
        4 => (prev, next) = (next, prev),
        // Where a kind of instruction occurs twice, other numbers would meet: another program.
        5 if [line, other].into_iter().any(|line| repeated(program, line)) => {}
        5 => program.lines.swap(line, other),
        _ => {
            // A pair of giver and taker that belong together disappears.
            let taker = (line + 1..program.lines.len()).find(|&taker| {
                let (own, waits) = (inst.queue(), program.lines[taker].inst.tokens());
                waits.is_some_and(|(prev, _)| prev.contains(own))
            });
            if let Some(taker) = taker {
                let own = program.lines[taker].inst;
                let (before, after) = own.tokens().unwrap_or_default();
                program.lines[taker].inst = own.with_tokens(before.without(inst.queue()), after);
                next = next.without(own.queue());
            }
        }
    }
    if kind != 5 {
        program.lines[line].inst = program.lines[line].inst.with_tokens(prev, next);
    }
    format!("kind {kind} at line {}", line + 1)
}
