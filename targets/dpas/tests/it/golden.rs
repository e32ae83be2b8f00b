//! Golden data of the peers: machine code, byte code and numbers. `quincunx-conform dpas` runs the
//! same files and the others.

use crate::common::{golden, numeric, product, same};
use quincunx_diag::SourceId;
use quincunx_dpas::arch::Platform;
use quincunx_dpas::binary;
use quincunx_dpas::binary::visa::Form;
use quincunx_dpas::isa::{self, native, visa};
use quincunx_dpas::program::Statement;
use quincunx_dpas::text::{self, from_hex, to_hex};
use quincunx_isa::Coverage;

#[test]
fn tables_are_sound() {
    for table in isa::TABLES {
        assert_eq!(table.check(), Vec::<String>::new());
    }
    for platform in Platform::WHOLE {
        assert_eq!(isa::native_layout(platform).bytes(), 16);
    }
    let lengths = [(false, false), (true, false), (false, true), (true, true)];
    let lengths = lengths.map(|(short, predicate)| isa::visa_layout(short, predicate).bytes());
    assert_eq!(lengths, [33, 25, 35, 27]);
    for platform in Platform::WHOLE {
        assert_eq!(isa::vector_layout(platform).bytes(), 16);
    }
}

#[test]
fn machine_code_of_every_platform() {
    let mut coverage = Coverage::new(&native::TABLE);
    for platform in Platform::WHOLE {
        let file = golden(&format!("native_{}", platform.name()));
        let cases = file["cases"].as_array().unwrap();
        assert!(cases.len() > 300);
        for case in cases {
            let text = |key: &str| case[key].as_str().unwrap();
            for source in [text("asm"), text("disasm")] {
                let listing = crate::common::listing(source, platform);
                let bytes = binary::native::write(&listing, platform).unwrap();
                assert_eq!(to_hex(&bytes), text("hex"), "{source}");
            }
            let (listing, warnings) =
                binary::native::read(&from_hex(text("hex")).unwrap(), platform);
            assert!(warnings.is_empty());
            assert_eq!(text::native::print(&listing).trim(), text("disasm").trim());
            let Statement::Systolic(inst) = &listing.items[0].statement else { panic!() };
            coverage.mark(inst.row());
        }
    }
    // No golden case is a dpasw on floats, or of xe3p.
    let missing = coverage.missing();
    assert!(missing.iter().all(|row| ["WideFloat", "Scaled"].contains(row)), "{missing:?}");
}

#[test]
fn byte_code_in_both_forms() {
    let mut coverage = Coverage::new(&visa::TABLE);
    for case in golden("visa_binary")["cases"].as_array().unwrap() {
        let source = case["text"].as_str().unwrap();
        let (kernel, _) = text::visa::read(source, SourceId(0)).unwrap();
        for (key, form) in [("hex_doc", Form::Documented), ("hex_2026", Form::Predicated)] {
            let bytes = binary::visa::write(&kernel.instructions, false, form).unwrap();
            assert_eq!(to_hex(&bytes), case[key].as_str().unwrap());
            let read = binary::visa::read(&bytes, false, None).unwrap();
            assert_eq!(read, (kernel.instructions.clone(), form));
        }
        coverage.mark(kernel.instructions[0].inst.row());
    }
    assert_eq!(coverage.missing(), Vec::<&str>::new());
}

#[test]
fn numbers_in_every_model() {
    let cases = numeric();
    assert!(cases.len() > 150);
    for case in cases {
        assert!(!case.expected.is_empty());
        for (rules, expected) in &case.expected {
            let src0 = case.src0.as_deref();
            let found = product(case.shape, src0, &case.src1, &case.src2, *rules, &|_| {});
            assert!(same(&found, expected, case.shape.dst), "case {} {rules:?}", case.id);
        }
    }
}
