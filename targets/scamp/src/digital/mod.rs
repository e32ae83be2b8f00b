//! Kernels on numbers in 1-bit registers.
//!
//! 1. [`plan`], [`moves`]: which numbers are added, subtracted and moved.
//! 2. [`circuit`]: single bits and their gates. Shifts cost nothing, bits that no result needs are
//!    left out.
//! 3. [`place`]: an order of the gates, a register for every signal, and instructions.
//!
//! Many plans are drawn; the shortest program that fits the registers is taken.
//!
//! Super-pixels have plans of the same kind; [`block`] says where their bits are, [`ripple`] writes
//! their programs, [`finish`] what becomes of results, [`convert`] makes numbers of analogue values and
//! these of numbers.
//!
//! [`ports`] says where numbers are put in and read out, and what of them the edge of the array spoils,
//! [`machine`] does so, [`layout`] which registers there are.

pub(crate) mod block;
mod circuit;
pub(crate) mod convert;
pub(crate) mod finish;
pub(crate) mod layout;
pub(crate) mod machine;
mod moves;
mod place;
pub(crate) mod plan;
pub(crate) mod ports;
pub(crate) mod ripple;

pub(crate) use place::{Code, Room};

use crate::goal::Goal;
use crate::isa::Inst;
use crate::search::{Effort, Random, SEED};
use circuit::{Adder, Circuit};
use finish::Finish;
use place::Order;
use plan::Plan;
use quincunx_diag::{Diagnostic, Result};
use ripple::Home;

/// Most summands that kernels may have together.
const MAX_SUMMANDS: usize = 400;

/// What looking at a pair of summands costs, in the unit of efforts.
const WORK_OF_A_PAIR: u64 = 1000;

/// Fewest and most plans that are drawn.
const DRAWS: [usize; 2] = [4, 200];

/// How many plans are drawn for kernels with so many summands.
pub(crate) fn draws(summands: usize, effort: Effort) -> usize {
    let pairs = usize::try_from(effort.0 / WORK_OF_A_PAIR).unwrap_or(usize::MAX);
    (pairs / (summands * summands).max(1)).clamp(DRAWS[0], DRAWS[1])
}

/// Refuses kernels with too many summands; gives their number.
///
/// # Errors
/// `Q5124`.
pub(crate) fn check_summands(goals: &[Goal], bits: u32) -> Result<usize> {
    let summands = plan::summands(goals, bits);
    if summands <= MAX_SUMMANDS {
        return Ok(summands);
    }
    let message = format!("the kernels have {summands} binary digits, at most {MAX_SUMMANDS}");
    Err(Diagnostic::unsupported("Q5124", message).help("use a smaller `--depth` or kernel"))
}

/// The shortest program found for kernels in units of `2^-depth`, on numbers of `bits` bits. Results
/// are rounded down and wrap; what lies between wraps above the bits that they need.
///
/// # Errors
/// `Q5121` when registers do not suffice, with the number that does; `Q5124` for kernels that are
/// too large.
pub(crate) fn compile(
    goals: &[Goal],
    depth: u32,
    bits: usize,
    room: &Room,
    effort: Effort,
) -> Result<Code> {
    let width = bits + depth as usize;
    let summands = check_summands(goals, width as u32)?;
    let mut random = Random(SEED);
    let (mut best, mut missing): (Option<Code>, usize) = (None, usize::MAX);
    for _ in 0..draws(summands, effort) {
        let plan = plan::draw(goals, room.inputs.len(), width as u32, &mut random);
        match write(&plan, bits, depth as usize, room) {
            Ok(code) if best.as_ref().is_none_or(|best| code.length() < best.length()) => {
                best = Some(code);
            }
            Ok(_) => {}
            Err(more) => missing = missing.min(more),
        }
    }
    best.ok_or_else(|| too_few(room.pool.len(), missing))
}

/// The shortest program of a plan; the number of registers that are missing where none fits. What
/// needs fewer registers is longer, so that it is tried only where nothing else fits.
fn write(plan: &Plan, bits: usize, depth: usize, room: &Room) -> std::result::Result<Code, usize> {
    let mut missing = usize::MAX;
    for adder in [Adder::Short, Adder::Small] {
        let circuit = Circuit::new(plan, bits, depth, adder);
        for orders in [&[Order::Numbers, Order::Pairs][..], &[Order::Bits]] {
            let codes = orders
                .iter()
                .map(|&order| place::place(&circuit, &place::order(&circuit, plan, order), room));
            let mut best: Option<Code> = None;
            for code in codes {
                match code {
                    Ok(code) if best.as_ref().is_none_or(|best| code.length() < best.length()) => {
                        best = Some(code);
                    }
                    Ok(_) => {}
                    Err(more) => missing = missing.min(more),
                }
            }
            if let Some(best) = best {
                return Ok(best);
            }
        }
    }
    Err(missing)
}

/// The shortest program found for kernels in units of `2^-depth`, on super-pixels. Sums wrap before
/// results are halved, rounded down and finished.
///
/// # Errors
/// As [`compile`]; `Q5122` when halving leaves nothing of a number.
pub(crate) fn compile_blocks(
    goals: &[Goal],
    depth: u32,
    finish: &[Finish],
    home: &Home,
    effort: Effort,
) -> Result<Vec<Inst>> {
    let bits = home.block.path.len();
    if depth as usize >= bits {
        let message = format!("halving {depth} times leaves nothing of {bits} bits");
        return Err(Diagnostic::unsupported("Q5122", message)
            .help("numbers need more bits (`bitOrder`), or weights a smaller depth"));
    }
    let summands = check_summands(goals, bits as u32)?;
    let mut random = Random(SEED);
    let (mut best, mut missing): (Option<Vec<Inst>>, usize) = (None, usize::MAX);
    for _ in 0..draws(summands, effort) {
        let plan = plan::draw(goals, home.inputs.len(), bits as u32, &mut random);
        match ripple::write(&plan, depth, finish, home) {
            Ok(list) if best.as_ref().is_none_or(|best| list.len() < best.len()) => {
                best = Some(list);
            }
            Ok(_) => {}
            Err(more) => missing = missing.min(more),
        }
    }
    best.ok_or_else(|| too_few(home.pool.len(), missing))
}

impl Code {
    fn length(&self) -> usize {
        self.instructions.len()
    }
}

pub(crate) fn too_few(count: usize, missing: usize) -> Diagnostic {
    let message = format!("{count} 1-bit registers are too few for these kernels");
    Diagnostic::unsupported("Q5121", message).help(format!(
        "{} suffice: `scratchRegs` and the numbers of the layout name them; so do fewer bits",
        count + missing
    ))
}
