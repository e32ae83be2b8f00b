//! What flows through the memories of a program with a description: nothing is read that nobody
//! wrote, constants stay, and every output is there at the end. Only the program and its description
//! are looked at, not how a compiler came to them.
//!
//! Time is linear in the vectors that are read and written, memory in the pages in which they lie.

#![deny(clippy::wildcard_enum_match_arm)]

mod marks;

use crate::files::{Model, Vectors};
use crate::isa::{Inst, Register, SimdOp};
use crate::package::Package;
use crate::program::{Action, Effects, Memory, Span, state};
use crate::simulate::Driver;
use crate::text::describe;
use marks::{CONSTANT, INPUT, Marks, OURS, Ranges, UNREAD, WRITTEN};
use quincunx_diag::{Diagnostic, Place, Problems};
use rustc_hash::FxHashSet;

/// Most vectors that a program may read and write.
const MAX_VECTORS: u64 = 1 << 32;
/// Most pages of all memories before an instruction, 128 MiB; one may add 2^16 more.
const MAX_PAGES: usize = 1 << 15;

/// Problems with what a legal program with a description reads and writes; none for
/// a program without one, whose inputs are all of memory.
///
/// | code | rule |
/// |---|---|
/// | Q3054 | what is read was written before |
/// | Q3057 | constants are not written |
/// | Q3058 | outputs are written |
/// | Q3059 | what is written is read (warning) |
/// | Q3098 | inputs are read before they are overwritten (warning) |
/// | Q3099 | the program could be followed to its end (warning) |
pub fn dataflow(package: &Package, driver: &Driver) -> Vec<Diagnostic> {
    let Some(model) = &package.model else { return Vec::new() };
    let mut flow = Flow::new(package, model, driver);
    for (index, step) in package.program.steps.iter().enumerate() {
        let effects = step.inst.effects(package.arch());
        if let Some(reason) = flow.obstacle(&step.inst, &effects) {
            let place = Place::Instruction(index);
            flow.found.push(
                Diagnostic::warning("Q3099", reason)
                    .at(place)
                    .with_note("what is read and written from there on was not checked"),
            );
            return flow.found.finish();
        }
        flow.step(index, &step.inst, &effects);
    }
    flow.outputs(model);
    flow.unread(model);
    flow.found.finish()
}

/// Vectors about which there is one warning for all.
#[derive(Debug, Default)]
struct Tally {
    count: u64,
    /// The instruction that overwrote the first one, and that one.
    first: Option<(usize, Memory, u64)>,
}

impl Tally {
    fn add(&mut self, index: usize, memory: Memory, address: u64) {
        self.count = self.count.saturating_add(1);
        self.first.get_or_insert((index, memory, address));
    }

    fn warning(&self, code: &'static str, message: String) -> Diagnostic {
        let warning = Diagnostic::warning(code, message);
        match self.first {
            Some((index, memory, address)) => {
                let name = memory.name();
                let note = format!("the first one, {name}({address}), is overwritten there");
                warning.at(Place::Instruction(index)).with_note(note)
            }
            None => warning,
        }
    }
}

/// Goes through the stream.
struct Flow<'a> {
    driver: &'a Driver,
    /// By memory.
    memories: [Marks; 4],
    /// Other state that was written, as bits of [`state`].
    state: u32,
    /// Vectors that were visited.
    visited: u64,
    /// Overwritten before they were read: what the program wrote, and inputs.
    dead: Tally,
    lost: Tally,
    found: Problems,
}

fn ranges(pieces: &[Vectors]) -> Ranges {
    Ranges::new(pieces.iter().map(|piece| (piece.base, piece.size)))
}

impl<'a> Flow<'a> {
    fn new(package: &'a Package, model: &Model, driver: &'a Driver) -> Self {
        let mut memories: [Marks; 4] = Default::default();
        let one = |base, size| Ranges::new(std::iter::once((base, size)));
        let depth = package.arch().dram0_depth;
        memories[Memory::Dram0 as usize].preset(ranges(&model.inputs), WRITTEN | INPUT);
        if driver.flush_probe {
            let probe = depth.saturating_sub(2);
            memories[Memory::Dram0 as usize]
                .preset(one(probe, depth.saturating_sub(probe)), WRITTEN);
        }
        let vectors = |scalars: &[i32]| package.arch().vectors(scalars.len());
        let parts = package.consts.iter().map(|part| (part.base, vectors(&part.scalars)));
        memories[Memory::Dram1 as usize].preset(Ranges::new(parts), WRITTEN | CONSTANT);
        memories[Memory::Local as usize].preset(one(0, driver.local_consts), WRITTEN);
        Flow {
            driver,
            memories,
            state: state::CONFIGURATION | state::TABLES,
            visited: 0,
            dead: Tally::default(),
            lost: Tally::default(),
            found: Problems::default(),
        }
    }

    /// Why the program cannot be followed past an instruction.
    fn obstacle(&mut self, inst: &Inst, effects: &Effects) -> Option<String> {
        let offsets = [
            (Register::Dram0Offset, self.driver.dram0_offset),
            (Register::Dram1Offset, self.driver.dram1_offset),
        ];
        if let Inst::Configure { register, value } = *inst
            && offsets.iter().any(|&(own, offset)| own == register && u64::from(offset) != value)
        {
            return Some("the program moves a DRAM bank".to_owned());
        }
        let counts = effects.spans().map(|span| span.count);
        self.visited = counts.fold(self.visited, u64::saturating_add);
        let pages: usize = self.memories.iter().map(Marks::len).sum();
        let too_much = self.visited > MAX_VECTORS || pages > MAX_PAGES;
        too_much.then(|| "the program reads and writes too many vectors to follow".to_owned())
    }

