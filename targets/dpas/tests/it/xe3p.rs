//! xe3p, of which the systolic instructions are known: 8-bit and 4-bit floats, Fwd.

use crate::common::definition::{definition, fill, number};
use crate::common::{Random, arch, listing, same};
use quincunx_contract::{Log, compiler_of};
use quincunx_diag::SourceId;
use quincunx_dpas::TARGET;
use quincunx_dpas::arch::Platform;
use quincunx_dpas::binary::native;
use quincunx_dpas::precision::{Acc, Precision};
use quincunx_dpas::program::{Program, Statement};
use quincunx_dpas::shape::RowStride;
use quincunx_dpas::simulate::lower::listing_steps;
use quincunx_dpas::simulate::{Model, Plan, Rules, State, Step};
use quincunx_dpas::swsb::check;
use quincunx_dpas::text;
use quincunx_dpas::verify::verify;
use quincunx_testkit::options;

const XE3P: Platform = Platform::Xe3p;

fn bytes(line: &str) -> u128 {
    let code = native::write(&listing(line, XE3P), XE3P).unwrap();
    u128::from_le_bytes(code.try_into().unwrap())
}

/// The only product of a listing.
fn product(line: &str) -> Step {
    listing_steps(&listing(line, XE3P), &arch(XE3P), RowStride::Full).unwrap()[0]
}

/// Every code of the small floats is the number that its bits say.
#[test]
fn every_code_of_small_floats_is_its_number() {
    for (precision, codes) in [(Precision::Bf8, 256), (Precision::Hf8, 256), (Precision::E2m1, 16)]
    {
        let name = precision.name();
        let step = product(&format!("dpas.8x1 (16|M0) r16:f null:f r32:{name} r48.0:{name}"));
        // 1 has the bias as its exponent.
        let one: u8 = match precision {
            Precision::Bf8 => 15 << 2,
            Precision::Hf8 => 7 << 3,
            _ => 1 << 1,
        };
        for code in 0..codes {
            let mut state = State::new(1, 256 * 64);
            state.threads[0][48 * 64] = code as u8;
            state.threads[0][32 * 64] = one;
            step.run(&mut state, Rules::default()).unwrap();
            let bits: [u8; 4] = state.threads[0][16 * 64..][..4].try_into().unwrap();
            let (found, expected) = (f32::from_le_bytes(bits), number(precision, code) as f32);
            assert!(
                found == expected || (found.is_nan() && expected.is_nan()),
                "{name} {code:#x}: {found} {expected}"
            );
        }
    }
}

/// Sums of f32 and bf, of all small floats, against the definition; the prepared simulator too.
#[test]
fn products_of_small_floats_follow_the_definition() {
    let mut random = Random::new(4);
    for case in 0..200 {
        let fp8 = [Precision::Bf8, Precision::Hf8];
        let [w, a] = match random.below(3) {
            0 => [Precision::E2m1; 2],
            _ => [random.pick(&fp8), random.pick(&fp8)],
        };
        let [dst, src0] = [random.pick(&[Acc::F, Acc::Bf]), random.pick(&[Acc::F, Acc::Bf])];
        let line = format!(
            "dpas.8x{} (16|M0) r16:{} r24:{} r32:{} r48.0:{}",
            1 + random.below(8),
            dst.name(),
            src0.name(),
            w.name(),
            a.name()
        );
        let Step::Multiply(operation) = product(&line) else { panic!() };
        let mut state = State::new(1, 256 * 64);
        fill(&mut random, Precision::Bf, false, &mut state.threads[0][24 * 64..32 * 64]);
        fill(&mut random, w, false, &mut state.threads[0][32 * 64..56 * 64]);
        let rules = Rules::default();
        let expected = definition(&operation, &state, rules);
        let mut prepared = state.clone();
        Step::Multiply(operation).run(&mut state, rules).unwrap();
        let range = 16 * 64..16 * 64 + operation.shape.dst_bytes() as usize;
        let found = &state.threads[0][range.clone()];
        assert!(same(found, &expected[0][range], dst), "case {case}: {line}");
        Plan::new(&[Step::Multiply(operation)], 256 * 64, rules).run(&mut prepared).unwrap();
        assert!(prepared == state, "case {case}: {line}");
    }
}

