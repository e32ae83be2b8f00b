//! What a program asks of its machine.

use quincunx_timeline::Timeline;

/// What a program takes of its machine and what holds it up, for tables that put machines side by
/// side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demand {
    /// Seconds of one inference; `None` where the clock is not known.
    pub seconds: Option<f64>,
    /// The part that works of what the machine could do at the same time, from 0 to 1: of the
    /// multiplications of an array, of the time of a processor array, of the logic of a part. `None`
    /// where it is not known how much there is.
    pub utilisation: Option<f64>,
    /// What decides how long it takes, in the terms of the machine: a unit, a lane of its timeline.
    pub limit: Option<String>,
    /// What it uses of every memory.
    pub memories: Vec<MemoryUse>,
}

/// What a program uses of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Name of the memory.
    pub name: String,
    /// What is counted: `bytes`, `registers`, `bits`.
    pub unit: &'static str,
    /// Most of it that the program needs.
    pub used: u64,
    /// What the machine has; `None` where nothing says so.
    pub size: Option<u64>,
}

impl MemoryUse {
    /// So many bytes of a memory.
    pub fn bytes(name: impl Into<String>, used: u64, size: Option<u64>) -> Self {
        MemoryUse { name: name.into(), unit: "bytes", used, size }
    }
}

impl Demand {
    /// What a timeline says: the lane that takes most of the critical path, and the most bytes of its
    /// memories that are in use at one time.
    pub fn of(timeline: &Timeline) -> Demand {
        let usage = timeline.usage();
        // Of equals the first.
        let most = usage.iter().rev().max_by_key(|usage| usage.critical);
        let limit = most.filter(|usage| usage.critical > 0).map(|usage| usage.lane.index());
        let memory = |map: &quincunx_timeline::MemoryMap| {
            MemoryUse::bytes(&map.name, map.peak(), Some(map.size))
        };
        Demand {
            seconds: timeline.seconds(),
            utilisation: None,
            limit: limit.map(|lane| timeline.lanes()[lane].clone()),
            memories: timeline.memories().iter().map(memory).collect(),
        }
    }
}
