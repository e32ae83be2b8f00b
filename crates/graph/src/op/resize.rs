//! Attributes of `Resize`, and where it reads.

/// How positions of the result become positions of the input. `out` and `in` are extents, `scale`
/// is what the attributes say or `out / in`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Coordinates {
    /// `(o + 0.5) / scale - 0.5`.
    HalfPixel,
    /// [`Coordinates::HalfPixel`], corrected so that a size that was rounded stays centred.
    HalfPixelSymmetric,
    /// [`Coordinates::HalfPixel`], but 0 where the result has one element.
    PytorchHalfPixel,
    /// `o * (in - 1) / (out - 1)`.
    AlignCorners,
    /// `o / scale`.
    Asymmetric,
    /// `(o + 0.5) / scale`; a form of TensorFlow for nearest elements.
    TfHalfPixel,
    /// The part of the input that [`Resize::roi`] names, as fractions of `in - 1`; positions
    /// outside of the input give the number `extrapolation`.
    CropAndResize {
        /// Number for positions outside.
        extrapolation: f32,
    },
}

/// Which of two neighbours is nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// The nearer one; of two equally near ones the lower.
    RoundPreferFloor,
    /// The nearer one; of two equally near ones the upper.
    RoundPreferCeil,
    /// The lower one.
    Floor,
    /// The upper one.
    Ceil,
}

/// How numbers between elements are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Interpolation {
    /// One element.
    Nearest(Nearest),
    /// On the straight line between two elements, along each axis.
    Linear,
    /// On the cubic through four elements, along each axis.
    Cubic {
        /// Slope parameter of the kernel.
        a: f32,
    },
}

/// Extents of the result along the resized axes.
#[derive(Clone, Debug, PartialEq)]
pub enum ResizeTarget {
    /// `floor(in * scale)`.
    Scales(Vec<f32>),
    /// As given.
    Sizes(Vec<usize>),
}

/// Attributes of a resizing. Input: `x`.
#[derive(Clone, Debug, PartialEq)]
pub struct Resize {
    /// Axes that are resized; the others stay.
    pub axes: Vec<usize>,
    /// Extents along these axes.
    pub target: ResizeTarget,
    /// Where results lie in the input.
    pub coordinates: Coordinates,
    /// How numbers between elements are found.
    pub interpolation: Interpolation,
    /// Neighbours outside of the input count nothing; else the element at the edge stands for
    /// them.
    pub exclude_outside: bool,
    /// Start and end of the part that [`Coordinates::CropAndResize`] takes, per resized axis; else
    /// empty.
    pub roi: Vec<(f32, f32)>,
}

/// Elements of an axis and their weights.
pub type ResizeTaps = Vec<(usize, f64)>;

impl Resize {
    /// True when elements are selected, not mixed.
    pub fn is_nearest(&self) -> bool {
        matches!(self.interpolation, Interpolation::Nearest(_))
    }

    /// True when every element of the result is an element of the input, never a number that is
    /// an attribute.
    pub fn keeps_grid(&self) -> bool {
        self.is_nearest() && !matches!(self.coordinates, Coordinates::CropAndResize { .. })
    }

    /// True when [`Resize::taps`] are exact: extents change by powers of two, and coordinates are
    /// computed without other divisions.
    pub fn is_exact(&self) -> bool {
        let power = |scale: &f32| *scale > 0.0 && f64::from(*scale).log2().fract() == 0.0;
        let simple = matches!(
            self.coordinates,
            Coordinates::HalfPixel | Coordinates::PytorchHalfPixel | Coordinates::Asymmetric
        );
        let scales = match &self.target {
            ResizeTarget::Scales(scales) => scales.iter().all(power),
            ResizeTarget::Sizes(_) => false,
        };
        self.is_nearest() || (simple && scales && !self.exclude_outside)
    }

    /// The number for positions outside of the input.
    pub(crate) fn extrapolation(&self) -> f32 {
        let Coordinates::CropAndResize { extrapolation } = self.coordinates else { return 0.0 };
        extrapolation
    }

