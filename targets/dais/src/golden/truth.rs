//! Comparisons, truth values, choices, positions and conversions.

use super::{Fixed, function, index_of, offset};
use quincunx_graph::{ArgExtreme, Compare, Logic};
use quincunx_num::{Int, Ratio, Rounding, code_range, round_ratio};
use quincunx_tensor::DType;

fn truth(holds: bool) -> Ratio {
    if holds { Ratio::ONE } else { Ratio::ZERO }
}

fn pairs(a: &Fixed, b: &Fixed, shape: &[usize], one: impl Fn(Ratio, Ratio) -> bool) -> Fixed {
    let numbers: Vec<Ratio> = (0..shape.iter().product())
        .map(|position| index_of(position, shape))
        .map(|index| truth(one(a.at(&index), b.at(&index))))
        .collect();
    Fixed::of(shape, &numbers, false)
}

pub(super) fn compare(compare: Compare, a: &Fixed, b: &Fixed, shape: &[usize]) -> Fixed {
    pairs(a, b, shape, |a, b| match compare {
        Compare::Equal => a == b,
        Compare::Less => a < b,
        Compare::LessOrEqual => a <= b,
        Compare::Greater => a > b,
        Compare::GreaterOrEqual => a >= b,
    })
}

pub(super) fn logic(logic: Logic, a: &Fixed, b: &Fixed, shape: &[usize]) -> Fixed {
    pairs(a, b, shape, |a, b| {
        let (a, b) = (!a.is_zero(), !b.is_zero());
        match logic {
            Logic::And => a && b,
            Logic::Or => a || b,
            Logic::Xor => a != b,
        }
    })
}

pub(super) fn choose(condition: &Fixed, yes: &Fixed, no: &Fixed, shape: &[usize]) -> Fixed {
    let numbers: Vec<Ratio> = (0..shape.iter().product())
        .map(|position| index_of(position, shape))
        .map(|index| if condition.at(&index).is_zero() { no.at(&index) } else { yes.at(&index) })
        .collect();
    Fixed::of(shape, &numbers, yes.float || no.float)
}

/// Walks all elements and remembers the best one of every line.
pub(super) fn arg_extreme(arg: &ArgExtreme, x: &Fixed, shape: &[usize]) -> Fixed {
    let mut kept = x.shape.clone();
    kept[arg.axis] = 1;
    let mut best: Vec<Option<(Ratio, usize)>> = vec![None; kept.iter().product()];
    for (position, number) in x.numbers().enumerate() {
        let index = index_of(position, &x.shape);
        let line = &mut best[offset(&index, &kept)];
        let better = match line {
            None => true,
            Some((known, _)) if number == *known => arg.last,
            Some((known, _)) => (number > *known) == arg.largest,
        };
        if better {
            *line = Some((number, index[arg.axis]));
        }
    }
    let place = |best: &Option<(Ratio, usize)>| best.as_ref().map_or(0, |best| best.1);
    let numbers: Vec<Ratio> = best.iter().map(|best| Ratio::from(place(best))).collect();
    Fixed::of(shape, &numbers, false)
}

/// Sign and width of an integer type.
pub(super) fn integers(dtype: DType) -> Option<(bool, u32)> {
    Some(match dtype {
        DType::Bool => (false, 1),
        DType::I8 => (true, 8),
        DType::I16 => (true, 16),
        DType::I32 => (true, 32),
        DType::I64 => (true, 64),
        DType::U8 => (false, 8),
        DType::U16 => (false, 16),
        DType::U32 => (false, 32),
        DType::U64 => (false, 64),
        DType::Narrow(narrow) => (narrow.signed()?, narrow.bits()),
        DType::F32 | DType::F64 => return None,
    })
}

/// Floats lose their fraction and saturate, integers wrap (which their type does), everything but
/// 0 is true.
pub(super) fn cast(x: &Fixed, from: Option<DType>, to: DType) -> Fixed {
    let saturate = from.is_some_and(DType::is_float);
    let one = |number: Ratio| match integers(to) {
        None => function::rounded(&number, to),
        Some(_) if to == DType::Bool => truth(!number.is_zero()),
        Some((signed, width)) if saturate => {
            let (low, high): (Int, Int) =
                code_range(signed, width, quincunx_num::Overflow::Saturate);
            Ratio::from(round_ratio(&number, Rounding::Down).clamp(low, high))
        }
        Some(_) => number,
    };
    let numbers: Vec<Ratio> = x.numbers().map(one).collect();
    Fixed::of(&x.shape, &numbers, x.float && integers(to).is_none())
}
