//! The lines that make a machine do a piece of work: the inverse of [`resolve`](super::resolve).
//!
//! Facts: `gemini` (`docs/bibliography.md`) for the order in which configurations are written.

#![deny(clippy::wildcard_enum_match_arm)]

use super::{
    Conv, ConvKind, Copy, Extents, Place, Regions, Remote, Reorder, Scalar, Vector, VectorKind,
    WeightDest, WeightSource, Weights, Work,
};
use crate::isa::{ACCD, CMPD, DataSign, Inst, Number, Queues, SWRS, TREED, XCutMode};
use smallvec::SmallVec;

/// The configurations that a line needs, in the order in which they are written, and the line.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// Configurations.
    pub configs: SmallVec<[Inst; 8]>,
    /// The line, without tokens.
    pub inst: Inst,
}

/// The lines of a piece of work. Numbers that a field is too narrow for are cut off: the caller
/// keeps to the ranges of the instruction table.
///
/// [`Work::Configure`] alone says nothing and gives `None`.
pub fn lines(work: &Work) -> Option<Lines> {
    let (prev, next) = (Queues::NONE, Queues::NONE);
    Some(match work {
        Work::Begin => plain(Inst::CtSt { prev, next }),
        Work::End => plain(Inst::CtEd { prev, next }),
        Work::Regions(regions) => plain(cut(regions)),
        Work::Configure => return None,
        Work::Copy(copy) => self::copy(copy),
        Work::Weights(weights) => self::weights(weights),
        Work::Conv(conv) => self::conv(conv),
        Work::Vector(vector) => self::vector(vector),
        Work::Reorder(reorder) => self::reorder(reorder),
        Work::Remote(remote) => self::remote(remote),
    })
}

fn plain(inst: Inst) -> Lines {
    Lines { configs: SmallVec::new(), inst }
}

fn after(configs: impl IntoIterator<Item = Inst>, inst: Inst) -> Lines {
    Lines { configs: configs.into_iter().collect(), inst }
}

fn extents([c, h, w]: Extents) -> (u16, u16, u16) {
    (c as u16, h as u16, w as u16)
}

fn row([c, r, s]: Extents) -> (u16, u8, u8) {
    (c as u16, r as u8, s as u8)
}

fn l2(place: Place) -> i32 {
    place.address as i32
}

/// A number of single precision as text has it.
pub(crate) fn real(value: f32) -> Number {
    match value.is_sign_positive() && value == 0.0 {
        true => Number::whole(0),
        false => Number::real(value.into()).unwrap_or(Number::whole(0)),
    }
}

fn sign(signed: bool) -> DataSign {
    if signed { DataSign::SIGNED } else { DataSign::UNSIGNED }
}

fn cut(regions: &Regions) -> Inst {
    let [(len0, last0), (len1, last1), (len2, last2), (len3, last3)] = regions.cuts;
    let (prev, next) = (Queues::NONE, Queues::NONE);
    let bcs = regions.first / 4;
    Inst::CtBc { bcs, len0, last0, len1, last1, len2, last2, len3, last3, prev, next }
}

fn copy(copy: &Copy) -> Lines {
    let (prev, next) = (Queues::NONE, Queues::NONE);
    let (tile_c, tile_h, tile_w) = extents(copy.tile);
    let (sme, rs, bas, df) = (u8::from(copy.dense), 0, copy.bas, copy.format);
    let tile_n = copy.images as u8;
    let [source, dest] = match copy.load {
        true => [copy.dram_tensor, copy.l2_tensor],
        false => [copy.l2_tensor, copy.dram_tensor],
    };
    let ((source_c, source_h, source_w), (dest_c, dest_h, dest_w)) =
        (extents(source), extents(dest));
    let region = copy.l2.region;
    match copy.load {
        true => after(
            [Inst::LdaCfg {
                sme,
                rs,
                bas,
                df,
                source_c,
                source_h,
                source_w,
                dest_c,
                dest_h,
                dest_w,
            }],
            Inst::LdaMov {
                rs,
                dbsg: region,
                staddr: copy.dram,
                dtaddr: l2(copy.l2),
                tile_n,
                tile_c,
                tile_h,
                tile_w,
                prev,
                next,
            },
        ),
        false => after(
            [Inst::StaCfg {
                sme,
                rs,
                bas,
                df,
                source_c,
                source_h,
                source_w,
                dest_c,
                dest_h,
                dest_w,
            }],
            Inst::StaMov {
                rs,
                sbsg: region,
                staddr: l2(copy.l2),
                dtaddr: copy.dram,
                tile_n,
                tile_c,
                tile_h,
                tile_w,
                prev,
                next,
            },
        ),
    }
}

