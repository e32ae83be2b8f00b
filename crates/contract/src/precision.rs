//! What a machine rounds.

use crate::{Arch, Numbers, Numerics, Options};
use quincunx_graph::execute::bounds::{Precision, Step};
use quincunx_tensor::DType;

/// A machine that computes a compiled graph.
#[derive(Clone, Copy)]
pub struct Computing<'a> {
    /// Its parameters.
    pub arch: &'a dyn Arch,
    /// Options of the compiler.
    pub options: &'a Options,
    /// What the compiler chose.
    pub numerics: &'a Numerics,
}

impl Numbers {
    /// What a machine rounds that computes with these numbers and has every result in them: on grids
    /// of the graph, nothing but what its quantisers say; in floats and in a format of its own, every
    /// constant and result, and sums of floats in f32.
    pub fn precision(&self) -> Precision {
        match self {
            Numbers::Quantised(_) => Precision::default(),
            Numbers::Float { dtype, .. } => {
                let held = Step::float(significand(*dtype));
                Precision { constants: held, sums: Step::float(24), results: held, range: None }
            }
            Numbers::Own { formats, .. } => {
                let scalars = formats.first().and_then(|format| format.grid.scalars(&[]));
                let Some([grid]) = scalars.as_deref() else { return Precision::default() };
                let held = Step::grid(grid.scale);
                let range = Some(grid.ends());
                Precision { constants: held, sums: held, results: held, range }
            }
        }
    }
}

/// Bits of the significand, the hidden one among them.
fn significand(dtype: DType) -> i32 {
    match dtype {
        DType::BF16 => 8,
        DType::F16 => 11,
        _ => 24,
    }
}
