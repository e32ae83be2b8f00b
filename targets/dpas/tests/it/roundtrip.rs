//! Text, machine code and byte code, there and back.

use crate::common::{Random, systolic};
use quincunx_diag::SourceId;
use quincunx_dpas::arch::Platform;
use quincunx_dpas::binary;
use quincunx_dpas::binary::visa::Form;
use quincunx_dpas::files::cisa;
use quincunx_dpas::isa::{native, native_layout, vector, vector_layout, visa, visa_layout};
use quincunx_dpas::program::{Align, Element, Kernel, Listing, Statement, Variable, VirtualItem};
use quincunx_dpas::text;
use quincunx_isa::Coverage;

#[test]
fn native_instructions() {
    let mut random = Random::new(1);
    let mut coverage = Coverage::new(&native::TABLE);
    for platform in Platform::ALL {
        for _ in 0..2000 {
            let raw = systolic(&mut random, platform);
            let inst = native::Inst::from_raw(&raw).unwrap();
            assert_eq!(inst.to_raw(), raw);
            coverage.mark(inst.row());
            // Every instruction has terms.
            let _ = inst.native();
            let listing = Listing { items: vec![Statement::Systolic(inst).into()] };
            let printed = text::native::print(&listing);
            assert_eq!(text::native::read(&printed, platform, SourceId(0)).unwrap(), listing);
            let bytes = binary::native::write(&listing, platform).unwrap();
            assert_eq!(bytes.len(), 16);
            let (read, warnings) = binary::native::read(&bytes, platform);
            assert_eq!((read, warnings), (listing, Vec::new()));
        }
    }
    assert_eq!(coverage.missing(), Vec::<&str>::new());
}

#[test]
fn vector_instructions() {
    let mut random = Random::new(2);
    for platform in Platform::WHOLE {
        let mut coverage = Coverage::new(&vector::TABLE);
        let layout = vector_layout(platform);
        for _ in 0..6000 {
            let raw = vector::TABLE.random(&mut |n| random.below(n), layout);
            let inst = vector::Inst::from_raw(&raw).unwrap();
            let listing = Listing { items: vec![Statement::Vector(inst).into()] };
            let Ok(bytes) = binary::native::write(&listing, platform) else {
                assert_eq!((inst.facts().op, platform), (vector::Op::Macl, Platform::XeHpg));
                continue;
            };
            coverage.mark(inst.row());
            // Every instruction has terms.
            let _ = inst.terms();
            let (read, warnings) = binary::native::read(&bytes, platform);
            assert_eq!((read.items.len(), warnings), (1, Vec::new()), "{raw:?}");
            let again = binary::native::write(&read, platform).unwrap();
            assert_eq!(again, bytes, "{}", text::native::print(&listing));
            let printed = text::native::print(&read);
            assert_eq!(
                text::native::read(&printed, platform, SourceId(0)).unwrap(),
                read,
                "{printed}"
            );
        }
        let missing = coverage.missing();
        assert!(missing.iter().all(|row| row.starts_with("Macl")), "{missing:?}");
    }
}

/// Machine code with arbitrary bits is read and written as it is, as instructions or as bytes.
#[test]
fn arbitrary_words_pass_through() {
    let mut random = Random::new(6);
    let mut known = 0;
    for round in 0..40_000 {
        let platform = random.pick(&Platform::WHOLE);
        let mut word = random.bytes(16);
        // Half of the words are legal but for some bits, and not compacted.
        if round % 2 == 0 {
            let layout = vector_layout(platform);
            let raw = vector::TABLE.random(&mut |n| random.below(n), layout);
            let legal = vector::TABLE.encode(&raw, layout).unwrap().to_le_bytes();
            word.copy_from_slice(&legal[..16]);
            for _ in 0..1 + random.below(3) {
                word[1 + random.below(15) as usize] ^= 1 << random.below(8);
            }
            word[3] &= !0x20;
        }
        let (listing, _) = binary::native::read(&word, platform);
        known += usize::from(matches!(listing.items[0].statement, Statement::Vector(_)));
        assert_eq!(binary::native::write(&listing, platform).unwrap(), word);
        let printed = text::native::print(&listing);
        let again = text::native::read(&printed, platform, SourceId(0)).unwrap();
        assert_eq!(binary::native::write(&again, platform).unwrap(), word, "{printed}");
    }
    assert!(known > 200, "{known}");
}

/// Bytes in the place of an instruction without machine code stay where they are.
#[test]
fn raw_bytes_pass_through() {
    let product = "dpas.8x8 (16|M0) r16:d r16:d r32:b r48.0:b {$0}";
    let raw = "7f000400600600040405000000000000";
    let source = format!("{product}\n.raw {raw}\n{product}\n.raw 6100002001020304\n");
    let listing = text::native::read(&source, Platform::XeHpc, SourceId(0)).unwrap();
    let code = binary::native::write(&listing, Platform::XeHpc).unwrap();
    assert_eq!(code.len(), 16 + 16 + 16 + 8);
    assert_eq!(text::to_hex(&code[16..32]), raw);
    let (again, warnings) = binary::native::read(&code, Platform::XeHpc);
    assert_eq!((text::native::print(&again), warnings.len()), (source, 0));
}

