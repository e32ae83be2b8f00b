//! Types of the elements of operands.

/// Declares the types with their code, spelling, bytes and documentation.
macro_rules! types {
    ($($name:ident $code:literal $spelling:literal $bytes:literal $doc:literal)+) => {
        /// Type of the elements of an operand; the number is its code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Type {
            $(#[doc = $doc] $name = $code,)+
        }

        impl Type {
            /// Every type.
            pub const ALL: &'static [Type] = &[$(Type::$name),+];

            /// The spelling in text.
            pub fn name(self) -> &'static str {
                match self { $(Type::$name => $spelling),+ }
            }

            /// Bytes of an element.
            pub fn bytes(self) -> u32 {
                match self { $(Type::$name => $bytes),+ }
            }

            /// The type with this code.
            pub fn from_code(code: i128) -> Option<Type> {
                match code { $($code => Some(Type::$name),)+ _ => None }
            }

            /// The type with this spelling.
            pub fn from_name(name: &str) -> Option<Type> {
                match name { $($spelling => Some(Type::$name),)+ _ => None }
            }
        }
    };
}

types! {
    Ub 0 "ub" 1 "Unsigned, 8 bits."
    Uw 1 "uw" 2 "Unsigned, 16 bits."
    Ud 2 "ud" 4 "Unsigned, 32 bits."
    Uq 3 "uq" 8 "Unsigned, 64 bits."
    B 4 "b" 1 "Signed, 8 bits."
    W 5 "w" 2 "Signed, 16 bits."
    D 6 "d" 4 "Signed, 32 bits."
    Q 7 "q" 8 "Signed, 64 bits."
    Bf8 8 "bf8" 1 "8-bit float E5M2."
    Hf 9 "hf" 2 "IEEE binary16."
    F 10 "f" 4 "f32."
    Df 11 "df" 8 "f64."
    Hf8 12 "hf8" 1 "8-bit float E4M3."
    Bf 13 "bf" 2 "Bfloat16."
    Tf32 14 "tf32" 4 "The upper 19 bits of an f32."
}

impl Type {
    /// True for floats.
    pub fn is_float(self) -> bool {
        self >= Type::Bf8
    }

    /// True for the integers that can be negative.
    pub fn is_signed(self) -> bool {
        matches!(self, Type::B | Type::W | Type::D | Type::Q)
    }

    /// True for elements of 64 bits.
    pub fn is_wide(self) -> bool {
        self.bytes() == 8
    }
}
