//! The program in memory: a native listing or a virtual kernel.
//!
//! Invariants: registers and variables of instructions may be anything their type holds; `verify`
//! says whether they exist. Aliases of variables refer to earlier ones, so that they end.

#![deny(clippy::arithmetic_side_effects)]

pub mod check;
pub mod device;
pub mod payload;

use crate::isa::operands::Options;
use crate::isa::{native, vector, visa};
use quincunx_diag::Span;

/// A program.
#[derive(Clone, Debug, PartialEq)]
pub enum Program {
    /// Native instructions in order.
    Native(Listing),
    /// A virtual kernel.
    Visa(Kernel),
}

/// Native instructions in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// The statements.
    pub items: Vec<Item>,
}

impl Listing {
    /// The byte at which each statement starts, and the end.
    pub fn starts(&self) -> Vec<usize> {
        let mut at = 0usize;
        let mut starts = vec![at];
        for item in &self.items {
            at = at.saturating_add(item.statement.bytes());
            starts.push(at);
        }
        starts
    }
}

/// One statement of a listing and where it stands in its text; `None` for machine code.
#[derive(Clone, Debug)]
pub struct Item {
    /// The statement.
    pub statement: Statement,
    /// Its place in a text.
    pub span: Option<Span>,
}

impl PartialEq for Item {
    /// Places do not count.
    fn eq(&self, other: &Item) -> bool {
        self.statement == other.statement
    }
}

impl From<Statement> for Item {
    fn from(statement: Statement) -> Item {
        Item { statement, span: None }
    }
}

/// A statement of a listing.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// A systolic instruction.
    Systolic(native::Inst),
    /// Any other instruction of a vector engine.
    Vector(vector::Inst),
    /// Machine code of an instruction that this target does not know: at most 16 bytes.
    Raw(Vec<u8>),
}

impl Statement {
    /// What the instruction waits for; nothing for raw bytes.
    pub fn options(&self) -> Options {
        match self {
            Statement::Systolic(inst) => inst.native().options,
            Statement::Vector(inst) => inst.operands_of().first().copied().unwrap_or(Options(0)),
            Statement::Raw(_) => Options(0),
        }
    }

    /// Bytes of its machine code.
    pub fn bytes(&self) -> usize {
        match self {
            Statement::Systolic(_) | Statement::Vector(_) => 16,
            Statement::Raw(bytes) => bytes.len(),
        }
    }

    /// The same statement with other options; raw bytes stay as they are.
    #[must_use]
    pub fn with_options(&self, options: Options) -> Statement {
        let (mut statement, set) = (self.clone(), |own: &mut Options| *own = options);
        match &mut statement {
            Statement::Systolic(inst) => inst.visit_operands(set),
            Statement::Vector(inst) => inst.visit_operands(set),
            Statement::Raw(_) => {}
        }
        statement
    }
}

/// A virtual kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Version of the language: major, minor.
    pub version: (u8, u8),
    /// Name.
    pub name: String,
    /// General variables; the first has index [`FIRST_VARIABLE`].
    pub variables: Vec<Variable>,
    /// Predicate variables: name and number of elements. No instruction here uses one.
    pub predicates: Vec<(String, u16)>,
    /// Instructions before `ret`.
    pub instructions: Vec<VirtualItem>,
}

/// Index of the first declared variable; those below are predefined.
pub const FIRST_VARIABLE: u32 = 32;

/// One virtual instruction and where it stands in its text.
#[derive(Clone, Debug)]
pub struct VirtualItem {
    /// The instruction; its variables are indices.
    pub inst: visa::Inst,
    /// Its place in a text.
    pub span: Option<Span>,
}

impl PartialEq for VirtualItem {
    /// Places do not count.
    fn eq(&self, other: &VirtualItem) -> bool {
        self.inst == other.inst
    }
}

/// A general variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name.
    pub name: String,
    /// Type of its elements.
    pub element: Element,
    /// Number of elements.
    pub elements: u32,
    /// Alignment.
    pub align: Align,
    /// Another variable (its index) whose bytes it shares, from a byte offset on.
    pub alias: Option<(u32, u32)>,
}

