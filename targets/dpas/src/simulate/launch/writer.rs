//! Which instruction stored bytes of global memory last.
//!
//! A launch runs instruction by instruction, with an eye on every store. What a message stores of which
//! register is found as in [`origin`](super::origin): it is executed once more on registers that hold
//! their own numbers.

use super::origin::data;
use super::{Kernel, Launch, Memory, Runner, Stop, Touched, View, barrier, place};
use crate::simulate::float::Rules;
use crate::simulate::message::{Fault, Space, Storage};
use crate::simulate::thread::Thread;
use quincunx_diag::Result;
use std::ops::Range;

/// A store to the bytes that are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Index of the instruction.
    pub index: usize,
    /// Group.
    pub group: [u32; 3],
    /// Thread in it.
    pub thread: u32,
    /// The byte of the registers that went to the first byte, if that is known.
    pub source: Option<usize>,
    /// What the registers hold there, as many bytes as are watched.
    pub held: Vec<u8>,
    /// The instruction of the same thread that wrote this byte of the registers last.
    pub maker: Option<usize>,
}

/// Bytes that are watched, and how a launch may run.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The bytes of global memory.
    pub bytes: Range<u64>,
    /// Float arithmetic.
    pub rules: Rules,
    /// Most instructions of all threads.
    pub limit: u64,
}

/// Runs a launch as [`run`](super::run) does; the last store to the bytes that are watched.
///
/// # Errors
/// As [`run`](super::run).
pub fn last_store(
    (kernel, touched): (&Kernel, &[Touched]),
    (launch, memory): (&Launch<'_>, &mut Memory),
    watched: &Watched,
) -> Result<Option<Store>> {
    launch.check(&kernel.name, &kernel.arch)?;
    let [x, y, z] = launch.groups;
    let mut watch = Watch {
        kernel,
        touched,
        memory,
        arguments: launch.arguments(),
        shared: vec![0; launch.slm_bytes],
        watched,
        steps: watched.limit,
        last: None,
    };
    for group in (0..z).flat_map(|z| (0..y).flat_map(move |y| (0..x).map(move |x| [x, y, z]))) {
        watch.group(launch, group)?;
    }
    Ok(watch.last)
}

/// True where a store touches bytes.
fn touches(watched: &Range<u64>, space: Space, address: u64, length: usize) -> bool {
    let end = address.saturating_add(length as u64);
    space == Space::Global && address < watched.end && watched.start < end
}

/// Memory that tells whether bytes were stored.
struct Eye<'a> {
    view: View<'a>,
    watched: &'a Range<u64>,
    touched: bool,
}

impl Storage for Eye<'_> {
    fn load(
        &mut self,
        space: Space,
        address: u64,
        bytes: &mut [u8],
    ) -> std::result::Result<(), Fault> {
        self.view.load(space, address, bytes)
    }

    fn store(
        &mut self,
        space: Space,
        address: u64,
        bytes: &[u8],
    ) -> std::result::Result<(), Fault> {
        self.touched |= touches(self.watched, space, address, bytes.len());
        self.view.store(space, address, bytes)
    }
}

/// Memory that keeps the last byte that is stored at an address, and has zeros elsewhere.
struct Catch {
    address: u64,
    byte: Option<u8>,
}

impl Storage for Catch {
    fn load(&mut self, _: Space, _: u64, bytes: &mut [u8]) -> std::result::Result<(), Fault> {
        bytes.fill(0);
        Ok(())
    }

    fn store(
        &mut self,
        space: Space,
        address: u64,
        bytes: &[u8],
    ) -> std::result::Result<(), Fault> {
        if touches(&(self.address..self.address + 1), space, address, bytes.len()) {
            self.byte = bytes.get((self.address - address) as usize).copied();
        }
        Ok(())
    }
}

/// A thread, and the instruction that wrote each byte of its registers last, counted from 1.
struct Known {
    thread: Thread,
    makers: Vec<usize>,
}

