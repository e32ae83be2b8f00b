//! What sums become before they leave: codes or floats, packed into rows.

use super::super::requantise::{EVEN, Steps};
use super::{Kernel, Leave, LeaveFloats, Term, Tile, float};
use crate::arch::Platform;
use crate::program::Element;

/// How sums leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum End {
    /// As they are.
    Sums,
    /// As codes; those of the product may be added to others before.
    Codes(Steps, Option<Sum>, Leave),
    /// As floats; others may be added before.
    Floats(Scaling, Option<FloatSum>, LeaveFloats),
}

/// What sums of floats are multiplied with before all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Scaling {
    /// Nothing.
    None,
    /// The first factor.
    Factors,
    /// It, and the bias is added with the same rounding.
    Biases,
}

/// The sum of a product's codes and those of another value, whose packed rows lie where the result's
/// will.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Sum {
    /// Ends of the product's own codes, as differences from their zero.
    pub(in super::super) ends: [i32; 2],
    /// Their factor.
    pub(in super::super) own: f32,
    pub(in super::super) other: Term,
    /// The product is the second operand: the first one is multiplied, the second one multiplied and
    /// added at once.
    pub(in super::super) is_second: bool,
}

/// The sum of a product's floats, as they would have been stored, and those of another value of the
/// result's type, whose packed rows lie where the result's will.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct FloatSum {
    /// The product's own ends.
    pub(in super::super) ends: [f32; 2],
    /// The product is the second operand.
    pub(in super::super) is_second: bool,
}

impl End {
    /// Another value is added.
    pub(super) fn adds(self) -> bool {
        matches!(self, End::Codes(_, Some(_), _) | End::Floats(_, Some(_), _))
    }

    /// Operands of the kernel: A and what is added.
    pub(super) fn operands(self) -> usize {
        1 + usize::from(self.adds())
    }

    /// Bytes of an element.
    pub(super) fn size(self) -> usize {
        match self {
            End::Sums => 4,
            End::Codes(..) => 1,
            End::Floats(.., leave) => leave.element.bytes() as usize,
        }
    }

    /// Which of the factors it needs.
    pub(super) fn factors(self) -> [bool; 3] {
        match self {
            End::Sums => [false; 3],
            End::Codes(steps, ..) => [true, steps == Steps::Corrected, true],
            End::Floats(scaling, ..) => {
                [scaling != Scaling::None, false, scaling == Scaling::Biases]
            }
        }
    }

    /// Elements leave from where the sums are.
    pub(super) fn stays(self) -> bool {
        self.size() == 4
    }
}

/// The sums of a tile, column block by column block, a register for every row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    pub(super) first: usize,
    /// Registers from one column block to the next.
    pub(super) stride: usize,
    pub(super) tile: Tile,
}

impl Sums {
    /// Rows of the tile.
    pub(super) fn rows(self) -> usize {
        8 * self.tile.rows
    }

    /// The register of a row of a column block.
    pub(super) fn at(self, column: usize, row: usize) -> usize {
        self.first + column * self.stride + row
    }

    /// Registers that rows of so many packed bytes take.
    pub(super) fn packed(self, width: usize, platform: Platform) -> usize {
        (self.rows() * width).div_ceil(platform.grf_bytes() as usize)
    }
}

/// Registers in which sums are converted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// Factors of the columns: high, low, bias.
    pub(super) factors: usize,
    /// Two blocks of registers for so many rows, which divide those of the tile.
    pub(super) temporaries: [usize; 2],
    pub(super) batch: usize,
    /// Packed rows, for so many column blocks beside each other; then the next ones.
    pub(super) packed: usize,
    pub(super) columns: usize,
}

impl Places {
    /// Register and element at which a packed row of a column block begins.
    fn at(
        self,
        k: &Kernel,
        sums: Sums,
        (column, row): (usize, usize),
        size: usize,
    ) -> (usize, usize) {
        let (n, grf) = (k.lanes(), k.platform.grf_bytes() as usize);
        let width = self.columns * n * size;
        let byte = row * width + column % self.columns * n * size;
        let first = self.packed + column / self.columns * sums.packed(width, k.platform);
        (first + byte / grf, byte % grf / size)
    }

    /// The registers of the sums of column blocks and rows, each with a temporary one.
    fn rows(
        self,
        sums: Sums,
        batch: &[(usize, usize)],
    ) -> impl Iterator<Item = (usize, usize)> + '_ {
        let registers = batch.iter().map(move |&(column, row)| sums.at(column, row));
        registers.zip(self.temporaries[0]..)
    }

    /// Packed elements of column blocks and rows become floats in the temporary registers.
    fn unpack(self, k: &mut Kernel, sums: Sums, (batch, element): (&[(usize, usize)], Element)) {
        let (n, kind) = (k.lanes(), element.name());
        for (&place, (_, t)) in batch.iter().zip(self.rows(sums, batch)) {
            let (from, at) = self.at(k, sums, place, element.bytes() as usize);
            k.line(format_args!("mov ({n}|M0) r{t}.0<1>:f r{from}.{at}<1;1,0>:{kind}"));
        }
    }
}

