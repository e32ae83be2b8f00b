//! Programs derived from a schedule and its network.

use crate::common::{arch, problems};
use proptest::prelude::*;
use quincunx_contract::{File, Log, Program, Target};
use quincunx_diag::Class;
use quincunx_npu::text;
use quincunx_npu::{Artifact, TARGET};
use quincunx_testkit::{Random, damaged_text, options};
use serde_json::{Value, json};

/// Two images of 8 channels are quantised, go through two convolutions, whose results are added.
fn network() -> Value {
    let images = |channels: u32| json!([2, channels, 4, 4]);
    let layer = |index: u32, name: &str, operation: &str, previous: Value, next: Value| {
        json!({
            "layer_index": index, "name": name, "operation": operation, "device": "npu",
            "previous_layer": previous, "next_layer": next,
            "input_dtype": ["int8", "int8"], "output_dtype": ["int8"],
            "input_shape": [images(8), images(8)], "output_shape": [images(128)],
        })
    };
    let conv = |index: u32, name: &str, kernel: u32, scale: f64| {
        let mut layer = layer(index, name, "conv2d", json!(["q", "w"]), json!(["sum"]));
        let pad = kernel / 2;
        layer["input_shape"][1] = json!([128, 8, kernel, kernel]);
        layer["kernel_size"] = json!([kernel, kernel]);
        layer["padding"] = json!([pad, pad, pad, pad]);
        layer["stride"] = json!([1, 1]);
        layer["activation_type"] = Value::Null;
        layer["quant_info"] = json!({
            "input_scale1": 0.5, "input_zero_point1": -6.0, "output_scale": scale,
            "output_zero_point": 3.0,
        });
        layer
    };
    let post = json!({"mul_k": 2.5, "sum_b": 6.0, "carry_sel": "round"});
    let mut file = json!({
        "q": layer(0, "q", "quantize", json!(["image"]), json!(["a", "b"])),
        "a": conv(1, "a", 1, 4.125),
        "b": conv(2, "b", 3, 8.25),
        "sum": layer(3, "sum", "element_wise_add", json!(["a", "b"]), json!([])),
    });
    file["q"]["input_dtype"] = json!(["float16"]);
    file["q"]["output_shape"] = json!([images(8)]);
    file["q"]["module_list"] = json!({
        "pre_cal": {"requan_scale_a": 1, "requan_zp_a": 0}, "post_cal": post,
    });
    file["sum"]["input_shape"] = json!([images(128), images(128)]);
    file["sum"]["module_list"] = json!({
        "pre_cal": {
            "requan_scale_a": 0.25, "requan_zp_a": -0.75, "requan_scale_b": 0.125,
            "requan_zp_b": -0.375,
        },
        "relu_group": {}, "post_cal": post,
    });
    file
}

fn area(images: u32, channels: u32) -> (Value, Value) {
    (json!([0, 0, 0, 0]), json!([images - 1, channels - 1, 3, 3]))
}

/// A buffer with activations that this layer's transfer fills.
fn buffer(address: u32, bits: u32, channels: u32, transfer: u32, layer: &str, order: u32) -> Value {
    let (lower, upper) = area(2, channels);
    let kind = if order < 4 { "DRAM" } else { "core" };
    let source = json!({"layer_name": layer, "transfer_id": transfer, "type": kind,
        "lower": lower, "upper": upper});
    json!({"address": address, "align": 64 / bits, "bitwidth": bits, "lower": lower,
        "upper": upper, "size": 2 * 16 * channels * bits / 8, "source": [source],
        "tensor_order": order, "transfer_id": [transfer], "type": "ifmap"})
}

fn current(mut buffer: Value) -> Value {
    buffer["cur_wl_ifmap"] = json!(true);
    buffer
}

fn ifmap(bits: u32, channels: u32, transfer: u32) -> Value {
    let (lower, upper) = area(2, channels);
    json!({"align": 64 / bits, "bitwidth": bits, "lower": lower, "upper": upper,
        "size": 2 * 16 * channels * bits / 8, "transfer_id": [transfer]})
}