    /// What every position along the resized axis `self.axes[index]` reads, given the extents of
    /// input and result: elements with weights that sum to 1, or nothing where the result is the
    /// extrapolation number.
    pub fn taps(&self, index: usize, input: usize, output: usize) -> Vec<ResizeTaps> {
        (0..output).map(|o| self.taps_at(index, input, output, o)).collect()
    }

    fn taps_at(&self, index: usize, input: usize, output: usize, o: usize) -> ResizeTaps {
        let position = self.coordinate(index, input as f64, output as f64, o as f64);
        let last = input as f64 - 1.0;
        let crop = matches!(self.coordinates, Coordinates::CropAndResize { .. });
        if crop && !(0.0..=last).contains(&position) {
            return Vec::new();
        }
        let base = position.floor();
        let fraction = position - base;
        let neighbours: Vec<(f64, f64)> = match self.interpolation {
            Interpolation::Nearest(nearest) => vec![(nearest.pick(position), 1.0)],
            Interpolation::Linear => vec![(base, 1.0 - fraction), (base + 1.0, fraction)],
            Interpolation::Cubic { a } => {
                (-1..=2).map(|k| (base + f64::from(k), cubic(fraction - f64::from(k), a))).collect()
            }
        };
        let outside = |at: f64| !(0.0..=last).contains(&at);
        let clamp = |(at, weight): (f64, f64)| (at.clamp(0.0, last.max(0.0)) as usize, weight);
        if !self.exclude_outside || self.is_nearest() {
            return neighbours.into_iter().map(clamp).collect();
        }
        let inside = neighbours.iter().copied().filter(|&(at, _)| !outside(at));
        let total: f64 = inside.clone().map(|(_, weight)| weight).sum();
        inside.map(|(at, weight)| clamp((at, weight / total))).collect()
    }

    /// Where position `o` of the result lies in the input.
    fn coordinate(&self, index: usize, input: f64, output: f64, o: f64) -> f64 {
        let scale = match &self.target {
            ResizeTarget::Scales(scales) => scales.get(index).copied().map_or(1.0, f64::from),
            ResizeTarget::Sizes(_) => output / input,
        };
        let half_pixel = (o + 0.5) / scale - 0.5;
        match self.coordinates {
            Coordinates::HalfPixel => half_pixel,
            Coordinates::PytorchHalfPixel if output > 1.0 => half_pixel,
            Coordinates::PytorchHalfPixel => 0.0,
            Coordinates::HalfPixelSymmetric => {
                let adjustment = output / (scale * input);
                input / 2.0 * (1.0 - adjustment) + half_pixel
            }
            Coordinates::AlignCorners if output > 1.0 => o * (input - 1.0) / (output - 1.0),
            Coordinates::AlignCorners => 0.0,
            Coordinates::Asymmetric => o / scale,
            Coordinates::TfHalfPixel => (o + 0.5) / scale,
            Coordinates::CropAndResize { .. } => {
                let (start, end) = self.roi.get(index).copied().unwrap_or((0.0, 1.0));
                let (start, end) = (f64::from(start), f64::from(end));
                if output > 1.0 {
                    start * (input - 1.0) + o * (end - start) * (input - 1.0) / (output - 1.0)
                } else {
                    0.5 * (start + end) * (input - 1.0)
                }
            }
        }
    }
}

impl Nearest {
    /// Positions are compared as f32: scales are, so what should be a tie is one only to that
    /// precision.
    fn pick(self, position: f64) -> f64 {
        let position = f64::from(position as f32);
        match self {
            Nearest::RoundPreferFloor => (position - 0.5).ceil(),
            Nearest::RoundPreferCeil => (position + 0.5).floor(),
            Nearest::Floor => position.floor(),
            Nearest::Ceil => position.ceil(),
        }
    }
}

/// The cubic convolution kernel at `distance`.
fn cubic(distance: f64, a: f32) -> f64 {
    let (d, a) = (distance.abs(), f64::from(a));
    if d <= 1.0 {
        ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    } else if d < 2.0 {
        ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    } else {
        0.0
    }
}
