//! The dependency checker and the assigner, against a machine that does everything as late as the
//! waits allow.

use crate::common::{Random, arch, golden, listing};
use quincunx_dpas::arch::{DpasArch, Platform};
use quincunx_dpas::isa::operands::{Dependency, Options, TokenUse};
use quincunx_dpas::program::{Item, Listing, Statement};
use quincunx_dpas::shape::RowStride;
use quincunx_dpas::simulate::message::NoStorage;
use quincunx_dpas::simulate::thread::{Program, Thread};
use quincunx_dpas::simulate::{Rules, State};
use quincunx_dpas::swsb::{Unit, assign, check, effects, live};

const STRIDE: RowStride = RowStride::Full;

fn start(arch: &DpasArch, seed: u64) -> State {
    let mut random = Random::new(seed);
    let bytes = random.bytes(arch.file_bytes() as usize);
    State { threads: vec![bytes.into()], dispatch_mask: u32::MAX }
}

/// Runs the instructions of a listing in order.
fn execute(listing: &Listing, state: &mut State, arch: &DpasArch) {
    let program = Program::new(listing, arch, STRIDE).unwrap();
    let mut thread = Thread::new(arch, state.dispatch_mask);
    std::mem::swap(&mut thread.grf, &mut state.threads[0]);
    thread.run(&program, &mut NoStorage, Rules::default(), &mut 1_000_000).unwrap();
    std::mem::swap(&mut thread.grf, &mut state.threads[0]);
}

fn in_order(listing: &Listing, arch: &DpasArch, seed: u64) -> State {
    let mut state = start(arch, seed);
    execute(listing, &mut state, arch);
    state
}

/// The bytes that an instruction writes, and their values after it ran on a copy.
fn result(item: &Item, state: &State, arch: &DpasArch) -> Vec<(usize, u8)> {
    let mut after = state.clone();
    execute(&Listing { items: vec![item.clone()] }, &mut after, arch);
    let writes = effects(&item.statement, arch, STRIDE).writes;
    writes.into_iter().flatten().map(|at| (at, after.threads[0][at])).collect()
}

/// An instruction under way.
struct Flight {
    item: Item,
    token: Option<u8>,
    /// Macro, for systolic ones.
    group: usize,
    /// Pipe, number in the pipe, number among all pipes; `None` for systolic ones.
    pipe: Option<(u8, usize, usize)>,
    /// The results, once the sources are read.
    values: Option<Vec<(usize, u8)>>,
}

/// A machine whose instructions read their sources at once or late, and write as late as they may.
struct Lazy<'a> {
    arch: &'a DpasArch,
    state: State,
    flights: Vec<Flight>,
    counts: [usize; 8],
    group: usize,
    late_reads: bool,
}