/// Sums become packed elements.
pub(super) fn convert(k: &mut Kernel, end: End, sums: Sums, places: Places) {
    finish(k, end, sums, places);
    pack(k, end, sums, places);
}

/// Sums become floats: those that leave, or codes. An instruction is written for all rows before the
/// next one: each then has its operands when it starts.
pub(super) fn finish(k: &mut Kernel, end: End, sums: Sums, places: Places) {
    let n = k.lanes();
    let Tile { columns, .. } = sums.tile;
    let all: Vec<usize> =
        pairs(columns, sums.rows()).map(|(column, row)| sums.at(column, row)).collect();
    let factor = |which: usize, column: usize| places.factors + which * columns + column;
    match end {
        End::Sums => {}
        End::Codes(steps, sum, leave) => {
            for &x in &all {
                k.line(format_args!("mov ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:d"));
            }
            for column in 0..columns {
                let factors = [0, 1, 2].map(|which| factor(which, column));
                let (first, rows) = (sums.at(column, 0), sums.rows());
                match steps {
                    Steps::Plain => plain(k, factors, first..first + rows),
                    Steps::Corrected => {
                        for batch in (first..first + rows).step_by(places.batch) {
                            corrected(k, factors, (batch, places.batch), places.temporaries);
                        }
                    }
                }
            }
            if let Some(sum) = sum {
                add(k, sum, sums, places);
            }
            leave.write(k, &all);
        }
        End::Floats(scaling, sum, leave) => {
            for (column, row) in pairs(columns, sums.rows()) {
                let (x, high, bias) = (sums.at(column, row), factor(0, column), factor(2, column));
                match scaling {
                    Scaling::None => {}
                    Scaling::Factors => k.line(format_args!(
                        "mul ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f r{high}.0<1;1,0>:f"
                    )),
                    Scaling::Biases => k.line(format_args!(
                        "mad ({n}|M0) r{x}.0<1>:f r{bias}.0<1;0>:f r{x}.0<1;0>:f r{high}.0<1>:f"
                    )),
                }
            }
            if let Some(sum) = sum {
                add_floats(k, (sum, leave), sums, places);
            }
            leave.write(k, &all);
        }
    }
}

fn pairs(columns: usize, rows: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..columns).flat_map(move |column| (0..rows).map(move |row| (column, row)))
}

/// Sums in f32 become differences of codes from zero.
fn plain(k: &mut Kernel, [high, _, bias]: [usize; 3], rows: std::ops::Range<usize>) {
    let n = k.lanes();
    for x in rows.clone() {
        k.line(format_args!(
            "mad ({n}|M0) r{x}.0<1>:f r{bias}.0<1;0>:f r{x}.0<1;0>:f r{high}.0<1>:f"
        ));
    }
    for x in rows {
        k.line(format_args!("rnde ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f"));
    }
}

/// The same for so many rows, with a look at what rounding has left.
fn corrected(
    k: &mut Kernel,
    [high, low, bias]: [usize; 3],
    (x, rows): (usize, usize),
    [q, e]: [usize; 2],
) {
    let n = k.lanes();
    let mut each = |line: &dyn Fn(usize, usize, usize) -> String| {
        for row in 0..rows {
            k.line(line(x + row, q + row, e + row));
        }
    };
    let mad = |to: usize, [a, b, c]: [String; 3]| {
        format!("mad ({n}|M0) r{to}.0<1>:f {a}.0<1;0>:f {b}.0<1;0>:f {c}.0<1>:f")
    };
    let r = |register: usize| format!("r{register}");
    let round = |to: usize| format!("rnde ({n}|M0) r{to}.0<1>:f r{to}.0<1;1,0>:f");
    let add = |to: usize, a: usize, b: usize| {
        format!("add ({n}|M0) r{to}.0<1>:f r{a}.0<1;1,0>:f r{b}.0<1;1,0>:f")
    };
    let shift =
        |to: usize, by: f32| format!("add ({n}|M0) r{to}.0<1>:f r{to}.0<1;1,0>:f {}", float(by));
    each(&|x, q, _| mad(q, [r(bias), r(x), r(high)]));
    each(&|_, q, _| shift(q, EVEN));
    each(&|_, q, _| shift(q, -EVEN));
    each(&|x, q, e| mad(e, [format!("-r{q}"), r(x), r(high)]));
    each(&|x, _, e| mad(e, [r(e), r(x), r(low)]));
    each(&|_, _, e| add(e, e, bias));
    each(&|_, _, e| round(e));
    each(&|x, q, e| add(x, q, e));
}

