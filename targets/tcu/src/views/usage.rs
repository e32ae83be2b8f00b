//! How many vectors of its memories a program touches.

use crate::program::{Memory, Program};
use std::ops::Range;

/// Most vectors that are looked at; longer programs are not counted.
const MOST: u64 = 1 << 31;

/// Vectors of the chip's memories that some instructions touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    /// Of local memory.
    pub(crate) local: u64,
    /// Accumulators.
    pub(crate) acc: u64,
}

/// Different vectors that the instructions of every range touch. `None` for programs that touch too
/// many.
pub(crate) fn touched(program: &Program, ranges: &[Range<usize>]) -> Option<Vec<Touched>> {
    let arch = &program.arch;
    // By vector the number of the range that touched it last.
    let new = |depth: u64| vec![u32::MAX; depth as usize];
    let (mut local, mut acc) = (new(arch.local_depth), new(arch.accumulator_depth));
    let mut sum = 0_u64;
    let mut all = Vec::with_capacity(ranges.len());
    for (number, range) in ranges.iter().enumerate() {
        let mut touched = Touched::default();
        for step in &program.steps[range.clone()] {
            for span in step.inst.effects(arch).spans() {
                let (marks, count) = match span.memory {
                    Memory::Local => (&mut local, &mut touched.local),
                    Memory::Acc => (&mut acc, &mut touched.acc),
                    _ => continue,
                };
                sum = sum.saturating_add(span.count);
                if sum > MOST {
                    return None;
                }
                // Behind the end of the memory there is no vector; the rules say so.
                let places =
                    (0..span.count).map_while(|index| usize::try_from(span.at(index)).ok());
                for place in places {
                    let Some(mark) = marks.get_mut(place) else { break };
                    *count += u64::from(*mark != number as u32);
                    *mark = number as u32;
                }
            }
        }
        all.push(touched);
    }
    Some(all)
}

/// One more than the highest vector of a memory that a program touches.
pub(crate) fn extent(program: &Program, memory: Memory) -> u64 {
    let steps = program.steps.iter();
    let ends = steps.flat_map(|step| {
        let spans = step.inst.effects(&program.arch);
        let ends = spans.spans().filter(|span| span.memory == memory);
        ends.map(|span| span.last().saturating_add(1)).max()
    });
    ends.max().unwrap_or(0)
}