impl Lazy<'_> {
    /// Reads the sources of a flight; systolic ones read in order.
    fn read(&mut self, index: usize) {
        let systolic = self.flights[index].pipe.is_none();
        for at in 0..=index {
            let together = at == index || (systolic && self.flights[at].pipe.is_none());
            if together && self.flights[at].values.is_none() {
                let values = result(&self.flights[at].item, &self.state, self.arch);
                self.flights[at].values = Some(values);
            }
        }
    }

    /// Writes the results of the flights that match, oldest first.
    fn finish(&mut self, wanted: impl Fn(&Flight) -> bool) {
        while let Some(at) = self.flights.iter().position(&wanted) {
            self.read(at);
            for (place, value) in self.flights[at].values.take().unwrap() {
                self.state.threads[0][place] = value;
            }
            self.flights.remove(at);
        }
    }

    fn wait(&mut self, dependency: Dependency, own: Option<u8>) {
        if let Some((pipe, distance)) = dependency.distance {
            let distance = usize::from(distance);
            let pipe = if pipe == 0 { own } else { Some(pipe) };
            let Some(pipe) = pipe else { return };
            let last = (self.counts[usize::from(pipe)] + 1).saturating_sub(distance);
            self.finish(|flight| match flight.pipe {
                Some((_, _, all)) if pipe == 1 => all < last,
                Some((of, number, _)) => of == pipe && number < last,
                None => false,
            });
        }
        match dependency.token {
            Some((TokenUse::Src, token)) => {
                let list = 0..self.flights.len();
                let of = |at: &usize| self.flights[*at].token == Some(token);
                let list: Vec<usize> = list.filter(of).collect();
                list.into_iter().for_each(|at| self.read(at));
            }
            Some((_, token)) => self.finish(|flight| flight.token == Some(token)),
            None => {}
        }
    }

    fn statement(&mut self, item: &Item) {
        let statement = &item.statement;
        let dependency = statement.options().dependency().unwrap();
        let mut flight =
            Flight { item: item.clone(), token: None, group: self.group, pipe: None, values: None };
        match statement {
            Statement::Systolic(inst) => {
                self.wait(dependency, None);
                if !inst.native().options.is_atomic() {
                    let token = dependency.token.filter(|(used, _)| *used == TokenUse::Set);
                    flight.token = token.map(|(_, token)| token);
                    let (group, token) = (self.group, flight.token);
                    let mut members =
                        self.flights.iter_mut().filter(|f| f.pipe.is_none() && f.group == group);
                    members.by_ref().for_each(|member| member.token = token);
                    self.group += 1;
                }
            }
            Statement::Vector(_) => match effects(statement, self.arch, STRIDE).unit {
                Unit::Pipe(pipe) => {
                    self.wait(dependency, Some(pipe));
                    flight.pipe = Some((pipe, self.counts[usize::from(pipe)], self.counts[1]));
                    self.counts[usize::from(pipe)] += 1;
                    self.counts[1] += 1;
                }
                unit => {
                    self.wait(dependency, None);
                    match unit {
                        Unit::AllRead(_) => (0..self.flights.len()).for_each(|at| {
                            if self.flights[at].token.is_some() {
                                self.read(at);
                            }
                        }),
                        Unit::AllWrite(_) => self.finish(|flight| flight.token.is_some()),
                        _ => {}
                    }
                    return;
                }
            },
            Statement::Raw(_) => return,
        }
        self.flights.push(flight);
        if !self.late_reads {
            self.read(self.flights.len() - 1);
        }
    }
}

/// The registers after a lazy run; with `reverse`, what is left over is written youngest first.
fn lazy(listing: &Listing, arch: &DpasArch, seed: u64, late_reads: bool, reverse: bool) -> State {
    let mut machine = Lazy {
        arch,
        state: start(arch, seed),
        flights: Vec::new(),
        counts: [0; 8],
        group: 0,
        late_reads,
    };
    listing.items.iter().for_each(|item| machine.statement(item));
    while let Some(next) = if reverse { machine.flights.last() } else { machine.flights.first() } {
        // A macro, and a pipe, keep their order.
        let (group, pipe) = (next.group, next.pipe.map(|(pipe, ..)| pipe));
        machine.finish(|flight| match (flight.pipe, pipe) {
            (Some((of, ..)), Some(pipe)) => of == pipe,
            (None, None) => flight.group == group,
            _ => false,
        });
    }
    machine.state
}

/// True if every late timing gives the results of execution in order.
fn is_safe(listing: &Listing, arch: &DpasArch) -> bool {
    [1, 2].into_iter().all(|seed| {
        let expected = in_order(listing, arch, seed);
        [(false, false), (false, true), (true, false), (true, true)]
            .into_iter()
            .all(|(late, reverse)| lazy(listing, arch, seed, late, reverse) == expected)
    })
}

/// True if nothing is missing, and no latency replaces a wait.
fn passes(listing: &Listing, arch: &DpasArch) -> bool {
    !check(listing, arch, STRIDE).iter().any(|found| found.is_error() || found.code() == "Q6079")
}

/// A random listing without dependencies: few registers, so that they collide.
fn random_listing(random: &mut Random, platform: Platform) -> Listing {
    let lanes = platform.lanes();
    let mut text = String::new();
    for _ in 0..2 + random.below(8) {
        let grf = |random: &mut Random| 8 * (1 + random.below(6));
        let (a, b, c) = (grf(random), grf(random), grf(random));
        if random.below(3) == 0 {
            let kind = random.pick(&["f", "d", "ud", "hf", "df"]);
            let narrow = if kind == "df" { lanes / 2 } else { lanes };
            text += &format!("mov ({narrow}|M0) r{a}.0<1>:{kind} r{b}.0<1;1,0>:{kind}\n");
            continue;
        }
        let repeat = random.pick(&[1, 4, 8, 8]);
        let kind = random.pick(&["b", "s4", "ub"]);
        let src0 = match random.below(3) {
            0 => "null".to_owned(),
            1 => format!("r{a}"),
            _ => format!("r{}", grf(random)),
        };
        text +=
            &format!("dpas.8x{repeat} ({lanes}|M0) r{a}:d {src0}:d r{b}:{kind} r{c}.0:{kind}\n");
    }
    listing(&text, platform)
}

