//! Where the operands of a systolic instruction come from.
//!
//! Every byte of the registers has a tag besides its value: the address in global memory from which it
//! was loaded, or none. Tags are moved by the instructions themselves: a message, or a copy, is executed
//! once more for every byte of the tags, on registers that hold these bytes.

use super::{Kernel, Launch, Memory, Runner, Stop, View, barrier, place};
use crate::isa::vector::{Input, Receiver, Register};
use crate::simulate::exec::{Operation, Step};
use crate::simulate::float::Rules;
use crate::simulate::message::{Fault, Space, Storage};
use crate::simulate::state::AlignedBytes;
use crate::simulate::thread::Thread;
use quincunx_diag::Result;
use std::ops::Range;

/// Bytes of a tag.
const TAG: usize = 8;

/// The registers of a thread as it comes to a systolic instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The instruction.
    pub operation: Operation,
    /// Group.
    pub group: [u32; 3],
    /// Thread in it.
    pub thread: u32,
    tags: Vec<u64>,
}

impl Origin {
    /// The address in global memory from which a byte of the registers was loaded, unchanged.
    pub fn address(&self, byte: usize) -> Option<u64> {
        self.tags.get(byte)?.checked_sub(1)
    }
}

/// The bytes of registers that an instruction reads and writes.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// What it does is known.
    pub known: bool,
    /// Bytes that it reads.
    pub reads: Vec<Range<usize>>,
    /// Bytes that it writes.
    pub writes: Vec<Range<usize>>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Index of the instruction in the kernel.
    pub index: usize,
    /// Float arithmetic.
    pub rules: Rules,
    /// Most instructions of all threads.
    pub limit: u64,
}

/// The first thread of a launch that comes to an instruction; `None` if there is none. Memory stays as
/// it is.
///
/// # Errors
/// As [`run`](super::run).
pub fn origin(
    (kernel, touched): (&Kernel, Vec<Touched>),
    (launch, memory): (&Launch<'_>, &Memory),
    asked: Asked,
) -> Result<Option<Origin>> {
    let [x, y, z] = launch.groups;
    let groups = (0..z).flat_map(|z| (0..y).flat_map(move |y| (0..x).map(move |x| [x, y, z])));
    let mut search = Search {
        kernel,
        touched,
        memory: memory.clone(),
        arguments: launch.arguments(),
        shared: vec![0; launch.slm_bytes],
        tags: Shared(vec![[0; TAG]; launch.slm_bytes]),
        rules: asked.rules,
        steps: asked.limit,
        index: asked.index,
    };
    for group in groups {
        if let Some(origin) = search.group(launch, group)? {
            return Ok(Some(origin));
        }
    }
    Ok(None)
}

/// Tags of shared memory.
struct Shared(Vec<[u8; TAG]>);

/// One byte of the tags of memory.
struct Plane<'a> {
    shared: &'a mut Shared,
    byte: usize,
}

impl Plane<'_> {
    fn tags(&mut self, address: u64, length: usize) -> Option<&mut [[u8; TAG]]> {
        let start = usize::try_from(address).ok()?;
        self.shared.0.get_mut(start..start.checked_add(length)?)
    }
}

impl Storage for Plane<'_> {
    fn load(
        &mut self,
        space: Space,
        address: u64,
        bytes: &mut [u8],
    ) -> std::result::Result<(), Fault> {
        let byte = self.byte;
        if space == Space::Global {
            for (tag, place) in (address.wrapping_add(1)..).zip(bytes) {
                *place = tag.to_le_bytes()[byte];
            }
        } else if let Some(tags) = self.tags(address, bytes.len()) {
            for (place, tag) in bytes.iter_mut().zip(tags) {
                *place = tag[byte];
            }
        }
        // What is not there fails with the values.
        Ok(())
    }

    fn store(
        &mut self,
        space: Space,
        address: u64,
        bytes: &[u8],
    ) -> std::result::Result<(), Fault> {
        let byte = self.byte;
        if space == Space::Shared
            && let Some(tags) = self.tags(address, bytes.len())
        {
            for (tag, own) in tags.iter_mut().zip(bytes) {
                tag[byte] = *own;
            }
        }
        Ok(())
    }
}

/// A thread, and the tags of its registers, byte by byte of a tag.
struct Tagged {
    thread: Thread,
    tags: [AlignedBytes; TAG],
}

impl Tagged {
    fn new(thread: Thread) -> Tagged {
        let tags = std::array::from_fn(|_| AlignedBytes::new(thread.grf.len()));
        Tagged { thread, tags }
    }

