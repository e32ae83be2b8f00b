//! What vector instructions compute, by hand; messages; launches; faults; random programs.

use crate::common::{Random, arch, listing};
use quincunx_dpas::arch::Platform;
use quincunx_dpas::binary;
use quincunx_dpas::isa::vector::{self};
use quincunx_dpas::isa::vector_layout;
use quincunx_dpas::program::{Listing, Statement};
use quincunx_dpas::shape::RowStride;
use quincunx_dpas::simulate::Rules;
use quincunx_dpas::simulate::launch::{Buffer, Kernel, Launch, Limits, Memory, run};
use quincunx_dpas::simulate::message::NoStorage;
use quincunx_dpas::simulate::thread::{Program, Stop, Thread};

const HPC: Platform = Platform::XeHpc;

/// Runs a text on registers that a function fills.
fn thread(text: &str, platform: Platform, fill: impl Fn(&mut Thread)) -> Thread {
    let arch = arch(platform);
    let program = Program::new(&listing(text, platform), &arch, RowStride::Full).unwrap();
    let mut thread = Thread::new(&arch, u32::MAX);
    fill(&mut thread);
    let mut steps = 10_000;
    let stop = thread.run(&program, &mut NoStorage, Rules::default(), &mut steps).unwrap();
    assert_eq!(stop, Stop::End, "{text}");
    thread
}

fn put(thread: &mut Thread, register: usize, words: &[u32]) {
    for (at, word) in words.iter().enumerate() {
        let start = 64 * register + 4 * at;
        thread.grf[start..start + 4].copy_from_slice(&word.to_le_bytes());
    }
}

fn get(thread: &Thread, register: usize, at: usize) -> u32 {
    let start = 64 * register + 4 * at;
    u32::from_le_bytes(thread.grf[start..start + 4].try_into().unwrap())
}

/// The first dword of r1 after an instruction on a = r2, b = r3, c = r4.
fn one(text: &str, [a, b, c]: [u32; 3]) -> u32 {
    let thread = thread(text, HPC, |thread| {
        put(thread, 1, &[0xdead_beef]);
        put(thread, 2, &[a]);
        put(thread, 3, &[b]);
        put(thread, 4, &[c]);
    });
    get(&thread, 1, 0)
}

