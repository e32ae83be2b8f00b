//! How far around the elements that are read a program looks: the way back from its results.

use crate::expand::expand;
use crate::isa::{Class, Direction, Gate, Inst, Reg};
use crate::program::{Named, Program, Space, flag_after};
use std::collections::BTreeMap;

/// Elements beyond those that are read, by the sides of [`Direction::ALL`]; negative where fewer do.
type Extent = [i64; 4];

/// What is needed of the registers before an instruction, on the way back.
#[derive(Default)]
struct Needs {
    registers: BTreeMap<Named, Extent>,
    /// The largest extent so far.
    most: Extent,
}

const FLAG: Named = (Space::Digital, Reg::FLAG);
const NEWS: Named = (Space::Analogue, Reg::NEWS);

fn join(a: Extent, b: Extent) -> Extent {
    std::array::from_fn(|side| a[side].max(b[side]))
}

/// The extent of the neighbours in a direction.
fn toward(extent: Extent, direction: Direction) -> Extent {
    let mut moved = extent;
    let (side, back) = (direction as usize, direction.opposite() as usize);
    moved[side] = extent[side].saturating_add(1);
    moved[back] = extent[back].saturating_sub(1);
    moved
}

/// The elements around those of `reads`, on each side, outside of which nothing counts for what is
/// read; `None` for programs that do more than the bus, its masks and gates do.
pub fn needs(program: &Program, reads: &[(usize, Named)]) -> Option<[i64; 4]> {
    let mut flagged = true;
    let is_flagged = |inst: &Inst| {
        let before = flagged;
        flagged = flag_after(inst).unwrap_or(flagged);
        before
    };
    let flagged: Vec<bool> = program.instructions.iter().map(is_flagged).collect();
    let mut needs = Needs::default();
    for (index, inst) in program.instructions.iter().enumerate().rev() {
        let read = reads.iter().filter(|(after, _)| *after == index);
        read.for_each(|&(_, named)| needs.need(named, [0; 4]));
        let steps = expand(inst);
        let mut within = flagged[index];
        let before = |step: &Inst| {
            let before = within;
            within = flag_after(step).unwrap_or(within);
            before
        };
        let befores: Vec<bool> = steps.iter().map(before).collect();
        for (step, flagged) in steps.iter().zip(befores).rev() {
            needs.step(step, flagged)?;
        }
    }
    Some(needs.most)
}

impl Needs {
    fn need(&mut self, named: Named, extent: Extent) {
        self.most = join(self.most, extent);
        let known = self.registers.entry(named).or_insert(extent);
        *known = join(*known, extent);
    }

    /// What an instruction overwrites is not needed before it.
    fn take(&mut self, named: Named, is_everywhere: bool) -> Option<Extent> {
        match is_everywhere {
            true => self.registers.remove(&named),
            false => self.registers.get(&named).copied(),
        }
    }

    fn step(&mut self, inst: &Inst, flagged: bool) -> Option<()> {
        let (writes, reads) = inst.split();
        match inst.class() {
            Class::Frame => {}
            Class::All => drop(self.take(FLAG, true)),
            Class::Load => drop(self.take((Space::Analogue, Reg::IN), true)),
            Class::Condition => {
                if let Some(extent) = self.take(FLAG, true) {
                    self.read(&reads, extent);
                }
            }
            Class::Digital(Gate::Where) => {
                if let Some(extent) = self.take(FLAG, true) {
                    self.need((Space::Digital, reads[0]), extent);
                }
            }
            Class::Digital(Gate::All) => drop(self.take(FLAG, true)),
            Class::Digital(Gate::Neighbours { .. }) => return None,
            Class::Digital(_) => {
                // Of a masked register some bits may stay.
                let extents = writes.iter().filter_map(|&w| self.take((Space::Digital, w), false));
                if let Some(extent) = extents.collect::<Vec<_>>().into_iter().reduce(join) {
                    reads.iter().for_each(|&read| self.need((Space::Digital, read), extent));
                }
            }
            // Patterns know where they are.
            Class::Pattern => {}
            Class::Bus => self.bus(&writes, &reads, flagged),
            Class::Emulator | Class::Macro | Class::Sensor | Class::LoadMacro => return None,
        }
        Some(())
    }

    fn bus(&mut self, writes: &[Reg], reads: &[Reg], flagged: bool) {
        let mut sum: Option<Extent> = None;
        for receiver in writes {
            let extent = match receiver.direction() {
                None => self.take((Space::Analogue, *receiver), flagged),
                // Who writes lies on the other side.
                Some(direction) => {
                    self.take(NEWS, flagged).map(|extent| toward(extent, direction.opposite()))
                }
            };
            sum = extent.map(|extent| sum.map_or(extent, |sum| join(sum, extent))).or(sum);
        }
        let Some(sum) = sum else { return };
        if !flagged {
            self.need(FLAG, sum);
        }
        self.read(reads, sum);
    }

    fn read(&mut self, reads: &[Reg], extent: Extent) {
        for register in reads {
            match register.direction() {
                None => self.need((Space::Analogue, *register), extent),
                Some(direction) => self.need(NEWS, toward(extent, direction)),
            }
        }
    }
}
