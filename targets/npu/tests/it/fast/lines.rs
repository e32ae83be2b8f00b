//! Random lines with their configurations, on a machine with 64 KiB of L2.

use crate::common::cases::{FP16, INT8, images};
use crate::common::{Random, axes, inst, num, with};
use quincunx_npu::isa::Inst;
use quincunx_npu::simulate::State;

/// Draws lines of one program.
pub(super) struct Draw {
    pub(super) random: Random,
    /// Where factors and offsets of sums lie in the weight buffer.
    parameters: Vec<usize>,
    /// The unit of the weight buffer in which the last convolution's weights end.
    last_unit: usize,
}

/// Region and address of a tensor.
type Place = (i128, i128);

pub(super) fn tile3(stem: &str, [c, h, w]: [usize; 3]) -> Vec<(String, i128)> {
    crate::common::cases::tile(stem, [c, h, w])
}

fn pitch(channels: usize, bytes: usize) -> usize {
    (channels * bytes).div_ceil(8) * 8
}

impl Draw {
    pub(super) fn new(random: Random) -> Draw {
        Draw { random, parameters: Vec::new(), last_unit: 0 }
    }

    /// Tells where factors and offsets lie.
    pub(super) fn parameters(&mut self, places: impl Iterator<Item = usize>) {
        self.parameters.extend(places.flat_map(|at| [at, at + 4]));
    }

    /// Three rings.
    pub(super) fn regions(&self) -> Inst {
        let lengths = [("len0", 24), ("last0", 23), ("len1", 32), ("last1", 55)];
        inst("ct_bc", &[lengths.as_slice(), &[("len2", 8), ("last2", 63)]].concat())
    }

