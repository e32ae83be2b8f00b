//! Which elements of every value are needed, and which hold data.

use quincunx_graph::{
    Binary, Graph, Node, NodeId, Op, Pool, PoolKind, ReduceKind, Resize, Source, Unary, ValueId,
    Window,
};

/// A set of elements of a value, by row-major position.
#[derive(Clone, Debug, Default)]
pub(super) struct Set(Vec<u64>);

impl Set {
    /// The first elements.
    pub(super) fn all(count: usize) -> Set {
        let mut set = Set(vec![u64::MAX; count.div_ceil(64)]);
        if let Some(last) = set.0.last_mut().filter(|_| !count.is_multiple_of(64)) {
            *last = (1 << (count % 64)) - 1;
        }
        set
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    pub(super) fn has(&self, element: usize) -> bool {
        self.0.get(element / 64).is_some_and(|word| word >> (element % 64) & 1 == 1)
    }

    pub(super) fn insert(&mut self, element: usize) {
        if self.0.len() <= element / 64 {
            self.0.resize(element / 64 + 1, 0);
        }
        self.0[element / 64] |= 1 << (element % 64);
    }

    pub(super) fn len(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let bits = |(at, &word): (usize, &u64)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(64 * at + bit)
            })
        };
        self.0.iter().enumerate().flat_map(bits)
    }

    pub(super) fn add(&mut self, other: &Set) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    pub(super) fn and(mut self, other: &Set) -> Set {
        self.0.truncate(other.0.len());
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
        self
    }
}

/// A tensor as positions and channels, which are axis 1, or axis 0 of a vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) images: usize,
    pub(super) channels: usize,
    pub(super) plane: usize,
}

impl Layout {
    pub(super) fn new(shape: &[usize]) -> Layout {
        match shape {
            [] => Layout { images: 1, channels: 1, plane: 1 },
            &[channels] => Layout { images: 1, channels, plane: 1 },
            &[images, channels, ref space @ ..] => {
                Layout { images, channels, plane: space.iter().product() }
            }
        }
    }

    /// Channels in a set at every position, in `groups` of neighbouring channels.
    pub(super) fn counts(&self, set: &Set, groups: usize) -> Vec<u32> {
        let mut counts = vec![0; self.images * self.plane * groups];
        let of_group = (self.channels / groups).max(1);
        for element in set.iter() {
            let (row, at) = (element / self.plane, element % self.plane);
            let (image, channel) = (row / self.channels, row % self.channels);
            counts[(image * self.plane + at) * groups + channel / of_group] += 1;
        }
        counts
    }

    /// Vectors that hold the elements of a set, each of one position.
    pub(super) fn vectors(&self, set: &Set, lanes: u64) -> u64 {
        let blocks = |count: u32| u64::from(count).div_ceil(lanes);
        self.counts(set, 1).into_iter().map(blocks).sum()
    }
}

/// What is known about every value.
pub(super) struct Demand<'a> {
    pub(super) graph: &'a Graph,
    /// Elements that outputs depend on.
    wanted: Vec<Set>,
    /// Elements that are computed or given, not zeros or constants.
    data: Vec<Set>,
    /// Values that are inputs, moved at most.
    moved_inputs: Vec<bool>,
    /// Values that are inputs, moved and scaled at most.
    plain: Vec<bool>,
    /// Values of which, moved at most, only maxima over windows are taken: elements of the largest.
    pooled: Vec<Option<u64>>,
}

impl<'a> Demand<'a> {
    pub(super) fn new(graph: &'a Graph) -> Demand<'a> {
        let values = graph.values().len();
        let mut demand = Demand {
            graph,
            wanted: Vec::new(),
            data: vec![Set::default(); values],
            moved_inputs: vec![false; values],
            plain: vec![false; values],
            pooled: pooled(graph),
        };
        for &input in graph.inputs() {
            demand.data[input.index()] = Set::all(demand.elements(input));
            demand.moved_inputs[input.index()] = true;
            demand.plain[input.index()] = true;
        }
        for (_, node) in graph.nodes() {
            demand.forward(node);
        }
        let mut starts = vec![Set::default(); values];
        for output in demand.outputs() {
            starts[output.index()] = demand.data(output).clone();
        }
        demand.wanted = demand.through(starts, |_| true);
        demand
    }

    pub(super) fn elements(&self, value: ValueId) -> usize {
        self.graph[value].shape.iter().product()
    }

    /// Outputs that are more than an input.
    pub(super) fn outputs(&self) -> impl Iterator<Item = ValueId> + '_ {
        let outputs = self.graph.outputs().iter().copied();
        outputs.filter(|output| !self.moved_inputs[output.index()])
    }

