//! Kernels as assembly text: what all of them consist of.
//!
//! Ours. A thread computes a tile: some pixels (rows) of some channels (columns). Addresses of 64
//! bits lie as pairs of dwords, one pair a lane.

pub(super) mod add;
pub(super) mod blocks;
pub(super) mod end;
pub(super) mod largest;
pub(super) mod narrow;
pub(super) mod product;
pub(super) mod rows;
pub(super) mod softmax;
pub(super) mod zeros;

pub(super) use add::{Term, add};
pub(super) use blocks::blocks;
pub(super) use end::End;
pub(super) use largest::largest;
pub(super) use product::product;
pub(super) use softmax::softmax;

use crate::arch::Platform;
use crate::program::Element;
use std::fmt::Write;

/// Data sizes of messages, as their descriptors number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// 32 bits.
    Dword,
    /// 64 bits.
    Qword,
}

impl Unit {
    pub(super) fn bytes(self) -> usize {
        if self == Unit::Dword { 4 } else { 8 }
    }

    fn number(self) -> u32 {
        if self == Unit::Dword { 2 } else { 3 }
    }
}

/// How the elements of a block of a matrix lie in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// As they are.
    Rows,
    /// In dwords of elements that are below each other.
    Vnni,
    /// A column after the other.
    Transposed,
}

/// The text of a kernel.
pub(super) struct Written {
    pub(super) text: String,
    /// Registers that it needs; it works if threads have as many.
    pub(super) registers: u32,
}

/// A text that grows, and the registers that are taken.
pub(super) struct Kernel {
    text: String,
    platform: Platform,
    grfs: u32,
    next: u32,
    labels: u32,
}

impl Kernel {
    /// An empty kernel for threads of so many registers. r0 and r1 hold what the launch gives.
    pub(super) fn new(platform: Platform, grfs: u32) -> Kernel {
        Kernel { text: String::new(), platform, grfs, next: 2, labels: 0 }
    }

    /// Lanes of an instruction: those of the systolic array.
    pub(super) fn lanes(&self) -> usize {
        self.platform.lanes() as usize
    }

    /// Takes registers; the last one is kept for the end of the thread.
    pub(super) fn take(&mut self, count: usize) -> usize {
        let first = self.next as usize;
        self.next += count as u32;
        first
    }

    /// Registers taken, with the last one.
    pub(super) fn taken(&self) -> u32 {
        self.next + 1
    }

