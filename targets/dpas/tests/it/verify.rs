//! Every legality rule has a program that breaks it and no other.

use crate::common::{Random, arch, listing};
use quincunx_diag::{Diagnostic, SourceId};
use quincunx_dpas::arch::Platform::{self, Xe2, Xe3, Xe3p, XeHpc, XeHpg};
use quincunx_dpas::program::Program;
use quincunx_dpas::shape::RowStride;
use quincunx_dpas::swsb;
use quincunx_dpas::text;
use quincunx_dpas::verify::{Allow, verify};

const ALLOW_ALL: Allow = Allow { one_bit: true, df: true, stride: RowStride::Full };

fn native(line: &str, platform: Platform, allow: &Allow) -> Vec<Diagnostic> {
    verify(&Program::Native(listing(line, platform)), &arch(platform), allow)
}

fn codes(found: &[Diagnostic]) -> Vec<&'static str> {
    let mut codes: Vec<_> = found.iter().map(Diagnostic::code).collect();
    // Both of dst and src0 may break one rule.
    codes.dedup();
    codes
}

/// A kernel with four variables and one instruction.
fn kernel(platform: Platform, types: [&str; 4], instruction: &str) -> String {
    let (n, mut text) = (platform.lanes() * 8, ".version 3.8\n.kernel \"k\"\n".to_owned());
    for (index, kind) in types.iter().enumerate() {
        text += &format!(".decl V{} v_type=G type={kind} num_elts={n} align=GRF\n", 32 + index);
    }
    format!("{text}{instruction}\nret (M1, 1)\n")
}

fn visa(
    platform: Platform,
    types: [&str; 4],
    instruction: &str,
    allow: &Allow,
) -> Vec<&'static str> {
    let text = kernel(platform, types, instruction);
    let (kernel, warnings) =
        text::visa::read(&text, SourceId(0)).unwrap_or_else(|f| panic!("{f:?}"));
    assert!(warnings.is_empty());
    codes(&verify(&Program::Visa(kernel), &arch(platform), allow))
}

