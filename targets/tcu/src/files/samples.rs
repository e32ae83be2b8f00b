//! Performance samples: 64-bit words, low byte first (`tensil-doc` 3.5, `tensil` in
//! `docs/bibliography.md`).
//!
//! Bits 0 to 31 are the program counter; from bit 32 on every bus of the decoder has two bits,
//! valid below ready. The last word of a block is marked on the wire, not in the word: files hold
//! whole blocks, so that position tells.

use quincunx_diag::{Diagnostic, Problems, Result};
use quincunx_report::{Cell, Column, Table};

/// Program counter of an invalid sample.
pub const INVALID: u32 = u32::MAX;

/// A control bus of the decoder, in the order of its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bus {
    /// To the systolic array.
    Array,
    /// To the accumulators.
    Acc,
    /// To the router between local memory, array and accumulators.
    Dataflow,
    /// To the DRAM1 interface.
    Dram1,
    /// To the DRAM0 interface.
    Dram0,
    /// To port B of local memory, the side of the DRAMs.
    MemPortB,
    /// To port A of local memory, the side of array and accumulators.
    MemPortA,
    /// From the instruction stream.
    Instruction,
}

impl Bus {
    /// Every bus, lowest bits first.
    pub const ALL: [Bus; 8] = [
        Bus::Array,
        Bus::Acc,
        Bus::Dataflow,
        Bus::Dram1,
        Bus::Dram0,
        Bus::MemPortB,
        Bus::MemPortA,
        Bus::Instruction,
    ];

    /// Name in `tensil-doc` 3.5.
    pub fn name(self) -> &'static str {
        match self {
            Bus::Array => "Array",
            Bus::Acc => "Acc",
            Bus::Dataflow => "Dataflow",
            Bus::Dram1 => "DRAM1",
            Bus::Dram0 => "DRAM0",
            Bus::MemPortB => "MemPortB",
            Bus::MemPortA => "MemPortA",
            Bus::Instruction => "Instruction",
        }
    }

    /// Its valid bit; ready is the next one.
    fn bit(self) -> u32 {
        (self as u32).saturating_mul(2).saturating_add(32)
    }
}

/// One sample word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sample(pub u64);

impl Sample {
    /// The sample that says nothing.
    pub const NONE: Sample = Sample(INVALID as u64);

    /// A sample of the program counter with no bus valid or ready.
    pub fn new(program_counter: u32) -> Sample {
        Sample(program_counter.into())
    }

    /// The sample with the signals of a bus.
    #[must_use]
    pub fn with(self, bus: Bus, valid: bool, ready: bool) -> Sample {
        Sample(self.0 | (u64::from(valid) | u64::from(ready) << 1) << bus.bit())
    }

    /// Program counter.
    pub fn program_counter(self) -> u32 {
        self.0 as u32
    }

    /// False for a sample that says nothing.
    pub fn is_valid(self) -> bool {
        self.program_counter() != INVALID
    }

    /// The signals (valid, ready) of a bus.
    pub fn bus(self, bus: Bus) -> (bool, bool) {
        let bits = self.0 >> bus.bit();
        (bits & 1 != 0, bits & 2 != 0)
    }
}

/// A run of samples up to the one marked as last.
pub type Block = Vec<Sample>;

/// A stream of samples in blocks of one size; only the last block may be shorter, when the stream
/// was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Samples {
    /// Samples in a block, at least 1.
    pub block_size: usize,
    /// Every sample.
    pub words: Vec<Sample>,
}

impl Samples {
    /// Reads the bytes of a stream.
    ///
    /// # Errors
    /// `Q3036` when they are not whole words.
    pub fn read(bytes: &[u8], block_size: usize) -> Result<Samples> {
        let (words, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            let message = format!("the last {} bytes are not a sample word of 8 bytes", rest.len());
            let place = bytes.len().saturating_sub(rest.len()) as u64;
            return Err(Diagnostic::invalid("Q3036", message).at_byte(place));
        }
        let words = words.iter().map(|word| Sample(u64::from_le_bytes(*word))).collect();
        Ok(Samples { block_size: block_size.max(1), words })
    }

    /// The bytes of the stream.
    pub fn write(&self) -> Vec<u8> {
        self.words.iter().flat_map(|sample| sample.0.to_le_bytes()).collect()
    }

