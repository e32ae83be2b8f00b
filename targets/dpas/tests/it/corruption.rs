//! A flipped bit of an instruction is refused, or computes what the flipped instruction means: read
//! from its bits, and multiplied, a second time.

use crate::common::definition::{definition, fill};
use crate::common::{Random, arch, listing, same};
use quincunx_diag::Diagnostic;
use quincunx_dpas::arch::Platform::{self, Xe2, Xe3, XeHpc, XeHpg};
use quincunx_dpas::binary;
use quincunx_dpas::precision::{Acc, Precision};
use quincunx_dpas::program::{Kernel, Program};
use quincunx_dpas::shape::{RowStride, Shape};
use quincunx_dpas::simulate::lower::{Memory, listing_steps, visa_operation};
use quincunx_dpas::simulate::{AlignedBytes, Operation, Rules, State, Step};
use quincunx_dpas::verify::{Allow, verify};

/// Corruptions of each form of code.
const CORRUPTIONS: usize = 1000;

/// What became of the corruptions.
#[derive(Debug, Default)]
struct Count {
    rejected: usize,
    same_output: usize,
    other_output: usize,
}

/// Bits `high:low` of little-endian bytes.
fn bits(bytes: &[u8], high: usize, low: usize) -> u32 {
    (low..=high).rev().fold(0, |value, at| value << 1 | u32::from(bytes[at / 8] >> (at % 8) & 1))
}

/// The type of dst or src0 by its code, in float or integer execution.
fn acc(code: u32, float: bool) -> Option<Acc> {
    Some(match (float, code) {
        (false, 2) => Acc::Ud,
        (false, 6) => Acc::D,
        (true, 1) => Acc::Hf,
        (true, 2) => Acc::F,
        (true, 3) => Acc::Df,
        (true, 5) => Acc::Bf,
        _ => return None,
    })
}

/// The precision of src1 or src2 by its type and its sub-byte code.
fn precision(code: u32, narrow: u32, float: bool) -> Option<Precision> {
    let unsigned = [Precision::U8, Precision::U4, Precision::U2, Precision::U1];
    let signed = [Precision::S8, Precision::S4, Precision::S2, Precision::S1];
    Some(match (float, code, narrow) {
        (false, 0, _) => unsigned[narrow as usize],
        (false, 4, _) => signed[narrow as usize],
        (true, 0, 0) => Precision::Bf8,
        (true, 0, 2) => Precision::E2m1,
        (true, 1, 0) => Precision::Hf,
        (true, 3, 0) => Precision::Df,
        (true, 4, 0) => Precision::Hf8,
        (true, 5, 0) => Precision::Bf,
        (true, 6, 0) => Precision::Tf32,
        _ => return None,
    })
}

/// The meaning of machine code, from a table of its fields (`iga` in `docs/bibliography.md`);
/// `None` where the table has none.
fn meaning(code: &[u8], platform: Platform) -> Option<Operation> {
    let first = platform == XeHpg;
    let field = |high, low| bits(code, high, low);
    let flag = |at| field(at, at) == 1;
    let (exec, offset) = match first {
        true => (field(18, 16), 4 * field(21, 19)),
        false => (field(20, 18), 8 * field(25, 24)),
    };
    let unit = if first { 1 } else { 2 };
    let grf = if first { 32 } else { 64 };
    let at = |number: u32, sub: u32| (number * grf + sub * unit) as usize;
    let float = flag(39);
    let fused = match field(6, 0) {
        0x59 => false,
        0x5a => true,
        _ => return None,
    };
    if flag(29) || !flag(50) || !flag(98) || !flag(114) || field(103, 99) != 0 {
        return None;
    }
    Some(Operation {
        shape: Shape {
            weights: precision(field(90, 88), field(87, 86), float)?,
            activations: precision(field(82, 80), field(85, 84), float)?,
            depth: 1 << field(49, 48),
            repeat: field(45, 43) + 1,
            lanes: 1 << exec,
            dst: acc(field(38, 36), float)?,
            src0: acc(field(42, 40), float)?,
            stride: RowStride::Full,
        },
        dst: at(field(63, 56), field(55, 51)),
        src0: flag(66).then(|| at(field(79, 72), field(71, 67))),
        src1: at(field(111, 104), 0),
        src2: at(field(127, 120), field(119, 115)),
        offset,
        no_mask: flag(31),
        fused,
        scales: None,
    })
}