/// Fwd is bit 33, and lets sums pass within a macro.
#[test]
fn sums_are_forwarded() {
    let line = |options: &str| format!("dpas.8x8 (16|M0) r16:f r16:f r32:hf8 r48.0:bf8 {options}");
    assert_eq!(bytes(&line("{Fwd}")) ^ bytes(&line("")), 1 << 33);
    let printed = text::native::print(&listing(&line("{Atomic,Fwd}"), XE3P));
    assert_eq!(printed.trim(), format!("{}", line("{Atomic,Fwd}")));
    let code = native::write(&listing(&line("{Atomic,Fwd}"), XE3P), XE3P).unwrap();
    let (again, warnings) = native::read(&code, XE3P);
    assert!(warnings.is_empty());
    assert_eq!(text::native::print(&again), printed);
    let second = "dpas.8x8 (16|M0) r16:f r16:f r40:hf8 r52.0:bf8 {$0}";
    let codes = |options: &str| {
        let both = listing(&format!("{}\n{second}", line(options)), XE3P);
        let found = check(&both, &arch(XE3P), RowStride::Full);
        found.iter().map(|one| one.code()).collect::<Vec<_>>()
    };
    assert_eq!(codes("{Atomic,Fwd}"), Vec::<&str>::new());
    assert_eq!(codes("{Atomic}"), ["Q6082"]);
    let refused = |line: &str, platform| {
        let found = text::native::read(line, platform, SourceId(0));
        found.err().unwrap()[0].code()
    };
    assert_eq!(refused(&line("{Fwd}"), Platform::Xe3), "Q6004");
    // Nothing else of the machine is known.
    assert_eq!(refused("mov (16|M0) r4.0<1>:f r5.0<1;1,0>:f", XE3P), "Q6005");
}

#[test]
fn other_machine_code_stays_raw() {
    let line = "mov (16|M0) r4.0<1>:f r5.0<1;1,0>:f";
    let code = native::write(&listing(line, Platform::Xe3), Platform::Xe3).unwrap();
    let (found, _) = native::read(&code, XE3P);
    assert!(matches!(found.items[0].statement, Statement::Raw(_)));
}

#[test]
fn no_kernels_are_compiled_for_it() {
    let compiler = compiler_of(&TARGET).unwrap();
    let graph = quincunx_graph::Graph::new("empty");
    let found = compiler.compile(&graph, &arch(XE3P), &options(&TARGET, &[]), &mut Log::default());
    let problem = found.err().unwrap();
    assert!(format!("{problem:?}").contains("Q6184"), "{problem:?}");
}

/// Fields of bdpas are where they were found, bit by bit.
#[test]
fn scales_have_their_bits() {
    let line = |src3: &str, src4: &str| {
        format!("bdpas.8x8 (16|M0) r16:f r16:f r32:bf8 r48:hf8 {src3}:ub {src4}:ub")
    };
    let none = bytes(&line("null", "null"));
    let plain = bytes("dpas.8x8 (16|M0) r16:f r16:f r32:bf8 r48.0:hf8");
    // The opcode, and no repeat count.
    assert_eq!(none ^ plain, (0x59 ^ 0x5c) | 7 << 43);
    let spread = |number: u32, places: [u32; 8]| {
        let bits = (0..8).filter(|bit| number >> bit & 1 == 1);
        bits.fold(0_u128, |word, bit| word | 1 << places[bit as usize])
    };
    let mut random = Random::new(6);
    for _ in 0..200 {
        let [n, m] = [random.below(256) as u32, random.below(256) as u32];
        let [x, y] = [random.below(4) as u32, random.below(8) as u32];
        let text = line(&format!("r{n}.{}", 16 * x), &format!("r{m}.{}", 8 * y));
        let word = bytes(&text);
        let expected = none
            | 1 << 35
            | 1 << 34
            | spread(n, [47, 64, 65, 92, 93, 94, 95, 112])
            | u128::from(x) << 102
            | spread(m, [43, 44, 45, 46, 115, 116, 117, 118])
            | u128::from(y) << 99;
        assert_eq!(word, expected, "{text}");
        let (again, warnings) = native::read(&word.to_le_bytes(), XE3P);
        assert!(warnings.is_empty());
        assert_eq!(bytes(&text::native::print(&again)), word);
    }
    // Other platforms have no such opcode.
    let (found, _) = native::read(&none.to_le_bytes(), Platform::Xe3);
    assert!(matches!(found.items[0].statement, Statement::Raw(_)));
    let read = text::native::read(&line("null", "null"), Platform::Xe3, SourceId(0));
    assert_eq!(read.err().unwrap()[0].code(), "Q6004");
}

