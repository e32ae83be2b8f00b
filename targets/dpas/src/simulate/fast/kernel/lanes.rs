//! The lanes of a prepared vector instruction.

use super::vector::{Numbers, Pattern, Source, Target, Vector};
use crate::isa::math;
use crate::isa::vector::{Op, Type};
use crate::simulate::exec::enabled;
use crate::simulate::thread::Thread;
use bytemuck::Pod;
use quincunx_num::Loop;

/// An instruction and the thread that executes it.
pub(super) struct Lanes<'a> {
    pub(super) vector: &'a Vector,
    pub(super) thread: &'a mut Thread,
}

impl Loop for Lanes<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        match self.vector.lanes {
            1 => self.lanes::<1>(),
            8 => self.lanes::<8>(),
            16 => self.lanes::<16>(),
            _ => self.lanes::<32>(),
        }
    }
}

impl Lanes<'_> {
    #[inline(always)]
    fn lanes<const N: usize>(self) {
        let Lanes { vector, thread } = self;
        let chosen = vector.predicate.map_or(u32::MAX, |predicate| predicate.bits(&thread.flags));
        let mut mask = u32::MAX >> (32 - N as u32);
        mask &= enabled(thread.dispatch_mask, vector.offset, vector.no_mask);
        if vector.op != Op::Sel {
            mask &= chosen;
        }
        if mask == 0 {
            return;
        }
        match vector.numbers {
            Numbers::Bits(1) => copy::<u8, N>(vector, &mut thread.grf, mask),
            Numbers::Bits(2) => copy::<u16, N>(vector, &mut thread.grf, mask),
            Numbers::Bits(4) => copy::<u32, N>(vector, &mut thread.grf, mask),
            Numbers::Bits(_) => copy::<u64, N>(vector, &mut thread.grf, mask),
            Numbers::Integers => integers::<N>(vector, thread, mask, chosen),
            Numbers::Singles => singles::<N>(vector, thread, mask, chosen),
        }
    }
}

/// The elements of a source in the registers.
#[inline(always)]
fn elements<T: Pod, const N: usize>(
    file: &[u8],
    at: usize,
    pattern: Pattern,
    table: &[u16; 32],
) -> [T; N] {
    let read = |at: usize| bytemuck::pod_read_unaligned::<T>(&file[at..at + size_of::<T>()]);
    match pattern {
        Pattern::Row => row(&file[at..at + N * size_of::<T>()]),
        Pattern::Same => [read(at); N],
        Pattern::Table => {
            let mut out = [T::zeroed(); N];
            for (place, offset) in out.iter_mut().zip(table) {
                *place = read(at + usize::from(*offset));
            }
            out
        }
    }
}

/// Elements one behind the other.
#[inline(always)]
fn row<T: Pod, const N: usize>(bytes: &[u8]) -> [T; N] {
    assert!(bytes.len() >= N * size_of::<T>());
    // SAFETY: There are as many bytes, and any bytes are elements.
    unsafe { bytes.as_ptr().cast::<[T; N]>().read_unaligned() }
}

#[inline(always)]
fn put<T: Pod, const N: usize>(target: &Target, file: &mut [u8], values: [T; N], mask: u32) {
    let size = size_of::<T>();
    if target.stride != 1 {
        for (lane, value) in values.iter().enumerate().filter(|(lane, _)| mask >> lane & 1 == 1) {
            let at = target.at + lane * target.stride * size;
            file[at..at + size].copy_from_slice(bytemuck::bytes_of(value));
        }
        return;
    }
    let place = &mut file[target.at..target.at + N * size];
    let mut own = values;
    if mask != u32::MAX >> (32 - N as u32) {
        own = row(place);
        for (lane, (own, value)) in own.iter_mut().zip(values).enumerate() {
            *own = if mask >> lane & 1 == 1 { value } else { *own };
        }
    }
    place.copy_from_slice(bytemuck::cast_slice(&own));
}

#[inline(always)]
fn copy<T: Pod, const N: usize>(vector: &Vector, file: &mut [u8], mask: u32) {
    let (Some(target), Some(source)) = (&vector.target, vector.sources.first()) else { return };
    let values: [T; N] = match source {
        Source::File { at, pattern, table, .. } => elements(file, *at, *pattern, table),
        Source::Number { bits, .. } => {
            let bytes = bits.to_le_bytes();
            [bytemuck::pod_read_unaligned(&bytes[..size_of::<T>()]); N]
        }
    };
    put(target, file, values, mask);
}

