//! Random graphs of every operator.

mod operators;

use crate::{Random, alone};
use quincunx_graph::{Constant, Graph, Node, Op, Param, Quantiser, ValueId, Window};
use quincunx_num::{Overflow, Rounding};
use quincunx_tensor::{DType, Tensor, Tensors};
use std::collections::BTreeSet;

/// What random graphs are like.
pub struct Recipe<'a> {
    /// Widest codes of values and of weights; `None` for graphs of f32 without quantisers.
    pub grids: Option<[u32; 2]>,
    /// The grid of all quantisers of values; another one each if there is none.
    pub grid: Option<Quantiser>,
    /// Weights of products are always codes, if there are grids.
    pub coded: bool,
    /// Most inputs.
    pub inputs: usize,
    /// Largest batch.
    pub batch: usize,
    /// Most channels of inputs and filters.
    pub channels: usize,
    /// Largest extent of a spatial axis of an input.
    pub extent: usize,
    /// Numbers of spatial axes of inputs, one of which is drawn.
    pub spatial: &'a [usize],
    /// Fewest and most operators, those aside that make others possible.
    pub layers: [usize; 2],
    /// Magnitude of the inputs' numbers.
    pub spread: f64,
    /// Whether a node that was added may stay.
    pub accept: &'a dyn Fn(&Graph, &Node) -> bool,
}

impl Recipe<'_> {
    /// Small f32 graphs of any operator.
    pub const REAL: Recipe<'static> = Recipe {
        grids: None,
        grid: None,
        coded: false,
        inputs: 2,
        batch: 2,
        channels: 11,
        extent: 6,
        spatial: &[0, 1, 2, 2, 2, 3],
        layers: [3, 11],
        spread: 1.0,
        accept: &|_, _| true,
    };

    /// A graph, all of whose outputs depend on nodes, and numbers for its inputs.
    ///
    /// # Panics
    ///
    /// If next to nothing is accepted.
    pub fn graph(&self, random: &mut Random) -> (Graph, Tensors) {
        let graph = Graph::new("random");
        let mut net =
            Net { random, recipe: self, graph, values: Tensors::new(), list: Vec::new(), count: 0 };
        net.add_inputs();
        let first = net.list.len();
        let layers = net.random.range(self.layers[0], self.layers[1]);
        let most = 1000 * layers;
        for attempt in 0.. {
            assert!(attempt < most, "next to nothing is accepted:\n{}", net.graph);
            // Where little is accepted, a few layers are enough.
            let grown = net.list.len() - first;
            if grown >= layers || grown > 0 && attempt > 20 * layers {
                break;
            }
            let before = net.graph.clone();
            match net.layer() {
                Some(value) => net.list.push(value),
                None => net.graph = before,
            }
        }
        net.add_outputs(first);
        let Net { graph, mut values, .. } = net;
        values.retain(|name, _| graph.inputs().iter().any(|&id| graph[id].name == *name));
        (graph, values)
    }

    /// Other numbers for the inputs of a graph.
    pub fn sample(&self, graph: &Graph, random: &mut Random) -> Tensors {
        let inputs = graph.inputs().iter().map(|&id| &graph[id]);
        inputs.map(|v| (v.name.clone(), random.tensor(&v.shape, self.spread))).collect()
    }
}

/// The operators, roundings and overflows that graphs have.
#[derive(Default)]
pub struct Coverage(BTreeSet<&'static str>);

impl Coverage {
    /// Marks what a graph has.
    pub fn mark(&mut self, graph: &Graph) {
        for (_, node) in graph.nodes() {
            self.0.insert(node.op.name());
            if let Op::Quantise(quantiser) = &node.op {
                self.0.extend(quantiser.rounding.values().iter().map(|r| r.name()));
                self.0.extend(quantiser.overflow.values().iter().map(|o| o.name()));
            }
        }
    }

    /// Operators that came, in one line.
    pub fn came(&self) -> String {
        self.names(true)
    }

    /// Operators that never came, in one line.
    pub fn never(&self) -> String {
        self.names(false)
    }

    fn names(&self, came: bool) -> String {
        let names = operators::NAMES.split_whitespace();
        names.filter(|name| self.0.contains(name) == came).collect::<Vec<_>>().join(" ")
    }

    /// Panics unless every rounding and overflow came.
    pub fn assert_modes(&self) {
        let names = Rounding::ALL.iter().map(|r| r.name());
        for name in names.chain(Overflow::ALL.iter().map(|o| o.name())) {
            assert!(self.0.contains(name), "{name} never came");
        }
    }
}

/// A graph that grows.
struct Net<'a> {
    random: &'a mut Random,
    recipe: &'a Recipe<'a>,
    graph: Graph,
    /// What the values are for the inputs that were drawn, by the float executor.
    values: Tensors,
    /// Values that are read further; on a grid, if the recipe has grids.
    list: Vec<ValueId>,
    count: usize,
}