#[test]
fn the_peers_listings_are_safe() {
    let mut count = 0;
    for case in golden("swsb_auto")["cases"].as_array().unwrap() {
        let platform = Platform::from_name(case["platform"].as_str().unwrap()).unwrap();
        let lines = |key: &str| -> Vec<&str> {
            case[key].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect()
        };
        let arch = arch(platform);
        let peer = listing(&lines("output").join("\n"), platform);
        assert_eq!(check(&peer, &arch, STRIDE), Vec::new());
        assert!(is_safe(&peer, &arch));
        let ours = assign(&listing(&lines("input").join("\n"), platform), &arch, STRIDE).unwrap();
        assert_eq!(check(&ours, &arch, STRIDE), Vec::new());
        assert!(is_safe(&ours, &arch));
        count += 1;
    }
    assert!(count > 50);
}

#[test]
fn assigned_dependencies_are_safe() {
    let mut random = Random::new(3);
    for case in 0..600 {
        let platform = random.pick(&Platform::WHOLE);
        let arch = arch(platform);
        let plain = random_listing(&mut random, platform);
        let assigned = assign(&plain, &arch, STRIDE).unwrap();
        let found = check(&assigned, &arch, STRIDE);
        let text = quincunx_dpas::text::native::print(&assigned);
        assert_eq!(found, Vec::new(), "case {case}:\n{text}");
        assert!(is_safe(&assigned, &arch), "case {case}:\n{text}");
        assert_eq!(in_order(&plain, &arch, 5), in_order(&assigned, &arch, 5));
        // Assigning again gives the same.
        assert_eq!(assign(&assigned, &arch, STRIDE).unwrap(), assigned);
    }
}

/// Changes something about the dependencies of a listing.
fn corrupt(listing: &mut Listing, random: &mut Random) {
    let at = random.below(listing.items.len() as u64) as usize;
    let statement = &listing.items[at].statement;
    let options = statement.options();
    let dependency = options.dependency().unwrap();
    let word = |dependency: Dependency| dependency.to_word().unwrap_or(0);
    let other = random.below(3) as u8;
    let changed = match random.below(7) {
        0 => Options(0),
        1 => Options(word(Dependency::token(TokenUse::Set, other))),
        2 => Options(word(Dependency::token(TokenUse::Dst, other))),
        3 => Options(word(Dependency::token(TokenUse::Src, other))),
        4 => Options(options.0 ^ 1 << 10),
        5 => Options(word(Dependency {
            distance: dependency.distance.map(|(pipe, d)| (pipe, d % 7 + 1)),
            ..dependency
        })),
        _ => {
            listing.items.remove(at);
            return;
        }
    };
    listing.items[at].statement = statement.with_options(changed);
}

/// 1,000 corruptions: what the checker accepts gives the results of execution in order.
#[test]
fn corruptions_are_rejected_or_harmless() {
    let mut random = Random::new(5);
    let (mut rejected, mut harmless, mut missed) = (0, 0, 0);
    let mut first = None;
    while rejected + harmless + missed < 1000 {
        let platform = random.pick(&Platform::WHOLE);
        let arch = arch(platform);
        let plain = random_listing(&mut random, platform);
        let mut listing = assign(&plain, &arch, STRIDE).unwrap();
        let before = listing.clone();
        corrupt(&mut listing, &mut random);
        if listing == before || listing.items.is_empty() {
            continue;
        }
        if !passes(&listing, &arch) {
            rejected += 1;
        } else if is_safe(&listing, &arch) {
            harmless += 1;
        } else {
            missed += 1;
            let text = quincunx_dpas::text::native::print(&listing);
            first.get_or_insert(text);
        }
    }
    assert_eq!((missed, first), (0, None));
    assert!(rejected > 300, "{rejected} rejected, {harmless} harmless");
}

