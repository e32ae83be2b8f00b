//! Enumerations of the text: `<DataFmt.INT8: 1>`.
//!
//! A value is its number; members that the table does not know are read in lenient mode only.
//! Members marked "ours" occur in no file of the original tool.

use quincunx_diag::Result;
use quincunx_isa::{Cursor, Custom};

/// An enumeration of the text.
pub struct Enumeration {
    /// Name.
    pub name: &'static str,
    /// Members: name and number.
    pub members: &'static [(&'static str, u8)],
    /// As an operand kind.
    pub kind: &'static Custom,
}

impl Enumeration {
    /// The name of a number.
    pub fn member(&self, number: u8) -> Option<&'static str> {
        self.members.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
    }

    fn print(&self, raw: i128, out: &mut String) {
        let number = u8::try_from(raw).unwrap_or(0);
        let name = self.member(number);
        out.push_str(&match name {
            Some(member) => format!("<{}.{member}: {number}>", self.name),
            None => format!("<{}.UNKNOWN_{number}: {number}>", self.name),
        });
    }

    fn parse(&self, cursor: &mut Cursor<'_>) -> Result<i128> {
        for &(member, number) in self.members {
            if cursor.eat(&format!("<{}.{member}: {number}>", self.name)) {
                return Ok(i128::from(number));
            }
        }
        Err(cursor.expected(format!("a member of {}", self.name)))
    }
}

macro_rules! enumerations {
    ($( $(#[$meta:meta])* $name:ident $custom:ident { $( $(#[$member_meta:meta])* $member:ident = $number:literal ),+ } )+) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct $name(pub u8);

            impl $name {
                $( $(#[$member_meta])* pub const $member: $name = $name($number); )+
            }

            quincunx_isa::operand_newtype!($name(u8));

            static $custom: Custom = Custom {
                name: concat!("member of ", stringify!($name), ": ", $( stringify!($member), " (", $number, ") " ),+),
                parse: |cursor| find(&$custom).parse(cursor),
                print: |raw, out| find(&$custom).print(raw, out),
                legal: |raw| u8::try_from(raw).is_ok(),
                random: |below| {
                    let members = find(&$custom).members;
                    i128::from(members[below(members.len() as u64) as usize].1)
                },
            };

            impl $name {
                /// The enumeration as an operand kind.
                pub(super) const KIND: &'static Custom = &$custom;

                /// The name of the member; of a number that the table does not know `UNKNOWN`.
                pub fn name(self) -> &'static str {
                    find(&$custom).member(self.0).unwrap_or("UNKNOWN")
                }
            }
        )+

        /// Every enumeration.
        pub static ENUMERATIONS: &[Enumeration] = &[$(
            Enumeration {
                name: stringify!($name),
                members: &[$( (stringify!($member), $number) ),+],
                kind: &$custom,
            }
        ),+];
    };
}

/// The enumeration of an operand kind.
///
/// # Panics
/// When the kind is of no enumeration, which is a bug of the caller.
pub(crate) fn find(kind: &'static Custom) -> &'static Enumeration {
    lookup(kind).expect("the kind is of an enumeration")
}

/// The enumeration of an operand kind, if it is one.
pub(crate) fn lookup(kind: &'static Custom) -> Option<&'static Enumeration> {
    ENUMERATIONS.iter().find(|enumeration| std::ptr::eq(enumeration.kind, kind))
}

enumerations! {
    /// Format of a number in memory.
    DataFmt DATA_FMT {
        /// One byte.
        INT8 = 1,
        /// IEEE half precision, two bytes.
        FP16 = 3
    }
    /// Whether 8-bit codes have a sign.
    DataSign DATA_SIGN {
        /// Codes 0 to 255; ours.
        UNSIGNED = 0,
        /// Codes -128 to 127.
        SIGNED = 1
    }
    /// What the columns of the array divide.
    XCutMode X_CUT {
        /// Output channels.
        CUT_K = 3
    }
    /// What the rows of the array divide.
    YCutMode Y_CUT {
        /// Output columns.
        CUT_W = 0,
        /// Output rows.
        CUT_H = 1,
        /// Images.
        CUT_N = 2,
        /// Output channels.
        CUT_K = 3,
        /// Input channels.
        CUT_C = 4
    }
    /// Activation function of a convolution.
    ActMode ACT_MODE {
        /// None.
        DISABLE = 0,
        /// Negative results become 0.
        RELU = 1,
        /// Negative results are multiplied by ACTPM; ours.
        LEAKY_RELU = 2,
        /// Results are limited to 0 to ACTPM; ours.
        RELU_X = 3
    }
    /// How a real number becomes a whole one.
    Float2Fixed FLOAT2FIXED {
        /// Upwards.
        CEIL = 0,
        /// Downwards; ours.
        FLOOR = 1,
        /// To the nearest, ties to the even one (the tie rule is ours).
        ROUND = 2,
        /// Towards 0; ours.
        TRUNC = 3
    }
    /// What the compare module keeps.
    CMPS CMPS_KIND {
        /// Nothing is compared.
        DEFAULT = 0,
        /// The greatest.
        MAX = 1,
        /// The smallest; ours.
        MIN = 2
    }
    /// Calculation of sum group 0.
    SG0M SG0M_KIND {
        /// Addition.
        DEFAULT = 0,
        /// Subtraction; ours.
        SUB = 1
    }
    /// Second factor of multiplication group 0.
    MG0S MG0S_KIND {
        /// The scalar.
        DEFAULT = 0,
        /// Tensor 1; ours.
        TENSOR = 1
    }
    /// Calculation of sum group 1.
    SG1M SG1M_KIND {
        /// Addition.
        DEFAULT = 0,
        /// Subtraction; ours.
        SUB = 1
    }
    /// Calculation of the scalar module.
    SUMM SUMM_KIND {
        /// Addition.
        DEFAULT = 0,
        /// Subtraction; ours.
        SUB = 1
    }
    /// How the quantiser applies its offset.
    QSMD QSMD_KIND {
        /// Addition.
        DEFAULT = 0,
        /// Subtraction; ours.
        SUB = 1
    }
    /// Axes that the compare module works along; only the window is defined.
    CMPD CMPD_KIND {
        /// The window.
        DEFAULT = 0
    }
    /// Axes that the adder tree works along; only the window is defined.
    TREED TREED_KIND {
        /// The window.
        DEFAULT = 0
    }
    /// Axes that the accumulator works along; only the window is defined.
    ACCD ACCD_KIND {
        /// The window.
        DEFAULT = 0
    }
    /// Where the scalar result goes.
    SWRS SWRS_KIND {
        /// Nowhere.
        DEFAULT = 0,
        /// Scalar register 1; ours.
        S1 = 1,
        /// Scalar register 2; ours.
        S2 = 2,
        /// Scalar register 3; ours.
        S3 = 3
    }
}
