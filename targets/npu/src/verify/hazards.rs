//! Accesses to the same bytes must be ordered; DRAM operations form one chain.

use super::Subject;
use crate::isa::Queue;
use crate::regions::{Region, RegionTable};
use crate::replay::{Clocks, Node, Replay, replay};
use crate::verify::written::Written;
use crate::work::{Access, Memory, Span, VectorKind, WeightSource, Weights, Work, accesses};
use quincunx_diag::{Diagnostic, Problems};
use std::collections::BTreeMap;

/// Comparisons after which the check gives up; real files of 10,000 lines need some millions.
const MAX_COMPARISONS: u64 = 100_000_000;

/// Entries of a history before those are dropped that matter no more; few enough to be compared
/// with each access.
const SWEEP: usize = 64;

/// What the hazard check compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HazardStatistics {
    /// Pairs of accesses to common bytes, one a write, that were compared.
    pub pairs: u64,
    /// Pairs that are not ordered.
    pub unordered: u64,
    /// DRAM operations of a core that are not ordered after the one before them in the file.
    pub unordered_dram: u64,
}

/// A memory of a core, for the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Store {
    L2,
    Wl0,
    Regions,
}

#[derive(Clone, Copy)]
struct Entry {
    start: u64,
    end: u64,
    slice: Option<(u64, u64)>,
    write: bool,
    node: Node,
}

/// The accesses to a store that a later one may meet.
#[derive(Default)]
struct History {
    entries: Vec<Entry>,
    /// How many entries there may be before those are dropped that are ordered before everything to
    /// come.
    sweep_at: usize,
    /// By queue of all cores: the lines that access the store, with their numbers in the queue.
    users: Vec<Vec<(u32, Node)>>,
}

struct Checker<'a, 'b> {
    subject: &'a Subject<'a>,
    clocks: &'a Clocks,
    problems: &'b mut Problems,
    regions: Vec<RegionTable>,
    history: BTreeMap<(usize, Store), History>,
    /// By queue of all cores: how many of its lines were executed.
    done: Vec<u32>,
    /// How many entries a history has at least before it is swept.
    sweep: usize,
    written: Vec<Written>,
    unwritten: Vec<Node>,
    comparisons: u64,
    statistics: HazardStatistics,
}

pub(super) fn check(
    subject: &Subject<'_>,
    replay: &Replay,
    clocks: &Clocks,
    problems: &mut Problems,
) {
    run(subject, replay, clocks, SWEEP, problems);
    dram_order(subject, clocks, problems);
}

/// How many pairs of accesses the check compares, and how many of them and of DRAM operations are
/// not ordered.
pub fn hazard_statistics(subject: &Subject<'_>) -> HazardStatistics {
    let replay = replay(subject.programs, subject.work, &|_| 0);
    let clocks = Clocks::new(subject.programs, &replay);
    let statistics = run(subject, &replay, &clocks, SWEEP, &mut Problems::default());
    let unordered_dram = unordered_dram(subject, &clocks).len() as u64;
    HazardStatistics { unordered_dram, ..statistics }
}

fn run(
    subject: &Subject<'_>,
    replay: &Replay,
    clocks: &Clocks,
    sweep: usize,
    problems: &mut Problems,
) -> HazardStatistics {
    let cores = subject.programs.len();
    let mut checker = Checker {
        subject,
        clocks,
        problems,
        regions: vec![RegionTable::default(); cores],
        history: users(subject, replay, clocks),
        done: vec![0; cores.saturating_mul(Queue::ALL.len())],
        sweep,
        written: vec![Written::new(subject.arch.l2_bytes); cores],
        unwritten: Vec::new(),
        comparisons: 0,
        statistics: HazardStatistics::default(),
    };
    for &node in &replay.order {
        let Ok(work) = &subject.work[node.core][node.line] else { continue };
        if let Work::Regions(regions) = work {
            checker.regions[node.core].set(regions);
            for number in (u64::from(regions.first)..).take(regions.cuts.len()) {
                checker.touch(node.core, Store::Regions, cell(node, number, true));
            }
        }
        let list = accesses(work, subject.arch);
        for access in &list {
            checker.access(node, access);
        }
        checker.own_input(node, work, &list);
        let (lane, number) = clocks.position(node);
        checker.done[lane] = number;
        if checker.comparisons > MAX_COMPARISONS {
            let message = "the program has more overlapping accesses than can be compared";
            checker.problems.push(Diagnostic::unsupported("Q4048", message));
            break;
        }
    }
    checker.report_unwritten();
    checker.statistics
}

