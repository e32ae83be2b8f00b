//! Configuration registers.

use super::{
    Conv, ConvKind, Copy, Extents, Place, Regions, Remote, Reorder, Resolved, Vector, VectorKind,
    WeightDest, WeightSource, Weights, Work,
};
use crate::isa::{
    CMPS, DataFmt, DataSign, Float2Fixed, Inst, MG0S, Number, QSMD, SG0M, SG1M, SUMM,
};

/// The registers of all queues: the last configuration instruction of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers {
    lda: [Option<Inst>; 2],
    ldw: [Option<Inst>; 2],
    sta: [Option<Inst>; 2],
    lw: Option<Inst>,
    si: Option<Inst>,
    so: Option<Inst>,
    dt: Option<Inst>,
    pe_fm: Option<Inst>,
    pe_pm: Option<Inst>,
    pe_dq: Option<Inst>,
    pe_de: Option<Inst>,
    pe_tp: Option<Inst>,
    vp_fm: Option<Inst>,
    vp_tp: Option<Inst>,
    vp_gcs: Option<Inst>,
    vp_gms: Option<Inst>,
    vp_sms: Option<Inst>,
    vp_qp: Option<Inst>,
    vp_iq: Option<Inst>,
    vp_iq1: Option<Inst>,
}

/// A scalar: an immediate, or the register with this number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalar {
    /// 0 for the immediate.
    pub register: u8,
    /// The immediate.
    pub immediate: f32,
}

fn scalar(register: u8, immediate: Number) -> Scalar {
    Scalar { register, immediate: immediate.single() }
}

/// The registers of the vector queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VpConfig {
    /// Formats of inputs and output.
    pub formats: [DataFmt; 2],
    /// Whether inputs and outputs have signs.
    pub signed: [bool; 2],
    /// FP16 stands for single precision.
    pub single: bool,
    /// Input tensor.
    pub source: Extents,
    /// Output tensor.
    pub dest: Extents,
    /// Strides of rows and columns.
    pub stride: [u32; 2],
    /// Rows and columns of the window.
    pub window: [u32; 2],
    /// Output tile.
    pub tile: Extents,
    /// Axes of tensors 1 and 0.
    pub second_axes: u8,
    /// Axes of tensor 0.
    pub first_axes: u8,
    /// Value outside the image; -32768 for none.
    pub pad: i16,
    /// What compare keeps, and its scalar.
    pub compare: (CMPS, Scalar),
    /// Sum group 0 subtracts, and its scalar.
    pub sum0: (SG0M, Scalar),
    /// Channels of the segment, if there is one; `Err` for SEGE without USED.
    pub segment: Result<Option<u32>, ()>,
    /// Second factor of the multiplication.
    pub multiply: (MG0S, Scalar),
    /// Sum group 1.
    pub sum1: (SG1M, Scalar),
    /// Scalar module: sum mode, factor, sum.
    pub scalar: (SUMM, Scalar, Scalar),
    /// Quantiser of the output: rounding, offset mode, offset, factor.
    pub quantiser: (Float2Fixed, QSMD, f32, f32),
    /// Conversion mode of the dequantiser.
    pub dequantiser_mode: u8,
    /// Offset and factor of tensors 0 and 1.
    pub dequantisers: [(f32, f32); 2],
}

impl VpConfig {
    /// Bytes of an element.
    pub fn bytes(&self, format: DataFmt) -> u32 {
        match format {
            DataFmt::FP16 if self.single => 4,
            _ => super::element_bytes(format),
        }
    }
}

fn extents(c: u16, h: u16, w: u16) -> Extents {
    [c.into(), h.into(), w.into()]
}

fn kernel_row(c: u16, r: u8, s: u8) -> Extents {
    [c.into(), r.into(), s.into()]
}

fn place(region: u8, address: i32) -> Place {
    Place { region, address: address.into() }
}