    pub(super) fn wanted(&self, value: ValueId) -> &Set {
        &self.wanted[value.index()]
    }

    pub(super) fn data(&self, value: ValueId) -> &Set {
        &self.data[value.index()]
    }

    pub(super) fn pooled(&self, value: ValueId) -> Option<u64> {
        self.pooled[value.index()]
    }

    pub(super) fn is_moved_input(&self, value: ValueId) -> bool {
        self.moved_inputs[value.index()]
    }

    pub(super) fn producer(&self, value: ValueId) -> Option<&'a Node> {
        let graph = self.graph;
        graph[value].producer.map(|id| &graph[id])
    }

    pub(super) fn is_moved(&self, value: ValueId) -> bool {
        self.producer(value).is_some_and(|node| moves(&node.op))
    }

    /// Elements of a set, of which moving made no copies.
    pub(super) fn distinct(&self, value: ValueId, set: &Set) -> u64 {
        let mut starts = vec![Set::default(); self.data.len()];
        starts[value.index()] = set.clone();
        let sets = self.through(starts, |node| moves(&node.op));
        let own = self.graph.values().filter(|&(id, _)| !self.is_moved(id));
        own.map(|(id, _)| sets[id.index()].len()).sum()
    }

    /// Instructions of the ALUs made some of the value, and were counted.
    pub(super) fn is_from_alus(&self, value: ValueId) -> bool {
        let Some(node) = self.producer(value) else { return false };
        if moves(&node.op) {
            return self.tensors(node).any(|operand| self.is_from_alus(operand));
        }
        let linear = match node.op {
            Op::Conv(_) | Op::Gemm(_) | Op::MatMul => true,
            Op::Binary(Binary::Add | Binary::Sub) => true,
            _ => self.folds(node),
        };
        !linear && self.pooled(value).is_none()
    }

    pub(super) fn is_constant(&self, value: ValueId) -> bool {
        self.graph[value].constant.is_some()
    }

    pub(super) fn layout(&self, value: ValueId) -> Layout {
        Layout::new(&self.graph[value].shape)
    }

    /// Operands that are not constant.
    fn tensors(&self, node: &'a Node) -> impl Iterator<Item = ValueId> + '_ {
        node.operands().filter(|&operand| !self.is_constant(operand))
    }

    fn forward(&mut self, node: &Node) {
        let out = node.output.index();
        let count = self.elements(node.output);
        let all = |list: &[bool]| {
            node.operands().all(|id| self.graph[id].constant.is_some() || list[id.index()])
        };
        let moves = moves(&node.op);
        let (moved, plain) = (all(&self.moved_inputs), all(&self.plain));
        self.data[out] = match (self.graph.movement(node), keeps_zeros(&node.op)) {
            (Some(sources), _) => {
                let operands: Vec<ValueId> = node.operands().collect();
                let mut data = Set::default();
                for (at, source) in sources.into_iter().enumerate() {
                    if let Source::Operand { operand, element } = source
                        && self.data(operands[operand as usize]).has(element as usize)
                    {
                        data.insert(at);
                    }
                }
                data
            }
            (None, true) => node.input(0).map_or_else(Set::default, |x| self.data(x).clone()),
            (None, false) => Set::all(count),
        };
        self.moved_inputs[out] = moves && moved;
        self.plain[out] = plain && (moves || self.folds(node));
    }

    /// One operand times and plus constants, which products before and after can take over.
    fn folds(&self, node: &Node) -> bool {
        match node.op {
            Op::BatchNorm(_) | Op::Unary(Unary::Neg) => true,
            Op::Binary(Binary::Add | Binary::Sub | Binary::Mul) => self.tensors(node).count() == 1,
            _ => false,
        }
    }

    /// The node makes no new numbers, or ones that need no instruction of their own.
    pub(super) fn passes(&self, node: &Node) -> bool {
        moves(&node.op) || self.folds(node)
    }

    /// What is read of every value when the starts are, through the nodes that pass it on.
    pub(super) fn through(&self, starts: Vec<Set>, passes: impl Fn(&Node) -> bool) -> Vec<Set> {
        let mut sets = starts;
        for (_, node) in self.graph.nodes().rev() {
            let wanted = std::mem::take(&mut sets[node.output.index()]);
            if !wanted.is_empty() && passes(node) {
                for (operand, set) in self.reads(node, &wanted) {
                    sets[operand.index()].add(&set);
                }
            }
            sets[node.output.index()] = wanted;
        }
        sets
    }

    /// Elements of the operands that hold data which some elements of the result depend on.
    pub(super) fn reads(&self, node: &Node, wanted: &Set) -> Vec<(ValueId, Set)> {
        let out = &self.graph[node.output].shape;
        if let Some(sources) = self.graph.movement(node) {
            let operands: Vec<ValueId> = node.operands().collect();
            let mut sets = vec![Set::default(); operands.len()];
            for at in wanted.iter() {
                if let Source::Operand { operand, element } = sources[at] {
                    sets[operand as usize].insert(element as usize);
                }
            }
            return self.of_data(operands.into_iter().zip(sets));
        }
        let operands = self.tensors(node).enumerate().map(|(index, id)| {
            let shape = &self.graph[id].shape;
            let set = match &node.op {
                Op::Conv(conv) => windows(&conv.window, shape, out, wanted, Some(conv.groups)),
                Op::Pool(Pool { window, .. }) => windows(window, shape, out, wanted, None),
                Op::Gemm(_) | Op::MatMul if shape.len() == 2 && out.len() == 2 && index == 0 => {
                    rows(shape[1], out[1], wanted)
                }
                Op::GlobalAveragePool | Op::GlobalMaxPool => {
                    let axes: Vec<usize> = (2..shape.len()).collect();
                    reduced(&axes, shape, wanted)
                }
                Op::Reduce(reduce) => reduced(&reduce.axes, shape, wanted),
                Op::Softmax(softmax) => {
                    let inner: usize = shape[softmax.axis + 1..].iter().product();
                    lines(inner, shape[softmax.axis], wanted)
                }
                Op::Resize(resize) => resized(resize, shape, out, wanted),
                Op::BatchNorm(_) | Op::Unary(_) | Op::Activation(_) | Op::Quantise(_) => {
                    wanted.clone()
                }
                Op::Binary(_) | Op::PRelu => broadcast(shape, out, wanted),
                _ => Set::all(shape.iter().product()),
            };
            (id, set)
        });
        self.of_data(operands)
    }

    fn of_data(&self, sets: impl Iterator<Item = (ValueId, Set)>) -> Vec<(ValueId, Set)> {
        sets.map(|(operand, set)| (operand, set.and(self.data(operand)))).collect()
    }

    /// By value, elements that have to leave the accumulators: what products and outputs read was
    /// computed there.
    pub(super) fn leaving(&self) -> Vec<Set> {
        let mut of_products = vec![Set::default(); self.wanted.len()];
        let mut of_outputs = of_products.clone();
        for (_, node) in self.graph.nodes() {
            if matches!(node.op, Op::Conv(_) | Op::Gemm(_) | Op::MatMul) {
                for (operand, set) in self.reads(node, self.wanted(node.output)) {
                    of_products[operand.index()].add(&set);
                }
            }
        }
        for output in self.outputs() {
            of_outputs[output.index()] = self.data(output).clone();
        }
        let of_products = self.through(of_products, |node| self.passes(node));
        let passes = |node: &Node| self.passes(node) && !self.scales_input(node);
        let of_outputs = self.through(of_outputs, passes);
        let mut leaving = vec![Set::default(); self.wanted.len()];
        for (_, node) in self.graph.nodes() {
            let at = node.output.index();
            match (self.passes(node), self.scales_input(node)) {
                (true, false) => {}
                (true, true) => leaving[at].clone_from(&of_outputs[at]),
                (false, _) => {
                    leaving[at].clone_from(&of_outputs[at]);
                    leaving[at].add(&of_products[at]);
                }
            }
        }
        leaving
    }

    /// An input is scaled, which takes the accumulators where no product reads it.
    fn scales_input(&self, node: &Node) -> bool {
        self.folds(node) && self.plain[node.output.index()]
    }

    /// Vectors of inputs that have to get into the accumulators: those that other nodes than
    /// products compute with.
    pub(super) fn entering(&self, lanes: u64) -> u64 {
        let mut starts = vec![Set::default(); self.wanted.len()];
        for (_, node) in self.graph.nodes() {
            let is_product = matches!(node.op, Op::Conv(_) | Op::Gemm(_) | Op::MatMul);
            if !is_product && !self.passes(node) {
                for (operand, set) in self.reads(node, self.wanted(node.output)) {
                    starts[operand.index()].add(&set);
                }
            }
        }
        let sets = self.through(starts, |node| self.passes(node));
        let vectors = |&id: &ValueId| self.layout(id).vectors(&sets[id.index()], lanes);
        self.graph.inputs().iter().map(vectors).sum()
    }

    /// Vectors of inputs that are read, and of outputs; outputs that are parts of each other may
    /// share vectors.
    pub(super) fn ports(&self, lanes: u64) -> u64 {
        let read = |&id: &ValueId| self.layout(id).vectors(self.wanted(id), lanes);
        let mut written = std::collections::BTreeMap::<ValueId, u64>::new();
        for output in self.outputs() {
            let vectors = self.layout(output).vectors(self.data(output), lanes);
            let most = written.entry(self.origin(output)).or_default();
            *most = vectors.max(*most);
        }
        self.graph.inputs().iter().map(read).sum::<u64>() + written.values().sum::<u64>()
    }

    /// The value that a value is, moved at most.
    fn origin(&self, value: ValueId) -> ValueId {
        match self.producer(value).filter(|node| moves(&node.op)) {
            Some(node) => self.tensors(node).next().map_or(value, |first| self.origin(first)),
            None => value,
        }
    }
}