    /// Appends an instruction.
    pub(super) fn line(&mut self, line: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "(W) {line}");
    }

    /// Puts dwords `at` and `at + 1` of r1 as an address into a register of its own.
    pub(super) fn argument(&mut self, at: usize) -> usize {
        let pointer = self.take(1);
        self.copy_pointer(pointer, (1, 2 * at));
        pointer
    }

    fn copy_pointer(&mut self, to: usize, (from, at): (usize, usize)) {
        for half in 0..2 {
            let from_at = at + half;
            self.line(format_args!("mov (1|M0) r{to}.{half}<1>:ud r{from}.{from_at}<0;1,0>:ud"));
        }
    }

    /// An address in a register of its own: a pointer and what is added to it.
    pub(super) fn pointer(&mut self, base: usize, offsets: &[Offset]) -> usize {
        let pointer = self.take(1);
        self.copy_pointer(pointer, (base, 0));
        for &offset in offsets {
            self.advance(pointer, 1, offset);
        }
        pointer
    }

    /// Adds the same to the addresses of so many lanes.
    pub(super) fn advance(&mut self, pairs: usize, lanes: usize, offset: Offset) {
        if offset == Offset::Bytes(0) {
            return;
        }
        let r = pairs;
        if self.platform.is_second() {
            let region = if lanes == 1 { "<0;1,0>" } else { "<1;1,0>" };
            self.line(format_args!("add ({lanes}|M0) r{r}.0<1>:q r{r}.0{region}:q {offset}"));
            return;
        }
        // No sums of 64 bits: the low halves, then what they carry.
        let region = if lanes == 1 { "<0;1,0>" } else { "<2;1,0>" };
        let (before, sign) = match offset {
            Offset::Bytes(bytes) if bytes < 0 => (true, -1),
            _ => (false, 1),
        };
        let limit = match offset {
            Offset::Bytes(bytes) => format!("{}:ud", bytes.unsigned_abs()),
            Offset::Scalar { .. } => offset.to_string(),
        };
        let compare = format!("cmp ({lanes}|M0) (lt)f1.0 null<1>:ud r{r}.0{region}:ud {limit}");
        if before {
            self.line(&compare);
        }
        self.line(format_args!("add ({lanes}|M0) r{r}.0<2>:ud r{r}.0{region}:ud {offset}"));
        if !before {
            self.line(&compare);
        }
        self.text.push_str(&format!(
            "(W&f1.0) add ({lanes}|M0) r{r}.1<2>:ud r{r}.1{region}:ud {sign}:w\n"
        ));
    }

    /// The addresses of all lanes: a pointer, the offset of the row of a lane, and the bytes of a
    /// vector of dwords. Row `first` of the table is that of lane 0, and `share` lanes have one row.
    pub(super) fn lane_addresses(
        &mut self,
        pairs: usize,
        base: usize,
        (table, first, share): (usize, usize, usize),
        lane_bytes: usize,
        temporary: usize,
    ) {
        let lanes = self.lanes();
        let (register, at) = (table + first / lanes, first % lanes);
        let (t, r) = (temporary, pairs);
        let rows = match share {
            1 => "<1;1,0>".to_owned(),
            _ if share == lanes => "<0;1,0>".to_owned(),
            _ => format!("<1;{share},0>"),
        };
        self.line(format_args!(
            "add ({lanes}|M0) r{t}.0<1>:ud r{register}.{at}{rows}:ud r{lane_bytes}.0<1;1,0>:ud"
        ));
        self.line(format_args!("mov ({lanes}|M0) r{r}.1<2>:ud r{base}.1<0;1,0>:ud"));
        self.line(format_args!(
            "add ({lanes}|M0) r{r}.0<2>:ud r{t}.0<1;1,0>:ud r{base}.0<0;1,0>:ud"
        ));
        self.line(format_args!(
            "cmp ({lanes}|M0) (lt)f1.0 null<1>:ud r{r}.0<2;1,0>:ud r{base}.0<0;1,0>:ud"
        ));
        self.text
            .push_str(&format!("(W&f1.0) add ({lanes}|M0) r{r}.1<2>:ud r{r}.1<2;1,0>:ud 1:w\n"));
    }

    /// Loads consecutive bytes, a power of two from 8 to 512.
    pub(super) fn load_block(&mut self, to: usize, bytes: usize, address: usize) {
        let (registers, descriptor) = self.block(bytes);
        let descriptor = descriptor | (registers as u32) << 20;
        self.line(format_args!("send.ugm (1|M0) r{to} r{address} null:0 0x0 {descriptor:#010x}"));
    }

    /// Stores as many.
    pub(super) fn store_block(&mut self, address: usize, from: usize, bytes: usize) {
        let (registers, descriptor) = self.block(bytes);
        let descriptor = descriptor | 4;
        self.line(format_args!(
            "send.ugm (1|M0) null r{address} r{from}:{registers} 0x0 {descriptor:#010x}"
        ));
    }

    /// Registers of a block of consecutive bytes, and what descriptors say of it.
    fn block(&self, bytes: usize) -> (usize, u32) {
        let unit = if bytes >= 256 { Unit::Qword } else { Unit::Dword };
        let size = match bytes / unit.bytes() {
            count @ 1..=4 => count as u32 - 1,
            count => count.ilog2() + 1,
        };
        let descriptor = 0x180 | unit.number() << 9 | size << 12 | 1 << 15 | 1 << 25;
        (bytes.div_ceil(self.platform.grf_bytes() as usize), descriptor)
    }

    /// Loads a unit for every lane.
    pub(super) fn gather(&mut self, to: usize, unit: Unit, addresses: usize) {
        let registers = if unit == Unit::Qword { 2 } else { 1 };
        let descriptor = 0x180 | unit.number() << 9 | registers << 20 | 2 << 25;
        let lanes = self.lanes();
        self.line(format_args!(
            "send.ugm ({lanes}|M0) r{to} r{addresses} null:0 0x0 {descriptor:#010x}"
        ));
    }

    /// Loads so many dwords for every lane, at most four.
    pub(super) fn gather_vectors(&mut self, to: usize, count: usize, addresses: usize) {
        let count = count as u32;
        let descriptor =
            0x180 | Unit::Dword.number() << 9 | (count - 1) << 12 | count << 20 | 2 << 25;
        let lanes = self.lanes();
        self.line(format_args!(
            "send.ugm ({lanes}|M0) r{to} r{addresses} null:0 0x0 {descriptor:#010x}"
        ));
    }

    /// Stores 64 bits of every lane.
    pub(super) fn scatter(&mut self, addresses: usize, from: usize) {
        let descriptor = 0x184 | Unit::Qword.number() << 9 | 2 << 25;
        let lanes = self.lanes();
        self.line(format_args!(
            "send.ugm ({lanes}|M0) null r{addresses} r{from}:2 0x0 {descriptor:#010x}"
        ));
    }

    /// Loads blocks of a matrix into so many registers, of elements of so many bytes.
    pub(super) fn load_matrix(
        &mut self,
        (to, count): (usize, usize),
        payload: usize,
        (size, order): (usize, Order),
    ) {
        let order = match order {
            Order::Rows => 0,
            Order::Vnni => 1 << 7,
            Order::Transposed => 1 << 15,
        };
        // 31 stands for 32.
        let count = (count.min(31) as u32) << 20;
        let descriptor = 3 | order | size.ilog2() << 9 | count | 1 << 25;
        self.line(format_args!("send.ugm (1|M0) r{to} r{payload} null:0 0x0 {descriptor:#010x}"));
    }

    /// Stores so many registers as a block of bytes of a matrix.
    pub(super) fn store_matrix(&mut self, (from, count): (usize, usize), payload: usize) {
        let descriptor = 7 | 1 << 25;
        self.line(format_args!(
            "send.ugm (1|M0) null r{payload} r{from}:{count} 0x0 {descriptor:#010x}"
        ));
    }

    /// Repeats what `body` writes; `counter` is a dword of a register.
    pub(super) fn repeat(
        &mut self,
        count: usize,
        counter: (usize, usize),
        body: &mut dyn FnMut(&mut Kernel),
    ) {
        if count == 1 {
            return body(self);
        }
        let (register, at) = counter;
        let label = self.labels;
        self.labels += 1;
        self.line(format_args!("mov (1|M0) r{register}.{at}<1>:d {count}:d"));
        self.text.push_str(&format!("L{label}:\n"));
        body(self);
        self.line(format_args!("add (1|M0) r{register}.{at}<1>:d r{register}.{at}<0;1,0>:d -1:w"));
        self.line(format_args!("cmp (1|M0) (gt)f0.0 null<1>:d r{register}.{at}<0;1,0>:d 0:w"));
        self.text.push_str(&format!("(W&f0.0) jmpi L{label}\n"));
    }

    /// Chooses between the floats of registers and a number.
    fn limit(&mut self, registers: &[usize], condition: &str, end: f32) {
        let (lanes, end) = (self.lanes(), float(end));
        for r in registers {
            self.line(format_args!(
                "sel ({lanes}|M0) ({condition})f0.0 r{r}.0<1>:f r{r}.0<1;1,0>:f {end}"
            ));
        }
    }

    /// Adds a number to the floats of so many registers, unless it is 0.
    pub(super) fn add_number(&mut self, (first, count): (usize, usize), number: f32) {
        let (n, number_text) = (self.lanes(), float(number));
        for x in (first..first + count).filter(|_| number != 0.0) {
            self.line(format_args!("add ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f {number_text}"));
        }
    }

    /// Packed elements become the floats of so many registers.
    pub(super) fn unpack(&mut self, from: usize, (to, count): (usize, usize), element: Element) {
        let (n, kind) = (self.lanes(), element.name());
        for part in 0..count {
            let (register, at) = self.packed(from, part, element);
            let to = to + part;
            self.line(format_args!("mov ({n}|M0) r{to}.0<1>:f r{register}.{at}<1;1,0>:{kind}"));
        }
    }

    /// The floats of so many registers become packed elements: codes are whole numbers already.
    pub(super) fn pack(&mut self, (from, count): (usize, usize), to: usize, element: Element) {
        let (n, kind) = (self.lanes(), element.name());
        let codes = element.bytes() == 1;
        for x in (from..from + count).filter(|_| codes) {
            self.line(format_args!("mov ({n}|M0) (sat)r{x}.0<4>:{kind} r{x}.0<1;1,0>:f"));
        }
        for part in 0..count {
            let (register, at) = self.packed(to, part, element);
            let (x, source) = match codes {
                true => (from + part, format!("<4;1,0>:{kind}")),
                false => (from + part, "<1;1,0>:f".to_owned()),
            };
            self.line(format_args!("mov ({n}|M0) r{register}.{at}<1>:{kind} r{x}.0{source}"));
        }
    }

    /// Register and element at which a part of packed elements begins.
    fn packed(&self, first: usize, part: usize, element: Element) -> (usize, usize) {
        let (grf, size) = (self.platform.grf_bytes() as usize, element.bytes() as usize);
        let byte = part * self.lanes() * size;
        (first + byte / grf, byte % grf / size)
    }

    /// Ends the thread.
    pub(super) fn finish(mut self) -> Written {
        let (lanes, last) = (self.lanes(), self.grfs - 1);
        self.line(format_args!("mov ({lanes}|M0) r{last}.0<1>:ud r0.0<1;1,0>:ud"));
        self.line(format_args!("send.gtwy (1|M0) null r{last} null:0 0x0 0x02000010 {{EOT}}"));
        Written { registers: self.taken(), text: self.text }
    }
}