impl Net<'_> {
    /// Largest number of elements of a value, axes, and magnitude.
    const LIMITS: (usize, usize, f64) = (2000, 5, 1e5);

    fn name(&mut self, base: &str) -> String {
        self.count += 1;
        format!("{base}{}", self.count)
    }

    fn shape(&self, value: ValueId) -> Vec<usize> {
        self.graph[value].shape.to_vec()
    }

    fn numbers(&self, value: ValueId) -> Vec<f64> {
        self.values[&self.graph[value].name].to_f64()
    }

    fn add_inputs(&mut self) {
        for _ in 0..self.random.range(1, self.recipe.inputs) {
            let recipe = self.recipe;
            let axes = self.random.pick(recipe.spatial);
            let extent = recipe.extent.min(if axes > 2 { 3 } else { recipe.extent });
            let mut shape = vec![
                self.random.range(1, recipe.batch),
                self.random.range(1, if axes > 0 { recipe.channels } else { 2 * recipe.channels }),
            ];
            shape.extend((0..axes).map(|_| self.random.range(1, extent)));
            let name = self.name("x");
            let value = self.graph.add_input(&name, DType::F32, &shape, &[]).unwrap();
            self.values.insert(name, self.random.tensor(&shape, recipe.spread));
            let on_grid = recipe.grids.is_some();
            let value = if on_grid { self.quantised_input(value) } else { value };
            self.list.push(value);
        }
    }

    /// Every value nothing reads is an output, and now and then another one.
    fn add_outputs(&mut self, first: usize) {
        let readers = self.graph.consumers();
        for &value in &self.list[first..] {
            if readers[value.index()].is_empty() || self.random.chance(12) {
                self.graph.add_output(value);
            }
        }
        if self.recipe.grids.is_none() && self.random.chance(15) {
            self.graph.add_output(self.list[0]);
        }
    }

    /// An operator on the last value or an earlier one.
    fn layer(&mut self) -> Option<ValueId> {
        let last = *self.list.last()?;
        let x = if self.random.chance(70) { last } else { self.random.pick(&self.list) };
        let y = self.operator(x)?;
        if self.recipe.grids.is_some() && self.random.coin() { self.quantised(y) } else { Some(y) }
    }

    fn node(&mut self, op: Op, inputs: &[ValueId]) -> Option<ValueId> {
        self.node_of(op, &inputs.iter().map(|&id| Some(id)).collect::<Vec<_>>())
    }

    /// A node that is well-shaped, accepted, not too large, and whose numbers are finite.
    fn node_of(&mut self, op: Op, inputs: &[Option<ValueId>]) -> Option<ValueId> {
        let name = self.name("n");
        let value = self.graph.add_node(&name, op, inputs, &format!("{name}_out")).ok()?;
        let (elements, rank, magnitude) = Self::LIMITS;
        let node = &self.graph[self.graph[value].producer?];
        let shape = &self.graph[value].shape;
        let fits = (1..=elements).contains(&shape.iter().product()) && shape.len() <= rank;
        if !fits || !(self.recipe.accept)(&self.graph, node) {
            return None;
        }
        let result = alone(&self.graph, node, &self.values)?;
        if !result.to_f64().iter().all(|number| number.abs() <= magnitude) {
            return None;
        }
        self.values.insert(self.graph[value].name.clone(), result);
        Some(value)
    }

    fn plain(&mut self, tensor: impl Into<Constant>) -> ValueId {
        let name = self.name("c");
        self.graph.add_constant(&name, tensor).unwrap()
    }

    /// Numbers for a parameter that is never a code.
    fn reals(&mut self, shape: &[usize]) -> ValueId {
        let tensor = self.random.tensor(shape, 1.0);
        self.plain(tensor)
    }

    /// Numbers for a parameter that must be above zero.
    fn positive(&mut self, count: usize) -> ValueId {
        let numbers = self.random.floats(count).into_iter().map(|v| v.abs() + 0.25).collect();
        self.plain(Tensor::from_vec::<f32>(&[count], numbers).unwrap())
    }

    /// Weights: reals, numbers of few digits, or codes whose grids may vary along the axis.
    fn weights(&mut self, shape: &[usize], axis: usize) -> ValueId {
        let Some([_, widest]) = self.recipe.grids else { return self.reals(shape) };
        let elements = shape.iter().product::<usize>();
        let width =
            if self.random.chance(60) { widest.min(8) } else { self.random.range(2, widest) };
        let half = 1_i64 << (width - 1);
        let codes: Vec<i64> = (0..elements).map(|_| self.random.range(-half, half - 1)).collect();
        if self.random.chance(40) && !(self.recipe.coded && shape.len() > 1) {
            // Biases and factors of float models are long.
            let step = if self.random.chance(25) { 0.0713 } else { 4.0 / half as f32 };
            let reals = codes.into_iter().map(|code| code as f32 * step).collect();
            return self.plain(Tensor::from_vec::<f32>(shape, reals).unwrap());
        }
        let mut along = vec![1; shape.len().saturating_sub(axis)];
        along.iter_mut().take(1).for_each(|extent| *extent = shape[axis]);
        let about = 2.0 / half as f64;
        let common = self.scale(about);
        let mut quantiser = Quantiser::symmetric(true, width, common);
        if self.random.chance(35) {
            let factors = (0..along.iter().product()).map(|n| common * (n as f64 + 1.5));
            quantiser.scale = Param::new(&along, factors.collect()).unwrap();
        }
        if widest > 4 && self.random.chance(30) {
            let zeros = (0..along.iter().product()).map(|_| self.random.range(-half, half - 1) / 4);
            quantiser.zero = Param::new(&along, zeros.collect()).unwrap();
        }
        let tensor = Tensor::from_vec(shape, codes).unwrap();
        self.plain(Constant { tensor, quantiser: Some(quantiser) })
    }

    /// A bias, or none.
    fn bias(&mut self, count: usize) -> Option<ValueId> {
        match self.random.below(3) {
            0 => None,
            1 if self.recipe.grids.is_some_and(|[widest, _]| widest > 8) => {
                let codes = (0..count).map(|_| self.random.range(-5000, 5000)).collect();
                let quantiser = Quantiser::symmetric(true, 32, self.scale(1e-4));
                let tensor = Tensor::from_vec::<i64>(&[count], codes).unwrap();
                Some(self.plain(Constant { tensor, quantiser: Some(quantiser) }))
            }
            _ => Some(self.weights(&[count], 0)),
        }
    }

    /// A scale of about this size: a power of two, a number of 32 bits, any number.
    fn scale(&mut self, about: f64) -> f64 {
        let about = about * (1.0 + 0.4 * self.random.real());
        match self.random.below(10) {
            0 => about,
            1..5 => f64::from(about as f32),
            _ => 2.0_f64.powi(about.log2().round() as i32),
        }
    }

    /// A grid for numbers like these; its width may vary per element, its scale per channel.
    fn grid(&mut self, value: ValueId) -> Quantiser {
        if let Some(grid) = &self.recipe.grid {
            return grid.clone();
        }
        let (shape, widest) =
            (self.shape(value), self.recipe.grids.map_or(8, |[widest, _]| widest));
        let signed = self.random.coin();
        let width = if widest > 8 && self.random.coin() { 8 } else { self.random.range(1, widest) };
        let largest = self.numbers(value).into_iter().fold(1e-6, |most, v| f64::max(most, v.abs()));
        let about = if self.random.coin() {
            largest / 2.0_f64.powi(width as i32 - 1)
        } else {
            2.0_f64.powi(self.random.range(-4, 1))
        };
        let channels = shape.get(1).copied().unwrap_or(1);
        let mut scale = Param::uniform(self.scale(about));
        if shape.len() > 1 && self.random.chance(25) {
            let mut along = vec![1; shape.len() - 1];
            along[0] = channels;
            let scales = (0..channels).map(|_| self.scale(about)).collect();
            scale = Param::new(&along, scales).unwrap();
        }
        let (mut widths, mut zero) = (Param::uniform(width), 0);
        if self.random.chance(20) {
            let list = (0..shape.iter().product()).map(|_| self.random.range(0, widest - 1));
            widths = Param::new(&shape, list.collect()).unwrap();
        } else if self.random.chance(30) {
            let codes = 1_i64 << (width - u32::from(signed));
            zero = self.random.range(if signed { -codes } else { 0 }, codes - 1);
        }
        Quantiser {
            signed: Param::uniform(signed),
            width: widths,
            scale,
            zero: Param::uniform(zero),
            rounding: Param::uniform(self.random.pick(&Rounding::ALL)),
            overflow: Param::uniform(self.random.pick(&Overflow::ALL)),
        }
    }

    fn quantised(&mut self, value: ValueId) -> Option<ValueId> {
        let grid = self.grid(value);
        self.node(Op::Quantise(grid), &[value])
    }

    fn quantised_input(&mut self, value: ValueId) -> ValueId {
        for _ in 0..1000 {
            if let Some(value) = self.quantised(value) {
                return value;
            }
        }
        panic!("no quantiser of an input is accepted")
    }

    /// A grid of few and close codes, as tables of functions need it.
    fn short(&mut self, value: ValueId) -> Option<ValueId> {
        if self.recipe.grids.is_none() {
            return Some(value);
        }
        let scale = self.random.pick(&[0.125, 0.25, f64::from(0.07_f32)]);
        let signed = self.random.coin();
        self.node(Op::Quantise(Quantiser::symmetric(signed, 6, scale)), &[value])
    }

    /// Puts what is not an exact number onto a grid, where there are grids.
    fn settled(&mut self, value: ValueId) -> Option<ValueId> {
        if self.recipe.grids.is_some() { self.quantised(value) } else { Some(value) }
    }

    fn window(&mut self, extents: &[usize]) -> Window {
        let kernel: Vec<usize> = extents.iter().map(|&e| self.random.range(1, e.min(3))).collect();
        let mut window = Window::new(&kernel);
        for (axis, &size) in kernel.iter().enumerate() {
            window.strides[axis] = self.random.range(1, 2);
            window.pads[axis] = (self.random.below(size), self.random.below(size));
            if self.random.chance(25) {
                window.dilations[axis] = 2;
            }
        }
        window
    }
}
