//! How far values reach over the array, and where its edge spoils them.
//!
//! An element is spoilt where the array gives another value than one without an edge would: a value
//! that is not 0 left the array, and came back as 0. Bounds are kept for each side, so that an
//! element may count as spoilt that is not.

use super::mask::{Extent, Field, Mask, Masks};
use crate::expand::expand;
use crate::isa::{Class, Direction, Gate, Inst, Reg};
use crate::program::{Named, Program, Space};
use std::collections::BTreeMap;

/// Where a value may differ from 0, and where it is spoilt, by the sides of [`Direction::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// How many elements the value reaches beyond the images; negative where it stays within.
    pub beyond: [i64; 4],
    /// How many elements are spoilt along each edge.
    pub spoilt: [i64; 4],
}

/// The reach of every register that may not be 0, as a program goes on.
#[derive(Clone, Debug)]
pub struct Reaches {
    /// Elements between images and the edges.
    margin: [i64; 4],
    /// What comes in from beyond the edge is always wrong.
    stale: bool,
    registers: BTreeMap<Named, Reach>,
    /// The array, where patterns are followed.
    field: Option<Field>,
    masks: Masks,
    /// What FLAG is, while it is not set everywhere.
    flag: Option<Flag>,
    /// The largest reach of any value so far.
    most: [i64; 4],
}

/// Where FLAG is set.
#[derive(Clone, Copy, Debug)]
enum Flag {
    /// Where values say so.
    Data(Reach),
    /// Where patterns say so.
    Mask(Mask),
}

impl Reach {
    /// Of what is in every element.
    const EVERYWHERE: Reach = Reach { beyond: [1 << 40; 4], spoilt: [0; 4] };

    fn join(self, other: Reach) -> Reach {
        let most = |a: [i64; 4], b: [i64; 4]| std::array::from_fn(|side| a[side].max(b[side]));
        Reach { beyond: most(self.beyond, other.beyond), spoilt: most(self.spoilt, other.spoilt) }
    }

    /// What an element sees that reads its neighbour in a direction.
    fn from(self, direction: Direction, margin: &[i64; 4], stale: bool) -> Reach {
        let (side, back) = (direction as usize, direction.opposite() as usize);
        let mut seen = self;
        // The value moves away from where it is read.
        seen.beyond[side] = self.beyond[side].saturating_sub(1);
        seen.beyond[back] = self.beyond[back].saturating_add(1);
        let leaves = stale || self.beyond[side] > margin[side];
        let is_spoilt = leaves || self.spoilt[side] > 0;
        seen.spoilt[side] = if is_spoilt { self.spoilt[side].saturating_add(1) } else { 0 };
        seen.spoilt[back] = self.spoilt[back].saturating_sub(1).max(0);
        seen
    }

    /// The part within a rectangle of what is 0 elsewhere.
    fn within(self, extent: Extent, margin: &[i64; 4]) -> Option<Reach> {
        let extent = extent?;
        let is_free = |side: usize| {
            // The rectangle begins behind what the edge spoils.
            margin[side].saturating_sub(extent[side]) >= self.spoilt[side]
        };
        Some(Reach {
            beyond: std::array::from_fn(|side| self.beyond[side].min(extent[side])),
            spoilt: std::array::from_fn(|side| if is_free(side) { 0 } else { self.spoilt[side] }),
        })
    }
}

impl Reaches {
    /// The registers that hold images at first, with so many elements between them and the edges.
    pub fn new(inputs: &[Reg], margin: [i64; 4], stale: bool) -> Reaches {
        let image = |&register: &Reg| ((Space::Analogue, register), Reach::default());
        let registers = inputs.iter().map(image).collect();
        let (field, masks) = (None, Masks::default());
        Reaches { margin, stale, registers, field, masks, flag: None, most: [0; 4] }
    }

    /// Follows patterns as well, on an array of so many rows and columns; `masked` is its 1-bit
    /// register that is not always written.
    #[must_use]
    pub fn with_patterns(self, size: [usize; 2], masked: Reg) -> Reaches {
        Reaches { field: Some(Field { size, masked }), ..self }
    }

    /// The reach of a register; `None` where it is 0 everywhere.
    pub fn of(&self, named: Named) -> Option<Reach> {
        match named {
            (Space::Digital, Reg::FLAG) => Some(match self.flag {
                Some(Flag::Data(reach)) => reach,
                Some(Flag::Mask(_)) | None => Reach::EVERYWHERE,
            }),
            _ => self.registers.get(&named).copied(),
        }
    }

    /// The largest reach of any value so far.
    pub fn most(&self) -> [i64; 4] {
        self.most
    }

    /// Goes over an instruction; `None` for one that does more than the bus and its masks do.
    pub fn step(&mut self, inst: &Inst) -> Option<()> {
        expand(inst).iter().try_for_each(|step| self.bus_step(step))
    }

