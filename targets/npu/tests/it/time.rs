//! Cycles: what a line's own fields give, and what maps change.

use crate::common::cases::{INT8, all, load, store};
use crate::common::{arch, chain, fragment, inst, parse};
use quincunx_npu::NpuArch;
use quincunx_npu::program::Program;
use quincunx_npu::replay::Node;
use quincunx_npu::time::{
    Model, conv_line_cycles, core_durations, durations, hop_cycles, line_cycles, tile_cycles,
    timed, vector_line_cycles,
};
use quincunx_npu::work::{Conv, Resolved, WeightSource, Work, resolve};

fn cycles(program: &Program, model: Model) -> Vec<u64> {
    durations(program, &resolve(program), &arch(), model)
}

/// The program with every line in a workload of its own, or all in one.
fn relabelled(program: &Program, one: bool) -> Program {
    let mut program = program.clone();
    for (number, line) in (0..).zip(&mut program.lines) {
        if let Some(map) = &mut line.map {
            (map.wkl, map.tile) = if one { (7, Some(number)) } else { (number, Some(0)) };
        }
    }
    program
}

/// The physical cycles are those of the fields; those of the original tool depend on the maps.
#[test]
fn maps_change_no_physical_cycles() {
    for stem in ["f05_streamed_weights_4_tiles", "f09_batch_vp_self_tokens"] {
        let program = parse(&fragment(stem));
        let mut bare = program.clone();
        bare.lines.iter_mut().for_each(|line| line.map = None);
        let physical = cycles(&program, Model::PHYSICAL);
        for other in [relabelled(&program, true), relabelled(&program, false), bare] {
            assert_eq!(cycles(&other, Model::PHYSICAL), physical, "{stem}");
        }
        let apart = relabelled(&program, false);
        assert_ne!(cycles(&apart, Model::UPSTREAM), cycles(&program, Model::UPSTREAM), "{stem}");
    }
}

fn convs(work: &[Resolved]) -> Vec<(usize, Conv)> {
    let conv = |(line, work): (usize, &Resolved)| match work {
        Ok(Work::Conv(conv)) => Some((line, *conv)),
        _ => None,
    };
    work.iter().enumerate().filter_map(conv).collect()
}

/// A smaller last tile is cheaper, unless a workload pays the first tile for each.
#[test]
fn tiles_cost_what_they_are() {
    let program = parse(&fragment("f05_streamed_weights_4_tiles"));
    let mut work = resolve(&program);
    let (last, _) = *convs(&work).last().unwrap();
    if let Ok(Work::Conv(conv)) = &mut work[last] {
        conv.tile[3] = conv.tile[3].div_ceil(2);
    }
    let convs = convs(&work);
    let [upstream, physical] =
        [Model::UPSTREAM, Model::PHYSICAL].map(|model| durations(&program, &work, &arch(), model));
    let (first, second) = (convs[0].0, convs[1].0);
    assert_eq!(upstream[last], upstream[first]);
    assert_eq!(physical[second], physical[first]);
    assert!(physical[last] < physical[first]);
    for (line, conv) in &convs {
        let own = 20 + tile_cycles(conv, &arch()).floor() as u64;
        assert_eq!(physical[*line], own);
        // Neither the number of tiles nor the way of the weights changes it.
        assert_eq!(conv_line_cycles(conv, 4, true, &arch(), Model::PHYSICAL), own);
    }
    let first = &convs[0].1;
    assert_eq!(
        upstream[last],
        conv_line_cycles(first, convs.len() as u64, true, &arch(), Model::UPSTREAM)
    );
}

/// The functions for one line agree with the list of a program whose lines are alone.
#[test]
fn lines_alone_cost_what_they_cost_in_a_program() {
    for case in all() {
        for program in &case.programs {
            let work = resolve(program);
            for model in [Model::UPSTREAM, Model::PHYSICAL] {
                let list = durations(program, &work, &arch(), model);
                for (cycles, work) in list.into_iter().zip(&work) {
                    let Ok(work) = work else { continue };
                    let expected = match work {
                        // Alone, but perhaps with weights from L2.
                        Work::Conv(conv) => {
                            let ways = [false, true]
                                .map(|way| conv_line_cycles(conv, 1, way, &arch(), model));
                            assert!(ways.contains(&cycles), "{}", case.name);
                            continue;
                        }
                        Work::Vector(vector) => vector_line_cycles(vector, 1, &arch(), model),
                        work => {
                            let hops = hop_cycles(0, work, &arch(), model);
                            line_cycles(work, &arch(), model) + hops
                        }
                    };
                    assert_eq!(cycles, expected, "{}", case.name);
                }
            }
        }
    }
}

