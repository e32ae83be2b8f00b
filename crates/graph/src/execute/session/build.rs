//! From a graph to steps.

use super::data::{Data, Layout, Slot, turned};
use super::threads::Threads;
use super::value::{Expr, Form};
use super::{Kept, Kernel, Session, Settings, Step};
use crate::execute::exact::Exact;
use crate::execute::float::Float;
use crate::execute::{Arithmetic, Keep};
use crate::{Graph, Node, NodeId, ValueId};
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{DType, Shape, Tensor};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Largest result, in elements, that is computed once when its operands are constants.
const MAX_FOLDED: usize = 1 << 22;

pub(super) struct Builder<'g> {
    pub(super) graph: &'g Graph,
    /// The same graph, for steps; weights are shared.
    shared: Arc<Graph>,
    pub(super) settings: Settings,
    node: Option<NodeId>,
    forms: Vec<Option<Form>>,
    constants: FxHashMap<Slot, Arc<Data>>,
    /// Conversions that were made: values as f32, as exact numbers, integers in another layout.
    reals: FxHashMap<(ValueId, Layout), Slot>,
    exacts: FxHashMap<ValueId, Slot>,
    /// Integers in another layout; a reshaped value shares its memory, not its layouts.
    pub(super) turned: FxHashMap<(Slot, Shape, Layout), Slot>,
    steps: Vec<Step>,
    slots: u32,
}

impl<'g> Builder<'g> {
    pub(super) fn new(graph: &'g Graph, settings: Settings) -> Self {
        Builder {
            graph,
            shared: Arc::new(graph.clone()),
            settings,
            node: None,
            forms: vec![None; graph.values().len()],
            constants: FxHashMap::default(),
            reals: FxHashMap::default(),
            exacts: FxHashMap::default(),
            turned: FxHashMap::default(),
            steps: Vec::new(),
            slots: 0,
        }
    }

    pub(super) fn finish(mut self) -> Result<Session> {
        let mut inputs = Vec::new();
        for &id in self.graph.inputs() {
            let slot = self.new_slot();
            inputs.push((id, slot));
            self.forms[id.index()] = Some(Form::Real(slot, Layout::Rows));
        }
        for (id, node) in self.graph.nodes() {
            self.node = Some(id);
            let form = self.form_of(node).map_err(|p| p.at(self.graph.place(node)))?;
            self.forms[node.output.index()] = Some(form);
        }
        self.node = None;
        let mut kept = self.kept()?;
        self.find_last_reads(&kept);
        let mut order = vec![0; self.slots as usize];
        for (index, step) in self.steps.iter().enumerate() {
            order[step.write.index()] = index + 1;
        }
        kept.sort_by_key(|kept| order[kept.slot.index()]);
        let early = kept.partition_point(|kept| order[kept.slot.index()] == 0);
        let mut constants = self.used_constants(&kept);
        constants.sort_unstable_by_key(|(slot, _)| *slot);
        Ok(Session {
            graph: self.shared,
            threads: Threads::new(self.settings.threads),
            slots: self.slots as usize,
            constants,
            inputs,
            steps: self.steps,
            kept,
            early,
        })
    }

    /// Makes the steps of a node and says how its result is carried.
    fn form_of(&mut self, node: &Node) -> Result<Form> {
        if let Some(form) = self.grid_node(node)? {
            return Ok(form);
        }
        if let Some(form) = self.real_node(node)? {
            return Ok(form);
        }
        self.reference_node(node)
    }

    /// The operator of the f32 executor.
    fn reference_node(&mut self, node: &Node) -> Result<Form> {
        let (reads, operands) = self.reference_operands(node, Self::real_rows)?;
        let (output, kernel_node) = (node.output, node.clone());
        let graph = Arc::clone(&self.shared);
        let shapes: Vec<_> = node.operands().map(|id| self.graph[id].shape.clone()).collect();
        let slot = self.emit(
            output,
            reads,
            Box::new(move |_, data| {
                let tensors = data.iter().zip(&shapes).map(|(data, shape)| data.to_tensor(shape));
                let tensors = tensors.collect::<Result<Vec<_>>>()?;
                let operands: Vec<_> = operands
                    .iter()
                    .map(|index| index.and_then(|index| tensors.get(index)))
                    .collect();
                Float::apply(&graph, &kernel_node, &operands).map(Data::Tensor)
            }),
        )?;
        Ok(Form::Real(slot, Layout::Rows))
    }