fn weights(weights: &Weights) -> Lines {
    let (prev, next) = (Queues::NONE, Queues::NONE);
    let (source_c, source_r, source_s) = row(weights.source_row);
    let (dest_c, dest_r, dest_s) = row(weights.dest_row);
    let (size_c, size_r, size_s) = row(weights.row);
    let size_k = weights.channels as u16;
    let df = weights.format;
    let (mkc, mken) = (weights.mask.unwrap_or(0), u8::from(weights.mask.is_some()));
    // From L2 the base counts nothing; files have that of the weights.
    let (ss, bas, sbsg, staddr) = match weights.source {
        WeightSource::Dram { bas, address } => (1, bas, 0, address),
        WeightSource::L2(place) => (0, 1, place.region, place.address as u32),
        WeightSource::Remote { core, address } => (1, 3, 0, u32::from(core) << 24 | address),
    };
    match weights.dest {
        WeightDest::L2(place) => after(
            [Inst::LdwCfg {
                rs: 1,
                bas,
                df,
                mkc,
                mken,
                source_c,
                source_r,
                source_s,
                dest_c,
                dest_r,
                dest_s,
            }],
            Inst::LdwMov {
                rs: 1,
                dbsg: place.region,
                staddr,
                dtaddr: l2(place),
                size_k,
                size_c,
                size_r,
                size_s,
                prev,
                next,
            },
        ),
        WeightDest::Wl0(dtaddr) => after(
            [Inst::LwCfg {
                bas,
                df,
                mkc,
                mken,
                source_c,
                source_r,
                source_s,
                dest_c,
                dest_r,
                dest_s,
            }],
            Inst::LwMov {
                ss,
                x_cut: XCutMode::CUT_K,
                y_cut: weights.y_cut.unwrap_or(crate::isa::YCutMode::CUT_H),
                sbsg,
                staddr,
                dtaddr,
                size_k,
                size_c,
                size_r,
                size_s,
                prev,
                next,
            },
        ),
    }
}

fn conv(conv: &Conv) -> Lines {
    let (prev, next) = (Queues::NONE, Queues::NONE);
    let (source_c, source_h, source_w) = extents(conv.source);
    let (dest_c, dest_h, dest_w) = extents(conv.dest);
    let [sf, wf, df] = conv.formats;
    let [if_sign, of_sign] = conv.signed.map(sign);
    let [stride_h, stride_w] = conv.stride.map(|stride| stride as u8);
    let [kernel_r, kernel_s] = conv.kernel.map(|extent| extent as u8);
    let [tile_n, tile_k, tile_c, tile_h, tile_w] = conv.tile;
    let (qc, qb, qk) = conv.quantiser;
    let (actmd, actpm) = conv.activation;
    let (dqc, dqb, dqk) = conv.accumulate.unwrap_or((0, Number::whole(0), Number::whole(0)));
    let mut configs: SmallVec<[Inst; 8]> = SmallVec::new();
    configs.push(Inst::PeCfgFm {
        if_sign,
        of_sign,
        sf,
        wf,
        df,
        padv: conv.pad,
        source_c,
        source_h,
        source_w,
        dest_c,
        dest_h,
        dest_w,
    });
    configs.push(Inst::PeCfgPm {
        actmd,
        actpm,
        qc,
        qb,
        qk,
        adden: u8::from(conv.accumulate.is_some()),
        stride_h,
        stride_w,
        x_cut: XCutMode::CUT_K,
        y_cut: conv.y_cut,
    });
    configs.push(Inst::PeCfgDq { dqc, dqb, dqk });
    if !matches!(conv.kind, ConvKind::Plain | ConvKind::Dense) {
        let [dilate_h, dilate_w] = conv.dilate.map(|distance| distance as u8);
        let [insert_h, insert_w] = conv.insert.map(|distance| distance as u8);
        let groups = conv.groups as u16;
        configs.push(Inst::PeCfgDe { dilate_h, dilate_w, insert_h, insert_w, groups });
    }
    configs.push(Inst::PeCfgTp {
        kernel_r,
        kernel_s,
        tile_n: tile_n as u8,
        tile_k: tile_k as u16,
        tile_c: tile_c as u16,
        tile_h: tile_h as u16,
        tile_w: tile_w as u16,
        mtk0: conv.mini[0] as u8,
        mtc0: conv.mini[1] as u16,
        mti_h: conv.mini_image[0] as u8,
        mti_w: conv.mini_image[1] as u8,
    });
    let ps = conv.phase as u8;
    let [sphi, spwi] = conv.start.map(|start| start as i8);
    let (sbsg, dbsg) = (conv.input.region, conv.output.region);
    let (staddr, swaddr, dtaddr) = (l2(conv.input), conv.weights, l2(conv.output));
    let inst = match conv.kind {
        ConvKind::Plain => {
            Inst::PeConv { ps, sphi, spwi, sbsg, dbsg, staddr, swaddr, dtaddr, prev, next }
        }
        ConvKind::Dilated => {
            Inst::PeDicv { ps, sphi, spwi, sbsg, dbsg, staddr, swaddr, dtaddr, prev, next }
        }
        ConvKind::Transposed => {
            Inst::PeDecv { ps, sphi, spwi, sbsg, dbsg, staddr, swaddr, dtaddr, prev, next }
        }
        ConvKind::Grouped => {
            Inst::PeGpcv { ps, sphi, spwi, sbsg, dbsg, staddr, swaddr, dtaddr, prev, next }
        }
        ConvKind::Dense => {
            Inst::PeFc { ps, sphi, spwi, sbsg, dbsg, staddr, swaddr, dtaddr, prev, next }
        }
    };
    Lines { configs, inst }
}

