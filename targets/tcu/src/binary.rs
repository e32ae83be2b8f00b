//! Machine code, `.tprog`: the instructions one after the other, little-endian (`tensil`
//! in `docs/bibliography.md`).

use crate::arch::TcuArch;
use crate::isa::{Inst, TABLE};
use crate::program::{Program, Step};
use quincunx_diag::{Diagnostic, Place, Problems, Result};
use quincunx_isa::{Bits, Layout};

/// Machine code of instructions for one machine.
#[derive(Clone, Debug)]
pub struct Coder {
    layout: Layout,
    arch: TcuArch,
    header_at: u32,
}

impl Coder {
    /// The coder of a machine.
    ///
    /// # Errors
    /// Those of [`TcuArch::layout`].
    pub fn new(arch: &TcuArch) -> Result<Coder> {
        let layout = arch.layout()?;
        let header_at = layout.param("header_at").expect("a parameter of every layout");
        Ok(Coder { layout, arch: arch.clone(), header_at })
    }

    /// Where the fields lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes of an instruction.
    pub fn bytes(&self) -> usize {
        self.layout.bytes()
    }

    /// The top bit of the opcode is the number of the thread.
    fn has_threads(&self) -> bool {
        self.arch.number_of_threads > 1
    }

    fn thread_bit(&self) -> u32 {
        self.header_at.saturating_add(7)
    }

    /// Whether the machine has the instruction at all, and the thread.
    ///
    /// # Errors
    /// `Q3010` to `Q3012`.
    pub fn check(&self, step: &Step) -> Result<()> {
        if u32::from(step.tid) >= self.arch.number_of_threads {
            let threads = self.arch.number_of_threads;
            let message = format!("thread {} in a machine with {threads}", step.tid);
            return Err(Diagnostic::invalid("Q3010", message));
        }
        match step.inst {
            Inst::Configure { .. } if self.has_threads() => {
                let message = "Configure does not exist in a machine with two threads";
                Err(Diagnostic::invalid("Q3011", message)
                    .with_note("the top bit of its opcode is the number of the thread there"))
            }
            Inst::LoadLut { table, .. } => match self.arch.lookup_tables {
                None => Err(Diagnostic::invalid("Q3012", "the machine has no lookup tables")
                    .help("set lookup_tables and lookup_table_depth in the architecture")),
                Some(tables) if table > tables.into() => Err(Diagnostic::invalid(
                    "Q3012",
                    format!("there is no lookup table {table}, expected 0 to {tables}"),
                )),
                Some(_) => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// The word of an instruction.
    ///
    /// # Errors
    /// Those of [`Coder::check`] and of the kit: `Q2103` for a number that its field cannot hold.
    pub fn encode(&self, step: &Step) -> Result<Bits> {
        self.check(step)?;
        let mut word = TABLE.encode(&step.inst.to_raw(), &self.layout)?;
        if self.has_threads() {
            word.set(self.thread_bit(), 1, step.tid.into());
        }
        Ok(word)
    }

    /// The instruction of a word, with warnings about bits that it does not use if `lenient`.
    ///
    /// # Errors
    /// Those of [`Coder::check`] and of the kit: no such instruction, bits that must be 0.
    pub fn decode(&self, word: &Bits, lenient: bool) -> Result<(Step, Vec<Diagnostic>)> {
        let mut word = *word;
        let mut tid = 0;
        if self.has_threads() {
            tid = word.get(self.thread_bit(), 1) as u8;
            word.set(self.thread_bit(), 1, 0);
        }
        let (raw, warnings) = TABLE.decode(&word, &self.layout, lenient)?;
        let inst = Inst::from_raw(&raw)
            .ok_or_else(|| Diagnostic::bug("a decoded operand has no value of its type"))?;
        let step = Step { tid, inst };
        self.check(&step)?;
        Ok((step, warnings))
    }

    /// Appends the bytes of an instruction.
    ///
    /// # Errors
    /// Those of [`Coder::encode`].
    pub fn write(&self, step: &Step, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&self.encode(step)?.to_le_bytes()[..self.bytes()]);
        Ok(())
    }
}

/// What a reader found.
#[derive(Debug)]
pub struct Read {
    /// The program.
    pub program: Program,
    /// Warnings of a lenient reading.
    pub warnings: Vec<Diagnostic>,
}

/// Reads machine code. With `lenient`, bits that an instruction does not use may have any value,
/// which is a warning.
///
/// # Errors
/// `Q3013` when the length is not a multiple of the instruction's; those of [`Coder::decode`] at
/// their instruction.
pub fn read(
    bytes: &[u8],
    arch: &TcuArch,
    lenient: bool,
) -> std::result::Result<Read, Vec<Diagnostic>> {
    let coder = Coder::new(arch).map_err(|problem| vec![problem])?;
    let mut problems = Problems::default();
    let words = bytes.chunks_exact(coder.bytes());
    let mut steps = Vec::with_capacity(words.len());
    let rest = words.remainder().len();
    if rest != 0 {
        let size = coder.bytes();
        let message =
            format!("the last {rest} bytes are not an instruction, which has {size} bytes");
        let place = bytes.len().saturating_sub(rest) as u64;
        problems.push(
            Diagnostic::invalid("Q3013", message)
                .at_byte(place)
                .help("check that the architecture is that of the program"),
        );
    }
    for (index, word) in words.enumerate() {
        let word =
            Bits::from_le_bytes(word).expect("`validate` bounds the bytes of an instruction");
        match coder.decode(&word, lenient) {
            Ok((step, found)) => {
                steps.push(step);
                let place = Place::Instruction(index);
                problems.extend(found.into_iter().map(|w| w.at(place.clone())));
            }
            Err(problem) => problems.push(problem.at(Place::Instruction(index))),
        }
    }
    let warnings = problems.warnings()?;
    Ok(Read { program: Program { arch: arch.clone(), steps }, warnings })
}

/// Writes machine code.
///
/// # Errors
/// Those of [`Coder::encode`] at their instruction.
pub fn write(program: &Program) -> Result<Vec<u8>> {
    let coder = Coder::new(&program.arch)?;
    let mut bytes = Vec::with_capacity(program.steps.len().saturating_mul(coder.bytes()));
    for (index, step) in program.steps.iter().enumerate() {
        coder.write(step, &mut bytes).map_err(|problem| problem.at(Place::Instruction(index)))?;
    }
    Ok(bytes)
}