impl Checker<'_, '_> {
    fn access(&mut self, node: Node, access: &Access) {
        let Access { memory, span, write, .. } = *access;
        let (core, region) = match memory {
            Memory::L2(region) => (node.core, Some(region)),
            Memory::Remote(core, region) => (usize::from(core), Some(region)),
            Memory::RemoteWhole(core) => (usize::from(core), None),
            Memory::Wl0 => {
                let (Ok(start), Ok(end)) = (u64::try_from(span.start), u64::try_from(span.end))
                else {
                    return;
                };
                let entry = Entry { start, end, slice: None, write, node };
                return self.touch(node.core, Store::Wl0, entry);
            }
            Memory::Dram(_) => return,
        };
        if core >= self.regions.len() {
            return;
        }
        let region = match region {
            None => Region::whole(self.subject.arch),
            Some(number) => {
                self.touch(core, Store::Regions, cell(node, number.into(), false));
                let Some(region) = self.regions[core].get(number) else {
                    return self.no_region(node, number);
                };
                if span.length() > region.length {
                    self.too_long(node, number, span, region);
                }
                region
            }
        };
        self.written(node, core, region, access);
        for entry in entries(node, region, access) {
            self.touch(core, Store::L2, entry);
        }
    }

    /// What an instruction writes over its own input has no defined result, unless each element is
    /// read before its place is written.
    fn own_input(&mut self, node: Node, work: &Work, list: &[Access]) {
        let (elementwise, accumulates) = match work {
            Work::Vector(vector) => {
                (vector.kind == VectorKind::Single && vector.config.stride == [1, 1], false)
            }
            Work::Reorder(reorder) => (reorder.order == 0, false),
            Work::Conv(conv) => (false, conv.accumulate.is_some()),
            _ => return,
        };
        let Some(write) = list.iter().find(|access| access.write) else { return };
        let Memory::L2(number) = write.memory else { return };
        let Some(region) = self.regions[node.core].get(number) else { return };
        for read in list.iter().filter(|access| !access.write) {
            let Memory::L2(number) = read.memory else { continue };
            let Some(source) = self.regions[node.core].get(number) else { continue };
            let same_place = read.memory == write.memory && read.span.start == write.span.start;
            let same_pitches = read.pattern.pitches[1..] == write.pattern.pitches[1..];
            let itself = accumulates && read.span == write.span;
            if itself || elementwise && same_place && same_pitches {
                continue;
            }
            let inputs = entries(node, source, read);
            let overlap = entries(node, region, write).into_iter().find(|output| {
                let common = |input: &Entry| input.start < output.end && output.start < input.end;
                inputs.iter().any(|input| common(input) && !disjoint_slices(input, output))
            });
            if let Some(Entry { start, end, .. }) = overlap {
                let message =
                    format!("the output in L2 [{start},{end}) overlaps the input of the same line");
                self.problems.push(self.subject.at(node, Diagnostic::invalid("Q4040", message)));
            }
        }
    }

    fn no_region(&mut self, node: Node, number: u8) {
        let message = format!("region {number} is used before ct_bc sets it");
        self.problems.push(self.subject.at(node, Diagnostic::invalid("Q4024", message)));
    }

    fn too_long(&mut self, node: Node, number: u8, span: Span, region: Region) {
        let message = format!(
            "{} bytes are accessed in region {number}, which has {}",
            span.length(),
            region.length
        );
        self.problems.push(self.subject.at(node, Diagnostic::invalid("Q4024", message)));
    }

