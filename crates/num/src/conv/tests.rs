//! Every level and both layouts against the definition, in i64.

use super::{ConvShape, Convolution, ImageLayout, transpose};
use crate::gemm::Left;
use crate::level::Level;
use proptest::prelude::*;

/// The definition: image `[channels, height, width]`, result `[outputs, height, width]`.
fn reference<L: Left<Sum = i32, Wide = i16>>(
    shape: &ConvShape,
    image: &[L],
    weights: &[L::Right],
    pad: L,
    starts: &[i32],
) -> Vec<i32> {
    let [height, width] = shape.output_size().unwrap();
    let (inner, outer) = (shape.channels / shape.groups, shape.outputs / shape.groups);
    let signed = |n: usize| i64::try_from(n).unwrap();
    let at = |channel: usize, y: i64, x: i64| -> i64 {
        let inside = |p: i64, axis: usize| (0..signed(shape.size[axis])).contains(&p);
        let wide: i16 = if inside(y, 0) && inside(x, 1) {
            let row = channel * shape.size[0] + usize::try_from(y).unwrap();
            image[row * shape.size[1] + usize::try_from(x).unwrap()].wide()
        } else {
            pad.wide()
        };
        i64::from(wide)
    };
    let mut out = Vec::new();
    for output in 0..shape.outputs {
        for window in 0..height * width {
            let mut sum = i64::from(starts[output]);
            for index in 0..inner * shape.kernel[0] * shape.kernel[1] {
                let (ky, kx) = (index / shape.kernel[1] % shape.kernel[0], index % shape.kernel[1]);
                let channel = output / outer * inner + index / (shape.kernel[0] * shape.kernel[1]);
                let place = |axis: usize, window: usize, k: usize| {
                    signed(window * shape.strides[axis] + k * shape.dilations[axis])
                        - signed(shape.pads[axis])
                };
                let element =
                    at(channel, place(0, window / width, ky), place(1, window % width, kx));
                let depth = inner * shape.kernel[0] * shape.kernel[1];
                let weight = L::wide_right(weights[output * depth + index]);
                sum += element * i64::from(weight);
            }
            out.push(sum as i32);
        }
    }
    out
}

fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..count).map(|_| next()).collect()
}

fn compare<L: Left<Sum = i32, Wide = i16>>(shape: &ConvShape, seed: u64)
where
    L::Right: bytemuck::Pod,
{
    let Some([height, width]) = shape.output_size() else { return };
    let size = size_of::<L>();
    let pixels = shape.size[0] * shape.size[1];
    let image: Vec<L> = bytemuck::pod_collect_to_vec(&noise(seed, shape.channels * pixels * size));
    let count = shape.outputs * shape.channels / shape.groups * shape.kernel[0] * shape.kernel[1];
    let weights: Vec<L::Right> = bytemuck::pod_collect_to_vec(&noise(seed + 2, count * size));
    let pad = bytemuck::pod_read_unaligned::<L>(&noise(seed + 4, size));
    let starts: Vec<i32> = bytemuck::pod_collect_to_vec(&noise(seed + 6, shape.outputs * 4));
    let expected = reference(shape, &image, &weights, pad, &starts);
    let mut turned = image.clone();
    transpose(&image, shape.channels, &mut turned);
    for level in Level::available() {
        let convolution = Convolution::<L>::for_level(*shape, &weights, level);
        let mut out = vec![0; expected.len()];
        convolution.run(&image, ImageLayout::ChannelsFirst, pad, &starts, &mut out);
        assert!(out == expected, "{level} {shape:?} seed {seed}");
        // Channels last, in two parts.
        let mut last = vec![0; expected.len()];
        let (upper, lower) = last.split_at_mut(height / 2 * width * shape.outputs);
        convolution.rows(&turned, pad, &starts, 0..height / 2, upper);
        convolution.rows(&turned, pad, &starts, height / 2..height, lower);
        transpose(&last, height * width, &mut out);
        assert!(out == expected, "{level} {shape:?} seed {seed} by rows");
        let sums = weights.chunks(count / shape.outputs).map(|weights| {
            weights.iter().map(|weight| i32::from(L::wide_right(*weight))).sum::<i32>()
        });
        assert!(convolution.weight_sums().into_iter().eq(sums));
    }
}

fn plain() -> ConvShape {
    ConvShape {
        channels: 5,
        size: [6, 7],
        outputs: 9,
        kernel: [3, 2],
        strides: [1, 1],
        dilations: [1, 1],
        pads: [0; 4],
        groups: 1,
    }
}

#[test]
fn special_forms() {
    let forms = [
        plain(),
        ConvShape { kernel: [1, 1], ..plain() },
        ConvShape { kernel: [1, 1], channels: 6, outputs: 4, groups: 2, ..plain() },
        ConvShape { channels: 4, outputs: 4, groups: 4, pads: [1, 0, 2, 1], ..plain() },
        ConvShape { channels: 4, outputs: 8, groups: 4, ..plain() },
        ConvShape { size: [1, 19], kernel: [1, 5], pads: [0, 2, 0, 2], ..plain() },
        ConvShape { dilations: [2, 3], pads: [2, 2, 2, 2], ..plain() },
        ConvShape { size: [1, 1], kernel: [3, 3], pads: [1, 1, 1, 1], ..plain() },
        ConvShape { pads: [4, 4, 4, 4], strides: [3, 2], ..plain() },
        // Gathered in several parts.
        ConvShape { channels: 64, size: [30, 20], kernel: [3, 3], outputs: 2, ..plain() },
    ];
    for shape in forms {
        compare::<u8>(&shape, 1);
        compare::<i8>(&shape, 2);
        compare::<i16>(&shape, 3);
    }
}

#[test]
fn impossible_shapes_have_no_output() {
    let impossible = [
        ConvShape { kernel: [7, 2], ..plain() },
        ConvShape { kernel: [0, 2], ..plain() },
        ConvShape { strides: [0, 1], ..plain() },
        ConvShape { dilations: [1, 0], ..plain() },
        ConvShape { dilations: [usize::MAX, 1], ..plain() },
        ConvShape { pads: [usize::MAX, 0, 0, 0], ..plain() },
        ConvShape { groups: 2, ..plain() },
        ConvShape { groups: 0, ..plain() },
        ConvShape { channels: 0, ..plain() },
        ConvShape { size: [0, 7], ..plain() },
    ];
    for shape in impossible {
        assert_eq!(shape.output_size(), None, "{shape:?}");
    }
    assert_eq!(plain().output_size(), Some([4, 6]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn equals_the_definition(
        per_group in (1_usize..6, 1_usize..6),
        groups in 1_usize..4,
        size in prop::array::uniform2(1_usize..9),
        kernel in prop::array::uniform2(1_usize..4),
        strides in prop::array::uniform2(1_usize..4),
        dilations in prop::array::uniform2(1_usize..3),
        pads in prop::array::uniform4(0_usize..3),
        seed in 0_u64..1 << 60,
    ) {
        let (channels, outputs) = (per_group.0 * groups, per_group.1 * groups);
        let shape =
            ConvShape { channels, size, outputs, kernel, strides, dilations, pads, groups };
        compare::<u8>(&shape, seed);
        compare::<i8>(&shape, seed);
        compare::<i16>(&shape, seed);
        let depthwise = ConvShape { outputs: channels, groups: channels, ..shape };
        compare::<u8>(&depthwise, seed);
    }
}