    fn step(&mut self, index: usize, inst: &Inst, effects: &Effects) {
        self.weights(index, inst);
        self.other_state(index, inst, effects);
        effects.reads.iter().for_each(|span| self.read(index, inst, span));
        effects.writes.iter().for_each(|span| self.write(index, inst, span));
    }

    fn problem(&mut self, index: usize, inst: &Inst, code: &'static str, message: String) {
        let problem = Diagnostic::invalid(code, message).at(Place::Instruction(index));
        self.found.push(problem.with_note(format!("the instruction is {}", describe(inst))));
    }

    /// Weights are loaded before the first product. Not all rows need be: what is multiplied by the
    /// zeros behind the last channel does not matter.
    fn weights(&mut self, index: usize, inst: &Inst) {
        let multiplies = matches!(inst.action(), Action::Product { .. });
        if multiplies && self.state & state::WEIGHTS == 0 {
            let message = "the weights are read, but were never loaded".to_owned();
            self.problem(index, inst, "Q3054", message);
            // Once is enough.
            self.state |= state::WEIGHTS;
        }
    }

    /// Registers, and the output of the array.
    fn other_state(&mut self, index: usize, inst: &Inst, effects: &Effects) {
        if let Inst::Simd { compute, .. } = *inst {
            // Without an operation neither a register nor what the sources name is used.
            let sources = [compute.left, compute.right].into_iter().take(compute.op.arity());
            let missing = sources
                .filter(|&source| source > 0)
                .find(|&source| self.state & state::register(source.into()) == 0);
            if let Some(register) = missing {
                let message = format!("R{register} is read, but was never written");
                self.problem(index, inst, "Q3054", message);
                self.state |= state::register(register.into());
            }
            let takes_array = compute.op == SimdOp::NoOp && effects.state_reads & state::ARRAY != 0;
            if takes_array && self.state & state::ARRAY == 0 {
                let message = "the output of the array is read, but was never written".to_owned();
                self.problem(index, inst, "Q3054", message);
                self.state |= state::ARRAY;
            }
        }
        self.state |= effects.state_writes;
    }

    fn read(&mut self, index: usize, inst: &Inst, span: &Span) {
        let mut missing = None;
        let mut count = 0_u64;
        self.memories[span.memory as usize].visit(span, |address, marks| {
            if *marks & WRITTEN == 0 {
                missing.get_or_insert(address);
                count = count.saturating_add(1);
            }
            // Reported once.
            *marks = (*marks | WRITTEN) & !(UNREAD | INPUT);
        });
        if let Some(address) = missing {
            let name = span.memory.name();
            let mut message = format!("{name}({address}) is read, but was never written");
            if count > 1 {
                message.push_str(&format!(", as {} others that it reads", count.saturating_sub(1)));
            }
            self.problem(index, inst, "Q3054", message);
        }
    }

    fn write(&mut self, index: usize, inst: &Inst, span: &Span) {
        let (dead, lost) = (&mut self.dead, &mut self.lost);
        let mut constant = None;
        self.memories[span.memory as usize].visit(span, |address, marks| {
            if *marks & CONSTANT != 0 {
                constant.get_or_insert(address);
            }
            if *marks & UNREAD != 0 {
                dead.add(index, span.memory, address);
            }
            if *marks & INPUT != 0 {
                lost.add(index, span.memory, address);
            }
            *marks = (*marks | WRITTEN | OURS | UNREAD) & !INPUT;
        });
        if let Some(address) = constant {
            let name = span.memory.name();
            let message = format!("{name}({address}) is a constant, which the next run needs");
            self.problem(index, inst, "Q3057", message);
        }
    }

    /// Every output is there; a piece that is an input as it lies need not be written.
    fn outputs(&mut self, model: &Model) {
        let inputs: FxHashSet<(u64, u64)> =
            model.inputs.iter().map(|input| (input.base, input.size)).collect();
        let place = |piece: &Vectors| (piece.base, piece.size);
        let computed = model.outputs.iter().filter(|piece| !inputs.contains(&place(piece)));
        let vectors = Ranges::new(computed.clone().map(place));
        let mut missing = None;
        self.memories[Memory::Dram0 as usize].look(&vectors, |address, marks| {
            if marks & OURS == 0 {
                missing = Some(address);
            }
            missing.is_none()
        });
        let Some(address) = missing else { return };
        let has = |piece: &&Vectors| {
            address.checked_sub(piece.base).is_some_and(|offset| offset < piece.size)
        };
        let name = computed.clone().find(has).map_or("", |piece| &piece.name).escape_debug();
        let message = format!("output \"{name}\" is not written at DRAM0({address})");
        self.found.push(Diagnostic::invalid("Q3058", message));
    }

    /// What was written for nothing.
    fn unread(&mut self, model: &Model) {
        let outputs = ranges(&model.outputs);
        let nothing = Ranges::default();
        let left = [Memory::Dram0, Memory::Dram1, Memory::Local, Memory::Acc].map(|memory| {
            let outside = if memory == Memory::Dram0 { &outputs } else { &nothing };
            self.memories[memory as usize].count_outside(outside, UNREAD)
        });
        let left: u64 = left.iter().sum();
        let dead = self.dead.count;
        let total = dead.saturating_add(left);
        if total > 0 {
            let message = format!("{total} vectors are written, but nothing reads them");
            let note = format!("{dead} are overwritten, {left} are left at the end");
            self.found.push(self.dead.warning("Q3059", message).with_note(note));
        }
        if self.lost.count > 0 {
            let message = format!(
                "{} vectors of inputs are overwritten before anything reads them",
                self.lost.count
            );
            self.found.push(self.lost.warning("Q3098", message));
        }
    }
}