/// Adds codes to those of sums, as [`super::add()`] does.
fn add(k: &mut Kernel, sum: Sum, sums: Sums, places: Places) {
    let n = k.lanes();
    let all: Vec<(usize, usize)> = pairs(sums.tile.columns, sums.rows()).collect();
    let registers: Vec<usize> = all.iter().map(|&(column, row)| sums.at(column, row)).collect();
    for (end, condition) in sum.ends.into_iter().zip(["ge", "lt"]) {
        k.limit(&registers, condition, end as f32);
    }
    let (temporaries, factor) = (places.temporaries[0], places.temporaries[1]);
    let [first, second] = match sum.is_second {
        true => [sum.other.factor, sum.own],
        false => [sum.own, sum.other.factor],
    };
    k.line(format_args!("mov ({n}|M0) r{factor}.0<1>:f {}", float(second)));
    for batch in all.chunks(places.batch) {
        let rows = || places.rows(sums, batch);
        places.unpack(k, sums, (batch, sum.other.element));
        k.add_number((temporaries, batch.len()), -sum.other.zero as f32);
        for (x, t) in rows() {
            let a = if sum.is_second { t } else { x };
            k.line(format_args!("mul ({n}|M0) r{a}.0<1>:f r{a}.0<1;1,0>:f {}", float(first)));
        }
        for (x, t) in rows() {
            let [a, b] = if sum.is_second { [t, x] } else { [x, t] };
            k.line(format_args!(
                "mad ({n}|M0) r{x}.0<1>:f r{a}.0<1;0>:f r{b}.0<1;0>:f r{factor}.0<1>:f"
            ));
        }
        for (x, _) in rows() {
            k.line(format_args!("rnde ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f"));
        }
    }
}

/// Adds floats to those of sums, which are rounded to the type in which they would be stored before.
fn add_floats(k: &mut Kernel, (sum, leave): (FloatSum, LeaveFloats), sums: Sums, places: Places) {
    let (n, kind) = (k.lanes(), leave.element.name());
    let all: Vec<(usize, usize)> = pairs(sums.tile.columns, sums.rows()).collect();
    let registers: Vec<usize> = all.iter().map(|&(column, row)| sums.at(column, row)).collect();
    LeaveFloats { ends: sum.ends, ..leave }.write(k, &registers);
    for batch in all.chunks(places.batch) {
        let rows = || places.rows(sums, batch);
        for (x, t) in rows() {
            k.line(format_args!("mov ({n}|M0) r{t}.0<1>:{kind} r{x}.0<1;1,0>:f"));
        }
        for (x, t) in rows() {
            k.line(format_args!("mov ({n}|M0) r{x}.0<1>:f r{t}.0<1;1,0>:{kind}"));
        }
        places.unpack(k, sums, (batch, leave.element));
        for (x, t) in rows() {
            let [a, b] = if sum.is_second { [t, x] } else { [x, t] };
            k.line(format_args!("add ({n}|M0) r{x}.0<1>:f r{a}.0<1;1,0>:f r{b}.0<1;1,0>:f"));
        }
    }
}

/// Keeps the larger floats of sums and of others in the place of these.
pub(super) fn larger(k: &mut Kernel, sums: Sums, best: Sums) {
    let n = k.lanes();
    for (column, row) in pairs(sums.tile.columns, sums.rows()) {
        let (x, y) = (best.at(column, row), sums.at(column, row));
        k.line(format_args!("sel ({n}|M0) (ge)f0.0 r{x}.0<1>:f r{x}.0<1;1,0>:f r{y}.0<1;1,0>:f"));
    }
}

/// Packs floats into rows of column blocks, unless they leave from where they are.
pub(super) fn pack(k: &mut Kernel, end: End, sums: Sums, places: Places) {
    let n = k.lanes();
    if end.stays() {
        return;
    }
    if let End::Codes(.., leave) = end {
        for (column, row) in pairs(sums.tile.columns, sums.rows()) {
            let (x, bytes) = (sums.at(column, row), leave.element().name());
            k.line(format_args!("mov ({n}|M0) (sat)r{x}.0<4>:{bytes} r{x}.0<1;1,0>:f"));
        }
    }
    for (column, row) in pairs(sums.tile.columns, sums.rows()) {
        let (to, at) = places.at(k, sums, (column, row), end.size());
        let from = sums.at(column, row);
        match end {
            End::Floats(.., leave) => {
                let kind = leave.element.name();
                k.line(format_args!("mov ({n}|M0) r{to}.{at}<1>:{kind} r{from}.0<1;1,0>:f"));
            }
            End::Codes(.., leave) => {
                let kind = leave.element().name();
                k.line(format_args!("mov ({n}|M0) r{to}.{at}<1>:{kind} r{from}.0<4;1,0>:{kind}"));
            }
            End::Sums => {}
        }
    }
}
