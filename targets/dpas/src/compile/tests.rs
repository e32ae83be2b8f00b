//! Proofs of requantising against brute force.

use super::requantise::{Channel, Ends, Steps};
use super::weights::Sum;
use quincunx_num::Dyadic;

/// The exact code of a sum, by long division of fractions.
fn exact(channel: &Channel, acc: i32, ends: Ends) -> i32 {
    let exact = |x: f64| Dyadic::from_f64(x).unwrap().to_ratio();
    let [a, b] = channel.sum.scales.map(exact);
    let real = exact(f64::from(acc)) * a * b / exact(channel.sum.divisor.into())
        + channel.sum.rest().to_ratio();
    let steps = real / exact(channel.output);
    let code = quincunx_num::round_ratio(&steps, quincunx_num::Rounding::HalfEven);
    let code = i64::try_from(code).unwrap_or(i64::MAX);
    code.clamp(ends.low.into(), ends.high.into()) as i32
}

#[test]
fn proved_factors_give_exact_codes_of_all_sums() {
    let (mut plain, mut corrected) = (0, 0);
    let mut state = 7u64;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 24)
    };
    for case in 0..60 {
        let f32_scale = |x: f64| f64::from(x as f32);
        let scales = match case % 3 {
            0 => [0.25, 0.015_625],
            _ => [f32_scale(random() * 0.1 + 1e-3), f32_scale(random() * 0.02 + 1e-4)],
        };
        let output = if case % 3 == 0 { 0.5 } else { f32_scale(random() * 0.2 + 0.02) };
        let bias = if case % 2 == 0 { 0.0 } else { random() - 0.5 };
        let whole = (bias / (scales[0] * scales[1])).round() as i32;
        let sum = Sum { scales, divisor: [1, 49, 3][case % 3], bias: [bias, 1.0], whole };
        let bias_free = Sum { bias: [0.0; 2], whole: 0, ..sum };
        let sum = if sum.divisor == 1 { sum } else { bias_free };
        let channel = Channel { sum, output };
        let ends = Ends { low: -128 - case as i32 % 5, high: 127 };
        let Some((steps, factors)) = channel.prove(ends) else { continue };
        if steps == Steps::Plain {
            plain += 1
        } else {
            corrected += 1
        }
        for acc in (-40_000..40_000).step_by(23).chain(-2_000..2_000) {
            let code = factors.code(steps, acc).clamp(ends.low as f32, ends.high as f32) as i32;
            assert_eq!(code, exact(&channel, acc, ends), "case {case} acc {acc} {steps:?}");
        }
    }
    assert!(plain >= 10 && corrected >= 10, "{plain} plain, {corrected} corrected");
}

/// Grids of calibration have few digits: many sums are halfway between two codes, near which f32 has no
/// room for errors.
#[test]
fn grids_of_few_digits_are_proved() {
    let ends = Ends { low: -128, high: 127 };
    for case in 0..200_u32 {
        let scales = [1.0 / 128.0, f64::from(case * 7 % 301 + 60) / 65_536.0];
        let output = f64::from(case * 13 % 997 + 900) / 65_536.0;
        let sum = Sum { scales, divisor: 1, bias: [0.0; 2], whole: 0 };
        let channel = Channel { sum, output };
        let Some((steps, factors)) = channel.prove(ends) else {
            panic!("{scales:?} to {output} is not proved")
        };
        for acc in (-300_000..300_000).step_by(61).chain((-300_000..300_000).step_by(1024)) {
            let code = factors.code(steps, acc).clamp(-128.0, 127.0) as i32;
            assert_eq!(code, exact(&channel, acc, ends), "{scales:?} to {output}, sum {acc}");
        }
    }
}

/// With a bias of real numbers a few sums in a million lie next to a tie; then the constants move.
#[test]
fn biases_of_real_numbers_are_proved() {
    let ends = Ends { low: -128, high: 127 };
    let (mut unproved, mut state) = (0, 9u64);
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 24)
    };
    for case in 0..3000 {
        let [a, b, output] = [(0.1, 6e-3), (0.02, 2e-3), (0.3, 0.02)]
            .map(|(most, least)| f64::from((random() * most + least) as f32));
        let bias = f64::from((random() * 4.0 - 2.0) as f32);
        let sum = Sum {
            scales: [a, b],
            divisor: 1,
            bias: [bias, 1.0],
            whole: (bias / (a * b)).round() as i32,
        };
        let channel = Channel { sum, output };
        match channel.prove(ends) {
            None => unproved += 1,
            Some((steps, factors)) => {
                let scale = a * b / output;
                for tie in (-120..120).step_by(7) {
                    let acc = ((f64::from(tie) + 0.5) / scale).round() as i32;
                    for acc in acc - 1..=acc + 1 {
                        let code = factors.code(steps, acc).clamp(-128.0, 127.0) as i32;
                        assert_eq!(code, exact(&channel, acc, ends), "case {case} acc {acc}");
                    }
                }
            }
        }
    }
    assert!(unproved <= 2, "{unproved}");
}
