//! Timing of launches: rates measured on silicon, cases by hand, and what must not matter.

use crate::common::{folder, listing, target_of};
use quincunx_contract::{File, Log, Program, Target};
use quincunx_diag::any_error;
use quincunx_dpas::TARGET;
use quincunx_dpas::arch::DpasArch;
use quincunx_dpas::program::Element;
use quincunx_dpas::program::device::{
    Access, Argument, ArgumentKind, Buffer, Device, Environment, Kernel, Launch, Role, Value,
};
use quincunx_dpas::shape::RowStride;
use quincunx_dpas::simulate::launch::Memory;
use quincunx_dpas::simulate::{Rules, launch};
use quincunx_dpas::swsb;
use quincunx_dpas::time::{Cost, costs};
use quincunx_testkit::{Random, options};
use std::fmt::Write as _;

/// A program of one launch of a kernel whose arguments are buffers of so many bytes.
fn device(
    text: &str,
    arch: &DpasArch,
    grfs: u32,
    groups: [u32; 3],
    threads: u32,
    buffers: &[u64],
) -> Device {
    let pointer = |index: usize| Argument {
        kind: ArgumentKind::Pointer { index: index as u32, access: Access::Both },
        offset: 8 * index as u32,
        size: 8,
    };
    let buffer = |(at, bytes): (usize, &u64)| Buffer {
        bytes: *bytes,
        ..Buffer::new(format!("b{at}"), Element::Ub, &[*bytes as usize], Role::Scratch)
    };
    let name = |at: usize| Value::Buffer(format!("b{at}"));
    Device {
        kernels: vec![Kernel {
            environment: Environment {
                grfs,
                simd: 16,
                slm: 0,
                barriers: 1,
                inline: arch.platform.grf_bytes(),
                local_ids: 0,
            },
            arguments: (0..buffers.len()).map(pointer).collect(),
            ..Kernel::of_listing("k", listing(text, arch.platform), grfs, 16)
        }],
        buffers: buffers.iter().enumerate().map(buffer).collect(),
        launches: vec![Launch {
            kernel: "k".to_owned(),
            groups,
            threads,
            local_size: None,
            arguments: (0..buffers.len()).map(name).collect(),
            layer: None,
            place: Default::default(),
        }],
        layers: Vec::new(),
    }
}

fn cost_of(device: &Device, arch: &DpasArch) -> Cost {
    costs(device, arch, RowStride::Full, u32::MAX).unwrap().remove(0)
}

fn preset(name: &str) -> DpasArch {
    DpasArch::preset(name).unwrap()
}

const END: &str = "(W) mov (16|M0) r127.0<1>:ud r0.0<1;1,0>:ud
(W) send.gtwy (1|M0) null r127 null:0 0x0 0x02000010 {EOT,A@1}
";

/// 64 products over 8 accumulators, so many times.
fn products(src1: &str, src2: &str, acc: &str, times: u32) -> String {
    let mut text = format!("(W) mov (1|M0) r2.0<1>:d {times}:d\nL0:\n");
    for product in 0..64 {
        let (dst, b) = (16 + 8 * (product % 8), 80 + 8 * (product % 4));
        let _ = writeln!(
            text,
            "dpas.8x8 (16|M0) r{dst}:{acc} r{dst}:{acc} r{b}:{src1} r112.0:{src2} {{${}}}",
            product % 8
        );
    }
    text += "(W) add (1|M0) r2.0<1>:d r2.0<0;1,0>:d -1:w
(W) cmp (1|M0) (gt)f0.0 null<1>:d r2.0<0;1,0>:d 0:w {I@1}
(W&f0.0) jmpi L0 {I@1}
(W) sync.allwr null
";
    text + END
}

/// `b70-probe`: 16.0 cycles each for every type.
#[test]
fn products_take_the_cycles_that_were_measured() {
    let arch = preset("b70");
    let types = [
        ("bf", "bf", "f"),
        ("hf", "hf", "f"),
        ("b", "b", "d"),
        ("s4", "b", "d"),
        ("s4", "s4", "d"),
        ("s2", "s2", "d"),
    ];
    for (src1, src2, acc) in types {
        let text = products(src1, src2, acc, 100);
        let threads = arch.cores * arch.engines * 8;
        let device = device(&text, &arch, 128, [threads, 1, 1], 1, &[]);
        let cost = cost_of(&device, &arch);
        let each = cost.cycles as f64 / f64::from(8 * 100 * 64);
        assert!((16.0..16.01).contains(&each), "{src1} x {src2}: {each}");
        assert_eq!((cost.waves, cost.threads, cost.limit()), (1, 8, "systolic"));
    }
}

