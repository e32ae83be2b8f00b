//! Legality rules.
//!
//! A rule is an **error** where execution would have no defined result, or where every other
//! tool refuses or misreads the program; it is a **warning** where the exact semantics still define
//! every result, although no tracer writes such a program. Facts: `specs/dais.md` section 3,
//! "Legality rules", and issue 2 part 6.
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
//! | `Q1020` | shifts lie within ±63 | error |
//! | `Q1021` | at most one branch of a mux is shifted, and to the left | error |
//! | `Q1022` | a table has an entry for every value of the operand | error |
//! | `Q1030` | a quantiser does not add fraction bits | warning |
//! | `Q1031` | adding a constant drops no fraction bits | warning |
//! | `Q1032` | a product has the fraction bits of both factors together | warning |
//! | `Q1033` | a bit operation keeps the fraction bits of its operands | warning |
//! | `Q1034` | a constant fits its type | warning |
//! | `Q1035` | the entries of a table fit the type of the lookup | warning |
//! | `Q1040` | stages of a pipeline have as many outputs as the next has inputs | error |
//!
//! Rules about what a file says and the program in memory cannot say (unused fields, the sign
//! word, lengths) are checked by the readers.

use crate::binary::Dialect;
use crate::files::Pipeline;
use crate::isa::{Inst, UnaryBits};
use crate::program::{LookupTable, Operation, Program, Slot, SlotType, TableIndex};
use crate::simulate::lookup_offset;
use quincunx_diag::{Diagnostic, Place, Severity};
use quincunx_num::{Dyadic, Int, Kif};

/// Integer and fraction bits of a type lie within plus and minus this, which every `f64` does.
pub const MAX_SCALE: i32 = 4096;

/// The farthest shift of operands, inputs and outputs.
pub const MAX_SHIFT: i64 = 63;

/// More errors than this help nobody, and a hostile file must not fill the memory with them. Of
/// warnings as many are kept; they never hide an error.
const MAX_PROBLEMS: usize = 100;

/// What to check against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Widest type.
    pub width_limit: u32,
    /// The dialect whose instructions are allowed; `None` for all.
    pub dialect: Option<Dialect>,
}

impl Rules {
    /// What the executor runs: types of up to 4096 bits.
    pub const EXECUTABLE: Rules = Rules { width_limit: 4096, dialect: None };
}

/// 64-bit engines, as the tools of all dialects are.
impl Default for Rules {
    fn default() -> Self {
        Rules { width_limit: 64, dialect: None }
    }
}

/// Everything wrong with a program, in program order; a program without errors can be executed.
pub fn verify(program: &Program, rules: &Rules) -> Vec<Diagnostic> {
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
        if checker.problems.errors >= MAX_PROBLEMS {
            break;
        }
    }
    checker.outputs();
    checker.problems.finish()
}

/// The problems found so far; only the first few of each severity are kept.
#[derive(Default)]
struct Problems {
    list: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
}

impl Problems {
    fn push(&mut self, problem: Diagnostic) {
        let count = match problem.severity() {
            Severity::Error => &mut self.errors,
            _ => &mut self.warnings,
        };
        *count += 1;
        if *count <= MAX_PROBLEMS {
            self.list.push(problem);
        }
    }

    fn finish(mut self) -> Vec<Diagnostic> {
        let kept = |count: usize| count.min(MAX_PROBLEMS);
        let more = self.warnings - kept(self.warnings);
        if self.errors >= MAX_PROBLEMS {
            let text = format!("stopped after {MAX_PROBLEMS} errors");
            self.list.push(Diagnostic::note("Q1049", text));
        } else if more > 0 {
            self.list.push(Diagnostic::note("Q1049", format!("{more} more warnings")));
        }
        self.list
    }
}

/// Lowest and highest entry of a table.
fn extremes(table: &LookupTable) -> Option<(i32, i32)> {
    Some((*table.values.iter().min()?, *table.values.iter().max()?))
}

