//! Legality rules.
//!
//! A rule is an **error** where execution would have no defined result, or where every other
//! tool refuses or misreads the program; it is a **warning** where the exact semantics still define
//! every result, although no tracer writes such a program. Facts: `da4ml`, `alkaid`
//! (`docs/bibliography.md`).
//!
//! | code | rule | kind |
//! |---|---|---|
//! | `Q1001` | an operation reads slots below its own index only | error |
//! | `Q1002` | an input operation names an input that exists | error |
//! | `Q1003` | a lookup names a table that exists | error |
//! | `Q1004` | an output names a slot that exists | error |
//! | `Q1005` | the instruction belongs to the dialect | error |
//! | `Q1010` | the step of an interval is a power of two | error |
//! | `Q1011` | bounds of an interval are finite numbers, min not above max | error |
//! | `Q1012` | bounds of an interval are multiples of its step | error |
//! | `Q1013` | a type is no wider than the limit | error |
//! | `Q1014` | integer and fraction bits lie within ±[`MAX_SCALE`] | error |
//! | `Q1015` | sign, integer and fraction bits do not add up to less than 0 | warning |
//! | `Q1020` | shifts of operands lie within ±63, of inputs and outputs within ±127 | error |
//! | `Q1021` | at most one branch of a mux that has bits is shifted, and to the left | error |
//! | `Q1022` | a table has an entry for every value of the operand | error |
//! | `Q1030` | a quantiser does not add fraction bits | warning |
//! | `Q1031` | adding a constant drops no fraction bits | warning |
//! | `Q1032` | a product has the fraction bits of both factors together | warning |
//! | `Q1033` | a bit operation or negation keeps the fraction bits of its operands | warning |
//! | `Q1034` | a constant fits its type | warning |
//! | `Q1035` | the entries of a table fit the type of the lookup | warning |
//! | `Q1036` | results of operations that do not quantise fit their types, for all inputs within their intervals | warning |
//! | `Q1037` | outputs need every operation | note |
//! | `Q1038` | `Q1036` holds without relying on declared intervals of quantised results | note |
//! | `Q1039` | lookups read entries of their tables only, where types of the operands are given by bits | note |
//! | `Q1040` | stages of a pipeline have as many outputs as the next has inputs | error |
//! | `Q1041` | registers start with finite numbers, have an input and an output each, and are in no pipeline of several stages | error |
//!
//! Rules about what a file says and the program in memory cannot say (unused fields, the sign
//! word, lengths) are checked by the readers.

mod linear;
mod proof;
pub(crate) mod ranges;
mod types;

use crate::isa::{Dialect, Inst, UnaryBits};
use crate::program::{
    LookupTable, Operation, Pipeline, Places, Program, Slot, SlotType, TableIndex, places,
};
use quincunx_diag::{Diagnostic, Place, Problems, Result, first_error};
use quincunx_num::{Int, Interval, Kif};
use ranges::{Care, Given, Range, Ranges};
pub(crate) use types::interval_problem;
use types::uncovered;

/// Integer and fraction bits of a type lie within plus and minus this, which every `f64` does.
pub const MAX_SCALE: i32 = 4096;

/// The farthest shift of operands.
pub const MAX_SHIFT: u64 = 63;

/// The farthest shift of inputs and outputs; da4ml writes 127 where a matrix has a row or column of
/// zeros.
pub const MAX_PORT_SHIFT: u64 = 127;

/// What to check against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Widest type.
    pub width_limit: u32,
    /// The dialect whose instructions are allowed; `None` for all.
    pub dialect: Option<Dialect>,
    /// Whether to look at the values as well: rules `Q1036` and `Q1037`, which cost more than the
    /// others and find no errors.
    pub values: bool,
}

impl Rules {
    /// What the executor runs: types of up to 4096 bits.
    pub const EXECUTABLE: Rules = Rules { width_limit: 4096, dialect: None, values: false };
}

