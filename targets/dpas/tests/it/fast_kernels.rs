//! Prepared kernels do what the executor does: registers, memory, faults.

use crate::common::{Random, arch};
use quincunx_diag::SourceId;
use quincunx_dpas::arch::{DpasArch, Platform};
use quincunx_dpas::shape::RowStride;
use quincunx_dpas::simulate::Rules;
use quincunx_dpas::simulate::fast::kernel::Prepared;
use quincunx_dpas::simulate::message::{Fault, Space, Storage, Stretch};
use quincunx_dpas::simulate::thread::{Program, Thread};
use quincunx_dpas::text;
use quincunx_num::Level;
use std::fmt::Write as _;

/// Address and bytes of the memory of random programs.
const BASE: u64 = 0x10_0000;
const BYTES: usize = 1024;

/// One piece of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece(Vec<u8>);

impl Piece {
    fn range(&self, address: u64, length: usize) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(address.checked_sub(BASE)?).ok()?;
        let end = start.checked_add(length).filter(|&end| end <= self.0.len())?;
        Some(start..end)
    }
}

fn missing(address: u64) -> Fault {
    Fault { address, reason: "nothing is there".to_owned() }
}

impl Storage for Piece {
    fn load(&mut self, _: Space, address: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        let range = self.range(address, bytes.len()).ok_or_else(|| missing(address))?;
        bytes.copy_from_slice(&self.0[range]);
        Ok(())
    }

    fn store(&mut self, _: Space, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let range = self.range(address, bytes.len()).ok_or_else(|| missing(address))?;
        self.0[range].copy_from_slice(bytes);
        Ok(())
    }

    fn bytes(&self, place: Stretch, _: &mut usize) -> Option<&[u8]> {
        self.0.get(self.range(place.address, place.length)?)
    }

    fn bytes_mut(&mut self, place: Stretch, _: &mut usize) -> Option<&mut [u8]> {
        let range = self.range(place.address, place.length)?;
        self.0.get_mut(range)
    }
}

const INTEGERS: [&str; 8] = ["ub", "b", "uw", "w", "ud", "d", "uq", "q"];

/// A source of a type; immediates where they may be.
fn source(random: &mut Random, ty: &str, lanes: usize, modified: bool) -> String {
    let modifier = if modified { random.pick(&["", "", "", "-", "(abs)", "-(abs)"]) } else { "" };
    let region = match lanes {
        1 => "<0;1,0>",
        _ => random
            .pick(&["<1;1,0>", "<1;1,0>", "<0;1,0>", "<2;1,0>", "<4;1,0>", "<8;4,1>", "<1;4,0>"]),
    };
    format!("{modifier}r{}.{}{region}:{ty}", random.range(8, 40), random.below(4))
}