/// A tile from and to these corners.
fn tile(input: [[u32; 4]; 2], output: [[u32; 4]; 2], pad: u32, pe: bool) -> Value {
    let mut tile = json!({"ifmap_lower": input[0], "ifmap_upper": input[1],
        "ofmap_lower": output[0], "ofmap_upper": output[1], "tile_padding_tblr": [pad, pad, pad, pad]});
    if pe {
        tile["cut_mode"] = json!("KH");
        tile["mtc0_mtk0"] = json!([1, 1]);
        tile["out_mini_tile"] = json!([1, 8, 2, 2]);
    }
    tile
}

/// One tile per image.
fn images(input: u32, output: u32) -> Value {
    let corners = |n: u32, channels: u32| [[n, 0, 0, 0], [n, channels - 1, 3, 3]];
    let one = |n: u32| tile(corners(n, input), corners(n, output), 0, false);
    json!({"tile_num_0": one(0), "tile_num_1": one(1)})
}

/// The weights of `a` come to WL0 from DRAM, those of `b` through L2 while its tiles run.
fn schedule() -> Value {
    let weights = |name: &str, points: u32, id: u32, to: u32, size: u32| {
        json!({"transfer_id": id, "type": "weight", "lower": [0, 0, 0, 0],
            "upper": [0, 127, 7, points - 1], "size": size, "related_ifmap": [],
            "destination": [{"core_id": 0, "layer_name": name, "type": "core", "workload_id": to}]})
    };
    let (sizes, zero) = ([128 * 40, 128 * 104], [0, 0, 0, 0]);
    let in_l2 = json!({"address": 8192, "align": 8, "bitwidth": 8, "layer_name": "b", "type": "weight",
        "lower": zero, "upper": [0, 127, 7, 8], "size": sizes[1], "tensor_order": 2, "transfer_id": [1]});
    let resident = json!({"address": 0, "align": 8, "bitwidth": 8, "layer_name": "a", "size": 128,
        "source": "DDR", "tensor_order": 1, "transfer_id": [0], "lower": zero,
        "upper": [0, 127, 7, 0]});
    let streamed = json!({"address": 128, "align": 8, "bitwidth": 8, "layer_name": "b", "size": 256,
        "source": "CORE", "tensor_order": null, "transfer_id": [1]});
    let workload = |id: u32, layer: &str, channels: u32, kind: &str, to: u32| {
        let (lower, upper) = area(2, channels);
        let destination = json!([{"core_id": 0, "type": "core", "workload_id": to}]);
        let out = json!({"transfer_id": id + 3, "destination": destination});
        json!({"workload_id": id, "layer_name": layer, "layer_type": kind, "time": 1,
            "workload": [lower, upper], "ofmap": [out], "wl0_buffer": null,
            "ring_buffer_info": [[0, 8_388_608]]})
    };
    let image = || buffer(4096, 16, 8, 2, "image", 0);
    let q = || buffer(0, 8, 8, 3, "q", 4);
    let a = || buffer(32768, 8, 128, 4, "a", 4);
    let b = || buffer(65536, 8, 128, 5, "b", 4);
    let mut list = [
        workload(0, "q", 8, "vp", 1),
        workload(1, "a", 128, "pe", 3),
        workload(2, "b", 128, "pe", 3),
        workload(3, "sum", 128, "vp", 0),
    ];
    list[0]["ofmap"][0]["destination"]
        .as_array_mut()
        .unwrap()
        .push(json!({"core_id": 0, "type": "core", "workload_id": 2}));
    list[0]["ifmap"] = json!([ifmap(16, 8, 2)]);
    list[0]["buffer"] = json!([current(image()), q()]);
    list[0]["wl0_buffer"] = json!([resident]);
    list[0]["tile_info"] = images(8, 8);
    for (index, points, size) in [(1, 0, sizes[0]), (2, 8, sizes[1])] {
        list[index]["ifmap"] = json!([ifmap(8, 8, 3)]);
        list[index]["weight"] = json!({"lower": zero, "upper": [0, 127, 7, points],
            "size": size, "transfer_id": [index - 1]});
    }
    let all = [zero, [1, 7, 3, 3]];
    list[1]["buffer"] = json!([current(q()), a(), in_l2]);
    list[1]["wl0_buffer"] = json!([resident]);
    list[1]["tile_info"] = json!({"tile_num_0": tile(all, [zero, [1, 127, 3, 3]], 0, true)});
    list[2]["buffer"] = json!([current(q()), a(), b(), in_l2]);
    list[2]["wl0_buffer"] = json!([streamed]);
    list[2]["tile_info"] = json!({
        "tile_num_0": tile(all, [zero, [1, 63, 3, 3]], 1, true),
        "tile_num_1": tile(all, [[0, 64, 0, 0], [1, 127, 3, 3]], 1, true),
    });
    // The schedule has the operands of the sum in the other order.
    list[3]["ifmap"] = json!([ifmap(8, 128, 5), ifmap(8, 128, 4)]);
    let mut result = buffer(131_072, 8, 128, 6, "sum", 4);
    result["type"] = json!("ofmap");
    result["layer_name"] = json!("sum");
    result["tensor_order"] = json!(3);
    result["source"] = Value::Null;
    list[3]["buffer"] = json!([current(a()), current(b()), result]);
    list[3]["tile_info"] = images(128, 128);
    list[3]["ofmap"][0]["destination"] = json!([{"type": "DRAM"}]);
    let (lower, upper) = area(2, 8);
    let load = json!({"transfer_id": 2, "type": "fmap", "lower": lower, "upper": upper, "size": 512,
        "related_ifmap": [], "destination": [{"core_id": 0, "layer_name": "q", "type": "core", "workload_id": 0}]});
    let (lower, upper) = area(2, 128);
    let store = json!({"core_id": 0, "layer_name": "sum", "transfer_id": 6, "workload_id": 3,
        "lower": lower, "upper": upper});
    json!({
        "-1": {"out": [weights("a", 1, 0, 1, sizes[0]), weights("b", 9, 1, 2, sizes[1]), load],
            "in": [store]},
        "0": list, "buffersize": 8_388_608, "top_batch_cut": 1, "xlen": 1, "ylen": 1,
    })
}

