//! Golden numbers, random data, and running one product.

#![allow(dead_code, unreachable_pub, reason = "every test uses a part")]

pub mod definition;
pub mod networks;

pub use quincunx_testkit::Random;

use quincunx_contract::{Arch, ArchSource, File, Target};
use quincunx_diag::SourceId;
use quincunx_dpas::TARGET;
use quincunx_dpas::arch::{DpasArch, Platform};
use quincunx_dpas::isa::{native, native_layout};
use quincunx_dpas::precision::{Acc, Precision};
use quincunx_dpas::program::{Listing, Statement};
use quincunx_dpas::shape::{RowStride, Shape};
use quincunx_dpas::simulate::{Model, Operation, Rules, State, Step};
use quincunx_dpas::text::{self, from_hex};
use serde_json::Value;
use std::path::{Path, PathBuf};

pub fn arch(platform: Platform) -> DpasArch {
    DpasArch::preset(platform.name()).unwrap()
}

pub fn listing(text: &str, platform: Platform) -> Listing {
    text::native::read(text, platform, SourceId(0)).unwrap_or_else(|found| panic!("{found:?}"))
}

pub fn statement(text: &str, platform: Platform) -> Statement {
    listing(text, platform).items.remove(0).statement
}

/// The folder of golden data.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/dpas")
}

/// A machine, and a file for it.
pub fn target_of(name: &str, bytes: Vec<u8>, preset: &str) -> (Box<dyn Arch>, File) {
    let arch = TARGET.arch(&ArchSource::Preset(preset.to_owned())).unwrap();
    (arch, File::new(name, bytes))
}

pub fn golden(name: &str) -> Value {
    let text = std::fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A golden product.
pub struct Numeric {
    pub id: u64,
    pub shape: Shape,
    pub src0: Option<Vec<u8>>,
    pub src1: Vec<u8>,
    pub src2: Vec<u8>,
    /// The result in every model that the case names.
    pub expected: Vec<(Rules, Vec<u8>)>,
}

fn numbers(value: &Value, size: usize) -> Vec<u8> {
    let bytes = from_hex(value.as_str().unwrap()).unwrap();
    bytes.chunks(size).flat_map(|number| number.iter().rev().copied()).collect()
}

/// All golden products.
pub fn numeric() -> Vec<Numeric> {
    ["numeric_int", "numeric_float"]
        .into_iter()
        .flat_map(|name| golden(name)["cases"].as_array().unwrap().clone())
        .map(|case| {
            let acc = |key: &str| Acc::from_name(case[key].as_str().unwrap()).unwrap();
            let precision = |key: &str| Precision::from_name(case[key].as_str().unwrap()).unwrap();
            let number = |key: &str| case[key].as_u64().unwrap() as u32;
            let shape = Shape {
                weights: precision("src1_prec"),
                activations: precision("src2_prec"),
                depth: number("sd"),
                repeat: number("rc"),
                lanes: number("exec"),
                dst: acc("dst_type"),
                src0: acc("src0_type"),
                stride: RowStride::Full,
            };
            let models = [Model::Seq, Model::Fma, Model::Stage, Model::Exact];
            let mut expected = Vec::new();
            if let Some(dst) = case.get("dst") {
                expected.push((Rules::default(), numbers(dst, 4)));
            }
            for model in models {
                if let Some(dst) = case.get(format!("dst_{}", model.name())) {
                    let size = shape.dst.bytes() as usize;
                    expected.push((Rules { model, ftz: false }, numbers(dst, size)));
                }
            }
            let src0 = &case["src0"];
            Numeric {
                id: case["id"].as_u64().unwrap(),
                src0: src0.is_string().then(|| numbers(src0, shape.src0.bytes() as usize)),
                src1: numbers(&case["src1"], 4),
                src2: numbers(&case["src2"], 4),
                shape,
                expected,
            }
        })
        .collect()
}

/// Runs a product with its operands one behind the other; `plant` may change the operation.
pub fn product(
    shape: Shape,
    src0: Option<&[u8]>,
    src1: &[u8],
    src2: &[u8],
    rules: Rules,
    plant: &dyn Fn(&mut Operation),
) -> Vec<u8> {
    let mut bytes = vec![0; shape.dst_bytes() as usize];
    let mut place = |data: &[u8]| {
        let at = bytes.len();
        bytes.extend_from_slice(data);
        at
    };
    let mut operation = Operation {
        shape,
        dst: 0,
        src0: src0.map(&mut place),
        src1: place(src1),
        src2: place(src2),
        offset: 0,
        no_mask: true,
        fused: false,
        scales: None,
    };
    plant(&mut operation);
    // A planted fault may reach further than the operands.
    bytes.extend([0; 4096]);
    let mut state = State { threads: vec![bytes.into()], dispatch_mask: u32::MAX };
    Step::Multiply(operation).run(&mut state, rules).unwrap();
    state.threads[0][..shape.dst_bytes() as usize].to_vec()
}

/// Equal, where any NaN equals any NaN.
pub fn same(found: &[u8], expected: &[u8], acc: Acc) -> bool {
    let size = acc.bytes() as usize;
    let nan = |bytes: &[u8]| {
        let code = bytes.iter().rev().fold(0u64, |code, &byte| code << 8 | u64::from(byte));
        match acc {
            Acc::F => f32::from_bits(code as u32).is_nan(),
            Acc::Df => f64::from_bits(code).is_nan(),
            Acc::Bf => code & 0x7fff > 0x7f80,
            Acc::Hf => code & 0x7fff > 0x7c00,
            Acc::D | Acc::Ud => false,
        }
    };
    let mut pairs = found.chunks(size).zip(expected.chunks(size));
    found.len() == expected.len() && pairs.all(|(a, b)| a == b || (nan(a) && nan(b)))
}

/// A random systolic instruction of a platform; only the last one has bdpas.
pub fn systolic(random: &mut Random, platform: Platform) -> quincunx_isa::RawInst {
    let (table, layout) = (&native::TABLE, native_layout(platform));
    let rows = table.rows.iter();
    let rows: Vec<usize> = rows
        .enumerate()
        .filter(|(_, row)| platform == Platform::Xe3p || row.name != "Scaled")
        .map(|(index, _)| index)
        .collect();
    let row = random.pick(&rows);
    table.random_of(row, &mut |n| random.below(n), layout)
}