    fn read(&self, sources: &[Reg]) -> Option<Reach> {
        let read = |source: &Reg| match source.direction() {
            Some(direction) => {
                let news = self.of((Space::Analogue, Reg::NEWS));
                let edge = if self.stale { Some(news.unwrap_or_default()) } else { news };
                edge.map(|reach| reach.from(direction, &self.margin, self.stale))
            }
            None => self.of((Space::Analogue, *source)),
        };
        sources.iter().filter_map(read).reduce(Reach::join)
    }

    fn bus_step(&mut self, inst: &Inst) -> Option<()> {
        match inst.class() {
            Class::Frame => return Some(()),
            Class::All => {
                self.flag = None;
                return Some(());
            }
            Class::Condition => {
                self.flag = Some(Flag::Data(self.read(&inst.split().1).unwrap_or_default()));
                return Some(());
            }
            Class::Load => {
                let is_zero = inst.operands_of::<i8>()[0] == 0;
                self.write_everywhere(
                    (Space::Analogue, Reg::IN),
                    (!is_zero).then_some(Reach::EVERYWHERE),
                );
                return Some(());
            }
            Class::Emulator | Class::Bus | Class::Macro | Class::Sensor | Class::LoadMacro => {}
            Class::Digital(gate) => return self.gate(inst, gate),
            Class::Pattern => return self.masks.pattern(inst, &self.margin, self.field?),
        }
        let bus = inst.bus()?;
        let sum = self.read(&bus.sources);
        for &receiver in &bus.receivers {
            let (target, value) = match receiver.direction() {
                // The mask is that of the neighbour.
                Some(_) if matches!(self.flag, Some(Flag::Mask(_))) => return None,
                Some(direction) => {
                    let back = direction.opposite();
                    (Reg::NEWS, sum.map(|reach| reach.from(back, &self.margin, self.stale)))
                }
                None => (receiver, sum),
            };
            self.write((Space::Analogue, target), value);
        }
        Some(())
    }

    /// 1-bit registers are masks that patterns give, or copies of FLAG and what NOT makes of them.
    fn gate(&mut self, inst: &Inst, gate: Gate) -> Option<()> {
        let (writes, reads) = inst.split();
        if gate == Gate::All {
            self.flag = None;
            return Some(());
        }
        if gate == Gate::Where {
            self.flag = Some(match self.masks.get(reads[0]) {
                Some(mask) => Flag::Mask(mask),
                None => Flag::Data(self.of((Space::Digital, reads[0])).unwrap_or_default()),
            });
            return Some(());
        }
        if self.field.is_some_and(|field| self.masks.gate(inst, gate, field).is_some()) {
            return Some(());
        }
        if !matches!(gate, Gate::Copy | Gate::Not) || writes[0] == Reg::FLAG {
            return None;
        }
        // What is not 1 is 1 after NOT, wherever it is.
        let bit = self.of((Space::Digital, reads[0])).unwrap_or_default();
        let bit = Reach { spoilt: bit.spoilt, ..Reach::EVERYWHERE };
        self.masks.forget(writes[0]);
        self.write_everywhere((Space::Digital, writes[0]), Some(bit));
        Some(())
    }

    /// Writes a register whatever FLAG is.
    fn write_everywhere(&mut self, register: Named, value: Option<Reach>) {
        let flag = self.flag.take();
        self.write(register, value);
        self.flag = flag;
    }

    fn write(&mut self, register: Named, value: Option<Reach>) {
        let value = match self.flag {
            None => value,
            // The old value stays in some elements, and FLAG itself may be wrong.
            Some(Flag::Data(flag)) => {
                [value, self.of(register), Some(flag)].into_iter().flatten().reduce(Reach::join)
            }
            Some(Flag::Mask(mask)) => {
                let new = value.and_then(|reach| reach.within(mask.ones, &self.margin));
                let old = self.of(register);
                let old = old.and_then(|reach| reach.within(mask.zeros, &self.margin));
                [new, old].into_iter().flatten().reduce(Reach::join)
            }
        };
        match value {
            Some(reach) if register.0 == Space::Digital => {
                self.registers.insert(register, reach);
            }
            Some(reach) => {
                for (most, beyond) in self.most.iter_mut().zip(reach.beyond) {
                    *most = (*most).max(beyond);
                }
                self.registers.insert(register, reach);
            }
            None => drop(self.registers.remove(&register)),
        }
    }
}

/// The reach of registers after instructions, and the largest reach of any value; `None` for programs
/// that do more than the bus and its masks do.
pub fn reaches(
    program: &Program,
    mut state: Reaches,
    reads: &[(usize, Named)],
) -> Option<(Vec<Reach>, [i64; 4])> {
    let mut found = vec![Reach::default(); reads.len()];
    for (index, inst) in program.instructions.iter().enumerate() {
        state.step(inst)?;
        for (found, (_, register)) in
            found.iter_mut().zip(reads).filter(|(_, (after, _))| *after == index)
        {
            *found = state.of(*register).unwrap_or_default();
        }
    }
    Some((found, state.most()))
}