/// C = A x B of size n in bf: groups of 32 threads with a tile of 256 x 256, 4 x 4 products of
/// 8 x 16 x 16 a thread and half step; a barrier keeps threads together. Loads of the next step come to
/// the first cache early where it prefetches.
fn gemm(n: u32, prefetch: bool) -> String {
    let parts = [gemm_places(n), gemm_loop(prefetch), gemm_stores()];
    parts.concat().join("\n") + "\n" + END
}

/// Payloads of A, B, C in r2, r3, r4: each of 8 x 4 threads has 32 rows and 64 columns. The sums are 0.
fn gemm_places(n: u32) -> Vec<String> {
    let mut lines: Vec<String> =
        (2..5).map(|r| format!("(W) mov (16|M0) r{r}.0<1>:ud 0x0:ud")).collect();
    let own = [
        "and (1|M0) r5.0<1>:ud r0.2<0;1,0>:ud 0xff:ud",
        "shr (1|M0) r5.1<1>:ud r5.0<0;1,0>:ud 2:w {I@1}",
        "and (1|M0) r5.2<1>:ud r5.0<0;1,0>:ud 3:ud",
        "shl (1|M0) r5.3<1>:ud r0.6<0;1,0>:ud 8:w",
        "shl (1|M0) r5.4<1>:ud r0.1<0;1,0>:ud 8:w",
        "shl (1|M0) r5.5<1>:ud r5.1<0;1,0>:ud 5:w {I@4}",
        "shl (1|M0) r5.6<1>:ud r5.2<0;1,0>:ud 6:w {I@4}",
        "add (1|M0) r5.3<1>:ud r5.3<0;1,0>:ud r5.5<0;1,0>:ud {I@2}",
        "add (1|M0) r5.4<1>:ud r5.4<0;1,0>:ud r5.6<0;1,0>:ud {I@2}",
    ];
    lines.extend(own.map(|line| format!("(W) {line}")));
    let (inputs, outputs) = (2 * n - 1, 4 * n - 1);
    for (at, (row, shape)) in
        [(inputs, 0x1_1f0fu32), (inputs, 0x1_1f0f), (outputs, 0x70f)].into_iter().enumerate()
    {
        let r = at + 2;
        lines.push(format!("(W) mov (1|M0) r{r}.0<1>:uq r1.{at}<0;1,0>:uq"));
        for (dword, value) in [(2, row), (3, n - 1), (4, row), (7, shape)] {
            lines.push(format!("(W) mov (1|M0) r{r}.{dword}<1>:ud {value}:ud"));
        }
    }
    let places = [
        "mov (1|M0) r2.6<1>:ud r5.3<0;1,0>:ud {I@1}",
        "mov (1|M0) r4.6<1>:ud r5.3<0;1,0>:ud",
        "mov (1|M0) r3.5<1>:ud r5.4<0;1,0>:ud",
        "mov (1|M0) r4.5<1>:ud r5.4<0;1,0>:ud",
        "add (1|M0) r6.0<1>:d r3.5<0;1,0>:d 32:w {I@2}",
    ];
    lines.extend(places.map(|line| format!("(W) {line}")));
    lines.push(format!("(W) mov (1|M0) r5.7<1>:d {}:d", n / 32));
    let sums = (64..192).step_by(2);
    lines.extend(sums.map(|r| format!("(W) mov (32|M0) r{r}.0<1>:f 0x0:f")));
    lines.push("(W) sync.nop null {A@1}".to_owned());
    lines
}

/// Two blocks of 32 x 16 of A, four of B, interleaved, to these registers; null prefetches.
fn gemm_loads([a, b, c]: [&str; 3], lengths: &str) -> Vec<String> {
    vec![
        format!("(W) send.ugm (1|M0) {a} r2 null:0 0x0 0x0{lengths}00203 {{A@1,$0}}"),
        format!("(W) send.ugm (1|M0) {b} r3 null:0 0x0 0x0{lengths}00283 {{A@1,$1}}"),
        "(W) mov (1|M0) r3.5<1>:d r6.0<0;1,0>:d {$1.src}".to_owned(),
        format!("(W) send.ugm (1|M0) {c} r3 null:0 0x0 0x0{lengths}00283 {{A@1,$2}}"),
        "(W) add (1|M0) r3.5<1>:d r3.5<0;1,0>:d -32:w {$2.src}".to_owned(),
    ]
}

