//! The network of a frontend IR. Facts: `gemini` (`docs/bibliography.md`).

use super::{Json, whole_list};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{
    Binary, Conv, Graph, Op, Param, Pool, PoolKind, Quantiser, Spatial, Unary, ValueId, Window,
};
use quincunx_tensor::DType;
use std::collections::{BTreeMap, BTreeSet};

/// The network of a frontend IR in real numbers, every result on the grid that the layer gives:
/// int8 with its scale and zero point, or half precision. The file has neither weights nor biases;
/// they are inputs, of real numbers, as the images are.
///
/// # Errors
/// `Q4072` and `Q4074` for what a layer lacks, `Q4073` for one that reads a later one; those of the graph for what does not fit.
pub(super) fn to_graph(file: &Json) -> Result<Graph> {
    let mut layers: Vec<(&str, &Json)> =
        file.members().unwrap_or(&[]).iter().map(|(name, layer)| (name.as_str(), layer)).collect();
    layers.sort_by_key(|(_, layer)| layer.get("layer_index").and_then(Json::whole));
    let later = layers.iter().map(|(name, _)| *name).collect();
    let mut network = Network { graph: Graph::new("frontend"), values: BTreeMap::new(), later };
    for &(name, layer) in &layers {
        let result = network.layer(&Layer { name, json: layer })?;
        network.values.insert(name.to_owned(), result);
        network.later.remove(name);
    }
    let consumers = network.graph.consumers();
    for (name, _) in &layers {
        let result = network.values[*name];
        if consumers[result.index()].is_empty() {
            network.graph.add_output(result);
        }
    }
    Ok(network.graph)
}

fn texts<'a>(layer: &'a Json, key: &str) -> impl Iterator<Item = &'a str> {
    layer.get(key).and_then(Json::list).unwrap_or(&[]).iter().filter_map(Json::text)
}

/// A layer of the file.
struct Layer<'a> {
    name: &'a str,
    json: &'a Json,
}

impl Layer<'_> {
    fn wrong(&self, code: &'static str, what: &str) -> Diagnostic {
        Diagnostic::invalid(code, format!("layer {} {what}", self.name))
    }

    fn extents(&self, key: &str) -> Result<Vec<usize>> {
        let list = whole_list(self.json.get(key)).unwrap_or_default();
        let extents: Option<Vec<usize>> = list.iter().map(|&n| usize::try_from(n).ok()).collect();
        extents
            .filter(|extents| !extents.is_empty())
            .ok_or_else(|| self.wrong("Q4072", &format!("has no list {key} of whole numbers")))
    }

    /// The window of which `kernel` is the key of the extents.
    fn window(&self, kernel: &str) -> Result<Window> {
        let mut window = Window::new(&self.extents(kernel)?);
        window.strides = Spatial::from(self.extents("stride")?);
        let pads = self.extents("padding")?;
        let &[top, bottom, left, right] = &pads[..] else {
            return Err(self.wrong("Q4072", "has no padding at four sides"));
        };
        window.pads = [(top, bottom), (left, right)].into_iter().collect();
        Ok(window)
    }

    fn shape(&self, key: &str, index: usize) -> Result<Vec<usize>> {
        let shape = self.json.get(key).and_then(Json::list).and_then(|list| list.get(index));
        let extents = whole_list(shape).unwrap_or_default();
        let extents = extents.iter().map(|&extent| usize::try_from(extent).ok().filter(|&e| e > 0));
        let shape: Option<Vec<usize>> = extents.collect();
        shape
            .filter(|shape| !shape.is_empty())
            .ok_or_else(|| self.wrong("Q4074", &format!("has no {key} {index}")))
    }

    /// Scale and zero point of int8 results.
    fn grid(&self) -> Result<Quantiser> {
        let (numbers, keys) = match self.json.get("module_list") {
            Some(modules) => (modules.get("post_cal"), ["mul_k", "sum_b"]),
            None => (self.json.get("quant_info"), ["output_scale", "output_zero_point"]),
        };
        let [scale, zero] = keys.map(|key| numbers?.get(key).and_then(Json::real));
        let (Some(scale), Some(zero)) = (scale, zero.filter(|zero| zero.fract() == 0.0)) else {
            return Err(
                self.wrong("Q4074", "has no scale and whole zero point for its int8 result")
            );
        };
        let zero = Param::uniform(zero as i64);
        let quantiser = Quantiser { zero, ..Quantiser::symmetric(true, 8, scale.recip()) };
        quantiser.check().map_err(|problem| problem.with_note(format!("layer {}", self.name)))?;
        Ok(quantiser)
    }
}

