//! The macro that turns rows into an enum and a table.

/// Declares a machine's instructions once: the enum with typed operands and the [`Table`] that
/// everything else derives from.
///
/// A row is its documentation, the variant's name, mnemonic and syntax, the fixed fields in
/// brackets, and the operands; an operand is its name, its Rust type (an [`OperandValue`]) and an
/// [`Operand`] that says kind, field, default and range. `fixup` is optional. With `facts Type` in the
/// head, every row also says `is [value]`, which `Inst::FACTS` holds by row and `facts()` gives. A
/// row that is short for other instructions lists them, `steps ["bus(N, x)", "bus(y, N)"]`, in
/// whatever form the machine reads them; the documentation shows them.
///
/// ```
/// use quincunx_isa::{FieldSpec, Kind, Layout, Operand, Piece, Term, instructions};
///
/// static FIELDS: &[FieldSpec] = &[
///     FieldSpec::unsigned("opcode", &[Piece::fixed(0, 4)]),
///     FieldSpec::unsigned("count", &[Piece { at: Term::Const(4), width: Term::Param("count") }]),
/// ];
///
/// instructions! {
///     /// A machine that counts.
///     pub enum Inst, table TABLE = "counter";
///     bits Term::Const(16); params []; fields FIELDS;
///
///     /// Does nothing.
///     Nop = "nop" "nop" ["opcode" = 0] {}
///     /// Counts on.
///     Step = "step" "step {by}" ["opcode" = 1] {
///         /// How far.
///         by: u32 = Operand::at("count", Kind::Biased(1)),
///     }
/// }
///
/// let layout = Layout::resolve(&TABLE, &|name| (name == "count").then_some(5)).unwrap();
/// let inst = Inst::Step { by: 32 };
/// assert_eq!(inst.operands_of::<u32>()[..], [32]);
/// let word = TABLE.encode(&inst.to_raw(), &layout).unwrap();
/// assert_eq!(word.get(0, 16), 0x1f1);
/// let (raw, _) = TABLE.decode(&word, &layout, false).unwrap();
/// assert_eq!(Inst::from_raw(&raw), Some(inst));
/// assert_eq!(TABLE.print(&raw), "step 32");
/// ```
///
/// [`Table`]: crate::Table
/// [`OperandValue`]: crate::OperandValue
/// [`Operand`]: crate::Operand
#[macro_export]
macro_rules! instructions {
    (
        $(#[doc = $doc:literal])+
        $vis:vis enum $inst:ident, table $table:ident = $machine:literal;
        bits $bits:expr; params [$($param:literal),* $(,)?]; fields $fields:expr;
        $(facts $facts:ty;)?
        $(
            $(#[doc = $row_doc:literal])+
            $name:ident = $mnemonic:literal $syntax:literal
            [$($match_field:literal = $match_value:expr),* $(,)?]
            $(is [$fact:expr])? $(steps [$step:literal $(, $more:literal)* $(,)?])?
            $(fixup $fixup:path)?
            {
                $( $(#[doc = $operand_doc:literal])* $operand:ident : $type:ty = $spec:expr ),* $(,)?
            }
        )+
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $inst {
            $(
                $(#[doc = $row_doc])+
                $(#[doc = $crate::instructions!(@steps $step $($more)*)])?
                $name { $( $(#[doc = $operand_doc])* $operand: $type ),* }
            ),+
        }

        $(#[doc = $doc])+
        $vis static $table: $crate::Table = $crate::Table::new(
            $machine,
            &[$($doc),+],
            $bits,
            &[$($param),*],
            $fields,
            &[$(
                $crate::Row {
                    name: stringify!($name),
                    mnemonic: $mnemonic,
                    syntax: $syntax,
                    doc: &[$($row_doc,)+ $($crate::instructions!(@steps $step $($more)*))?],
                    matches: &[$(($match_field, $match_value)),*],
                    operands: &[$(
                        $crate::Operand {
                            name: stringify!($operand),
                            doc: &[$($operand_doc),*],
                            ..$spec
                        }
                    ),*],
                    fixup: $crate::instructions!(@fixup $($fixup)?),
                    steps: &[$($step, $($more),*)?],
                }
            ),+],
        );

        impl $inst {
            /// Index of the instruction's row in the table.
            $vis fn row(&self) -> usize {
                enum Index { $($name),+ }
                match self {
                    $( $inst::$name { .. } => Index::$name as usize ),+
                }
            }

            /// The instruction as data.
            $vis fn to_raw(&self) -> $crate::RawInst {
                let values = match *self {
                    $(
                        $inst::$name { $($operand),* } => {
                            $crate::Values::from_slice(&[$($crate::OperandValue::to_raw($operand)),*])
                        }
                    ),+
                };
                $crate::RawInst { row: self.row(), values }
            }

            /// The instruction of data; `None` when an operand's type does not have the value.
            $vis fn from_raw(raw: &$crate::RawInst) -> Option<Self> {
                enum Index { $($name),+ }
                #[allow(unused_mut, unused_variables, reason = "instructions without operands")]
                let mut values = raw.values.iter().copied();
                $(
                    if raw.row == Index::$name as usize {
                        return Some($inst::$name {
                            $( $operand: <$type as $crate::OperandValue>::from_raw(values.next()?)? ),*
                        });
                    }
                )+
                None
            }

            /// Calls `visit` with every operand of a type, which it may change, in the order of the
            /// row.
            #[allow(dead_code, unused_mut, unused_variables, reason = "for tables that need it")]
            $vis fn visit_operands<T: 'static>(&mut self, mut visit: impl FnMut(&mut T)) {
                match self {
                    $(
                        $inst::$name { $($operand),* } => {
                            $(
                                let operand: &mut dyn ::std::any::Any = $operand;
                                operand.downcast_mut().into_iter().for_each(&mut visit);
                            )*
                        }
                    )+
                }
            }

            /// Its operands of a type in the order of the row.
            #[allow(dead_code, reason = "for tables that need it")]
            $vis fn operands_of<T: Copy + 'static>(mut self) -> $crate::Values<T> {
                let mut list = $crate::Values::new();
                self.visit_operands(|operand: &mut T| list.push(*operand));
                list
            }
        }

        $crate::instructions!(@facts $vis $inst [$($facts)?] $($name [$($fact)?])+);
    };
    (@facts $vis:vis $inst:ident [] $($name:ident [])+) => {};
    (@facts $vis:vis $inst:ident [$facts:ty] $($name:ident [$fact:expr])+) => {
        impl $inst {
            /// What every row says of itself.
            $vis const FACTS: &'static [$facts] = &[$($fact),+];

            /// What its row says of it.
            $vis fn facts(&self) -> &'static $facts {
                &Self::FACTS[self.row()]
            }
        }
    };
    (@steps $step:literal $($more:literal)*) => {
        concat!(" Steps: `", $step, $("; ", $more,)* "`.")
    };
    (@fixup) => { None };
    (@fixup $fixup:path) => { Some($fixup) };
}
