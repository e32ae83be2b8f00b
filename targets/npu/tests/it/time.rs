//! Cycles: what a line's own fields give, and what maps change.

use crate::common::cases::all;
use crate::common::{arch, fragment, parse};
use quincunx_npu::program::Program;
use quincunx_npu::time::{
    Model, conv_line_cycles, durations, line_cycles, tile_cycles, vector_line_cycles,
};
use quincunx_npu::work::{Conv, Resolved, Work, resolve};

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
                        work => line_cycles(work, &arch(), model),
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
