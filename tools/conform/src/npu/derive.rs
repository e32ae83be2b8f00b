//! Programs derived from schedules of the original tool, against its own.
//!
//! Lines of two programs are the same when they do the same thing: a tile of a workload, the n-th
//! transfer of DRAM, weights from the same place of L2 for the same workload.

use super::{Check, parse, read_gz};
use crate::folder;
use crate::report::Report;
use quincunx_contract::{ArchSource, File, Log, Options, Target as _};
use quincunx_diag::Result;
use quincunx_npu::isa::{Inst, Queue, Queues};
use quincunx_npu::program::Program;
use quincunx_npu::work::{Resolved, WeightSource, Work, resolve};
use quincunx_npu::{Artifact, TARGET};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

/// What a line is, whatever its position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// Control, by position.
    Control(usize),
    /// Workload and tile.
    Tile(i32, Option<i32>),
    /// Position among the transfers of DRAM.
    Transfer(usize),
    /// Workload and byte of L2.
    Stream(i32, i64),
    /// A copy inside L2, by position.
    Copy(usize),
}

/// Lines that are equal, of so many.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    equal: usize,
    of: usize,
}

impl Tally {
    fn add(&mut self, equal: bool) {
        self.equal += usize::from(equal);
        self.of += 1;
    }

    /// At least this share, in whole numbers.
    fn reaches(self, equal: usize, of: usize) -> bool {
        self.equal * of >= equal * self.of
    }
}

/// Shares that are known to be reached on five published programs.
const SHARES: [(&str, usize, usize); 9] = [
    ("tiles and cuts", 619, 619),
    ("STaddr", 612, 619),
    ("DTaddr", 609, 619),
    ("SWaddr", 615, 619),
    ("other fields of convolutions", 1, 1),
    ("vector addresses", 1929, 1971),
    ("transfers", 279, 279),
    ("streams", 400, 404),
    ("other fields of vector lines", 95, 100),
];

/// Of the producers of lines, by program; older ones name their own queue and have another rule.
const PRODUCERS: [(&str, usize, usize); 2] = [("resnet50_b1", 357, 366), ("resnet50_b4", 392, 394)];

/// Derives the program of every schedule of the folder.
pub(super) fn run(path: &Path, report: &mut Report) -> Result<()> {
    for name in folder::list(path)?.files {
        let Some(stem) = name.strip_suffix(".sched.json.gz") else { continue };
        if let Err(reason) = network(path, stem, report) {
            report.case(&format!("{stem}/derive"), Err(reason));
        }
    }
    Ok(())
}

fn network(path: &Path, stem: &str, report: &mut Report) -> Check {
    let published = parse(&read_gz(&path.join(format!("{stem}.asm.txt.gz")))?)?;
    let mut files = Vec::new();
    let model = stem.split('_').next().unwrap_or(stem);
    let scales = format!("{model}.quantization_scale.json.gz");
    for name in [format!("{stem}.sched.json.gz"), format!("{stem}.frontend.json.gz"), scales] {
        if path.join(&name).exists() {
            files.push(File::new(&name, read_gz(&path.join(&name))?));
        }
    }
    let (derived, _) = derive(&files, "compat")?;
    let mut case = |what: &str, tally: Tally, equal: usize, of: usize| {
        let message = format!("{} of {} are equal", tally.equal, tally.of);
        if tally.equal < tally.of {
            report.note(format!("{stem}: {what}: {message}"));
        }
        let result = tally.reaches(equal, of).then_some(()).ok_or(message);
        report.case(&format!("{stem}/derive/{what}"), result);
    };
    let tallies = fields(&derived, &published);
    for (what, equal, of) in SHARES {
        if let Some(tally) = tallies.get(what) {
            case(what, *tally, equal, of);
        }
    }
    let own = |inst: &Inst| inst.tokens().is_some_and(|(prev, _)| prev.contains(inst.queue()));
    if !published.instructions().any(own) {
        let known = PRODUCERS.iter().find(|(name, ..)| *name == stem);
        let (equal, of) = known.map_or((95, 100), |(_, equal, of)| (*equal, *of));
        case("producers", producers(&derived, &published), equal, of);
    }
    case("lines in their order, tokens apart", in_order(&derived, &published), 95, 100);
    let (_, problems) = derive(&files, "ours")?;
    report.case(&format!("{stem}/derive/ours"), super::equal("problems", problems, 0));
    Ok(())
}

/// The program of a schedule, and how many errors and doubts its verifier has.
fn derive(files: &[File], manner: &str) -> Check<(Program, usize)> {
    let text = |problem: quincunx_diag::Diagnostic| problem.to_string();
    let given = [("derive".to_owned(), manner.to_owned())];
    let options = Options::new(TARGET.info().options, &given).map_err(text)?;
    let arch = TARGET.arch(&ArchSource::Default).map_err(text)?;
    let program = TARGET.read(files, None, &*arch, &options, &mut Log::default());
    let program = program.map_err(|problems| super::first(&problems))?;
    let problems = program.verify();
    let artifact = program.as_any().downcast_ref::<Artifact>().ok_or("no npu program")?;
    let program = artifact.programs().first().cloned().ok_or("no program")?;
    Ok((program, problems.len()))
}

