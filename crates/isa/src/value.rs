//! Typed operands of the generated instruction enum.

/// A type that can be an operand of an instruction. Between the table and the enum all operand
/// values travel as `i128`.
pub trait OperandValue: Copy {
    /// The value as a number.
    fn to_raw(self) -> i128;
    /// The value of a number, or `None` if the type does not have it.
    fn from_raw(raw: i128) -> Option<Self>;
}

macro_rules! integer_operands {
    ($($integer:ty),*) => {$(
        impl OperandValue for $integer {
            fn to_raw(self) -> i128 {
                i128::from(self)
            }
            fn from_raw(raw: i128) -> Option<Self> {
                Self::try_from(raw).ok()
            }
        }
    )*};
}

integer_operands!(u8, i8, u16, i16, u32, i32, u64, i64, i128);

impl OperandValue for bool {
    fn to_raw(self) -> i128 {
        i128::from(self)
    }
    fn from_raw(raw: i128) -> Option<Self> {
        match raw {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// Implements [`OperandValue`] for newtypes: `operand_newtype!(ValueId(u32), Address(u64));`.
#[macro_export]
macro_rules! operand_newtype {
    ($($name:ident($inner:ty)),+ $(,)?) => {$(
        impl $crate::OperandValue for $name {
            fn to_raw(self) -> i128 {
                <$inner as $crate::OperandValue>::to_raw(self.0)
            }
            fn from_raw(raw: i128) -> Option<Self> {
                <$inner as $crate::OperandValue>::from_raw(raw).map($name)
            }
        }
    )+};
}

/// Declares an enum that is an operand with named values. `NAMES` is for the operand kind
/// `names(...)`; `name()` gives the spelling.
///
/// ```
/// quincunx_isa::operand_enum! {
///     /// Bitwise operation.
///     #[derive(Debug)]
///     pub enum BitOp {
///         /// Conjunction.
///         And = 0 "and",
///         /// Disjunction.
///         Or = 1 "or",
///     }
/// }
/// assert_eq!(BitOp::NAMES, &[("and", 0), ("or", 1)]);
/// assert_eq!(BitOp::Or.name(), "or");
/// ```
#[macro_export]
macro_rules! operand_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $( $(#[$value_meta:meta])* $value:ident = $number:literal $spelling:literal ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name {
            $( $(#[$value_meta])* $value = $number ),+
        }

        impl $name {
            /// Every value with its spelling and its number.
            $vis const NAMES: &'static [(&'static str, i128)] = &[$(($spelling, $number)),+];

            /// The spelling in assembly text.
            $vis fn name(self) -> &'static str {
                match self {
                    $( $name::$value => $spelling ),+
                }
            }
        }

        impl $crate::OperandValue for $name {
            fn to_raw(self) -> i128 {
                match self {
                    $( $name::$value => $number ),+
                }
            }
            fn from_raw(raw: i128) -> Option<Self> {
                match raw {
                    $( $number => Some($name::$value), )+
                    _ => None,
                }
            }
        }
    };
}
