//! Programs with inputs, and outputs that plain loops over NCHW arrays compute. They share nothing
//! with the simulator.

use super::{Random, axes, chain, inst, num, with};
use quincunx_npu::isa::Inst;
use quincunx_npu::program::Program;
use quincunx_tensor::{Tensor, Tensors};

/// A program per core, with inputs and expected outputs by name.
pub struct Case {
    pub name: String,
    pub programs: Vec<Program>,
    pub inputs: Tensors,
    pub expected: Vec<(String, Vec<f64>)>,
}

/// A tensor of codes.
pub fn codes(random: &mut Random, shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    Tensor::from_vec(shape, random.codes(count)).unwrap()
}

pub fn tile(stem: &str, [c, h, w]: [usize; 3]) -> Vec<(String, i128)> {
    axes(stem, "chw", &[c as i128, h as i128, w as i128])
}

pub fn images(n: usize, [c, h, w]: [usize; 3]) -> Vec<(String, i128)> {
    axes("tile", "nchw", &[n as i128, c as i128, h as i128, w as i128])
}

pub const INT8: i128 = 1;
pub const FP16: i128 = 3;

/// Loads a tensor of DRAM base 0 to L2.
pub fn load(df: i128, dram: i128, l2: i128, n: usize, shape: [usize; 3]) -> [Inst; 2] {
    let config = [("sme", 1), ("df", df)];
    [
        with("lda_cfg", &config, &[tile("source", shape), tile("dest", shape)]),
        with("lda_mov", &[("staddr", dram), ("dtaddr", l2)], &[images(n, shape)]),
    ]
}

pub fn store(df: i128, l2: i128, dram: i128, n: usize, shape: [usize; 3]) -> [Inst; 2] {
    let config = [("sme", 1), ("df", df)];
    [
        with("sta_cfg", &config, &[tile("source", shape), tile("dest", shape)]),
        with("sta_mov", &[("staddr", l2), ("dtaddr", dram)], &[images(n, shape)]),
    ]
}

fn row(stem: &str, [c, r, s]: [usize; 3]) -> Vec<(String, i128)> {
    axes(stem, "crs", &[c as i128, r as i128, s as i128])
}

pub fn round(value: f32) -> f64 {
    f64::from(value.round_ties_even().clamp(-128.0, 127.0))
}

/// One convolution, from DRAM to DRAM.
#[derive(Clone)]
struct Conv {
    name: &'static str,
    mnemonic: &'static str,
    input: [usize; 3],
    k: usize,
    kernel: [usize; 2],
    stride: usize,
    pad: usize,
    dilate: usize,
    insert: usize,
    groups: usize,
    activation: (i128, f32),
    /// What is in the destination is read with this factor and offset and added.
    add: Option<(i128, f32, f32)>,
    mask: Option<u8>,
    rounding: i128,
    /// Weights come through L2.
    through_l2: bool,
    /// Weights come through the L2 of another core.
    remote: bool,
    images: usize,
}

impl Conv {
    fn plain() -> Conv {
        Conv {
            name: "conv",
            mnemonic: "pe_conv",
            input: [11, 6, 5],
            k: 10,
            kernel: [3, 2],
            stride: 1,
            pad: 1,
            dilate: 1,
            insert: 1,
            groups: 1,
            activation: (1, 0.0),
            add: None,
            mask: None,
            rounding: 2,
            through_l2: false,
            remote: false,
            images: 2,
        }
    }

    fn output(&self) -> [usize; 3] {
        let extent = |axis: usize| {
            let spread = (self.input[axis + 1] - 1) * self.insert + 1;
            let kernel = (self.kernel[axis] - 1) * self.dilate + 1;
            (spread + 2 * self.pad - kernel) / self.stride + 1
        };
        [self.k, extent(0), extent(1)]
    }

