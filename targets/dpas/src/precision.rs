//! Types of matrix elements and of accumulators.

use quincunx_isa::operand_enum;

operand_enum! {
    /// Precision of the elements of src1 (W) or src2 (A). The numbers are those of vISA byte code;
    /// 13 is unused there and stands for `df` here (ours).
    #[derive(Debug)]
    pub enum Precision {
        /// 1 bit, 0 or 1.
        U1 = 1 "u1",
        /// 1 bit, 0 or -1.
        S1 = 2 "s1",
        /// 2 bits, 0 to 3.
        U2 = 3 "u2",
        /// 2 bits, -2 to 1.
        S2 = 4 "s2",
        /// 4 bits, 0 to 15.
        U4 = 5 "u4",
        /// 4 bits, -8 to 7.
        S4 = 6 "s4",
        /// 8 bits, 0 to 255.
        U8 = 7 "u8",
        /// 8 bits, -128 to 127.
        S8 = 8 "s8",
        /// The upper half of an f32.
        Bf = 9 "bf",
        /// IEEE binary16.
        Hf = 10 "hf",
        /// 8-bit float E5M2.
        Bf8 = 11 "bf8",
        /// The upper 19 bits of an f32.
        Tf32 = 12 "tf32",
        /// IEEE binary64 (layout ours).
        Df = 13 "df",
        /// 8-bit float E4M3.
        Hf8 = 14 "hf8",
        /// 4-bit float E2M1.
        E2m1 = 15 "e2m1",
    }
}

impl Precision {
    /// Every precision.
    pub const ALL: [Precision; 15] = [
        Precision::U1,
        Precision::S1,
        Precision::U2,
        Precision::S2,
        Precision::U4,
        Precision::S4,
        Precision::U8,
        Precision::S8,
        Precision::Bf,
        Precision::Hf,
        Precision::Bf8,
        Precision::Tf32,
        Precision::Df,
        Precision::Hf8,
        Precision::E2m1,
    ];

    /// Bits of an element.
    pub fn bits(self) -> u32 {
        match self {
            Precision::U1 | Precision::S1 => 1,
            Precision::U2 | Precision::S2 => 2,
            Precision::U4 | Precision::S4 | Precision::E2m1 => 4,
            Precision::U8 | Precision::S8 | Precision::Bf8 | Precision::Hf8 => 8,
            Precision::Bf | Precision::Hf => 16,
            Precision::Tf32 => 32,
            Precision::Df => 64,
        }
    }

    /// True for the integers.
    pub fn is_integer(self) -> bool {
        self <= Precision::S8
    }

    /// True for the integers that can be negative.
    pub fn is_signed(self) -> bool {
        matches!(self, Precision::S1 | Precision::S2 | Precision::S4 | Precision::S8)
    }

    /// True for the integers of one bit.
    pub fn is_one_bit(self) -> bool {
        matches!(self, Precision::U1 | Precision::S1)
    }

    /// True for the floats of 8 bits.
    pub fn is_fp8(self) -> bool {
        matches!(self, Precision::Bf8 | Precision::Hf8)
    }

    /// The precision with this name.
    pub fn from_name(name: &str) -> Option<Precision> {
        Precision::ALL.into_iter().find(|precision| precision.name() == name)
    }
}

operand_enum! {
    /// Type of the elements of dst or src0. The numbers have no meaning outside of this crate.
    #[derive(Debug)]
    pub enum Acc {
        /// Unsigned 32 bits.
        Ud = 0 "ud",
        /// Signed 32 bits.
        D = 1 "d",
        /// f32.
        F = 2 "f",
        /// f64 (ours).
        Df = 3 "df",
        /// IEEE binary16.
        Hf = 4 "hf",
        /// The upper half of an f32.
        Bf = 5 "bf",
    }
}

impl Acc {
    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        match self {
            Acc::Hf | Acc::Bf => 2,
            Acc::D | Acc::Ud | Acc::F => 4,
            Acc::Df => 8,
        }
    }

    /// True for the integers.
    pub fn is_integer(self) -> bool {
        matches!(self, Acc::D | Acc::Ud)
    }

    /// True for the floats of 16 bits.
    pub fn is_half(self) -> bool {
        matches!(self, Acc::Hf | Acc::Bf)
    }

    /// The type with this name.
    pub fn from_name(name: &str) -> Option<Acc> {
        [Acc::Ud, Acc::D, Acc::F, Acc::Df, Acc::Hf, Acc::Bf].into_iter().find(|a| a.name() == name)
    }
}