/// By value, the elements of the largest window over which a maximum is taken, if nothing else is.
fn pooled(graph: &Graph) -> Vec<Option<u64>> {
    let consumers = graph.consumers();
    let mut pooled = vec![None; consumers.len()];
    let extents = |shape: &[usize]| shape.iter().product::<usize>() as u64;
    for (_, node) in graph.nodes().rev() {
        let value = node.output;
        let window = |&id: &NodeId| {
            let reader = &graph[id];
            match &reader.op {
                Op::Pool(Pool { kind: PoolKind::Max, window, .. }) => Some(extents(&window.kernel)),
                Op::GlobalMaxPool => Some(extents(&graph[value].shape)),
                Op::Reduce(reduce) if reduce.kind == ReduceKind::Max => {
                    Some(extents(&graph[value].shape))
                }
                op if moves(op) => pooled[reader.output.index()],
                _ => None,
            }
        };
        let windows: Option<Vec<u64>> = consumers[value.index()].iter().map(window).collect();
        let largest = windows.and_then(|windows| windows.into_iter().max());
        pooled[value.index()] = largest.filter(|_| !graph.outputs().contains(&value));
    }
    pooled
}

/// The numbers stay, and need no instruction: rounding to a grid may be that of the machine.
fn moves(op: &Op) -> bool {
    op.only_moves() || matches!(op, Op::Quantise(_))
}