/// A line of a vector instruction; not all of them are legal.
fn line(random: &mut Random, platform: Platform) -> String {
    let lanes = random.pick(&[1, 8, 16, 32]);
    let floats = random.chance(40);
    let wide = if platform.is_second() { 8 } else { 6 };
    let ty = |random: &mut Random| match (floats, random.chance(80)) {
        (true, true) => "f",
        _ => INTEGERS[random.below(wide)],
    };
    let control = random.pick(&["(W)", "(W)", "", "(W&f0.0)", "(W&~f1.0)", "(f0.1)"]);
    let saturate = random.pick(&["", "", "", "(sat)"]);
    let dst_type = ty(random);
    let stride = random.pick(&["<1>", "<1>", "<2>", "<4>"]);
    let dst = format!("r{}.{}{stride}:{dst_type}", random.range(8, 40), random.below(2));
    let head = |name: &str, condition: &str| format!("{control} {name} ({lanes}|M0) {condition}");
    let [a, b] = [0, 1].map(|_| ty(random));
    let [a, b] = [a, b].map(|ty| source(random, ty, lanes, true));
    let condition = random.pick(&["eq", "ne", "gt", "ge", "lt", "le"]);
    let flag = random.pick(&["f0.0", "f0.1", "f1.0"]);
    let number = match floats {
        true => format!("{:#010x}:f", random.range(-100, 100) as f32 as u32 | 0x3f00_0000),
        false => format!("{}:w", random.range(-300, 300)),
    };
    let second = if random.chance(30) { number } else { b };
    match random.below(10) {
        0 => format!("{} {dst} {a}", head("mov", saturate)),
        1 if floats => {
            let name = random.pick(&["rnde", "rndz", "rndu", "rndd"]);
            format!("{} {dst} {a}", head(name, saturate))
        }
        1 => format!("{} {dst} {a}", head("not", "")),
        2 => {
            let compare = format!("({condition}){flag}");
            format!("{} null<1>:{dst_type} {a} {second}", head("cmp", &compare))
        }
        3 => format!("{} {dst} {a} {second}", head("sel", &format!("({condition}){flag}"))),
        4 => {
            let control = random.pick(&["(W&f0.0)", "(f1.0)"]);
            format!("{control} sel ({lanes}|M0) {dst} {a} {second}")
        }
        5 if floats => {
            let [x, y, z] = [0, 1, 2].map(|_| random.range(8, 40));
            let lanes = lanes.min(16);
            format!(
                "{control} mad ({lanes}|M0) {saturate} r{}.0<1>:f -r{x}.0<1;0>:f r{y}.0<1;0>:f r{z}.0<1>:f",
                random.range(8, 40)
            )
        }
        5 | 6 if !floats => {
            let name = random.pick(&["and", "or", "xor", "shl", "shr", "asr"]);
            format!("{} {dst} {a} {second}", head(name, ""))
        }
        7 => format!("{} {dst} {a} {second}", head("mul", saturate)),
        8 => format!("(W) add ({lanes}|M0) r12.0<1>:q r12.0<1;1,0>:q {}:d", random.range(-9, 9)),
        _ => format!("{} {dst} {a} {second}", head("add", saturate)),
    }
}

/// A load or store near the memory; some leave it.
fn message(random: &mut Random, platform: Platform) -> String {
    let lanes = platform.lanes() as usize;
    let grf = platform.grf_bytes() as usize;
    let (unit, bytes) = random.pick(&[(2, 4), (3, 8), (4, 4), (5, 4)]);
    let registers = lanes * bytes / grf;
    let addresses = 8 * lanes / grf;
    let store = random.coin();
    let transposed = unit < 4 && random.chance(30);
    let mut descriptor = 0x180 | unit << 9 | if store { 4 } else { 0 };
    let (lanes, data) = match transposed {
        true => {
            descriptor |= 1 << 15 | 3 << 12 | 1 << 25;
            (1, (4 * bytes).div_ceil(grf))
        }
        false => {
            descriptor |= (addresses as u32) << 25;
            (lanes, registers)
        }
    };
    let at = random.range(14, 30);
    let control = random.pick(&["(W)", "(W)", ""]);
    match store {
        true => {
            format!("{control} send.ugm ({lanes}|M0) null r2 r{at}:{data} 0x0 {descriptor:#010x}")
        }
        false => {
            let descriptor = descriptor | (data as u32) << 20;
            format!("{control} send.ugm ({lanes}|M0) r{at} r2 null:0 0x0 {descriptor:#010x}")
        }
    }
}

/// The same for registers that follow each other, as compilers convert the sums of a tile.
fn series(random: &mut Random) -> Vec<String> {
    let [d, a, b] = [0, 1, 2].map(|_| random.range(8, 30));
    let [step, kind] = [random.range(0, 2), random.below(10)];
    let bytes = random.pick(&["ub", "b"]);
    let control = random.pick(&["(W)", "(W)", "(W)", ""]);
    let condition = random.pick(&["ge", "lt"]);
    let line = |n: usize| {
        let [d, a] = [d + n, a + step * n];
        let body = match kind {
            0 => format!("mov (16|M0) r{d}.0<1>:f r{a}.0<1;1,0>:d"),
            1 => format!("mov (16|M0) (sat)r{d}.0<4>:{bytes} r{a}.0<1;1,0>:f"),
            2 => format!("mov (16|M0) r{d}.0<1>:{bytes} r{a}.0<4;1,0>:{bytes}"),
            3 => format!("mov (16|M0) r{d}.0<1>:f r{a}.{}<1;1,0>:{bytes}", 16 * (n % 4)),
            4 => format!("mad (16|M0) r{d}.0<1>:f -r{b}.0<1;0>:f r{a}.0<1;0>:f r{b}.0<1>:f"),
            5 => format!("mad (16|M0) r{d}.0<1>:f r{a}.0<1;0>:f r{a}.0<1;0>:f r{b}.0<1>:f"),
            6 => format!("rnde (16|M0) r{d}.0<1>:f r{a}.0<1;1,0>:f"),
            7 => {
                format!("sel (16|M0) ({condition})f0.0 r{d}.0<1>:f r{a}.0<1;1,0>:f r{b}.0<1;1,0>:f")
            }
            8 => format!("add (16|M0) r{d}.0<1>:f r{a}.0<1;1,0>:f 0x3fc00000:f"),
            _ => format!("mov (16|M0) r{d}.0<1>:d r{a}.0<1;1,0>:d"),
        };
        format!("{control} {body}")
    };
    (0..random.range(2, 6)).map(line).collect()
}

