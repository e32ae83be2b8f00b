//! The executor against a second implementation of the definition, on random shapes.

use crate::common::definition::{definition, fill};
use crate::common::{Random, same};
use quincunx_dpas::precision::{Acc, Precision};
use quincunx_dpas::shape::{RowStride, Shape};
use quincunx_dpas::simulate::{Model, Operation, Rules, State, Step};

fn random_operation(random: &mut Random) -> Operation {
    let integers = &Precision::ALL[..8];
    let (weights, activations) = match random.below(10) {
        0..4 => (random.pick(integers), random.pick(integers)),
        4 => (
            random.pick(&[Precision::Bf8, Precision::Hf8]),
            random.pick(&[Precision::Bf8, Precision::Hf8]),
        ),
        5 => (Precision::Df, Precision::Df),
        _ => {
            let one =
                random.pick(&[Precision::Bf, Precision::Hf, Precision::Tf32, Precision::E2m1]);
            (one, one)
        }
    };
    let accs: &[Acc] = match weights {
        w if w.is_integer() => &[Acc::D, Acc::Ud],
        Precision::Bf => &[Acc::F, Acc::Bf],
        Precision::Hf => &[Acc::F, Acc::Hf],
        Precision::Df => &[Acc::Df],
        _ => &[Acc::F],
    };
    let shape = Shape {
        weights,
        activations,
        depth: random.pick(&[1, 2, 4, 8, 8, 8]),
        repeat: 1 + random.below(8) as u32,
        lanes: random.pick(&[4, 8, 16]),
        dst: random.pick(accs),
        src0: random.pick(accs),
        stride: random.pick(&[RowStride::Full, RowStride::Depth]),
    };
    let fused = random.below(6) == 0 && shape.src2_bytes() > 32;
    Operation {
        shape,
        dst: if random.below(3) == 0 && shape.dst == shape.src0 { 2048 } else { 0 },
        src0: (random.below(4) > 0).then_some(2048),
        src1: 4096,
        src2: 8192,
        offset: random.pick(&[0, 4, 8, 16]),
        no_mask: random.below(2) == 0,
        fused,
        scales: None,
    }
}

fn random_state(random: &mut Random, operation: &Operation) -> State {
    let threads = if operation.fused { 2 } else { 1 + random.below(2) as usize };
    let mut state = State::new(threads, 12_288);
    state.dispatch_mask = if random.below(2) == 0 { u32::MAX } else { random.next() as u32 };
    let acc = |acc: Acc| match acc {
        Acc::F => Precision::Tf32,
        Acc::Df => Precision::Df,
        Acc::Hf => Precision::Hf,
        Acc::Bf => Precision::Bf,
        Acc::D | Acc::Ud => Precision::U8,
    };
    let tiny = random.below(4) == 0;
    for bytes in &mut state.threads {
        fill(random, acc(operation.shape.dst), false, &mut bytes[..2048]);
        fill(random, acc(operation.shape.src0), false, &mut bytes[2048..4096]);
        fill(random, operation.shape.weights, tiny, &mut bytes[4096..8192]);
        fill(random, operation.shape.activations, tiny, &mut bytes[8192..]);
        if tiny {
            // Sums begin at zero, or at subnormal numbers.
            let keep = if random.below(2) == 0 { 0 } else { 0x7f };
            bytes[2048..4096].iter_mut().skip(2).step_by(4).for_each(|byte| *byte &= keep);
            bytes[2048..4096].iter_mut().skip(3).step_by(4).for_each(|byte| *byte &= 0x80);
        }
    }
    state
}

fn random_rules(random: &mut Random) -> Rules {
    let model = random.pick(&[Model::Seq, Model::Fma, Model::Stage, Model::Exact]);
    Rules { model, ftz: random.below(3) == 0 }
}

#[test]
fn the_executor_follows_the_definition() {
    let mut random = Random::new(7);
    for case in 0..3000 {
        let operation = random_operation(&mut random);
        let mut state = random_state(&mut random, &operation);
        let rules = random_rules(&mut random);
        let expected = definition(&operation, &state, rules);
        Step::Multiply(operation).run(&mut state, rules).unwrap();
        let acc = operation.shape.dst;
        for (found, expected) in state.threads.iter().zip(&expected) {
            let end = operation.dst + operation.shape.dst_bytes() as usize;
            let (found_dst, expected_dst) =
                (&found[operation.dst..end], &expected[operation.dst..end]);
            assert!(same(found_dst, expected_dst, acc), "case {case}: {operation:?} {rules:?}");
            assert_eq!(found[..operation.dst], expected[..operation.dst]);
            assert_eq!(found[end..], expected[end..]);
        }
    }
}

/// A fault in any part of an operation makes the comparison fail.
#[test]
fn planted_faults_are_noticed() {
    type Fault = fn(&mut Operation, &mut State, &mut Rules);
    let faults: [(&str, Fault); 12] = [
        ("mask", |operation, _, _| operation.no_mask = !operation.no_mask),
        ("offset", |operation, _, _| operation.offset ^= 4),
        ("dispatch", |_, state, _| state.dispatch_mask ^= 1 << 9),
        ("src0", |operation, _, _| operation.src0 = operation.src0.map_or(Some(2048), |_| None)),
        ("depth", |operation, _, _| operation.shape.depth = 9 - operation.shape.depth.min(8)),
        ("repeat", |operation, _, _| operation.shape.repeat = 1 + operation.shape.repeat % 8),
        ("src1", |operation, _, _| operation.src1 += 1),
        ("src2", |operation, _, _| operation.src2 += 8),
        ("fused", |operation, state, _| {
            operation.fused = !operation.fused && state.threads.len() == 2
        }),
        ("stride", |operation, _, _| {
            operation.shape.stride = match operation.shape.stride {
                RowStride::Full => RowStride::Depth,
                RowStride::Depth => RowStride::Full,
            };
        }),
        ("model", |_, _, rules| {
            rules.model = if rules.model == Model::Seq { Model::Exact } else { Model::Seq };
        }),
        ("ftz", |_, _, rules| rules.ftz = !rules.ftz),
    ];
    for (name, fault) in faults {
        let mut random = Random::new(11);
        let noticed = (0..600).any(|_| {
            let operation = random_operation(&mut random);
            let state = random_state(&mut random, &operation);
            let rules = random_rules(&mut random);
            let expected = definition(&operation, &state, rules);
            let (mut operation, mut state, mut rules) = (operation, state, rules);
            fault(&mut operation, &mut state, &mut rules);
            if !operation.shape.depth.is_power_of_two() {
                operation.shape.depth = 4;
            }
            let acc = operation.shape.dst;
            Step::Multiply(operation).run(&mut state, rules).is_err()
                || state.threads.iter().zip(&expected).any(|(a, b)| !same(a, b, acc))
        });
        assert!(noticed, "{name}");
    }
}