impl Registers {
    /// Sets a register; false when the instruction is no configuration.
    pub fn configure(&mut self, inst: &Inst) -> bool {
        let register = match inst {
            Inst::LdaCfg { rs, .. } => &mut self.lda[usize::from(*rs & 1)],
            Inst::LdwCfg { rs, .. } => &mut self.ldw[usize::from(*rs & 1)],
            Inst::StaCfg { rs, .. } => &mut self.sta[usize::from(*rs & 1)],
            Inst::LwCfg { .. } => &mut self.lw,
            Inst::SiSynCfg { .. } => &mut self.si,
            Inst::SoSynCfg { .. } => &mut self.so,
            Inst::DtCfg { .. } => &mut self.dt,
            Inst::PeCfgFm { .. } => &mut self.pe_fm,
            Inst::PeCfgPm { .. } => &mut self.pe_pm,
            Inst::PeCfgDq { .. } => &mut self.pe_dq,
            Inst::PeCfgDe { .. } => &mut self.pe_de,
            Inst::PeCfgTp { .. } => &mut self.pe_tp,
            Inst::VpCfgFm { .. } => &mut self.vp_fm,
            Inst::VpCfgTp { .. } => &mut self.vp_tp,
            Inst::VpCfgGcs { .. } => &mut self.vp_gcs,
            Inst::VpCfgGms { .. } => &mut self.vp_gms,
            Inst::VpCfgSms { .. } => &mut self.vp_sms,
            Inst::VpCfgQp { .. } => &mut self.vp_qp,
            Inst::VpCfgIq { .. } => &mut self.vp_iq,
            Inst::VpCfgIq1 { .. } => &mut self.vp_iq1,
            _ => return false,
        };
        *register = Some(*inst);
        true
    }

    /// The work of an instruction that is no configuration.
    pub(super) fn work(&self, inst: &Inst) -> Resolved {
        match *inst {
            Inst::CtSt { .. } => Ok(Work::Begin),
            Inst::CtEd { .. } => Ok(Work::End),
            Inst::CtBc { bcs, len0, last0, len1, last1, len2, last2, len3, last3, .. } => {
                let cuts = [(len0, last0), (len1, last1), (len2, last2), (len3, last3)];
                Ok(Work::Regions(Regions { first: 4 * bcs, cuts }))
            }
            Inst::LdaMov { .. } | Inst::StaMov { .. } => self.copy(inst),
            Inst::LdwMov { .. } | Inst::LwMov { .. } => self.weights(inst),
            Inst::PeConv { .. } => self.conv(inst, ConvKind::Plain),
            Inst::PeDicv { .. } => self.conv(inst, ConvKind::Dilated),
            Inst::PeDecv { .. } => self.conv(inst, ConvKind::Transposed),
            Inst::PeGpcv { .. } => self.conv(inst, ConvKind::Grouped),
            Inst::PeFc { .. } => self.conv(inst, ConvKind::Dense),
            Inst::VpSelf { .. } => self.vector(inst, VectorKind::Single),
            Inst::VpPool { .. } => self.vector(inst, VectorKind::Pool),
            Inst::VpUpsm { .. } => self.vector(inst, VectorKind::Enlarge),
            Inst::DtCal { .. } => self.reorder(inst),
            Inst::SiaaMov { .. } | Inst::SopwMov { .. } => self.remote(inst),
            // Configurations were taken before.
            _ => Ok(Work::Configure),
        }
    }

    fn copy(&self, inst: &Inst) -> Resolved {
        let copy = match *inst {
            Inst::LdaMov { rs, dbsg, staddr, dtaddr, tile_n, tile_c, tile_h, tile_w, .. } => {
                let Some(Inst::LdaCfg {
                    sme,
                    bas,
                    df,
                    source_c,
                    source_h,
                    source_w,
                    dest_c,
                    dest_h,
                    dest_w,
                    ..
                }) = self.lda[usize::from(rs & 1)]
                else {
                    return Err("lda_cfg");
                };
                Copy {
                    load: true,
                    bas,
                    dense: sme == 1,
                    format: df,
                    dram: staddr,
                    l2: place(dbsg, dtaddr),
                    images: tile_n.into(),
                    tile: extents(tile_c, tile_h, tile_w),
                    dram_tensor: extents(source_c, source_h, source_w),
                    l2_tensor: extents(dest_c, dest_h, dest_w),
                }
            }
            Inst::StaMov { rs, sbsg, staddr, dtaddr, tile_n, tile_c, tile_h, tile_w, .. } => {
                let Some(Inst::StaCfg {
                    sme,
                    bas,
                    df,
                    source_c,
                    source_h,
                    source_w,
                    dest_c,
                    dest_h,
                    dest_w,
                    ..
                }) = self.sta[usize::from(rs & 1)]
                else {
                    return Err("sta_cfg");
                };
                Copy {
                    load: false,
                    bas,
                    dense: sme == 1,
                    format: df,
                    dram: dtaddr,
                    l2: place(sbsg, staddr),
                    images: tile_n.into(),
                    tile: extents(tile_c, tile_h, tile_w),
                    dram_tensor: extents(dest_c, dest_h, dest_w),
                    l2_tensor: extents(source_c, source_h, source_w),
                }
            }
            _ => return Ok(Work::Configure),
        };
        Ok(Work::Copy(copy))
    }