/// Of products at several places the largest leave.
pub(super) fn is_pool(pool: [(usize, usize); 2]) -> bool {
    pool.iter().any(|&(count, _)| count > 1)
}

/// Fills so many registers with the lowest float.
fn lowest(k: &mut Kernel, (first, count): (usize, usize)) {
    let (n, low) = (k.lanes(), float(f32::NEG_INFINITY));
    for x in first..first + count {
        k.line(format_args!("mov ({n}|M0) r{x}.0<1>:f {low}"));
    }
}

/// What is added to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offset {
    /// So many bytes.
    Bytes(i64),
    /// A dword of a register, without a sign.
    Scalar {
        /// The register.
        register: usize,
        /// The dword.
        at: usize,
    },
}

impl std::fmt::Display for Offset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Offset::Bytes(bytes) => write!(f, "{bytes}:d"),
            Offset::Scalar { register, at } => write!(f, "r{register}.{at}<0;1,0>:ud"),
        }
    }
}

/// The part of the result that a thread computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    /// Blocks of eight rows.
    pub(super) rows: usize,
    /// Blocks of as many columns as there are lanes.
    pub(super) columns: usize,
}

/// Where things lie in the constants of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Map {
    /// The payloads of matrices.
    pub(super) payloads: usize,
    /// For every lane of a load, its bytes within a row; a register.
    pub(super) lanes_in: usize,
    /// The same of a store.
    pub(super) lanes_out: usize,
    /// Addends of the columns.
    pub(super) addends: usize,
    /// Factors of the columns: high, low, bias.
    pub(super) factors: [usize; 3],
    /// Offsets of the rows in the operands.
    pub(super) rows_in: [usize; 2],
    /// Offsets of the rows in the result.
    pub(super) rows_out: usize,
    /// Weights.
    pub(super) weights: usize,
}