fn vector_configs(vector: &Vector) -> [Inst; 8] {
    let config = &vector.config;
    let (source_c, source_h, source_w) = extents(config.source);
    let (dest_c, dest_h, dest_w) = extents(config.dest);
    let (tile_c, tile_h, tile_w) = extents(config.tile);
    let [stride_h, stride_w] = config.stride.map(|stride| stride as u8);
    let [kernel_h, kernel_w] = config.window.map(|extent| extent as u8);
    let immediate = |scalar: Scalar| (scalar.register, real(scalar.immediate));
    let ((cmpvs, cmpv), (sg0vs, sg0v)) = (immediate(config.compare.1), immediate(config.sum0.1));
    let ((mg0vs, mg0v), (sg1vs, sg1v)) = (immediate(config.multiply.1), immediate(config.sum1.1));
    let ((mulvs, mulv), (sumvs, sumv)) = (immediate(config.scalar.1), immediate(config.scalar.2));
    let (qcs, qsmd, qb, qk) = config.quantiser;
    let [(iqb0, iqk0), (iqb1, iqk1)] = config.dequantisers.map(|(b, k)| (real(b), real(k)));
    let (used, sege, segn) = match config.segment {
        Ok(None) => (false, 0, 0),
        Ok(Some(channels)) => (true, 1, channels as u8),
        Err(()) => (false, 1, 0),
    };
    let (mg0s, sg1m) = (config.multiply.0, config.sum1.0);
    let [if_sign, of_sign] = config.signed.map(sign);
    let [idf, odf] = config.formats;
    [
        Inst::VpCfgGcs { cmps: config.compare.0, sg0m: config.sum0.0, cmpvs, sg0vs, sg0v, cmpv },
        Inst::VpCfgGms { used, sege, segn, mg0s, sg1m, mg0vs, sg1vs, sg1v, mg0v },
        Inst::VpCfgSms { summ: config.scalar.0, mulvs, sumvs, sumv, mulv },
        Inst::VpCfgQp { qcs, qsmd, qb: real(qb), qk: real(qk) },
        Inst::VpCfgIq { iqcs: config.dequantiser_mode, iqb0, iqk0 },
        Inst::VpCfgIq1 { iqb1, iqk1 },
        Inst::VpCfgFm {
            if_sign,
            of_sign,
            idf,
            odf,
            vf32: u8::from(config.single),
            source_c,
            source_h,
            source_w,
            dest_c,
            dest_h,
            dest_w,
        },
        Inst::VpCfgTp {
            stride_h,
            stride_w,
            kernel_h,
            kernel_w,
            tile_c,
            tile_h,
            tile_w,
            t1f: config.second_axes,
            t0f: config.first_axes,
            padv_area: config.pad,
        },
    ]
}