    fn weights(&self, inst: &Inst) -> Resolved {
        let weights = match *inst {
            Inst::LdwMov { rs, dbsg, staddr, dtaddr, size_k, size_c, size_r, size_s, .. } => {
                let Some(Inst::LdwCfg {
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
                    ..
                }) = self.ldw[usize::from(rs & 1)]
                else {
                    return Err("ldw_cfg");
                };
                Weights {
                    source: WeightSource::Dram { bas, address: staddr },
                    dest: WeightDest::L2(place(dbsg, dtaddr)),
                    format: df,
                    mask: (mken == 1).then_some(mkc),
                    source_row: kernel_row(source_c, source_r, source_s),
                    dest_row: kernel_row(dest_c, dest_r, dest_s),
                    channels: size_k.into(),
                    row: kernel_row(size_c, size_r, size_s),
                }
            }
            Inst::LwMov { ss, sbsg, staddr, dtaddr, size_k, size_c, size_r, size_s, .. } => {
                let Some(Inst::LwCfg {
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
                    ..
                }) = self.lw
                else {
                    return Err("lw_cfg");
                };
                let source = match (ss, bas) {
                    (0, _) => WeightSource::L2(Place { region: sbsg, address: staddr.into() }),
                    (_, 3) => WeightSource::Remote {
                        core: (staddr >> 24) as u8,
                        address: staddr & 0xff_ffff,
                    },
                    _ => WeightSource::Dram { bas, address: staddr },
                };
                Weights {
                    source,
                    dest: WeightDest::Wl0(dtaddr),
                    format: df,
                    mask: (mken == 1).then_some(mkc),
                    source_row: kernel_row(source_c, source_r, source_s),
                    dest_row: kernel_row(dest_c, dest_r, dest_s),
                    channels: size_k.into(),
                    row: kernel_row(size_c, size_r, size_s),
                }
            }
            _ => return Ok(Work::Configure),
        };
        Ok(Work::Weights(weights))
    }

    fn reorder(&self, inst: &Inst) -> Resolved {
        let Some(Inst::DtCfg { df, source_c, source_h, source_w, dest_c, dest_h, dest_w }) =
            self.dt
        else {
            return Err("dt_cfg");
        };
        let &Inst::DtCal {
            order, sbsg, dbsg, staddr, dtaddr, tile_n, tile_c, tile_h, tile_w, ..
        } = inst
        else {
            return Ok(Work::Configure);
        };
        Ok(Work::Reorder(Reorder {
            order,
            format: df,
            tensors: [extents(source_c, source_h, source_w), extents(dest_c, dest_h, dest_w)],
            places: [place(sbsg, staddr), place(dbsg, dtaddr)],
            images: tile_n.into(),
            tile: extents(tile_c, tile_h, tile_w),
        }))
    }

    fn remote(&self, inst: &Inst) -> Resolved {
        let receive = matches!(inst, Inst::SiaaMov { .. });
        let config = if receive { self.si } else { self.so };
        let (Some(
            Inst::SiSynCfg { core, syn, df, source_c, source_h, source_w, dest_c, dest_h, dest_w }
            | Inst::SoSynCfg { core, syn, df, source_c, source_h, source_w, dest_c, dest_h, dest_w },
        ),) = (config,)
        else {
            return Err(if receive { "si_syn_cfg" } else { "so_syn_cfg" });
        };
        let (&Inst::SiaaMov { sbsg, dbsg, staddr, dtaddr, tile_n, tile_c, tile_h, tile_w, .. }
        | &Inst::SopwMov { sbsg, dbsg, staddr, dtaddr, tile_n, tile_c, tile_h, tile_w, .. }) = inst
        else {
            return Ok(Work::Configure);
        };
        Ok(Work::Remote(Remote {
            receive,
            core,
            waits: syn & 1 != 0,
            signals: syn & 2 != 0,
            format: df,
            tensors: [extents(source_c, source_h, source_w), extents(dest_c, dest_h, dest_w)],
            places: [place(sbsg, staddr), place(dbsg, dtaddr)],
            images: tile_n.into(),
            tile: extents(tile_c, tile_h, tile_w),
        }))
    }