struct Watch<'a> {
    kernel: &'a Kernel,
    touched: &'a [Touched],
    memory: &'a mut Memory,
    arguments: Vec<u8>,
    shared: Vec<u8>,
    watched: &'a Watched,
    steps: u64,
    last: Option<Store>,
}

impl Watch<'_> {
    fn group(&mut self, launch: &Launch<'_>, group: [u32; 3]) -> Result<()> {
        let kernel = self.kernel;
        self.shared.fill(0);
        let start = |number| {
            let thread = launch.thread(&kernel.arch, group, number);
            Known { makers: vec![0; thread.grf.len()], thread }
        };
        let mut threads: Vec<Known> = (0..launch.threads).map(start).collect();
        while threads.iter().any(|known| !known.thread.ended) {
            for (number, known) in threads.iter_mut().enumerate() {
                self.turn(known, (group, number))?;
            }
            let mut own: Vec<Thread> = threads.iter().map(|known| known.thread.clone()).collect();
            barrier(kernel, &mut own, group)?;
            for (known, thread) in threads.iter_mut().zip(own) {
                known.thread = thread;
            }
        }
        Ok(())
    }

    /// Runs a thread to the next barrier or its end.
    fn turn(&mut self, known: &mut Known, (group, number): ([u32; 3], usize)) -> Result<()> {
        let kernel = self.kernel;
        while !known.thread.ended {
            let index = known.thread.position();
            let before = self.is_message(index).then(|| known.thread.clone());
            let view =
                View { memory: self.memory, shared: &mut self.shared, arguments: &self.arguments };
            let mut eye = Eye { view, watched: &self.watched.bytes, touched: false };
            let mut one = self.steps.min(1);
            self.steps -= one;
            let stop = known
                .thread
                .run(&kernel.program, &mut eye, self.watched.rules, &mut one)
                .map_err(|trap| place(kernel, trap, group, number))?;
            if eye.touched {
                let source = before.as_ref().and_then(|before| self.source(index, before));
                let length = self.watched.bytes.clone().count();
                let held = source.zip(before.as_ref());
                let held = held.and_then(|(at, before)| before.grf.get(at..at + length));
                let held = held.map_or_else(Vec::new, <[u8]>::to_vec);
                let maker = source.and_then(|byte| known.makers.get(byte)?.checked_sub(1));
                let thread = number as u32;
                self.last = Some(Store { index, group, thread, source, held, maker });
            }
            for range in self.touched.get(index).into_iter().flat_map(|own| &own.writes) {
                let own = known.makers.get_mut(range.clone());
                own.into_iter().flatten().for_each(|maker| *maker = index + 1);
            }
            match stop {
                Stop::Limit if self.steps == 0 => {
                    return Err(Runner::limit(kernel, known.thread.position(), group, number));
                }
                Stop::Barrier => break,
                Stop::Limit | Stop::End => {}
            }
        }
        Ok(())
    }

    fn is_message(&self, index: usize) -> bool {
        self.kernel.program.steps.get(index).is_some_and(|step| step.is_message())
    }

    /// The byte of the registers that a message stores at the first byte that is watched.
    fn source(&self, index: usize, before: &Thread) -> Option<usize> {
        let step = self.kernel.program.steps.get(index)?;
        let data = data(step, before, self.touched.get(index)?)?;
        let digit = |shift: u32| {
            let mut thread = before.clone();
            for byte in data.iter().flat_map(Clone::clone) {
                *thread.grf.get_mut(byte)? = (byte >> shift) as u8;
            }
            let mut catch = Catch { address: self.watched.bytes.start, byte: None };
            let rules = self.watched.rules;
            thread.run(&self.kernel.program, &mut catch, rules, &mut 1).ok()?;
            catch.byte.map(usize::from)
        };
        Some(digit(0)? | digit(8)? << 8)
    }
}
