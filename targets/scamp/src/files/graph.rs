//! Kernel files as graphs: one convolution with exact weights.

use super::{Around, KernelFile, Mode, grid};
use crate::goal::{Cell, Goal};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Binary, Conv, Graph, Op, Param, Quantiser, Unary, ValueId, Window};
use quincunx_num::Rounding;
use quincunx_tensor::{DType, Tensor, element_count};
use std::num::Saturating;

/// Most weights of a graph.
const MAX_WEIGHTS: usize = 1 << 24;

/// The network that a kernel file asks for: an image `[1, C, H, W]` with one channel for each input
/// register, a convolution whose weights are exact multiples of 2^-d, and a result with one channel
/// for each output register, of the same height and width; beyond the edge there are zeros. In digital
/// and super-pixel mode there are quantisers before and behind the convolution: to the nearest whole
/// numbers of so many bits, and down to them; both wrap. Where super-pixels have converters, the image is
/// multiplied by a power of two and rounded down to what they give, without wrapping, and the result
/// likewise; biases and ReLU stand between.
///
/// # Errors
/// `Q5054` when a weight or bias is not an exact f32, or the kernels are too large; `Q5052` and `Q5127`
/// for stages on numbers that are no inputs or results, or on some inputs only.
pub fn to_graph(file: &KernelFile, height: usize, width: usize) -> Result<Graph> {
    let (depth, _) = file.approximation();
    let goals = file.goals(depth)?.0;
    let (reach_x, reach_y) = reach(&goals);
    let span = |reach: usize| reach.saturating_mul(2).saturating_add(1);
    let (rows, columns, channels) = (span(reach_y), span(reach_x), file.channels());
    let size = [goals.len(), channels, rows, columns];
    let Some(count) = element_count(&size).filter(|&count| count <= MAX_WEIGHTS) else {
        return Err(too_large(format!("the kernels span {rows} x {columns} cells")));
    };
    let mut weights = vec![0.0_f32; count];
    for (index, goal) in goals.iter().enumerate() {
        for (Cell { x, y, z }, units) in goal.cells() {
            let weight = units as f64 / 2.0_f64.powi(depth as i32);
            if f64::from(weight as f32) != weight {
                return Err(too_large(format!("the weight {weight} is not exact in f32")));
            }
            // South of the centre rows are later, east of it columns.
            let after =
                |centre: usize, by: i32| Saturating(centre.saturating_add_signed(by as isize));
            let (row, column) = (after(reach_y, y.saturating_neg()), after(reach_x, x));
            let plane = Saturating(index) * Saturating(channels) + Saturating(z as usize);
            let at = (plane * Saturating(rows) + row) * Saturating(columns) + column;
            weights[at.0] = weight as f32;
        }
    }
    let outputs: Vec<String> = file.outputs().into_iter().map(str::to_owned).collect();
    let around = |stages| Around::new(stages, file.channel_inputs(), &outputs);
    let around = file.digital.as_ref().map(|layout| around(&layout.stages)).transpose()?;
    let mut chain = Chain { graph: Graph::new(&file.name), last: None };
    let image = chain.graph.add_input("image", DType::F32, &[1, channels, height, width], &[])?;
    chain.last = Some(image);
    if let (Some(layout), Some(around)) = (&file.digital, &around) {
        let (factors, grid) = around.enter(layout.grid(file.mode, Rounding::HalfEven));
        if let Some(factors) = factors {
            chain.with("scale", Op::Binary(Binary::Mul), &factors, "scaled")?;
        }
        chain.push("enter", Op::Quantise(grid), "numbers")?;
    }
    let w = chain.graph.add_constant("kernels", Tensor::from_vec(&size, weights)?)?;
    let mut window = Window::new(&[rows, columns]);
    window.pads = [(reach_y, reach_y), (reach_x, reach_x)].into_iter().collect();
    let conv = Op::Conv(Conv { window, groups: 1 });
    let name = if file.digital.is_some() { "sums" } else { "filtered" };
    chain.last = Some(chain.graph.add_node("filter", conv, &[chain.last, Some(w)], name)?);
    if let (Some(layout), Some(around)) = (&file.digital, &around) {
        let grid = layout.grid(file.mode, Rounding::Floor);
        if file.mode == Mode::SuperPixel && depth > 0 {
            // Sums have no more bits than a bank: they wrap before they are halved.
            let fine = Quantiser {
                scale: Param::uniform(1.0 / 2.0_f64.powi(depth as i32)),
                ..grid.clone()
            };
            chain.push("wrap", Op::Quantise(fine), "wrapped")?;
        }
        chain.push("leave", Op::Quantise(grid), "filtered")?;
        chain.stages(around, layout.bits)?;
    }
    let Chain { mut graph, last } = chain;
    last.into_iter().for_each(|y| graph.add_output(y));
    Ok(graph)
}

/// A network each of whose nodes reads the one before it.
struct Chain {
    graph: Graph,
    last: Option<ValueId>,
}

impl Chain {
    fn push(&mut self, name: &str, op: Op, value: &str) -> Result<()> {
        self.last = Some(self.graph.add_node(name, op, &[self.last], value)?);
        Ok(())
    }

    /// A node with a constant for each channel.
    fn with(&mut self, name: &str, op: Op, constants: &[f64], value: &str) -> Result<()> {
        let exact = |&constant: &f64| {
            let rounded = constant as f32;
            let is_exact = f64::from(rounded) == constant;
            is_exact
                .then_some(rounded)
                .ok_or_else(|| too_large(format!("{constant} is not exact in f32")))
        };
        let values = constants.iter().map(exact).collect::<Result<Vec<_>>>()?;
        let tensor = Tensor::from_vec(&[constants.len(), 1, 1], values)?;
        let constant = self.graph.add_constant(&format!("{name} by"), tensor)?;
        self.last = Some(self.graph.add_node(name, op, &[self.last, Some(constant)], value)?);
        Ok(())
    }

    /// What follows the kernels: biases, ReLU, converters.
    fn stages(&mut self, around: &Around, bits: usize) -> Result<()> {
        if let Some(bias) = &around.bias {
            let bias: Vec<f64> = bias.iter().map(|&bias| bias as f64).collect();
            self.with("bias", Op::Binary(Binary::Add), &bias, "biased")?;
            self.push("keep", Op::Quantise(grid(true, bits, Rounding::Floor)), "kept")?;
        }
        if around.relu.iter().all(|&relu| relu) {
            self.push("relu", Op::Unary(Unary::Relu), "positive")?;
        } else if around.relu.contains(&true) {
            // ReLU where slopes are 0.
            let slopes: Vec<f64> = around.relu.iter().map(|&r| f64::from(u8::from(!r))).collect();
            self.with("relu", Op::PRelu, &slopes, "positive")?;
        }
        if let Some((grid, factors)) = around.leave(bits) {
            self.push("limit", Op::Quantise(grid), "limited")?;
            if let Some(factors) = factors {
                self.with("rescale", Op::Binary(Binary::Mul), &factors, "analogue")?;
            }
        }
        Ok(())
    }
}

fn reach(goals: &[Goal]) -> (usize, usize) {
    let cells = || goals.iter().flat_map(Goal::cells).map(|(cell, _)| cell);
    let x = cells().map(|cell| cell.x.unsigned_abs()).max().unwrap_or(0);
    let y = cells().map(|cell| cell.y.unsigned_abs()).max().unwrap_or(0);
    (x as usize, y as usize)
}

fn too_large(what: String) -> Diagnostic {
    Diagnostic::unsupported("Q5054", what)
}
