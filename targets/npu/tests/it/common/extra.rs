//! Cases with single precision in L2, and with queues that work at the same time.

use super::cases::{Case, FP16, INT8, codes, images, load, round, store, tile};
use super::{Random, chain, inst, num, only, with};
use quincunx_npu::isa::{Inst, Queue, Queues};
use quincunx_tensor::Tensors;

/// Configurations of the vector queue: formats, single precision, and factor and offset of the
/// dequantiser; the quantiser has factor `scale` and no offset.
pub fn vector(
    shape: [usize; 3],
    formats: [i128; 2],
    single: bool,
    factor: f64,
    offset: f64,
    scale: f64,
) -> Vec<Inst> {
    let tensors = [tile("source", shape), tile("dest", shape)];
    let fm = [("if_sign", 1), ("of_sign", 1), ("idf", formats[0]), ("odf", formats[1])];
    let fm: Vec<_> = fm.into_iter().chain([("vf32", i128::from(single))]).collect();
    let tp = [("stride_h", 1), ("stride_w", 1), ("kernel_h", 1), ("kernel_w", 1), ("t0f", 7)];
    vec![
        with("vp_cfg_fm", &fm, &tensors),
        with("vp_cfg_tp", &tp, &[tile("tile", shape)]),
        inst("vp_cfg_gcs", &[]),
        inst("vp_cfg_gms", &[]),
        inst("vp_cfg_sms", &[]),
        inst("vp_cfg_qp", &[("qcs", 2), ("qk", num(scale))]),
        inst("vp_cfg_iq", &[("iqk0", num(factor)), ("iqb0", num(offset))]),
        inst("vp_cfg_iq1", &[]),
    ]
}

pub fn vp_self(from: i128, to: i128) -> Inst {
    let operands = [("iqen", 1), ("qen", 3), ("gpmd", 4), ("lut", 16)];
    let places = [("staddr", from), ("dtaddr", to)];
    inst("vp_self", &operands.into_iter().chain(places).collect::<Vec<_>>())
}

/// Codes become numbers near 4096 that half precision could not tell apart, and codes again.
pub fn single_precision() -> Case {
    let shape = [5, 3, 2];
    let mut insts: Vec<Inst> = load(INT8, 0, 0, 1, shape).to_vec();
    insts.extend(vector(shape, [INT8, FP16], true, 1.0 / 1024.0, 4096.0, 1.0));
    insts.push(vp_self(0, 4096));
    insts.extend(vector(shape, [FP16, INT8], true, 1.0, -4096.0, 512.0));
    insts.push(vp_self(4096, 8192));
    insts.extend(store(INT8, 8192, 4096, 1, shape));
    let x = codes(&mut Random::new(12), &[1, 5, 3, 2]);
    let expected = x.to_f64().iter().map(|&code| round(code as f32 / 2.0)).collect();
    Case {
        name: "single precision".to_owned(),
        programs: vec![chain(insts, None)],
        inputs: Tensors::from([("dram0_0".to_owned(), x)]),
        expected: vec![("dram0_4096".to_owned(), expected)],
    }
}

/// Two tensors are loaded; one is reordered while the other is requantised; then both are stored.
pub fn concurrent() -> Case {
    let shape = [8, 3, 4];
    let mut insts: Vec<Inst> = load(INT8, 0, 0, 1, shape).to_vec();
    insts.extend(load(INT8, 4096, 1024, 1, shape));
    let tensors = [tile("source", shape), tile("dest", shape)];
    insts.push(with("dt_cfg", &[("df", INT8)], &tensors));
    insts.push(with("dt_cal", &[("dtaddr", 2048)], &[images(1, shape)]));
    insts.extend(vector(shape, [INT8, INT8], false, 1.0, 0.0, 0.75));
    insts.push(vp_self(1024, 3072));
    insts.extend(store(INT8, 2048, 8192, 1, shape));
    insts.extend(store(INT8, 3072, 12_288, 1, shape));
    let mut program = chain(insts, None);
    // Both computations wait for the second load alone, and the stores for one of them each.
    let mut count = [0; 2];
    for line in &mut program.lines {
        let list = |queues: &[Queue]| queues.iter().copied().collect::<Queues>();
        let (prev, next) = line.inst.tokens().unwrap_or_default();
        let (prev, next) = match line.inst.mnemonic() {
            "lda_mov" => {
                count[0] += 1;
                let first = count[0] == 1;
                (prev, if first { Queues::NONE } else { list(&[Queue::Dt, Queue::Vp]) })
            }
            "dt_cal" | "vp_self" => (only(Queue::Ld), only(Queue::St)),
            "sta_mov" => {
                count[1] += 1;
                let first = count[1] == 1;
                (only(if first { Queue::Dt } else { Queue::Vp }), next)
            }
            _ => (prev, next),
        };
        line.inst = line.inst.with_tokens(prev, next);
    }
    let mut random = Random::new(14);
    let a = codes(&mut random, &[1, 8, 3, 4]);
    let b = codes(&mut random, &[1, 8, 3, 4]);
    let expected = vec![
        (
            "dram0_12288".to_owned(),
            b.to_f64().iter().map(|&code| round(code as f32 * 0.75)).collect(),
        ),
        ("dram0_8192".to_owned(), a.to_f64()),
    ];
    Case {
        name: "concurrent".to_owned(),
        programs: vec![program],
        inputs: Tensors::from([("dram0_0".to_owned(), a), ("dram0_4096".to_owned(), b)]),
        expected,
    }
}
