//! Errors of tables against the functions, computed another way.

use super::*;

/// A function, computed otherwise than in `functions`.
fn real(function: Function, x: f64) -> f64 {
    match function {
        Function::Sigmoid => 0.5 + (x / 2.0).tanh() / 2.0,
        Function::Tanh => 1.0 - 2.0 / ((2.0 * x).exp() + 1.0),
        Function::Exp | Function::SoftmaxExp => std::f64::consts::E.powf(x),
        Function::Atan => std::f64::consts::FRAC_PI_2 * x.signum() - (1.0 / x).atan(),
        Function::Softplus => {
            if x > 30.0 {
                x
            } else {
                (1.0 + x.exp()).ln()
            }
        }
        Function::HardSwish => x * (x + 3.0).clamp(0.0, 6.0) / 6.0,
        Function::Elu { alpha, .. } => {
            if x > 0.0 {
                x
            } else {
                f64::from(alpha) * (x.exp() - 1.0)
            }
        }
        Function::SoftmaxReciprocal => x.recip(),
        _ => function.at(x),
    }
}

/// The result of a lookup, entry by entry.
fn lookup(table: &Table, data_type: DataType, x: i32) -> i32 {
    let distance = |&entry: &usize| (i64::from(x) - i64::from(table.keys[entry])).abs();
    let entry = (0..table.keys.len()).min_by_key(distance).unwrap();
    let end = i64::from(data_type.max());
    let saturated = |exact: i64| exact.clamp(-end - 1, end);
    let slope = table.slopes.as_ref().map_or(0, |slopes| i64::from(slopes[entry]));
    let difference = saturated(i64::from(x) - i64::from(table.keys[entry]));
    let exact = (difference * slope) as f64 * data_type.decode(1);
    saturated(i64::from(table.values[entry]) + saturated(exact.round_ties_even() as i64)) as i32
}

const FUNCTIONS: [Function; 13] = [
    Function::Sigmoid,
    Function::Tanh,
    Function::Exp,
    Function::Erf,
    Function::Softplus,
    Function::Gelu,
    Function::GeluTanh,
    Function::Atan,
    Function::HardSwish,
    Function::HardSigmoid { alpha: 0.2, beta: 0.5 },
    Function::Elu { alpha: 1.0, gamma: 1.0 },
    Function::SoftmaxExp,
    Function::SoftmaxReciprocal,
];

/// The largest error over some numbers of the domain.
fn worst(function: Function, form: Form, numbers: impl Iterator<Item = i32>) -> f64 {
    let fitted = table(function, form);
    let (low, high) = function.domain();
    let one = form.data_type;
    let ends = (one.decode(-one.max() - 1), one.decode(one.max()));
    let error = |x: i32| {
        let expected = real(function, one.decode(x)).clamp(ends.0, ends.1);
        (one.decode(lookup(&fitted.table, one, x)) - expected).abs()
    };
    let inside = numbers.filter(|&x| (low..=high).contains(&one.decode(x)));
    inside.map(error).fold(0.0, f64::max)
}

#[test]
fn stated_errors_hold_for_every_number_of_fp16bp8() {
    for function in FUNCTIONS {
        for (depth, slopes) in [(3, true), (16, false), (64, true), (256, true), (1024, false)] {
            let form = Form { data_type: DataType::FP16BP8, depth, slopes };
            let stated = table(function, form).max_error;
            let found = worst(function, form, -32768..=32767);
            assert!((found - stated).abs() < 1e-9, "{function:?} {form:?}: {found}, {stated}");
        }
    }
}

#[test]
fn stated_errors_hold_for_samples_of_wide_types() {
    for data_type in [DataType::FP8BP4, DataType::FP18BP10, DataType::FP32BP16] {
        let (high, step) = (data_type.max(), (data_type.max() / 3001).max(1));
        for function in FUNCTIONS {
            let form = Form { data_type, depth: 64, slopes: true };
            let stated = table(function, form).max_error;
            let wide = (-high..=high).step_by(step as usize);
            let near = (-40_000..=40_000).step_by(7).filter(|x| (-high..=high).contains(x));
            let found = worst(function, form, wide.chain(near));
            // Between the numbers that are looked at, lookups round as well.
            let more =
                if data_type == DataType::FP32BP16 { 2.0 * data_type.decode(1) } else { 0.0 };
            assert!(found <= stated + more + 1e-9, "{function:?} {form:?}: {found}, {stated}");
        }
    }
}

#[test]
fn tables_are_near_their_functions() {
    // What a table of straight lines can do is near half of the pull of the bend over its cells, and
    // half a step more for rounding, twice.
    for (function, bounds) in [
        (Function::Sigmoid, [0.0045, 0.0040]),
        (Function::Tanh, [0.0060, 0.0042]),
        (Function::SoftmaxExp, [0.0060, 0.0042]),
        (Function::SoftmaxReciprocal, [0.0060, 0.0042]),
        (Function::Exp, [0.2, 0.03]),
        (Function::Gelu, [0.0080, 0.0045]),
    ] {
        for (depth, bound) in [(32, bounds[0]), (128, bounds[1])] {
            let form = Form { data_type: DataType::FP16BP8, depth, slopes: true };
            let error = table(function, form).max_error;
            assert!(error <= bound, "{function:?}, {depth} entries: {error}");
        }
    }
}