/// Names of types that go together, native: dst, src0, src1, src2.
const TYPES: [[&str; 4]; 8] = [
    ["d", "ud", "b", "ub"],
    ["d", "d", "ub", "s4"],
    ["ud", "d", "s2", "u2"],
    ["d", "d", "u4", "s4"],
    ["f", "f", "bf", "bf"],
    ["f", "f", "hf", "hf"],
    ["f", "f", "tf32", "tf32"],
    ["bf", "f", "bf", "bf"],
];

fn random_native(random: &mut Random, platform: Platform) -> String {
    let kinds = if platform == XeHpg { &TYPES[..6] } else { &TYPES[..] };
    let [dst, src0, w, a] = random.pick(kinds);
    let (lanes, repeat) = (platform.lanes(), 1 + random.below(8));
    let fused = platform == XeHpg && repeat == 8 && random.below(2) == 0;
    let name = if fused { "dpasw" } else { "dpas" };
    let mask = random.pick(&["", "(W) "]);
    let src0 = match random.below(4) {
        0 => format!("null:{src0}"),
        _ => format!("r{}:{src0}", 40 + random.below(4)),
    };
    let dst_at = 20 + random.below(4);
    let (src1, src2) = (60 + random.below(4), 80 + random.below(4));
    format!("{mask}{name}.8x{repeat} ({lanes}|M0) r{dst_at}:{dst} {src0} r{src1}:{w} r{src2}.0:{a}")
}

/// A state whose numbers are of similar size where the operation reads them.
fn random_state(random: &mut Random, operation: &Operation, size: usize) -> State {
    let mut state = State::new(2, size);
    state.dispatch_mask = random.next() as u32;
    let sums = match operation.shape.src0 {
        Acc::F => Precision::Tf32,
        Acc::Bf => Precision::Bf,
        Acc::Hf => Precision::Hf,
        _ => Precision::U8,
    };
    for bytes in &mut state.threads {
        fill(random, operation.shape.activations, false, bytes);
        let (weights, length) = (operation.src1, operation.shape.src1_bytes() as usize);
        fill(random, operation.shape.weights, false, &mut bytes[weights..weights + length]);
        if let Some(src0) = operation.src0 {
            let length = operation.shape.src0_bytes() as usize;
            fill(random, sums, false, &mut bytes[src0..src0 + length]);
        }
    }
    state
}

fn run(operation: Operation, state: &State) -> Result<State, Diagnostic> {
    let mut after = state.clone();
    Step::Multiply(operation).run(&mut after, Rules::default())?;
    Ok(after)
}

/// Equal bytes; in dst any NaN equals any NaN.
fn agree(found: &State, expected: &[AlignedBytes], operation: &Operation) -> bool {
    let end = operation.dst + operation.shape.dst_bytes() as usize;
    found.threads.iter().zip(expected).all(|(found, expected)| {
        let dst = operation.dst..end;
        found[..dst.start] == expected[..dst.start]
            && found[end..] == expected[end..]
            && same(&found[dst.clone()], &expected[dst], operation.shape.dst)
    })
}

impl Count {
    /// Judges what a corrupted instruction was taken for, against what its bits mean.
    fn judge(&mut self, original: &State, before: &State, taken: Operation, meant: Operation) {
        let after = run(taken, before).unwrap();
        assert_eq!(taken.fused, meant.fused);
        let expected = definition(&meant, before, Rules::default());
        assert!(agree(&after, &expected, &meant), "taken for {taken:?}, means {meant:?}");
        match after.threads == original.threads {
            true => self.same_output += 1,
            false => self.other_output += 1,
        }
    }