    fn conv(&self, inst: &Inst, kind: ConvKind) -> Resolved {
        let Some(Inst::PeCfgFm {
            if_sign,
            of_sign,
            sf,
            wf,
            df,
            padv,
            source_c,
            source_h,
            source_w,
            dest_c,
            dest_h,
            dest_w,
        }) = self.pe_fm
        else {
            return Err("pe_cfg_fm");
        };
        let Some(Inst::PeCfgPm {
            actmd, actpm, qc, qb, qk, adden, stride_h, stride_w, y_cut, ..
        }) = self.pe_pm
        else {
            return Err("pe_cfg_pm");
        };
        let Some(Inst::PeCfgTp {
            kernel_r,
            kernel_s,
            tile_n,
            tile_k,
            tile_c,
            tile_h,
            tile_w,
            mtk0,
            mtc0,
            mti_h,
            mti_w,
        }) = self.pe_tp
        else {
            return Err("pe_cfg_tp");
        };
        let accumulate = match (adden, self.pe_dq) {
            (0, _) => None,
            (_, Some(Inst::PeCfgDq { dqc, dqb, dqk })) => Some((dqc, dqb, dqk)),
            _ => return Err("pe_cfg_dq"),
        };
        let ([mut dilate, mut insert], mut groups) = ([[1, 1], [1, 1]], 1);
        if !matches!(kind, ConvKind::Plain | ConvKind::Dense) {
            let Some(Inst::PeCfgDe { dilate_h, dilate_w, insert_h, insert_w, groups: own }) =
                self.pe_de
            else {
                return Err("pe_cfg_de");
            };
            match kind {
                ConvKind::Dilated => dilate = [dilate_h.into(), dilate_w.into()],
                ConvKind::Transposed => insert = [insert_h.into(), insert_w.into()],
                _ => groups = own.into(),
            }
        }
        let (&Inst::PeConv { ps, sphi, spwi, sbsg, dbsg, staddr, swaddr, dtaddr, .. }
        | &Inst::PeDicv { ps, sphi, spwi, sbsg, dbsg, staddr, swaddr, dtaddr, .. }
        | &Inst::PeDecv { ps, sphi, spwi, sbsg, dbsg, staddr, swaddr, dtaddr, .. }
        | &Inst::PeGpcv { ps, sphi, spwi, sbsg, dbsg, staddr, swaddr, dtaddr, .. }
        | &Inst::PeFc { ps, sphi, spwi, sbsg, dbsg, staddr, swaddr, dtaddr, .. }) = inst
        else {
            return Ok(Work::Configure);
        };
        Ok(Work::Conv(Conv {
            kind,
            formats: [sf, wf, df],
            signed: [if_sign == DataSign::SIGNED, of_sign == DataSign::SIGNED],
            pad: padv,
            source: extents(source_c, source_h, source_w),
            dest: extents(dest_c, dest_h, dest_w),
            activation: (actmd, actpm),
            quantiser: (qc, qb, qk),
            accumulate,
            stride: [stride_h.into(), stride_w.into()],
            y_cut,
            kernel: [kernel_r.into(), kernel_s.into()],
            tile: [tile_n.into(), tile_k.into(), tile_c.into(), tile_h.into(), tile_w.into()],
            mini: [mtk0.into(), mtc0.into()],
            mini_image: [mti_h.into(), mti_w.into()],
            dilate,
            insert,
            groups,
            phase: ps.into(),
            start: [sphi.into(), spwi.into()],
            input: place(sbsg, staddr),
            weights: swaddr,
            output: place(dbsg, dtaddr),
        }))
    }