#[test]
fn arithmetic_by_hand() {
    let f = f32::to_bits;
    let source = |ty: &str| format!("r2.0<0;1,0>:{ty} r3.0<0;1,0>:{ty}");
    let three = |ty: &str| format!("r2.0<0;0>:{ty} r3.0<0;0>:{ty} r4.0<0>:{ty}");
    let cases: Vec<(String, [u32; 3], u32)> = vec![
        (format!("add (1|M0) r1.0<1>:d {}", source("d")), [7, 0xffff_fffe, 0], 5),
        (format!("add (1|M0) r1.0<1>:ud {}", source("ud")), [u32::MAX, 2, 0], 1),
        (format!("add (1|M0) (sat)r1.0<1>:ud {}", source("ud")), [u32::MAX, 2, 0], u32::MAX),
        (format!("add (1|M0) (sat)r1.0<1>:d {}", source("d")), [i32::MAX as u32, 2, 0], i32::MAX as u32),
        ("add (1|M0) r1.0<1>:d -r2.0<0;1,0>:d (abs)r3.0<0;1,0>:d".into(), [3, (-9i32) as u32, 0], 6),
        (format!("add (1|M0) r1.0<1>:f {}", source("f")), [f(1.5), f(2.25), 0], f(3.75)),
        (format!("add (1|M0) (sat)r1.0<1>:f {}", source("f")), [f(1.5), f(2.25), 0], f(1.0)),
        (format!("mul (1|M0) r1.0<1>:d {}", source("d")), [0x1_0001, 0x1_0001, 0], 0x2_0001),
        (format!("mul (1|M0) r1.0<1>:f {}", source("f")), [f(3.0), f(-0.5), 0], f(-1.5)),
        (format!("mad (1|M0) r1.0<1>:d {}", three("d")), [10, 3, 4], 22),
        (format!("mad (1|M0) r1.0<1>:f {}", three("f")), [f(1.0), f(2.0), f(3.0)], f(7.0)),
        // One rounding: (1 + 2^-12)^2 - 1 - 2^-11 is 2^-24.
        (
            "mad (1|M0) r1.0<1>:f -r2.0<0;0>:f r3.0<0;0>:f r4.0<0>:f".into(),
            [f(1.0 + 2f32.powi(-11)), f(1.0 + 2f32.powi(-12)), f(1.0 + 2f32.powi(-12))],
            f(2f32.powi(-24)),
        ),
        (format!("add3 (1|M0) r1.0<1>:d {}", three("d")), [1, 2, 4], 7),
        (format!("dp4a (1|M0) r1.0<1>:d {}", three("d")), [1, 0xff01_0203, 0x0102_0304], 20),
        (
            "dp4a (1|M0) r1.0<1>:d r2.0<0;0>:d r3.0<0;0>:ud r4.0<0>:d".into(),
            [0, 0xff, 0xff],
            (-255i32) as u32,
        ),
        (format!("bfn.0xE8 (1|M0) r1.0<1>:ud {}", three("ud")), [0b1100, 0b1010, 0b0110], 0b1110),
        (format!("and (1|M0) r1.0<1>:ud {}", source("ud")), [12, 10, 0], 8),
        ("and (1|M0) r1.0<1>:ud ~r2.0<0;1,0>:ud r3.0<0;1,0>:ud".into(), [12, 10, 0], 2),
        (format!("or (1|M0) r1.0<1>:ud {}", source("ud")), [12, 10, 0], 14),
        (format!("xor (1|M0) r1.0<1>:ud {}", source("ud")), [12, 10, 0], 6),
        ("not (1|M0) r1.0<1>:ud r2.0<0;1,0>:ud".into(), [12, 0, 0], !12),
        (format!("shl (1|M0) r1.0<1>:d {}", source("d")), [3, 33, 0], 6),
        (format!("shr (1|M0) r1.0<1>:ud {}", source("ud")), [0x8000_0000, 4, 0], 0x0800_0000),
        (format!("asr (1|M0) r1.0<1>:d {}", source("d")), [0x8000_0000, 4, 0], 0xf800_0000),
        ("mov (1|M0) r1.0<1>:d r2.0<0;1,0>:f".into(), [f(-2.75), 0, 0], (-2i32) as u32),
        ("mov (1|M0) r1.0<1>:f r2.0<0;1,0>:d".into(), [16_777_217, 0, 0], f(16_777_216.0)),
        ("mov (1|M0) r1.0<1>:f r2.1<0;1,0>:w".into(), [0xfffe_0000, 0, 0], f(-2.0)),
        ("mov (1|M0) r1.0<1>:bf r2.0<0;1,0>:f".into(), [0x3f80_8000, 0, 0], 0xdead_3f80),
        ("mov (1|M0) r1.0<1>:bf r2.0<0;1,0>:f".into(), [0x3f81_8000, 0, 0], 0xdead_3f82),
        ("mov (1|M0) r1.0<1>:hf r2.0<0;1,0>:f".into(), [f(1.0), 0, 0], 0xdead_3c00),
        ("mov (1|M0) r1.0<1>:f r2.0<0;1,0>:hf".into(), [0x3e00, 0, 0], f(1.5)),
        ("mov (1|M0) (sat)r1.0<1>:b r2.0<0;1,0>:d".into(), [300, 0, 0], 0xdead_be7f),
        ("rndd (1|M0) r1.0<1>:f r2.0<0;1,0>:f".into(), [f(-1.5), 0, 0], f(-2.0)),
        ("rndu (1|M0) r1.0<1>:f r2.0<0;1,0>:f".into(), [f(-1.5), 0, 0], f(-1.0)),
        ("rnde (1|M0) r1.0<1>:f r2.0<0;1,0>:f".into(), [f(2.5), 0, 0], f(2.0)),
        ("rndz (1|M0) r1.0<1>:f r2.0<0;1,0>:f".into(), [f(-1.5), 0, 0], f(-1.0)),
        ("frc (1|M0) r1.0<1>:f r2.0<0;1,0>:f".into(), [f(-1.25), 0, 0], f(0.75)),
        ("math.sqt (1|M0) r1.0<1>:f r2.0<0;1,0>:f".into(), [f(9.0), 0, 0], f(3.0)),
        (format!("sel (1|M0) (lt)f0.0 r1.0<1>:d {}", source("d")), [5, (-3i32) as u32, 0], (-3i32) as u32),
        (format!("sel (1|M0) (ge)f0.0 r1.0<1>:f {}", source("f")), [f(f32::NAN), f(2.0), 0], f(2.0)),
        (format!("csel (1|M0) (lt)f0.0 r1.0<1>:f {}", three("f")), [f(1.0), f(2.0), f(-1.0)], f(1.0)),
        (format!("cmp (1|M0) (ge)f0.0 r1.0<1>:d {}", source("d")), [5, 5, 0], u32::MAX),
        (
            "mul (1|M0) acc0.0<1>:d r2.0<0;1,0>:d r3.0<0;1,0>:uw\nmach (1|M0) r1.0<1>:d r2.0<0;1,0>:d r3.0<0;1,0>:d".into(),
            [(-70_000i32) as u32, 90_000, 0],
            ((-70_000i64 * 90_000) >> 32) as u32,
        ),
        (
            "mul (1|M0) acc0.0<1>:d r2.0<0;1,0>:d r3.0<0;1,0>:uw\nmacl (1|M0) r1.0<1>:d r2.0<0;1,0>:d r3.0<0;1,0>:d".into(),
            [70_000, 90_000, 0],
            (70_000i64 * 90_000) as u32,
        ),
    ];
    for (text, operands, expected) in cases {
        let found = one(&text, operands);
        assert_eq!(found, expected, "{text}: {found:#x}, expected {expected:#x}");
    }
}