fn gemm_loop(prefetch: bool) -> Vec<String> {
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let mut lines = owned(&[
        "L0:",
        "(W) sync.allrd null",
        "(W) send.gtwy (1|M0) null r0 null:0 0x0 0x02000004 {$31}",
        "(W) sync.bar null",
    ]);
    lines.extend(gemm_loads(["r8", "r192", "r224"], "3f"));
    lines.extend(owned(&[
        "(W) add (1|M0) r3.6<1>:d r3.6<0;1,0>:d 32:w",
        "(W) add (1|M0) r2.5<1>:d r2.5<0;1,0>:d 32:w {$0.src}",
        "(W) add (1|M0) r5.7<1>:d r5.7<0;1,0>:d -1:w",
        "(W) sync.allwr ($0,$1,$2)",
    ]));
    if prefetch {
        lines.extend(gemm_loads(["null"; 3], "20"));
    }
    for (step, column, row) in
        (0..2).flat_map(|s| (0..4).flat_map(move |c| (0..4).map(move |r| (s, c, r))))
    {
        let acc = 64 + 8 * (4 * column + row);
        let b = 192 + 32 * (column / 2) + 16 * (column % 2) + 8 * step;
        let a = 8 + 16 * step + 4 * row;
        // Each half step adds to the sums of the one before, which can be of the turn before.
        let end = match (row, step) {
            (0, step) => format!("Atomic,${}.dst", 8 - 4 * step + column),
            (0..3, _) => "Atomic".to_owned(),
            _ => format!("${}", 4 + 4 * step + column),
        };
        lines.push(format!("dpas.8x8 (16|M0) r{acc}:f r{acc}:f r{b}:bf r{a}.0:bf {{{end}}}"));
    }
    lines.extend(owned(&[
        "(W) cmp (1|M0) (gt)f0.0 null<1>:d r5.7<0;1,0>:d 0:w",
        "(W&f0.0) jmpi L0 {I@1}",
        "(W) sync.allwr null",
    ]));
    lines
}

fn gemm_stores() -> Vec<String> {
    let mut lines = Vec::new();
    for row in 0..4 {
        for column in 0..4 {
            let acc = 64 + 8 * (4 * column + row);
            lines.push(format!("(W) send.ugm (1|M0) null r4 r{acc}:8 0x0 0x02000407 {{A@1,$16}}"));
            lines.push("(W) add (1|M0) r4.5<1>:d r4.5<0;1,0>:d 16:w {$16.src}".to_owned());
        }
        lines.push("(W) add (1|M0) r4.5<1>:d r4.5<0;1,0>:d -64:w {I@1}".to_owned());
        lines.push("(W) add (1|M0) r4.6<1>:d r4.6<0;1,0>:d 8:w".to_owned());
    }
    lines
}

/// A program of [`gemm`].
fn gemm_device(n: u32, arch: &DpasArch, prefetch: bool) -> Device {
    let bytes = u64::from(n) * u64::from(n);
    let groups = [n / 256, n / 256, 1];
    device(&gemm(n, prefetch), arch, 256, groups, 32, &[2 * bytes, 2 * bytes, 4 * bytes])
}

/// `b70-probe`: a kernel of this kind reaches 161.7 of 183.5 TFLOPS.
#[test]
fn a_matrix_product_reaches_what_was_measured() {
    let arch = preset("b70");
    let n = 4096u32;
    let rates = [false, true].map(|prefetch| {
        let cost = cost_of(&gemm_device(n, &arch, prefetch), &arch);
        assert_eq!(cost.macs, u64::from(n).pow(3));
        assert_eq!((cost.waves, cost.threads), (8, 4));
        let tflops = 2.0 * cost.macs as f64 / cost.cycles as f64 * arch.clock_ghz / 1e3;
        tflops / 183.5
    });
    assert!(rates[0] < rates[1]);
    assert!(rates.iter().all(|rate| (0.75..0.95).contains(rate)), "{rates:?}");
}

/// A load, an addition that waits for it, a store.
const SMALL: &str = "(W) mov (1|M0) r2.0<1>:uq r1.0<0;1,0>:uq
(W) send.ugm (1|M0) r3 r2 null:0 0x0 0x0210D580 {A@1,$0}
(W) add (16|M0) r4.0<1>:d r3.0<1;1,0>:d 1:w {$0.dst}
(W) send.ugm (1|M0) null r2 r4:1 0x0 0x0200D584 {I@1,$1}
";