    /// Whether a word is marked as the last of its block.
    pub fn is_last(&self, index: usize) -> bool {
        index.saturating_add(1).is_multiple_of(self.block_size)
    }

    /// The blocks.
    pub fn blocks(&self) -> impl Iterator<Item = &[Sample]> {
        self.words.chunks(self.block_size)
    }

    /// Fills the last block up with samples that say nothing.
    pub fn pad(&mut self) {
        let full = self.words.len().next_multiple_of(self.block_size);
        self.words.resize(full, Sample::NONE);
    }

    /// What is wrong with the stream: `Q3037`, a warning for each kind of problem and place, and
    /// `Q3038` for a block that was cut.
    pub fn problems(&self) -> Vec<Diagnostic> {
        let mut problems = Problems::default();
        for (index, sample) in self.words.iter().enumerate() {
            let unused = sample.0 >> 48;
            let flags = sample.0 >> 32 & 0xffff;
            let what = if unused != 0 {
                format!("bits 48 to 63 of sample {index} are {unused:#x}, expected 0")
            } else if !sample.is_valid() && flags != 0 {
                format!("invalid sample {index} has signals {flags:#x}, expected 0")
            } else {
                continue;
            };
            let byte = (index as u64).saturating_mul(8);
            problems.push(Diagnostic::warning("Q3037", what).at_byte(byte));
        }
        let rest = self.words.chunks_exact(self.block_size).remainder().len();
        if rest != 0 {
            let message =
                format!("the last block has {rest} samples, expected {}", self.block_size);
            problems.warn("Q3038", message);
        }
        problems.finish()
    }
}

/// Figures of a stream: what every bus does, and where the program counter is.
pub fn analyse(samples: &Samples) -> Vec<Table> {
    let valid: Vec<Sample> = samples.words.iter().copied().filter(|s| s.is_valid()).collect();
    vec![summary(samples, &valid), buses(&valid), hot_spots(&valid)]
}

fn summary(samples: &Samples, valid: &[Sample]) -> Table {
    let counters = || valid.iter().map(|sample| u64::from(sample.program_counter()));
    let show = |number: Option<u64>| number.map_or(Cell::Empty, Cell::Count);
    let count = |number: usize| Cell::Count(number as u64);
    let mut table = Table::properties("samples");
    table.property("samples", count(samples.words.len()));
    table.property("valid samples", count(valid.len()));
    table.property("samples in a block", count(samples.block_size));
    table.property("blocks", count(samples.blocks().count()));
    table.property("first program counter", show(counters().next()));
    table.property("greatest program counter", show(counters().max()));
    table
}

fn share(part: usize, whole: usize) -> Cell {
    if whole == 0 { Cell::Empty } else { Cell::Share(part as f64 / whole as f64) }
}

fn buses(valid: &[Sample]) -> Table {
    let columns = ["transfers", "stalled", "idle"].map(Column::number);
    let mut table = Table::new("buses", [Column::text("bus")].into_iter().chain(columns).collect());
    for bus in Bus::ALL {
        let kinds: [fn((bool, bool)) -> bool; 3] = [
            |(valid, ready)| valid && ready,
            |(valid, ready)| valid && !ready,
            |(valid, _)| !valid,
        ];
        let shares = kinds.map(|is_kind| {
            let part = valid.iter().filter(|sample| is_kind(sample.bus(bus))).count();
            share(part, valid.len())
        });
        table.push([bus.name().into()].into_iter().chain(shares).collect());
    }
    table
}

/// The program counters that were met most often.
fn hot_spots(valid: &[Sample]) -> Table {
    let mut counters: Vec<u32> = valid.iter().map(|sample| sample.program_counter()).collect();
    counters.sort_unstable();
    let mut spots: Vec<(usize, u32)> =
        counters.chunk_by(|a, b| a == b).map(|run| (run.len(), run[0])).collect();
    spots.sort_by_key(|&(count, counter)| (std::cmp::Reverse(count), counter));
    let columns = ["program_counter", "samples", "share"].map(Column::number);
    let mut table = Table::new("hot_spots", columns.into());
    for (count, counter) in spots.into_iter().take(10) {
        let cells = [Cell::Count(counter.into()), Cell::Count(count as u64)];
        table.push(cells.into_iter().chain([share(count, valid.len())]).collect());
    }
    table
}
