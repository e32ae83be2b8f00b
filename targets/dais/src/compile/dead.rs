//! Removing operations that no output needs.

use crate::isa::Inst;
use crate::program::{Output, Program, Slot};

/// Keeps the operations that the outputs and `roots` depend on, and all inputs, whose number is
/// part of the program's interface. Also gives the new slot of each old one, `None` for removed
/// ones.
pub(super) fn remove_dead(
    program: Program,
    roots: impl Iterator<Item = Slot>,
) -> (Program, Vec<Option<Slot>>) {
    let live = live_slots(&program, roots);
    let mut moved: Vec<Option<Slot>> = Vec::with_capacity(live.len());
    // In place: large programs fill the memory.
    let Program { mut operations, outputs, .. } = program;
    let mut kept = 0;
    for (index, live) in live.into_iter().enumerate() {
        if !live {
            moved.push(None);
            continue;
        }
        // Operands of a live operation are live, and earlier.
        let inst = operations[index].inst;
        operations[index].inst =
            inst.map_operands(|o| moved[o.0 as usize].expect("kept, and earlier"));
        operations.swap(kept, index);
        moved.push(Some(Slot::of(kept)));
        kept += 1;
    }
    operations.truncate(kept);
    let outputs = outputs
        .into_iter()
        .map(|o| Output { source: o.source.and_then(|s| moved[s.0 as usize]), ..o })
        .collect();
    (Program { operations, outputs, ..program }, moved)
}

fn live_slots(program: &Program, roots: impl Iterator<Item = Slot>) -> Vec<bool> {
    let mut live = vec![false; program.operations.len()];
    let outputs = program.outputs.iter().filter_map(|output| output.source);
    outputs.chain(roots).for_each(|root| live[root.0 as usize] = true);
    for (index, operation) in program.operations.iter().enumerate().rev() {
        live[index] |= matches!(operation.inst, Inst::Input { .. });
        if live[index] {
            operation.inst.operands().for_each(|o| live[o.0 as usize] = true);
        }
    }
    live
}
