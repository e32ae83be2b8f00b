//! Where kernels begin and end in a text: around all that is not the controller's.

use crate::isa::{Class, Inst};

/// The begins and ends that a program without any of its own gets as it is written.
pub(super) struct Frames {
    /// The program has none of its own.
    is_needed: bool,
    inside: bool,
}

impl Frames {
    /// For a program of these instructions, and the begin that stands before all of it.
    pub(super) fn new(instructions: &[Inst]) -> (Frames, Option<Inst>) {
        let is_needed = instructions.iter().all(|inst| inst.class() != Class::Frame);
        let mut frames = Frames { is_needed, inside: false };
        let begin = match instructions.first() {
            Some(first) => frames.before(first),
            None => frames.turn(true),
        };
        (frames, begin)
    }

    /// What stands before an instruction.
    pub(super) fn before(&mut self, inst: &Inst) -> Option<Inst> {
        self.turn(!inst.class().is_controller())
    }

    /// What stands behind the last instruction.
    pub(super) fn end(mut self) -> Option<Inst> {
        self.turn(false)
    }

    fn turn(&mut self, inside: bool) -> Option<Inst> {
        let turns = self.is_needed && self.inside != inside;
        self.inside = inside;
        turns.then_some(if inside { Inst::KernelBegin {} } else { Inst::KernelEnd {} })
    }
}

/// Instructions without begins and ends, with those that they are written with.
pub(super) fn framed(instructions: &[Inst]) -> Vec<Inst> {
    let (mut frames, begin) = Frames::new(instructions);
    let mut list: Vec<Inst> = begin.into_iter().collect();
    for inst in instructions {
        list.extend(frames.before(inst).into_iter().chain([*inst]));
    }
    list.extend(frames.end());
    list
}
