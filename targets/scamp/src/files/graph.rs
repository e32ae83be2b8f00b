//! Kernel files as graphs: one convolution with exact weights.

use super::{KernelFile, Mode};
use crate::goal::{Cell, Goal};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Conv, Graph, Op, Param, Quantiser, Window};
use quincunx_num::Rounding;
use quincunx_tensor::{DType, Tensor, element_count};
use std::num::Saturating;

/// Most weights of a graph.
const MAX_WEIGHTS: usize = 1 << 24;

/// The network that a kernel file asks for: an image `[1, C, H, W]` with one channel for each input
/// register, a convolution whose weights are exact multiples of 2^-d, and a result with one channel
/// for each output register, of the same height and width; beyond the edge there are zeros. In digital
/// and super-pixel mode there are quantisers before and behind the convolution: to the nearest whole
/// numbers of so many bits, and down to them; both wrap.
///
/// # Errors
/// `Q5054` when a weight is not an exact f32, or the kernels are too large; `Q5052` for a mode
/// whose numbers are not real numbers.
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
    let mut graph = Graph::new(&file.name);
    let mut x = graph.add_input("image", DType::F32, &[1, channels, height, width], &[])?;
    if let Some(layout) = &file.digital {
        let grid = layout.grid(file.mode, Rounding::HalfEven);
        x = graph.add_node("enter", Op::Quantise(grid), &[Some(x)], "numbers")?;
    }
    let w = graph.add_constant("kernels", Tensor::from_vec(&size, weights)?)?;
    let mut window = Window::new(&[rows, columns]);
    window.pads = [(reach_y, reach_y), (reach_x, reach_x)].into_iter().collect();
    let conv = Op::Conv(Conv { window, groups: 1 });
    let name = if file.digital.is_some() { "sums" } else { "filtered" };
    let mut y = graph.add_node("filter", conv, &[Some(x), Some(w)], name)?;
    if let Some(layout) = &file.digital {
        let grid = layout.grid(file.mode, Rounding::Floor);
        if file.mode == Mode::SuperPixel && depth > 0 {
            // Sums have no more bits than a bank: they wrap before they are halved.
            let fine = Quantiser {
                scale: Param::uniform(1.0 / 2.0_f64.powi(depth as i32)),
                ..grid.clone()
            };
            y = graph.add_node("wrap", Op::Quantise(fine), &[Some(y)], "wrapped")?;
        }
        y = graph.add_node("leave", Op::Quantise(grid), &[Some(y)], "filtered")?;
    }
    graph.add_output(y);
    Ok(graph)
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