#[test]
fn native_rules() {
    let none = Allow::default();
    for (platform, line, code) in [
        (XeHpc, "dpas.8x8 (16|M0) r16:f r16:f r32:bf r48.0:hf", "Q6042"),
        (XeHpg, "dpas.8x8 (8|M0) r16:bf r16:bf r32:bf r48.0:bf", "Q6044"),
        (XeHpc, "dpas.8x8 (16|M0) r16:hf r64:f r32:bf r48.0:bf", "Q6044"),
        (XeHpc, "dpas.8x8 (16|M0) r16:bf r64:f r32:tf32 r48.0:tf32", "Q6045"),
        (XeHpc, "dpas.8x8 (16|M0) r16:f r16:f r32:hf8 r48.0:hf8", "Q6046"),
        (XeHpc, "dpas.8x8 (16|M0) r16:f r16:f r32:bf8 r48.0:bf8", "Q6046"),
        (Xe3, "dpas.8x8 (16|M0) r16:f r16:f r32:hf8 r48.0:bf8", "Q6046"),
        (Xe3, "dpas.8x8 (16|M0) r16:f r16:f r32:e2m1 r48.0:e2m1", "Q6046"),
        (XeHpg, "dpas.8x8 (8|M0) r16:d r16:d r32:u1 r48.0:u1", "Q6047"),
        (XeHpg, "dpasw.8x1 (8|M0) r16:d r16:d r32:b r48.0:b", "Q6050"),
        (XeHpc, "dpasw.8x8 (16|M0) r16:d r16:d r32:b r48.0:b", "Q6049"),
        (XeHpc, "dpas.8x8 (16|M0) r16.16:bf r16.16:bf r32:bf r48.0:bf", ""),
        (XeHpc, "dpas.8x8 (16|M0) r16.8:bf null:bf r32:bf r48.0:bf", "Q6054"),
        (XeHpc, "dpas.8x8 (16|M0) r16:bf r64.8:bf r32:bf r48.0:bf", "Q6055"),
        (XeHpc, "dpas.8x4 (16|M0) r16:d r16:d r32:b r48.8:b", "Q6057"),
        (XeHpc, "dpas.8x4 (16|M0) r16:d r16:d r32:b r48.32:b", ""),
        (XeHpc, "dpas.8x8 (16|M0) r250:d r250:d r32:b r48.0:b", "Q6058"),
        (XeHpc, "dpas.8x8 (16|M0) r16:d r17:d r32:b r48.0:b", "Q6059"),
        (XeHpc, "dpas.8x8 (16|M0) r32:d r32:d r32:b r48.0:b", "Q6059"),
        (XeHpc, "dpas.8x8 (16|M0) r45:d r45:d r32:b r48.0:b", "Q6059"),
        (XeHpg, "dpas.4x8 (8|M0) r16:d r16:d r32:b r48.0:b", "Q6061"),
        (XeHpg, "dpas.8x8 (8|M0) r16:f r16:f r32:tf32 r48.0:tf32", "Q6062"),
        (XeHpc, "dpas.8x8 (16|M24) r16:d r16:d r32:b r48.0:b", "Q6063"),
        (Xe2, "dpas.8x8 (16|M0) r16:d r16:d r32:b r48.32:b", "Q6065"),
        (XeHpc, "dpas.8x8 (16|M0) r16:d r16:d r32:b r48.32:b", ""),
        (XeHpc, "mov (16|M0) r4.0<1>:f r5.0<1;1,0>:d", ""),
        (Xe2, "dpas.8x8 (16|M0) r16:f r16:f r32:bf r48.16:bf", "Q6065"),
        (Xe2, "dpas.8x8 (16|M0) r16:d r16:d r32:s4 r48.64:s4", "Q6065"),
        (XeHpc, "rndd (16|M0) r4.0<1>:d r5.0<1;1,0>:d", "Q6141"),
        (XeHpc, "add (16|M0) r4.0<1>:d r5.0<1;1,0>:b r6.0<1;1,0>:d", "Q6142"),
        (XeHpg, "add (8|M0) r4.0<1>:d r5.0<1;1,0>:b r6.0<1;1,0>:d", ""),
        (XeHpc, "add (16|M0) r4.0<1>:f r5.0<1;1,0>:f 5:w", "Q6143"),
        (XeHpc, "add (16|M0) r4.0<1>:d r5.0<1;1,0>:f r6.0<1;1,0>:f", "Q6144"),
        (XeHpc, "mov (2|M0) r4.0<1>:d r5.0<4;4,1>:d", "Q6145"),
        (XeHpc, "mov (16|M0) r4.0<1>:b r5.0<1;1,0>:d", "Q6146"),
        (XeHpc, "cmp (16|M0) r4.0<1>:d r5.0<1;1,0>:d r6.0<1;1,0>:d", "Q6147"),
        (XeHpc, "sel (16|M0) r4.0<1>:d r5.0<1;1,0>:d r6.0<1;1,0>:d", "Q6147"),
        (XeHpc, "and (16|M0) (sat)r4.0<1>:d r5.0<1;1,0>:d r6.0<1;1,0>:d", "Q6148"),
        (XeHpc, "load.ugm.d32.a64 (16|M0) r4:2 [r6:2]", "Q6149"),
        (XeHpc, "load.ugm.d32.a64 (16|M0) r4:1 [r6:2]", ""),
        (XeHpg, "load_block2d.ugm.d32.a64 (1|M0) r4:1 [r6:1]", "Q6149"),
        (XeHpc, "mov (32|M16) r4.0<1>:f r8.0<1;1,0>:f", "Q6063"),
        (XeHpc, "mov (32|M0) r255.0<1>:f r8.0<1;1,0>:f", "Q6058"),
        (XeHpc, "dpas.8x8 (16|M0) r16:ud null:d r32:u2 r48.0:s8", ""),
        (Xe3p, "dpas.8x8 (16|M0) r16:f r16:f r32:bf8 r48.0:hf8", ""),
        (Xe3p, "dpas.8x8 (16|M0) r16.0:bf r24:f r32:hf8 r48.0:hf8", ""),
        (Xe3p, "dpas.8x8 (16|M0) r16:f r16:f r32:e2m1 r48.0:e2m1", ""),
        (Xe3p, "dpas.8x8 (16|M0) r16:hf r16:hf r32:hf8 r48.0:hf8", "Q6044"),
        (Xe3p, "dpas.8x8 (16|M0) r16:f r16:f r32:e2m1 r48.0:hf8", "Q6042"),
        (Xe3p, "dpas.8x8 (16|M0) r16:d r16:d r32:s4 r48.0:u4", ""),
        (Xe3p, "dpas.8x8 (16|M0) r16:d r16:d r32:s4 r48.0:s8", "Q6042"),
        (Xe3p, "dpas.8x8 (16|M0) r16:d r16:d r32:u2 r48.0:u2", "Q6042"),
        (Xe3, "dpas.8x8 (16|M0) r16:f r16:f r32:e2m1 r48.0:e2m1", "Q6046"),
    ] {
        let expected = if code.is_empty() { vec![] } else { vec![code] };
        assert_eq!(codes(&native(line, platform, &none)), expected, "{line}");
    }
    // A double needs the option in every operand; all rules but that one are content.
    let double = "dpas.8x8 (8|M0) r16:df r16:df r32:df r64.0:df";
    let found = native(double, XeHpc, &none);
    assert_eq!(codes(&found), ["Q6048"]);
    assert!(found[0].help_text().unwrap().contains("--df"));
    assert_eq!(codes(&native(double, XeHpc, &ALLOW_ALL)), Vec::<&str>::new());
    assert_eq!(
        codes(&native("dpas.8x8 (8|M0) r16:d r16:d r32:u1 r48.0:s1", XeHpg, &ALLOW_ALL)),
        Vec::<&str>::new()
    );
}