    fn case(&self) -> Case {
        let mut random = Random(self.name.len() as u64 * 77 + 1);
        let (n, k) = (self.images, self.k);
        let [c, h, w] = self.input;
        let out = self.output();
        let c_group = c / self.groups;
        let weight_row = [c_group, self.kernel[0], self.kernel[1]];
        let x = codes(&mut random, &[n, c, h, w]);
        let weights = codes(&mut random, &[k, c_group, self.kernel[0], self.kernel[1]]);
        let old = codes(&mut random, &[n, out[0], out[1], out[2]]);
        let a: Vec<f64> = (0..k).map(|i| f64::from(0.003_f32 * (i as f32 + 1.0))).collect();
        let b: Vec<f64> = (0..k).map(|i| f64::from(i as f32 * 1.5 - 6.0)).collect();
        let (padv, qk, qb) = (-7.0, 0.37, -3.0);

        let mut insts = Vec::new();
        insts.extend(load(INT8, 0, 4096, n, self.input));
        if self.add.is_some() {
            insts.extend(load(INT8, 65536, 1 << 20, n, out));
        }
        let mut config = vec![("bas", 1), ("df", INT8), ("rs", 1)];
        if let Some(mask) = self.mask {
            config.extend([("mken", 1), ("mkc", i128::from(mask))]);
        }
        let rows = [row("source", weight_row), row("dest", weight_row)];
        let size = axes(
            "size",
            "kcrs",
            &[k as i128, c_group as i128, self.kernel[0] as i128, self.kernel[1] as i128],
        );
        let mut config_lw: Vec<_> = config.iter().copied().filter(|(n, _)| *n != "rs").collect();
        let place = [("rs", 1), ("staddr", 0), ("dtaddr", 2 << 20)];
        let fetch =
            [with("ldw_cfg", &config, &rows), with("ldw_mov", &place, std::slice::from_ref(&size))];
        if self.through_l2 {
            insts.extend(fetch);
            config_lw = vec![("bas", 1), ("df", INT8)];
        }
        if self.remote {
            insts.extend(signal("si_syn_cfg", "siaa_mov", 1, 1));
            config_lw = vec![("bas", 3), ("df", INT8)];
        }
        insts.push(with("lw_cfg", &config_lw, &rows));
        let source = match (self.through_l2, self.remote) {
            (true, _) => [("ss", 0), ("staddr", 2 << 20)],
            // The number of the core lies above 24 bits of address.
            (_, true) => [("ss", 1), ("staddr", 1 << 24 | 2 << 20)],
            _ => [("ss", 1), ("staddr", 0)],
        };
        let lw = [("x_cut", 3), ("y_cut", 1), ("dtaddr", 64), source[0], source[1]];
        insts.push(with("lw_mov", &lw, &[size]));
        insts.push(with(
            "pe_cfg_fm",
            &[
                ("if_sign", 1),
                ("of_sign", 1),
                ("sf", 1),
                ("wf", 1),
                ("df", INT8),
                ("padv", num(padv)),
            ],
            &[tile("source", self.input), tile("dest", out)],
        ));
        let stride = self.stride as i128;
        insts.push(inst(
            "pe_cfg_pm",
            &[
                ("actmd", self.activation.0),
                ("actpm", num(f64::from(self.activation.1))),
                ("qc", self.rounding),
                ("qb", num(qb)),
                ("qk", num(qk)),
                ("adden", i128::from(self.add.is_some())),
                ("stride_h", stride),
                ("stride_w", stride),
                ("x_cut", 3),
                ("y_cut", 1),
            ],
        ));
        if let Some((mode, factor, offset)) = self.add {
            let operands =
                [("dqc", mode), ("dqb", num(offset.into())), ("dqk", num(factor.into()))];
            insts.push(inst("pe_cfg_dq", &operands));
        }
        if !["pe_conv", "pe_fc"].contains(&self.mnemonic) {
            let (dilate, insert) = (self.dilate as i128, self.insert as i128);
            insts.push(inst(
                "pe_cfg_de",
                &[
                    ("dilate_h", dilate),
                    ("dilate_w", dilate),
                    ("insert_h", insert),
                    ("insert_w", insert),
                    ("groups", self.groups as i128),
                ],
            ));
        }
        insts.push(with(
            "pe_cfg_tp",
            &[
                ("kernel_r", self.kernel[0] as i128),
                ("kernel_s", self.kernel[1] as i128),
                ("mtk0", 1),
                ("mtc0", 1),
                ("mti_h", 1),
            ],
            &[axes(
                "tile",
                "nkchw",
                &[n as i128, k as i128, c as i128, out[1] as i128, out[2] as i128],
            )],
        ));
        let pitch = c.div_ceil(8) * 8;
        let pad = self.pad as i128;
        let place = 4096 - (pad * w as i128 + pad) * pitch as i128;
        insts.push(inst(
            self.mnemonic,
            &[
                ("sphi", -pad),
                ("spwi", -pad),
                ("staddr", place),
                ("swaddr", 64),
                ("dtaddr", 1 << 20),
            ],
        ));
        insts.extend(store(INT8, 1 << 20, 1 << 21, n, out));

        let expected = self.reference((&x, &weights, &old), (&a, &b), (padv, qk as f32, qb as f32));
        let mut inputs = Tensors::new();
        inputs.insert("dram0_0".to_owned(), x);
        if self.add.is_some() {
            inputs.insert("dram0_65536".to_owned(), old);
        }
        inputs.insert("dram1_0_w".to_owned(), weights);
        inputs.insert("dram1_0_a".to_owned(), Tensor::from_vec(&[k], a).unwrap());
        inputs.insert("dram1_0_b".to_owned(), Tensor::from_vec(&[k], b).unwrap());
        let mut programs = vec![chain(insts, None)];
        if self.remote {
            let other = fetch.into_iter().chain(signal("so_syn_cfg", "sopw_mov", 0, 2));
            programs.push(chain(other.collect(), None));
        }
        Case {
            name: self.name.to_owned(),
            programs,
            inputs,
            expected: vec![("dram0_2097152".to_owned(), expected)],
        }
    }

