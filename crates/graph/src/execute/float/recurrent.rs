//! Recurrent layers in f32.

use super::{floats, operand};
use crate::{Cell, Recurrent, RecurrentOutput};
use quincunx_diag::Result;
use quincunx_tensor::Tensor;
use std::borrow::Cow;

type Numbers<'a> = Cow<'a, [f32]>;

/// The operands of one layer, see [`Recurrent`].
struct Operands<'a> {
    x: Numbers<'a>,
    w: Numbers<'a>,
    r: Numbers<'a>,
    bias: Option<Numbers<'a>>,
    state: Option<Numbers<'a>>,
    cell: Option<Numbers<'a>>,
    peepholes: Option<Numbers<'a>>,
}

/// Extents of a layer.
struct Extents {
    steps: usize,
    batch: usize,
    features: usize,
    hidden: usize,
    gates: usize,
}

/// State and cell of one sequence in one direction.
struct Memory {
    state: Vec<f32>,
    cell: Vec<f32>,
}

pub(super) fn recurrent(
    layer: &Recurrent,
    tensors: &[Option<&Tensor>],
    shape: &[usize],
) -> Result<Tensor> {
    let required = |index: usize| floats(operand(tensors, index)?);
    let optional = |index: usize| tensors.get(index).copied().flatten().map(floats).transpose();
    let operands = Operands {
        x: required(0)?,
        w: required(1)?,
        r: required(2)?,
        bias: optional(3)?,
        state: optional(4)?,
        cell: optional(5)?,
        peepholes: optional(6)?,
    };
    let x_shape = operand(tensors, 0)?.shape();
    let extents = Extents {
        steps: x_shape[0],
        batch: x_shape[1],
        features: x_shape[2],
        hidden: layer.hidden,
        gates: layer.cell.gates(),
    };
    Tensor::from_vec(shape, run(layer, &operands, &extents))
}

/// Runs every direction and sequence and collects the wanted result.
fn run(layer: &Recurrent, operands: &Operands<'_>, extents: &Extents) -> Vec<f32> {
    let Extents { steps, batch, hidden, .. } = *extents;
    let directions = layer.direction.reversed();
    let all = layer.output == RecurrentOutput::States;
    let mut out = vec![0.0; if all { steps } else { 1 } * directions.len() * batch * hidden];
    for (d, &reversed) in directions.iter().enumerate() {
        for n in 0..batch {
            let first = |numbers: &Option<Numbers<'_>>| match numbers {
                Some(numbers) => numbers[(d * batch + n) * hidden..][..hidden].to_vec(),
                None => vec![0.0; hidden],
            };
            let mut memory = Memory { state: first(&operands.state), cell: first(&operands.cell) };
            for step in 0..steps {
                let t = if reversed { steps - 1 - step } else { step };
                advance(layer.cell, operands, extents, d, t, n, &mut memory);
                if all {
                    let at = ((t * directions.len() + d) * batch + n) * hidden;
                    out[at..][..hidden].copy_from_slice(&memory.state);
                }
            }
            if !all {
                let last = match layer.output {
                    RecurrentOutput::LastCell => &memory.cell,
                    RecurrentOutput::States | RecurrentOutput::LastState => &memory.state,
                };
                out[(d * batch + n) * hidden..][..hidden].copy_from_slice(last);
            }
        }
    }
    out
}

/// One step of one sequence: step `t` of sequence `n` in direction `d`.
fn advance(
    cell: Cell,
    operands: &Operands<'_>,
    extents: &Extents,
    d: usize,
    t: usize,
    n: usize,
    memory: &mut Memory,
) {
    let Extents { batch, features, hidden, gates, .. } = *extents;
    let rows = gates * hidden;
    let x = &operands.x[(t * batch + n) * features..][..features];
    let w = &operands.w[d * rows * features..][..rows * features];
    let r = &operands.r[d * rows * hidden..][..rows * hidden];
    let bias = |row: usize| operands.bias.as_ref().map_or(0.0, |bias| bias[d * 2 * rows + row]);
    let from_x = |row: usize| dot(x, &w[row * features..][..features]) + bias(row);
    let from_state =
        |row: usize, state: &[f32]| dot(state, &r[row * hidden..][..hidden]) + bias(rows + row);
    match cell {
        Cell::Rnn => {
            let state = &memory.state;
            memory.state = (0..hidden).map(|j| (from_x(j) + from_state(j, state)).tanh()).collect();
        }
        Cell::Lstm => {
            let gates: Vec<f32> =
                (0..rows).map(|row| from_x(row) + from_state(row, &memory.state)).collect();
            let peepholes =
                operands.peepholes.as_ref().map(|all| &all[d * 3 * hidden..][..3 * hidden]);
            advance_lstm(&gates, peepholes, hidden, memory);
        }
        Cell::Gru { linear_before_reset } => {
            let state = memory.state.clone();
            let gate = |row: usize| logistic(from_x(row) + from_state(row, &state));
            let reset: Vec<f32> = (0..hidden).map(|j| gate(hidden + j)).collect();
            let candidate = |j: usize| {
                if linear_before_reset {
                    return reset[j] * from_state(2 * hidden + j, &state);
                }
                let kept: Vec<f32> = state.iter().zip(&reset).map(|(h, r)| h * r).collect();
                from_state(2 * hidden + j, &kept)
            };
            memory.state = (0..hidden)
                .map(|j| {
                    let update = gate(j);
                    let new = (from_x(2 * hidden + j) + candidate(j)).tanh();
                    (1.0 - update) * new + update * state[j]
                })
                .collect();
        }
    }
}

/// Gates `i o f c` before their functions; peepholes `i o f`.
fn advance_lstm(gates: &[f32], peepholes: Option<&[f32]>, hidden: usize, memory: &mut Memory) {
    for j in 0..hidden {
        let peephole =
            |gate: usize, cell: f32| peepholes.map_or(0.0, |p| p[gate * hidden + j] * cell);
        let old = memory.cell[j];
        let input = logistic(gates[j] + peephole(0, old));
        let forget = logistic(gates[2 * hidden + j] + peephole(2, old));
        let new = forget * old + input * gates[3 * hidden + j].tanh();
        let output = logistic(gates[hidden + j] + peephole(1, new));
        memory.cell[j] = new;
        memory.state[j] = output * new.tanh();
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}