/// Declares a list of names with numbers and sizes.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($value:ident $number:literal $spelling:literal $doc:literal)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = $doc] $value,)+
        }

        impl $name {
            /// Every value.
            pub const ALL: &'static [$name] = &[$($name::$value),+];

            /// The spelling in text.
            pub fn name(self) -> &'static str {
                match self { $($name::$value => $spelling),+ }
            }

            /// The number in byte code.
            pub fn number(self) -> u8 {
                match self { $($name::$value => $number),+ }
            }

            /// The value with this spelling.
            pub fn from_name(name: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|value| value.name() == name)
            }

            /// The value with this number.
            pub fn from_number(number: u8) -> Option<$name> {
                $name::ALL.iter().copied().find(|value| value.number() == number)
            }
        }
    };
}

named! {
    /// Type of the elements of a variable. The documents do not list the numbers of byte
    /// code; these are ours.
    Element {
        Ud 0 "ud" "Unsigned, 32 bits."
        D 1 "d" "Signed, 32 bits."
        Uw 2 "uw" "Unsigned, 16 bits."
        W 3 "w" "Signed, 16 bits."
        Ub 4 "ub" "Unsigned, 8 bits."
        B 5 "b" "Signed, 8 bits."
        Df 6 "df" "f64."
        F 7 "f" "f32."
        Uq 11 "uq" "Unsigned, 64 bits."
        Q 13 "q" "Signed, 64 bits."
        Hf 14 "hf" "IEEE binary16."
        Bf 15 "bf" "Bfloat16."
    }
}

impl Element {
    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        match self {
            Element::Ub | Element::B => 1,
            Element::Uw | Element::W | Element::Hf | Element::Bf => 2,
            Element::Ud | Element::D | Element::F => 4,
            Element::Df | Element::Uq | Element::Q => 8,
        }
    }
}

named! {
    /// Alignment of a variable. The documents do not list the numbers of byte code; these
    /// are ours.
    Align {
        Byte 0 "byte" "1 byte."
        Word 1 "word" "2 bytes."
        Dword 2 "dword" "4 bytes."
        Qword 3 "qword" "8 bytes."
        Oword 4 "oword" "16 bytes."
        Grf 5 "GRF" "A register."
        Grf2 6 "GRFx2" "Two registers."
        Hword 7 "hword" "32 bytes."
        Word32 8 "32word" "64 bytes."
        Word64 9 "64word" "128 bytes."
    }
}

impl Align {
    /// Bytes, on a machine with registers of so many bytes.
    pub fn bytes(self, grf: u32) -> u32 {
        match self {
            Align::Byte => 1,
            Align::Word => 2,
            Align::Dword => 4,
            Align::Qword => 8,
            Align::Oword => 16,
            Align::Hword => 32,
            Align::Word32 => 64,
            Align::Word64 => 128,
            Align::Grf => grf,
            Align::Grf2 => grf.saturating_mul(2),
        }
    }
}

impl Variable {
    /// Bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.elements).saturating_mul(self.element.bytes().into())
    }
}

impl Kernel {
    /// A kernel without content.
    pub fn new() -> Kernel {
        Kernel {
            version: (3, 8),
            name: "kernel".to_owned(),
            variables: Vec::new(),
            predicates: Vec::new(),
            instructions: Vec::new(),
        }
    }

    /// The declared variable with an index.
    pub fn variable(&self, index: u32) -> Option<&Variable> {
        self.variables.get(index.checked_sub(FIRST_VARIABLE)? as usize)
    }

    /// For each declared variable the one that holds its bytes, and the offset there: itself, or
    /// the end of its chain of aliases.
    pub fn roots(&self) -> Vec<(u32, u64)> {
        let mut roots: Vec<(u32, u64)> = Vec::with_capacity(self.variables.len());
        for (at, variable) in self.variables.iter().enumerate() {
            // An alias refers to an earlier variable.
            let target = variable.alias.and_then(|(index, offset)| {
                let (root, start) = roots.get(index.checked_sub(FIRST_VARIABLE)? as usize)?;
                Some((*root, start.saturating_add(offset.into())))
            });
            roots.push(target.unwrap_or((FIRST_VARIABLE.saturating_add(at as u32), 0)));
        }
        roots
    }
}

impl Default for Kernel {
    fn default() -> Kernel {
        Kernel::new()
    }
}
