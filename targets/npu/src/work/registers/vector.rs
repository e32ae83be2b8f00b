//! The registers of the vector queue, and what they make of its instructions.

use super::{Registers, extents, place};
use crate::isa::{
    CMPS, DataFmt, DataSign, Float2Fixed, Inst, MG0S, Number, QSMD, SG0M, SG1M, SUMM,
};
use crate::work::{Extents, Resolved, Vector, VectorKind, Work, element_bytes};

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
            _ => element_bytes(format),
        }
    }
}

impl Registers {
    pub(super) fn vector(&self, inst: &Inst, kind: VectorKind) -> Resolved {
        let config = self.vector_config()?;
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
                input: place(sbsg, staddr),
                second: place(sbsg1, staddr1),
                output: place(dbsg, dtaddr),
            },
            _ => return Ok(windowed(inst, kind, config)),
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

/// Work on windows of an input.
fn windowed(inst: &Inst, kind: VectorKind, config: VpConfig) -> Work {
    match *inst {
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
        } => Work::Vector(Vector {
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
            input: place(sbsg, staddr),
            second: place(sbsg, staddr),
            output: place(dbsg, dtaddr),
        }),
        _ => Work::Configure,
    }
}