/// Everything wrong with a pipeline: with its stages, and between them.
pub fn verify_pipeline(pipeline: &Pipeline, rules: &Rules) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (number, stage) in pipeline.stages.iter().enumerate() {
        let in_stage = |problem: Diagnostic| match pipeline.stages.len() {
            1 => problem,
            _ => problem.with_note(format!("in stage {number}")),
        };
        found.extend(verify(stage, rules).into_iter().map(in_stage));
    }
    for (number, pair) in pipeline.stages.windows(2).enumerate() {
        let (outputs, inputs) = (pair[0].outputs.len(), pair[1].input_shifts.len());
        if outputs != inputs {
            let next = number + 1;
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
            if !shift_is_legal(i64::from(shift)) {
                self.push(bad_shift(&format!("the shift of input {index}"), shift.into()));
            }
        }
    }

    fn operation(&mut self, index: usize) {
        let operation = &self.program.operations[index];
        self.place = Some(Place::Instruction(index));
        let declared = self.declared_type(operation.slot_type);
        self.dialect(operation.inst);
        self.references(index, operation.inst);
        self.shift(operation.inst);
        if let Some(to) = declared {
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
            if !shift_is_legal(output.shift.into()) {
                let what = format!("the shift of output {index}");
                self.push(bad_shift(&what, output.shift.into()));
            }
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
            let message = format!("type {kif} is {} bits wide, at most {limit} are", kif.width());
            self.error("Q1013", format!("{message} allowed"));
            return None;
        }
        if i32::from(kif.signed) + kif.integer + kif.fraction < 0 {
            self.warn("Q1015", format!("type {kif} has fewer than 0 bits, it holds 0 only"));
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

    fn shift(&mut self, inst: Inst) {
        let shift = match inst {
            Inst::Add { shift, .. } | Inst::Sub { shift, .. } => shift,
            Inst::Mux { shift, .. } | Inst::MuxNegated { shift, .. } => i64::from(shift),
            Inst::Bitwise { shift, .. } => i64::from(shift),
            _ => 0,
        };
        if !shift_is_legal(shift) {
            self.push(bad_shift("the shift", shift));
        }
    }

    /// Rules about the types of operands and result; operands of illegal type are not looked at.
    fn meaning(&mut self, operation: &Operation, to: Kif) {
        let fraction = |slot| self.kif(slot).map(|kif| i64::from(kif.fraction));
        let own = i64::from(to.fraction);
        match operation.inst {
            Inst::Relu { x } | Inst::ReluNegated { x } => self.quantiser(x, to),
            Inst::Quantise { x } | Inst::QuantiseNegated { x } => self.quantiser(x, to),
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
                if let (Some(set), Some(clear)) = (fraction(when_set), fraction(when_clear)) {
                    self.mux(own - set, own - clear + i64::from(shift));
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
                let (a, b) = (fraction(a), fraction(b).map(|b| b - i64::from(shift)));
                self.keeps_fraction(a.zip(b).map(|(a, b)| a.max(b)), own);
            }
            Inst::Input { .. } | Inst::Add { .. } | Inst::Sub { .. } => {}
            Inst::Bits { .. } | Inst::BitsNegated { .. } => {}
        }
    }

    /// The type of an operand, if it is an earlier operation of legal type.
    fn kif(&self, slot: Slot) -> Option<Kif> {
        self.types.get(slot.0 as usize).copied().flatten()
    }

    /// A result without bits is 0 whatever its fraction.
    fn quantiser(&mut self, x: Slot, to: Kif) {
        let Some(from) = self.kif(x).filter(|from| to.fraction > from.fraction) else { return };
        if to.width() > 0 {
            let (from, to) = (from.fraction, to.fraction);
            self.warn("Q1030", format!("a quantiser adds fraction bits: {from} to {to}"));
        }
    }

    fn mux(&mut self, set: i64, clear: i64) {
        if set < 0 || clear < 0 || (set != 0 && clear != 0) {
            let message = format!("the branches of the mux are shifted left by {set} and {clear}");
            let help = "one branch must have the step of the result, the other no finer one";
            self.push(Diagnostic::invalid("Q1021", message).help(help));
        }
    }

    fn keeps_fraction(&mut self, natural: Option<i64>, own: i64) {
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

/// The entries that the operand of a lookup reads, if they are not in the table. An interval says
/// exactly which; a type given by its bits may be wider than the values, so that it is enough if
/// it reads any entry.
fn uncovered(declared: SlotType, kif: Kif, table: &LookupTable, pad: i32) -> Option<(Int, Int)> {
    let interval = declared.interval()?;
    let offset = lookup_offset(kif, pad);
    let (first, last) = (interval.low() + &offset, interval.high() + &offset);
    let end = Int::from(table.values.len());
    let covered = match declared {
        SlotType::Interval { .. } => first >= Int::ZERO && last < end,
        SlotType::Kif(_) => last >= Int::ZERO && first < end,
    };
    (!covered).then_some((first, last))
}

/// What is wrong with `(min, max, step)`, if anything. A zero interval may have any step.
fn interval_problem(min: f64, max: f64, step: f64) -> Option<Diagnostic> {
    if min == 0.0 && max == 0.0 {
        return None;
    }
    let Some(exponent) = Dyadic::from_f64(step).and_then(|step| step.log2()) else {
        let message = format!("the step {step} is not a power of two");
        return Some(Diagnostic::invalid("Q1010", message));
    };
    let (Some(low), Some(high)) = (Dyadic::from_f64(min), Dyadic::from_f64(max)) else {
        let message = format!("the bounds {min} and {max} are not finite");
        return Some(Diagnostic::invalid("Q1011", message));
    };
    if min > max {
        return Some(Diagnostic::invalid("Q1011", format!("min {min} is above max {max}")));
    }
    let off_grid = |bound: &Dyadic| bound.in_units(exponent).is_none();
    let bound = [(low, min), (high, max)].into_iter().find(|(bound, _)| off_grid(bound))?.1;
    Some(Diagnostic::invalid("Q1012", format!("{bound} is no multiple of the step {step}")))
}

fn shift_is_legal(shift: i64) -> bool {
    (-MAX_SHIFT..=MAX_SHIFT).contains(&shift)
}

fn bad_shift(what: &str, shift: i64) -> Diagnostic {
    let message = format!("{what} is {shift}, expected -{MAX_SHIFT}..={MAX_SHIFT}");
    Diagnostic::invalid("Q1020", message)
}