    /// The operator of the exact executor.
    pub(super) fn exact_node(&mut self, node: &Node) -> Result<Form> {
        let (reads, operands) = self.reference_operands(node, Self::exact)?;
        let (output, node) = (node.output, node.clone());
        let graph = Arc::clone(&self.shared);
        let slot = self.emit(
            output,
            reads,
            Box::new(move |_, data| {
                let exact = data.iter().map(|data| data.exact()).collect::<Result<Vec<_>>>()?;
                let operands: Vec<_> = operands
                    .iter()
                    .map(|index| index.and_then(|index| exact.get(index).copied()))
                    .collect();
                Exact::apply(&graph, &node, &operands).map(Data::Exact)
            }),
        )?;
        Ok(Form::Exact(slot))
    }

    /// The slots of the operands that are present, and for every operand its position among them.
    fn reference_operands(
        &mut self,
        node: &Node,
        mut slot: impl FnMut(&mut Self, ValueId) -> Result<Slot>,
    ) -> Result<(Vec<Slot>, Vec<Option<usize>>)> {
        let mut reads = Vec::new();
        let mut operands = Vec::new();
        for input in &node.inputs {
            operands.push(input.map(|_| reads.len()));
            if let Some(id) = input {
                reads.push(slot(self, *id)?);
            }
        }
        Ok((reads, operands))
    }

    pub(super) fn new_slot(&mut self) -> Slot {
        let slot = Slot(self.slots);
        self.slots += 1;
        slot
    }

    /// A slot that holds the same in every run.
    pub(super) fn constant(&mut self, data: Data) -> Slot {
        let slot = self.new_slot();
        self.constants.insert(slot, Arc::new(data));
        slot
    }

    pub(super) fn constant_data(&self, slot: Slot) -> Option<&Arc<Data>> {
        self.constants.get(&slot)
    }

    /// A step that computes `value`, or something of its size. What depends on constants only is
    /// computed now, unless it is large.
    pub(super) fn emit(
        &mut self,
        value: ValueId,
        reads: Vec<Slot>,
        kernel: Kernel,
    ) -> Result<Slot> {
        let elements: usize = self.graph[value].shape.iter().product();
        let constants: Option<Vec<Arc<Data>>> =
            reads.iter().map(|slot| self.constants.get(slot).cloned()).collect();
        if let Some(operands) = constants
            && elements <= MAX_FOLDED
        {
            let threads = Threads::new(self.settings.threads);
            return Ok(self.constant(kernel(&threads, operands)?));
        }
        let write = self.new_slot();
        self.steps.push(Step {
            node: self.node,
            reads,
            last: Vec::new(),
            write,
            is_shown: false,
            kernel,
        });
        Ok(write)
    }

    /// How a value is carried.
    pub(super) fn form(&mut self, id: ValueId) -> Result<Form> {
        if let Some(form) = &self.forms[id.index()] {
            return Ok(form.clone());
        }
        let form = match self.grid_constant(id)? {
            Some(grid) => Form::Grid(Box::new(grid)),
            None => {
                let tensor = Float::constant(&self.graph[id])?;
                Form::Real(self.constant(Data::Tensor(tensor)), Layout::Rows)
            }
        };
        self.forms[id.index()] = Some(form.clone());
        Ok(form)
    }

    /// Replaces the form of a value by a better one.
    pub(super) fn set_form(&mut self, id: ValueId, form: Form) {
        self.forms[id.index()] = Some(form);
    }