    fn reference(
        &self,
        (x, weights, old): (&Tensor, &Tensor, &Tensor),
        (a, b): (&[f64], &[f64]),
        (padv, qk, qb): (f64, f32, f32),
    ) -> Vec<f64> {
        let (x, weights, old) = (x.to_f64(), weights.to_f64(), old.to_f64());
        let [c, h, w] = self.input;
        let [k, rows, columns] = self.output();
        let (c_group, k_group) = (c / self.groups, k / self.groups);
        let [kr, ks] = self.kernel;
        let spread = [(h - 1) * self.insert + 1, (w - 1) * self.insert + 1];
        let at = |n: usize, c: usize, y: i64, x_at: i64| -> f64 {
            let inside = y >= 0 && x_at >= 0 && y < spread[0] as i64 && x_at < spread[1] as i64;
            let insert = self.insert as i64;
            if !inside || y % insert != 0 || x_at % insert != 0 {
                return padv;
            }
            x[((n * c_total(self) + c) * h + (y / insert) as usize) * w + (x_at / insert) as usize]
        };
        let mut out = Vec::new();
        for n in 0..self.images {
            for ko in 0..k {
                for y in 0..rows {
                    for xo in 0..columns {
                        let mut sum = 0.0;
                        for ci in 0..c_group {
                            if self.mask.is_some_and(|mask| mask >> (ci % 8) & 1 == 1) {
                                continue;
                            }
                            for r in 0..kr {
                                for s in 0..ks {
                                    let row = (y * self.stride + r * self.dilate) as i64
                                        - self.pad as i64;
                                    let column = (xo * self.stride + s * self.dilate) as i64
                                        - self.pad as i64;
                                    let channel = ko / k_group * c_group + ci;
                                    let weight = weights[((ko * c_group + ci) * kr + r) * ks + s];
                                    sum += at(n, channel, row, column) * weight;
                                }
                            }
                        }
                        let mut value = sum as f32 * a[ko] as f32 + b[ko] as f32;
                        if let Some((mode, factor, offset)) = self.add {
                            let code = old[((n * k + ko) * rows + y) * columns + xo] as f32;
                            let before = code * factor + offset;
                            value += if mode == 1 { before.max(0.0) } else { before };
                        }
                        value = match self.activation {
                            (1, _) => value.max(0.0),
                            (2, slope) if value < 0.0 => value * slope,
                            (3, limit) => value.clamp(0.0, limit),
                            _ => value,
                        };
                        let value = value * qk + qb;
                        let whole = match self.rounding {
                            0 => value.ceil(),
                            1 => value.floor(),
                            3 => value.trunc(),
                            _ => value,
                        };
                        out.push(round(whole));
                    }
                }
            }
        }
        out
    }
}

/// Waits for a signal of another core or gives it one; nothing is moved.
fn signal(config: &'static str, exec: &'static str, core: i128, syn: i128) -> [Inst; 2] {
    let tensors = [tile("source", [1; 3]), tile("dest", [1; 3])];
    let operands = [("core", core), ("syn", syn), ("df", INT8)];
    [with(config, &operands, &tensors), with(exec, &[], &[images(0, [1; 3])])]
}

fn c_total(conv: &Conv) -> usize {
    conv.input[0]
}

