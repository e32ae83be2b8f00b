//! Where operands come from: the elements of buffers behind those of a product.

use crate::common::networks::{Net, compiled};
use crate::common::{folder, target_of};
use crate::compiled::machines;
use quincunx_contract::{Engine, File, LayerTap, Log, Machine, Program, Target};
use quincunx_diag::Severity;
use quincunx_dpas::arch::Platform;
use quincunx_dpas::binary::native;
use quincunx_dpas::program::device::Role;
use quincunx_dpas::text;
use quincunx_dpas::{DeviceArtifact, TARGET};
use quincunx_report::{Format, Report};
use quincunx_tensor::Tensors;
use quincunx_tensor::npy::read_npy;
use quincunx_testkit::options;
use std::collections::BTreeMap;

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(folder().join("files").join(name)).unwrap()
}

/// The product of `gemm.toml`, whose kernel is this text.
fn program(listing: &str, origin: &str) -> Box<dyn Program> {
    let listing = text::native::read(listing, Platform::XeHpc, quincunx_diag::SourceId(0)).unwrap();
    let code = native::write(&listing, Platform::XeHpc).unwrap();
    let files = [
        File::new("gemm.toml", golden("gemm.toml")),
        File::new("gemm.xebin", code),
        File::new("gemm_b.npy", golden("gemm_b.npy")),
    ];
    let (arch, _) = target_of("x", Vec::new(), "xehpc");
    let given = options(&TARGET, &[("swsb", "ignore"), ("origin", origin)]);
    TARGET.read(&files, None, &*arch, &given, &mut Log::default()).unwrap()
}

fn listing() -> String {
    let (listing, _) = native::read(&golden("gemm.xebin"), Platform::XeHpc);
    text::native::print(&listing)
}

/// For every element of an operand, the buffer and the indices behind it, or why there is none.
fn origins(machine: &mut dyn Machine) -> BTreeMap<String, (String, String)> {
    let a = read_npy(golden("gemm_a.npy")).unwrap();
    machine.run(&Tensors::from_iter([("a".to_owned(), a)])).unwrap();
    let notes = machine.notes();
    assert_eq!((notes.len(), notes[0].code()), (1, "Q6126"));
    assert_eq!(notes[0].severity(), Severity::Note);
    let tables = machine.tables();
    assert_eq!(tables.len(), 1);
    let shown = Report::from(tables[0].clone()).render(Format::Json);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let rows = shown["origin"].as_array().unwrap().clone();
    let text = |cell: &serde_json::Value| cell.as_str().unwrap_or("").to_owned();
    let row = |row: serde_json::Value| {
        (text(&row["element"]), (text(&row["buffer"]), text(&row["value"])))
    };
    rows.into_iter().map(row).collect()
}

#[test]
fn operands_are_followed_to_buffers() {
    // The second product: rows 8 to 15 of A, columns 0 to 15 of B.
    let program = program(&listing(), "1");
    for engine in [Engine::Exec, Engine::Fast] {
        let found = origins(&mut *program.load(engine).unwrap());
        assert_eq!(found.len(), 8 * 16 + 8 * 32 + 32 * 16);
        let of = |buffer: &str, y: usize, x: usize| (buffer.to_owned(), format!("[{y},{x}]"));
        for (row, k) in (0..8).flat_map(|row| (0..32).map(move |k| (row, k))) {
            assert_eq!(found[&format!("A[{row},{k}]")], of("a", 8 + row, k));
        }
        for (k, n) in (0..32).flat_map(|k| (0..16).map(move |n| (k, n))) {
            assert_eq!(found[&format!("B[{k},{n}]")], of("b", k, n));
        }
        assert_eq!(found["C[0,0]"].0, "computed");
    }
}

