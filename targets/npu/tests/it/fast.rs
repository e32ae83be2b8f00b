//! The fast simulator against the executor: every byte of L2, weight buffer and DRAM, scalar
//! registers and counts, behind every line, at every level of vector instructions.

mod lines;

use crate::common::cases::all;
use crate::common::{Random, arch, axes, chain, inst, num, with};
use lines::{Draw, tile3};
use quincunx_npu::NpuArch;
use quincunx_npu::isa::Inst;
use quincunx_npu::program::Program;
use quincunx_npu::replay::Node;
use quincunx_npu::simulate::{Coverage, Executor, Fast, Settings, State};
use quincunx_num::Level;

/// DRAM that programs of these tests use.
const DRAM: usize = 1 << 14;

/// A machine small enough to be compared byte by byte.
fn small() -> NpuArch {
    let text =
        "name = \"small\"\nl2_bytes = 65536\nwl0_units = 3072\nwl0_align = 1\nal1_words = 4096";
    NpuArch::parse(text).unwrap()
}

/// Fills the memories of all cores.
fn fill(state: &mut State, cores: usize, random: &mut Random) {
    for core in 0..cores {
        let bytes = random.bytes(state.l2(core).len());
        state.l2(core).copy_from_slice(&bytes);
        let bytes = random.bytes(state.wl0(core).len());
        state.wl0(core).copy_from_slice(&bytes);
    }
    for dram in &mut state.dram {
        dram.write(0, &random.bytes(DRAM)).unwrap();
    }
}

