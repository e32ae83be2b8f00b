//! What a launch hands to its threads, and where its buffers lie.
//!
//! Cross-thread data begin with the bytes that arrive in r1, where a kernel asks for that; the rest
//! lies at the indirect data, in whole units of 32 bytes, and the local ids of every thread behind
//! it (`ocloc`).

use super::device::{Argument, ArgumentKind, Buffer, Implicit, Kernel, Launch, Value};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{F16, FloatOverflow};
use std::collections::BTreeMap;

/// Address of the first buffer. Lower ones are nobody's, so that null is not a buffer.
pub const FIRST_ADDRESS: u64 = 1 << 20;

/// Buffers begin at multiples of this.
pub const PAGE: u64 = 4096;

/// Cross-thread data take whole units of so many bytes.
const UNIT: usize = 32;

/// Address of every buffer: each one at a new page, one page of nobody's behind it, in their order;
/// those inside of others there.
pub fn placement(buffers: &[Buffer]) -> Vec<u64> {
    let mut next = FIRST_ADDRESS;
    let mut addresses: Vec<u64> = Vec::with_capacity(buffers.len());
    let mut named: BTreeMap<&str, u64> = BTreeMap::new();
    for buffer in buffers {
        let address = next;
        if buffer.inside.is_none() {
            named.entry(&buffer.name).or_insert(address);
            let pages = buffer.bytes.div_ceil(PAGE).saturating_add(1);
            next = next.saturating_add(pages.saturating_mul(PAGE));
        }
        addresses.push(address);
    }
    for (buffer, address) in buffers.iter().zip(&mut addresses) {
        if let Some((outer, at)) = &buffer.inside {
            *address = named.get(outer.as_str()).map_or(0, |base| base.saturating_add(*at));
        }
    }
    addresses
}

/// Packs the arguments of a launch: the bytes that arrive in r1, as many as the kernel's environment
/// says, and behind them those at the indirect data, in whole units of 32.
///
/// # Errors
/// `Q6116` for a missing argument, one of the wrong kind, or a number that does not fit.
pub fn payload(
    kernel: &Kernel,
    launch: &Launch,
    address: &dyn Fn(&str) -> Option<u64>,
) -> Result<Vec<u8>> {
    let mut bytes = vec![0u8; kernel.cross_bytes() as usize];
    for argument in &kernel.arguments {
        let value = argument_bytes(argument, kernel, launch, address)?;
        let start = argument.offset as usize;
        let place = bytes.get_mut(start..start.saturating_add(value.len()));
        let place = place.ok_or_else(|| Diagnostic::bug("an argument lies outside of its data"))?;
        place.copy_from_slice(&value);
    }
    let inline = kernel.environment.inline as usize;
    let behind = bytes.len().saturating_sub(inline).next_multiple_of(UNIT);
    bytes.resize(inline.saturating_add(behind), 0);
    Ok(bytes)
}

fn wrong(message: String) -> Diagnostic {
    Diagnostic::invalid("Q6116", message)
}

fn argument_bytes(
    argument: &Argument,
    kernel: &Kernel,
    launch: &Launch,
    address: &dyn Fn(&str) -> Option<u64>,
) -> Result<Vec<u8>> {
    let size = argument.size as usize;
    match &argument.kind {
        ArgumentKind::Surface { .. } => Ok(Vec::new()),
        ArgumentKind::Offset { .. } | ArgumentKind::Other(_) => Ok(vec![0; size]),
        ArgumentKind::Implicit(what) => Ok(implicit(*what, kernel, launch)),
        ArgumentKind::Pointer { index, .. } => match value(launch, kernel, *index)? {
            Value::Buffer(name) => {
                let base = address(name).ok_or_else(|| wrong(format!("no buffer \"{name}\"")))?;
                Ok(base.to_le_bytes().to_vec())
            }
            Value::Whole(_) | Value::Real(_) => {
                let message = format!("argument {index} of kernel \"{}\" is a buffer", kernel.name);
                Err(wrong(format!("{message}, a number is given")))
            }
        },
        ArgumentKind::Value { index, from } => {
            let whole = number_bytes(value(launch, kernel, *index)?, kernel, *index)?;
            let from = *from as usize;
            whole
                .get(from..from.saturating_add(size))
                .map(<[u8]>::to_vec)
                .ok_or_else(|| Diagnostic::bug("a number is shorter than its parts"))
        }
    }
}

