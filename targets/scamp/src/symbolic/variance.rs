//! How much of the noise of bus steps is in the outputs of a program: one pass from an output back to
//! the inputs says how much of every value that is written is in the output.

use crate::expand::expand;
use crate::isa::{Class, Gate, Inst, Reg};
use crate::program::Program;
use quincunx_diag::{Diagnostic, Place, Result};
use std::collections::BTreeMap;

/// Factors by the offset of the element to the east and the north.
type Factors = BTreeMap<(i32, i32), f64>;

/// Factors that all passes of a program may handle: some seconds; beyond any program of the field.
const MAX_WORK: usize = 1 << 24;

/// The variance of each output, far from the edge, when every write has the noise of
/// [`crate::simulate::Noise::sigma`], independent of all others, as the simulator has it.
///
/// # Errors
/// `Q5040` where FLAG would depend on data, `Q5041` when there are too many factors.
pub fn variances(program: &Program, outputs: &[Reg], sigma: [f64; 3]) -> Result<Vec<f64>> {
    let mut work = 0;
    outputs.iter().map(|&output| variance(program, output, sigma, &mut work)).collect()
}

fn variance(program: &Program, output: Reg, sigma: [f64; 3], work: &mut usize) -> Result<f64> {
    // How much of what a register holds is in the output.
    let mut adjoint = BTreeMap::from([(output, Factors::from([((0, 0), 1.0)]))]);
    let mut total = 0.0;
    for (index, inst) in program.instructions.iter().enumerate().rev() {
        for step in expand(inst).iter().rev() {
            total += back(step, &mut adjoint, sigma, work)
                .map_err(|problem| problem.at(Place::Instruction(index)))?;
        }
    }
    Ok(total)
}

/// Goes back over a step; the variance that it adds.
fn back(
    step: &Inst,
    adjoint: &mut BTreeMap<Reg, Factors>,
    sigma: [f64; 3],
    work: &mut usize,
) -> Result<f64> {
    if matches!(step.class(), Class::Condition | Class::Digital(Gate::Where)) {
        let message = format!("after {} not all elements do the same", step.text());
        return Err(Diagnostic::unsupported("Q5040", message)
            .help("noise is followed in programs without conditions only"));
    }
    if let Inst::Input { y, .. } = step {
        adjoint.remove(y);
    }
    let Some(bus) = step.bus() else { return Ok(0.0) };
    let (mut sum, mut squares) = (Factors::new(), 0.0);
    for &receiver in &bus.receivers {
        let way = receiver.direction().map_or((0, 0), |direction| direction.opposite().step());
        let storage = if receiver.direction().is_some() { Reg::NEWS } else { receiver };
        let factors = adjoint.remove(&storage).unwrap_or_default();
        squares += factors.values().map(|factor| factor * factor).sum::<f64>();
        *work = work.saturating_add(factors.len());
        add(&mut sum, &factors, way, 1.0);
    }
    let share = -1.0 / bus.receivers.len() as f64;
    for &source in &bus.sources {
        let way = source.direction().map_or((0, 0), |direction| direction.step());
        let storage = if source.direction().is_some() { Reg::NEWS } else { source };
        *work = work.saturating_add(sum.len());
        add(adjoint.entry(storage).or_default(), &sum, way, share);
    }
    if *work > MAX_WORK {
        return Err(Diagnostic::unsupported(
            "Q5041",
            "the program makes more noise than can be followed",
        ));
    }
    let [one, two, more] = sigma;
    let sigma = match bus.receivers.len() {
        1 => one,
        2 => two,
        _ => more,
    };
    Ok(sigma * sigma * squares)
}

fn add(sum: &mut Factors, factors: &Factors, (dx, dy): (i32, i32), scale: f64) {
    for (&(x, y), factor) in factors {
        let place = (x.saturating_add(dx), y.saturating_add(dy));
        *sum.entry(place).or_insert(0.0) += scale * factor;
    }
}