#[test]
fn flags_predicates_and_jumps() {
    let text = "
        (W) mov (1|M0) r5.0<1>:d 0:w
        cmp (16|M0) (lt)f0.0 null<1>:d r2.0<1;1,0>:d 4:w
        (f0.0) mov (16|M0) r6.0<1>:d 1:w
        (~f0.0) mov (16|M0) r6.0<1>:d 2:w
    L0:
        (W) add (1|M0) r5.0<1>:d r5.0<0;1,0>:d 3:w
        (W) cmp (1|M0) (lt)f1.0 null<1>:d r5.0<0;1,0>:d 10:w
        (W&f1.0) jmpi L0
        (f0.0) if (16|M0) L1 L2
        mov (16|M0) r7.0<1>:d 10:w
        else (16|M0) L2 L2
    L1:
        mov (16|M0) r7.0<1>:d 20:w
    L2:
        endif (16|M0) L3
    L3:
        add (16|M0) r7.0<1>:d r7.0<1;1,0>:d r2.0<1;1,0>:d
    ";
    let words: Vec<u32> = (0..16).collect();
    let thread = thread(text, HPC, |thread| put(thread, 2, &words));
    assert_eq!(get(&thread, 5, 0), 12);
    assert_eq!(thread.flags[0] & 0xffff, 0xf);
    for lane in 0..16u32 {
        let (six, seven) = if lane < 4 { (1, 10 + lane) } else { (2, 20 + lane) };
        let at = lane as usize;
        assert_eq!((get(&thread, 6, at), get(&thread, 7, at)), (six, seven), "lane {lane}");
    }
}

fn launch(payload: &[u8], threads: u32, slm: usize) -> Launch<'_> {
    Launch {
        groups: [2, 1, 1],
        threads,
        payload,
        local: &[],
        inline_bytes: 8,
        slm_bytes: slm,
        dispatch_mask: u32::MAX,
    }
}