fn vector(vector: &Vector) -> Lines {
    let (prev, next) = (Queues::NONE, Queues::NONE);
    let (iqen, qen, shmd) = (u8::from(vector.dequantise), vector.quantise, vector.shift);
    let (gpmd, lut) = (vector.groups, vector.modules);
    let [cmpd, treed, accd, tm] = vector.reserved;
    let (cmpd, treed, accd) = (CMPD(cmpd), TREED(treed), ACCD(accd));
    let swrs = SWRS(vector.scalar_result);
    let [iph, ipw] = vector.start.map(|start| start as i8);
    let [sbsg, sbsg1, dbsg] =
        [vector.input, vector.second, vector.output].map(|place| place.region);
    let [staddr, staddr1, dtaddr] = [vector.input, vector.second, vector.output].map(l2);
    let inst = match vector.kind {
        VectorKind::Single => Inst::VpSelf {
            iqen,
            qen,
            shmd,
            gpmd,
            cmpd,
            treed,
            accd,
            tm,
            swrs,
            lut,
            sbsg,
            sbsg1,
            dbsg,
            staddr,
            staddr1,
            dtaddr,
            prev,
            next,
        },
        VectorKind::Pool => Inst::VpPool {
            iqen,
            qen,
            shmd,
            gpmd,
            cmpd,
            treed,
            accd,
            swrs,
            lut,
            iph,
            ipw,
            sbsg,
            dbsg,
            staddr,
            dtaddr,
            prev,
            next,
        },
        VectorKind::Enlarge => Inst::VpUpsm {
            iqen,
            qen,
            shmd,
            gpmd,
            cmpd,
            treed,
            accd,
            swrs,
            lut,
            iph,
            ipw,
            sbsg,
            dbsg,
            staddr,
            dtaddr,
            prev,
            next,
        },
    };
    after(vector_configs(vector), inst)
}

fn reorder(reorder: &Reorder) -> Lines {
    let (prev, next) = (Queues::NONE, Queues::NONE);
    let (source_c, source_h, source_w) = extents(reorder.tensors[0]);
    let (dest_c, dest_h, dest_w) = extents(reorder.tensors[1]);
    let (tile_c, tile_h, tile_w) = extents(reorder.tile);
    let [sbsg, dbsg] = reorder.places.map(|place| place.region);
    let [staddr, dtaddr] = reorder.places.map(l2);
    after(
        [Inst::DtCfg { df: reorder.format, source_c, source_h, source_w, dest_c, dest_h, dest_w }],
        Inst::DtCal {
            order: reorder.order,
            sbsg,
            dbsg,
            staddr,
            dtaddr,
            tile_n: reorder.images as u8,
            tile_c,
            tile_h,
            tile_w,
            prev,
            next,
        },
    )
}

fn remote(remote: &Remote) -> Lines {
    let (prev, next) = (Queues::NONE, Queues::NONE);
    let (source_c, source_h, source_w) = extents(remote.tensors[0]);
    let (dest_c, dest_h, dest_w) = extents(remote.tensors[1]);
    let (tile_c, tile_h, tile_w) = extents(remote.tile);
    let tile_n = remote.images as u8;
    let [sbsg, dbsg] = remote.places.map(|place| place.region);
    let [staddr, dtaddr] = remote.places.map(l2);
    let syn = u8::from(remote.waits) | u8::from(remote.signals) << 1;
    let (core, df) = (remote.core, remote.format);
    match remote.receive {
        true => after(
            [Inst::SiSynCfg {
                core,
                syn,
                df,
                source_c,
                source_h,
                source_w,
                dest_c,
                dest_h,
                dest_w,
            }],
            Inst::SiaaMov {
                sbsg,
                dbsg,
                staddr,
                dtaddr,
                tile_n,
                tile_c,
                tile_h,
                tile_w,
                prev,
                next,
            },
        ),
        false => after(
            [Inst::SoSynCfg {
                core,
                syn,
                df,
                source_c,
                source_h,
                source_w,
                dest_c,
                dest_h,
                dest_w,
            }],
            Inst::SopwMov {
                sbsg,
                dbsg,
                staddr,
                dtaddr,
                tile_n,
                tile_c,
                tile_h,
                tile_w,
                prev,
                next,
            },
        ),
    }
}