#[test]
fn a_small_kernel_by_hand() {
    let arch = preset("b70");
    let cost = |text: &str| cost_of(&device(text, &arch, 128, [1, 1, 1], 1, &[4096]), &arch);
    // mov at 0; load at 10, answered by memory 500 later; add at 510; store at 520, done 500 later.
    let own = cost(SMALL);
    assert_eq!((own.cycles, own.issue, own.instructions, own.macs), (1020, 4, 4, 0));
    assert_eq!((own.waves, own.threads, own.limit()), (1, 1, "latency"));
    // A line is loaded and one stored: the launch moves as much as its buffer has at most.
    assert_eq!((own.l1, own.l2, own.bytes), (1, 2, 128));
    // Loading the line again takes what the first cache takes.
    let again =
        "(W) send.ugm (1|M0) r5 r2 null:0 0x0 0x0210D580 {$2}\n(W) sync.nop null {$2.dst}\n";
    assert_eq!(cost(&(SMALL.to_owned() + again)).cycles, 1020);
    let wait = "(W) sync.nop null {$1.dst}\n";
    assert_eq!(cost(&(SMALL.to_owned() + wait + again)).cycles, 1020 + 45);
    // A prefetch right before the load hides nothing: the line has to come.
    let prefetch =
        "(W) send.ugm (1|M0) null r2 null:0 0x0 0x0200D580 {A@1,$3}\n(W) send.ugm (1|M0) r3";
    let early = SMALL.replacen("(W) send.ugm (1|M0) r3", prefetch, 1);
    assert_eq!(cost(&early).cycles, 1020);
}

#[test]
fn loops_count_with_arguments_and_not_with_data() {
    let arch = preset("b70");
    let text = |count: &str, wait: &str| {
        format!(
            "{SMALL}(W) mov (1|M0) r6.0<1>:d {count}:d {{{wait}}}
L0:
(W) add (1|M0) r6.0<1>:d r6.0<0;1,0>:d -1:w {{I@1}}
(W) cmp (1|M0) (gt)f0.0 null<1>:d r6.0<0;1,0>:d 0:w {{I@1}}
(W&f0.0) jmpi L0 {{I@1}}
"
        )
    };
    let run = |text: &str| {
        let device = device(text, &arch, 128, [1, 1, 1], 1, &[4096]);
        costs(&device, &arch, RowStride::Full, u32::MAX)
    };
    assert_eq!(run(&text("7", "$1.src")).unwrap()[0].instructions, 4 + 1 + 3 * 7);
    // 4096 bytes lie at the address of the buffer; its low byte is 0, and the sum counts.
    let known = text("r1.0<0;1,0>", "$1.src").replace(":d -1:w", ":d -0x8000:w");
    assert!(run(&known).unwrap()[0].instructions > 20);
    let refused = run(&text("r3.0<0;1,0>", "$1.src")).unwrap_err();
    assert_eq!(refused.code(), "Q6170");
    let endless = text("7", "$1.src").replace(":d -1:w", ":d 0:w");
    assert_eq!(run(&endless).unwrap_err().code(), "Q6171");
}

#[test]
fn labels_and_comments_do_not_matter() {
    let arch = preset("b70");
    let text = products("bf", "bf", "f", 3);
    let other = text.replace("L0", "again").replace("(W) add", "// counts\n(W) add");
    let cost = |text: &str| cost_of(&device(text, &arch, 128, [99, 1, 1], 1, &[]), &arch);
    assert_ne!(text, other);
    assert_eq!(cost(&text), cost(&other));
}

#[test]
fn less_of_a_machine_is_never_faster() {
    let best = preset("b70");
    let cycles = |arch: &DpasArch| {
        let small = device(SMALL, arch, 128, [1000, 3, 1], 1, &[1 << 20]);
        let programs = [small, gemm_device(1024, arch, true), gemm_device(2048, arch, false)];
        programs.map(|device| cost_of(&device, arch).cycles)
    };
    let changes: [fn(&mut DpasArch, u32); 5] = [
        |arch, step| arch.cores -= 3 * step,
        |arch, step| arch.memory_gbs /= f64::from(1 + step),
        |arch, step| arch.l1_bytes >>= step,
        |arch, step| arch.l2_bytes >>= step,
        |arch, step| arch.l2_kib >>= step,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut before = cycles(&best);
        for step in 1..6 {
            let mut arch = best.clone();
            change(&mut arch, step);
            let now = cycles(&arch);
            let slower = now.iter().zip(&before).all(|(now, before)| now >= before);
            assert!(slower, "change {at}, step {step}: {now:?} after {before:?}");
            before = now;
        }
    }
}