    /// Remembers written bytes, and reads of others.
    fn written(&mut self, node: Node, core: usize, region: Region, access: &Access) {
        let pattern = access.pattern.merged();
        // What does not fit is reported, and would take long.
        if access.span.length() > region.length || pattern.runs() > region.length {
            return;
        }
        let start = access.span.start;
        let missing = if access.write {
            self.written[core].set_runs(region, start, pattern);
            false
        } else {
            !self.written[core].all_runs(region, start, pattern)
        };
        if missing && self.unwritten.last() != Some(&node) {
            self.unwritten.push(node);
        }
    }

    fn report_unwritten(&mut self) {
        let Some(&first) = self.unwritten.first() else { return };
        let count = self.unwritten.len();
        let message = match count {
            1 => "bytes of L2 are read that no line wrote".to_owned(),
            _ => format!("{count} lines read bytes of L2 that no line wrote; this is the first"),
        };
        self.problems.push(self.subject.at(first, Diagnostic::warning("Q4033", message)));
    }

    /// Compares an access with all earlier ones to common bytes, and remembers it.
    fn touch(&mut self, core: usize, store: Store, new: Entry) {
        let Entry { start, end, slice, write, node } = new;
        let mut history = self.history.remove(&(core, store)).unwrap_or_default();
        if history.entries.len() >= history.sweep_at.max(self.sweep) {
            self.forget(&mut history);
        }
        self.comparisons = self.comparisons.saturating_add(history.entries.len() as u64);
        history.entries.retain(|old| {
            let overlap = old.start < end && start < old.end;
            if !overlap || old.node == node {
                return true;
            }
            let conflict = (old.write || write) && !disjoint_slices(old, &new);
            let ordered = self.clocks.ordered(old.node, node);
            if conflict {
                self.statistics.pairs = self.statistics.pairs.saturating_add(1);
                if !ordered {
                    self.statistics.unordered = self.statistics.unordered.saturating_add(1);
                    self.hazard(core, store, old, &new);
                }
            }
            // Whatever is ordered after the new access is ordered after the old one as well.
            let covered = start <= old.start && old.end <= end && slice.is_none();
            !(ordered && covered && (write || !old.write))
        });
        history.entries.push(new);
        self.history.insert((core, store), history);
    }

    /// Drops what is ordered before every line that is still to access the store: in each queue
    /// before the first of them.
    fn forget(&mut self, history: &mut History) {
        let next: Vec<Node> = history
            .users
            .iter()
            .zip(&self.done)
            .filter_map(|(users, &done)| {
                let first = users.partition_point(|&(number, _)| number <= done);
                users.get(first).map(|&(_, node)| node)
            })
            .collect();
        history.entries.retain(|old| !next.iter().all(|&next| self.clocks.ordered(old.node, next)));
        history.sweep_at = history.entries.len().saturating_mul(2);
    }

    fn hazard(&mut self, core: usize, store: Store, old: &Entry, new: &Entry) {
        let (low, high) = (old.start.max(new.start), old.end.min(new.end));
        let subject = self.subject;
        let verb = |entry: &Entry| if entry.write { "writes" } else { "reads" };
        let (a, b) = (subject.show(old.node), subject.show(new.node));
        let problem = if store == Store::Regions {
            let message =
                format!("{a} and {b} are not ordered, and one sets region {low} of the other");
            Diagnostic::invalid("Q4025", message).help("let ct_bc give the queue a token")
        } else {
            let name = match store {
                Store::Wl0 => "WL0",
                _ => "L2",
            };
            let kind = match (old.write, new.write) {
                (true, true) => "WAW",
                (true, false) => "RAW",
                _ => "WAR",
            };
            let of =
                if subject.programs.len() > 1 { format!(" of core {core}") } else { String::new() };
            let message = format!(
                "hazard {kind} on {name}{of} [{low},{high}): {a} {} and {b} {} them, not ordered by tokens",
                verb(old),
                verb(new)
            );
            Diagnostic::invalid("Q4031", message)
        };
        self.problems.push(subject.at(new.node, problem));
    }
}

