//! Programs with inputs, and outputs that plain loops over NCHW arrays compute. They share nothing
//! with the simulator.

mod conv;
mod moves;
mod vector;

use super::{Random, axes, with};
use quincunx_npu::isa::Inst;
use quincunx_npu::program::Program;
use quincunx_tensor::{Tensor, Tensors};

/// A program per core, with inputs and expected outputs by name.
pub struct Case {
    pub name: String,
    pub programs: Vec<Program>,
    pub inputs: Tensors,
    pub expected: Vec<(String, Vec<f64>)>,
}

/// A tensor of codes.
pub fn codes(random: &mut Random, shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    Tensor::from_vec(shape, random.codes(count)).unwrap()
}

pub fn tile(stem: &str, [c, h, w]: [usize; 3]) -> Vec<(String, i128)> {
    axes(stem, "chw", &[c as i128, h as i128, w as i128])
}

pub fn images(n: usize, [c, h, w]: [usize; 3]) -> Vec<(String, i128)> {
    axes("tile", "nchw", &[n as i128, c as i128, h as i128, w as i128])
}

pub const INT8: i128 = 1;
pub const FP16: i128 = 3;

/// Loads a tensor of DRAM base 0 to L2.
pub fn load(df: i128, dram: i128, l2: i128, n: usize, shape: [usize; 3]) -> [Inst; 2] {
    let config = [("sme", 1), ("df", df)];
    [
        with("lda_cfg", &config, &[tile("source", shape), tile("dest", shape)]),
        with("lda_mov", &[("staddr", dram), ("dtaddr", l2)], &[images(n, shape)]),
    ]
}

pub fn store(df: i128, l2: i128, dram: i128, n: usize, shape: [usize; 3]) -> [Inst; 2] {
    let config = [("sme", 1), ("df", df)];
    [
        with("sta_cfg", &config, &[tile("source", shape), tile("dest", shape)]),
        with("sta_mov", &[("staddr", l2), ("dtaddr", dram)], &[images(n, shape)]),
    ]
}

fn row(stem: &str, [c, r, s]: [usize; 3]) -> Vec<(String, i128)> {
    axes(stem, "crs", &[c as i128, r as i128, s as i128])
}

pub fn round(value: f32) -> f64 {
    f64::from(value.round_ties_even().clamp(-128.0, 127.0))
}

/// Every case.
pub fn all() -> Vec<Case> {
    let mut list = conv::convs();
    list.extend(vector::vectors());
    list.push(vector::scalar_register());
    list.extend(moves::reorders());
    list.push(moves::two_cores());
    list.push(moves::ring());
    list.push(moves::padded());
    list.push(super::extra::single_precision());
    list.push(super::extra::concurrent());
    list
}