/// The lines that do something, with what they are.
fn keys(program: &Program) -> Vec<(Key, usize, Work)> {
    let (mut control, mut transfer, mut copy) = (0, 0, 0);
    let count = |count: &mut usize| {
        *count += 1;
        *count - 1
    };
    let mut keyed = Vec::new();
    for (index, work) in resolve(program).into_iter().enumerate() {
        let Resolved::Ok(work) = work else { continue };
        let map = program.lines[index].map.as_ref();
        let workload = map.map_or(-1, |map| map.wkl);
        let key = match &work {
            Work::Configure => continue,
            work if work.uses_dram() => Key::Transfer(count(&mut transfer)),
            Work::Weights(weights) => match weights.source {
                WeightSource::L2(place) => Key::Stream(workload, place.address),
                _ => continue,
            },
            Work::Conv(_) | Work::Vector(_) => Key::Tile(workload, map.and_then(|map| map.tile)),
            Work::Reorder(_) => Key::Copy(count(&mut copy)),
            _ => Key::Control(count(&mut control)),
        };
        keyed.push((key, index, work));
    }
    keyed
}

fn fields(derived: &Program, published: &Program) -> BTreeMap<&'static str, Tally> {
    let own: BTreeMap<Key, Work> =
        keys(derived).into_iter().map(|(key, _, work)| (key, work)).collect();
    let mut tallies: BTreeMap<&'static str, Tally> = BTreeMap::new();
    for (key, _, theirs) in keys(published) {
        let ours = own.get(&key);
        let mut add = |what, equal| tallies.entry(what).or_default().add(equal);
        match (&theirs, ours) {
            (Work::Conv(b), Some(Work::Conv(a))) => {
                let shape = |c: &quincunx_npu::work::Conv| (c.tile, c.mini, c.mini_image, c.y_cut);
                add("tiles and cuts", shape(a) == shape(b));
                add("STaddr", a.input == b.input);
                add("DTaddr", a.output == b.output);
                add("SWaddr", a.weights == b.weights);
                let mut rest = *a;
                (rest.input, rest.output, rest.weights) = (b.input, b.output, b.weights);
                add("other fields of convolutions", rest == *b);
            }
            (Work::Vector(b), Some(Work::Vector(a))) => {
                add("vector addresses", a.input == b.input);
                add("vector addresses", a.output == b.output);
                if b.has_second() {
                    add("vector addresses", a.second == b.second);
                }
                let mut rest = *a;
                (rest.input, rest.second, rest.output) = (b.input, b.second, b.output);
                add("other fields of vector lines", rest == *b);
            }
            (Work::Conv(_), _) => add("tiles and cuts", false),
            (Work::Vector(_), _) => add("vector addresses", false),
            (Work::Weights(b), ours) => {
                let what = if theirs.uses_dram() { "transfers" } else { "streams" };
                let equal = matches!(ours, Some(Work::Weights(a)) if a == b);
                add(what, equal);
            }
            (Work::Copy(b), ours) => {
                let same = |a: &quincunx_npu::work::Copy| {
                    // What SME does is not known; it makes no difference where channels are whole.
                    quincunx_npu::work::Copy { dense: b.dense, ..*a } == *b
                };
                add("transfers", matches!(ours, Some(Work::Copy(a)) if same(a)));
            }
            _ => {}
        }
    }
    tallies
}

/// Lines at the same position that differ in their tokens only.
fn in_order(derived: &Program, published: &Program) -> Tally {
    let bare = |inst: &Inst| inst.with_tokens(Queues::NONE, Queues::NONE);
    let mut own = derived.instructions();
    let mut tally = Tally::default();
    for theirs in published.instructions() {
        tally.add(own.next().is_some_and(|ours| bare(ours) == bare(theirs)));
    }
    tally
}

/// The lines that a line waits for by tokens, whatever the order of lines.
fn waits(program: &Program) -> BTreeMap<Key, BTreeSet<Key>> {
    let mut pushed: BTreeMap<(Queue, Queue), VecDeque<Key>> = BTreeMap::new();
    let mut waits = BTreeMap::new();
    for (key, index, _) in keys(program) {
        let inst = &program.lines[index].inst;
        let Some((prev, next)) = inst.tokens() else { continue };
        let own = inst.queue();
        let found = prev.iter().filter_map(|from| pushed.get_mut(&(from, own))?.pop_front());
        waits.insert(key.clone(), found.collect());
        for to in next.iter() {
            pushed.entry((own, to)).or_default().push_back(key.clone());
        }
    }
    waits
}

fn producers(derived: &Program, published: &Program) -> Tally {
    let own = waits(derived);
    let mut tally = Tally::default();
    for (key, theirs) in waits(published) {
        if !matches!(key, Key::Control(_)) {
            tally.add(own.get(&key) == Some(&theirs));
        }
    }
    tally
}