/// A block of a matrix in the memory, some of it outside.
fn block(random: &mut Random) -> Vec<String> {
    let (code, size): (u32, usize) = random.pick(&[(0, 1), (0, 1), (1, 2), (2, 4)]);
    let (store, pitch) = (random.chance(30), random.pick(&[64, 64, 80, 128]));
    let width = random.pick(&[16, 32, 64]) / size;
    let blocks = if store { 1 } else { random.pick(&[1, 1, 2]) };
    let height: usize = random.range(1, if store { 8 } else { 12 });
    let vnni = !store && size < 4 && random.chance(40);
    let rows = if vnni { height.next_multiple_of(4 / size) } else { height };
    let registers = blocks * (width * rows * size).div_ceil(64);
    let shape = (blocks - 1) << 16 | (height - 1) << 8 | (width - 1);
    let [x, y] = [random.pick(&[0, 0, 4, 16, -4]), random.pick(&[0, 0, 2, 6, -1])];
    let payload = [BASE as i64, 0, 63, random.pick(&[7, 15, 2]), pitch - 1, x, y, shape as i64];
    let places = payload.into_iter().enumerate();
    let mut lines: Vec<String> =
        places.map(|(at, value)| format!("(W) mov (1|M0) r60.{at}<1>:d {value}:d")).collect();
    let at = random.range(8, 24);
    let descriptor = code << 9 | 1 << 25 | u32::from(vnni) << 7;
    lines.push(match store {
        true => {
            format!("(W) send.ugm (1|M0) null r60 r{at}:{registers} 0x0 {:#010x}", descriptor | 7)
        }
        false => {
            let descriptor = descriptor | 3 | (registers as u32) << 20;
            format!("(W) send.ugm (1|M0) r{at} r60 null:0 0x0 {descriptor:#010x}")
        }
    });
    lines
}

/// A program of legal lines, some in a loop.
fn program(random: &mut Random, platform: Platform) -> String {
    let mut lines = Vec::new();
    while lines.len() < 30 {
        if random.chance(15) {
            let more = match random.coin() && platform.is_second() {
                true => block(random),
                false => series(random),
            };
            let legal = |line: &String| text::native::read(line, platform, SourceId(0)).is_ok();
            lines.extend(more.into_iter().filter(legal));
            continue;
        }
        let line = match random.below(8) {
            0 => message(random, platform),
            1 => {
                let n = platform.lanes();
                let [d, b] = [0, 1].map(|_| 8 * random.range(2, 4));
                let kinds = ["b", "ub"];
                let [w, a] = [0, 1].map(|_| random.pick(&kinds));
                format!("dpas.8x8 ({n}|M0) r{d}:d r{d}:d r{b}:{w} r44.0:{a}")
            }
            _ => line(random, platform),
        };
        if text::native::read(&line, platform, SourceId(0)).is_ok() {
            lines.push(line);
        }
    }
    let (first, last) = (random.below(10), random.range(15, 25));
    let mut text = "(W) mov (1|M0) r6.0<1>:d 3:w\n".to_owned();
    for (index, line) in lines.iter().enumerate() {
        if index == first {
            text.push_str("L0:\n");
        }
        let _ = writeln!(text, "{line}");
        if index == last {
            text.push_str("(W) add (1|M0) r6.0<1>:d r6.0<0;1,0>:d -1:w\n");
            text.push_str("(W) cmp (1|M0) (gt)f1.1 null<1>:d r6.0<0;1,0>:d 0:w\n");
            text.push_str("(W&f1.1) jmpi L0\n");
        }
    }
    text
}

