//! Inputs that the host packs: what every output position of a convolution reads is one position,
//! so that the products need no more vectors than the numbers that they multiply fill.

use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Window;
use serde::{Deserialize, Serialize};

/// How an input `[N, C, H, W]` becomes `[N, C * KH * KW, OH, OW]`: channel `(c * KH + kh) * KW + kw` of
/// position `(oh, ow)` is element `(c, oh * SH + kh * DH - top, ow * SW + kw * DW - left)`, zero outside.
/// In vectors, all positions of the first channels come first, then those of the next ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packing {
    /// Shape of the input.
    pub shape: [usize; 4],
    /// Extents of the kernel.
    pub kernel: [usize; 2],
    /// Distance between two positions.
    pub strides: [usize; 2],
    /// Distance between two elements of a kernel.
    pub dilations: [usize; 2],
    /// Zeros before and behind the rows, and before and behind the columns.
    pub pads: [[usize; 2]; 2],
}

impl Packing {
    /// The packing for a convolution of two spatial axes.
    pub(crate) fn new(shape: [usize; 4], window: &Window) -> Packing {
        let pads = [0, 1].map(|axis| [window.pads[axis].0, window.pads[axis].1]);
        let [kernel, strides, dilations] = [&window.kernel, &window.strides, &window.dilations]
            .map(|extents| [extents[0], extents[1]]);
        Packing { shape, kernel, strides, dilations, pads }
    }

    /// Shape of what the machine gets.
    ///
    /// # Errors
    /// `Q3117` for a window that does not fit the input, or too many elements.
    pub fn packed_shape(&self) -> Result<[usize; 4]> {
        self.extents().ok_or_else(|| {
            Diagnostic::invalid(
                "Q3117",
                "the packing of an input does not have the extents of a convolution",
            )
            .help("expected kernel, strides and dilations of 1 or more that fit the shape")
        })
    }

    fn extents(&self) -> Option<[usize; 4]> {
        let [n, mut channels, height, width] = self.shape;
        let mut positions = [height, width];
        for (axis, extent) in positions.iter_mut().enumerate() {
            let [before, behind] = self.pads[axis];
            let padded = extent.checked_add(before)?.checked_add(behind)?;
            let reach = self.dilations[axis].checked_mul(self.kernel[axis].checked_sub(1)?)?;
            let room = padded.checked_sub(reach)?.checked_sub(1)?;
            if self.dilations[axis] == 0 {
                return None;
            }
            *extent = room.checked_div(self.strides[axis])?.checked_add(1)?;
            channels = channels.checked_mul(self.kernel[axis])?;
        }
        let out = [n, channels, positions[0], positions[1]];
        let count = |shape: &[usize; 4]| {
            shape.iter().try_fold(1_usize, |all, &extent| all.checked_mul(extent))
        };
        let fits = [count(&out)?, count(&self.shape)?];
        fits.iter().all(|count| (1..1 << 31).contains(count)).then_some(out)
    }

    /// The vectors of an input's elements, none for other numbers of them.
    #[expect(clippy::arithmetic_side_effects, reason = "there are fewer than 2^31 of everything")]
    pub(crate) fn vectors<T: Copy + Default>(&self, elements: &[T], lanes: usize) -> Vec<T> {
        let Some([n, packed, out_h, out_w]) = self.extents() else { return Vec::new() };
        let [_, channels, height, width] = self.shape;
        if elements.len() != n * channels * height * width {
            return Vec::new();
        }
        let along = |axis: usize, at: usize, tap: usize, extent: usize| {
            let place = at * self.strides[axis] + tap * self.dilations[axis];
            place.checked_sub(self.pads[axis][0]).filter(|&place| place < extent)
        };
        let [rows, columns] = self.kernel;
        let positions = n * out_h * out_w;
        let mut vectors = vec![T::default(); packed.div_ceil(lanes) * positions * lanes];
        for (plane, data) in elements.chunks_exact(height * width).enumerate() {
            let (image, channel) = (plane / channels, plane % channels);
            for tap in 0..rows * columns {
                let to = channel * rows * columns + tap;
                let first = to / lanes * positions + image * out_h * out_w;
                for position in 0..out_h * out_w {
                    let h = along(0, position / out_w, tap / columns, height);
                    let w = along(1, position % out_w, tap % columns, width);
                    if let (Some(h), Some(w)) = (h, w) {
                        vectors[(first + position) * lanes + to % lanes] = data[h * width + w];
                    }
                }
            }
        }
        vectors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_holds_what_a_window_reads() {
        let packing = Packing {
            shape: [1, 2, 3, 3],
            kernel: [2, 1],
            strides: [2, 2],
            dilations: [1, 1],
            pads: [[1, 0], [0, 0]],
        };
        assert_eq!(packing.packed_shape().unwrap(), [1, 4, 2, 2]);
        let elements: Vec<i32> = (1..=18).collect();
        // Four positions of three channels, then of one: rows -1 and 1, and 0 and 2.
        let vectors = packing.vectors(&elements, 3);
        assert_eq!(vectors[..12], [0, 1, 0, 0, 3, 0, 4, 7, 13, 6, 9, 15]);
        assert_eq!(vectors[12..], [10, 0, 0, 12, 0, 0, 16, 0, 0, 18, 0, 0]);
        let wrong = |packing: Packing| packing.packed_shape().unwrap_err().code();
        assert_eq!(wrong(Packing { kernel: [5, 1], ..packing.clone() }), "Q3117");
        assert_eq!(wrong(Packing { strides: [0, 1], ..packing.clone() }), "Q3117");
        assert_eq!(wrong(Packing { dilations: [1, 0], ..packing.clone() }), "Q3117");
        assert_eq!(wrong(Packing { shape: [1 << 40, 1 << 20, 3, 3], ..packing }), "Q3117");
    }
}