#[test]
fn a_group_must_fit_a_core() {
    let arch = preset("b70");
    let device = device(END, &arch, 256, [1, 1, 1], 33, &[]);
    let problem = costs(&device, &arch, RowStride::Full, u32::MAX).unwrap_err();
    assert_eq!(problem.code(), "Q6172");
}

/// The program of the launch file among the golden files.
fn golden_program(arch: &str) -> Box<dyn Program> {
    let file =
        |name: &str| File::new(name, std::fs::read(folder().join("files").join(name)).unwrap());
    let (arch, _) = target_of("x", Vec::new(), arch);
    let files = ["gemm.toml", "gemm.xebin", "gemm_b.npy"].map(file);
    let options = options(&TARGET, &[]);
    TARGET.read(&files, None, &*arch, &options, &mut Log::default()).unwrap()
}

#[test]
fn programs_show_their_time() {
    let program = golden_program("max1550");
    let timeline = program.time().unwrap();
    assert_eq!(program.stats().cycles, Some(timeline.total()));
    assert_eq!(timeline.lanes().len(), 6);
    let part = &timeline.parts()[0];
    assert_eq!((part.name.as_str(), part.end), ("fc", timeline.total()));
    // 16 x 64 x 64 products; a peak of 8 engines in 128 cores with 4096 / 8 in a cycle.
    let roofline = timeline.roofline().unwrap();
    assert_eq!(roofline.peak, f64::from(128 * 8 * 512));
    assert_eq!((roofline.points[0].rate * timeline.total() as f64).round(), 65536.0);
    let tables = program.tables("layers").unwrap();
    let text = format!("{:?}", tables[0]);
    assert!(text.contains("latency"), "{text}");
    // The same machine by its platform, and by the name of a product.
    assert_eq!(golden_program("xehpc").stats().cycles, program.stats().cycles);
}

/// The kernel that is timed computes what it should, and waits for what it needs.
#[test]
fn the_matrix_product_is_one() {
    let (arch, n) = (preset("b70"), 256usize);
    let mut random = Random::new(1);
    let mut small = |_| f32::from(random.below(8) as i8 - 4);
    let [a, b]: [Vec<f32>; 2] = [0, 1].map(|_| (0..n * n).map(&mut small).collect());
    let halves = |values: &[f32]| -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| {
                value.to_bits().to_be_bytes()[..2].iter().rev().copied().collect::<Vec<_>>()
            })
            .collect()
    };
    let mut memory = Memory::new();
    let mut payload = Vec::new();
    for (at, (name, bytes)) in
        [("a", halves(&a)), ("b", halves(&b)), ("c", vec![0; 4 * n * n])].into_iter().enumerate()
    {
        let base = (at as u64 + 1) << 24;
        payload.extend(base.to_le_bytes());
        memory
            .add(launch::Buffer {
                name: name.to_owned(),
                base,
                bytes: bytes.into(),
                writable: true,
            })
            .unwrap();
    }
    payload.resize(64, 0);
    let kernel = listing(&gemm(n as u32, true), arch.platform);
    let found = swsb::check(&kernel, &arch, RowStride::Full);
    assert!(!any_error(&found), "{found:?}");
    let kernel = launch::Kernel::new("gemm", &kernel, &arch, RowStride::Full).unwrap();
    let launch = launch::Launch {
        groups: [1, 1, 1],
        threads: 32,
        payload: &payload,
        local: &[],
        inline_bytes: 64,
        slm_bytes: 0,
        dispatch_mask: u32::MAX,
    };
    let limits = launch::Limits { steps: 1 << 24 };
    launch::run(&kernel, &launch, &mut memory, Rules::default(), limits).unwrap();
    let (words, _) = memory.buffer("c").unwrap().bytes.as_chunks::<4>();
    let c: Vec<f32> = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
    for (row, column) in [(0, 0), (1, 17), (37, 64), (100, 255), (255, 3), (255, 255)] {
        let sum: f32 = (0..n).map(|k| a[row * n + k] * b[k * n + column]).sum();
        assert_eq!(c[row * n + column], sum, "{row} {column}");
    }
}