#[test]
fn products_with_scales_follow_the_definition() {
    let mut random = Random::new(8);
    for case in 0..200 {
        let fp8 = [Precision::Bf8, Precision::Hf8];
        let [w, a] = match random.below(4) {
            0 => [Precision::E2m1; 2],
            1 => [Precision::Bf; 2],
            2 => [Precision::Hf; 2],
            _ => [random.pick(&fp8), random.pick(&fp8)],
        };
        let (src3, src4) = match random.below(4) {
            0 => ("null:ub", "r60.8:ub"),
            1 => ("r58.16:ub", "null:ub"),
            _ => ("r58.16:ub", "r60.8:ub"),
        };
        let (w_name, a_name) = (w.name(), a.name());
        let line = format!("bdpas.8x8 (16|M0) r16:f r24:f r32:{w_name} r48:{a_name} {src3} {src4}");
        let found = verified(&line);
        assert_eq!(found, Vec::<&str>::new(), "{line}");
        let Step::Multiply(operation) = product(&line) else { panic!() };
        let mut state = State::new(1, 256 * 64);
        fill(&mut random, Precision::Tf32, false, &mut state.threads[0][24 * 64..32 * 64]);
        fill(&mut random, w, false, &mut state.threads[0][32 * 64..48 * 64]);
        fill(&mut random, a, false, &mut state.threads[0][48 * 64..56 * 64]);
        for scale in &mut state.threads[0][58 * 64..62 * 64] {
            // Near 1, or anything: NaN and sums that leave f32 too.
            *scale = if case % 4 == 0 { random.next() as u8 } else { 120 + random.below(16) as u8 };
        }
        let model = random.pick(&[Model::Seq, Model::Fma, Model::Stage, Model::Exact]);
        let rules = Rules { model, ftz: random.below(4) == 0 };
        let expected = definition(&operation, &state, rules);
        let mut prepared = state.clone();
        Step::Multiply(operation).run(&mut state, rules).unwrap();
        let range = 16 * 64..24 * 64;
        let same = same(&state.threads[0][range.clone()], &expected[0][range], Acc::F);
        assert!(same, "case {case}: {line} {rules:?}");
        Plan::new(&[Step::Multiply(operation)], 256 * 64, rules).run(&mut prepared).unwrap();
        assert!(prepared == state, "case {case}: {line}");
    }
}

/// Codes of what the rules of the platform find in a line.
fn verified(line: &str) -> Vec<&'static str> {
    let program = Program::Native(listing(line, XE3P));
    let found = verify(&program, &arch(XE3P), &Default::default());
    found.iter().map(|one| one.code()).collect()
}

#[test]
fn scales_have_rules() {
    let line = |w: &str, src3: &str, src4: &str| {
        format!("bdpas.8x8 (16|M0) r16:f r16:f r32:{w} r48:{w} {src3}:ub {src4}:ub")
    };
    assert_eq!(verified(&line("hf8", "r60.48", "r61.56")), Vec::<&str>::new());
    assert_eq!(verified(&line("e2m1", "r60.16", "r61.24")), Vec::<&str>::new());
    assert_eq!(verified(&line("e2m1", "r60.32", "r61.32")), ["Q6068", "Q6068"]);
    assert_eq!(verified(&line("tf32", "r60.0", "r61.0")), ["Q6042"]);
    assert_eq!(verified(&line("hf8", "r16.0", "r61.0")), ["Q6059"]);
    let refused = |line: &str| {
        let found = text::native::read(line, XE3P, SourceId(0));
        found.err().unwrap()[0].code()
    };
    assert_eq!(refused(&line("hf8", "r60.8", "r61.0")), "Q6012");
    assert_eq!(refused(&line("hf8", "null.16", "r61.0")), "Q6015");
}
