//! Convolutions of every kind.

use super::{Case, INT8, codes, images, load, round, row, store, tile};
use crate::common::{Random, axes, chain, inst, num, with};
use quincunx_npu::isa::Inst;
use quincunx_tensor::{Tensor, Tensors};

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

    #[expect(clippy::too_many_lines, reason = "long instructions")]
    fn case(&self) -> Case {
        let mut random = Random::new(self.name.len() as u64 * 77 + 1);
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

pub fn convs() -> Vec<Case> {
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
