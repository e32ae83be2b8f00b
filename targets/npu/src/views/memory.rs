//! Who holds which bytes of L2 and WL0, from the first write to the last read. Where several layers
//! write channels of the same pixels, the bytes are those of the layer that wrote last.

use super::Run;
use crate::regions::{Region, RegionTable};
use crate::replay::Node;
use crate::work::{Memory, Work, accesses};
use quincunx_timeline::{Block, MemoryMap};
use std::collections::BTreeMap;

/// Pieces of memory that are looked at, for each line: so many lines of other programs touch few.
const PIECES: usize = 64;

/// What bytes are: of which layer, and whether they are weights.
type Owner = (Option<i32>, bool);

/// Bytes that hold one thing.
#[derive(Clone, Copy)]
struct Held {
    end: u64,
    owner: Owner,
    time: (u64, u64),
    /// What was read is complete; what is written beside it later is another thing.
    read: bool,
}

/// A memory: what lies in it by the first bytes, and what did.
#[derive(Default)]
struct Map {
    held: BTreeMap<u64, Held>,
    past: Vec<(u64, Held)>,
    /// Pieces that were looked at.
    work: usize,
}

impl Map {
    /// The pieces that overlap some bytes, or touch them.
    fn near(&mut self, start: u64, end: u64) -> Vec<u64> {
        let near = self.held.range(..=end).rev().take_while(|(_, held)| held.end >= start);
        let near: Vec<u64> = near.map(|(&start, _)| start).collect();
        self.work = self.work.saturating_add(near.len());
        near
    }

    fn read(&mut self, (start, end): (u64, u64), until: u64) {
        for first in self.near(start, end) {
            let Some(held) = self.held.get_mut(&first) else { continue };
            if first < end && held.end > start {
                (held.read, held.time.1) = (true, held.time.1.max(until));
            }
        }
    }

    fn write(&mut self, (start, end): (u64, u64), owner: Owner, time: (u64, u64)) {
        let mut new = (start, Held { end, owner, time, read: false });
        for first in self.near(start, end) {
            let Some(old) = self.held.remove(&first) else { continue };
            if old.owner == owner && !old.read {
                new.0 = new.0.min(first);
                new.1.end = new.1.end.max(old.end);
                new.1.time = (new.1.time.0.min(old.time.0), new.1.time.1.max(old.time.1));
                continue;
            }
            let (low, high) = (first.max(start), old.end.min(end));
            if low < high {
                self.past.push((low, Held { end: high, ..old }));
            }
            // What is not overwritten stays.
            for (from, to) in [(first, old.end.min(start)), (first.max(end), old.end)] {
                if from < to {
                    self.held.insert(from, Held { end: to, ..old });
                }
            }
        }
        self.held.insert(new.0, new.1);
    }
}

/// The maps of all memories; `None` for a program that cuts them into too many pieces.
pub(super) fn maps(run: &Run<'_>) -> Option<Vec<MemoryMap>> {
    let cores = run.programs.len();
    let new = || (0..cores).map(|_| Map::default()).collect::<Vec<_>>();
    let mut memories = [new(), new()];
    let mut regions = vec![RegionTable::default(); cores];
    let most = run.replay.order.len().saturating_add(1).saturating_mul(PIECES);
    for &node in &run.replay.order {
        let Some(work) = run.work(node) else { continue };
        if let Work::Regions(cuts) = work {
            regions[node.core].set(cuts);
        }
        touch(run, node, work, &regions, &mut memories);
        let looked = memories.iter().flatten().map(|map| map.work);
        if looked.fold(0, usize::saturating_add) > most {
            return None;
        }
    }
    let [l2, wl0] = memories;
    let size = [run.arch.l2_bytes.into(), run.arch.wl0_bytes()];
    let named = l2.into_iter().zip(wl0).enumerate().flat_map(|(core, (l2, wl0))| {
        [("L2", l2, size[0]), ("WL0", wl0, size[1])].map(|(name, map, size)| {
            let name = if cores == 1 { name.to_owned() } else { format!("{name} of core {core}") };
            finished(run, name, map, size)
        })
    });
    Some(named.filter(|map| !map.blocks.is_empty()).collect())
}