    /// Sensible numbers where parameters lie, some of them special.
    pub(super) fn prepare(&self, state: &mut State) {
        let mut random = Random::new(self.parameters.len() as u64);
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-42, 3e38];
        for (index, &at) in self.parameters.iter().enumerate() {
            let scale = if index % 2 == 0 { 0.01 } else { 30.0 };
            let number = match random.below(20) {
                0 => random.pick(&special),
                _ => random.real() as f32 * scale,
            };
            if let Some(place) = state.wl0(0).get_mut(at..at + 4) {
                place.copy_from_slice(&number.to_le_bytes());
            }
        }
    }

    fn range(&mut self, low: i64, high: i64) -> i128 {
        self.random.range(low, high).into()
    }

    fn flag(&mut self, percent: u64) -> i128 {
        i128::from(self.random.chance(percent))
    }

    fn number(&mut self, magnitude: f64) -> i128 {
        num(self.random.real() * magnitude)
    }

    /// A place for a tensor; sometimes it wraps.
    fn place(&mut self, bytes: usize) -> Place {
        let region = self.random.pick(&[0, 1, 1, 2]);
        let length: usize = [24, 32, 8][region] * 1024;
        let last = match self.random.chance(8) {
            true => length,
            false => length.saturating_sub(bytes),
        };
        // Often it ends with the ring.
        let address = match self.random.chance(20) {
            true => last / 8 * 8,
            false => self.random.below(last / 8 + 1) * 8,
        };
        // Addresses count from anywhere in the ring.
        let turns = if self.random.chance(10) { length } else { 0 };
        (region as i128, address as i128 - turns as i128)
    }

    /// A place before or behind a tensor, or sharing a few of its bytes.
    fn beside(&mut self, (region, address): Place, size: usize, own: usize) -> Place {
        let shared = self.random.pick(&[0, 8, 16]);
        match self.random.coin() {
            true => (region, address + size as i128 - shared),
            false => (region, address - own as i128 + shared),
        }
    }

    fn channels(&mut self) -> usize {
        self.random.pick(&[1, 3, 8, 11, 16, 24, 32, 40])
    }

    /// An extent of a tensor around a tile: often the same.
    fn around(&mut self, tile: usize) -> usize {
        tile + if self.random.chance(70) { 0 } else { self.random.below(4) }
    }

    /// A convolution of any kind.
    #[expect(clippy::too_many_lines, reason = "long instructions")]
    pub(super) fn conv(&mut self) -> Vec<Inst> {
        let kind = self
            .random
            .pick(&["pe_conv", "pe_conv", "pe_conv", "pe_dicv", "pe_decv", "pe_gpcv", "pe_fc"]);
        let groups = if kind == "pe_gpcv" { self.random.range(1, 5) } else { 1 };
        let depthwise = kind == "pe_gpcv" && self.random.coin();
        let group = if depthwise { 1 } else { self.random.pick(&[1, 2, 3, 8, 11]) };
        let groups = if depthwise { self.random.range(2, 40) } else { groups };
        let (c, k) = match kind {
            "pe_gpcv" if depthwise => (groups, groups),
            "pe_gpcv" => (groups * group, groups * self.random.range(1, 9)),
            _ => (self.channels(), self.random.pick(&[1, 5, 8, 16, 31, 33, 48, 65])),
        };
        let mut kernel = [self.random.range(1, 4_usize), self.random.range(1, 4)];
        if self.random.chance(30) {
            kernel = [1, 1];
        }
        let [n, height, width] =
            [self.random.range(1, 3), self.random.range(1, 8), self.random.range(1, 8)];
        let mut out = [self.random.range(1, 6), self.random.range(1, 6)];
        let mut start = [self.range(-3, 2), self.range(-3, 2)];
        if self.random.chance(40) {
            start = [0, 0];
            out = if self.random.coin() { [height, width] } else { out };
        }
        if kind == "pe_fc" {
            (kernel, out, start) = ([height.min(4), width.min(4)], [1, 1], [0, 0]);
        }
        let [height, width] = if kind == "pe_fc" { kernel } else { [height, width] };
        let (signed, out_signed) = (self.flag(70), self.flag(70));
        let df = if self.random.chance(25) { FP16 } else { INT8 };
        let out_bytes = if df == FP16 { 2 } else { 1 };
        let source = [self.around(c), height, width];
        let dest = [self.around(k), self.around(out[0]), self.around(out[1])];
        let input_size = n * pitch(source[0], 1) * height * width;
        let output_size = n * pitch(dest[0], out_bytes) * dest[1] * dest[2];
        let mut input = self.place(input_size);
        if groups > 1 && self.random.chance(40) {
            // At the end of L2, where nothing can be read behind the last channel.
            input = (2, 8 * 1024 - input_size as i128);
        }
        // The address is that of the first row and column.
        let first = (start[0] * width as i128 + start[1]) * pitch(source[0], 1) as i128;
        input.1 += first;
        let mut output = self.place(output_size);
        if self.random.chance(15) {
            output = self.beside((input.0, input.1 - first), input_size, output_size);
        }
        let (mut source, mut dest) = (source, dest);
        if out_bytes == 1 && self.random.chance(15) {
            // Inputs and outputs are channels of one tensor.
            let behind = c.div_ceil(8) * 8;
            source[0] = behind + k;
            dest[0] = behind + k;
            output = (input.0, input.1 - first + behind as i128);
            if self.random.chance(20) {
                output.1 -= 8;
            }
        }
        let unit = self.random.below(40_usize);
        let row = (c / groups).div_ceil(8) * 8 * kernel[0] * kernel[1];
        let row = row.div_ceil(32) * 32;
        let parameters = (0..k).map(|k| unit * 64 + k * (row + 32) + row);
        self.last_unit = (unit * 64 + k * (row + 32) - 1) / 64;
        self.parameters(parameters);
        let pad =
            if signed == 1 { self.random.range(-128, 127) } else { self.random.range(0, 255) };
        let fm = [("if_sign", signed), ("of_sign", out_signed), ("sf", 1), ("wf", 1), ("df", df)];
        let fm: Vec<_> = fm.into_iter().chain([("padv", num(f64::from(pad)))]).collect();
        let quantiser = [("qc", self.random.pick(&[0, 1, 2, 2, 2, 3])), ("qb", self.number(60.0))];
        let stride = [self.random.pick(&[1, 1, 1, 2, 3]), self.random.pick(&[1, 1, 1, 2, 3])];
        let adden = self.flag(25);
        let pm = [
            ("actmd", self.random.below(4_u8).into()),
            ("actpm", num(self.random.real().abs() * 20.0)),
            ("qk", self.number(3.0)),
            ("adden", adden),
            ("stride_h", stride[0]),
            ("stride_w", stride[1]),
            ("x_cut", 3),
        ];
        let dq = [("dqc", self.flag(50)), ("dqb", self.number(9.0)), ("dqk", self.number(2.0))];
        let de = |draw: &mut Draw| draw.range(1, 3);
        let de = [
            ("dilate_h", de(self)),
            ("dilate_w", de(self)),
            ("insert_h", de(self)),
            ("insert_w", de(self)),
            ("groups", groups as i128),
        ];
        let tp = [
            ("kernel_r", kernel[0] as i128),
            ("kernel_s", kernel[1] as i128),
            ("mtk0", 1),
            ("mtc0", 1),
        ];
        let size = [n, k, c, out[0], out[1]].map(|extent| extent as i128);
        let places = [
            ("ps", self.random.below(3_u8).into()),
            ("sphi", start[0]),
            ("spwi", start[1]),
            ("sbsg", input.0),
            ("staddr", input.1),
            ("swaddr", unit as i128),
            ("dbsg", output.0),
            ("dtaddr", output.1),
        ];
        vec![
            with("pe_cfg_fm", &fm, &[tile3("source", source), tile3("dest", dest)]),
            inst("pe_cfg_pm", &[pm.as_slice(), &quantiser].concat()),
            inst("pe_cfg_dq", &dq),
            inst("pe_cfg_de", &de),
            with("pe_cfg_tp", &tp, &[axes("tile", "nkchw", &size)]),
            inst(kind, &places),
        ]
    }

    /// Weights from DRAM or L2 to the buffer, or from DRAM to L2.
    pub(super) fn weights(&mut self) -> Vec<Inst> {
        let row = [self.channels(), self.random.range(1, 3), self.random.range(1, 3)];
        let k = self.random.range(1, 20_usize);
        let (mut source, mut dest) = (row, row);
        if self.random.chance(20) {
            source = row.map(|extent| self.around(extent));
            dest = row.map(|extent| self.around(extent));
        }
        let df = if self.random.chance(15) { FP16 } else { INT8 };
        let (bas, mask) = (self.random.below(3_u8).into(), self.random.below(256_u16).into());
        let config = [("bas", bas), ("df", df), ("mkc", mask), ("mken", self.flag(10))];
        let crs =
            |stem: &str, row: [usize; 3]| axes(stem, "crs", &row.map(|extent| extent as i128));
        let rows = [crs("source", source), crs("dest", dest)];
        let size = [vec![("size_k".to_owned(), k as i128)], crs("size", row)];
        let bytes = k * (pitch(dest[0].max(source[0]), 2) * 9 + 32);
        let (region, address) = self.place(bytes);
        let dram = self.random.below(4096_u16).into();
        let unit = match self.random.chance(30) {
            true => self.last_unit as i128,
            false => self.random.below(60_u8).into(),
        };
        match self.random.below(3) {
            0 => vec![
                with("ldw_cfg", &config, &rows),
                with("ldw_mov", &[("dbsg", region), ("staddr", dram), ("dtaddr", address)], &size),
            ],
            1 => vec![
                with("lw_cfg", &config, &rows),
                with(
                    "lw_mov",
                    &[("ss", 1), ("staddr", dram), ("dtaddr", unit), ("x_cut", 3)],
                    &size,
                ),
            ],
            _ => {
                let address = address.max(0);
                let place = [("sbsg", region), ("staddr", address), ("dtaddr", unit), ("x_cut", 3)];
                vec![with("lw_cfg", &config, &rows), with("lw_mov", &place, &size)]
            }
        }
    }

    /// Activations between DRAM and L2.
    pub(super) fn copy(&mut self) -> Vec<Inst> {
        let shape = [self.channels(), self.random.range(1, 5), self.random.range(1, 5)];
        let n = self.random.range(1, 3_usize);
        let df = if self.random.coin() { FP16 } else { INT8 };
        let mut tensors = [shape, shape];
        if self.random.coin() {
            tensors = tensors.map(|tensor| tensor.map(|extent| self.around(extent)));
        }
        let load = self.random.coin();
        let l2 = tensors[usize::from(load)];
        let (region, address) = self.place(n * pitch(l2[0], 2) * l2[1] * l2[2]);
        let config = [("sme", self.flag(50)), ("bas", self.random.below(3_u8).into()), ("df", df)];
        let tensors = [tile3("source", tensors[0]), tile3("dest", tensors[1])];
        let dram = self.random.below(4096_u16).into();
        let (names, place) = match load {
            true => {
                (["lda_cfg", "lda_mov"], [("dbsg", region), ("staddr", dram), ("dtaddr", address)])
            }
            false => {
                (["sta_cfg", "sta_mov"], [("sbsg", region), ("staddr", address), ("dtaddr", dram)])
            }
        };
        vec![with(names[0], &config, &tensors), with(names[1], &place, &[images(n, shape)])]
    }

    /// A reordering inside L2, most often a copy.
    pub(super) fn reorder(&mut self) -> Vec<Inst> {
        let shape = [self.channels(), self.random.range(1, 5), self.random.range(1, 5)];
        let n = self.random.range(1, 3_usize);
        let df = if self.random.coin() { FP16 } else { INT8 };
        let order = self.random.pick(&[0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5]);
        let largest = shape.iter().copied().max().unwrap_or(1);
        let tensor = |draw: &mut Draw| match order {
            0 => shape.map(|extent| draw.around(extent)),
            _ => [largest; 3],
        };
        let [source, dest] = [tensor(self), tensor(self)];
        let bytes = |[c, h, w]: [usize; 3]| n * pitch(c, 2) * h * w;
        let (from, mut to) = (self.place(bytes(source)), self.place(bytes(dest)));
        if self.random.chance(30) {
            to = self.beside(from, bytes(source), bytes(dest));
        }
        let places = [
            ("order", order),
            ("sbsg", from.0),
            ("staddr", from.1),
            ("dbsg", to.0),
            ("dtaddr", to.1),
        ];
        vec![
            with("dt_cfg", &[("df", df)], &[tile3("source", source), tile3("dest", dest)]),
            with("dt_cal", &places, &[images(n, shape)]),
        ]
    }

    /// A vector instruction of any kind.
    #[expect(clippy::too_many_lines, reason = "long instructions")]
    pub(super) fn vector(&mut self) -> Vec<Inst> {
        let kind =
            self.random.pick(&["vp_self", "vp_self", "vp_self", "vp_pool", "vp_pool", "vp_upsm"]);
        let single = kind == "vp_self";
        let c = match self.random.chance(5) {
            // More than are worked on together.
            true => 1200,
            false => self.channels(),
        };
        let most = if c > 1000 { 2 } else { 6 };
        let mut out = [c, self.random.range(1, most), self.random.range(1, most)];
        let mut stride = [1, 1];
        if !single || self.random.chance(20) {
            stride = [self.random.range(1, 3), self.random.range(1, 3)];
        }
        let mut source = [c, self.random.range(1, most), self.random.range(1, most)];
        if single {
            let reach = |axis: usize| (out[axis + 1] - 1) * stride[axis] + 1;
            source = [c, reach(0), reach(1)];
            if self.random.chance(30) {
                source = source.map(|extent| self.around(extent));
            }
        }
        let pool = kind == "vp_pool";
        let window = match pool {
            true => [self.random.range(1, 4_usize), self.random.range(1, 4)],
            false => [1, 1],
        };
        let mut start = [0, 0];
        if !single {
            start = [self.range(-2, 1), self.range(-2, 1)];
        }
        if pool && self.random.chance(60) {
            // Every window has a position inside.
            let last = |axis: usize| {
                let start = start[axis] as isize;
                ((source[axis + 1] as isize - 1 - start) / stride[axis] as isize).max(0) as usize
                    + 1
            };
            out = [c, out[1].min(last(0)), out[2].min(last(1))];
            start = [0, 1].map(|axis| start[axis].max(1 - window[axis] as i128).min(0));
        }
        let dest = [self.around(c), self.around(out[1]), self.around(out[2])];
        let formats =
            [self.random.pick(&[INT8, INT8, FP16]), self.random.pick(&[INT8, INT8, FP16])];
        let vf32 = self.flag(8);
        let bytes = |df: i128| match (df, vf32) {
            (FP16, 1) => 4,
            (FP16, _) => 2,
            _ => 1,
        };
        let two = single && self.random.chance(40);
        let axes_of = |draw: &mut Draw, percent| match draw.random.chance(percent) {
            true => draw.range(1, 7),
            false => 7,
        };
        let (t0f, t1f) = (axes_of(self, 10), axes_of(self, 40));
        let size = |[c, h, w]: [usize; 3], df: i128| pitch(c, bytes(df)) * h * w;
        let [input_size, output_size] = [size(source, formats[0]), size(dest, formats[1])];
        let mut input = self.place(input_size);
        let (second, mut output) = (self.place(input_size), self.place(output_size));
        if self.random.chance(20) {
            output = input;
            if self.random.chance(30) {
                output.1 += 8;
            }
        } else if self.random.chance(15) {
            output = self.beside(input, input_size, output_size);
        }
        let first = (start[0] * source[2] as i128 + start[1]) * pitch(c, bytes(formats[0])) as i128;
        input.1 += first;
        let compare = if pool { self.random.coin() } else { single && self.random.chance(25) };
        let tensor = two && self.random.coin();
        let sum0 = (two && !tensor) || self.random.chance(25);
        let modules = u8::from(compare)
            | u8::from(sum0) << 1
            | u8::from(self.random.chance(25)) << 2
            | u8::from(tensor || self.random.chance(25)) << 3
            | u8::from(self.random.chance(85)) << 4
            | u8::from(pool && !compare) << 5;
        let groups = u8::from(two) + self.flag(25) as u8 * 2 + 4 + self.flag(40) as u8 * 64;
        let registers = |draw: &mut Draw| if draw.random.chance(20) { draw.range(1, 3) } else { 0 };
        let cmpvs = if pool { 0 } else { registers(self) };
        let cmpv = if pool { num(0.0) } else { self.number(30.0) };
        let gcs = [
            ("cmps", self.range(1, 2)),
            ("sg0m", self.flag(40)),
            ("cmpvs", cmpvs),
            ("cmpv", cmpv),
            ("sg0vs", registers(self)),
            ("sg0v", self.number(20.0)),
        ];
        let segment = self.flag(20);
        let gms = [
            ("used", segment),
            ("sege", segment),
            ("segn", self.random.below(30_u8).into()),
            ("mg0s", i128::from(tensor)),
            ("sg1m", self.flag(40)),
            ("mg0vs", registers(self)),
            ("sg1vs", registers(self)),
            ("sg1v", self.number(9.0)),
            ("mg0v", self.number(2.0)),
        ];
        let sms = [
            ("summ", self.flag(40)),
            ("mulvs", registers(self)),
            ("sumvs", registers(self)),
            ("mulv", self.number(2.0)),
            ("sumv", self.number(9.0)),
        ];
        let large = if self.random.chance(10) { 5000.0 } else { 4.0 };
        let qp = [
            ("qcs", self.random.pick(&[0, 1, 2, 2, 2, 3])),
            ("qsmd", self.flag(30)),
            ("qb", self.number(30.0)),
            ("qk", self.number(large)),
        ];
        let iq = [("iqb0", self.number(9.0)), ("iqk0", self.number(1.0))];
        let iq1 = [("iqb1", self.number(9.0)), ("iqk1", self.number(1.0))];
        let fm = [
            ("if_sign", self.flag(70)),
            ("of_sign", self.flag(70)),
            ("idf", formats[0]),
            ("odf", formats[1]),
            ("vf32", vf32),
        ];
        let tp = [
            ("stride_h", stride[0] as i128),
            ("stride_w", stride[1] as i128),
            ("kernel_h", window[0] as i128),
            ("kernel_w", window[1] as i128),
            ("t0f", t0f),
            ("t1f", if two { t1f } else { 0 }),
            ("padv_area", if self.random.coin() { -32768 } else { self.range(-200, 200) }),
        ];
        let mut exec = vec![
            ("iqen", self.flag(80)),
            ("qen", self.random.below(4_u8).into()),
            ("shmd", self.random.pick(&[0, 0, 0, 1, 2, 3])),
            ("gpmd", groups.into()),
            ("swrs", if self.random.chance(15) { self.range(1, 3) } else { 0 }),
            ("lut", modules.into()),
            ("sbsg", input.0),
            ("staddr", input.1),
            ("dbsg", output.0),
            ("dtaddr", output.1),
        ];
        match single {
            true => exec.extend([("sbsg1", second.0), ("staddr1", second.1)]),
            false => exec.extend([("iph", start[0]), ("ipw", start[1])]),
        }
        vec![
            with("vp_cfg_fm", &fm, &[tile3("source", source), tile3("dest", dest)]),
            with("vp_cfg_tp", &tp, &[tile3("tile", out)]),
            inst("vp_cfg_gcs", &gcs),
            inst("vp_cfg_gms", &gms),
            inst("vp_cfg_sms", &sms),
            inst("vp_cfg_qp", &qp),
            inst("vp_cfg_iq", &iq),
            inst("vp_cfg_iq1", &iq1),
            inst(kind, &exec),
        ]
    }
}