#[test]
fn virtual_rules() {
    let none = Allow::default();
    let d = ["d"; 4];
    for (platform, types, line, code) in [
        (XeHpg, d, "dpas.s8.s8.8.8 (8) V32.0 V33.0 V34.0 V35(0,0)", ""),
        (XeHpc, d, "dpas.s8.s8.8.8 (M1, 8) V32.0 V33.0 V34.0 V35(0,0)", "Q6040"),
        (XeHpg, d, "dpas.s8.s8.8.8 (M8, 8) V32.0 V33.0 V34.0 V35(0,0)", "Q6063"),
        (XeHpg, d, "dpas.s8.bf.8.8 (M1, 8) V32.0 V33.0 V34.0 V35(0,0)", "Q6041"),
        (XeHpg, ["f", "d", "d", "d"], "dpas.s8.s8.8.8 (M1, 8) V32.0 V33.0 V34.0 V35(0,0)", "Q6043"),
        (XeHpg, ["f", "d", "d", "d"], "dpas.bf.bf.8.8 (M1, 8) V32.0 V33.0 V34.0 V35(0,0)", "Q6044"),
        (XeHpg, ["w", "d", "d", "d"], "dpas.s8.s8.8.8 (M1, 8) V32.0 V33.0 V34.0 V35(0,0)", "Q6051"),
        (XeHpg, ["d", "d", "f", "d"], "dpas.s8.s8.8.8 (M1, 8) V32.0 V33.0 V34.0 V35(0,0)", "Q6052"),
        (XeHpg, ["d", "d", "d", "w"], "dpas.u2.s2.8.4 (M1, 8) V32.0 V33.0 V34.0 V35(0,0)", "Q6052"),
        (XeHpg, d, "dpas.s8.s8.8.8 (M1, 8) %null.0 V33.0 V34.0 V35(0,0)", "Q6053"),
        (XeHpg, d, "dpas.s8.s8.8.4 (M1, 8) V32.4 V33.0 V34.0 V35(0,0)", "Q6054"),
        (XeHpg, d, "dpas.s8.s8.8.4 (M1, 8) V32.0 V33.4 V34.0 V35(0,0)", "Q6055"),
        (XeHpg, d, "dpas.s2.s8.8.4 (M1, 8) V32.0 V33.0 V34.4 V35(0,0)", "Q6056"),
        (XeHpg, d, "dpas.s8.s8.8.4 (M1, 8) V32.0 V33.0 V34.0 V35(0,1)", "Q6057"),
        (XeHpg, d, "dpas.s8.s8.8.8 (M1, 8) V32.32 V33.0 V34.0 V35(0,0)", "Q6058"),
        (XeHpg, d, "dpas.s8.s8.8.4 (M1, 8) V32.0 V32.32 V34.0 V35(0,0)", "Q6059"),
        (XeHpg, d, "dpas.s8.s8.8.4 (M1, 8) V32.0 V33.0 V34.0 V40(0,0)", "Q6060"),
        (XeHpg, d, "dpas.s8.s8.2.4 (M1, 8) V32.0 V33.0 V34.0 V35(0,0)", "Q6061"),
        (XeHpc, ["w", "bf", "d", "d"], "dpas.bf.bf.8.8 (M1, 16) V32.0 V33.0 V34.0 V35(0,0)", ""),
    ] {
        let expected = if code.is_empty() { vec![] } else { vec![code] };
        assert_eq!(visa(platform, types, line, &none), expected, "{line} {types:?}");
    }
    let double = "dpas.df.df.8.4 (M1, 4) V32.0 V33.0 V34.0 V35(0,0)";
    let types = ["df", "df", "df", "df"];
    assert_eq!(visa(XeHpg, types, double, &none), ["Q6048"]);
    assert_eq!(visa(XeHpg, types, double, &ALLOW_ALL), Vec::<&str>::new());
}

