//! Where operands come from: the elements of buffers behind those of a product.

use crate::common::{folder, target_of};
use quincunx_contract::{Engine, File, Log, Machine, Program, Target};
use quincunx_diag::Severity;
use quincunx_dpas::TARGET;
use quincunx_dpas::arch::Platform;
use quincunx_dpas::binary::native;
use quincunx_dpas::text;
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
