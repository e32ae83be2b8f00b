//! A second executor for whole kernels: every message and every systolic instruction reads its sources
//! and writes its results as late as the waits for its token allow. The compiler's kernels give the same
//! bytes in it; and where a wait is taken away and the bytes differ, the checker says so.

use crate::common::{Random, arch};
use crate::fast_launches::compiled;
use quincunx_dpas::arch::{DpasArch, Platform};
use quincunx_dpas::isa::operands::{Dependency, Options, TokenUse};
use quincunx_dpas::program::device::{Device, Launch};
use quincunx_dpas::program::payload::{payload, placement};
use quincunx_dpas::program::{Item, Listing, Statement};
use quincunx_dpas::shape::RowStride;
use quincunx_dpas::simulate::message::{Fault, Space, Storage};
use quincunx_dpas::simulate::thread::{Program, Stop, Thread};
use quincunx_dpas::simulate::{Rules, Step};
use quincunx_dpas::swsb::{Unit, check, effects};

const STRIDE: RowStride = RowStride::Full;
/// Most instructions of a thread.
const LIMIT: u64 = 20_000;

/// Buffers at addresses.
#[derive(Clone, PartialEq)]
struct Buffers(Vec<(u64, Vec<u8>)>);

impl Buffers {
    fn place(&mut self, address: u64, length: usize) -> std::result::Result<&mut [u8], Fault> {
        let found = self.0.iter_mut().find_map(|(base, bytes)| {
            let start = usize::try_from(address.checked_sub(*base)?).ok()?;
            bytes.get_mut(start..start.checked_add(length)?)
        });
        found.ok_or_else(|| Fault { address, reason: "no buffer is there".to_owned() })
    }
}

impl Storage for Buffers {
    fn load(&mut self, _: Space, address: u64, bytes: &mut [u8]) -> std::result::Result<(), Fault> {
        bytes.copy_from_slice(self.place(address, bytes.len())?);
        Ok(())
    }

    fn store(&mut self, _: Space, address: u64, bytes: &[u8]) -> std::result::Result<(), Fault> {
        self.place(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }
}

/// An instruction under way.
struct Flight {
    index: usize,
    /// `None` while its macro is open.
    token: Option<u8>,
    systolic: bool,
    /// What it writes, once its sources are read.
    values: Option<Vec<(usize, u8)>>,
}

struct Late<'a> {
    listing: &'a Listing,
    arch: &'a DpasArch,
    thread: Thread,
    memory: Buffers,
    flights: Vec<Flight>,
    late_reads: bool,
    /// A message has failed: an address that was not there yet.
    failed: bool,
}