    fn vector(&self, inst: &Inst, kind: VectorKind) -> Resolved {
        let config = self.vector_config()?;
        let base = |region, address| place(region, address);
        let vector = match *inst {
            Inst::VpSelf {
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
                ..
            } => Vector {
                kind,
                config,
                dequantise: iqen == 1,
                quantise: qen,
                shift: shmd,
                groups: gpmd,
                reserved: [cmpd.0, treed.0, accd.0, tm],
                scalar_result: swrs.0,
                modules: lut,
                start: [0, 0],
                input: base(sbsg, staddr),
                second: base(sbsg1, staddr1),
                output: base(dbsg, dtaddr),
            },
            Inst::VpPool {
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
                ..
            }
            | Inst::VpUpsm {
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
                ..
            } => Vector {
                kind,
                config,
                dequantise: iqen == 1,
                quantise: qen,
                shift: shmd,
                groups: gpmd,
                reserved: [cmpd.0, treed.0, accd.0, 0],
                scalar_result: swrs.0,
                modules: lut,
                start: [iph.into(), ipw.into()],
                input: base(sbsg, staddr),
                second: base(sbsg, staddr),
                output: base(dbsg, dtaddr),
            },
            _ => return Ok(Work::Configure),
        };
        Ok(Work::Vector(vector))
    }

    fn vector_config(&self) -> Result<VpConfig, &'static str> {
        let Some(Inst::VpCfgFm {
            if_sign,
            of_sign,
            idf,
            odf,
            vf32,
            source_c,
            source_h,
            source_w,
            dest_c,
            dest_h,
            dest_w,
        }) = self.vp_fm
        else {
            return Err("vp_cfg_fm");
        };
        let Some(Inst::VpCfgTp {
            stride_h,
            stride_w,
            kernel_h,
            kernel_w,
            tile_c,
            tile_h,
            tile_w,
            t1f,
            t0f,
            padv_area,
        }) = self.vp_tp
        else {
            return Err("vp_cfg_tp");
        };
        let Some(Inst::VpCfgGcs { cmps, sg0m, cmpvs, sg0vs, sg0v, cmpv }) = self.vp_gcs else {
            return Err("vp_cfg_gcs");
        };
        let Some(Inst::VpCfgGms { used, sege, segn, mg0s, sg1m, mg0vs, sg1vs, sg1v, mg0v }) =
            self.vp_gms
        else {
            return Err("vp_cfg_gms");
        };
        let Some(Inst::VpCfgSms { summ, mulvs, sumvs, sumv, mulv }) = self.vp_sms else {
            return Err("vp_cfg_sms");
        };
        let Some(Inst::VpCfgQp { qcs, qsmd, qb, qk }) = self.vp_qp else {
            return Err("vp_cfg_qp");
        };
        let Some(Inst::VpCfgIq { iqcs, iqb0, iqk0 }) = self.vp_iq else {
            return Err("vp_cfg_iq");
        };
        let Some(Inst::VpCfgIq1 { iqb1, iqk1 }) = self.vp_iq1 else {
            return Err("vp_cfg_iq1");
        };
        Ok(VpConfig {
            formats: [idf, odf],
            signed: [if_sign == DataSign::SIGNED, of_sign == DataSign::SIGNED],
            single: vf32 == 1,
            source: extents(source_c, source_h, source_w),
            dest: extents(dest_c, dest_h, dest_w),
            stride: [stride_h.into(), stride_w.into()],
            window: [kernel_h.into(), kernel_w.into()],
            tile: extents(tile_c, tile_h, tile_w),
            second_axes: t1f,
            first_axes: t0f,
            pad: padv_area,
            compare: (cmps, scalar(cmpvs, cmpv)),
            sum0: (sg0m, scalar(sg0vs, sg0v)),
            segment: match (sege, used) {
                (0, _) => Ok(None),
                (_, true) => Ok(Some(segn.into())),
                (_, false) => Err(()),
            },
            multiply: (mg0s, scalar(mg0vs, mg0v)),
            sum1: (sg1m, scalar(sg1vs, sg1v)),
            scalar: (summ, scalar(mulvs, mulv), scalar(sumvs, sumv)),
            quantiser: (qcs, qsmd, qb.single(), qk.single()),
            dequantiser_mode: iqcs,
            dequantisers: [(iqb0.single(), iqk0.single()), (iqb1.single(), iqk1.single())],
        })
    }
}