fn value<'l>(launch: &'l Launch, kernel: &Kernel, index: u32) -> Result<&'l Value> {
    launch.arguments.get(index as usize).ok_or_else(|| {
        let (name, given) = (&kernel.name, launch.arguments.len());
        let message = format!("kernel \"{name}\" takes {} arguments", kernel.parameters());
        wrong(format!("{message}, {given} are given"))
    })
}

/// Bytes of the number that a parameter takes: to the end of its last part.
pub(super) fn number_size(kernel: &Kernel, parameter: u32) -> u32 {
    let end = |argument: &Argument| match argument.kind {
        ArgumentKind::Value { index, from } if index == parameter => {
            Some(from.saturating_add(argument.size))
        }
        _ => None,
    };
    kernel.arguments.iter().filter_map(end).max().unwrap_or(0)
}

fn number_bytes(value: &Value, kernel: &Kernel, index: u32) -> Result<Vec<u8>> {
    let size = number_size(kernel, index) as usize;
    let refuse = |what: String| {
        wrong(format!("argument {index} of kernel \"{}\" is {size} bytes, {what}", kernel.name))
    };
    match value {
        Value::Buffer(name) => Err(refuse(format!("the buffer \"{name}\" is given"))),
        Value::Whole(number) => {
            let fits = match size {
                0 => false,
                1..8 => {
                    let bits = 8u32.saturating_mul(size as u32);
                    let high = 1i64.checked_shl(bits).unwrap_or(i64::MAX);
                    let low = high.checked_shr(1).unwrap_or(0).saturating_neg();
                    (low..high).contains(number)
                }
                _ => true,
            };
            if !fits {
                return Err(refuse(format!("{number} does not fit")));
            }
            let sign = if *number < 0 { 0xff } else { 0 };
            let mut bytes = number.to_le_bytes().to_vec();
            bytes.resize(size, sign);
            Ok(bytes)
        }
        Value::Real(real) => match size {
            2 => {
                let half = F16::from_f64(*real, FloatOverflow::Infinity).map(F16::to_bits);
                let bits = half.ok_or_else(|| refuse(format!("{real} does not fit")))?;
                Ok((bits as u16).to_le_bytes().to_vec())
            }
            4 => Ok((*real as f32).to_le_bytes().to_vec()),
            8 => Ok(real.to_le_bytes().to_vec()),
            _ => Err(refuse("a float has 2, 4 or 8".to_owned())),
        },
    }
}

fn implicit(what: Implicit, kernel: &Kernel, launch: &Launch) -> Vec<u8> {
    let items = launch.items(kernel);
    let dwords = match what {
        Implicit::LocalSize | Implicit::EnqueuedLocalSize => items,
        Implicit::GroupCount => launch.groups,
        Implicit::GlobalSize => {
            let mut all = items;
            all.iter_mut().zip(launch.groups).for_each(|(n, groups)| *n = n.saturating_mul(groups));
            all
        }
        Implicit::GlobalOffset => [0; 3],
        Implicit::Dimensions => return 3u32.to_le_bytes().to_vec(),
    };
    dwords.iter().flat_map(|dword| dword.to_le_bytes()).collect()
}

/// The local ids of a thread of a group, as many bytes as the kernel's environment says: x of every
/// lane in 16 bits, then y, then z, each a third of the bytes; lanes without a work-item have those
/// that count on. Packed ids (6 bytes) are those of the first lane.
pub fn local_ids(kernel: &Kernel, launch: &Launch, thread: u32) -> Vec<u8> {
    let total = kernel.environment.local_ids as usize;
    let mut bytes = vec![0u8; total];
    let [width, height, _] = launch.items(kernel).map(|extent| extent.max(1));
    let simd = kernel.environment.simd;
    let lanes = if total == PACKED { 1 } else { simd };
    let part = total.checked_div(3).unwrap_or(0);
    for lane in 0..lanes {
        let item = thread.saturating_mul(simd).saturating_add(lane);
        let row = item.checked_div(width).unwrap_or(0);
        let ids = [
            item.checked_rem(width).unwrap_or(0),
            row.checked_rem(height).unwrap_or(0),
            row.checked_div(height).unwrap_or(0),
        ];
        for (axis, id) in ids.into_iter().enumerate() {
            let at = axis.saturating_mul(part).saturating_add((lane as usize).saturating_mul(2));
            if let Some(place) = bytes.get_mut(at..at.saturating_add(2)) {
                place.copy_from_slice(&(id as u16).to_le_bytes());
            }
        }
    }
    bytes
}

/// Bytes of the packed ids of one lane.
pub const PACKED: usize = 6;