    /// All kinds of outcomes are there, and nothing is missed.
    fn check(&self) {
        let Count { rejected, same_output, other_output } = *self;
        assert_eq!(rejected + same_output + other_output, CORRUPTIONS, "{self:?}");
        assert!(rejected > 100 && same_output > 10 && other_output > 100, "{self:?}");
    }
}

/// The product of machine code that is legal, if it is one.
fn legal_native(code: &[u8], platform: Platform) -> Option<Operation> {
    let (listing, _) = binary::native::read(code, platform);
    let program = Program::Native(listing.clone());
    let arch = arch(platform);
    if verify(&program, &arch, &Allow::default()).iter().any(Diagnostic::is_error) {
        return None;
    }
    match listing_steps(&listing, &arch, RowStride::Full).ok()?[..] {
        [Step::Multiply(operation)] => Some(operation),
        _ => None,
    }
}

#[test]
fn corrupted_machine_code() {
    let (mut random, mut count) = (Random::new(51), Count::default());
    for _ in 0..CORRUPTIONS {
        let platform = random.pick(&[XeHpg, XeHpc, Xe2, Xe3]);
        let text = random_native(&mut random, platform);
        let mut code = binary::native::write(&listing(&text, platform), platform).unwrap();
        let operation = legal_native(&code, platform).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(meaning(&code, platform), Some(operation), "{text}");
        let size = arch(platform).file_bytes() as usize;
        let before = random_state(&mut random, &operation, size);
        let original = run(operation, &before).unwrap();
        let at = random.below(128) as usize;
        code[at / 8] ^= 1 << (at % 8);
        match legal_native(&code, platform) {
            None => count.rejected += 1,
            Some(taken) => {
                let meant = meaning(&code, platform);
                let meant = meant.unwrap_or_else(|| panic!("bit {at} of {text} means nothing"));
                count.judge(&original, &before, taken, meant);
            }
        }
    }
    count.check();
}

/// Types that go together in byte code: W, A, and of dst and src0.
const VIRTUAL: [[&str; 4]; 7] = [
    ["s8", "u8", "d", "ud"],
    ["u4", "s8", "d", "d"],
    ["s2", "u2", "ud", "d"],
    ["bf", "bf", "f", "f"],
    ["hf", "hf", "f", "f"],
    ["tf32", "tf32", "f", "f"],
    ["bf", "bf", "bf", "f"],
];

/// A kernel of one instruction, and the types of its variables.
fn random_kernel(random: &mut Random, platform: Platform) -> (Kernel, Vec<&'static str>) {
    let kinds = if platform == XeHpg { &VIRTUAL[..5] } else { &VIRTUAL[..] };
    let [w, a, dst, src0] = random.pick(kinds);
    let types = vec![dst, src0, "d", "d", "ud", dst];
    let mut text = ".version 3.8\n.kernel \"k\"\n".to_owned();
    for (index, kind) in types.iter().enumerate() {
        text += &format!(".decl V{} v_type=G type={kind} num_elts=256 align=GRF\n", 32 + index);
    }
    let (lanes, repeat) = (platform.lanes(), 1 + random.below(8));
    let mask = random.pick(&["M1", "M1_NM"]);
    let src0 = random.pick(&["%null", "V33", "V33"]);
    text += &format!(
        "dpas.{w}.{a}.8.{repeat} ({mask}, {lanes}) V32.0 {src0}.0 V34.0 V35(1,0)\nret (M1, 1)\n"
    );
    let read = quincunx_dpas::text::visa::read(&text, quincunx_diag::SourceId(0));
    (read.unwrap_or_else(|found| panic!("{found:?}")).0, types)
}

