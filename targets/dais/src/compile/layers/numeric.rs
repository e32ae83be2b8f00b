//! Reductions, normalisations with known statistics, conversions.

use super::super::builder::Builder;
use super::super::exact::format_of;
use super::super::number::Number;
use super::super::wire::Wire;
use super::super::{quantiser, scalar};
use super::window::{extreme_of, mean};
use super::{Layer, Numbers, known, refuse};
use quincunx_diag::Result;
use quincunx_graph::{BatchNorm, Binary, Reduce, ReduceKind, Scalar, Unary};
use quincunx_num::{Dyadic, Interval, Overflow, Ratio, Rounding, bit_length};
use quincunx_tensor::{DType, View};

/// Numbers that are joined along some axes, group by group.
pub(super) fn groups(
    numbers: &Numbers,
    shape: &[usize],
    axes: &[usize],
) -> (Numbers, usize, usize) {
    let (joined, kept): (Vec<usize>, Vec<usize>) =
        (0..shape.len()).partition(|axis| axes.contains(axis));
    let extent = |axes: &[usize]| axes.iter().map(|&axis| shape[axis]).product::<usize>();
    let (size, count) = (extent(&joined), extent(&kept));
    (View::new(numbers, shape).permute(&[kept, joined].concat()).to_vec(), size, count)
}

pub(super) fn reduction(
    layer: &Layer<'_>,
    builder: &mut Builder<'_>,
    reduce: &Reduce,
) -> Result<Numbers> {
    let (numbers, size, count) = groups(layer.operand(0)?, layer.shape_of(0), &reduce.axes);
    if reduce.kind == ReduceKind::Mean && !layer.is_float() {
        return Err(refuse("quotients of integers are truncated"));
    }
    (0..count)
        .map(|group| {
            let group: Vec<&Number> = numbers[group * size..][..size].iter().collect();
            reduce_group(layer, builder, reduce.kind, &group)
        })
        .collect()
}

fn reduce_group(
    layer: &Layer<'_>,
    builder: &mut Builder<'_>,
    kind: ReduceKind,
    group: &[&Number],
) -> Result<Number> {
    let format = format_of(layer.graph[layer.node.output].dtype);
    let each = |builder: &mut Builder<'_>,
                function: fn(&mut Builder<'_>, &Number) -> Result<Number>| {
        let numbers: Result<Vec<Number>> = group.iter().map(|x| function(builder, x)).collect();
        numbers.and_then(|numbers| mean(builder, &numbers.iter().collect::<Vec<_>>(), 1))
    };
    let square =
        |builder: &mut Builder<'_>, x: &Number| scalar::binary_now(builder, Binary::Mul, x, x);
    let magnitude = |builder: &mut Builder<'_>, x: &Number| {
        super::super::exact::unary_of(builder, Unary::Abs, x)
    };
    match kind {
        ReduceKind::Sum => mean(builder, group, 1),
        ReduceKind::Mean => mean(builder, group, group.len()),
        ReduceKind::Max => extreme_of(builder, group, true),
        ReduceKind::Min => extreme_of(builder, group, false),
        ReduceKind::Prod => group.iter().try_fold(Number::from(Wire::one()), |product, x| {
            scalar::binary_now(builder, Binary::Mul, &product, x)
        }),
        ReduceKind::L1 => each(builder, magnitude),
        ReduceKind::SumSquare => each(builder, square),
        ReduceKind::L2 => {
            let squares = each(builder, square)?;
            scalar::unary(builder, Unary::Sqrt, format, &squares)
        }
        ReduceKind::LogSum => {
            let sum = mean(builder, group, 1)?;
            scalar::unary(builder, Unary::Log, format, &sum)
        }
        ReduceKind::LogSumExp => Err(refuse(
            "a logarithm of a sum of exponentials is a function of several numbers, which a table cannot give",
        )),
    }
}

