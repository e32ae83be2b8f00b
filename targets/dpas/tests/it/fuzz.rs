//! No text and no bytes make a reader panic, and what is accepted can be checked, timed, printed and
//! read again.

use proptest::prelude::*;
use quincunx_contract::{ArchSource, Engine, File, Target};
use quincunx_dpas::arch::DpasArch;
use quincunx_dpas::{TARGET, text};
use quincunx_tensor::Tensor;
use quincunx_testkit as testkit;

/// Reads a file and does everything that can be done with it; what is written is read again.
fn exercise(file: &File, preset: &str, given: &[(&str, &str)]) {
    let arch = TARGET.arch(&ArchSource::Preset(preset.to_owned())).unwrap();
    let exercise = |file: &File| {
        testkit::exercise(&TARGET, &*arch, given, std::slice::from_ref(file), &|_| true)
    };
    if let Some(program) = exercise(file) {
        let printed = program.emit("asm", "x").unwrap().remove(0);
        let again = exercise(&printed).map(|again| again.emit("asm", "x").unwrap().remove(0).bytes);
        assert_eq!(again.as_ref(), Some(&printed.bytes));
        if let Ok(mut machine) = program.load(Engine::Exec) {
            let ports = program.interface().inputs.iter();
            let ones = ports.map(|port| {
                let count = port.shape.iter().product();
                (port.name.clone(), Tensor::from_vec(&port.shape, vec![1.0; count]).unwrap())
            });
            let (ones, found) = (ones.collect(), program.verify());
            let expected =
                machine.run(&ones).unwrap_or_else(|problem| panic!("{problem}: {found:?}"));
            let fast = program.load(Engine::Fast).and_then(|mut fast| fast.run(&ones)).unwrap();
            // Bytes are compared: NaN is equal to itself.
            assert_eq!(fast, expected);
        }
    }
}

const PRESETS: [&str; 4] = ["xehpg", "xehpc", "xe2", "xe3"];

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("dpas.8x8 (16|M0) r16:d null:d r32:b r48.0:b {$0}".to_owned()),
        Just("dpas.8x8 (8|M0) r16:f r16:f r32:bf r48.0:bf {Atomic}".to_owned()),
        Just("dpasw.8x8 (8|M0) r16:d null:d r32:b r48.0:b".to_owned()),
        Just("mov (16|M0) r4.0<1>:f r16.0<1;1,0>:f {F@1}".to_owned()),
        Just("(W) sync.nop null {$0.dst}".to_owned()),
        Just(".raw 0011".to_owned()),
        Just(".version 3.8".to_owned()),
        Just(".kernel \"k\"".to_owned()),
        Just(".decl A v_type=G type=d num_elts=128 align=GRF".to_owned()),
        Just(".decl B v_type=G type=f num_elts=128 align=GRF alias=<A, 64>".to_owned()),
        Just("dpas.s8.s8.8.8 (M1, 16) A.0 %null.0 A.0 A(0,0)".to_owned()),
        Just("DPAS.bf.bf.8.8 (16) B.0 B.0 V34.0 V35(0,0)".to_owned()),
        Just("ret (M1, 1)".to_owned()),
        r"\PC{0,30}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), preset in 0usize..4) {
        exercise(&File::new("x", bytes), PRESETS[preset], &[("swsb", "ignore")]);
    }

    #[test]
    fn bytes_with_systolic_opcodes(
        words in prop::collection::vec((prop::sample::select(vec![0x59u8, 0x5a, 0x83, 0x1c, 0x61]), any::<[u8; 15]>(), any::<u32>()), 0..8),
        preset in 0usize..4,
    ) {
        let mut bytes = Vec::new();
        for (opcode, rest, clear) in words {
            bytes.push(opcode);
            // Zeroed bytes are likelier to mean something.
            bytes.extend(rest.iter().enumerate().map(|(at, b)| if clear >> at & 1 == 1 { 0 } else { *b }));
        }
        exercise(&File::new("x.xebin", bytes.clone()), PRESETS[preset], &[]);
        exercise(&File::new("x.visab", bytes), PRESETS[preset], &[]);
    }

    #[test]
    fn shells(bytes in prop::collection::vec(any::<u8>(), 0..200), small in prop::collection::vec(0u8..4, 0..200)) {
        for rest in [bytes, small] {
            let mut file = b"CISA\x03\x08\x01\x00".to_vec();
            file.extend(rest);
            exercise(&File::new("x", file), "xehpc", &[]);
        }
    }

    #[test]
    fn damaged_shells(at in 0usize..400, value: u8, cut in 0usize..400) {
        let source = ".decl A v_type=G type=d num_elts=128 align=GRF\n.decl P v_type=P num_elts=16\n\
                      dpas.s8.s8.8.8 (M1, 16) A.0 %null.0 A.0 A(0,0)\n";
        let (kernel, _) = text::visa::read(source, quincunx_diag::SourceId(0)).unwrap();
        let mut bytes = quincunx_dpas::files::cisa::write(&kernel, Default::default()).unwrap();
        if let Some(place) = bytes.get_mut(at) {
            *place = value;
        }
        bytes.truncate(bytes.len().saturating_sub(cut.saturating_sub(200)));
        exercise(&File::new("x", bytes), "xehpc", &[]);
    }

    #[test]
    fn texts(lines in prop::collection::vec(line(), 0..12), preset in 0usize..4, name in 0usize..3, auto: bool) {
        let name = ["x", "x.xeasm", "x.visaasm"][name];
        let swsb = if auto { "auto" } else { "check" };
        let settings = [("swsb", swsb), ("df", "true"), ("one-bit", "true"), ("layout", "0")];
        exercise(&File::new(name, lines.join("\n")), PRESETS[preset], &settings);
    }

    #[test]
    fn architectures(text in r"(name|platform|grfs|depth|clock_ghz| = |xe2|4|256|\n|\PC){0,60}") {
        let _ = DpasArch::from_source(&ArchSource::Text { name: "x".into(), text });
    }
}