/// Marks what a line reads and writes.
fn touch(
    run: &Run<'_>,
    node: Node,
    work: &Work,
    regions: &[RegionTable],
    [l2, wl0]: &mut [Vec<Map>; 2],
) {
    let owner = (run.layer(node), matches!(work, Work::Weights(_)));
    let time = run.time(node);
    let mut list = accesses(work, run.arch);
    // What a line replaces it has read before.
    list.sort_by_key(|access| access.write);
    for access in list {
        let (core, region) = match access.memory {
            Memory::Dram(_) => continue,
            Memory::Wl0 => (node.core, Some(Region { start: 0, length: run.arch.wl0_bytes() })),
            Memory::L2(number) => (node.core, regions[node.core].get(number)),
            Memory::Remote(core, number) => {
                (core.into(), regions.get(usize::from(core)).and_then(|table| table.get(number)))
            }
            Memory::RemoteWhole(core) => (core.into(), Some(Region::whole(run.arch))),
        };
        let memory = if access.memory == Memory::Wl0 { &mut *wl0 } else { &mut *l2 };
        let (Some(map), Some(region)) = (memory.get_mut(core), region) else { continue };
        let pieces = region.pieces(access.span.start, access.span.end);
        for piece in pieces.into_iter().flatten() {
            match access.write {
                true => map.write(piece, owner, time),
                false => map.read(piece, time.1),
            }
        }
    }
}

fn finished(run: &Run<'_>, name: String, map: Map, size: u64) -> MemoryMap {
    let title = |(layer, is_weights): Owner| match (run.title(layer), is_weights) {
        (title, true) => format!("{title} weights").trim_start().to_owned(),
        (title, false) if title.is_empty() => "data".to_owned(),
        (title, false) => title,
    };
    let mut all = map.past;
    all.extend(map.held);
    all.sort_unstable_by_key(|&(start, held)| (held.time, start, held.end));
    let block = |(start, held): (u64, Held)| Block {
        name: title(held.owner),
        bytes: (start, held.end),
        time: held.time,
    };
    MemoryMap { name, size, blocks: all.into_iter().map(block).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_testkit::Random;

    /// Byte by byte: whose it is, when it was written, and when it was last used.
    type Bytes = [Option<(Owner, u64, u64)>; 64];

    /// The same blocks as byte by byte, and of what was overwritten as well.
    #[test]
    fn blocks_are_those_of_single_bytes() {
        let mut random = Random::new(7);
        let (mut reads, mut past) = (0, 0);
        for _ in 0..200 {
            let (mut map, mut bytes): (Map, Bytes) = (Map::default(), [None; 64]);
            for now in 0..40_u64 {
                let start = random.below(60);
                let end = start + 1 + random.below(64 - start);
                let range = start as usize..end as usize;
                if random.below(3) == 0 {
                    map.read((start, end), now + 1);
                    bytes[range].iter_mut().flatten().for_each(|held| held.2 = now + 1);
                    reads += 1;
                    continue;
                }
                let owner = (Some(random.below(3)), false);
                for (byte, old) in range.clone().map(|byte| (byte, bytes[byte])) {
                    let Some((owner, written, used)) = old else { continue };
                    // It lies in a block that was there all the time, or still is.
                    let lived = |(start, held): (u64, &Held)| {
                        let inside = (start..held.end).contains(&(byte as u64));
                        inside
                            && held.owner == owner
                            && held.time.0 <= written
                            && used <= held.time.1
                    };
                    assert!(map.held.iter().any(|(&start, held)| lived((start, held))));
                }
                map.write((start, end), owner, (now, now + 1));
                bytes[range].fill(Some((owner, now, now + 1)));
                for (byte, held) in bytes.iter().enumerate() {
                    let mut parts = map
                        .held
                        .iter()
                        .filter(|(start, part)| (**start..part.end).contains(&(byte as u64)));
                    let part = parts.next();
                    assert_eq!(part.map(|(_, part)| part.owner), held.map(|held| held.0));
                    assert!(parts.next().is_none(), "no byte lies in two blocks");
                }
            }
            past += map.past.len();
        }
        assert!(reads > 1000 && past > 1000);
    }
}
