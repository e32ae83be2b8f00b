//! The operation that gave an element of a layer its number.

use super::exec::Exec;
use crate::isa::{Inst, Slot};
use crate::simulate::Executor;
use crate::text::{print_operation, shortest};
use quincunx_contract::Origin;
use quincunx_diag::Result;
use quincunx_num::Dyadic;
use quincunx_tensor::Tensors;

impl Exec {
    /// Runs the program; every slot is written once, by the operation with its number. `None` for an
    /// element that the compiler knew.
    ///
    /// # Errors
    /// As a run.
    pub(super) fn origin(
        &mut self,
        inputs: &Tensors,
        layer: usize,
        element: usize,
    ) -> Result<Option<Origin>> {
        self.execute(inputs)?;
        let Some((stage, slot)) = self.ports.taps[layer][element].slot() else { return Ok(None) };
        let stages = self.executor.stages();
        let (suffix, of_stage) = match stages.len() {
            1 => (String::new(), String::new()),
            _ => (format!("@{stage}"), format!(" of stage {stage}")),
        };
        let executor = &stages[stage];
        let index = slot.0 as usize;
        let operation = &executor.program().operations[index];
        let mut text = String::new();
        print_operation(index, operation, &mut text);
        let held = |slot: Slot| (format!("%{}{suffix}", slot.0), number(&executor.value(slot)));
        Ok(Some(Origin {
            place: format!("instruction {index}{of_stage}"),
            text,
            operands: input(executor, operation.inst)
                .into_iter()
                .chain(operation.inst.operands().map(held))
                .collect(),
            result: held(slot),
        }))
    }
}

/// What an input operation reads.
fn input(executor: &Executor, inst: Inst) -> Option<(String, String)> {
    let Inst::Input { source } = inst else { return None };
    Some((format!("input {}", source.0), number(executor.input(source)?)))
}

fn number(value: &Dyadic) -> String {
    shortest(value.to_f64())
}
