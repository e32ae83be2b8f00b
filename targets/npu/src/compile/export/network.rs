//! Frontend IR and quantisation scales.
//!
//! The network is the one that the machine executes: layers with the same numbers under another
//! shape are left out, and columns that lie in memory as channels are channels. Keys are in the order
//! of published files; names of files with arrays are left out, since there are none.

use super::{Described, Examples, Members, Record, list};
use crate::compile::layers::{Act, Grid, Layer, Operation};
use crate::files::Json;
use crate::isa::{DataFmt, Number};
use crate::work::{Conv, Vector, Work, real};
use quincunx_graph::ValueId;

/// A number with a decimal point.
fn float(value: f64) -> Json {
    Number::real(value).unwrap_or(Number::whole(0)).into()
}

/// An object, of which some members may be missing.
fn object(members: impl IntoIterator<Item = (&'static str, Json)>) -> Json {
    members.into_iter().collect()
}

fn type_name(format: DataFmt) -> Json {
    if format == DataFmt::FP16 { "float16" } else { "int8" }.into()
}

impl Record {
    /// The layers that compute something, with what one of their lines does.
    fn computing<'r>(
        &'r self,
        examples: &'r Examples<'r>,
    ) -> impl Iterator<Item = (&'r Described, &'r Layer, &'r Work)> {
        examples.iter().filter_map(|(&index, &work)| {
            Some((self.layers.get(index)?, self.network.layers.get(index)?, work))
        })
    }

    /// The frontend IR.
    pub(super) fn frontend<'r>(&'r self, examples: &'r Examples<'r>) -> Json {
        let layers = (0..).zip(self.computing(examples));
        let layer = |(number, (own, layer, work)): (i64, (&'r Described, &Layer, &Work))| {
            let name = &*own.name;
            let head = [
                ("layer_index", number.into()),
                ("name", Json::from(name)),
                ("operation", self.operation(layer, work).into()),
                ("device", "npu".into()),
            ];
            let rest = match work {
                Work::Conv(conv) => self.conv(own, layer, conv, examples),
                Work::Vector(vector) => self.vector(name, layer, vector, examples),
                _ => Members::new(),
            };
            (name, object(head.into_iter().chain(rest)))
        };
        layers.map(layer).collect()
    }

    fn operation(&self, layer: &Layer, work: &Work) -> &'static str {
        match (&layer.operation, work) {
            (Operation::Pool { largest: true, .. }, _) => "max_pool2d",
            (Operation::Pool { .. }, _) => "avg_pool2d",
            (Operation::Add, _) => "element_wise_add",
            (_, Work::Conv(conv)) if self.is_dense(layer, conv) => "dense",
            (_, Work::Conv(_)) => "conv2d",
            _ => "quantize",
        }
    }

    /// A product with a vector.
    fn is_dense(&self, layer: &Layer, conv: &Conv) -> bool {
        let [_, _, rows, columns] = self.extents(layer.inputs[0]);
        (rows, columns, conv.kernel) == (1, 1, [1, 1])
    }

    fn shape(&self, value: ValueId) -> Json {
        list(self.extents(value))
    }

    /// Names of the layers that read a result.
    fn readers(&self, value: ValueId, examples: &Examples<'_>) -> Json {
        let root = self.network.root(value);
        let reads = |layer: &Layer| layer.inputs.iter().any(|&v| self.network.root(v) == root);
        let readers = self.computing(examples).filter(|(_, layer, _)| reads(layer));
        readers.map(|(own, ..)| Json::from(&*own.name)).collect()
    }

    /// What operands and result are; `more` are operands that are constant, with their types and
    /// shapes.
    fn tensors(
        &self,
        layer: &Layer,
        more: Option<[Json; 3]>,
        examples: &Examples<'_>,
    ) -> [Members; 3] {
        let operands = || layer.inputs.iter().copied();
        let with = |own: Vec<Json>, index: usize| -> Json {
            own.into_iter().chain(more.as_ref().map(|more| more[index].clone())).collect()
        };
        let names = operands().map(|value| Json::from(self.name(value))).collect();
        let types = operands().map(|value| type_name(self.format(value))).collect();
        let shapes = operands().map(|value| self.shape(value)).collect();
        let output = layer.output;
        [
            vec![
                ("input_dtype", with(types, 1)),
                ("output_dtype", [type_name(self.format(output))].into_iter().collect()),
            ],
            vec![
                ("input_shape", with(shapes, 2)),
                ("output_shape", [self.shape(output)].into_iter().collect()),
            ],
            vec![
                ("previous_layer", with(names, 0)),
                ("next_layer", self.readers(output, examples)),
            ],
        ]
    }

    /// Rows above and below, columns on the left and the right that are padding.
    fn padding(&self, layer: &Layer) -> Json {
        let frame = self.frame(layer);
        let [input, output] = [layer.inputs[0], layer.output].map(|value| self.extents(value));
        list((0..2).flat_map(|axis| {
            let before = -i64::from(frame.start[axis]);
            let steps = (output[axis + 2] - 1) * i64::from(frame.stride[axis]);
            let after = steps + i64::from(frame.kernel[axis]) - before - input[axis + 2];
            [before, after.max(0)]
        }))
    }

    fn conv(
        &self,
        own: &Described,
        layer: &Layer,
        conv: &Conv,
        examples: &Examples<'_>,
    ) -> Members {
        let [k, c] = [conv.dest[0], conv.tile[2]].map(i64::from);
        let kernel = conv.kernel.map(i64::from);
        let constant = own.weights.as_ref().map_or("", |(name, _)| name);
        let weights = [constant.into(), "int8".into(), list([k, c, kernel[0], kernel[1]])];
        let [types, shapes, neighbours] = self.tensors(layer, Some(weights), examples);
        let (scale, zero) = self.grid(layer.inputs[0]);
        let mut info = vec![("input_scale1", float(scale)), ("input_zero_point1", float(zero))];
        if self.format(layer.output) == DataFmt::INT8 {
            let (_, offset, factor) = conv.quantiser;
            info.push(("output_scale", factor.into()));
            info.push(("output_zero_point", offset.into()));
            info.push(("round_type", "round".into()));
        }
        let relu = if layer.act == Act::Relu { "relu".into() } else { Json::Null };
        let mut members = [types, shapes].concat();
        members.push(("quant_info", object(info)));
        members.extend(neighbours);
        members.extend([
            ("file_list", object([])),
            ("input_batchdim", list([0])),
            ("output_batchdim", list([0])),
            ("activation_type", relu),
            ("activation_attr", Json::Null),
        ]);
        if !self.is_dense(layer, conv) {
            members.extend([
                ("kernel_size", list(kernel)),
                ("padding", self.padding(layer)),
                ("stride", list(conv.stride.map(i64::from))),
                ("ori_name", Json::from(&*own.name)),
            ]);
        }
        members
    }

    /// Scale and zero point of codes: they stand for the scale times the sum of code and zero point.
    fn grid(&self, value: ValueId) -> (f64, f64) {
        match self.network.forms[&value].grid {
            Grid::Codes { scale, zero } => (scale, 0.0 - f64::from(zero)),
            Grid::Half => (1.0, 0.0),
        }
    }

    fn vector(
        &self,
        name: &str,
        layer: &Layer,
        vector: &Vector,
        examples: &Examples<'_>,
    ) -> Members {
        let config = &vector.config;
        let average = matches!(layer.operation, Operation::Pool { largest: false, .. });
        let constant = format!("{name}_constant1");
        let one = || [Json::from(&*constant), "float32".into(), list([1; 4])];
        let [types, shapes, neighbours] = self.tensors(layer, average.then(one), examples);
        let files = ("file_list", object([]));
        let table = |axis: i64| list([axis; 3]);
        let second = match layer.operation {
            Operation::Add => Some(("tensor1_lut", table(1))),
            _ => average.then(|| ("tensor1_lut", table(0))),
        };
        let tables = [("tensor0_lut", table(1))].into_iter().chain(second);
        let mode = ("tensor_mode", 0.into());
        let modules = ("module_list", self.modules(layer, vector));
        let head: Members = match layer.operation {
            Operation::Pool { largest, .. } => {
                let ceil = if largest { 0.into() } else { false.into() };
                let window = [
                    ("pool_size", list(config.window.map(i64::from))),
                    ("padding", self.padding(layer)),
                    ("stride", list(config.stride.map(i64::from))),
                    ("ceil_mode", ceil),
                    files,
                ];
                let tensors = [neighbours, shapes, types].concat();
                window.into_iter().chain(tensors).chain(tables).chain([modules]).collect()
            }
            Operation::Add => {
                let tensors = [neighbours, shapes, types].concat();
                [files].into_iter().chain(tensors).chain(tables).chain([mode, modules]).collect()
            }
            _ => {
                let tensors = [types, shapes].concat().into_iter().chain([files]).chain(neighbours);
                tensors.chain(tables).chain([mode, modules]).collect()
            }
        };
        let batch = list(layer.inputs.iter().map(|_| 0));
        let tail =
            [("ori_name", name.into()), ("input_batchdim", batch), ("output_batchdim", list([0]))];
        head.into_iter().chain(tail).collect()
    }

    /// What the modules of the vector unit do.
    fn modules(&self, layer: &Layer, vector: &Vector) -> Json {
        let config = &vector.config;
        let shapes = || -> Json { layer.inputs.iter().map(|&value| self.shape(value)).collect() };
        let result = || -> Json { [self.shape(layer.output)].into_iter().collect() };
        let between =
            |input: Json, output: Json| [("input_shape", input), ("output_shape", output)];
        let keys = [("requan_scale_a", "requan_zp_a"), ("requan_scale_b", "requan_zp_b")];
        let mut before = Members::new();
        for (index, _) in layer.inputs.iter().enumerate() {
            let (offset, factor) = config.dequantisers[index];
            before.push((keys[index].0, real(factor).into()));
            before.push((keys[index].1, real(offset).into()));
        }
        before.extend(between(shapes(), shapes()));
        let mut modules = vec![("pre_cal", object(before))];
        match layer.operation {
            Operation::Pool { largest: true, .. } => {
                let group = [
                    ("cmp_mode", "cumulative".into()),
                    ("cmp_max_en", "max".into()),
                    ("cmp_dim", "kernel".into()),
                ];
                let group = group.into_iter().chain(between(shapes(), result()));
                modules.push(("compare_group", object(group)));
            }
            Operation::Pool { .. } => {
                let product = [
                    ("mul_group_k_mux", "scalar".into()),
                    ("act_mode", "others".into()),
                    ("mul_group_k_scalar", real(config.multiply.1.immediate).into()),
                ];
                let product = product.into_iter().chain(between(shapes(), shapes()));
                modules.push(("fp32_mul_group", object(product)));
                let sum = [("acc_tree_mode", "acc".into()), ("acc_dim", "kernel".into())];
                let sum = sum.into_iter().chain(between(shapes(), result()));
                modules.push(("acc_tree_group", object(sum)));
            }
            Operation::Add => {
                let sum =
                    [("sumsub_group_mode", "add".into()), ("sumsub_group_b_mux", "vector".into())];
                let sum = sum.into_iter().chain(between(shapes(), result()));
                modules.push(("fp32_sum_sub_group0", object(sum)));
            }
            _ => {}
        }
        if layer.act == Act::Relu {
            modules.push(("relu_group", object(between(result(), result()))));
        }
        let (_, _, offset, factor) = config.quantiser;
        let after = [
            ("mul_k", real(factor).into()),
            ("sum_b", real(offset).into()),
            ("sumsub_mode", "add".into()),
            ("carry_sel", "round".into()),
        ];
        let after = after.into_iter().chain(between(result(), result()));
        modules.push(("post_cal", object(after)));
        object(modules)
    }

    /// The quantisation scales: one record for every layer.
    pub(super) fn scales<'r>(&'r self, examples: &'r Examples<'r>) -> Json {
        let record = |(own, layer, work): (&'r Described, &Layer, &Work)| {
            let [input, output] = [layer.inputs[0], layer.output];
            let numbers = |value: ValueId, keys: [&'static str; 2]| {
                let (scale, zero) = self.grid(value);
                let is_coded = self.format(value) == DataFmt::INT8;
                let numbers = [(keys[0], float(scale)), (keys[1], (zero as i64).into())];
                numbers.into_iter().filter(move |_| is_coded)
            };
            let mut members = Members::new();
            if let (Work::Conv(_), Some((_, scales))) = (work, &own.weights) {
                members.push(("weight_scale", scales.iter().map(|&scale| float(scale)).collect()));
                members.push(("weight_dtype", "int8".into()));
            }
            members.push(("input_dtype", type_name(self.format(input))));
            // A sum has two.
            if layer.inputs.len() == 1 {
                members.extend(numbers(input, ["input_scale", "input_zero_point"]));
            }
            members.push(("output_dtype", type_name(self.format(output))));
            members.extend(numbers(output, ["output_scale", "output_zero_point"]));
            members.push(("round_type", "round".into()));
            (&*own.name, object(members))
        };
        self.computing(examples).map(record).collect()
    }
}
