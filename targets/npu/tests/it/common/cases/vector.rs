//! Vector instructions.

use super::{Case, FP16, INT8, codes, load, round, store, tile};
use crate::common::{Random, chain, inst, num, with};
use quincunx_npu::isa::Inst;
use quincunx_tensor::Tensors;

/// One vector instruction.
struct Vp {
    name: &'static str,
    mnemonic: &'static str,
    source: [usize; 3],
    out: [usize; 3],
    /// Operands of the configurations and of the instruction that are not 0.
    fm: Vec<(&'static str, i128)>,
    tp: Vec<(&'static str, i128)>,
    gcs: Vec<(&'static str, i128)>,
    gms: Vec<(&'static str, i128)>,
    sms: Vec<(&'static str, i128)>,
    qp: Vec<(&'static str, i128)>,
    iq: [(f32, f32); 2],
    exec: Vec<(&'static str, i128)>,
    second: Option<[usize; 3]>,
    /// The value of output (c, y, x) before the quantiser, of functions that read the inputs after
    /// dequantisation.
    value: Box<Reference>,
}

type Read<'a> = &'a dyn Fn(usize, i64, i64) -> f32;
type Reference = dyn Fn(Read<'_>, Read<'_>, [usize; 3]) -> f32;

impl Vp {
    fn new(name: &'static str, out: [usize; 3], value: Box<Reference>) -> Vp {
        Vp {
            name,
            mnemonic: "vp_self",
            source: [11, 6, 5],
            out,
            fm: Vec::new(),
            tp: vec![
                ("stride_h", 1),
                ("stride_w", 1),
                ("kernel_h", 1),
                ("kernel_w", 1),
                ("t0f", 7),
            ],
            gcs: Vec::new(),
            gms: Vec::new(),
            sms: Vec::new(),
            qp: vec![("qcs", 2), ("qb", num(-4.0)), ("qk", num(3.25))],
            iq: [(0.25, 1.5), (0.5, -2.0)],
            exec: vec![("iqen", 1), ("qen", 3), ("gpmd", 4), ("lut", 16)],
            second: None,
            value,
        }
    }

    /// Replaces an operand of a list.
    fn set(list: &mut Vec<(&'static str, i128)>, name: &'static str, value: i128) {
        list.retain(|(other, _)| *other != name);
        list.push((name, value));
    }

    fn exec(mut self, operands: &[(&'static str, i128)]) -> Vp {
        operands.iter().for_each(|&(name, value)| Vp::set(&mut self.exec, name, value));
        self
    }

    fn tp(mut self, operands: &[(&'static str, i128)]) -> Vp {
        operands.iter().for_each(|&(name, value)| Vp::set(&mut self.tp, name, value));
        self
    }

    fn case(&self) -> Case {
        let mut random = Random::new(self.name.len() as u64 * 31 + 5);
        let [c, h, w] = self.source;
        let x = codes(&mut random, &[1, c, h, w]);
        let extent = |start: i128, axis: usize| {
            -start * [w as i128 * c.div_ceil(8) as i128 * 8, c.div_ceil(8) as i128 * 8][axis]
        };
        let start = |name: &str| self.exec.iter().find(|(n, _)| *n == name).map_or(0, |(_, v)| *v);
        let offset = extent(-start("iph"), 0) + extent(-start("ipw"), 1);
        let mut insts: Vec<Inst> = load(INT8, 0, 8192, 1, self.source).to_vec();
        if let Some(second) = self.second {
            insts.extend(load(INT8, 65536, 1 << 16, 1, second));
        }
        let fm = [("if_sign", 1), ("of_sign", 1), ("idf", INT8), ("odf", INT8)];
        let mut fm = fm.to_vec();
        self.fm.iter().for_each(|&(name, value)| Vp::set(&mut fm, name, value));
        insts.push(with("vp_cfg_fm", &fm, &[tile("source", self.source), tile("dest", self.out)]));
        insts.push(with("vp_cfg_tp", &self.tp, &[tile("tile", self.out)]));
        insts.push(inst("vp_cfg_gcs", &self.gcs));
        insts.push(inst("vp_cfg_gms", &self.gms));
        insts.push(inst("vp_cfg_sms", &self.sms));
        insts.push(inst("vp_cfg_qp", &self.qp));
        let [(k0, b0), (k1, b1)] = self.iq;
        insts.push(inst("vp_cfg_iq", &[("iqb0", num(b0.into())), ("iqk0", num(k0.into()))]));
        insts.push(inst("vp_cfg_iq1", &[("iqb1", num(b1.into())), ("iqk1", num(k1.into()))]));
        let mut exec = self.exec.clone();
        exec.extend([("staddr", 8192 + offset), ("dtaddr", 1 << 20)]);
        if self.second.is_some() {
            exec.push(("staddr1", 1 << 16));
        }
        insts.push(inst(self.mnemonic, &exec));
        let df = if fm.contains(&("odf", FP16)) { FP16 } else { INT8 };
        insts.extend(store(df, 1 << 20, 1 << 21, 1, self.out));

        let codes0 = x.to_f64();
        let read0 = |c: usize, y: i64, x: i64| {
            codes0[(c * h + y as usize) * w + x as usize] as f32 * k0 + b0
        };
        let mut inputs = Tensors::new();
        inputs.insert("dram0_0".to_owned(), x);
        let mut codes1 = Vec::new();
        let mut shape1 = [1, 1, 1];
        if let Some([c, h, w]) = self.second {
            let tensor = codes(&mut random, &[1, c, h, w]);
            (codes1, shape1) = (tensor.to_f64(), [c, h, w]);
            inputs.insert("dram0_65536".to_owned(), tensor);
        }
        let read1 = |c: usize, y: i64, x: i64| {
            codes1[(c * shape1[1] + y as usize) * shape1[2] + x as usize] as f32 * k1 + b1
        };
        let mut expected = Vec::new();
        let [channels, rows, columns] = self.out;
        for c in 0..channels {
            for y in 0..rows {
                for x in 0..columns {
                    let value = (self.value)(&read0, &read1, [c, y, x]);
                    expected.push(if df == FP16 {
                        f64::from(value)
                    } else {
                        round(value * 3.25 - 4.0)
                    });
                }
            }
        }
        Case {
            name: self.name.to_owned(),
            programs: vec![chain(insts, None)],
            inputs,
            expected: vec![("dram0_2097152".to_owned(), expected)],
        }
    }
}

#[expect(clippy::too_many_lines, reason = "long instructions")]
pub fn vectors() -> Vec<Case> {
    let shape = [11, 6, 5];
    let plain =
        || Vp::new("requantise", shape, Box::new(|a, _, [c, y, x]| a(c, y as i64, x as i64)));
    let mut list = vec![plain()];
    // x0 - relu group, both tensors, subtraction.
    let mut sub = Vp::new(
        "subtract",
        shape,
        Box::new(|a, b, [c, y, x]| (a(c, y as i64, x as i64) - b(c, y as i64, x as i64)).max(0.0)),
    );
    sub.second = Some(shape);
    sub.gcs = vec![("sg0m", 1)];
    list.push(sub.tp(&[("t1f", 7)]).exec(&[("gpmd", 69), ("lut", 18)]));
    // Tensor 1 has channels only.
    let mut broadcast = Vp::new(
        "broadcast",
        shape,
        Box::new(|a, b, [c, y, x]| a(c, y as i64, x as i64) * b(c, 0, 0)),
    );
    broadcast.second = Some([11, 1, 1]);
    broadcast.gms = vec![("mg0s", 1)];
    list.push(broadcast.tp(&[("t1f", 1)]).exec(&[("gpmd", 5), ("lut", 24)]));
    // Segment, sum group 1, compare with a scalar, scalar module, shift.
    let mut modules = Vp::new(
        "modules",
        shape,
        Box::new(|a, _, [c, y, x]| {
            let value = a(c, y as i64, x as i64);
            let value = if c < 5 { value * 2.0 - 0.75 } else { value };
            let value = (value + 3.5).min(20.0);
            (value * 0.5 - 1.25) / 4.0
        }),
    );
    modules.gms = vec![
        ("used", 1),
        ("sege", 1),
        ("segn", 5),
        ("sg1m", 1),
        ("sg1v", num(0.75)),
        ("mg0v", num(2.0)),
    ];
    modules.gcs = vec![("cmps", 2), ("cmpv", num(20.0)), ("sg0v", num(3.5))];
    modules.sms = vec![("summ", 1), ("mulv", num(0.5)), ("sumv", num(1.25))];
    list.push(modules.exec(&[("gpmd", 6), ("lut", 31), ("shmd", 2)]));
    // Pools.
    for (name, cmps) in [("max pool", 1), ("min pool", 2)] {
        let mut pool = Vp::new(
            name,
            [11, 3, 3],
            Box::new(move |a, _, [c, y, x]| {
                let mut values = Vec::new();
                for r in 0..3_i64 {
                    for s in 0..2_i64 {
                        let (row, column) = (2 * y as i64 + r - 1, 2 * x as i64 + s - 1);
                        if (0..6).contains(&row) && (0..5).contains(&column) {
                            values.push(a(c, row, column));
                        }
                    }
                }
                let pick = if cmps == 1 { f32::max } else { f32::min };
                values.into_iter().reduce(pick).unwrap()
            }),
        );
        pool.mnemonic = "vp_pool";
        pool.gcs = vec![("cmps", cmps)];
        let window = [
            ("stride_h", 2),
            ("stride_w", 2),
            ("kernel_h", 3),
            ("kernel_w", 2),
            ("padv_area", -32768),
        ];
        list.push(pool.tp(&window).exec(&[("lut", 17), ("iph", -1), ("ipw", -1)]));
    }
    let mut mean = Vp::new(
        "mean with pads",
        [11, 6, 5],
        Box::new(|a, _, [c, y, x]| {
            let mut sum = 0.0_f32;
            for r in 0..2_i64 {
                for s in 0..2_i64 {
                    let (row, column) = (y as i64 + r, x as i64 + s);
                    let value = if row < 6 && column < 5 { a(c, row, column) } else { 5.0 };
                    sum += value * 0.25;
                }
            }
            sum
        }),
    );
    mean.mnemonic = "vp_pool";
    mean.gms = vec![("mg0v", num(0.25))];
    list.push(mean.tp(&[("kernel_h", 2), ("kernel_w", 2), ("padv_area", 5)]).exec(&[("lut", 56)]));
    let mut enlarge = Vp::new(
        "enlarge",
        [11, 14, 15],
        Box::new(|a, _, [c, y, x]| {
            a(c, (y as i64 / 2).clamp(0, 5), (x as i64 / 3 + 1).clamp(0, 4))
        }),
    );
    enlarge.mnemonic = "vp_upsm";
    list.push(
        enlarge.tp(&[("stride_h", 2), ("stride_w", 3), ("padv_area", -32768)]).exec(&[("ipw", 1)]),
    );
    let mut half = Vp::new("to half", shape, Box::new(|a, _, [c, y, x]| a(c, y as i64, x as i64)));
    half.fm = vec![("odf", FP16)];
    half.qp = vec![("qk", num(1.0))];
    list.push(half.exec(&[("qen", 0)]));
    list.iter().map(Vp::case).collect()
}

/// The sum of all inputs goes to a scalar register, which the next instruction adds.
pub fn scalar_register() -> Case {
    let shape = [8, 1, 2];
    let mut insts: Vec<Inst> = load(INT8, 0, 0, 1, shape).to_vec();
    insts.push(with(
        "vp_cfg_fm",
        &[("if_sign", 1), ("of_sign", 1), ("idf", INT8), ("odf", INT8)],
        &[tile("source", shape), tile("dest", shape)],
    ));
    let tp = [("stride_h", 1), ("stride_w", 1), ("kernel_h", 1), ("kernel_w", 1), ("t0f", 7)];
    insts.push(with("vp_cfg_tp", &tp, &[tile("tile", shape)]));
    insts.push(inst("vp_cfg_gcs", &[("sg0vs", 2)]));
    insts.push(inst("vp_cfg_gms", &[]));
    insts.push(inst("vp_cfg_sms", &[]));
    insts.push(inst("vp_cfg_qp", &[("qcs", 2), ("qk", num(1.0))]));
    insts.push(inst("vp_cfg_iq", &[("iqk0", num(0.03125))]));
    insts.push(inst("vp_cfg_iq1", &[]));
    let common = [("iqen", 1), ("gpmd", 4), ("qen", 3)];
    let with_common = |more: &[(&'static str, i128)]| -> Inst {
        let all: Vec<_> = common.iter().chain(more).copied().collect();
        inst("vp_self", &all)
    };
    insts.push(with_common(&[("lut", 16), ("swrs", 2), ("dtaddr", 4096)]));
    insts.push(with_common(&[("lut", 18), ("dtaddr", 8192)]));
    insts.extend(store(INT8, 8192, 4096, 1, shape));
    let mut random = Random::new(9);
    let x = codes(&mut random, &[1, 8, 1, 2]);
    let list = x.to_f64();
    let sum: f32 = list.iter().map(|&code| code as f32 * 0.03125).sum();
    let expected = list.iter().map(|&code| round(code as f32 * 0.03125 + sum)).collect();
    Case {
        name: "scalar register".to_owned(),
        programs: vec![chain(insts, None)],
        inputs: Tensors::from([("dram0_0".to_owned(), x)]),
        expected: vec![("dram0_4096".to_owned(), expected)],
    }
}