impl Late<'_> {
    /// Reads the sources of a flight; systolic ones read in order.
    fn read(&mut self, index: usize) {
        let systolic = self.flights[index].systolic;
        for at in 0..=index {
            let together = at == index || (systolic && self.flights[at].systolic);
            if together && self.flights[at].values.is_none() {
                let values = self.result(self.flights[at].index);
                self.flights[at].values = Some(values);
            }
        }
    }

    /// The bytes of registers that an instruction writes; what it stores, it stores now.
    fn result(&mut self, index: usize) -> Vec<(usize, u8)> {
        let item = self.listing.items[index].clone();
        let writes = effects(&item.statement, self.arch, STRIDE).writes;
        let program = Program::new(&Listing { items: vec![item] }, self.arch, STRIDE).unwrap();
        let mut alone = Thread::new(self.arch, u32::MAX);
        alone.grf.copy_from_slice(&self.thread.grf);
        alone.flags = self.thread.flags;
        let done = alone.run(&program, &mut self.memory, Rules::default(), &mut 1);
        self.failed |= done.is_err();
        let file = self.thread.grf.len();
        writes.into_iter().flatten().filter(|at| *at < file).map(|at| (at, alone.grf[at])).collect()
    }

    /// Writes the results of the flights that match, oldest first.
    fn finish(&mut self, wanted: impl Fn(&Flight) -> bool) {
        while let Some(at) = self.flights.iter().position(&wanted) {
            self.read(at);
            for (place, value) in self.flights.remove(at).values.unwrap() {
                self.thread.grf[place] = value;
            }
        }
    }

    fn wait(&mut self, statement: &Statement, unit: Unit) {
        let named = |flight: &Flight, tokens: u32| {
            flight.token.is_some_and(|token| tokens >> token & 1 == 1)
        };
        let read = |machine: &mut Self, tokens: u32| {
            let all = 0..machine.flights.len();
            let all: Vec<usize> = all.filter(|&at| named(&machine.flights[at], tokens)).collect();
            all.into_iter().for_each(|at| machine.read(at));
        };
        match statement.options().dependency().unwrap_or_default().token {
            Some((TokenUse::Src, token)) => read(self, 1 << token),
            Some((_, token)) => self.finish(|flight| named(flight, 1 << token)),
            None => {}
        }
        match unit {
            Unit::AllRead(tokens) => read(self, tokens),
            Unit::AllWrite(tokens) => self.finish(|flight| named(flight, tokens)),
            _ => {}
        }
    }

    /// An instruction that takes a token.
    fn issue(&mut self, index: usize, systolic: bool) {
        let options = self.listing.items[index].statement.options();
        let token = match options.dependency().unwrap_or_default().token {
            Some((TokenUse::Set, token)) => Some(token),
            _ => None,
        };
        self.flights.push(Flight { index, token, systolic, values: None });
        if systolic && !options.is_atomic() {
            // The last instruction's token stands for the macro.
            let open = |flight: &&mut Flight| flight.systolic && flight.token.is_none();
            self.flights.iter_mut().filter(open).for_each(|flight| flight.token = token);
        }
        if !self.late_reads {
            self.read(self.flights.len() - 1);
        }
    }

    /// Runs the thread to its end.
    fn run(&mut self) {
        let mut skeleton = Program::new(self.listing, self.arch, STRIDE).unwrap();
        let units: Vec<Unit> = self
            .listing
            .items
            .iter()
            .map(|item| effects(&item.statement, self.arch, STRIDE).unit)
            .collect();
        let ends = |item: &Item| item.statement.options().is_end();
        for (at, item) in self.listing.items.iter().enumerate() {
            if units[at].takes_tokens() && !ends(item) {
                skeleton.steps[at] = Step::Wait;
            }
        }
        for _ in 0..LIMIT {
            let index = self.thread.position();
            let Some(item) = self.listing.items.get(index) else { break };
            self.wait(&item.statement, units[index]);
            if ends(item) {
                break;
            }
            if units[index].takes_tokens() {
                self.issue(index, units[index] == Unit::Systolic);
            }
            let done = self.thread.run(&skeleton, &mut self.memory, Rules::default(), &mut 1);
            match done {
                Ok(Stop::Limit) if !self.failed => {}
                _ => {
                    self.failed |= done.is_err();
                    break;
                }
            }
        }
        self.finish(|_| true);
    }
}

/// A thread of a launch as it begins, on random memory.
struct Start {
    thread: Thread,
    memory: Buffers,
}

fn start(device: &Device, launch: &Launch, arch: &DpasArch, group: [u32; 3]) -> Start {
    let mut random = Random::new(3);
    let places = placement(&device.buffers);
    let buffers = device.buffers.iter().zip(&places).map(|(buffer, &base)| {
        let mut bytes: Vec<u8> = (0..buffer.bytes).map(|_| random.next() as u8).collect();
        if let Some(data) = &buffer.data {
            bytes[..data.len()].copy_from_slice(data);
        }
        (base, bytes)
    });
    let memory = Buffers(buffers.collect());
    let kernel = device.kernels.iter().find(|kernel| kernel.name == launch.kernel).unwrap();
    let address = |name: &str| {
        let place = device.buffers.iter().position(|buffer| buffer.name == name)?;
        Some(places[place])
    };
    let arguments = payload(kernel, launch, &address).unwrap();
    let mut thread = Thread::new(arch, u32::MAX);
    let grf = arch.platform.grf_bytes() as usize;
    for (dword, value) in [(1, group[0]), (6, group[1]), (7, group[2])] {
        thread.grf[4 * dword..4 * dword + 4].copy_from_slice(&value.to_le_bytes());
    }
    let inline = arguments.len().min(kernel.environment.inline as usize);
    thread.grf[grf..grf + inline].copy_from_slice(&arguments[..inline]);
    Start { thread, memory }
}