/// 64-bit engines, as the tools of all dialects are.
impl Default for Rules {
    fn default() -> Self {
        Rules { width_limit: 64, dialect: None, values: true }
    }
}

/// Everything wrong with a program, in program order; a program without errors can be executed.
pub fn verify(program: &Program, rules: &Rules) -> Vec<Diagnostic> {
    check(program, rules, None).0
}

/// What is wrong with a program, and what its outputs hold if nothing is and values are looked at.
fn check(
    program: &Program,
    rules: &Rules,
    given: Option<&Given>,
) -> (Vec<Diagnostic>, Option<Vec<(Range, i32)>>) {
    let mut checker = Checker {
        program,
        rules: *rules,
        types: Vec::new(),
        tables: program.tables.iter().map(extremes).collect(),
        place: None,
        problems: Problems::default(),
    };
    checker.input_shifts();
    for index in 0..program.operations.len() {
        checker.operation(index);
    }
    checker.outputs();
    checker.registers();
    let mut outputs = None;
    if rules.values && !checker.problems.any_error() {
        let ranges = Ranges::of(program, given);
        let overflows = proof::overflows(program, &ranges, given);
        let lookups = proof::lookups(program, &ranges, given);
        let found = overflows.into_iter().chain(lookups).chain(proof::dead(program));
        checker.problems.extend(found);
        outputs = Some(ranges.outputs(program));
    }
    (checker.problems.finish(), outputs)
}

/// What every slot of a program can hold, the inputs being within their declared intervals; see
/// `Q1036`. Results that overflow are taken to be cut off at the bounds of their types.
///
/// # Errors
/// The first error of [`verify`], with types of up to 4096 bits.
pub fn slot_ranges(program: &Program) -> Result<Vec<Interval>> {
    first_error(verify(program, &Rules::EXECUTABLE))?;
    let ranges = Ranges::with(program, None, Care::Every).slots.into_iter();
    let unit = |operation: &Operation| operation.slot_type.kif().exponent();
    let units = program.operations.iter().map(unit);
    Ok(ranges.zip(units).map(|(r, unit)| Interval::new(r.low, r.high, unit)).collect())
}

/// How far the branches of a mux are shifted to the left, towards the fraction bits of its result. A
/// branch without bits is 0 in every step.
pub(crate) fn mux_shifts(set: Kif, clear: Kif, shift: i32, own: Places) -> (Places, Places) {
    let left = |kif: Kif, shift: i32| match kif.width() {
        0 => places(0),
        _ => own - places(kif.fraction) + places(shift),
    };
    (left(set, 0), left(clear, shift))
}

/// Whether at most one branch of a mux is shifted, and to the left.
pub(crate) fn is_aligned((set, clear): (Places, Places)) -> bool {
    let zero = places(0);
    set >= zero && clear >= zero && (set == zero || clear == zero)
}

/// Lowest and highest entry of a table.
fn extremes(table: &LookupTable) -> Option<(i32, i32)> {
    Some((*table.values.iter().min()?, *table.values.iter().max()?))
}

/// Everything wrong with a pipeline: with its stages, and between them.
pub fn verify_pipeline(pipeline: &Pipeline, rules: &Rules) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut given = None;
    for (number, stage) in pipeline.stages.iter().enumerate() {
        let in_stage = |problem: Diagnostic| match pipeline.stages.len() {
            1 => problem,
            _ => problem.with_note(format!("in stage {number}")),
        };
        let (problems, outputs) = check(stage, rules, given.as_deref());
        found.extend(problems.into_iter().map(in_stage));
        given = outputs;
        if pipeline.stages.len() > 1 && !stage.state.is_empty() {
            let message = format!("stage {number} of a pipeline has registers of its own");
            found.push(Diagnostic::unsupported("Q1041", message).help(
                "before numbers reach a later stage, its registers have changed; use one program",
            ));
        }
    }
    let stages = pipeline.stages.iter().enumerate();
    for ((number, stage), (next, after)) in stages.clone().zip(stages.skip(1)) {
        let (outputs, inputs) = (stage.outputs.len(), after.input_shifts.len());
        if outputs != inputs {
            let message =
                format!("stage {number} has {outputs} outputs, stage {next} {inputs} inputs");
            found.push(Diagnostic::invalid("Q1040", message));
        }
    }
    found
}

