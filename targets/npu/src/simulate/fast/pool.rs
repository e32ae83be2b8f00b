//! Windows of vector instructions: pooling and enlarging.

use super::codes::{Code, decode};
use super::place::{Axes, Input, OUTSIDE, Steps, Tensor};
use super::vector::Modules;
use crate::isa::CMPS;
use crate::simulate::state::State;
use crate::simulate::vector::{COMPARE, extreme};
use crate::work::{self, VectorKind, pitch};

/// The input of `vp_pool` and `vp_upsm`.
pub(super) struct Windows {
    input: Input,
    code: Code,
    map: Option<(f32, f32)>,
    /// The value outside; `None` when only what lies inside counts.
    pad: Option<f32>,
    /// What is kept of a window; `None` for the sum.
    kept: Option<CMPS>,
}

impl Windows {
    pub(super) fn new(
        core: usize,
        vector: &work::Vector,
        output: &Tensor,
        axes: &mut Axes,
        state: &State,
    ) -> Option<Windows> {
        let config = &vector.config;
        let bytes = vector.input_bytes();
        let pixel = i64::from(pitch(config.source[0], bytes));
        let enlarges = vector.kind == VectorKind::Enlarge;
        let pad = (config.pad != i16::MIN).then(|| f32::from(config.pad));
        let mut axis = |axis: usize, pitch: i64| {
            axes.get(Steps {
                outputs: config.tile[axis + 1],
                window: if enlarges { 1 } else { config.window[axis] },
                stride: config.stride[axis],
                dilate: 1,
                insert: 1,
                start: vector.start[axis],
                extent: config.source[axis + 1],
                pitch,
                // Without a value for the outside, the nearest position is enlarged.
                enlarge: enlarges.then_some(pad.is_none()),
                width: 0,
            })
        };
        let axes = [axis(0, i64::from(config.source[2]) * pixel)?, axis(1, pixel)?];
        let used = i64::from(config.source[0]) * i64::from(bytes);
        let ring = state.region(core, vector.input).ok()?;
        let input = Input::new(ring, vector.input.address, axes, (pixel, used), (1, 0))?;
        let kept = (vector.modules & COMPARE != 0).then_some(config.compare.0);
        input.is_apart(output).then_some(Windows {
            input,
            code: Code::new(bytes, config.signed[0]),
            map: vector.dequantise.then_some(config.dequantisers[0]),
            pad,
            kept,
        })
    }

    /// The values of an output position; `item` has room for those of one input position.
    #[inline(always)]
    pub(super) fn reduce(
        &self,
        l2: &[u8],
        modules: &Modules,
        scalars: [f32; 3],
        [y, x]: [usize; 2],
        (values, item): (&mut [f32], &mut [f32]),
    ) {
        let channels = values.len();
        let mut is_first = true;
        for &row in self.input.rows.of(y) {
            for &column in self.input.columns.of(x) {
                let target = if is_first { &mut *values } else { &mut *item };
                if row == OUTSIDE || column == OUTSIDE {
                    let Some(pad) = self.pad else { continue };
                    target.fill(pad);
                } else {
                    let start = (self.input.origin + row + column) as usize;
                    let codes = &l2[start..][..channels * self.code.bytes()];
                    decode(codes, self.code, self.map, target);
                }
                modules.groups(target, None, channels, scalars);
                if std::mem::take(&mut is_first) {
                    continue;
                }
                for (value, &new) in values.iter_mut().zip(&*item) {
                    *value = match self.kept {
                        None => *value + new,
                        Some(kept) => extreme(*value, new, kept),
                    };
                }
            }
        }
        // `Q4035` else.
        debug_assert!(!is_first, "every window has a position inside");
    }
}