    /// A constant without a quantiser.
    pub(super) fn plain_constant(&self, id: ValueId) -> Option<&'g Tensor> {
        let constant = self.graph[id].constant.as_ref()?;
        constant.quantiser.is_none().then_some(&constant.tensor)
    }

    /// The numbers of a value in its own type, row-major.
    pub(super) fn real_rows(&mut self, id: ValueId) -> Result<Slot> {
        self.real(id, Layout::Rows)
    }

    /// The numbers of a value in its own type; another layout than row-major is for f32.
    pub(super) fn real(&mut self, id: ValueId, layout: Layout) -> Result<Slot> {
        if let Some(slot) = self.reals.get(&(id, layout)) {
            return Ok(*slot);
        }
        let slot = match self.form(id)? {
            Form::Real(slot, found) if found == layout => slot,
            Form::Real(slot, _) => self.turn_real(id, slot, layout)?,
            Form::Grid(grid) => self.evaluate_real(id, &Arc::new(Expr::Leaf(*grid)), layout)?,
            Form::Lazy(expr) => self.evaluate_real(id, &expr, layout)?,
            Form::Exact(slot) if layout == Layout::Rows => self.emit(
                id,
                vec![slot],
                Box::new(|_, data| {
                    let numbers = data[0].exact()?.to_f64();
                    Ok(Data::Floats(numbers.into_iter().map(|v| v as f32).collect()))
                }),
            )?,
            Form::Exact(_) => {
                let rows = self.real(id, Layout::Rows)?;
                self.turn_real(id, rows, layout)?
            }
        };
        self.reals.insert((id, layout), slot);
        Ok(slot)
    }

    pub(super) fn turn_real(&mut self, id: ValueId, slot: Slot, to: Layout) -> Result<Slot> {
        let shape = self.graph[id].shape.clone();
        let turn = move |data: &Data| Ok(Data::Floats(turned(&data.floats()?, &shape, to)));
        self.emit(id, vec![slot], Box::new(move |_, data| turn(&data[0])))
    }

    /// The numbers of a value as exact numbers.
    pub(super) fn exact(&mut self, id: ValueId) -> Result<Slot> {
        if let Some(slot) = self.exacts.get(&id) {
            return Ok(*slot);
        }
        let shape = self.graph[id].shape.clone();
        let slot = match self.form(id)? {
            Form::Exact(slot) => slot,
            Form::Grid(grid) => self.evaluate_exact(id, &Arc::new(Expr::Leaf(*grid)))?,
            Form::Lazy(expr) => self.evaluate_exact(id, &expr)?,
            Form::Real(..) => {
                let slot = self.real_rows(id)?;
                let convert = move |data: &Data| Exact::input(&data.to_tensor(&shape)?);
                self.emit(id, vec![slot], Box::new(move |_, d| convert(&d[0]).map(Data::Exact)))?
            }
        };
        self.exacts.insert(id, slot);
        Ok(slot)
    }

    /// True for f32 values.
    pub(super) fn is_f32(&self, id: ValueId) -> bool {
        self.graph[id].dtype == DType::F32
    }

    pub(super) fn shape(&self, id: ValueId) -> &'g [usize] {
        &self.graph[id].shape
    }

    pub(super) fn operand(&self, node: &Node, index: usize) -> Result<ValueId> {
        node.input(index).ok_or_else(|| Diagnostic::bug(format!("operand {index} is absent")))
    }

    fn kept(&mut self) -> Result<Vec<Kept>> {
        let mut kept = Vec::new();
        let all = self.settings.keep == Keep::All;
        let before = self.steps.len();
        for (id, value) in self.graph.values() {
            let wanted = all && value.constant.is_none() || self.graph.outputs().contains(&id);
            if wanted {
                let slot = self.real_rows(id)?;
                kept.push(Kept { name: value.name.clone(), slot, shape: value.shape.clone() });
            }
        }
        self.show_early(before);
        Ok(kept)
    }

    /// Moves the steps from `before` on, which only show values, to where their operands are there.
    fn show_early(&mut self, before: usize) {
        let mut written = vec![0; self.slots as usize];
        let mut steps: Vec<(usize, Step)> = Vec::new();
        for (index, step) in std::mem::take(&mut self.steps).into_iter().enumerate() {
            let ready = step.reads.iter().map(|read| written[read.index()]).max().unwrap_or(0);
            let at = if index < before { index } else { ready };
            written[step.write.index()] = at;
            steps.push((at, step));
        }
        // Stable: what only shows comes behind what it shows.
        steps.sort_by_key(|&(at, _)| at);
        self.steps = steps.into_iter().map(|(_, step)| step).collect();
    }

    /// Drops steps that nothing needs, and finds the last reader of every slot.
    fn find_last_reads(&mut self, kept: &[Kept]) {
        let mut needed = vec![false; self.slots as usize];
        kept.iter().for_each(|kept| needed[kept.slot.index()] = true);
        let mut steps: Vec<Step> = Vec::new();
        let mut seen = vec![false; self.slots as usize];
        for mut step in std::mem::take(&mut self.steps).into_iter().rev() {
            if !needed[step.write.index()] {
                continue;
            }
            step.is_shown = !seen[step.write.index()];
            for read in &step.reads {
                needed[read.index()] = true;
                if !std::mem::replace(&mut seen[read.index()], true) {
                    step.last.push(*read);
                }
            }
            steps.push(step);
        }
        steps.reverse();
        self.steps = steps;
    }

    fn used_constants(&self, kept: &[Kept]) -> Vec<(Slot, Arc<Data>)> {
        let reads = self.steps.iter().flat_map(|step| step.reads.iter().copied());
        let mut used: Vec<Slot> = reads.chain(kept.iter().map(|kept| kept.slot)).collect();
        used.sort_unstable();
        used.dedup();
        let constant = |slot: Slot| Some((slot, Arc::clone(self.constants.get(&slot)?)));
        used.into_iter().filter_map(constant).collect()
    }
}