struct Checker<'a> {
    program: &'a Program,
    rules: Rules,
    /// The types of the operations so far; `None` where they are illegal.
    types: Vec<Option<Kif>>,
    /// Lowest and highest entry of each table.
    tables: Vec<Option<(i32, i32)>>,
    /// The operation looked at.
    place: Option<Place>,
    problems: Problems,
}

impl Checker<'_> {
    fn input_shifts(&mut self) {
        for (index, &shift) in self.program.input_shifts.iter().enumerate() {
            self.shift_within(MAX_PORT_SHIFT, shift.into(), || {
                format!("the shift of input {index}")
            });
        }
    }

    fn operation(&mut self, index: usize) {
        let operation = &self.program.operations[index];
        self.place = Some(Place::Instruction(index));
        let declared = self.declared_type(operation.slot_type);
        self.dialect(operation.inst);
        self.references(index, operation.inst);
        let has_shift = self.shift(operation.inst);
        if let Some(to) = declared.filter(|_| has_shift) {
            self.meaning(operation, to);
        }
        self.types.push(declared);
        self.place = None;
    }

    fn outputs(&mut self) {
        let count = self.program.operations.len();
        for (index, output) in self.program.outputs.iter().enumerate() {
            if let Some(Slot(slot)) = output.source
                && slot as usize >= count
            {
                let message = format!("output {index} reads slot {slot}, the program has {count}");
                self.push(Diagnostic::invalid("Q1004", message));
            }
            let what = || format!("the shift of output {index}");
            self.shift_within(MAX_PORT_SHIFT, output.shift.into(), what);
        }
    }

    fn registers(&mut self) {
        let Program { state, input_shifts, outputs, .. } = self.program;
        let (count, inputs, outputs) = (state.len(), input_shifts.len(), outputs.len());
        if count > inputs.min(outputs) {
            let message = format!("{count} registers with {inputs} inputs and {outputs} outputs");
            let help = "every register is one of the last inputs and one of the last outputs";
            self.push(Diagnostic::invalid("Q1041", message).help(help));
        }
        if let Some(value) = state.iter().find(|value| !value.is_finite()) {
            let message = format!("a register starts with {value}, expected a finite number");
            self.error("Q1041", message);
        }
    }

    fn push(&mut self, problem: Diagnostic) {
        self.problems.push(match &self.place {
            Some(place) => problem.at(place.clone()),
            None => problem,
        });
    }

    fn error(&mut self, code: &'static str, message: impl Into<String>) {
        self.push(Diagnostic::invalid(code, message));
    }

    fn warn(&mut self, code: &'static str, message: impl Into<String>) {
        self.push(Diagnostic::warning(code, message));
    }

    /// The fixed-point form of a type, if it is legal.
    fn declared_type(&mut self, slot_type: SlotType) -> Option<Kif> {
        let kif = match slot_type {
            SlotType::Kif(kif) => kif,
            SlotType::Interval { min, max, step } => match interval_problem(min, max, step) {
                None => slot_type.kif(),
                Some(problem) => {
                    self.push(problem);
                    return None;
                }
            },
        };
        let scales = -MAX_SCALE..=MAX_SCALE;
        if !scales.contains(&kif.integer) || !scales.contains(&kif.fraction) {
            self.error("Q1014", format!("type {kif} has an absurd number of bits"));
            return None;
        }
        let limit = self.rules.width_limit;
        if kif.width() > limit {
            let message =
                format!("type {kif} is {} bits wide, expected at most {limit}", kif.width());
            self.error("Q1013", format!("{message} allowed"));
            return None;
        }
        if places(kif.signed) + places(kif.integer) + places(kif.fraction) < places(0) {
            self.warn("Q1015", format!("type {kif} has fewer than 0 bits and holds only 0"));
        }
        Some(kif)
    }

    fn dialect(&mut self, inst: Inst) {
        let Some(dialect) = self.rules.dialect.filter(|dialect| !dialect.has(inst)) else { return };
        let (name, mnemonic) = (dialect.name(), inst.mnemonic());
        self.error("Q1005", format!("dialect {name} has no instruction {mnemonic}"));
    }

    fn references(&mut self, index: usize, inst: Inst) {
        for Slot(slot) in inst.operands() {
            if slot as usize >= index {
                let message = format!("operation {index} reads slot {slot}");
                let help = "operations read slots below their own index only";
                self.push(Diagnostic::invalid("Q1001", message).help(help));
            }
        }
        let (inputs, tables) = (self.program.input_shifts.len(), self.program.tables.len());
        match inst {
            Inst::Input { source } if source.0 as usize >= inputs => {
                let message = format!("there is no input {}, the program has {inputs}", source.0);
                self.error("Q1002", message);
            }
            Inst::Lookup { table, .. } if table.0 as usize >= tables => {
                let message = format!("there is no table {}, the program has {tables}", table.0);
                self.error("Q1003", message);
            }
            _ => {}
        }
    }

    /// Whether all shifts of operands are legal.
    #[deny(clippy::wildcard_enum_match_arm)]
    fn shift(&mut self, inst: Inst) -> bool {
        let shift = match inst {
            Inst::Add { shift, .. } | Inst::Sub { shift, .. } => shift,
            Inst::Mux { shift, .. } | Inst::MuxNegated { shift, .. } => i64::from(shift),
            Inst::Bitwise { shift, .. } => i64::from(shift),
            Inst::QuantiseShifted { shift, .. } => shift,
            Inst::AddScaled { scale, .. } => i64::from(scale),
            Inst::Sum { .. } => {
                let shifts = inst.terms().map(|(_, shift, _)| shift);
                shifts.max_by_key(|shift| shift.unsigned_abs()).unwrap_or(0)
            }
            Inst::Input { .. } | Inst::Constant { .. } | Inst::AddConstant { .. } => 0,
            Inst::Relu { .. } | Inst::ReluNegated { .. } | Inst::Multiply { .. } => 0,
            Inst::Quantise { .. } | Inst::QuantiseNegated { .. } | Inst::Negate { .. } => 0,
            Inst::Lookup { .. } | Inst::Bits { .. } | Inst::BitsNegated { .. } => 0,
        };
        self.shift_within(MAX_SHIFT, shift, || "the shift".to_owned())
    }

    fn shift_within(&mut self, limit: u64, shift: i64, what: impl Fn() -> String) -> bool {
        let is_legal = shift.unsigned_abs() <= limit;
        if !is_legal {
            let message = format!("{} is {shift}, expected -{limit}..={limit}", what());
            self.error("Q1020", message);
        }
        is_legal
    }

    /// Rules about the types of operands and result; operands of illegal type are not looked at.
    /// The shifts are legal.
    #[deny(clippy::wildcard_enum_match_arm)]
    fn meaning(&mut self, operation: &Operation, to: Kif) {
        let fraction = |slot| self.kif(slot).map(|kif| places(kif.fraction));
        let own = places(to.fraction);
        match operation.inst {
            Inst::Relu { x } | Inst::ReluNegated { x } => self.quantiser(x, 0, to),
            Inst::Quantise { x } | Inst::QuantiseNegated { x } => self.quantiser(x, 0, to),
            Inst::QuantiseShifted { x, shift } => self.quantiser(x, shift, to),
            Inst::AddConstant { x, .. } => {
                if let Some(from) = fraction(x).filter(|&from| own < from) {
                    let text = format!("adding a constant drops fraction bits: {from} to {own}");
                    self.warn("Q1031", text);
                }
            }
            Inst::Constant { value } => {
                if !to.contains(&Int::from(value)) {
                    self.warn("Q1034", format!("the constant {value} does not fit type {to}"));
                }
            }
            Inst::Mux { when_set, when_clear, shift, .. }
            | Inst::MuxNegated { when_set, when_clear, shift, .. } => {
                if let (Some(set), Some(clear)) = (self.kif(when_set), self.kif(when_clear)) {
                    self.mux(mux_shifts(set, clear, shift, own));
                }
            }
            Inst::Multiply { a, b } => {
                if let (Some(a), Some(b)) = (fraction(a), fraction(b))
                    && own != a + b
                {
                    let text =
                        format!("the factors have {a} and {b} fraction bits, the product {own}");
                    self.warn("Q1032", text);
                }
            }
            Inst::Lookup { x, table, pad } => self.lookup(x, table, pad, to),
            Inst::Bits { x, op: UnaryBits::Not } | Inst::BitsNegated { x, op: UnaryBits::Not } => {
                self.keeps_fraction(fraction(x), own);
            }
            Inst::Bitwise { a, b, shift, .. } => {
                let (a, b) = (fraction(a), fraction(b).map(|b| b - places(shift)));
                self.keeps_fraction(a.zip(b).map(|(a, b)| a.max(b)), own);
            }
            Inst::Negate { x } if to.width() > 0 => self.keeps_fraction(fraction(x), own),
            Inst::Input { .. } | Inst::Add { .. } | Inst::Sub { .. } => {}
            Inst::Negate { .. } | Inst::AddScaled { .. } | Inst::Sum { .. } => {}
            Inst::Bits { .. } | Inst::BitsNegated { .. } => {}
        }
    }

    /// The type of an operand, if it is an earlier operation of legal type.
    fn kif(&self, slot: Slot) -> Option<Kif> {
        self.types.get(slot.0 as usize).copied().flatten()
    }

    /// A result without bits is 0 whatever its fraction.
    fn quantiser(&mut self, x: Slot, shift: i64, to: Kif) {
        let Some(from) = self.kif(x) else { return };
        let (from, own) = (places(from.fraction) - places(shift), places(to.fraction));
        if to.width() > 0 && own > from {
            let to = own;
            self.warn("Q1030", format!("a quantiser adds fraction bits: {from} to {to}"));
        }
    }

    fn mux(&mut self, (set, clear): (Places, Places)) {
        if !is_aligned((set, clear)) {
            let message = format!("the branches of the mux are shifted left by {set} and {clear}");
            let help = "one branch must have the step of the result, the other no finer one";
            self.push(Diagnostic::invalid("Q1021", message).help(help));
        }
    }

    fn keeps_fraction(&mut self, natural: Option<Places>, own: Places) {
        if let Some(natural) = natural.filter(|&natural| natural != own) {
            let text = format!("the result has {natural} fraction bits, its type {own}");
            self.warn("Q1033", text);
        }
    }

    fn lookup(&mut self, x: Slot, table: TableIndex, pad: i32, to: Kif) {
        let number = table.0 as usize;
        let Some(table) = self.program.tables.get(number) else { return };
        let (low, high) = self.tables[number].unwrap_or((0, 0));
        if let Some(value) = [low, high].into_iter().find(|&v| !to.contains(&Int::from(v))) {
            self.warn("Q1035", format!("the table entry {value} does not fit type {to}"));
        }
        let Some(kif) = self.kif(x) else { return };
        let declared = self.program.operations[x.0 as usize].slot_type;
        if let Some((first, last)) = uncovered(declared, kif, table, pad) {
            let length = table.values.len();
            let message = format!("the operand reads entries {first}..={last} of {length}");
            self.error("Q1022", message);
        }
    }
}