/// A batch normalisation that was not folded: in the float type, for a quantiser.
pub(super) fn batch_norm(
    layer: &Layer<'_>,
    builder: &mut Builder<'_>,
    norm: &BatchNorm,
) -> Result<Numbers> {
    let parameter = |index: usize| {
        known(layer.operand(index)?).ok_or_else(|| refuse("its parameters are not constant"))
    };
    let (scale, bias) = (parameter(1)?, parameter(2)?);
    let (mean, variance) = (parameter(3)?, parameter(4)?);
    let single = |value: &Ratio| value.to_f32().value();
    let exact = |value: f32| {
        let exact = Dyadic::from_f64(f64::from(value));
        exact.map(|value| value.to_ratio()).ok_or_else(|| refuse("its factor is infinite"))
    };
    let plane: usize = layer.shape()[2..].iter().product();
    let mut result = Vec::with_capacity(layer.operand(0)?.len());
    for (index, x) in layer.operand(0)?.iter().enumerate() {
        let c = index / plane.max(1) % scale.len();
        let factor = single(&scale[c]) / (single(&variance[c]) + norm.epsilon).sqrt();
        let (centre, addend) = (exact(single(&mean[c]))?, exact(single(&bias[c]))?);
        result.push(scalar::normalise(builder, [centre, exact(factor)?, addend], x)?);
    }
    Ok(result)
}

/// Sign and width of an integer type.
pub(in crate::compile) fn integer_type(dtype: DType) -> Option<(bool, u32)> {
    let bits = 8 * u32::try_from(dtype.size()).expect("a number has a few bytes");
    match dtype {
        DType::Bool => Some((false, 1)),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => Some((true, bits)),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => Some((false, bits)),
        DType::Narrow(narrow) => narrow.signed().map(|signed| (signed, narrow.bits())),
        DType::F32 | DType::F64 => None,
    }
}

/// Results of an integer type, which wrap.
pub(in crate::compile) fn wrapped(
    builder: &mut Builder<'_>,
    numbers: Numbers,
    dtype: DType,
) -> Result<Numbers> {
    let Some((signed, width)) = integer_type(dtype) else { return Ok(numbers) };
    let (low, high) = quincunx_num::code_range(signed, width, Overflow::Wrap);
    let grid = Interval::new(low, high, 0);
    let wrap = |number: Number| {
        let number = number.settled(builder)?;
        if number.form.is_some() {
            return Err(refuse(format!("its result of type {dtype} is not a whole number")));
        }
        match grid.holds(&builder.range(&number.wire)) {
            true => Ok(number),
            false => Ok(builder.cut(&number.wire, grid.clone())?.into()),
        }
    };
    numbers.into_iter().map(wrap).collect()
}

pub(super) fn cast(layer: &Layer<'_>, builder: &mut Builder<'_>, to: DType) -> Result<Numbers> {
    let x = layer.operand(0)?;
    let from = layer.node.input(0).map_or(to, |id| layer.graph[id].dtype);
    if from == to {
        return Ok(x.clone());
    }
    if let DType::Bool = to {
        let truth = |x: &Number| {
            let wire = super::super::exact::sign_wire(builder, x)?;
            Ok(builder.is_not_zero(&wire)?.into())
        };
        return x.iter().map(truth).collect();
    }
    match (integer_type(to), from.is_float()) {
        (None, _) => {
            let digits = match to {
                DType::F64 => 53,
                DType::F32 => 24,
                _ => return Err(refuse(format!("a cast to {to} rounds"))),
            };
            let x: Numbers = x.iter().map(|x| x.settled(builder)).collect::<Result<_>>()?;
            let fits = |x: &Number| {
                let range = builder.range(&x.wire);
                let most = range.high().clone().max(-range.low());
                x.form.is_none() && bit_length(&most) <= digits
            };
            match x.iter().all(fits) {
                true => Ok(x),
                false => Err(refuse(format!("a cast to {to} could round its operand"))),
            }
        }
        (Some((signed, width)), true) if !matches!(to, DType::Narrow(_)) => {
            let whole = Scalar {
                signed,
                width,
                scale: 1.0,
                zero: 0,
                rounding: Rounding::Down,
                overflow: Overflow::Saturate,
            };
            x.iter().map(|x| Ok(quantiser::steps(builder, x, &whole)?.into())).collect()
        }
        (Some(_), true) => Err(refuse(format!("a cast to {to} wraps"))),
        (Some(_), false) => wrapped(builder, x.clone(), to),
    }
}
