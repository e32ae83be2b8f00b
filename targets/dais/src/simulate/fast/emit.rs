//! Nodes to steps: an order, a lane for every operation, and registers that are used again.

use super::lower::{Link, Lowered};
use super::node::{Id, Node, Nodes};
use super::range::Range;
use super::step::{Code, Lane, NONE, Port, Register, Step, Steps};

/// Exponents of outputs beyond this could leave the range of normal f64.
const MAX_EXPONENT: i64 = 900;

/// Nodes from which on two orders are tried by two threads.
const MANY: usize = 1 << 16;

/// The steps that compute all outputs; `None` for an output that may not be a normal f64.
pub(super) fn emit(lowered: &Lowered) -> Option<Steps> {
    let second = || in_this_order(lowered, depth_first(lowered));
    let first = || in_this_order(lowered, in_order(lowered));
    let (first, second) = match lowered.nodes.len() < MANY {
        true => (first(), second()),
        false => std::thread::scope(|scope| {
            let second = scope.spawn(second);
            let first = first();
            (first, second.join().unwrap_or_else(|bug| std::panic::resume_unwind(bug)))
        }),
    };
    let (first, second) = (first?, second?);
    Some(if second.bytes() < first.bytes() { second } else { first })
}

fn roots(lowered: &Lowered) -> impl Iterator<Item = Id> {
    let links = lowered.outputs.iter().chain(&lowered.taps);
    links.map(|link| link.id).chain(lowered.checks.iter().copied())
}

/// What is needed, in the order of the program.
fn in_order(lowered: &Lowered) -> Vec<Id> {
    let mut needed = vec![false; lowered.nodes.len()];
    roots(lowered).for_each(|id| needed[id as usize] = true);
    for id in (0..lowered.nodes.len()).rev() {
        if needed[id] {
            let operands = lowered.nodes.get(id as Id).operands();
            operands.for_each(|operand| needed[operand as usize] = true);
        }
    }
    (0..lowered.nodes.len() as Id).filter(|&id| needed[id as usize]).collect()
}

/// What is needed, each value right after its operands: few values live at once where outputs do
/// not share much.
fn depth_first(lowered: &Lowered) -> Vec<Id> {
    let mut is_done = vec![false; lowered.nodes.len()];
    let mut order = Vec::new();
    for root in roots(lowered) {
        let mut stack = vec![(root, false)];
        while let Some((id, operands_done)) = stack.pop() {
            if is_done[id as usize] {
                continue;
            }
            if operands_done {
                is_done[id as usize] = true;
                order.push(id);
                continue;
            }
            stack.push((id, true));
            let operands = lowered.nodes.get(id).operands();
            stack.extend(operands.rev().filter(|&o| !is_done[o as usize]).map(|o| (o, false)));
        }
    }
    order
}

fn in_this_order(lowered: &Lowered, order: Vec<Id>) -> Option<Steps> {
    let mut emitter = Emitter {
        nodes: &lowered.nodes,
        steps: Steps { tables: lowered.tables.clone(), ..Steps::default() },
        values: vec![[NONE; 3]; lowered.nodes.len()],
        home: vec![None; lowered.nodes.len()],
        next: [0; 3],
    };
    for id in order {
        emitter.node(id);
    }
    let links = lowered.outputs.iter().chain(&lowered.taps);
    emitter.steps.outputs = links.map(|link| emitter.port(link)).collect::<Option<_>>()?;
    let (steps, registers) = (emitter.steps, emitter.next);
    Some(share_registers(steps, registers))
}

/// The narrowest lane that holds a range.
fn lane_of(range: Range) -> Lane {
    match range.signed_bits() {
        0..=16 => Lane::I16,
        17..=32 => Lane::I32,
        _ => Lane::I64,
    }
}

/// Gives every value a register of its own; [`share_registers`] comes later.
struct Emitter<'a> {
    nodes: &'a Nodes,
    steps: Steps,
    /// The registers of every value, by lane.
    values: Vec<[Register; 3]>,
    /// The lane in which a value was computed.
    home: Vec<Option<Lane>>,
    next: [Register; 3],
}

impl Emitter<'_> {
    fn register(&mut self, lane: Lane) -> Register {
        let register = self.next[lane as usize];
        self.next[lane as usize] += 1;
        register
    }

    fn step(&mut self, id: Id, code: Code, lane: Lane, from: [Register; 3]) {
        let out = self.register(lane);
        self.steps.steps.push(Step { code, lane, out, from });
        self.values[id as usize][lane as usize] = out;
        self.home[id as usize].get_or_insert(lane);
    }

    /// The register of a value in a lane; computed values are converted once.
    fn value(&mut self, id: Id, lane: Lane) -> Register {
        let register = self.values[id as usize][lane as usize];
        if register != NONE {
            return register;
        }
        if let Node::Constant(value) = self.nodes.get(id) {
            let register = self.register(lane);
            self.steps.constants.push((lane, register, value));
            self.values[id as usize][lane as usize] = register;
            return register;
        }
        let from = self.home[id as usize].expect("nodes are computed before they are read");
        let register = self.values[id as usize][from as usize];
        self.step(id, Code::Convert { from }, lane, [register, NONE, NONE]);
        self.values[id as usize][lane as usize]
    }

    fn port(&mut self, link: &Link) -> Option<Port> {
        let lane = self.home[link.id as usize].unwrap_or(lane_of(self.nodes.range(link.id)));
        let is_zero = self.nodes.range(link.id) == Range::point(0);
        let exponent = if is_zero { 0 } else { link.exponent };
        if exponent.abs() > MAX_EXPONENT {
            return None;
        }
        let scale = 2_f64.powi(exponent as i32);
        Some(Port { lane, register: self.value(link.id, lane), scale, negate: link.negate })
    }

    fn node(&mut self, id: Id) {
        let node = self.nodes.get(id);
        if matches!(node, Node::Constant(_)) {
            return;
        }
        let lane = lane_of(self.nodes.span(id));
        let mut from = [NONE; 3];
        for (place, operand) in from.iter_mut().zip(node.operands()) {
            *place = self.value(operand, lane);
        }
        let (code, swap) = code(node, lane);
        if swap {
            from.swap(0, 1);
        }
        self.step(id, code, lane, from);
    }
}

