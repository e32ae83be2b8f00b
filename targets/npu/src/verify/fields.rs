//! Rules that a line alone can break.

use super::Subject;
use crate::arch::NpuArch;
use crate::isa::{ActMode, CMPS, DataFmt, DataSign, Inst, MG0S, YCutMode};
use crate::regions::{TooLong, region};
use crate::replay::Node;
use crate::time::{al1_words, mini_image};
use crate::work::{
    Conv, ConvKind, Copy, Extents, Regions, Remote, Reorder, Vector, VectorKind, WeightDest,
    WeightSource, Weights, Work, product, wide,
};
use quincunx_diag::{Diagnostic, Problems};
use std::num::Saturating;

/// Lists the problems of one line.
struct Line<'a> {
    arch: &'a NpuArch,
    cores: usize,
    core: usize,
    found: Vec<Diagnostic>,
}

pub(super) fn check(subject: &Subject<'_>, problems: &mut Problems) {
    let (programs, cores) = (subject.programs.len(), subject.arch.cores());
    if programs > cores {
        let message = format!("{programs} programs are given, the machine has {cores} cores");
        let help =
            "choose a machine with more cores, such as gemini-2x1, or set cores_x and cores_y";
        problems.push(Diagnostic::warning("Q4036", message).help(help));
    }
    for (core, work) in subject.work.iter().enumerate() {
        for (index, work) in work.iter().enumerate() {
            let node = Node { core, line: index };
            let mut line =
                Line { arch: subject.arch, cores: subject.programs.len(), core, found: Vec::new() };
            line.members(&subject.programs[core].lines[index].inst);
            match work {
                Err(config) => line.wrong(
                    "Q4020",
                    format!("{} is used before {config} configures it", subject.mnemonic(node)),
                ),
                Ok(work) => line.work(work),
            }
            for problem in line.found {
                problems.push(subject.at(node, problem));
            }
        }
    }
}