    /// Moves tags as an instruction will move values.
    fn follow(&mut self, step: &Step, touched: &Touched, search: &mut Shared, kernel: &Kernel) {
        if !touched.known {
            return self.tags.iter_mut().for_each(|tags| tags.fill(0));
        }
        let file = self.thread.grf.len();
        let writes = || touched.writes.iter().filter(move |range| range.end <= file).cloned();
        let Some(data) = data(step, &self.thread, touched) else {
            for range in writes() {
                self.tags.iter_mut().for_each(|tags| tags[range.clone()].fill(0));
            }
            return;
        };
        for (byte, tags) in self.tags.iter_mut().enumerate() {
            let mut thread = self.thread.clone();
            for range in &data {
                thread.grf[range.clone()].copy_from_slice(&tags[range.clone()]);
            }
            let mut plane = Plane { shared: &mut *search, byte };
            // A message that fails does so with the values too.
            let done = thread.run(&kernel.program, &mut plane, Rules::default(), &mut 1);
            for range in writes().filter(|_| done.is_ok()) {
                tags[range.clone()].copy_from_slice(&thread.grf[range]);
            }
        }
    }

    fn all(&self) -> Vec<u64> {
        let tag = |byte: usize| u64::from_le_bytes(self.tags.each_ref().map(|tags| tags[byte]));
        (0..self.thread.grf.len()).map(tag).collect()
    }
}

/// The bytes of registers that an instruction moves, or that stay where it does not write; `None` where it
/// changes bytes, or writes over the addresses that it reads.
pub(super) fn data(step: &Step, thread: &Thread, touched: &Touched) -> Option<Vec<Range<usize>>> {
    let Step::Vector(terms) = step else { return None };
    let registers = |first: Option<u8>, count: u32| {
        let start = usize::from(first.unwrap_or(0)) * thread.grf_bytes;
        start..start + count as usize * thread.grf_bytes
    };
    let (read, kept) = match (&terms.message, terms.sources[0]) {
        (Some(message), _) if message.receiver != Receiver::Gateway => {
            let (first, count) = message.src1;
            // Bits 25 to 28 count the registers of addresses.
            let addresses = message.descriptor? >> 25 & 15;
            (vec![registers(first, count.into())], registers(message.src0, addresses))
        }
        (None, Some(Input::Register { register: Register::Grf(_), .. })) if terms.is_copy() => {
            (touched.reads.clone(), 0..0)
        }
        _ => return None,
    };
    let file = thread.grf.len();
    let all = read.into_iter().chain(touched.writes.iter().cloned());
    let all: Vec<Range<usize>> = all.filter(|range| range.end <= file).collect();
    let apart = |range: &Range<usize>| range.end <= kept.start || kept.end <= range.start;
    all.iter().all(apart).then_some(all)
}

struct Search<'a> {
    kernel: &'a Kernel,
    touched: Vec<Touched>,
    memory: Memory,
    arguments: Vec<u8>,
    shared: Vec<u8>,
    tags: Shared,
    rules: Rules,
    steps: u64,
    index: usize,
}

impl Search<'_> {
    fn group(&mut self, launch: &Launch<'_>, group: [u32; 3]) -> Result<Option<Origin>> {
        let kernel = self.kernel;
        self.shared.fill(0);
        self.tags.0.fill([0; TAG]);
        let start = |number| Tagged::new(launch.thread(&kernel.arch, group, number));
        let mut threads: Vec<Tagged> = (0..launch.threads).map(start).collect();
        while threads.iter().any(|tagged| !tagged.thread.ended) {
            for (number, tagged) in threads.iter_mut().enumerate() {
                let found = self.turn(tagged, (group, number))?;
                if let Some(operation) = found {
                    let (thread, tags) = (number as u32, tagged.all());
                    return Ok(Some(Origin { operation, group, thread, tags }));
                }
            }
            let mut own: Vec<Thread> = threads.iter().map(|tagged| tagged.thread.clone()).collect();
            barrier(kernel, &mut own, group)?;
            for (tagged, thread) in threads.iter_mut().zip(own) {
                tagged.thread = thread;
            }
        }
        Ok(None)
    }

    /// Runs a thread to the next barrier or its end; the instruction, if it comes to it.
    fn turn(
        &mut self,
        tagged: &mut Tagged,
        (group, number): ([u32; 3], usize),
    ) -> Result<Option<Operation>> {
        let kernel = self.kernel;
        while !tagged.thread.ended {
            let index = tagged.thread.position();
            if let (Some(step), Some(touched)) =
                (kernel.program.steps.get(index), self.touched.get(index))
            {
                if let (true, Step::Multiply(operation)) = (index == self.index, step) {
                    return Ok(Some(*operation));
                }
                tagged.follow(step, touched, &mut self.tags, kernel);
            }
            let mut view = View {
                memory: &mut self.memory,
                shared: &mut self.shared,
                arguments: &self.arguments,
            };
            let mut one = self.steps.min(1);
            self.steps -= one;
            let thread = &mut tagged.thread;
            let stop = thread
                .run(&kernel.program, &mut view, self.rules, &mut one)
                .map_err(|trap| place(kernel, trap, group, number))?;
            match stop {
                Stop::Limit if self.steps == 0 => {
                    return Err(Runner::limit(kernel, thread.position(), group, number));
                }
                Stop::Barrier => break,
                Stop::Limit | Stop::End => {}
            }
        }
        Ok(None)
    }
}