/// For every store an empty history with the lines that access it.
fn users(
    subject: &Subject<'_>,
    replay: &Replay,
    clocks: &Clocks,
) -> BTreeMap<(usize, Store), History> {
    let cores = subject.programs.len();
    let lanes = cores.saturating_mul(Queue::ALL.len());
    let mut histories: BTreeMap<(usize, Store), History> = BTreeMap::new();
    for &node in &replay.order {
        let Ok(work) = &subject.work[node.core][node.line] else { continue };
        let (lane, number) = clocks.position(node);
        for (core, store) in stores(node.core, work).into_iter().flatten() {
            let history = histories.entry((core, store)).or_default();
            history.users.resize(lanes, Vec::new());
            history.users[lane].push((number, node));
        }
    }
    histories
}

/// The stores that a line of a core may access, with their cores. Who accesses an L2 also looks at
/// its regions.
fn stores(own: usize, work: &Work) -> [Option<(usize, Store)>; 5] {
    let l2 = |core| [Some((core, Store::L2)), Some((core, Store::Regions))];
    let ([a, b], [c, d], wl0) = match work {
        Work::Begin | Work::End | Work::Configure => ([None; 2], [None; 2], false),
        Work::Regions(_) => ([None, Some((own, Store::Regions))], [None; 2], false),
        Work::Copy(_) | Work::Vector(_) | Work::Reorder(_) => (l2(own), [None; 2], false),
        Work::Conv(_) => (l2(own), [None; 2], true),
        Work::Remote(remote) => (l2(own), l2(remote.core.into()), false),
        Work::Weights(Weights { source: WeightSource::Remote { core, .. }, .. }) => {
            (l2(own), l2(usize::from(*core)), true)
        }
        Work::Weights(_) => (l2(own), [None; 2], true),
    };
    [a, b, c, d, wl0.then_some((own, Store::Wl0))]
}

/// An access to a cell of the region table.
fn cell(node: Node, number: u64, write: bool) -> Entry {
    Entry { start: number, end: number.saturating_add(1), slice: None, write, node }
}

/// The bytes of an access to a region of L2.
fn entries(node: Node, region: Region, access: &Access) -> Vec<Entry> {
    let pieces = region.pieces(access.span.start, access.span.end);
    // Where a tensor wraps, its gaps are not followed.
    let slice = if pieces[1].is_some() { None } else { access.span.slice };
    let entry = |(start, end)| Entry { start, end, slice, write: access.write, node };
    pieces.into_iter().flatten().map(entry).collect()
}

/// Whether two accesses with gaps use different bytes: both repeat with the same distance, or one
/// is shorter than the distance of the other.
fn disjoint_slices(a: &Entry, b: &Entry) -> bool {
    let length = |entry: &Entry| entry.end.saturating_sub(entry.start);
    let (bytes_a, bytes_b, pitch) = match (a.slice, b.slice) {
        (Some((x, p)), Some((y, q))) if p == q => (x, y, p),
        (Some((x, p)), None) if length(b) < p => (x, length(b), p),
        (None, Some((y, p))) if length(a) < p => (length(a), y, p),
        _ => return false,
    };
    // Where b begins, counted from a, on a ring of one distance.
    let ring = Region { start: 0, length: pitch };
    let offset = ring.byte((b.start as i64).saturating_sub(a.start as i64));
    offset >= bytes_a && offset.saturating_add(bytes_b) <= pitch
}

/// Each DRAM operation is ordered after the one before it in the file.
fn dram_order(subject: &Subject<'_>, clocks: &Clocks, problems: &mut Problems) {
    for (first, second) in unordered_dram(subject, clocks) {
        let (a, b) = (subject.show(first), subject.show(second));
        let message = format!("DRAM operations of {a} and {b} are not ordered by tokens");
        problems.push(subject.at(second, Diagnostic::warning("Q4030", message)));
    }
}