impl Line<'_> {
    fn wrong(&mut self, code: &'static str, message: String) {
        self.found.push(Diagnostic::invalid(code, message));
    }

    fn undefined(&mut self, wrong: bool, what: &str) {
        if wrong {
            let problem =
                Diagnostic::unsupported("Q4034", format!("{what} has no defined meaning"));
            self.found.push(problem);
        }
    }

    fn shape(&mut self, right: bool, what: &str) {
        if !right {
            self.wrong("Q4035", what.to_owned());
        }
    }

    /// Members of enumerations that the table does not know.
    fn members(&mut self, inst: &Inst) {
        let raw = inst.to_raw();
        for (operand, &value) in inst.spec().operands.iter().zip(&raw.values) {
            let quincunx_isa::Kind::Custom(custom) = operand.kind else { continue };
            let Some(enumeration) = crate::isa::enumeration_of(custom) else { continue };
            let known = u8::try_from(value).is_ok_and(|value| enumeration.member(value).is_some());
            self.undefined(!known, &format!("{} {value}", enumeration.name));
        }
    }

    fn work(&mut self, work: &Work) {
        match work {
            Work::Begin | Work::End | Work::Configure => {}
            Work::Regions(regions) => self.regions(regions),
            Work::Copy(copy) => self.copy(copy),
            Work::Weights(weights) => self.weights(weights),
            Work::Conv(conv) => self.conv(conv),
            Work::Vector(vector) => self.vector(vector),
            Work::Reorder(reorder) => self.reorder(reorder),
            Work::Remote(remote) => self.remote(remote),
        }
    }

    fn regions(&mut self, regions: &Regions) {
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for (kib, last) in regions.cuts {
            match region(kib, last) {
                Ok(None) => {}
                Ok(Some(region)) => {
                    let span = (region.start, region.end());
                    if span.1 > u64::from(self.arch.l2_bytes) {
                        let kib = self.arch.l2_bytes / 1024;
                        self.wrong(
                            "Q4026",
                            format!("a region ends at {} KiB of {kib}", span.1 / 1024),
                        );
                    }
                    if spans.iter().any(|other| other.0 < span.1 && span.0 < other.1) {
                        self.wrong("Q4026", "regions overlap".to_owned());
                    }
                    spans.push(span);
                }
                Err(TooLong) => {
                    self.wrong(
                        "Q4026",
                        format!("a region of {kib} KiB cannot end with KiB {last}"),
                    );
                }
            }
        }
    }

    fn positive(&mut self, extents: &[u32], what: &str) {
        self.shape(extents.iter().all(|&extent| extent > 0), &format!("an extent of {what} is 0"));
    }

    fn inside(&mut self, tile: Extents, tensor: Extents, what: &str) {
        let fits = tile.iter().zip(tensor).all(|(&tile, tensor)| tile <= tensor);
        self.shape(fits, &format!("the tile is larger than {what}"));
    }

    fn copy(&mut self, copy: &Copy) {
        self.positive(&copy.tile, "the tile");
        self.positive(&[copy.images], "the batch");
        self.inside(copy.tile, copy.dram_tensor, "the tensor in DRAM");
        self.inside(copy.tile, copy.l2_tensor, "the tensor in L2");
        self.undefined(copy.bas == 3, "BAS 3 of an activation copy");
    }

    fn weights(&mut self, weights: &Weights) {
        self.positive(&[weights.channels], "the weights");
        self.positive(&weights.row, "the weights");
        self.inside(weights.row, weights.source_row, "the source row");
        self.inside(weights.row, weights.dest_row, "the destination row");
        match weights.source {
            WeightSource::Remote { core, address } => {
                let bytes = weights.dense_bytes(weights.source_row);
                let end = bytes.saturating_add(address.into());
                self.other_core(core);
                let limit = u64::from(self.arch.l2_bytes);
                self.shape(end <= limit, "the weights end beyond the other core's L2");
            }
            WeightSource::Dram { bas, .. } => self.undefined(bas == 3, "BAS 3 of ldw_mov"),
            WeightSource::L2(_) => {}
        }
        if let WeightDest::Wl0(unit) = weights.dest {
            self.buffer(unit, weights.buffer_bytes());
        }
    }

    /// A block of the weight buffer.
    fn buffer(&mut self, unit: u32, bytes: u64) {
        let align = self.arch.wl0_align;
        if !unit.is_multiple_of(align) {
            self.wrong("Q4027", format!("WL0 address {unit} is not a multiple of {align}"));
        }
        let end = bytes.div_ceil(self.arch.wl0_unit.into()).saturating_add(unit.into());
        let units = self.arch.wl0_units;
        if end > u64::from(units) {
            self.wrong("Q4027", format!("weights end at unit {end} of WL0, which has {units}"));
        }
    }

    fn conv(&mut self, conv: &Conv) {
        let [n, k, c, h, w] = conv.tile;
        self.positive(&[n, k, c, h, w], "the tile");
        self.positive(&conv.source, "the source tensor");
        self.positive(&conv.kernel, "the kernel");
        self.positive(&conv.stride, "the stride");
        self.positive(&conv.mini, "the mini tile");
        self.positive(&conv.dilate, "DILATE");
        self.positive(&conv.insert, "INSERT");
        self.inside([c, 1, 1], conv.source, "the source tensor");
        self.inside([k, h, w], conv.dest, "the destination tensor");
        self.undefined(conv.formats[0] != DataFmt::INT8, "a convolution input that is not INT8");
        self.undefined(conv.formats[1] != DataFmt::INT8, "a convolution weight that is not INT8");
        let pad = conv.pad.value();
        let codes = if conv.signed[0] { -128.0..=127.0 } else { 0.0..=255.0 };
        self.undefined(
            pad.fract() != 0.0 || !codes.contains(&pad),
            "PADV that is not an input code",
        );
        self.undefined(conv.accumulate.is_some_and(|(mode, ..)| mode > 1), "DQC above 1");
        let limit = conv.activation.1.value();
        let negative = conv.activation.0 == ActMode::RELU_X && limit < 0.0;
        self.undefined(negative, "RELU_X with a negative ACTPM");
        if conv.kind == ConvKind::Grouped {
            let even =
                conv.groups > 0 && c.is_multiple_of(conv.groups) && k.is_multiple_of(conv.groups);
            self.shape(even, "GROUPS does not divide the channels");
        }
        if conv.kind == ConvKind::Dense {
            let whole = conv.kernel == [conv.source[1], conv.source[2]] && conv.start == [0, 0];
            self.shape(whole && (h, w) == (1, 1), "the kernel of pe_fc does not cover the source");
        }
        self.buffer(conv.weights, conv.weight_bytes());
        let (words, limit) = (al1_words(conv), u64::from(self.arch.al1_words));
        if words > limit {
            self.wrong(
                "Q4028",
                format!("a mini tile needs {words} words of AL1, which has {limit}"),
            );
        }
        let (hm, wm) = mini_image(conv);
        let results = product([conv.mini[0], hm, wm].map(u64::from));
        let limit = u64::from(self.arch.ol1_results);
        if limit > 0 && results > limit {
            self.wrong("Q4029", format!("a mini tile has {results} results, OL1 holds {limit}"));
        }
        let uneven = conv.y_cut == YCutMode::CUT_C && conv.kind == ConvKind::Grouped;
        self.undefined(uneven, "YCutMode CUT_C of pe_gpcv");
    }

    fn vector(&mut self, vector: &Vector) {
        let config = &vector.config;
        self.positive(&config.tile, "the tile");
        self.positive(&config.source, "the source tensor");
        self.positive(&config.stride, "the stride");
        self.positive(&config.window, "the window");
        self.inside(config.tile, config.dest, "the destination tensor");
        for (value, name) in vector.reserved.into_iter().zip(["CMPD", "TREED", "ACCD", "TM"]) {
            self.undefined(value != 0, &format!("{name} other than 0"));
        }
        self.undefined(config.dequantiser_mode != 0, "IQCS other than 0");
        self.undefined(vector.scalar_result > 3, "SWRS above 3");
        self.undefined(vector.groups & !0b0100_0111 != 0, "a bit of GPMD");
        self.undefined(vector.groups & 4 == 0, "GPMD without tensor 0");
        self.undefined(config.segment.is_err(), "SEGE without USED");
        self.undefined(config.first_axes == 0, "T0F 0");
        let second = vector.groups & 1 != 0;
        self.undefined(
            second != vector.has_second(),
            "GPMD that disagrees with T1F about tensor 1",
        );
        let compare = vector.modules & 1 != 0;
        self.undefined(compare && config.compare.0 == CMPS::DEFAULT, "compare with CMPS DEFAULT");
        let tensor = vector.modules & 8 != 0 && config.multiply.0 == MG0S::TENSOR;
        self.undefined(tensor && !second, "MG0S TENSOR without tensor 1");
        let adds = vector.modules & 2 != 0;
        self.undefined(second && !tensor && !adds, "tensor 1 that no module of LUT takes");
        match vector.kind {
            VectorKind::Single => {
                self.undefined(config.window != [1, 1], "a window of vp_self");
                self.undefined(vector.modules & 32 != 0, "the accumulator of vp_self");
                let [stride_h, stride_w] = config.stride;
                let last = config.tile.map(|extent| wide(extent) - Saturating(1));
                let strides = [1, stride_h, stride_w];
                let fits = config.tile.contains(&0)
                    || (0..3)
                        .all(|axis| last[axis] * wide(strides[axis]) < wide(config.source[axis]));
                self.shape(fits, "the tile reaches beyond the source tensor");
            }
            VectorKind::Pool => {
                let both = [1, 32].map(|module| vector.modules & module != 0);
                self.undefined(
                    both[0] == both[1],
                    "vp_pool with both or neither of compare and accumulator",
                );
                let scalar = config.compare.1;
                let scalar = scalar.register != 0 || scalar.immediate != 0.0;
                self.undefined(both[0] && scalar, "CMPV or CMPVS of a window");
                self.shape(config.tile[0] == config.source[0], "pooling changes the channels");
                self.windows(vector);
            }
            VectorKind::Enlarge => {
                self.undefined(vector.modules & 33 != 0, "compare or accumulator of vp_upsm");
                self.undefined(config.window != [1, 1], "a window of vp_upsm");
                self.shape(config.tile[0] == config.source[0], "enlarging changes the channels");
            }
        }
    }

    /// Without a value for positions outside, every window has a position inside.
    fn windows(&mut self, vector: &Vector) {
        let config = &vector.config;
        if config.pad != i16::MIN {
            return;
        }
        let ([_, rows, columns], [_, height, width]) = (config.tile, config.source);
        for (axis, (outputs, extent)) in [(rows, height), (columns, width)].into_iter().enumerate()
        {
            let start = wide(vector.start[axis]);
            let last = start + (wide(outputs) - Saturating(1)) * wide(config.stride[axis]);
            let inside = (start + wide(config.window[axis])).0 > 0 && last < wide(extent);
            self.shape(inside, "a window lies outside the image");
        }
    }

    fn reorder(&mut self, reorder: &Reorder) {
        self.undefined(reorder.axes().is_none(), "Order above 5");
        self.positive(&reorder.tile, "the tile");
        self.positive(&[reorder.images], "the batch");
        self.inside(reorder.tile, reorder.tensors[0], "the source tensor");
        self.inside(reorder.permuted(), reorder.tensors[1], "the destination tensor");
    }

    fn remote(&mut self, remote: &Remote) {
        self.other_core(remote.core);
        self.positive(&remote.tile, "the tile");
        self.inside(remote.tile, remote.tensors[0], "the source tensor");
        self.inside(remote.tile, remote.tensors[1], "the destination tensor");
    }

    fn other_core(&mut self, core: u8) {
        if usize::from(core) >= self.cores || usize::from(core) == self.core {
            self.wrong(
                "Q4036",
                format!("core {core} is not another core of the {} given", self.cores),
            );
        }
    }
}

// Signs are one bit, both of which are defined.
const _: () = assert!(DataSign::SIGNED.0 == 1 && DataSign::UNSIGNED.0 == 0);