#[test]
fn rules_of_declarations() {
    let read = |text: &str| text::visa::read(text, SourceId(0)).unwrap().0;
    let check =
        |text: &str| codes(&verify(&Program::Visa(read(text)), &arch(XeHpg), &Allow::default()));
    let alias = |count: u32| {
        format!(
            ".decl a v_type=G type=d num_elts=64 align=GRF\n\
             .decl b v_type=G type=d num_elts={count} align=GRF alias=<a, 128>\n"
        )
    };
    // Offsets of a chain add up.
    let chain = alias(32) + ".decl c v_type=G type=d num_elts=1 align=dword alias=<b, 8>\n";
    assert_eq!(read(&chain).roots(), [(32, 0), (32, 128), (32, 136)]);
    assert_eq!(check(&alias(32)), Vec::<&str>::new());
    assert_eq!(check(&alias(33)), ["Q6067"]);
    assert_eq!(check(".decl a v_type=G type=q num_elts=4000000 align=GRF\n"), ["Q6066"]);
}

#[test]
fn texts_that_are_no_program() {
    let native = |text: &str| text::native::read(text, XeHpc, SourceId(0)).unwrap_err()[0].code();
    for (text, code) in [
        ("dpas.8x8 (8|M0) r1:d r2:d r3:b r4.0:b", "Q6010"),
        ("dpas.8x8 (16|M4) r1:d r2:d r3:b r4.0:b", "Q6011"),
        ("dpas.8x8 (16|M0) r1:d r2:d r3:u4 r4.2:u4", "Q6012"),
        ("dpas.8x8 (16|M0) r1:d r2:d r3:b r4.0:b {S@1}", "Q6013"),
        ("dpas.1x8 (16|M0) r1:d r2:d r3:b r4.0:b", "Q6014"),
        ("dpas.8x8 (16|M0) r1:d null.1:d r3:b r4.0:b", "Q6015"),
        (".row 00", "Q6020"),
        (".raw 0", "Q6021"),
        (".raw 0011223344556677889900112233445566", "Q6021"),
        ("(f0.0) dpas.8x8 (16|M0) r1:d r2:d r3:b r4.0:b", "Q6025"),
        ("adx (16|M0) r1:d r2:d r3:d", "Q2102"),
        ("add (16|M0) r1:d r2:d r3:d", "Q2101"),
        ("(W) jmpi L1", "Q6029"),
        ("L0:\nL0:\n", "Q6028"),
        ("load.ugm.d32x7t.a64 (1|M0) r1:1 [r2:1]", "Q6019"),
        ("(f0.0) mov (8|M0) (lt)f0.1 r1.0<1>:d r2.0<1;1,0>:d", "Q6018"),
        ("sync.nop null {S@1}", "Q6013"),
    ] {
        assert_eq!(native(text), code, "{text}");
    }
    let short = text::native::read("sync.nop null {$16.dst}", XeHpg, SourceId(0)).unwrap_err();
    assert_eq!(short[0].code(), "Q6013");
    let text = "L0:\ndpas.8x8 (16|M0) r8:d null:d r32:b r48.0:b\nL1:\n";
    assert_eq!(listing(text, XeHpc).items.len(), 1);
    let visa = |text: &str| text::visa::read(text, SourceId(0)).unwrap_err()[0].code();
    for (text, code) in [
        (".foo 1", "Q6020"),
        ("dpas.s8.s8.8.8 (16) x.0 V33.0 V34.0 V35(0,0)", "Q6022"),
        (".decl a v_type=G type=d num_elts=1\n.decl a v_type=G type=d num_elts=1", "Q6023"),
        (".decl a v_type=G type=zz num_elts=1", "Q6024"),
        (
            ".decl p v_type=P num_elts=16\n(p) dpas.s8.s8.8.8 (16) V32.0 V33.0 V34.0 V35(0,0)",
            "Q6025",
        ),
        ("(p) dpas.s8.s8.8.8 (16) V32.0 V33.0 V34.0 V35(0,0)", "Q6026"),
        ("ret (M1, 1)\n.version 3.8", "Q6027"),
        ("dpas.uf.s8.8.8 (16) V32.0 V33.0 V34.0 V35(0,0)", "Q2101"),
        ("dpas.s8.s8.8.9 (16) V32.0 V33.0 V34.0 V35(0,0)", "Q2103"),
    ] {
        assert_eq!(visa(text), code, "{text}");
    }
}