/// B without the transformation that interleaves its rows.
#[test]
fn wrong_packing_shows() {
    let plain = listing().replace("0x03080083", "0x03080003");
    assert_ne!(plain, listing());
    let found = origins(&mut *program(&plain, "1").load(Engine::Exec).unwrap());
    assert_eq!(found["B[0,0]"], ("b".to_owned(), "[0,0]".to_owned()));
    // Four columns of a row where four rows of a column should be.
    assert_eq!(found["B[1,0]"], ("b".to_owned(), "[0,1]".to_owned()));
    assert_eq!(found["B[0,1]"], ("b".to_owned(), "[0,4]".to_owned()));
}

/// Copies keep what they copy, everything else is computed; a conversion changes bytes.
#[test]
fn copies_are_followed() {
    let text = listing();
    let first = text.lines().position(|line| line.contains("dpas.")).unwrap();
    let with = |extra: &str| {
        let mut lines: Vec<&str> = text.lines().collect();
        // All waits are ignored here.
        lines.insert(first, extra);
        lines.join("\n")
    };
    let copied = with("(W) mov (16|M0) r10.0<1>:ud r20.0<1;1,0>:ud");
    let found = origins(&mut *program(&copied, "0").load(Engine::Exec).unwrap());
    assert_eq!(found["A[0,5]"], ("b".to_owned(), "[1,1]".to_owned()));
    let added = with("(W) add (16|M0) r10.0<1>:ud r20.0<1;1,0>:ud 0:ud");
    let found = origins(&mut *program(&added, "0").load(Engine::Exec).unwrap());
    assert_eq!(found["A[0,5]"].0, "computed");
    assert_eq!(found["A[2,0]"], ("a".to_owned(), "[2,0]".to_owned()));
}

#[test]
fn other_instructions_and_listings_are_refused() {
    let code = |problem: quincunx_diag::Diagnostic| problem.code();
    let loaded = program(&listing(), "4").load(Engine::Exec);
    assert_eq!(loaded.err().map(code), Some("Q6003"));
    let (arch, _) = target_of("x", Vec::new(), "xehpc");
    let file = File::new("x.xeasm", "dpas.8x8 (16|M0) r14:d null:d r102:b r67.0:b\n");
    let given = options(&TARGET, &[("swsb", "ignore"), ("origin", "0")]);
    let found = TARGET.read(&[file], None, &*arch, &given, &mut Log::default());
    assert_eq!(found.err().unwrap()[0].code(), "Q6003");
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text}"))
}

fn index(place: &str) -> usize {
    place.split(' ').nth(1).unwrap().parse().unwrap()
}

fn inputs() -> Tensors {
    Tensors::from_iter([("a".to_owned(), read_npy(golden("gemm_a.npy")).unwrap())])
}

/// Every element is stored by a message, from a register that a product wrote.
#[test]
fn elements_are_followed_to_their_stores() {
    let program = program(&listing(), "0");
    let values = program.load(Engine::Exec).unwrap().run_traced(&inputs()).unwrap();
    let (a, b) = (inputs()["a"].to_f64(), read_npy(golden("gemm_b.npy")).unwrap().to_f64());
    let [tap] = &program.interface().layers[..] else { panic!("one layer") };
    let found = values[&tap.value].to_f64();
    for element in (0..found.len()).step_by(41) {
        let origin = program.origin(&inputs(), tap, element).unwrap().unwrap();
        let (row, column) = (element / 64, element % 64);
        let sum: f64 = (0..64).map(|k| a[row * 64 + k] * b[k * 64 + column]).sum();
        assert_eq!(number(&origin.result.1), sum, "{origin:?}");
        assert_eq!(found[element], sum);
        let [(place, held)] = &origin.operands[..] else { panic!("{origin:?}") };
        assert_eq!(number(held), sum, "{origin:?}");
        assert!(place.contains("dpas."), "{origin:?}");
        assert!(origin.text.contains("send"), "{origin:?}");
        assert!(origin.place.contains(&format!("group {} 0 0", column / 32)), "{origin:?}");
    }
    assert_eq!(program.origin(&inputs(), tap, found.len()).unwrap_err().code(), "Q9999");
    let other = LayerTap { value: "other".to_owned(), ..tap.clone() };
    assert_eq!(program.origin(&inputs(), &other, 0).unwrap_err().code(), "Q9999");
    assert!(program.origin(&Tensors::new(), tap, 0).is_err());
}

