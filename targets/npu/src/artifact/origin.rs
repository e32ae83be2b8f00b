//! The line that gave an element of a layer its number.

use super::Artifact;
use crate::program::Line;
use crate::regions::RegionTable;
use crate::replay::Node;
use crate::simulate::{Executor, State, reaches};
use crate::text;
use crate::work::{Access, Memory, Work, accesses};
use quincunx_contract::Origin;
use quincunx_diag::{Diagnostic, Result, first};
use quincunx_tensor::Tensors;

/// A line that writes a byte: its number in the order of execution, the access, and how far behind
/// its start the byte is.
type Write = (usize, Access, i64);

impl Artifact {
    /// Runs the program up to the last line before the layer is read that writes an element.
    /// Addresses are in the lines, so that it is known before.
    ///
    /// # Errors
    /// As a run.
    pub(super) fn origin_of(
        &self,
        inputs: &Tensors,
        layer: usize,
        element: usize,
    ) -> Result<Option<Origin>> {
        let executor = Executor::new(self.programs.clone(), &self.arch, self.settings);
        let executor = executor.map_err(first)?;
        let element = self.taps.element(layer, element);
        let element = element.ok_or_else(|| Diagnostic::bug("an element of a layer is lost"))?;
        let (core, byte) = (element.node.core, element.byte as u64);
        let Some(write) = self.last_write(&executor, element.node, core, byte) else {
            return Ok(None);
        };
        let (index, access, offset) = write;
        let node = executor.order()[index];
        let Ok(work) = &executor.work()[node.core][node.line] else { return Ok(None) };
        let mut state = executor.state();
        state.dram = self.dram()?;
        self.ports.write(inputs, &mut state)?;
        let run = |lines: &[Node], state: &mut State| executor.run_in(lines, state, &mut |_, _| ());
        run(&executor.order()[..index], &mut state)?;
        let operands = state.operands(node.core, work, self.arch.wl0_unit, &access, offset)?;
        run(&[node], &mut state)?;
        Ok(Some(Origin {
            place: self.line_name(node),
            text: self.line_text(node),
            operands,
            result: element.held(&state),
        }))
    }

    /// The last line up to `end` that writes a byte of the L2 of a core.
    fn last_write(&self, executor: &Executor, end: Node, core: usize, byte: u64) -> Option<Write> {
        let mut regions = vec![RegionTable::default(); self.programs.len()];
        let mut last = None;
        for (index, &node) in executor.order().iter().enumerate() {
            let Ok(work) = &executor.work()[node.core][node.line] else { continue };
            if let Work::Regions(cuts) = work {
                regions[node.core].set(cuts);
            }
            for access in accesses(work, &self.arch).into_iter().filter(|access| access.write) {
                let (owner, region) = match access.memory {
                    Memory::L2(region) => (node.core, region),
                    Memory::Remote(other, region) => (usize::from(other), region),
                    Memory::Wl0 | Memory::Dram(_) | Memory::RemoteWhole(_) => continue,
                };
                let ring = regions.get(owner).and_then(|table| table.get(region));
                let offset = ring.filter(|_| owner == core).and_then(|r| reaches(&access, r, byte));
                last = offset.map(|offset| (index, access, offset)).or(last);
            }
            if node == end {
                break;
            }
        }
        last
    }

    /// A line as people count them; with its core where there are several.
    fn line_name(&self, node: Node) -> String {
        match self.programs.len() {
            1 => format!("line {}", node.number()),
            _ => format!("line {} of core {}", node.number(), node.core),
        }
    }

    fn line_text(&self, node: Node) -> String {
        let program = &self.programs[node.core];
        let line = Line { time: None, ..program.lines[node.line].clone() };
        let spellings = program.spellings.iter().filter(|own| own.line == node.line);
        let spellings: Vec<_> = spellings.cloned().collect();
        let mut out = Vec::new();
        text::print_line(&line, node.line, &spellings, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }
}