#[test]
fn rules_of_dependencies() {
    let arch = arch(XeHpc);
    let check = |text: &str| codes(&swsb::check(&listing(text, XeHpc), &arch, RowStride::Full));
    let first = "dpas.8x8 (16|M0) r16:d null:d r32:b r48.0:b {$0}\n";
    let atomic = "dpas.8x8 (16|M0) r16:d null:d r32:b r48.0:b {Atomic}\n";
    let copy = "mov (16|M0) r16.0<1>:f r5.0<1;1,0>:f";
    for (text, expected) in [
        (format!("{first}{copy} {{$0.dst}}"), vec![]),
        (format!("{first}{copy}"), vec!["Q6080"]),
        (format!("{first}{copy} {{$0.src}}"), vec!["Q6080"]),
        (format!("{first}{copy} {{$1.dst}}"), vec!["Q6080"]),
        (format!("{first}mov (16|M0) r32.0<1>:f r5.0<1;1,0>:f"), vec!["Q6081"]),
        (format!("{first}mov (16|M0) r32.0<1>:f r5.0<1;1,0>:f {{$0.src}}"), vec![]),
        (format!("{first}(W) sync.allwr null\n{copy}"), vec![]),
        (format!("{first}(W) sync.allrd null\n{copy}"), vec!["Q6080"]),
        (format!("{atomic}dpas.8x8 (16|M0) r64:d r16:d r32:b r48.0:b {{$0}}"), vec!["Q6082"]),
        (format!("{atomic}dpas.8x8 (16|M0) r64:d null:d r32:b r48.0:ub {{$0}}"), vec!["Q6082"]),
        (format!("{atomic}dpas.8x8 (16|M0) r64:d null:d r32:b r48.0:b {{$0}}"), vec![]),
        (format!("{atomic}{copy}"), vec!["Q6083", "Q6080"]),
        (atomic.to_owned(), vec!["Q6083"]),
        (
            "dpas.8x8 (16|M0) r16:d null:d r32:b r48.0:b {Atomic,$0.dst}\n\
             dpas.8x8 (16|M0) r64:d null:d r32:b r48.0:b {$0}"
                .to_owned(),
            vec![],
        ),
        (
            format!(
                "{atomic}dpas.8x8 (16|M0) r64:d null:d r32:b r48.0:b {{Atomic,$0.dst}}\n\
                 dpas.8x8 (16|M0) r80:d null:d r32:b r48.0:b {{$0}}"
            ),
            vec!["Q6084"],
        ),
        ("dpas.8x8 (16|M0) r16:d null:d r32:b r48.0:b".to_owned(), vec!["Q6085"]),
        (format!("{copy} {{$0}}"), vec!["Q6086"]),
        (".raw 0102".to_owned(), vec!["Q6087"]),
        ("(W) sync.nop null {@1}".to_owned(), vec!["Q6088"]),
        (format!("{copy}\nmov (16|M0) r6.0<1>:f r16.0<1;1,0>:f"), vec!["Q6080"]),
        (format!("{copy}\nmov (16|M0) r6.0<1>:f r16.0<1;1,0>:f {{F@1}}"), vec![]),
        (format!("{copy}\nmov (16|M0) r6.0<1>:f r16.0<1;1,0>:f {{I@1}}"), vec!["Q6080"]),
        (format!("{copy}\nmov (16|M0) r6.0<1>:f r16.0<1;1,0>:f {{F@2}}"), vec!["Q6080"]),
    ] {
        assert_eq!(check(&text), expected, "{text}");
    }
    let many = format!("{copy}\n").repeat(2100);
    assert_eq!(check(&many), ["Q6090"]);
    let long = atomic.repeat(70) + first;
    assert!(check(&long).contains(&"Q6082"));
    let raw = listing(".raw 0102", XeHpc);
    assert_eq!(swsb::assign(&raw, &arch, RowStride::Full).unwrap_err().code(), "Q6089");
}