/// Registers and memory after the instructions in order.
fn in_order(listing: &Listing, arch: &DpasArch, start: &Start) -> (Vec<u8>, Buffers) {
    let (mut thread, mut memory) = (start.thread.clone(), start.memory.clone());
    let program = Program::new(listing, arch, STRIDE).unwrap();
    thread.run(&program, &mut memory, Rules::default(), &mut LIMIT.clone()).unwrap();
    assert!(thread.position() <= listing.items.len());
    (thread.grf.to_vec(), memory)
}

/// True if a late machine ends with these registers and memory, whenever it reads.
fn is_same(
    listing: &Listing,
    arch: &DpasArch,
    start: &Start,
    (grf, memory): &(Vec<u8>, Buffers),
) -> bool {
    [false, true].into_iter().all(|late_reads| {
        let mut late = Late {
            listing,
            arch,
            thread: start.thread.clone(),
            memory: start.memory.clone(),
            flights: Vec::new(),
            late_reads,
            failed: false,
        };
        late.run();
        !late.failed && late.thread.grf[..] == grf[..] && late.memory == *memory
    })
}

/// The listing without one of its waits for tokens; `None` if the instruction has none.
fn without_wait(listing: &Listing, at: usize, arch: &DpasArch) -> Option<Listing> {
    let mut changed = listing.clone();
    let statement = &listing.items[at].statement;
    let dependency = statement.options().dependency()?;
    let unit = effects(statement, arch, STRIDE).unit;
    match dependency.token {
        Some((TokenUse::Src | TokenUse::Dst, _)) => {
            let rest = Dependency { token: None, ..dependency };
            let word = rest.to_word().unwrap_or(0);
            let others = statement.options().0 & !quincunx_dpas::isa::operands::DEPENDENCY;
            changed.items[at].statement = statement.with_options(Options(others | word));
        }
        None if matches!(unit, Unit::AllRead(_) | Unit::AllWrite(_)) => {
            // A wait of another kind in its place: jumps stay where they lead.
            let nop = crate::common::listing("(W) sync.nop null", arch.platform);
            changed.items[at].statement = nop.items[0].statement.clone();
        }
        _ => return None,
    }
    Some(changed)
}

#[test]
fn kernels_give_the_same_bytes_as_late_as_tokens_allow() {
    let (mut differ, mut reported, mut tried) = (0, 0, 0);
    let mut random = Random::new(11);
    for (platform, precision) in [
        (Platform::XeHpg, "int8"),
        (Platform::XeHpc, "int8"),
        (Platform::Xe2, "int8"),
        (Platform::XeHpg, "bf16"),
        (Platform::Xe2, "bf16"),
    ] {
        let arch = arch(platform);
        let device = compiled(&arch, precision);
        for launch in &device.launches {
            let kernel = device.kernels.iter().find(|own| own.name == launch.kernel).unwrap();
            let arch = DpasArch { grfs: kernel.environment.grfs, ..arch.clone() };
            let last = launch.groups.map(|count| count - 1);
            for group in [[0; 3], last] {
                let start = start(&device, launch, &arch, group);
                let expected = in_order(&kernel.listing, &arch, &start);
                assert!(is_same(&kernel.listing, &arch, &start, &expected), "{}", kernel.name);
            }
            let start = start(&device, launch, &arch, [0; 3]);
            let expected = in_order(&kernel.listing, &arch, &start);
            for _ in 0..6 {
                let at = random.below(kernel.listing.items.len() as u64) as usize;
                let changed = (at..kernel.listing.items.len())
                    .find_map(|at| without_wait(&kernel.listing, at, &arch));
                let Some(changed) = changed else { continue };
                let found = check(&changed, &arch, STRIDE);
                let is_reported = found.iter().any(|one| one.is_error() || one.code() == "Q6079");
                let same = is_same(&changed, &arch, &start, &expected);
                assert!(same || is_reported, "{} {platform:?} {at}", kernel.name);
                tried += 1;
                differ += usize::from(!same);
                reported += usize::from(is_reported);
            }
        }
    }
    assert!(tried > 100 && differ > 30, "{tried} tried, {differ} differ, {reported} reported");
}