/// What scales of the network look like.
fn scales() -> Value {
    json!({
        "a": {"input_dtype": "int8", "output_dtype": "int8", "weight_dtype": "int8",
            "weight_scale": vec![0.5; 128], "output_scale": 1.0 / 4.125, "output_zero_point": -3},
    })
}

type Read = Result<Box<dyn Program>, Vec<quincunx_diag::Diagnostic>>;

fn read(files: &[(&str, &str)], manner: &str) -> Read {
    let options = options(&TARGET, &[("derive", manner)]);
    let files: Vec<File> =
        files.iter().map(|(n, text)| File::new(*n, text.to_string().into_bytes())).collect();
    TARGET.read(&files, None, &arch(), &options, &mut Log::default())
}

fn derived(manner: &str) -> Box<dyn Program> {
    let (schedule, network, scales) =
        (schedule().to_string(), network().to_string(), scales().to_string());
    let files = [("s.json", &*schedule), ("n.json", &*network), ("q.json", &*scales)];
    read(&files, manner).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn lines(program: &dyn Program) -> Vec<String> {
    let artifact: &Artifact = program.as_any().downcast_ref().unwrap();
    let text = text::print(&artifact.programs()[0]);
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

/// The values of a field in all lines of a kind.
fn field(lines: &[String], kind: &str, key: &str) -> Vec<String> {
    let own = lines.iter().filter(|line| line.starts_with(&format!("[{kind},")));
    let value = |line: &String| {
        let rest = line.split(&format!("'{key}': ")).nth(1).unwrap();
        let end = if rest.starts_with('[') { "]" } else { "," };
        rest.split(end).next().unwrap().trim_start_matches('[').to_owned()
    };
    own.map(value).collect()
}

#[test]
fn addresses_and_fields_follow_from_the_schedule() {
    let program = derived("ours");
    assert_eq!(program.verify(), vec![]);
    let lines = lines(program.as_ref());
    let of = |kind: &str, key: &str| field(&lines, kind, key);
    assert_eq!(of("lda_mov", "STaddr"), ["0"]);
    assert_eq!(of("lda_mov", "DTaddr"), ["4096"]);
    assert_eq!(of("lda_mov", "Tile"), ["2, 8, 4, 4"]);
    // Weights of `a` are 128 rows of 8 + 32 bytes; those of `b` lie behind them in DRAM.
    assert_eq!(of("ldw_mov", "STaddr"), ["5120"]);
    // From DRAM, then two blocks of 64 rows of 72 + 32 bytes to slots of 128 units.
    assert_eq!(of("lw_mov", "STaddr"), ["0", "8192", "14848"]);
    assert_eq!(of("lw_mov", "DTaddr"), ["0", "128", "256"]);
    assert_eq!(of("lw_mov", "SS"), ["1", "0", "0"]);
    // Padding of one row and column of 4 pixels of 8 bytes.
    assert_eq!(of("pe_conv", "STaddr"), ["0", "-40", "-40"]);
    assert_eq!(of("pe_conv", "SWaddr"), ["0", "128", "256"]);
    assert_eq!(of("pe_conv", "DTaddr"), ["32768", "65536", "65600"]);
    assert_eq!(of("pe_cfg_tp", "Tile"), ["2, 128, 8, 4, 4", "2, 64, 8, 4, 4"]);
    assert_eq!(of("pe_cfg_fm", "PADV"), ["6.0"]);
    assert_eq!(of("pe_cfg_pm", "QK"), ["4.125", "8.25"]);
    // Images of 256, 128 and 2,048 bytes; the first operand of the sum is `a`.
    assert_eq!(of("vp_self", "STaddr"), ["4096", "4352", "32768", "34816"]);
    assert_eq!(of("vp_self", "STaddr1")[2..], ["65536", "67584"]);
    assert_eq!(of("vp_self", "DTaddr"), ["0", "128", "131072", "133120"]);
    assert_eq!(of("vp_cfg_iq", "IQK0"), ["1}]", "0.25}]"]);
    // 2 x 8 x 16 numbers of half precision come before it.
    assert_eq!(of("sta_mov", "DTaddr"), ["512"]);
}

/// Images share addresses, operands are in the order of the schedule, and the later of two streamed
/// blocks comes first; everything else is the same.
#[test]
fn the_original_tool_is_followed() {
    let lines = lines(derived("compat").as_ref());
    let of = |kind: &str, key: &str| field(&lines, kind, key);
    assert_eq!(of("vp_self", "STaddr"), ["4096", "4096", "65536", "65536"]);
    assert_eq!(of("vp_self", "STaddr1")[2..], ["32768", "32768"]);
    assert_eq!(of("vp_self", "DTaddr"), ["0", "0", "131072", "131072"]);
    assert_eq!(of("lw_mov", "DTaddr"), ["0", "256", "128"]);
    assert_eq!(of("pe_conv", "DTaddr"), ["32768", "65536", "65600"]);
}

/// What the derived text reads back as is the same, and it is written in every form.
#[test]
fn derived_programs_are_programs() {
    for manner in ["ours", "compat"] {
        let program = derived(manner);
        let artifact: &Artifact = program.as_any().downcast_ref().unwrap();
        assert_eq!(problems(artifact.programs()).iter().filter(|p| p.is_error()).count(), 0);
        let asm = program.emit("asm", "x").unwrap().remove(0).bytes;
        let again = read(&[("x.asm.txt", std::str::from_utf8(&asm).unwrap())], manner).unwrap();
        assert_eq!(lines(again.as_ref()), lines(program.as_ref()));
        assert!(!program.emit("bin", "x").unwrap().is_empty());
    }
}

/// Every contradiction is an error with the path to one of its sides.
#[test]
fn contradictions_have_a_path() {
    let change = |pointer: &str, value: Value| {
        let mut schedule = schedule();
        *schedule.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
        let (schedule, network) = (schedule.to_string(), network().to_string());
        let problems = read(&[("s.json", &schedule), ("n.json", &network)], "ours").err();
        let problems = problems.unwrap_or_else(|| panic!("accepted: {pointer}"));
        assert!(
            problems.iter().any(|p| p.is_error() && p.class() == Class::Invalid),
            "{problems:?}"
        );
        problems.iter().map(ToString::to_string).collect::<String>()
    };
    for (pointer, value, path) in [
        ("/0/1/layer_name", json!("c"), "$.0[1]"),
        ("/0/0/layer_name", json!("rest"), "$.0[0]"),
        ("/0/1/tile_info/tile_num_0/cut_mode", json!("KX"), "$.0[1].tile_info.tile_num_0.cut_mode"),
        ("/0/2/buffer/3/upper/1", json!(63), "$.0[2]"),
        ("/0/2/buffer/3/address", json!(8256), "$.0[2].buffer[3]"),
        ("/0/0/buffer/0/source/0/transfer_id", json!(99), "$.0[0]"),
        ("/0/0/buffer/0/source/0/layer_name", json!("else"), "$.0[0].buffer[0]"),
        ("/0/3/buffer/2/tensor_order", json!(77), "order 3"),
        ("/0/3/ifmap/1/transfer_id/0", json!(3), "$.0[3]"),
        ("/0/2/wl0_buffer/0/size", json!(64), "$.0[2].wl0_buffer[0]"),
        ("/0/2/buffer/3/transfer_id/0", json!(0), "$.0[2].tile_info.tile_num_0"),
        ("/0/0/tile_info/tile_num_0/ifmap_upper/2", json!(2), "$.0[0].tile_info.tile_num_0"),
        ("/0/0/tile_info/tile_num_0/ifmap_upper/1", json!(6), "$.0[0].tile_info.tile_num_0"),
        ("/-1/in/0/upper/1", json!(63), "$.0[3].buffer[2]"),
        ("/-1/in/0/layer_name", json!("a"), "$.0[3].buffer[2]"),
        (
            "/0/1/tile_info/tile_num_0/mtc0_mtk0",
            json!([1]),
            "$.0[1].tile_info.tile_num_0.mtc0_mtk0",
        ),
    ] {
        let text = change(pointer, value);
        assert!(text.contains(path), "{pointer}: {text}");
    }
    let wrong = |scales: Value| {
        let (schedule, network) = (schedule().to_string(), network().to_string());
        let files = [("s", &*schedule), ("n", &*network), ("q", &scales.to_string())];
        read(&files, "ours").err().map(|problems| problems[0].to_string()).unwrap_or_default()
    };
    let mut other = scales();
    other["a"]["output_scale"] = json!(0.25);
    assert!(wrong(other).contains("$.a.output_scale"));
    let mut other = scales();
    other["a"]["weight_scale"] = json!([0.5]);
    assert!(wrong(other).contains("$.a.weight_scale"));
}

#[test]
fn a_schedule_needs_its_network() {
    let (schedule, network) = (schedule().to_string(), network().to_string());
    for files in [
        vec![("s.json", &*schedule)],
        vec![("n.json", &*network)],
        vec![("s.json", &*schedule), ("t.json", &*schedule), ("n.json", &*network)],
        vec![("s.json", &*schedule), ("n.json", &*network), ("x.asm.txt", "")],
    ] {
        assert_eq!(read(&files, "ours").err().unwrap()[0].code(), "Q4101");
    }
}

/// What `fuzz/run.sh` begins with. `QUINCUNX_BLESS=1` writes it anew.
#[test]
fn the_fuzzer_begins_with_this_pair() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/npu/derived");
    for (kind, value) in [("scheduler", schedule()), ("frontend", network())] {
        let path = format!("{folder}/pair.{kind}.json");
        let text = format!("{value}\n");
        if std::env::var("QUINCUNX_BLESS").is_ok_and(|value| value == "1") {
            std::fs::write(&path, &text).unwrap();
        }
        assert!(std::fs::read_to_string(&path).unwrap() == text, "{path} is out of date");
    }
}

/// What stands in place of damaged bytes.
const MARKS: &str = "0123456789-.[]{},:\"null";

proptest! {
    /// Damaged files are refused, or give a program that can be checked and written.
    #[test]
    fn damaged_files_do_no_harm(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let (schedule, network) = (schedule().to_string(), network().to_string());
        let damaged = match seed % 2 {
            0 => [damaged_text(&schedule, MARKS, &mut random), network],
            _ => [schedule, damaged_text(&network, MARKS, &mut random)],
        };
        let [schedule, network] = damaged;
        for manner in ["ours", "compat"] {
            if let Ok(program) = read(&[("s.json", &schedule), ("n.json", &network)], manner) {
                program.verify();
                let _ = program.emit("bin", "x");
                lines(program.as_ref());
            }
        }
    }
}
