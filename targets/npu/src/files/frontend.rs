//! Frontend IR: layer name to layer. Facts: `gemini` (`docs/bibliography.md`).

use super::{Json, whole_list};
use quincunx_diag::Problems;
use quincunx_report::{Column, Table};
use std::collections::{BTreeMap, BTreeSet};

/// Operations that the original tool knows.
pub(super) const OPERATIONS: [&str; 7] =
    ["conv2d", "dense", "reshape", "quantize", "max_pool2d", "avg_pool2d", "element_wise_add"];

/// Rules: `Q4072` for keys and their types, `Q4073` for names and indices that are not unique or do
/// not fit each other, `Q4074` for shapes and parameters of an operation.
pub(super) fn check(file: &Json, problems: &mut Problems) {
    let layers = file.members().unwrap_or(&[]);
    let mut indices = BTreeSet::new();
    let names: BTreeMap<&str, &Json> = layers.iter().map(|(name, l)| (name.as_str(), l)).collect();
    if names.len() != layers.len() {
        problems.error("Q4073", "two layers have the same name");
    }
    for (name, layer) in layers {
        keys(name, layer, problems);
        let index = layer.get("layer_index").and_then(Json::whole);
        match index {
            Some(index) if index >= 0 => {
                let fresh = indices.insert(index);
                problems.rule(fresh, "Q4073", || format!("layer_index {index} appears twice"));
            }
            _ => problems.error("Q4072", format!("layer {name} has no layer_index")),
        }
        let own = layer.get("name").and_then(Json::text);
        problems.rule(own == Some(name), "Q4073", || {
            format!("layer {name} has another name in its record")
        });
        neighbours(name, layer, &names, problems);
        operation(name, layer, problems);
    }
    let count = indices.len();
    if !indices.iter().copied().eq(0..count as i64) {
        let last = indices.last().copied().unwrap_or(-1);
        problems.warn("Q4073", format!("{count} layers have indices up to {last}"));
    }
}

fn keys(name: &str, layer: &Json, problems: &mut Problems) {
    for key in ["input_dtype", "output_dtype", "input_shape", "output_shape"] {
        let list = layer.get(key).and_then(Json::list);
        problems.rule(list.is_some(), "Q4072", || format!("layer {name} has no list {key}"));
    }
    for key in ["operation", "device"] {
        let text = layer.get(key).and_then(Json::text);
        problems.rule(text.is_some(), "Q4072", || format!("layer {name} has no text {key}"));
    }
}

/// A layer that another one names as its next names that one as its previous.
fn neighbours(name: &str, layer: &Json, names: &BTreeMap<&str, &Json>, problems: &mut Problems) {
    for (key, back) in [("previous_layer", "next_layer"), ("next_layer", "previous_layer")] {
        let Some(list) = layer.get(key).and_then(Json::list) else {
            problems.error("Q4072", format!("layer {name} has no list {key}"));
            continue;
        };
        for other in list.iter().filter_map(Json::text) {
            // Inputs of the network are not layers.
            let Some(other_layer) = names.get(other) else { continue };
            let list = other_layer.get(back).and_then(Json::list).unwrap_or(&[]);
            let mutual = list.iter().any(|entry| entry.text() == Some(name));
            problems.rule(mutual, "Q4073", || {
                format!("{name} has {key} {other}, which does not name it")
            });
        }
    }
}

fn operation(name: &str, layer: &Json, problems: &mut Problems) {
    let operation = layer.get("operation").and_then(Json::text).unwrap_or("");
    if !OPERATIONS.contains(&operation) {
        problems.warn("Q4074", format!("layer {name} has the unknown operation {operation}"));
        return;
    }
    let shapes = |key: &str| -> Vec<Vec<i64>> {
        let list = layer.get(key).and_then(Json::list).unwrap_or(&[]);
        list.iter().filter_map(|shape| whole_list(Some(shape))).collect()
    };
    let (inputs, outputs) = (shapes("input_shape"), shapes("output_shape"));
    let positive = inputs.iter().chain(&outputs).flatten().all(|&extent| extent > 0);
    problems.rule(positive, "Q4074", || format!("layer {name} has an extent that is not positive"));
    if operation == "conv2d" {
        let parameters = ["kernel_size", "padding", "stride"];
        let lists: Vec<_> = parameters.iter().map(|key| whole_list(layer.get(key))).collect();
        let [Some(kernel), Some(padding), Some(stride)] = &lists[..] else {
            return problems
                .error("Q4072", format!("convolution {name} lacks one of {parameters:?}"));
        };
        let output = convolved(inputs.first(), kernel, padding, stride);
        let found = outputs.first().and_then(|shape| shape.get(2..4)).map(<[i64]>::to_vec);
        problems.rule(output == found, "Q4074", || {
            format!("convolution {name} gives {found:?}, its parameters {output:?}")
        });
    }
    if ["conv2d", "dense"].contains(&operation) {
        let info = layer.get("quant_info");
        let number = |key: &str| info.and_then(|info| info.get(key)).and_then(Json::real);
        let scale = number("input_scale1").is_some_and(|scale| scale > 0.0);
        let zero = number("input_zero_point1").is_some();
        problems.rule(scale && zero, "Q4074", || {
            format!("layer {name} lacks input scale or zero point")
        });
    }
}

/// Rows and columns of the output of a convolution.
fn convolved(
    input: Option<&Vec<i64>>,
    kernel: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Option<Vec<i64>> {
    let input = input?.get(2..4)?;
    let &[top, bottom, left, right] = padding else { return None };
    let pads = [top.checked_add(bottom)?, left.checked_add(right)?];
    (0..2)
        .map(|axis| {
            let (kernel, stride) = (*kernel.get(axis)?, *stride.get(axis)?);
            let room = input[axis].checked_add(pads[axis])?.checked_sub(kernel)?;
            room.checked_div_euclid(stride).filter(|_| stride > 0)?.checked_add(1)
        })
        .collect()
}

pub(super) fn tables(file: &Json) -> Vec<Table> {
    let columns = vec![
        Column::number("layer"),
        Column::text("name"),
        Column::text("operation"),
        Column::text("device"),
        Column::text("input"),
        Column::text("output"),
    ];
    let mut table = Table::new("layers", columns);
    let mut layers: Vec<_> = file.members().unwrap_or(&[]).iter().collect();
    layers.sort_by_key(|(_, layer)| layer.get("layer_index").and_then(Json::whole));
    let shape = |layer: &Json, key: &str| {
        let first = layer.get(key).and_then(Json::list).and_then(<[Json]>::first);
        let list = whole_list(first).unwrap_or_default();
        list.iter().map(i64::to_string).collect::<Vec<_>>().join("x")
    };
    for (name, layer) in layers {
        let text = |key: &str| layer.get(key).and_then(Json::text).unwrap_or("").to_owned();
        table.push(vec![
            layer.get("layer_index").and_then(Json::whole).map(|index| index.max(0) as u64).into(),
            name.clone().into(),
            text("operation").into(),
            text("device").into(),
            shape(layer, "input_shape").into(),
            shape(layer, "output_shape").into(),
        ]);
    }
    vec![table]
}