/// Adding to the destination reads it.
#[test]
fn added_destinations_are_read() {
    let case = all().into_iter().find(|case| case.name == "adden, ceil").unwrap();
    let work = resolve(&case.programs[0]);
    let (_, conv) = convs(&work)[0];
    let plain = Conv { accumulate: None, ..conv };
    let cycles = |conv: &Conv, model| conv_line_cycles(conv, 1, false, &arch(), model);
    let [n, k, _, h, w] = conv.tile.map(u64::from);
    let bytes = n * k.div_ceil(8) * 8 * h * w;
    assert_eq!(
        cycles(&conv, Model::PHYSICAL),
        cycles(&plain, Model::PHYSICAL) + bytes.div_ceil(32)
    );
    assert_eq!(cycles(&conv, Model::UPSTREAM), cycles(&plain, Model::UPSTREAM));
}

/// Every number of the cost model can be changed, and changes the cycles of some line.
#[test]
fn cycles_follow_the_machine_file() {
    let mut programs: Vec<Program> = all().into_iter().flat_map(|case| case.programs).collect();
    programs.push(parse(&fragment("f03_conv1x1_cut_C")));
    let sum = |arch: &NpuArch, model| -> u64 {
        let of = |program: &Program| core_durations(1, program, &resolve(program), arch, model);
        programs.iter().flat_map(of).sum()
    };
    let models = [Model::UPSTREAM, Model::PHYSICAL];
    let before = models.map(|model| sum(&arch(), model));
    for (name, value) in [
        ("dram_bytes_per_second", "1e9"),
        ("dram_large_cycles_per_byte", "1.0"),
        ("vp_bytes_per_cycle", "4"),
        ("config_cycles", "22"),
        ("control_cycles", "35"),
        ("start_cycles", "21"),
        ("store_start_cycles", "31"),
        ("vp_cycles", "15"),
        ("vp_dequantise_cycles", "29"),
        ("vp_two_cycles", "19"),
        ("vp_compare_cycles", "17"),
        ("vp_sum_cycles", "22"),
        ("pe_output_cycles", "20.0"),
        ("pe_sum_cycles", "9.0"),
        ("pe_sum_start_cycles", "63.0"),
        ("pe_weight_positions", "1000.0"),
        ("pe_factor", "1.5"),
        ("rows", "2"),
        ("columns", "1"),
    ] {
        let arch = NpuArch::parse(&format!("name = \"a\"\n{name} = {value}")).unwrap();
        for (model, before) in models.into_iter().zip(before) {
            assert!(sum(&arch, model) > before, "{name} {model:?}");
        }
    }
    // What only the physical cycles count.
    for (name, value) in
        [("l2_bytes_per_cycle", "1"), ("hop_cycles", "9"), ("link_bytes_per_cycle", "1")]
    {
        let arch = NpuArch::parse(&format!("name = \"a\"\n{name} = {value}")).unwrap();
        assert!(sum(&arch, Model::PHYSICAL) > before[1], "{name}");
    }
}