/// The legality of types, written down a second time as a list of what is legal.
fn legal(platform: Platform, dst: &str, src0: &str, w: &str, a: &str) -> bool {
    let integers = ["u2", "s2", "u4", "s4", "u8", "s8"];
    let one_of = |list: &[&str], names: [&str; 2]| names.iter().all(|name| list.contains(name));
    if one_of(&integers, [w, a]) {
        return one_of(&["d", "ud"], [dst, src0]);
    }
    let late = platform != XeHpg;
    match (w, a) {
        ("bf", "bf") if late => one_of(&["f", "bf", "w", "uw"], [dst, src0]),
        ("hf", "hf") if late => one_of(&["f", "hf"], [dst, src0]),
        ("bf", "bf") | ("hf", "hf") => one_of(&["f"], [dst, src0]),
        ("tf32", "tf32") => late && one_of(&["f"], [dst, src0]),
        _ => false,
    }
}

/// 1,000 random changes of a legal kernel: accepted only where the list of legal forms has it.
#[test]
fn corrupted_kernels_are_rejected() {
    let mut random = Random::new(21);
    let (mut accepted, mut rejected) = (0, 0);
    for _ in 0..2000 {
        let platform = random.pick(&[XeHpg, XeHpc, Xe2, Xe3]);
        let types = ["d", "ud", "f", "hf", "bf", "w", "uw", "df", "q", "b"];
        let precisions = ["u1", "s2", "u4", "s8", "bf", "hf", "tf32", "bf8", "hf8", "e2m1", "df"];
        let half = random.below(2) == 0;
        let w = random.pick(&precisions);
        let a = if half { w } else { random.pick(&precisions) };
        let (mut dst, mut src0) = (random.pick(&types), random.pick(&types));
        if half && legal(platform, "f", "f", w, a) {
            (dst, src0) = (random.pick(&["f", "hf", "bf"]), random.pick(&["f", "d", "bf"]));
        } else if half && legal(platform, "d", "d", w, a) {
            (dst, src0) = (random.pick(&["d", "ud"]), random.pick(&["d", "ud", "f"]));
        }
        let lanes = platform.lanes();
        let wrong_lanes = random.below(10) == 0;
        let exec = if wrong_lanes { 24 - lanes } else { lanes };
        let offset = random.pick(&[0u32, 0, 0, 4, 16, 32, 64]);
        let fused = random.below(12) == 0;
        let name = if fused { "dpasw" } else { "dpas" };
        let line = format!("{name}.{w}.{a}.8.2 (M1, {exec}) V32.{offset} V33.0 V34.0 V35(0,0)");
        let found = visa(platform, [dst, src0, "d", "d"], &line, &Allow::default());
        let narrow = ["hf", "bf", "w", "uw"].contains(&dst);
        let unit = lanes * if narrow { 2 } else { 4 };
        let shared = ["s8", "bf", "hf", "u4"].contains(&w) || w == "s2" && a == "s8";
        let expected = legal(platform, dst, src0, w, a)
            && !wrong_lanes
            && offset.is_multiple_of(unit)
            && (!fused || (platform == XeHpg && (shared || a != w)));
        // Two rows of 2-bit A with 2-bit B are 32 bytes, which cannot be shared; other pairs of
        // the list are checked by the rule of dpasw itself.
        if fused && platform == XeHpg {
            continue;
        }
        assert_eq!(found.is_empty(), expected, "{platform:?} {dst} {src0} {line}: {found:?}");
        if expected { accepted += 1 } else { rejected += 1 }
    }
    assert!(accepted > 50 && rejected > 1000, "{accepted} accepted, {rejected} rejected");
}