/// The meaning of byte code, from a table of its fields (`visa` in `docs/bibliography.md`); `None`
/// where the table has none. The variables have these types and begin at these bytes.
fn virtual_meaning(
    code: &[u8],
    platform: Platform,
    types: &[&str],
    begins: &[usize],
) -> Option<Operation> {
    let number = |at: usize, size: usize| {
        code[at..at + size].iter().rev().fold(0u32, |value, &byte| value << 8 | u32::from(byte))
    };
    // The tag and the region of src2 have one legal value each.
    if code.len() != 33 || code[20] != 0 || number(27, 2) != 0x0122 {
        return None;
    }
    let fused = match code[0] {
        0x83 => false,
        0x1c => true,
        _ => return None,
    };
    let place = |at: usize| (number(at, 4).checked_sub(32).map(|v| v as usize), number(at + 4, 2));
    let begin = |variable: Option<usize>| begins.get(variable?).copied();
    let kind = |variable: Option<usize>| types.get(variable?).and_then(|name| Acc::from_name(name));
    let names = [
        "", "u1", "s1", "u2", "s2", "u4", "s4", "u8", "s8", "bf", "hf", "bf8", "tf32", "", "hf8",
        "e2m1",
    ];
    let precision = |at: usize| Precision::from_name(names.get(usize::from(code[at]))?);
    let (dst, dst_at) = place(2);
    let (src0, src0_at) = place(8);
    let (src1, src1_at) = place(14);
    let src2 = number(21, 4).checked_sub(32).map(|variable| variable as usize);
    let grf = if platform == XeHpg { 32 } else { 64 };
    let src2_at = usize::from(code[25]) * grf + usize::from(code[26]) * 4;
    let is_null = number(8, 4) == 0;
    Some(Operation {
        shape: Shape {
            weights: precision(29)?,
            activations: precision(30)?,
            depth: u32::from(code[31]),
            repeat: u32::from(code[32]),
            lanes: 1 << (code[1] & 15),
            dst: kind(dst)?,
            src0: if is_null { kind(dst)? } else { kind(src0)? },
            stride: RowStride::Full,
        },
        dst: begin(dst)? + dst_at as usize,
        src0: if is_null { None } else { Some(begin(src0)? + src0_at as usize) },
        src1: begin(src1)? + src1_at as usize,
        src2: begin(src2)? + src2_at,
        offset: u32::from(code[1] >> 4 & 7) * 4,
        no_mask: code[1] >> 7 == 1,
        fused,
        scales: None,
    })
}

/// The product of byte code that is legal, if it is one.
fn legal_virtual(code: &[u8], kernel: &Kernel, platform: Platform) -> Option<Operation> {
    let form = Some(binary::visa::Form::Documented);
    let (instructions, _) = binary::visa::read(code, false, form).ok()?;
    let kernel = Kernel { instructions, ..kernel.clone() };
    let arch = arch(platform);
    let program = Program::Visa(kernel.clone());
    if verify(&program, &arch, &Allow::default()).iter().any(Diagnostic::is_error) {
        return None;
    }
    let [item] = &kernel.instructions[..] else { return None };
    let memory = Memory::new(&kernel, platform.grf_bytes()).ok()?;
    visa_operation(&item.inst.parts(), &kernel, &memory, &arch, RowStride::Full).ok()
}

#[test]
fn corrupted_byte_code() {
    let (mut random, mut count) = (Random::new(52), Count::default());
    for _ in 0..CORRUPTIONS {
        let platform = random.pick(&[XeHpg, XeHpc, Xe2, Xe3]);
        let (kernel, types) = random_kernel(&mut random, platform);
        let form = binary::visa::Form::Documented;
        let mut code = binary::visa::write(&kernel.instructions, false, form).unwrap();
        let memory = Memory::new(&kernel, platform.grf_bytes()).unwrap();
        let meant = |code: &[u8]| virtual_meaning(code, platform, &types, &memory.offsets);
        let operation = legal_virtual(&code, &kernel, platform).unwrap();
        assert_eq!(meant(&code), Some(operation));
        let before = random_state(&mut random, &operation, memory.bytes);
        let original = run(operation, &before).unwrap();
        // The low bits of every byte, since most others lead out of every range.
        let at = 8 * random.below(33) as usize + random.below(5) as usize;
        code[at / 8] ^= 1 << (at % 8);
        match legal_virtual(&code, &kernel, platform) {
            None => count.rejected += 1,
            Some(taken) => {
                let meant = meant(&code).unwrap_or_else(|| panic!("bit {at} means nothing"));
                count.judge(&original, &before, taken, meant);
            }
        }
    }
    count.check();
}