/// How a node is computed in a lane, and whether its two operands change places.
fn code(node: Node, lane: Lane) -> (Code, bool) {
    let bits = lane.bits();
    // Bits beyond the lane are copies of its sign, so that one shift is as good as a longer one.
    let within = |by: u32| by.min(bits - 1);
    let code = match node {
        Node::Input { column, scale, to } => Code::Input { column, scale, to },
        // Constants have registers of their own.
        Node::Constant(value) => Code::Offset { left: 0, right: 0, value },
        Node::Sum { left_a, left_b, subtract, right, .. } => {
            return match (left_a, left_b, subtract, right) {
                (0, 0, false, 0) => (Code::Add, false),
                (0, 0, true, 0) => (Code::Subtract, false),
                (0, left, false, 0) => (Code::AddLeft { left: within(left) }, false),
                (left, 0, false, 0) => (Code::AddLeft { left: within(left) }, true),
                (0, left, true, 0) => (Code::SubtractLeft { left: within(left) }, false),
                (left, 0, true, 0) => (Code::LeftSubtract { left: within(left) }, false),
                _ => {
                    let (left_a, left_b) = (within(left_a), within(left_b));
                    (Code::Sum { left_a, left_b, subtract, right: within(right) }, false)
                }
            };
        }
        Node::Offset { left, right, value, .. } => {
            Code::Offset { left: within(left), right: within(right), value }
        }
        Node::Field { negate, clip, left, right, wrap, .. } => {
            let (left, right, mask) = match wrap {
                None => (left, within(right), -1),
                Some(wrap) if !wrap.signed => (left, within(right), wrap.mask()),
                // What is shifted out at the top is what is cut off.
                Some(wrap) => (left + bits - wrap.width - right, bits - wrap.width, -1),
            };
            Code::Field { negate, clip, left, right, mask }
        }
        Node::Select { bit, .. } => Code::Select { up: bits - 1 - within(bit) },
        Node::Product { .. } => Code::Multiply,
        Node::Lookup { offset, table, .. } => Code::Lookup { offset, table },
        Node::Not { mask, .. } => Code::Not { mask },
        Node::Any { .. } => Code::Any,
        Node::All { mask, .. } => Code::All { mask },
        Node::Bitwise { op, .. } => Code::Bitwise { op },
    };
    (code, false)
}

/// Gives registers whose values are read no more to later values. Constants and what leaves the
/// program keep theirs. So many registers of each lane are there before.
fn share_registers(mut steps: Steps, before: [Register; 3]) -> Steps {
    let mut last = before.map(|count| vec![NEVER; count as usize]);
    for (number, step) in steps.steps.iter().enumerate() {
        for operand in step.operands() {
            last[step.operand_lane() as usize][operand as usize] = number;
        }
    }
    let mut pool = Pool::new(before);
    for (lane, register, _) in &mut steps.constants {
        last[*lane as usize][*register as usize] = ALWAYS;
        *register = pool.take(*lane, *register);
    }
    for port in &steps.outputs {
        last[port.lane as usize][port.register as usize] = ALWAYS;
    }
    for (number, step) in steps.steps.iter_mut().enumerate() {
        let lane = step.operand_lane();
        let operands = step.from;
        for place in step.from.iter_mut().filter(|register| **register != NONE) {
            *place = pool.moved(lane, *place);
        }
        // The result goes to another register than the operands.
        let out = step.out;
        step.out = pool.take(step.lane, out);
        for (index, &operand) in operands.iter().enumerate() {
            if operand != NONE
                && last[lane as usize][operand as usize] == number
                && !operands[..index].contains(&operand)
            {
                pool.free[lane as usize].push(pool.moved(lane, operand));
            }
        }
        // What nobody reads is computed for its faults.
        if last[step.lane as usize][out as usize] == NEVER {
            pool.free[step.lane as usize].push(step.out);
        }
    }
    for port in &mut steps.outputs {
        port.register = pool.moved(port.lane, port.register);
    }
    steps.registers = pool.count;
    steps
}

/// The last step that reads a register: none, or one behind the program.
const NEVER: usize = usize::MAX - 1;
const ALWAYS: usize = usize::MAX;

/// Registers that are given out.
struct Pool {
    /// The shared register of a value's own one, by lane.
    moved: [Vec<Register>; 3],
    /// Those that can be used again; the last one is still in the cache.
    free: [Vec<Register>; 3],
    count: [u32; 3],
}

impl Pool {
    fn new(before: [Register; 3]) -> Pool {
        let moved = before.map(|count| vec![NONE; count as usize]);
        Pool { moved, free: Default::default(), count: [0; 3] }
    }

    fn moved(&self, lane: Lane, register: Register) -> Register {
        self.moved[lane as usize][register as usize]
    }

    fn take(&mut self, lane: Lane, register: Register) -> Register {
        let index = lane as usize;
        let found = self.free[index].pop().unwrap_or_else(|| {
            self.count[index] += 1;
            self.count[index] - 1
        });
        self.moved[index][register as usize] = found;
        found
    }
}