/// DRAM operations of a core that follow each other in its file but not by tokens.
fn unordered_dram(subject: &Subject<'_>, clocks: &Clocks) -> Vec<(Node, Node)> {
    let mut found = Vec::new();
    for (core, work) in subject.work.iter().enumerate() {
        let uses = |line: &usize| work[*line].as_ref().is_ok_and(Work::uses_dram);
        let operations: Vec<usize> = (0..work.len()).filter(uses).collect();
        for pair in operations.windows(2) {
            let [first, second] = [pair[0], pair[1]].map(|line| Node { core, line });
            // Lines that never start are reported as such.
            if !clocks.ordered(first, second) && clocks.ordered(second, second) {
                found.push((first, second));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::NpuArch;
    use crate::program::Program;
    use crate::text::{self, Schema};
    use crate::work::resolve;
    use quincunx_diag::SourceId;
    use quincunx_testkit::Random;

    /// Hand-built programs, one after the other in one file.
    fn fragments() -> Program {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/npu/fragments");
        let mut paths: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
        paths.sort();
        let texts = paths.iter().filter(|path| path.to_string_lossy().ends_with(".asm.txt"));
        let mut program = Program::default();
        for bytes in texts.map(|path| std::fs::read(path).unwrap()) {
            let read = text::read(&bytes, SourceId(0), Schema::standard(), false).unwrap();
            program.lines.extend(read.program.lines);
        }
        program
    }

    /// Entries that are dropped change nothing that is found: with every token, and with some of
    /// them taken away.
    #[test]
    fn what_is_forgotten_finds_no_hazards() {
        let arch = NpuArch::preset("gemini").unwrap();
        let mut random = Random::new(9);
        let whole = fragments();
        let mut unordered = 0;
        for round in 0..60 {
            let mut program = whole.clone();
            for line in &mut program.lines {
                let Some((prev, next)) = line.inst.tokens() else { continue };
                // A token that is given but not taken keeps nothing from starting.
                let keep = |_: &Queue| round == 0 || random.below(8) > 0;
                let prev = prev.iter().filter(keep).collect();
                line.inst = line.inst.with_tokens(prev, next);
            }
            let work = [resolve(&program)];
            let subject = Subject { programs: &[&program], work: &work, arch: &arch };
            let replay = replay(subject.programs, subject.work, &|_| 0);
            let clocks = Clocks::new(subject.programs, &replay);
            let found = |sweep| {
                let mut problems = Problems::default();
                let statistics = run(&subject, &replay, &clocks, sweep, &mut problems);
                let texts = problems.finish().into_iter().map(|problem| problem.to_string());
                (statistics, texts.collect::<Vec<_>>())
            };
            let (all, texts) = found(usize::MAX);
            let (few, same) = found(0);
            assert_eq!((all.unordered, texts), (few.unordered, same), "{round}");
            assert!(few.pairs <= all.pairs);
            unordered += all.unordered;
        }
        assert!(unordered > 100, "{unordered}");
    }

    #[test]
    fn slices_of_one_tensor_are_disjoint() {
        let entry = |start, end, slice| Entry {
            start,
            end,
            slice,
            write: true,
            node: Node { core: 0, line: 0 },
        };
        let (a, b) = (entry(0, 1000, Some((64, 256))), entry(64, 1064, Some((64, 256))));
        assert!(disjoint_slices(&a, &b) && disjoint_slices(&b, &a));
        assert!(!disjoint_slices(&a, &entry(32, 1064, Some((64, 256)))));
        assert!(disjoint_slices(&a, &entry(64, 128, None)));
        assert!(!disjoint_slices(&a, &entry(200, 300, None)));
        assert!(!disjoint_slices(&a, &entry(0, 1000, Some((64, 128)))));
    }
}
