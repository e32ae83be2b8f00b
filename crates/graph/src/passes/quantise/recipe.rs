//! What the user says about quantising.

use super::Method;
use quincunx_diag::{Diagnostic, Result};
use std::collections::BTreeMap;

/// How to quantise every layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Fixed point: every scale is a power of two, one per tensor; no zero points.
    PowerOfTwo {
        /// Bits of weights.
        weights: u32,
        /// Bits of activations and inputs.
        activations: u32,
    },
    /// Any scale; activations have a zero point, weights one scale per output channel.
    Affine {
        /// Bits of weights.
        weights: u32,
        /// Bits of activations and inputs.
        activations: u32,
    },
    /// Fixed point of one format for everything, whatever the ranges are: signed codes of `width`
    /// bits, `point` of them below the binary point.
    Uniform {
        /// Bits of all codes.
        width: u32,
        /// Bits below the binary point.
        point: u32,
    },
}

impl Scheme {
    /// Fixed point with 8-bit weights and activations.
    pub const POWER_OF_TWO_8: Scheme = Scheme::PowerOfTwo { weights: 8, activations: 8 };
    /// Affine with 8-bit weights and activations.
    pub const AFFINE_INT8: Scheme = Scheme::Affine { weights: 8, activations: 8 };
}

/// Kind of grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grid {
    /// As [`Scheme::PowerOfTwo`]: 1 to 32 bits.
    PowerOfTwo,
    /// As [`Scheme::Affine`]: 2 to 16 bits.
    Affine,
    /// As [`Scheme::Uniform`]: 2 to 32 bits, always signed.
    Uniform {
        /// Bits below the binary point, less than all bits.
        point: u32,
    },
}

/// How one layer is quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Kind of its grids.
    pub grid: Grid,
    /// Bits of weights; they always are signed.
    pub weights: u32,
    /// Bits of its result.
    pub activations: u32,
    /// Sign of its result. Without it, codes of [`Grid::Affine`] are unsigned, those of
    /// [`Grid::PowerOfTwo`] signed where a number is negative.
    pub signed: Option<bool>,
    /// Its parameters stay float, and its result is on a grid only for layers that are quantised.
    pub skip: bool,
}

impl From<&Scheme> for Settings {
    fn from(scheme: &Scheme) -> Self {
        let (grid, weights, activations) = match *scheme {
            Scheme::PowerOfTwo { weights, activations } => (Grid::PowerOfTwo, weights, activations),
            Scheme::Affine { weights, activations } => (Grid::Affine, weights, activations),
            Scheme::Uniform { width, point } => (Grid::Uniform { point }, width, width),
        };
        Settings { grid, weights, activations, signed: None, skip: false }
    }
}

/// What is different for one layer; `None` is as elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// See [`Settings::grid`].
    pub grid: Option<Grid>,
    /// See [`Settings::weights`].
    pub weights: Option<u32>,
    /// See [`Settings::activations`].
    pub activations: Option<u32>,
    /// See [`Settings::signed`].
    pub signed: Option<bool>,
    /// See [`Settings::skip`].
    pub skip: Option<bool>,
}

impl Overrides {
    /// These settings with what is different.
    #[must_use]
    pub fn apply(&self, to: Settings) -> Settings {
        Settings {
            grid: self.grid.unwrap_or(to.grid),
            weights: self.weights.unwrap_or(to.weights),
            activations: self.activations.unwrap_or(to.activations),
            signed: self.signed.or(to.signed),
            skip: self.skip.unwrap_or(to.skip),
        }
    }

    /// Both, where `later` outweighs.
    #[must_use]
    pub fn with(&self, later: &Overrides) -> Overrides {
        Overrides {
            grid: later.grid.or(self.grid),
            weights: later.weights.or(self.weights),
            activations: later.activations.or(self.activations),
            signed: later.signed.or(self.signed),
            skip: later.skip.or(self.skip),
        }
    }
}

/// How a graph is quantised.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// How ranges follow from observed numbers.
    pub method: Method,
    /// For every layer.
    pub default: Settings,
    /// For single layers: by name of the node, or of the input for its activations. A ReLU, leaky
    /// ReLU or Clip that is quantised in place of the layer before it also takes what is said about
    /// that layer.
    pub layers: BTreeMap<String, Overrides>,
}

impl From<&Scheme> for Recipe {
    fn from(scheme: &Scheme) -> Self {
        let default = Settings::from(scheme);
        Recipe { method: Method::default(), default, layers: BTreeMap::new() }
    }
}

impl Recipe {
    /// Checks widths and percentile.
    ///
    /// # Errors
    /// `Q0315` names what is out of range.
    pub fn check(&self) -> Result<()> {
        if let Method::Percentile(percent) = self.method
            && !(50.0..=100.0).contains(&percent)
        {
            return Err(cannot(format!("percentile {percent}, expected 50 to 100")));
        }
        check_widths(&self.default, "the default")?;
        self.layers.iter().try_for_each(|(name, layer)| {
            check_widths(&layer.apply(self.default), &format!("layer \"{name}\""))
        })
    }
}

fn check_widths(settings: &Settings, whose: &str) -> Result<()> {
    let (grid, range) = match settings.grid {
        Grid::PowerOfTwo => ("powers of two", 1..=32),
        Grid::Affine => ("affine grids", 2..=16),
        // A bit for the sign, and those below the binary point.
        Grid::Uniform { point } => ("uniform grids", point.saturating_add(1).max(2)..=32),
    };
    if matches!(settings.grid, Grid::Uniform { .. }) && settings.signed == Some(false) {
        return Err(cannot(format!("unsigned codes for {whose}, but uniform grids are signed")));
    }
    for (what, width) in [("weights", settings.weights), ("activations", settings.activations)] {
        if !range.contains(&width) {
            return Err(cannot(format!(
                "{what} of {width} bits for {whose}, expected {} to {} for {grid}",
                range.start(),
                range.end()
            )));
        }
    }
    Ok(())
}

/// A wish that cannot be followed.
pub(super) fn cannot(what: String) -> Diagnostic {
    Diagnostic::usage("Q0315", what)
}