/// The judge itself sees the hazards: without any wait most listings go wrong.
#[test]
fn the_judge_sees_hazards() {
    let mut random = Random::new(9);
    let (mut wrong, mut seen) = (0, 0);
    for _ in 0..200 {
        let platform = random.pick(&Platform::WHOLE);
        let arch = arch(platform);
        let plain = random_listing(&mut random, platform);
        if !is_safe(&plain, &arch) {
            wrong += 1;
            seen += usize::from(!passes(&plain, &arch));
        }
    }
    assert!(wrong > 60, "{wrong}");
    assert_eq!(seen, wrong);
}

/// Codes and instructions of what a listing for xehpc does not wait for.
fn faults(text: &str) -> Vec<String> {
    let found = check(&listing(text, Platform::XeHpc), &arch(Platform::XeHpc), STRIDE);
    found.iter().map(|problem| format!("{} {}", problem.code(), problem.message())).collect()
}

const LOAD: &str = "(W) send.ugm (1|M0) r20 r30 null:0 0x0 0x0220E580";

/// The next pass of a loop reads what the last instruction of the one before loads.
#[test]
fn loops_wait_for_their_own_end() {
    let body = |wait: &str, load: &str| {
        faults(&format!(
            "(W) mov (1|M0) r2.0<1>:d 4:d\n\
             L0:\n\
             (W) add (16|M0) r10.0<1>:d r20.0<1;1,0>:d 1:w {wait}\n\
             (W) add (1|M0) r2.0<1>:d r2.0<0;1,0>:d -1:w {{I@1}}\n\
             (W) cmp (1|M0) (gt)f0.0 null<1>:d r2.0<0;1,0>:d 0:w {{I@1}}\n\
             {LOAD} {load}\n\
             (W&f0.0) jmpi L0 {{I@1}}\n"
        ))
    };
    assert_eq!(body("{$0.dst}", "{$0}"), Vec::<String>::new());
    let [one] = &body("", "{$0}")[..] else { panic!("{:?}", body("", "{$0}")) };
    assert!(one.starts_with("Q6080 instruction 1 reads"), "{one}");
    // Distances count instructions of the pass before: the first add is three back at the mov.
    let far = |distance: u32| {
        faults(&format!(
            "L0:\n\
             (W) mov (16|M0) r40.0<1>:f r10.0<1;1,0>:d {{I@{distance}}}\n\
             (W) cmp (1|M0) (gt)f0.0 null<1>:d r2.0<0;1,0>:d 0:w\n\
             (W) add (16|M0) r10.0<1>:d r12.0<1;1,0>:d 1:w {{F@1}}\n\
             (W) add (16|M0) r14.0<1>:d r12.0<1;1,0>:d 1:w\n\
             (W&f0.0) jmpi L0 {{I@3}}\n"
        ))
    };
    assert_eq!(far(3), Vec::<String>::new());
    assert_eq!(far(4).len(), 1, "{:?}", far(4));
}

/// What only one of two ways waits for is not waited for behind them.
#[test]
fn branches_join_what_is_unfinished() {
    let text = |wait: &str| {
        faults(&format!(
            "{LOAD} {{$0}}\n\
             (W&f0.0) jmpi L1\n\
             (W) sync.nop null {{$0.dst}}\n\
             L1:\n\
             (W) add (16|M0) r10.0<1>:d r20.0<1;1,0>:d 1:w {wait}\n"
        ))
    };
    assert_eq!(text("{$0.dst}"), Vec::<String>::new());
    let [one] = &text("")[..] else { panic!("{:?}", text("")) };
    assert!(one.starts_with("Q6080 instruction 3 reads"), "{one}");
}

/// Many branches, each of which could follow any other, end soon.
#[test]
fn intricate_branches_are_bounded() {
    let mut text = String::new();
    for at in 0..3000 {
        let target = (at * 7919) % 3000;
        text += &format!(
            "L{at}:\n(W) mov (1|M0) r{}.0<1>:d {at}:d {{A@1}}\n(W&f0.0) jmpi L{target}\n",
            2 + at % 100
        );
    }
    let listing = listing(&text, Platform::XeHpc);
    quincunx_testkit::within_seconds(20, || check(&listing, &arch(Platform::XeHpc), STRIDE));
}