/// Copies between cores and weights from another core cost the way and the bytes.
#[test]
fn the_way_between_cores_costs_hops() {
    let arch = NpuArch::parse(
        "name = \"a\"\ncores_x = 4\ncores_y = 4\nhop_cycles = 5\nlink_bytes_per_cycle = 3",
    )
    .unwrap();
    let mut seen = [0; 2];
    for program in all().iter().flat_map(|case| &case.programs) {
        for work in resolve(program).iter().flatten() {
            let (other, bytes) = match work {
                Work::Remote(remote) => {
                    let [c, h, w] = remote.tile.map(u64::from);
                    seen[0] += 1;
                    (remote.core, u64::from(remote.images) * c.div_ceil(8) * 8 * h * w)
                }
                Work::Weights(weights) => {
                    let WeightSource::Remote { core, .. } = weights.source else { continue };
                    let [c, r, s] = weights.row.map(u64::from);
                    let row = (c.div_ceil(8) * 8 * r * s).div_ceil(32) * 32 + 32;
                    seen[1] += 1;
                    (core, u64::from(weights.channels) * row)
                }
                _ => continue,
            };
            assert_eq!(line_cycles(work, &arch, Model::PHYSICAL), 20 + bytes.div_ceil(3));
            assert_eq!(line_cycles(work, &arch, Model::UPSTREAM), 0);
            // From the far corner: three columns and three rows, but for the other core's own.
            let hops = 6 - u64::from(other);
            assert_eq!(hop_cycles(15, work, &arch, Model::PHYSICAL), 5 * hops);
            assert_eq!(hop_cycles(15, work, &arch, Model::UPSTREAM), 0);
        }
    }
    assert!(seen.iter().all(|&seen| seen > 0), "{seen:?}");
}

/// Start and end of the lines with a mnemonic, by core.
fn times(programs: &[&Program], mnemonic: &str, model: Model) -> Vec<Vec<(u64, u64)>> {
    let work: Vec<Vec<Resolved>> = programs.iter().map(|program| resolve(program)).collect();
    let (cycles, replay) = timed(programs, &work, &arch(), model);
    let of = |core: usize| {
        let lines = &programs[core].lines;
        let own = |&line: &usize| lines[line].inst.mnemonic() == mnemonic;
        let times = (0..lines.len()).filter(own).map(|line| {
            let (start, end) = replay.times[core][line];
            assert_eq!(end - start, cycles[core][line]);
            (start, end)
        });
        times.collect()
    };
    (0..programs.len()).map(of).collect()
}

/// DRAM operations of all cores take turns in the physical model: first come, first served, and of
/// those that come together the lowest core.
#[test]
fn cores_take_turns_at_the_dram_port() {
    let shape = [64, 8, 8];
    let program = |delay: usize| {
        let mut insts = vec![inst("lda_cfg", &[]); delay];
        insts.extend(load(INT8, 0, 0, 1, shape));
        insts.extend(load(INT8, 65536, 65536, 1, shape));
        insts.extend(store(INT8, 0, 1 << 20, 1, shape));
        chain(insts, None)
    };
    let (soon, late) = (program(0), program(9));
    let both = [&soon, &soon];
    let apart = times(&both, "lda_mov", Model::UPSTREAM);
    assert_eq!(apart[0], apart[1]);
    let loads = times(&both, "lda_mov", Model::PHYSICAL);
    assert_eq!(loads[0][0], apart[0][0]);
    // Core 0 has done its first load when core 1 begins, and waits for core 1 with its second.
    assert_eq!(loads[1][0].0, loads[0][0].1);
    assert_eq!(loads[0][1].0, loads[1][0].1);
    assert_eq!(loads[1][1].0, loads[0][1].1);
    // Core 2 comes last in spite of its number.
    let [first, second, third] =
        <[_; 3]>::try_from(times(&[&late, &soon, &soon], "sta_mov", Model::PHYSICAL)).unwrap();
    let mut busy: Vec<(u64, u64)> = ["lda_mov", "sta_mov"]
        .into_iter()
        .flat_map(|name| times(&[&late, &soon, &soon], name, Model::PHYSICAL))
        .flatten()
        .collect();
    busy.sort_unstable();
    assert_eq!(busy.len(), 9);
    assert!(busy.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{busy:?}");
    assert!(second[0] < third[0] && third[0] < first[0]);
}

/// A line that waits for the port says for whom.
#[test]
fn who_held_the_port_is_known() {
    let program = chain(load(INT8, 0, 0, 1, [64, 8, 8]).to_vec(), None);
    let programs = [&program, &program];
    let work = programs.map(resolve).to_vec();
    let (_, replay) = timed(&programs, &work, &arch(), Model::PHYSICAL);
    let line = program.lines.iter().position(|l| l.inst.mnemonic() == "lda_mov").unwrap();
    let holder = (Node { core: 0, line }, "DRAM port");
    assert!(replay.sources(Node { core: 1, line }).contains(&holder));
    assert!(!replay.sources(Node { core: 0, line }).iter().any(|source| source.1 == "DRAM port"));
}
