//! Instructions as the golden files name their fields.

use super::{Check, number};
use quincunx_isa::OperandValue;
use quincunx_tcu::isa::{Compute, Inst};
use quincunx_tcu::program::Step;
use serde_json::Value;

/// The instruction of a case.
pub(super) fn step(fields: &Value) -> Check<Step> {
    let inst = instruction(fields)?;
    let tid = fields["tid"].as_u64().unwrap_or(0);
    Ok(Step { tid: u8::try_from(tid).map_err(|error| error.to_string())?, inst })
}

fn instruction(fields: &Value) -> Check<Inst> {
    let get = |key: &str| number(fields, key);
    let small = |key: &str| u32::try_from(get(key)?).map_err(|error| format!("{key}: {error}"));
    let bit = |key: &str| Ok::<bool, String>(get(key)? == 1);
    Ok(match fields["op"].as_str().unwrap_or_default() {
        "wait" => Inst::NoOp { thread: small("wait_tid")? as u8 },
        "matmul" if bit("z")? => Inst::MatMulZeroes {
            accumulate: bit("acc")?,
            acc: get("aa")?,
            acc_stride: small("as")?,
            size: small("size")?,
        },
        "matmul" => Inst::MatMul {
            accumulate: bit("acc")?,
            local: small("la")?,
            local_stride: small("ls")?,
            acc: get("aa")?,
            acc_stride: small("as")?,
            size: small("size")?,
        },
        "loadw" if bit("z")? => Inst::LoadWeightsZeroes { size: small("size")? },
        "loadw" => {
            Inst::LoadWeights { local: small("la")?, stride: small("ls")?, size: small("size")? }
        }
        "simd" => simd(fields)?,
        "move" => data_move(fields)?,
        "config" => Inst::Configure { register: named(get("reg")?)?, value: get("value")? },
        other => return Err(format!("unknown instruction {other:?}")),
    })
}

fn data_move(fields: &Value) -> Check<Inst> {
    let small =
        |key: &str| u32::try_from(number(fields, key)?).map_err(|error| format!("{key}: {error}"));
    let (local, local_stride) = (small("la")?, small("ls")?);
    let (address, stride, size) = (number(fields, "aa")?, small("as")?, small("size")?);
    Ok(match number(fields, "kind")? {
        0 => Inst::Dram0ToLocal { local, local_stride, address, stride, size },
        1 => Inst::LocalToDram0 { local, local_stride, address, stride, size },
        2 => Inst::Dram1ToLocal { local, local_stride, address, stride, size },
        3 => Inst::LocalToDram1 { local, local_stride, address, stride, size },
        12 => Inst::AccToLocal { local, local_stride, address, stride, size },
        13 => Inst::LocalToAcc { local, local_stride, address, stride, size },
        15 => Inst::LocalAddToAcc { local, local_stride, address, stride, size },
        kind => return Err(format!("unknown kind {kind} of DataMove")),
    })
}

fn simd(fields: &Value) -> Check<Inst> {
    let small =
        |key: &str| u8::try_from(number(fields, key)?).map_err(|error| format!("{key}: {error}"));
    let op = named(number(fields, "sop")?)?;
    Ok(Inst::Simd {
        access: named(number(fields, "flags")?)?,
        write: u32::try_from(number(fields, "wa")?).map_err(|error| error.to_string())?,
        read: number(fields, "ra")?,
        destination: small("sd")?,
        compute: Compute { op, left: small("sl")?, right: small("sr")? },
    })
}

fn named<T: OperandValue>(number: u64) -> Check<T> {
    T::from_raw(number.into()).ok_or_else(|| format!("{number} has no meaning"))
}