fn run_text(text: &str, threads: u32, slm: usize, bytes: usize) -> Result<Vec<u8>, String> {
    let kernel = Kernel::new("k", &listing(text, HPC), &arch(HPC), RowStride::Full).unwrap();
    let mut memory = Memory::new();
    let base = 0x10_0000_0000u64;
    let buffer = Buffer { name: "out".into(), base, bytes: vec![0; bytes].into(), writable: true };
    memory.add(buffer).unwrap();
    let payload = base.to_le_bytes();
    let limits = Limits { steps: 100_000 };
    let result =
        run(&kernel, &launch(&payload, threads, slm), &mut memory, Rules::default(), limits);
    result.map_err(|problem| {
        assert!(problem.notes().iter().any(|note| note.contains("kernel k")), "{problem:?}");
        problem.code().to_owned()
    })?;
    Ok(memory.buffer("out").unwrap().bytes.to_vec())
}

/// Every thread writes its number to shared memory, waits, and stores its neighbour's.
#[test]
fn threads_meet_at_barriers() {
    let text = "
        (W) and (1|M0) r2.0<1>:ud r0.2<0;1,0>:ud 255:uw
        (W) shl (1|M0) r3.0<1>:ud r2.0<0;1,0>:ud 2:w
        (W) store.slm.d32.a32 (1|M0) [r3:1] r2:1 {$0}
        (W) send.gtwy (1|M0) null r0 null:0 0x0 0x02000004 {$1}
        (W) sync.bar null
        (W) xor (1|M0) r4.0<1>:ud r3.0<0;1,0>:ud 4:uw
        (W) load.slm.d32.a32 (1|M0) r5:1 [r4:1] {$2}
        (W) shl (1|M0) r6.0<1>:ud r0.1<0;1,0>:ud 4:w
        (W) add (1|M0) r6.0<1>:ud r6.0<0;1,0>:ud r3.0<0;1,0>:ud
        (W) add (1|M0) r7.0<1>:uq r1.0<0;1,0>:uq r6.0<0;1,0>:ud
        (W) store.ugm.d32.a64 (1|M0) [r7:1] r5:1 {$3}
        (W) send.gtwy (1|M0) null r0 null:0 0x0 0x02000010 {EOT}
    ";
    let bytes = run_text(text, 4, 64, 32).unwrap();
    let words: Vec<u8> = bytes.chunks(4).map(|word| word[0]).collect();
    assert_eq!(words, [1, 0, 3, 2, 1, 0, 3, 2]);
}

#[test]
fn faults_of_launches() {
    let end = "(W) send.gtwy (1|M0) null r0 null:0 0x0 0x02000010 {EOT}\n";
    for (text, code) in [
        ("L0:\n(W) jmpi L0", "Q6155"),
        ("(W) mov (1|M0) r2.0<1>:uq 64:uq\n(W) load.ugm.d32.a64 (1|M0) r3:1 [r2:1]", "Q6150"),
        ("(W) mov (1|M0) r2.0<1>:ud 64:ud\n(W) load.slm.d32.a32 (1|M0) r3:1 [r2:1]", "Q6150"),
        (
            "(W) add (1|M0) r2.0<1>:uq r1.0<0;1,0>:uq 2:ud\n(W) load.ugm.d32.a64 (1|M0) r3:1 [r2:1]",
            "Q6150",
        ),
        ("(W) sync.bar null", "Q6154"),
        ("(W) mov (1|M0) r2.0<1>:ud sr0.0<0;1,0>:ud", "Q6151"),
        ("(W) jmpi 8", "Q6152"),
        ("(W) load_block2d.ugm.d8.a64 (1|M0) r3:1 [r2:1]", "Q6153"),
        ("(W) load.ugm.d32.a64 (1|M0) r255:2 [r2:1]", "Q6149"),
    ] {
        assert_eq!(run_text(&format!("{text}\n{end}"), 1, 64, 32), Err(code.to_owned()), "{text}");
    }
    // One thread of two signals.
    let text = format!(
        "(W) cmp (1|M0) (eq)f0.0 null<1>:ud r0.2<0;1,0>:ud 0:uw\n(W&~f0.0) jmpi L1\n\
         (W) send.gtwy (1|M0) null r0 null:0 0x0 0x02000004 {{$1}}\n(W) sync.bar null\nL1:\n{end}"
    );
    assert_eq!(run_text(&text, 2, 0, 32), Err("Q6154".to_owned()));
    assert_eq!(run_text(&text, 1, 0, 32), Ok(vec![0; 32]));
}

