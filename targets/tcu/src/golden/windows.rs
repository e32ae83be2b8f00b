//! Which input positions every output position reads.

use quincunx_graph::Window;

/// The input position of every output position and tap.
pub(super) struct Reads {
    /// Taps of a window.
    pub(super) taps: usize,
    positions: Vec<Option<usize>>,
}

impl Reads {
    /// A window over a plane of extents `input` that gives one of extents `output`. Taps in the
    /// padding read nothing.
    pub(super) fn new(window: &Window, input: &[usize], output: &[usize]) -> Reads {
        let mut reads = Reads { taps: 1, positions: vec![Some(0)] };
        for axis in 0..input.len() {
            reads = reads.along(window, axis, input[axis], output[axis]);
        }
        reads
    }

    /// What leads to every output position of a transposed convolution: tap `t` of element `i` of an
    /// axis to `i * stride + t * dilation - pad`.
    pub(super) fn transposed(window: &Window, input: &[usize], output: &[usize]) -> Reads {
        let taps: usize = window.kernel.iter().product();
        let mut positions = vec![None; taps * output.iter().product::<usize>()];
        for place in 0..input.iter().product::<usize>() {
            for tap in 0..taps {
                let (mut rest, mut of_tap) = (place, tap);
                let (mut target, mut inside, mut size) = (0, true, 1);
                for axis in (0..input.len()).rev() {
                    let t = of_tap % window.kernel[axis] * window.dilations[axis];
                    let ahead = rest % input[axis] * window.strides[axis] + t;
                    let at = ahead.checked_sub(window.pads[axis].0).filter(|&at| at < output[axis]);
                    inside &= at.is_some();
                    target += at.unwrap_or(0) * size;
                    size *= output[axis];
                    (rest, of_tap) = (rest / input[axis], of_tap / window.kernel[axis]);
                }
                if inside {
                    positions[target * taps + tap] = Some(place);
                }
            }
        }
        Reads { taps, positions }
    }

    /// Every output position reads the next `taps` positions.
    pub(super) fn in_order(taps: usize, outputs: usize) -> Reads {
        Reads { taps, positions: (0..taps * outputs).map(Some).collect() }
    }

    /// The same with one more axis, the innermost.
    fn along(&self, window: &Window, axis: usize, input: usize, output: usize) -> Reads {
        let taps = window.kernel[axis];
        let mut positions = Vec::with_capacity(self.positions.len() * output * taps);
        for outer in 0..self.positions.len() / self.taps {
            for out in 0..output {
                for &base in self.of(outer) {
                    positions.extend((0..taps).map(|tap| {
                        let padded = out * window.strides[axis] + tap * window.dilations[axis];
                        let position = padded.checked_sub(window.pads[axis].0)?;
                        (position < input).then_some(base? * input + position)
                    }));
                }
            }
        }
        Reads { taps: self.taps * taps, positions }
    }

    /// What an output position reads, tap by tap.
    pub(super) fn of(&self, output: usize) -> &[Option<usize>] {
        &self.positions[output * self.taps..][..self.taps]
    }

    /// Number of output positions.
    pub(super) fn len(&self) -> usize {
        self.positions.len() / self.taps
    }
}