/// A thread with random registers and addresses in r2 and behind it.
fn thread(random: &mut Random, arch: &DpasArch, mask: u32) -> Thread {
    let mut thread = Thread::new(arch, mask);
    for word in thread.grf.chunks_exact_mut(4) {
        let number = match random.below(4) {
            0 => random.range(-200, 200) as u32,
            1 => (random.range(-1000, 1000) as f32 / 8.0).to_bits(),
            2 => random.pick(&[f32::NAN, f32::INFINITY, -0.0, 1e-42, 0.5, -1.5]).to_bits(),
            _ => random.next() as u32,
        };
        word.copy_from_slice(&number.to_le_bytes());
    }
    let grf = arch.platform.grf_bytes() as usize;
    let unit = random.pick(&[8, 8, 4, 1]);
    let far = random.chance(95);
    let spread = if far { BYTES / 2 } else { 2 * BYTES };
    let lanes = thread.grf[2 * grf..][..8 * arch.platform.lanes() as usize].chunks_exact_mut(8);
    for lane in lanes {
        let address = BASE + (random.below(spread / unit) * unit) as u64;
        lane.copy_from_slice(&address.to_le_bytes());
    }
    thread.flags = [0; 4].map(|_| random.next() as u32);
    thread
}

/// What a thread left behind: itself, its memory, the steps that were not used, and its fault.
fn outcome(
    mut thread: Thread,
    mut memory: Piece,
    run: &mut dyn FnMut(&mut Thread, &mut Piece, &mut u64) -> Result<String, String>,
) -> (Thread, Piece, u64, Result<String, String>) {
    let mut steps = 150;
    let result = run(&mut thread, &mut memory, &mut steps);
    (thread, memory, steps, result)
}

#[test]
fn random_programs_leave_the_same_threads() {
    let rules = Rules::default();
    let (mut faults, mut prepared_lines, mut lines) = (0, 0, 0);
    for case in 0..400 {
        let mut random = Random::new(1800 + case);
        let platform = random.pick(&[Platform::XeHpg, Platform::XeHpc, Platform::Xe2]);
        let arch = arch(platform);
        let text = program(&mut random, platform);
        let listing = crate::common::listing(&text, platform);
        let program = Program::new(&listing, &arch, RowStride::Full).unwrap();
        let mask = random.pick(&[u32::MAX, u32::MAX, 0xffff, 0x1234_5679, 0]);
        let thread = thread(&mut random, &arch, mask);
        let memory = Piece((0..BYTES).map(|_| random.next() as u8).collect());
        let show = |index: usize, problem: quincunx_diag::Diagnostic| format!("{index} {problem}");
        let expected = outcome(thread.clone(), memory.clone(), &mut |thread, memory, steps| {
            let done = thread.run(&program, memory, rules, steps);
            done.map(|stop| format!("{stop:?}")).map_err(|trap| show(trap.index, trap.problem))
        });
        faults += usize::from(expected.3.is_err());
        for level in Level::available() {
            let mut prepared = Prepared::new(&program, &arch, rules, level);
            lines += program.steps.len();
            prepared_lines += program.steps.len() - prepared.unprepared();
            let found = outcome(thread.clone(), memory.clone(), &mut |thread, memory, steps| {
                let done = prepared.run(thread, &program, memory, steps);
                done.map(|stop| format!("{stop:?}")).map_err(|trap| show(trap.index, trap.problem))
            });
            let differing = differences(&expected.0, &found.0);
            assert!(
                found == expected,
                "case {case} {level:?}: {differing}\n{:?} {:?}\n{text}",
                found.3,
                expected.3
            );
        }
    }
    assert!(faults > 20 && faults < 300, "{faults} faults");
    assert!(prepared_lines * 10 > lines * 7, "{prepared_lines} of {lines} are prepared");
}

fn differences(a: &Thread, b: &Thread) -> String {
    let bytes = (0..a.grf.len()).filter(|&at| a.grf[at] != b.grf[at]).collect::<Vec<_>>();
    format!("bytes {bytes:?}, flags {:x?} {:x?}", a.flags, b.flags)
}