/// Random instructions, jumps included, end, stop or fail: no panic, no hang.
#[test]
fn random_programs_end() {
    let mut random = Random::new(11);
    let (mut ended, mut failed) = (0, 0);
    for _ in 0..3000 {
        let platform = random.pick(&Platform::WHOLE);
        let arch = arch(platform);
        let layout = vector_layout(platform);
        let mut listing = Listing::default();
        for _ in 0..1 + random.below(12) {
            let raw = vector::TABLE.random(&mut |n| random.below(n), layout);
            let mut inst = vector::Inst::from_raw(&raw).unwrap();
            let near = (random.below(24) - 12) * 16;
            inst.visit_operands(|jump: &mut i32| *jump = near);
            listing.items.push(Statement::Vector(inst).into());
        }
        let program = Program::new(&listing, &arch, RowStride::Full).unwrap();
        let mut thread = Thread::new(&arch, random.next() as u32);
        thread.grf = random.bytes(arch.file_bytes() as usize).into();
        let mut steps = 500;
        match thread.run(&program, &mut NoStorage, Rules::default(), &mut steps) {
            Ok(_) => ended += 1,
            Err(trap) => {
                assert!(trap.index < listing.items.len());
                failed += 1;
            }
        }
        if let Ok(bytes) = binary::native::write(&listing, platform) {
            let _ = binary::native::read(&bytes, platform);
        }
    }
    assert!(ended > 300 && failed > 300, "{ended} {failed}");
}

/// Damaged lines are read or refused: no panic.
#[test]
fn damaged_lines_are_read_or_refused() {
    let mut random = Random::new(12);
    let mut lines = vec![
        "load_block2d.ugm.d8v.a64.ca.ca (1|M0) r6:16 [r53:1] {$3}".to_owned(),
        "store.slm.d32x4.a32 (16|M0) [r4:1] r5:4 {A@1,$2}".to_owned(),
        "L0:".to_owned(),
        "(W&~f0.0) jmpi L0".to_owned(),
        "bfn.(~s0&(s1^~s2)) (8|M0) r1.0<1>:ud r2.0<1;0>:ud r3.0<1;0>:ud r4.0<1>:ud".to_owned(),
        "mov (8|M0) r1.0<1>:df qnan(0x1):df {AccWrEn}".to_owned(),
    ];
    for name in ["kernel_native_xehpg", "kernel_native_xehpc"] {
        for case in crate::common::golden(name)["cases"].as_array().unwrap() {
            lines.push(case["disasm"].as_str().unwrap().to_owned());
        }
    }
    let (mut read, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let at = random.below(lines.len() as u64) as usize;
        let mut line: Vec<char> = lines[at].chars().collect();
        for _ in 0..1 + random.below(3) {
            let at = random.below(line.len() as u64) as usize;
            match random.below(3) {
                0 if line.len() > 1 => drop(line.remove(at)),
                1 => line
                    .insert(at, random.pick(&['9', '(', '~', ':', '.', '\u{e9}', '-', 'x', '<'])),
                _ => line[at] = random.pick(&['0', ')', '&', ';', ',', '$', '}', 'f', '>']),
            }
        }
        let line: String = line.into_iter().collect();
        let platform = random.pick(&Platform::WHOLE);
        let source = quincunx_diag::SourceId(0);
        match quincunx_dpas::text::native::read(&line, platform, source) {
            Ok(listing) => {
                let printed = quincunx_dpas::text::native::print(&listing);
                let again = quincunx_dpas::text::native::read(&printed, platform, source).unwrap();
                let code = |listing| binary::native::write(listing, platform).unwrap();
                assert_eq!(code(&again), code(&listing), "{line}");
                read += 1;
            }
            Err(found) => {
                assert!(!found.is_empty());
                refused += 1;
            }
        }
    }
    assert!(read > 300 && refused > 1000, "{read} {refused}");
}