/// The first element that wrong packing spoils is stored behind the load that packs.
#[test]
fn a_planted_fault_is_before_what_is_named() {
    let plain = listing().replace("0x03080083", "0x03080003");
    let planted = plain.lines().zip(listing().lines()).position(|(a, b)| a != b).unwrap();
    let [sound, faulty] = [listing(), plain].map(|text| program(&text, "0"));
    let run = |program: &dyn Program| {
        program.load(Engine::Exec).unwrap().run_traced(&inputs()).unwrap()["fc_out"].to_f64()
    };
    let (right, found) = (run(&*sound), run(&*faulty));
    let wrong = (0..right.len()).find(|&at| right[at] != found[at]).unwrap();
    let tap = &faulty.interface().layers[0];
    let origin = faulty.origin(&inputs(), tap, wrong).unwrap().unwrap();
    assert_eq!(number(&origin.result.1), found[wrong]);
    assert!(index(&origin.place) >= planted, "{planted} {origin:?}");
    let expected = sound.origin(&inputs(), tap, wrong).unwrap().unwrap();
    assert_eq!((&origin.place, &origin.text), (&expected.place, &expected.text));
    assert_ne!(origin.result.1, expected.result.1);
}

#[test]
fn elements_of_compiled_networks_have_stores() {
    let mut judged = 0;
    for case in 0..8 {
        for arch in machines() {
            let (mut net, _) = Net::grown(case, &arch, 4);
            let sample = net.sample();
            if net.graph.outputs().is_empty() {
                continue;
            }
            let program = compiled(&net.graph, &arch).program;
            let device = program.as_any().downcast_ref::<DeviceArtifact>().unwrap().device();
            let values = program.load(Engine::Exec).unwrap().run_traced(&sample).unwrap();
            for tap in &program.interface().layers {
                let (reals, buffer) =
                    (values[&tap.value].to_f64(), device.buffer(&tap.place).unwrap());
                for element in [0, reals.len() / 2, reals.len() - 1] {
                    let origin = program.origin(&sample, tap, element).unwrap();
                    let Some(origin) = origin else {
                        assert_eq!(buffer.role, Role::Input, "{tap:?}");
                        continue;
                    };
                    let code = number(&origin.result.1);
                    let (scale, zero) = buffer.grid.unwrap_or((1.0, 0));
                    // What leaves the program has a grid of its own.
                    if program.interface().outputs.iter().all(|port| port.name != tap.value) {
                        assert_eq!((code - zero as f64) * scale, reals[element], "{origin:?}");
                    }
                    let held: Vec<f64> =
                        origin.operands.iter().map(|(_, held)| number(held)).collect();
                    assert_eq!(held, [code], "{origin:?}");
                    judged += 1;
                }
            }
        }
    }
    assert!(judged > 60, "{judged}");
}

#[test]
fn listings_have_no_layers() {
    let (arch, _) = target_of("x", Vec::new(), "xehpc");
    let file = File::new("x.xeasm", "dpas.8x8 (16|M0) r14:d null:d r102:b r67.0:b\n");
    let given = options(&TARGET, &[("swsb", "ignore")]);
    let found = TARGET.read(&[file], None, &*arch, &given, &mut Log::default()).ok().unwrap();
    let (shape, place) = (vec![1], "r14".to_owned());
    let tap = LayerTap { value: "v".to_owned(), shape, after: 0, place };
    assert_eq!(found.origin(&Tensors::new(), &tap, 0).unwrap_err().code(), "Q0522");
}