/// Sources as integers; logic instructions invert instead of negating.
#[inline(always)]
fn whole<const N: usize>(source: &Source, file: &[u8], logic: bool) -> [i64; N] {
    let mut out = [0i64; N];
    match source {
        Source::Number { ty, bits } => {
            let unused = 64 - 8 * ty.bytes();
            let signed = (bits << unused) as i64 >> unused;
            out = [if ty.is_signed() { signed } else { *bits as i64 }; N];
        }
        Source::File { ty, at, pattern, table, absolute, negate } => {
            macro_rules! widened {
                ($type:ty) => {{
                    let all: [$type; N] = elements(file, *at, *pattern, table);
                    for (place, value) in out.iter_mut().zip(all) {
                        *place = value as i64;
                    }
                }};
            }
            match ty {
                Type::Ub => widened!(u8),
                Type::Uw => widened!(u16),
                Type::Ud => widened!(u32),
                Type::B => widened!(i8),
                Type::W => widened!(i16),
                Type::D => widened!(i32),
                _ => widened!(i64),
            }
            if *absolute {
                for value in out.iter_mut() {
                    *value = value.wrapping_abs();
                }
            }
            match (negate, logic) {
                (true, true) => out.iter_mut().for_each(|value| *value = !*value),
                (true, false) => out.iter_mut().for_each(|value| *value = value.wrapping_neg()),
                _ => {}
            }
        }
    }
    out
}

/// The limits of integers of at most 32 bits.
#[inline(always)]
fn limits(ty: Type) -> (i64, i64) {
    match (ty.is_signed(), 8 * ty.bytes()) {
        (_, 64) => (i64::MIN, i64::MAX),
        (true, width) => (-(1 << (width - 1)), (1 << (width - 1)) - 1),
        (false, width) => (0, (1 << width) - 1),
    }
}

#[inline(always)]
fn put_whole<const N: usize>(target: &Target, file: &mut [u8], values: [i64; N], mask: u32) {
    let mut values = values;
    if target.saturate {
        let (low, high) = limits(target.ty);
        for value in values.iter_mut() {
            *value = (*value).clamp(low, high);
        }
    }
    macro_rules! narrowed {
        ($type:ty) => {{
            let mut all = [0 as $type; N];
            for (place, value) in all.iter_mut().zip(values) {
                *place = value as $type;
            }
            put(target, file, all, mask);
        }};
    }
    match target.ty.bytes() {
        1 => narrowed!(u8),
        2 => narrowed!(u16),
        4 => narrowed!(u32),
        _ => narrowed!(u64),
    }
}

/// The condition with a code, of every lane.
#[inline(always)]
fn compared<T: PartialOrd + Copy, const N: usize>(code: u8, a: [T; N], b: [T; N]) -> u32 {
    macro_rules! bits {
        ($operator:tt) => {{
            let mut bits = 0;
            for lane in 0..N {
                bits |= u32::from(a[lane] $operator b[lane]) << lane;
            }
            bits
        }};
    }
    match code {
        1 => bits!(==),
        2 => bits!(!=),
        3 => bits!(>),
        4 => bits!(>=),
        5 => bits!(<),
        6 => bits!(<=),
        _ => 0,
    }
}

#[inline(always)]
fn set_flags(vector: &Vector, flags: &mut [u32; 4], bits: u32, mask: u32) {
    let (register, bit) = vector.flag;
    let (bits, mask) = ((bits & mask).rotate_left(bit), mask.rotate_left(bit));
    let flag = &mut flags[register & 3];
    *flag = *flag & !mask | bits;
}

/// Minus one where a condition holds.
#[inline(always)]
fn answer<const N: usize>(vector: &Vector, thread: &mut Thread, bits: u32, mask: u32) {
    if let Some(target) = &vector.target {
        let mut values = [0; N];
        for (lane, value) in values.iter_mut().enumerate() {
            *value = -i64::from(bits >> lane & 1);
        }
        put_whole(target, &mut thread.grf, values, mask);
    }
    if vector.condition != 0 {
        set_flags(vector, &mut thread.flags, bits, mask);
    }
}

#[inline(always)]
fn chosen<T: Copy, const N: usize>(bits: u32, a: [T; N], b: [T; N]) -> [T; N] {
    let mut out = b;
    for (lane, (place, a)) in out.iter_mut().zip(a).enumerate() {
        *place = if bits >> lane & 1 == 1 { a } else { *place };
    }
    out
}

/// The results of all lanes. No function of an operator, which need not become part of the loop and
/// would then lack its vector instructions.
macro_rules! each {
    ($($of:ident),+ => $result:expr) => {{
        let mut out = [Default::default(); N];
        for lane in 0..N {
            $(let $of = $of[lane];)+
            out[lane] = $result;
        }
        out
    }};
}