fn convs() -> Vec<Case> {
    let base = Conv::plain();
    let list = [
        base.clone(),
        Conv { name: "through L2, leaky", through_l2: true, activation: (2, 0.25), ..base.clone() },
        Conv {
            name: "relu x, floor",
            activation: (3, 40.0),
            rounding: 1,
            stride: 2,
            ..base.clone()
        },
        Conv {
            name: "adden, ceil",
            add: Some((0, 0.5, 2.0)),
            activation: (0, 0.0),
            rounding: 0,
            ..base.clone()
        },
        Conv {
            name: "adden dqc, trunc",
            add: Some((1, 1.5, -4.0)),
            activation: (0, 0.0),
            rounding: 3,
            ..base.clone()
        },
        Conv { name: "masked", mask: Some(0b0100_0101), activation: (0, 0.0), ..base.clone() },
        Conv { name: "masked through L2", mask: Some(0b10), through_l2: true, ..base.clone() },
        Conv { name: "dilated", mnemonic: "pe_dicv", dilate: 2, ..base.clone() },
        Conv { name: "transposed", mnemonic: "pe_decv", insert: 2, ..base.clone() },
        Conv {
            name: "grouped",
            mnemonic: "pe_gpcv",
            input: [12, 5, 5],
            k: 9,
            groups: 3,
            activation: (0, 0.0),
            ..base.clone()
        },
        Conv { name: "weights of another core", remote: true, ..base.clone() },
        Conv {
            name: "dense",
            mnemonic: "pe_fc",
            input: [9, 4, 3],
            kernel: [4, 3],
            pad: 0,
            activation: (0, 0.0),
            ..base
        },
    ];
    list.iter().map(Conv::case).collect()
}

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
        let mut random = Random(self.name.len() as u64 * 31 + 5);
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