/// How codes leave: zero, ends as differences from it, a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leave {
    pub(super) zero: i32,
    pub(super) ends: [i32; 2],
    pub(super) signed: bool,
}

impl Leave {
    /// The type of the codes.
    pub(super) fn element(self) -> Element {
        if self.signed { Element::B } else { Element::Ub }
    }

    /// Keeps differences of codes in registers between the ends, where the type alone does not, and adds
    /// the zero.
    pub(super) fn write(self, kernel: &mut Kernel, registers: &[usize]) {
        let range = if self.signed { [-128, 127] } else { [0, 255] };
        let [low, high] = self.ends;
        for (end, own, condition) in [(low, range[0], "ge"), (high, range[1], "lt")] {
            if end + self.zero != own {
                kernel.limit(registers, condition, end as f32);
            }
        }
        for &r in registers {
            kernel.add_number((r, 1), self.zero as f32);
        }
    }
}

/// How floats leave: kept between two ends, then rounded to a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LeaveFloats {
    pub(super) ends: [f32; 2],
    pub(super) element: Element,
}

impl LeaveFloats {
    /// Keeps the floats of registers between the ends.
    pub(super) fn write(self, kernel: &mut Kernel, registers: &[usize]) {
        for (end, condition) in self.ends.into_iter().zip(["ge", "lt"]) {
            if end.is_finite() {
                kernel.limit(registers, condition, end);
            }
        }
    }
}

/// A float as an immediate operand.
pub(super) fn float(value: f32) -> String {
    format!("{:#010x}:f", value.to_bits())
}