#[inline(always)]
fn integers<const N: usize>(vector: &Vector, thread: &mut Thread, mask: u32, predicate: u32) {
    let file = &thread.grf;
    let logic = matches!(vector.op, Op::And | Op::Or | Op::Xor | Op::Not);
    let mut sources = [[0; N]; 3];
    for (place, source) in sources.iter_mut().zip(&vector.sources) {
        *place = whole::<N>(source, file, logic);
    }
    let [a, b, c] = sources;
    let count = vector.count;
    let values: [i64; N] = match vector.op {
        Op::Mov => a,
        Op::Not => each!(a => !a),
        Op::Add => each!(a, b => a.wrapping_add(b)),
        Op::Add3 => each!(a, b, c => a.wrapping_add(b).wrapping_add(c)),
        Op::Mul => each!(a, b => a.wrapping_mul(b)),
        Op::Mad => each!(a, b, c => b.wrapping_mul(c).wrapping_add(a)),
        Op::And => each!(a, b => a & b),
        Op::Or => each!(a, b => a | b),
        Op::Xor => each!(a, b => a ^ b),
        Op::Shl => each!(a, b => a << (b as u32 & count)),
        Op::Asr => each!(a, b => a >> (b as u32 & count)),
        Op::Shr => {
            let width = vector.sources.first().map_or(32, |source| 8 * source.ty().bytes());
            let own = u64::MAX >> (64 - width);
            each!(a, b => ((a as u64 & own) >> (b as u32 & count)) as i64)
        }
        Op::Cmp => {
            let bits = compared(vector.condition, a, b);
            return answer::<N>(vector, thread, bits, mask);
        }
        Op::Sel if vector.condition == 0 => chosen(predicate, a, b),
        Op::Sel => chosen(compared(vector.condition, a, b), a, b),
        _ => return,
    };
    if let Some(target) = &vector.target {
        put_whole(target, &mut thread.grf, values, mask);
    }
}

/// Sources as f32.
#[inline(always)]
fn floats<const N: usize>(source: &Source, file: &[u8]) -> [f32; N] {
    if source.ty() != Type::F {
        let mut out = [0.0; N];
        for (place, value) in out.iter_mut().zip(whole::<N>(source, file, false)) {
            // At most 32 bits and a sign: f64 holds them.
            *place = value as f64 as f32;
        }
        return out;
    }
    match source {
        Source::Number { bits, .. } => [f32::from_bits(*bits as u32); N],
        Source::File { at, pattern, table, absolute, negate, .. } => {
            let mut out: [f32; N] = elements(file, *at, *pattern, table);
            if *absolute {
                for value in out.iter_mut() {
                    *value = value.abs();
                }
            }
            if *negate {
                for value in out.iter_mut() {
                    *value = -*value;
                }
            }
            out
        }
    }
}

#[inline(always)]
fn singles<const N: usize>(vector: &Vector, thread: &mut Thread, mask: u32, predicate: u32) {
    let file = &thread.grf;
    let mut sources = [[0.0; N]; 3];
    for (place, source) in sources.iter_mut().zip(&vector.sources) {
        *place = floats::<N>(source, file);
    }
    let [a, b, c] = sources;
    let values: [f32; N] = match vector.op {
        Op::Mov => a,
        Op::Add => each!(a, b => a + b),
        Op::Mul => each!(a, b => a * b),
        Op::Mad => each!(a, b, c => b.mul_add(c, a)),
        Op::Rndu => each!(a => a.ceil()),
        Op::Rndd => each!(a => a.floor()),
        Op::Rnde => each!(a => a.round_ties_even()),
        Op::Rndz => each!(a => a.trunc()),
        Op::Math => match vector.function {
            Some(function) => each!(a => math::value(function, a)),
            None => [f32::NAN; N],
        },
        Op::Cmp => {
            let bits = compared(vector.condition, a, b);
            return answer::<N>(vector, thread, bits, mask);
        }
        Op::Sel if vector.condition == 0 => chosen(predicate, a, b),
        Op::Sel => {
            // A number rather than NaN.
            let (nan_a, nan_b) = (compared(2, a, a), compared(2, b, b));
            let bits = compared(vector.condition, a, b) & !(nan_a | nan_b) | nan_b;
            chosen(bits, a, b)
        }
        _ => return,
    };
    if let Some(target) = &vector.target {
        put_floats(target, &mut thread.grf, values, mask);
    }
}

/// NaN is canonical; integers always saturate.
#[inline(always)]
fn put_floats<const N: usize>(target: &Target, file: &mut [u8], values: [f32; N], mask: u32) {
    if target.ty == Type::F {
        let mut bits = [0u32; N];
        for (bits, value) in bits.iter_mut().zip(values) {
            let value = match (target.saturate, value.is_nan()) {
                (true, true) => 0.0,
                (true, false) => value.clamp(0.0, 1.0),
                (false, _) => value,
            };
            *bits = if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() };
        }
        return put(target, file, bits, mask);
    }
    macro_rules! narrowed {
        ($type:ty) => {{
            let mut all = [0 as $type; N];
            for (place, value) in all.iter_mut().zip(values) {
                *place = value as $type;
            }
            put(target, file, all, mask);
        }};
    }
    match target.ty {
        Type::Ub => narrowed!(u8),
        Type::Uw => narrowed!(u16),
        Type::Ud => narrowed!(u32),
        Type::B => narrowed!(i8),
        Type::W => narrowed!(i16),
        _ => narrowed!(i32),
    }
}