/// Zeros stay zeros.
fn keeps_zeros(op: &Op) -> bool {
    use quincunx_graph::Activation::LeakyRelu;
    matches!(
        op,
        Op::Unary(Unary::Relu | Unary::Neg | Unary::Abs)
            | Op::Activation(LeakyRelu { .. })
            | Op::PRelu
            | Op::Quantise(_)
    )
}

/// The position of an element along every axis.
pub(super) fn split(mut element: usize, shape: &[usize]) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for (at, &extent) in at.iter_mut().zip(shape).rev() {
        (element, *at) = (element / extent, element % extent);
    }
    at
}

/// What windows read: with groups all channels of the group, without the channel itself.
fn windows(
    window: &Window,
    x: &[usize],
    out: &[usize],
    wanted: &Set,
    groups: Option<usize>,
) -> Set {
    let [from, to] = [x, out].map(Layout::new);
    let groups = groups.unwrap_or(to.channels);
    let inputs = from.channels / groups;
    let counts = to.counts(wanted, groups);
    let mut set = Set::default();
    for at in 0..to.plane {
        let reads = window.reads(&split(at, &out[2..]), &x[2..]);
        for (image, group) in (0..to.images).flat_map(|i| (0..groups).map(move |g| (i, g))) {
            if counts[(image * to.plane + at) * groups + group] == 0 {
                continue;
            }
            for channel in group * inputs..(group + 1) * inputs {
                let plane = (image * from.channels + channel) * from.plane;
                reads.iter().for_each(|&(element, _)| set.insert(plane + element));
            }
        }
    }
    set
}