/// What a state holds, except counts and scalars.
fn digest(state: &State, cores: usize) -> u64 {
    let mut state = state.clone();
    let mut sum = 0_u64;
    let mut add = |bytes: &[u8]| {
        for word in bytes.as_chunks::<8>().0 {
            let mixed = (sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            sum = mixed ^ mixed >> 29;
        }
    };
    for core in 0..cores {
        add(state.l2(core));
        add(state.wl0(core));
    }
    let mut bytes = vec![0; 2 * DRAM];
    for dram in &state.dram {
        dram.read(0, &mut bytes);
        add(&bytes);
    }
    sum
}

/// Core and line, and what is seen behind it: a digest of the memories, the scalar registers.
type Line = (usize, usize, u64, Vec<[u32; 3]>);

/// What a run shows behind every line, and how it ended.
#[derive(Debug, PartialEq)]
struct Seen {
    lines: Vec<Line>,
    counts: quincunx_npu::simulate::Counts,
    problem: Option<String>,
}

/// Looks at a state behind a line that moves or computes.
fn look(lines: &mut Vec<Line>, programs: &[Program], node: Node, state: &State) {
    if programs[node.core].lines[node.line].inst.is_config() {
        return;
    }
    let cores = programs.len();
    let scalars = (0..cores).map(|core| state.scalars(core).map(f32::to_bits)).collect();
    lines.push((node.core, node.line, digest(state, cores), scalars));
}

/// Compares both simulators; `None` for programs that are refused.
fn compare(
    name: &str,
    programs: &[Program],
    arch: &NpuArch,
    settings: Settings,
    prepare: &dyn Fn(&mut State),
) -> Option<Coverage> {
    let new = || Executor::new(programs.to_vec(), arch, settings);
    let executor = new().ok()?;
    let mut before = executor.state();
    prepare(&mut before);
    let mut state = before.clone();
    let mut lines = Vec::new();
    let result = executor.run_in(executor.order(), &mut state, &mut |node, state| {
        look(&mut lines, programs, node, state);
    });
    let problem = result.err().map(|problem| format!("{problem:?}"));
    let expected = Seen { lines, counts: state.counts, problem };
    let mut coverage = None;
    for level in Level::available() {
        let mut fast = Fast::for_level(new().unwrap(), level);
        coverage = Some(fast.coverage());
        // The second run finds what the first left in the simulator.
        for run in 0..2 {
            let mut state = before.clone();
            let mut lines = Vec::new();
            let result = fast.run_observed(&mut state, &mut |node, state| {
                look(&mut lines, programs, node, state);
            });
            let problem = result.err().map(|problem| format!("{problem:?}"));
            let found = Seen { lines, counts: state.counts, problem };
            if found != expected {
                let at = found.lines.iter().zip(&expected.lines).position(|(a, b)| a != b);
                let line = at.map(|at| {
                    let (core, line, ..) = found.lines[at];
                    format!(
                        "line {} of core {core}: {:?}",
                        line + 1,
                        programs[core].lines[line].inst
                    )
                });
                panic!(
                    "{name}, {level}, run {run}: {line:?}\n{:?} {:?}\n{:?} {:?}\n{}",
                    found.counts,
                    found.problem,
                    expected.counts,
                    expected.problem,
                    String::from_utf8_lossy(&quincunx_npu::text::print(&programs[0]))
                );
            }
        }
    }
    coverage
}

/// The cases that plain loops judge: every instruction.
#[test]
fn cases_of_the_executor() {
    for case in all() {
        let cores = case.programs.len();
        let fill = |state: &mut State| {
            let mut random = Random::new(5);
            (0..3).for_each(|dram| state.dram[dram].write(0, &random.bytes(DRAM)).unwrap());
            let bytes = random.bytes(1 << 16);
            (0..cores).for_each(|core| state.l2(core)[..1 << 16].copy_from_slice(&bytes));
        };
        let coverage = compare(&case.name, &case.programs, &arch(), Settings::default(), &fill);
        assert!(coverage.is_some(), "{} is refused", case.name);
    }
}

/// Draws programs and compares them; how many lines had a fast form, and how many were refused.
fn draw(name: &str, cases: u64, mut draw: impl FnMut(&mut Draw) -> Vec<Inst>) -> (Coverage, u64) {
    let arch = small();
    let mut base = State::new(&arch, 1);
    fill(&mut base, 1, &mut Random::new(77));
    let (mut sum, mut refused) = (Coverage::default(), 0);
    for case in 0..cases {
        let mut drawn = Draw::new(Random::new(case));
        let insts = draw(&mut drawn);
        let program = chain(insts, Some(drawn.regions()));
        let prepare = |state: &mut State| {
            *state = base.clone();
            drawn.prepare(state);
        };
        let name = format!("{name} {case}");
        match compare(&name, &[program], &arch, Settings::default(), &prepare) {
            Some(coverage) => {
                sum.lines += coverage.lines;
                sum.fast += coverage.fast;
                sum.reused += coverage.reused;
            }
            None => refused += 1,
        }
    }
    (sum, refused)
}

/// Most lines are drawn so that they are accepted, and most of those have a fast form.
fn check(name: &str, cases: u64, lines: impl FnMut(&mut Draw) -> Vec<Inst>) -> Coverage {
    let (coverage, refused) = draw(name, cases, lines);
    assert!(refused * 4 <= cases, "{name}: {refused} of {cases} are refused");
    assert!(coverage.fast * 2 > coverage.lines, "{name}: {coverage:?}");
    assert!(coverage.fast < coverage.lines, "{name}: the executor has its share: {coverage:?}");
    coverage
}

#[test]
fn convolutions() {
    let coverage = check("conv", 500, |draw| {
        let count = draw.random.range(1, 3);
        (0..count).flat_map(|_| draw.conv()).collect()
    });
    assert!(coverage.reused == 0 || coverage.reused < coverage.fast, "{coverage:?}");
}

/// Convolutions with the same weights, between which weights move or not.
#[test]
fn packed_weights_are_those_of_the_buffer() {
    let coverage = check("weights", 300, |draw| {
        let mut insts = draw.conv();
        let again = *insts.last().unwrap();
        for _ in 0..draw.random.range(1, 4) {
            if draw.random.coin() {
                insts.extend(draw.weights());
            }
            insts.push(again);
        }
        insts
    });
    assert!(coverage.reused > 100, "{coverage:?}");
}

/// More blocks of weights than are kept packed; some are used again.
#[test]
fn blocks_give_way_to_others() {
    let mut draw = Draw::new(Random::new(3));
    let shape = [8, 2, 2];
    let fm = [("if_sign", 1), ("of_sign", 1), ("sf", 1), ("wf", 1), ("df", 1)];
    let pm = [("qc", 2), ("qk", num(0.01)), ("stride_h", 1), ("stride_w", 1), ("x_cut", 3)];
    let tp = [("kernel_r", 1), ("kernel_s", 1), ("mtk0", 1), ("mtc0", 1)];
    let mut insts = vec![
        with("pe_cfg_fm", &fm, &[tile3("source", shape), tile3("dest", shape)]),
        inst("pe_cfg_pm", &pm),
        with("pe_cfg_tp", &tp, &[axes("tile", "nkchw", &[1, 8, 8, 2, 2])]),
    ];
    let units: Vec<i128> = (0..100).chain([99, 10, 50]).chain(60..80).collect();
    for (index, unit) in units.iter().enumerate() {
        let output = 1024 + 32 * index as i128;
        insts.push(inst("pe_conv", &[("swaddr", *unit), ("dtaddr", output)]));
    }
    draw.parameters((0..3000).map(|at| at * 64 + 32));
    let program = chain(insts, Some(draw.regions()));
    let prepare = |state: &mut State| {
        fill(state, 1, &mut Random::new(4));
        draw.prepare(state);
    };
    let coverage = compare("blocks", &[program], &small(), Settings::default(), &prepare).unwrap();
    assert_eq!(coverage.fast, units.len());
    // Block 10 gave way to one of those behind the first 64.
    assert_eq!(coverage.reused, 22);
}

#[test]
fn vectors() {
    check("vector", 900, |draw| {
        let count = draw.random.range(1, 3);
        (0..count).flat_map(|_| draw.vector()).collect()
    });
}

#[test]
fn moves() {
    check("moves", 500, |draw| {
        let count = draw.random.range(1, 4);
        let mut insts = Vec::new();
        for _ in 0..count {
            insts.extend(match draw.random.below(4) {
                0 => draw.weights(),
                1 => draw.reorder(),
                _ => draw.copy(),
            });
        }
        insts
    });
}

/// Accumulation in f32 is left to the executor, everything else is not.
#[test]
fn float_accumulation() {
    let arch = small();
    let mut slow = 0;
    for case in 0..20 {
        let mut draw = Draw::new(Random::new(case));
        let insts = [draw.conv(), draw.copy()].concat();
        let program = chain(insts, Some(draw.regions()));
        let settings = Settings { float_accumulation: true, advance_images: true };
        let prepare = |state: &mut State| {
            fill(state, 1, &mut Random::new(case));
            draw.prepare(state);
        };
        if let Some(coverage) = compare("f32", &[program], &arch, settings, &prepare) {
            slow += coverage.lines - coverage.fast;
        }
    }
    assert!(slow >= 10, "{slow}");
}

/// The longest sums that 32 bits hold, and those that are one product longer.
#[test]
fn sums_at_the_end_of_32_bits() {
    let text = "name = \"long\"\nl2_bytes = 1048576\nwl0_units = 1048576\nal1_words = 1048576";
    let arch = NpuArch::parse(text).unwrap();
    for (signed, code, [c, r, s]) in [
        // 65,792 and 65,856 products of 255 and -128; 130,944 and 131,072 of -128 and -128.
        (false, 255_u8, [2056, 16, 2]),
        (false, 255, [2741, 8, 3]),
        (true, 0x80, [5456, 6, 4]),
        (true, 0x80, [4096, 8, 4]),
    ] {
        let source = [c, r, s];
        let fm = [("if_sign", i128::from(signed)), ("of_sign", 1), ("sf", 1), ("wf", 1), ("df", 1)];
        let insts = vec![
            with("pe_cfg_fm", &fm, &[tile3("source", source), tile3("dest", [1, 1, 1])]),
            inst(
                "pe_cfg_pm",
                &[("qc", 2), ("qk", num(1.0)), ("stride_h", 1), ("stride_w", 1), ("x_cut", 3)],
            ),
            with(
                "pe_cfg_tp",
                &[("kernel_r", r as i128), ("kernel_s", s as i128), ("mtk0", 1), ("mtc0", 1)],
                &[axes("tile", "nkchw", &[1, 1, c as i128, 1, 1])],
            ),
            inst("pe_conv", &[("dtaddr", 1_040_000)]),
        ];
        let regions = inst("ct_bc", &[("len0", 1024), ("last0", 1023)]);
        let program = chain(insts, Some(regions));
        let depth = c.div_ceil(8) * 8 * r * s;
        let prepare = |state: &mut State| {
            state.l2(0).fill(code);
            state.wl0(0)[..depth].fill(0x80);
            let parameters = depth.div_ceil(32) * 32;
            let a = 1.0_f32 / (1 << 24) as f32;
            state.wl0(0)[parameters..parameters + 4].copy_from_slice(&a.to_le_bytes());
        };
        let coverage =
            compare("long", std::slice::from_ref(&program), &arch, Settings::default(), &prepare)
                .unwrap_or_else(|| {
                    panic!("{:?}", Executor::new(vec![program], &arch, Settings::default()).err())
                });
        let largest = if signed { 128 } else { 255 };
        let fits = depth as i64 * 128 * largest <= i64::from(i32::MAX);
        assert_eq!(coverage.fast == coverage.lines, fits, "{depth}");
    }
}

/// A region that is used before it is set, and a tensor longer than its region, fail as they do in
/// the executor; a shorter one does not.
#[test]
fn failures_are_those_of_the_executor() {
    let arch = small();
    for (region, channels, fails) in [(0, 8, false), (0, 2000, true), (3, 8, true)] {
        let shape = [channels, 2, 2];
        let config = with("dt_cfg", &[("df", 1)], &[tile3("source", shape), tile3("dest", shape)]);
        let images = crate::common::cases::images(1, shape);
        let places = [("sbsg", region), ("dbsg", 1)];
        let insts = vec![config, with("dt_cal", &places, &[images])];
        let regions = inst("ct_bc", &[("len0", 2), ("last0", 1), ("len1", 8), ("last1", 9)]);
        let program = chain(insts, Some(regions));
        let prepare = |state: &mut State| fill(state, 1, &mut Random::new(1));
        let coverage = compare(
            "failure",
            std::slice::from_ref(&program),
            &arch,
            Settings::default(),
            &prepare,
        )
        .unwrap();
        assert_eq!(coverage.fast, usize::from(!fails), "region {region}, {channels} channels");
        let executor = Executor::new(vec![program], &arch, Settings::default()).unwrap();
        let mut state = executor.state();
        assert_eq!(Fast::new(executor).run(&mut state).is_err(), fails);
    }
}

/// A copy of DRAM changes on its own.
#[test]
fn clones_of_dram_are_apart() {
    let mut state = State::new(&small(), 1);
    state.dram[1].write(65_530, &[1; 12]).unwrap();
    let mut other = state.clone();
    other.dram[1].write(65_535, &[2; 2]).unwrap();
    let read = |state: &State| {
        let mut bytes = [9; 14];
        state.dram[1].read(65_529, &mut bytes);
        bytes
    };
    assert_eq!(read(&state), [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
    assert_eq!(read(&other), [0, 1, 1, 1, 1, 1, 2, 2, 1, 1, 1, 1, 1, 0]);
}
