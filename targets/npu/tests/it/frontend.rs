//! Frontend IR as a network.

use quincunx_contract::{File, ModelFile, Target};
use quincunx_diag::any_error;
use quincunx_graph::execute::{Keep, float};
use quincunx_npu::TARGET;
use quincunx_tensor::{Tensor, Tensors};
use quincunx_testkit::{Random, damaged_text};
use serde_json::{Value, json};

/// Every operation once, on an image of 2 x 2; all shapes but those of the last two are equal.
fn file() -> Value {
    let (image, one) = (json!([1, 1, 2, 2]), json!([1, 1, 1, 1]));
    let layer = |index: u32, name: &str, operation: &str, previous: Value, next: Value| {
        json!({
            "layer_index": index, "name": name, "operation": operation, "device": "npu",
            "previous_layer": previous, "next_layer": next,
            "input_dtype": ["int8"], "output_dtype": ["int8"],
            "input_shape": [image, image], "output_shape": [image],
            "module_list": {"post_cal": {"mul_k": 2.0, "sum_b": -128.0}},
        })
    };
    let mut file = json!({
        "quantised": layer(0, "quantised", "quantize", json!(["image"]), json!(["conv", "sum"])),
        "conv": layer(1, "conv", "conv2d", json!(["quantised", "w"]), json!(["sum"])),
        "sum": layer(2, "sum", "element_wise_add", json!(["conv", "quantised"]), json!(["most", "mean"])),
        "most": layer(3, "most", "max_pool2d", json!(["sum"]), json!(["dense"])),
        "mean": layer(4, "mean", "avg_pool2d", json!(["sum"]), json!([])),
        "dense": layer(5, "dense", "dense", json!(["most", "v"]), json!(["rows"])),
        "rows": layer(6, "rows", "reshape", json!(["dense"]), json!([])),
    });
    file["quantised"]["module_list"]["post_cal"]["sum_b"] = json!(0.0);
    file["sum"]["module_list"]["relu_group"] = json!({});
    for (name, kernel, extent) in
        [("conv", "kernel_size", 1), ("most", "pool_size", 2), ("mean", "pool_size", 2)]
    {
        file[name][kernel] = json!([extent, extent]);
        file[name]["stride"] = json!([extent, extent]);
        file[name]["padding"] = json!([0, 0, 0, 0]);
    }
    for (name, weights) in [("conv", json!([1, 1, 1, 1])), ("dense", json!([2, 1, 1, 1]))] {
        let scales = json!({"input_scale1": 0.5, "input_zero_point1": 0.0, "output_scale": 2.0, "output_zero_point": -128.0});
        file[name]["quant_info"] = scales;
        file[name]["input_shape"][1] = weights;
        file[name].as_object_mut().unwrap().remove("module_list");
    }
    file["conv"]["activation_type"] = json!("relu");
    for name in ["dense", "rows"] {
        file[name]["input_shape"][0] = one.clone();
        file[name]["output_dtype"] = json!(["float16"]);
    }
    file["dense"]["output_shape"] = json!([[1, 2, 1, 1]]);
    file["rows"]["output_shape"] = json!([[1, 2]]);
    file
}

fn model(file: &Value) -> Result<ModelFile, String> {
    let file = File::new("net.json", file.to_string().into_bytes());
    let model = TARGET.model(&file).map_err(|problems| format!("{problems:?}"))?;
    Ok(model.expect("a frontend IR"))
}

#[test]
fn layers_have_the_numbers_that_were_computed_by_hand() {
    let graph = model(&file()).unwrap().graph;
    assert!(graph.verify().is_empty(), "{:?}", graph.verify());
    let input = |name: &str, shape: &[usize], numbers: Vec<f32>| {
        (name.to_owned(), Tensor::from_vec(shape, numbers).unwrap())
    };
    let inputs = Tensors::from([
        input("image", &[1, 1, 2, 2], vec![1.2, -0.3, 0.6, 2.1]),
        input("w", &[1, 1, 1, 1], vec![3.0]),
        input("conv_bias", &[1], vec![0.5]),
        input("v", &[2, 1, 1, 1], vec![1.0, -1.0]),
        input("dense_bias", &[2], vec![0.0, 0.25]),
    ]);
    let found = float(&graph, &inputs, Keep::All).unwrap();
    let expected: [(&str, &[f64]); 5] = [
        ("quantised_int8", &[1.0, -0.5, 0.5, 2.0]),
        ("conv_int8", &[3.5, 0.0, 2.0, 6.5]),
        ("sum_int8", &[4.5, 0.0, 2.5, 8.5]),
        ("mean_int8", &[4.0]),
        ("rows_float32", &[8.5, -8.25]),
    ];
    for (name, numbers) in expected {
        assert_eq!(found[name].to_f64(), numbers, "{name}");
    }
    let outputs: Vec<&str> = graph.outputs().iter().map(|&id| &*graph[id].name).collect();
    assert_eq!(outputs, ["mean_int8", "rows_float32"]);
}

#[test]
fn what_a_layer_lacks_is_said() {
    let without = |layer: &str, key: &str| {
        let mut file = file();
        file[layer].as_object_mut().unwrap().remove(key);
        model(&file).map(|_| ()).unwrap_err()
    };
    assert!(without("sum", "module_list").contains("no scale and whole zero point"));
    assert!(without("most", "stride").contains("no list stride"));
    assert!(without("quantised", "output_dtype").contains("Q4072"));
    let mut unknown = file();
    unknown["mean"]["operation"] = json!("median_pool2d");
    assert!(model(&unknown).map(|_| ()).unwrap_err().contains("median_pool2d"));
    let mut circle = file();
    circle["conv"]["layer_index"] = json!(2);
    circle["sum"]["layer_index"] = json!(1);
    assert!(model(&circle).map(|_| ()).unwrap_err().contains("sum reads conv"));
    // An operand too few is found, whatever else the file says.
    let mut alone = file();
    alone["sum"]["previous_layer"] = json!(["conv"]);
    alone["quantised"]["next_layer"] = json!(["conv"]);
    assert!(model(&alone).map(|_| ()).unwrap_err().contains("no operand 1"));
}

#[test]
fn damaged_files_are_survived() {
    let sound = file().to_string();
    let mut read = 0;
    for seed in 0..10_000 {
        let text = damaged_text(&sound, "0123456789-.,:[]{}\"e", &mut Random::new(seed));
        let file = File::new("net.json", text.into_bytes());
        match TARGET.model(&file) {
            Ok(model) => {
                read += usize::from(model.is_some());
                let problems = model.map_or_else(Vec::new, |model| model.graph.verify());
                assert!(problems.is_empty(), "{seed}: {problems:?}");
            }
            Err(problems) => assert!(any_error(&problems), "{seed}: {problems:?}"),
        }
    }
    assert!(read > 100, "{read} files were read");
}