/// Rows of the first operand of a matrix product.
fn rows(depth: usize, columns: usize, wanted: &Set) -> Set {
    let mut set = Set::default();
    let mut last = None;
    for row in wanted.iter().map(|element| element / columns.max(1)) {
        if last.replace(row) != Some(row) {
            (row * depth..(row + 1) * depth).for_each(|element| set.insert(element));
        }
    }
    set
}

/// Elements whose places beside some axes are wanted.
fn reduced(axes: &[usize], x: &[usize], wanted: &Set) -> Set {
    let mut set = Set::default();
    for element in 0..x.iter().product() {
        let kept = split(element, x).into_iter().zip(x).enumerate();
        let kept = kept.filter(|(axis, _)| !axes.contains(axis));
        if wanted.has(kept.fold(0, |at, (_, (place, &extent))| at * extent + place)) {
            set.insert(element);
        }
    }
    set
}

/// All elements along an axis of those that are wanted.
fn lines(inner: usize, extent: usize, wanted: &Set) -> Set {
    let mut set = Set::default();
    for element in wanted.iter() {
        let first = element / (inner * extent) * inner * extent + element % inner;
        (0..extent).for_each(|at| set.insert(first + at * inner));
    }
    set
}

/// Elements that are mixed.
fn resized(resize: &Resize, x: &[usize], out: &[usize], wanted: &Set) -> Set {
    let taps: Vec<Vec<Vec<usize>>> = (0..x.len())
        .map(|axis| match resize.axes.iter().position(|&resized| resized == axis) {
            Some(index) => {
                let taps = resize.taps(index, x[axis], out[axis]).into_iter();
                let used = |(at, weight): (usize, f64)| (weight != 0.0).then_some(at);
                taps.map(|taps| taps.into_iter().filter_map(used).collect()).collect()
            }
            None => (0..out[axis]).map(|at| vec![at]).collect(),
        })
        .collect();
    let mut set = Set::default();
    for element in wanted.iter() {
        let mut reads = vec![0];
        for (axis, at) in split(element, out).into_iter().enumerate() {
            let along = |&read: &usize| taps[axis][at].iter().map(move |tap| read * x[axis] + tap);
            reads = reads.iter().flat_map(along).collect();
        }
        reads.into_iter().for_each(|read| set.insert(read));
    }
    set
}

/// Elements of an operand that is repeated along axes of extent 1.
fn broadcast(x: &[usize], out: &[usize], wanted: &Set) -> Set {
    if x == out {
        return wanted.clone();
    }
    let mut set = Set::default();
    for element in wanted.iter() {
        let place = split(element, out);
        let place = place[out.len() - x.len()..].iter().zip(x);
        set.insert(
            place
                .fold(0, |at, (&place, &extent)| at * extent + if extent == 1 { 0 } else { place }),
        );
    }
    set
}
