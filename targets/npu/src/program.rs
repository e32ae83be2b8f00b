//! The program in memory: the lines of one file, which is the program of one core.
//!
//! Facts: `gemini` (`docs/bibliography.md`). A value of these types need not obey the rules of
//! [`crate::verify`].

use crate::isa::Inst;
use smallvec::SmallVec;

/// Layer indices of a map.
pub type Indices = SmallVec<[i32; 4]>;

/// Where a line comes from: debug data that machine code does not hold. Timing groups by `wkl`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Map {
    /// Layer where the instruction is scheduled (`layer_index` of the frontend IR).
    pub slyr: i32,
    /// Layers whose data it moves; empty when it moves none.
    pub clyr: Indices,
    /// Fusion layer where it is scheduled.
    pub s_flyr: i32,
    /// Fusion layers whose data it moves.
    pub c_flyr: Indices,
    /// Workload of the scheduler IR.
    pub wkl: i32,
    /// Tile of the workload, -1 when that means nothing; absent where the text has no such key.
    pub tile: Option<i32>,
}

impl Map {
    /// The map of a line that belongs to nothing.
    pub fn none() -> Map {
        Map {
            slyr: -1,
            clyr: Indices::new(),
            s_flyr: -1,
            c_flyr: Indices::new(),
            wkl: -1,
            tile: Some(-1),
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The instruction.
    pub inst: Inst,
    /// Where it comes from; `None` where the text elides it (`{...}`).
    pub map: Option<Map>,
    /// Start and end in cycles, in traces.
    pub time: Option<(u64, u64)>,
}

impl Line {
    /// The workload, if the line tells.
    pub fn workload(&self) -> Option<i32> {
        self.map.as_ref().map(|map| map.wkl)
    }
}

/// A member of an enumeration whose name is not the table's, so that the text comes back as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spelling {
    /// Line, from 0.
    pub line: usize,
    /// Operand of its row.
    pub operand: usize,
    /// The member's name.
    pub member: String,
}

/// The program of one core.
///
/// A trace has a time in every line, an assembly file in none. Several tasks may follow each
/// other, each from `ct_st` to `ct_ed`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The lines, in file order.
    pub lines: Vec<Line>,
    /// Names of members the table does not know, by line and operand.
    pub spellings: Vec<Spelling>,
}

impl Program {
    /// Whether the lines have times.
    pub fn is_trace(&self) -> bool {
        self.lines.first().is_some_and(|line| line.time.is_some())
    }

    /// The instructions in order.
    pub fn instructions(&self) -> impl ExactSizeIterator<Item = &Inst> {
        self.lines.iter().map(|line| &line.inst)
    }

    /// The lines of every task: from each `ct_st` up to the next, or to the end. Lines before the
    /// first `ct_st` are a task of their own.
    pub fn tasks(&self) -> Vec<std::ops::Range<usize>> {
        let begins = |line: &Line| matches!(line.inst, Inst::CtSt { .. });
        let mut starts: Vec<usize> =
            (0..self.lines.len()).filter(|&i| i == 0 || begins(&self.lines[i])).collect();
        starts.push(self.lines.len());
        starts.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }
}