fn vectors() -> Vec<Case> {
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
fn scalar_register() -> Case {
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
    let mut random = Random(9);
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

/// Every order of axes.
fn reorders() -> Vec<Case> {
    // Axes of the source (rows, columns, channels) that become those of the destination.
    let orders = ["HWC", "WHC", "HCW", "CHW", "WCH", "CWH"];
    orders
        .iter()
        .enumerate()
        .map(|(order, axes)| {
            let [c, h, w] = [5, 3, 2];
            let extent = |axis: char| match axis {
                'C' => c,
                'H' => h,
                _ => w,
            };
            let axes: Vec<char> = axes.chars().collect();
            let dest = [extent(axes[2]), extent(axes[0]), extent(axes[1])];
            let mut insts: Vec<Inst> = load(INT8, 0, 0, 2, [c, h, w]).to_vec();
            let tensors = [tile("source", [c, h, w]), tile("dest", dest)];
            insts.push(with("dt_cfg", &[("df", INT8)], &tensors));
            let place = [("order", order as i128), ("dtaddr", 4096)];
            insts.push(with("dt_cal", &place, &[images(2, [c, h, w])]));
            insts.extend(store(INT8, 4096, 4096, 2, dest));
            let x = codes(&mut Random(order as u64), &[2, c, h, w]);
            let list = x.to_f64();
            let mut expected = Vec::new();
            for n in 0..2 {
                for third in 0..dest[0] {
                    for first in 0..dest[1] {
                        for second in 0..dest[2] {
                            let at = |axis: char| {
                                [first, second, third]
                                    [axes.iter().position(|&a| a == axis).unwrap()]
                            };
                            expected.push(list[((n * c + at('C')) * h + at('H')) * w + at('W')]);
                        }
                    }
                }
            }
            Case {
                name: format!("reorder {order}"),
                programs: vec![chain(insts, None)],
                inputs: Tensors::from([("dram0_0".to_owned(), x)]),
                expected: vec![("dram0_4096".to_owned(), expected)],
            }
        })
        .collect()
}

/// Two cores: core 0 loads a tensor, waits, and sends a part of it; core 1 waits, fetches the other part
/// and stores both.
fn two_cores() -> Case {
    let [c, h, w] = [6, 2, 3];
    let shape = [c, h, w];
    let config = |core: i128, syn: i128| [("core", core), ("syn", syn), ("df", INT8)];
    let tensors = [tile("source", shape), tile("dest", shape)];
    let one = [axes("tile", "nchw", &[1, c as i128, h as i128, w as i128])];
    let mut zero: Vec<Inst> = load(INT8, 0, 0, 2, shape).to_vec();
    zero.push(with("so_syn_cfg", &config(1, 3), &tensors));
    zero.push(with("sopw_mov", &[("dtaddr", 1024)], &one));
    // Core 1 says that its regions are set; nothing is moved.
    let none = [axes("tile", "nchw", &[0, c as i128, h as i128, w as i128])];
    let mut first = vec![with("so_syn_cfg", &config(0, 2), &tensors)];
    first.push(with("sopw_mov", &[], &none));
    first.push(with("si_syn_cfg", &config(0, 1), &tensors));
    first.push(with("siaa_mov", &[("staddr", 48), ("dtaddr", 1072)], &one));
    first.extend(store(INT8, 1024, 4096, 2, shape));
    let x = codes(&mut Random(3), &[2, c, h, w]);
    let expected = x.to_f64();
    Case {
        name: "two cores".to_owned(),
        programs: vec![chain(zero, None), chain(first, None)],
        inputs: Tensors::from([("dram0_0".to_owned(), x)]),
        expected: vec![("dram0_4096".to_owned(), expected)],
    }
}

/// A tensor that wraps at the end of region 1, a window of a padded tensor in DRAM, and the copy of
/// one image to a place of its own.
fn ring() -> Case {
    let (shape, window) = ([5, 4, 7], [3, 2, 4]);
    let regions = inst("ct_bc", &[("len0", 16), ("last0", 15), ("len1", 2), ("last1", 17)]);
    let load = [
        with(
            "lda_cfg",
            &[("df", INT8), ("rs", 1), ("bas", 2)],
            &[tile("source", shape), tile("dest", window)],
        ),
        with(
            "lda_mov",
            &[("rs", 1), ("dbsg", 1), ("staddr", 8 * 7 + 16), ("dtaddr", 2048 - 24)],
            &[images(1, window)],
        ),
    ];
    let store = [
        with(
            "sta_cfg",
            &[("sme", 1), ("df", INT8)],
            &[tile("source", window), tile("dest", window)],
        ),
        with("sta_mov", &[("sbsg", 1), ("staddr", -24), ("dtaddr", 512)], &[images(1, window)]),
    ];
    let x = codes(&mut Random(4), &[1, 3, 2, 4]);
    let expected = x.to_f64();
    Case {
        name: "ring".to_owned(),
        programs: vec![chain(load.into_iter().chain(store).collect(), Some(regions))],
        inputs: Tensors::from([("dram2_72".to_owned(), x)]),
        expected: vec![("dram0_512".to_owned(), expected)],
    }
}

/// Pixels of 5 channels padded to 8 bytes in DRAM are pixels of 8 channels without padding.
fn padded() -> Case {
    let (five, eight) = ([5, 2, 3], [8, 2, 3]);
    let with_sme = |[config, exec]: [Inst; 2], shape: [usize; 3], sme: i128| {
        let operands = [("df", INT8), ("sme", sme)];
        let config =
            with(config.mnemonic(), &operands, &[tile("source", shape), tile("dest", shape)]);
        [config, exec]
    };
    let mut insts: Vec<Inst> = load(INT8, 0, 0, 1, five).to_vec();
    insts.extend(with_sme(store(INT8, 0, 4096, 1, five), five, 0));
    insts.extend(load(INT8, 4096, 1024, 1, eight));
    insts.extend(store(INT8, 1024, 8192, 1, eight));
    insts.extend(with_sme(load(INT8, 8192, 2048, 1, five), five, 0));
    insts.extend(store(INT8, 2048, 12_288, 1, five));
    let x = codes(&mut Random(6), &[1, 5, 2, 3]);
    let list = x.to_f64();
    let mut wide = list.clone();
    wide.resize(48, 0.0);
    let expected = [(4096, list.clone()), (8192, wide), (12_288, list)]
        .map(|(at, list)| (format!("dram0_{at}"), list));
    Case {
        name: "padded".to_owned(),
        programs: vec![chain(insts, None)],
        inputs: Tensors::from([("dram0_0".to_owned(), x)]),
        expected: expected.to_vec(),
    }
}

/// Every case.
pub fn all() -> Vec<Case> {
    let mut list = convs();
    list.extend(vectors());
    list.push(scalar_register());
    list.extend(reorders());
    list.push(two_cores());
    list.push(ring());
    list.push(padded());
    list.push(super::extra::single_precision());
    list.push(super::extra::concurrent());
    list
}