struct Network<'a> {
    graph: Graph,
    /// Results of layers and inputs, by name.
    values: BTreeMap<String, ValueId>,
    /// Layers that are not computed yet; without this check their readers would get inputs.
    later: BTreeSet<&'a str>,
}

impl Network<'_> {
    fn layer(&mut self, layer: &Layer<'_>) -> Result<ValueId> {
        let x = self.operand(layer, 0)?;
        let modules = layer.json.get("module_list");
        let mut relu = modules.is_some_and(|modules| modules.get("relu_group").is_some());
        let operation = layer.json.get("operation").and_then(Json::text).unwrap_or("");
        let (op, operands) = match operation {
            "conv2d" | "dense" => {
                relu = layer.json.get("activation_type").and_then(Json::text) == Some("relu");
                let (size, depth) = (layer.shape("input_shape", 1)?, self.graph[x].shape.get(1));
                let (&[outputs, channels, ..], Some(depth)) = (&size[..], depth) else {
                    return Err(layer.wrong("Q4074", "has no channels"));
                };
                let groups = depth.checked_div(channels).unwrap_or(1).max(1);
                let window = match operation {
                    "dense" => Window::new(&[1, 1]),
                    _ => layer.window("kernel_size")?,
                };
                let weights = self.operand(layer, 1)?;
                let bias = self.input(&format!("{}_bias", layer.name), &[outputs])?;
                (Op::Conv(Conv { window, groups }), vec![Some(x), Some(weights), Some(bias)])
            }
            "max_pool2d" | "avg_pool2d" => {
                let kind = match operation {
                    "max_pool2d" => PoolKind::Max,
                    _ => PoolKind::Average { count_include_pad: true },
                };
                let ceil = match layer.json.get("ceil_mode") {
                    Some(Json::Bool(ceil)) => *ceil,
                    other => other.and_then(Json::whole).is_some_and(|ceil| ceil != 0),
                };
                let window = layer.window("pool_size")?;
                (Op::Pool(Pool { kind, window, ceil }), vec![Some(x)])
            }
            "element_wise_add" => {
                let other = self.operand(layer, 1)?;
                (Op::Binary(Binary::Add), vec![Some(x), Some(other)])
            }
            "quantize" => (Op::Identity, vec![Some(x)]),
            "reshape" => {
                let shape = layer.shape("output_shape", 0)?;
                // They were whole numbers of 64 bits.
                let shape = shape.into_iter().map(|extent| extent as i64).collect();
                (Op::Reshape { shape }, vec![Some(x)])
            }
            other => {
                let known = super::frontend::OPERATIONS.join(", ");
                let what = format!("has the operation {other:?}, expected one of {known}");
                return Err(layer.wrong("Q4074", &what));
            }
        };
        let result = self.graph.add_node(layer.name, op, &operands, layer.name)?;
        let relu = relu.then_some(("relu", Op::Unary(Unary::Relu)));
        let steps = relu.into_iter().chain(self.precision(layer)?);
        steps.into_iter().try_fold(result, |x, (suffix, op)| {
            let name = format!("{}_{suffix}", layer.name);
            self.graph.add_node(&name, op, &[Some(x)], &name)
        })
    }

    /// What brings a result to its type.
    fn precision(&self, layer: &Layer<'_>) -> Result<Vec<(&'static str, Op)>> {
        Ok(match texts(layer.json, "output_dtype").next() {
            Some("int8") => vec![("int8", Op::Quantise(layer.grid()?))],
            Some("float16") => {
                let cast = |to| Op::Cast { to };
                vec![("float16", cast(DType::F16)), ("float32", cast(DType::F32))]
            }
            other => {
                let what =
                    format!("gives {}, expected int8 or float16", other.unwrap_or("nothing"));
                return Err(layer.wrong("Q4074", &what));
            }
        })
    }

    /// The result of another layer, or an input.
    fn operand(&mut self, layer: &Layer<'_>, index: usize) -> Result<ValueId> {
        let name = texts(layer.json, "previous_layer").nth(index);
        let missing = || layer.wrong("Q4072", &format!("has no operand {index} in previous_layer"));
        let name = name.ok_or_else(missing)?;
        if self.later.contains(name) {
            return Err(
                layer.wrong("Q4073", &format!("reads {name}, whose layer_index is not lower"))
            );
        }
        self.input(name, &layer.shape("input_shape", index)?)
    }

    /// The value of this name, an input if no layer computes it.
    fn input(&mut self, name: &str, shape: &[usize]) -> Result<ValueId> {
        if let Some(&value) = self.values.get(name) {
            return Ok(value);
        }
        let value = self.graph.add_input(name, DType::F32, shape, &[])?;
        self.values.insert(name.to_owned(), value);
        Ok(value)
    }
}
