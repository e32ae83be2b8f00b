//! Configuration registers.

mod vector;

pub use vector::{Scalar, VpConfig};

use super::{
    Conv, ConvKind, Copy, Extents, Place, Regions, Remote, Reorder, Resolved, VectorKind,
    WeightDest, WeightSource, Weights, Work,
};
use crate::isa::{DataSign, Inst};

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

fn extents(c: u16, h: u16, w: u16) -> Extents {
    [c.into(), h.into(), w.into()]
}

fn kernel_row(c: u16, r: u8, s: u8) -> Extents {
    [c.into(), r.into(), s.into()]
}

fn place(region: u8, address: i32) -> Place {
    Place { region, address: address.into() }
}

/// How far apart a convolution reads, and writes, and in how many groups.
struct Spread {
    dilate: [u32; 2],
    insert: [u32; 2],
    groups: u32,
}

impl Registers {
    /// Executes a configuration, or gives the work of another instruction.
    #[deny(clippy::wildcard_enum_match_arm)]
    pub fn step(&mut self, inst: &Inst) -> Resolved {
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
            Inst::CtSt { .. } => return Ok(Work::Begin),
            Inst::CtEd { .. } => return Ok(Work::End),
            &Inst::CtBc { bcs, len0, last0, len1, last1, len2, last2, len3, last3, .. } => {
                let cuts = [(len0, last0), (len1, last1), (len2, last2), (len3, last3)];
                return Ok(Work::Regions(Regions { first: bcs.saturating_mul(4), cuts }));
            }
            Inst::LdaMov { .. } | Inst::StaMov { .. } => return self.copy(inst),
            Inst::LdwMov { .. } | Inst::LwMov { .. } => return self.weights(inst),
            Inst::PeConv { .. } => return self.conv(inst, ConvKind::Plain),
            Inst::PeDicv { .. } => return self.conv(inst, ConvKind::Dilated),
            Inst::PeDecv { .. } => return self.conv(inst, ConvKind::Transposed),
            Inst::PeGpcv { .. } => return self.conv(inst, ConvKind::Grouped),
            Inst::PeFc { .. } => return self.conv(inst, ConvKind::Dense),
            Inst::VpSelf { .. } => return self.vector(inst, VectorKind::Single),
            Inst::VpPool { .. } => return self.vector(inst, VectorKind::Pool),
            Inst::VpUpsm { .. } => return self.vector(inst, VectorKind::Enlarge),
            Inst::DtCal { .. } => return self.reorder(inst),
            Inst::SiaaMov { .. } | Inst::SopwMov { .. } => return self.remote(inst),
        };
        *register = Some(*inst);
        Ok(Work::Configure)
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
                    y_cut: None,
                    source_row: kernel_row(source_c, source_r, source_s),
                    dest_row: kernel_row(dest_c, dest_r, dest_s),
                    channels: size_k.into(),
                    row: kernel_row(size_c, size_r, size_s),
                }
            }
            Inst::LwMov {
                ss, y_cut, sbsg, staddr, dtaddr, size_k, size_c, size_r, size_s, ..
            } => {
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
                    y_cut: Some(y_cut),
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

    fn spread(&self, kind: ConvKind) -> Result<Spread, &'static str> {
        let plain = Spread { dilate: [1, 1], insert: [1, 1], groups: 1 };
        if matches!(kind, ConvKind::Plain | ConvKind::Dense) {
            return Ok(plain);
        }
        let Some(Inst::PeCfgDe { dilate_h, dilate_w, insert_h, insert_w, groups }) = self.pe_de
        else {
            return Err("pe_cfg_de");
        };
        Ok(match kind {
            ConvKind::Dilated => Spread { dilate: [dilate_h.into(), dilate_w.into()], ..plain },
            ConvKind::Transposed => Spread { insert: [insert_h.into(), insert_w.into()], ..plain },
            _ => Spread { groups: groups.into(), ..plain },
        })
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
        let Spread { dilate, insert, groups } = self.spread(kind)?;
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
}