/// What follows an unknown opcode of byte code cannot be found; the message says so, and where.
#[test]
fn unknown_byte_code_ends_a_stream() {
    let text = "dpas.s8.s8.8.8 (M1, 16) V32.0 %null.0 V33.0 V34(0,0)\nret (M1, 1)\n";
    let (kernel, _) = text::visa::read(text, SourceId(0)).unwrap();
    let form = binary::visa::Form::Documented;
    let code = binary::visa::write(&kernel.instructions, false, form).unwrap();
    let mut longer = code.clone();
    longer.extend([0x01, 4, 0, 0]);
    longer.extend(&code);
    let problem = binary::visa::read(&longer, false, Some(form)).unwrap_err();
    assert_eq!((problem.code(), code.len()), ("Q6034", 33));
    assert!(matches!(problem.place(), Some(quincunx_diag::Place::File { offset: Some(33), .. })));
    assert!(problem.help_text().is_some_and(|help| help.contains("how long an instruction is")));
}

/// Any bytes are a dump that reassembles to the same bytes.
#[test]
fn dumps_keep_every_byte() {
    let mut random = Random::new(3);
    let (mut raw, mut known) = (0, 0);
    for _ in 0..2000 {
        let platform = random.pick(&Platform::WHOLE);
        let mut bytes = Vec::new();
        for _ in 0..random.below(6) {
            let length = random.pick(&[16, 16, 8, 3]);
            let mut own = random.bytes(length);
            if random.below(2) == 0 {
                let layout = native_layout(platform);
                let inst = systolic(&mut random, platform);
                own = native::TABLE.encode(&inst, layout).unwrap().to_le_bytes()[..16].to_vec();
                if random.below(2) == 0 {
                    let at = random.below(16) as usize;
                    own[at] ^= 1 << random.below(8);
                }
            }
            bytes.extend(own);
        }
        let (listing, _) = binary::native::read(&bytes, platform);
        for item in &listing.items {
            match &item.statement {
                Statement::Raw(_) => raw += 1,
                _ => known += 1,
            }
        }
        assert_eq!(binary::native::write(&listing, platform).unwrap(), bytes);
        let printed = text::native::print(&listing);
        let again = text::native::read(&printed, platform, SourceId(0)).unwrap();
        assert_eq!(binary::native::write(&again, platform).unwrap(), bytes);
    }
    assert!(raw > 500 && known > 500, "{raw} {known}");
}

/// Compacted instructions are 8 bytes long.
#[test]
fn compacted_instructions_keep_their_length() {
    let mut bytes = vec![0x61, 0, 0, 0x20, 1, 2, 3, 4];
    bytes.extend([0x69; 16]);
    let (listing, _) = binary::native::read(&bytes, Platform::Xe2);
    let printed = text::native::print(&listing);
    assert_eq!(printed.lines().next(), Some(".raw 6100002001020304"));
}

fn random_kernel(random: &mut Random) -> Kernel {
    let mut kernel = Kernel::new();
    kernel.version = random.pick(&[(3, 8), (4, 1), (3, 3)]);
    for index in 0..random.below(6) as u32 {
        let alias = (index > 0 && random.below(3) == 0)
            .then(|| (32 + random.below(u64::from(index)) as u32, random.below(200) as u32));
        kernel.variables.push(Variable {
            name: random.pick(&["A", "acc", "v", "x_"]).to_owned() + &index.to_string(),
            element: random.pick(Element::ALL),
            elements: random.below(60_000) as u32,
            align: random.pick(Align::ALL),
            alias,
        });
    }
    if random.below(3) == 0 {
        kernel.predicates.push(("P1".to_owned(), 16));
    }
    for _ in 0..random.below(5) {
        let raw = visa::TABLE.random(&mut |n| random.below(n), visa_layout(false, false));
        kernel
            .instructions
            .push(VirtualItem { inst: visa::Inst::from_raw(&raw).unwrap(), span: None });
    }
    kernel
}

#[test]
fn kernels() {
    let mut random = Random::new(4);
    for _ in 0..2000 {
        let kernel = random_kernel(&mut random);
        let printed = text::visa::print(&kernel);
        let (read, warnings) = text::visa::read(&printed, SourceId(0))
            .unwrap_or_else(|found| panic!("{found:?}\n{printed}"));
        assert!(warnings.is_empty());
        assert_eq!(read, kernel, "{printed}");
        for form in [Form::Documented, Form::Predicated] {
            let bytes = cisa::write(&kernel, form).unwrap();
            assert_eq!(cisa::read(&bytes, Some(form)).unwrap(), kernel);
            let short = kernel.version < (3, 4);
            let stream = binary::visa::write(&kernel.instructions, short, form).unwrap();
            let (items, found) = binary::visa::read(&stream, short, None).unwrap();
            assert_eq!(items, kernel.instructions);
            assert!(found == form || items.is_empty());
        }
    }
}

#[test]
fn both_spellings_are_read() {
    let lower = "dpas.s4.u8.8.8 (M1, 16) V32.0 %null.0 V34.0 V35(0,0)\n";
    let read = |text: &str| text::visa::read(text, SourceId(0)).unwrap().0;
    for other in [
        "DPAS.S4.U8.8.8 (M1, 16) V32.0 %null.0 V34.0 V35(0,0)\n",
        "dpas.S4.U8.8.8 (16) V32.0 %null.0 V34.0 V35(0,0)\n",
        "  Dpas.s4.u8.8.8 (M1,16)  V32.0  %null.0  V34.0  V35(0,0) // a comment\n",
    ] {
        assert_eq!(read(other), read(lower));
    }
}