/// What is read so many instructions after it was written, without a wait: the code, as instructions of
/// another pipe come between.
fn code_after(write: &str, between: usize, read: &str) -> Option<&'static str> {
    let fill: String = (0..between)
        .map(|at| format!("add (16|M0) r{}.0<1>:d r100.0<1;1,0>:d 1:d\n", 40 + at))
        .collect();
    let arch = arch(Platform::Xe2);
    let found = check(&listing(&format!("{write}\n{fill}{read}\n"), Platform::Xe2), &arch, STRIDE);
    assert!(found.len() <= 1, "{found:?}");
    found.first().map(quincunx_diag::Diagnostic::code)
}

#[test]
fn latency_is_no_wait_but_a_warning() {
    let mov = "mov (16|M0) r20.0<1>:f r30.0<1;1,0>:f";
    let read = "add (16|M0) r22.0<1>:d r20.0<1;1,0>:d 1:d";
    // A result of a pipe can be used after 10 cycles, one of math later, one of the array after 33.
    assert_eq!(code_after(mov, 8, read), Some("Q6080"));
    assert_eq!(code_after(mov, 9, read), Some("Q6079"));
    assert_eq!(code_after(mov, 0, &format!("{read} {{F@1}}")), None);
    let dpas = "dpas.8x8 (16|M0) r16:d null:d r80:b r90.0:b {$0}";
    assert_eq!(code_after(dpas, 31, read), Some("Q6080"));
    assert_eq!(code_after(dpas, 32, read), Some("Q6079"));
    // Messages answer when they do.
    let send = "(W) send.ugm (1|M0) r20 r2 null:0 0x0 0x0218D580 {$0}";
    assert_eq!(code_after(send, 60, read), Some("Q6080"));
    assert_eq!(code_after(send, 0, &format!("{read} {{$0.dst}}")), None);
    // Through a loop the shortest way counts; readers have to wait too.
    let text = format!(
        "{mov}\n{}L0:\n{read}\nmov (16|M0) r20.0<1>:f r31.0<1;1,0>:f\n(W&f0.0) jmpi L0\n",
        "add (16|M0) r23.0<1>:d r100.0<1;1,0>:d 1:d\n".repeat(12)
    );
    let found = check(&listing(&text, Platform::Xe2), &arch(Platform::Xe2), STRIDE);
    assert_eq!(found.iter().map(|one| one.code()).collect::<Vec<_>>(), ["Q6080", "Q6081"]);
}

/// The most registers that are read before they are written as a whole, by the definition.
fn live_by_definition(listing: &Listing, arch: &DpasArch) -> usize {
    let grf = arch.platform.grf_bytes() as usize;
    let all: Vec<_> =
        listing.items.iter().map(|item| effects(&item.statement, arch, STRIDE)).collect();
    let bytes = |register: usize| register * grf..(register + 1) * grf;
    let is_live = |register: usize, from: usize| {
        let own = bytes(register);
        for effects in &all[from..] {
            if effects.reads.iter().any(|read| read.start < own.end && own.start < read.end) {
                return true;
            }
            if effects.writes.iter().any(|to| to.start <= own.start && own.end <= to.end) {
                return false;
            }
        }
        false
    };
    let at = |from: usize| (0..256).filter(|&register| is_live(register, from)).count();
    (0..all.len()).map(at).max().unwrap_or(0)
}

#[test]
fn live_registers_are_counted() {
    let mut random = Random::new(21);
    for _ in 0..100 {
        let platform = random.pick(&Platform::WHOLE);
        let arch = arch(platform);
        let listing = random_listing(&mut random, platform);
        let found = live(&listing, &arch, STRIDE).unwrap();
        assert_eq!(found.most, live_by_definition(&listing, &arch));
    }
    // A loop keeps what its next turn reads; r20 lives through it, r40 only within.
    let text = "mov (16|M0) r20.0<1>:d 1:d\nmov (16|M0) r21.0<1>:d 1:d\nL0:\n\
                mov (16|M0) r40.0<1>:d r20.0<1;1,0>:d\n\
                add (16|M0) r21.0<1>:d r21.0<1;1,0>:d r40.0<1;1,0>:d\n\
                (W&f0.0) jmpi L0\n";
    let found = live(&listing(text, Platform::Xe2), &arch(Platform::Xe2), STRIDE).unwrap();
    assert_eq!(found, quincunx_dpas::swsb::Live { most: 3, at: 3 });
    let raw = listing(".raw 00000000000000000000000000000001\n", Platform::Xe2);
    assert_eq!(live(&raw, &arch(Platform::Xe2), STRIDE), None);
}
