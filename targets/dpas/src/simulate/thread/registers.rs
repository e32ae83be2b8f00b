//! Reading and writing elements of registers.

use super::{Thread, accumulator_index, accumulator_of};
use crate::isa::vector::{Input, Place, Register, Type};
use crate::simulate::value::Value;
use quincunx_diag::{Diagnostic, Result};

/// Rounding modes of the control register, of which only that of 0 is modelled.
const ROUNDING: u32 = 3 << 4;
/// Number of the control register.
const CONTROL: u8 = 0x80;

fn outside(size: usize, at: usize, total: usize) -> Diagnostic {
    let message = format!("an operand of {size} bytes at byte {at} leaves the {total} bytes");
    Diagnostic::invalid("Q6070", message)
}

fn unmodelled() -> Diagnostic {
    Diagnostic::unsupported("Q6151", "this register is not modelled")
        .help("cr0 is, as long as it rounds to nearest; sr0 and tm0 are not")
}

impl Thread {
    /// The bits of an element.
    pub(super) fn bits(&self, source: &Input, lane: u32) -> Result<u64> {
        let Input::Register { register, byte, ty, region, .. } = *source else {
            let Input::Immediate { bits, .. } = *source else { return Ok(0) };
            return Ok(bits);
        };
        let element = region.element(lane);
        if let Register::Acc(_) = register {
            let at = accumulator_index(register, byte, ty, element, self.grf_bytes);
            let value = self.accumulators.get(at).copied().ok_or_else(|| {
                Diagnostic::invalid("Q6070", "an operand leaves the accumulators")
            })?;
            let width = 8 * ty.bytes();
            return Ok(value as u64 & (u64::MAX >> (64 - width)));
        }
        let size = ty.bytes() as usize;
        let at = (byte as usize).saturating_add(element as usize * size);
        let mut word = [0; 8];
        match register {
            Register::Grf(number) => {
                let at = usize::from(number) * self.grf_bytes + at;
                let bytes = self.grf.get(at..at + size);
                let bytes = bytes.ok_or_else(|| outside(size, at, self.grf.len()))?;
                word[..size].copy_from_slice(bytes);
            }
            Register::Null | Register::Acc(_) => {}
            Register::Address => {
                let bytes = self.address.get(at..at + size);
                word[..size].copy_from_slice(bytes.ok_or_else(|| outside(size, at, 64))?);
            }
            Register::Flag(number) => {
                let flag = self.flags[usize::from(number & 3)].to_le_bytes();
                let bytes = flag.get(at..at + size);
                word[..size].copy_from_slice(bytes.ok_or_else(|| outside(size, at, 4))?);
            }
            Register::Other(CONTROL) if at == 0 && size == 4 => {
                word[..4].copy_from_slice(&self.control.to_le_bytes());
            }
            Register::Other(_) => return Err(unmodelled()),
        }
        Ok(u64::from_le_bytes(word))
    }

    /// The number of an element; integers in an accumulator have all of its bits.
    pub(super) fn number(&self, source: &Input, lane: u32) -> Result<Value> {
        if let Input::Register { register: Register::Acc(_), ty, .. } = *source
            && !ty.is_float()
        {
            return Ok(Value::of(Type::Q, self.wide_bits(source, lane)?));
        }
        Ok(Value::of(source.ty(), self.bits(source, lane)?))
    }

    fn wide_bits(&self, source: &Input, lane: u32) -> Result<u64> {
        let Input::Register { register, byte, ty, region, .. } = *source else { return Ok(0) };
        let at = accumulator_index(register, byte, ty, region.element(lane), self.grf_bytes);
        let value = self.accumulators.get(at).copied();
        value
            .map(|value| value as u64)
            .ok_or_else(|| Diagnostic::invalid("Q6070", "an operand leaves the accumulators"))
    }

    /// Writes an element; an accumulator takes the whole number.
    pub(super) fn write(&mut self, dst: &Place, lane: u32, bits: u64, value: Value) -> Result<()> {
        let element = lane.saturating_mul(dst.stride);
        if let Register::Acc(_) = dst.register {
            let at = accumulator_index(dst.register, dst.byte, dst.ty, element, self.grf_bytes);
            let number = match value {
                Value::Int(value) if !dst.saturate => value as i64,
                _ => accumulator_of(dst, bits),
            };
            let place = self.accumulators.get_mut(at);
            *place.ok_or_else(|| Diagnostic::invalid("Q6070", "dst leaves the accumulators"))? =
                number;
            return Ok(());
        }
        let size = dst.ty.bytes() as usize;
        let at = (dst.byte as usize).saturating_add(element as usize * size);
        let word = bits.to_le_bytes();
        match dst.register {
            Register::Grf(number) => {
                let at = usize::from(number) * self.grf_bytes + at;
                let total = self.grf.len();
                let place = self.grf.get_mut(at..at + size);
                place.ok_or_else(|| outside(size, at, total))?.copy_from_slice(&word[..size]);
            }
            Register::Null | Register::Acc(_) => {}
            Register::Address => {
                let place = self.address.get_mut(at..at + size);
                place.ok_or_else(|| outside(size, at, 64))?.copy_from_slice(&word[..size]);
            }
            Register::Flag(number) => {
                let flag = &mut self.flags[usize::from(number & 3)];
                let mut bytes = flag.to_le_bytes();
                let place = bytes.get_mut(at..at + size);
                place.ok_or_else(|| outside(size, at, 4))?.copy_from_slice(&word[..size]);
                *flag = u32::from_le_bytes(bytes);
            }
            Register::Other(CONTROL) if at == 0 && size == 4 => {
                if bits as u32 & ROUNDING != 0 {
                    return Err(unmodelled());
                }
                self.control = bits as u32;
            }
            Register::Other(_) => return Err(unmodelled()),
        }
        Ok(())
    }
}
