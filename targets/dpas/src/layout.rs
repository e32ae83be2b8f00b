//! The layout viewer: which element lies in which register, byte and bit.

use crate::ports::Place;
use crate::simulate::{Operation, Step};
use quincunx_report::{Cell, Column, Table};

/// Rows of the table of operands.
const MAX_ROWS: usize = 64;

/// The operands of the first products of a program: name, matrix, first and last byte.
pub(crate) fn operands(steps: &[Step], place: &dyn Fn(usize) -> Place) -> Table {
    let columns = vec![
        Column::number("instruction"),
        Column::text("operand"),
        Column::text("matrix"),
        Column::text("first"),
        Column::text("last"),
        Column::number("bytes").unit("B"),
    ];
    let mut table = Table::new("operands", columns);
    let mut rows = 0;
    for (index, step) in steps.iter().enumerate() {
        let Step::Multiply(operation) = step else { continue };
        let shape = &operation.shape;
        let (m, k, n) = (shape.repeat, shape.k(), shape.lanes);
        let mut names = vec![("dst", format!("D {m}x{n} {}", shape.dst.name()))];
        if operation.src0.is_some() {
            names.push(("src0", format!("C {m}x{n} {}", shape.src0.name())));
        }
        names.push(("src1", format!("B {k}x{n} {}", shape.weights.name())));
        names.push(("src2", format!("A {m}x{k} {}", shape.activations.name())));
        for ((operand, matrix), range) in names.into_iter().zip(operation.operand_bytes()) {
            let show = |byte: usize| {
                let Place { name, byte } = place(byte);
                format!("{name} byte {byte}")
            };
            table.push(vec![
                index.into(),
                operand.into(),
                matrix.into(),
                show(range.start).into(),
                show(range.end - 1).into(),
                range.len().into(),
            ]);
            rows += 1;
        }
        if rows >= MAX_ROWS {
            break;
        }
    }
    table
}

/// Every element of a product.
pub(crate) fn elements(operation: &Operation, place: &dyn Fn(usize) -> Place) -> Table {
    let columns = vec![
        Column::text("element"),
        Column::text("operand"),
        Column::text("register"),
        Column::number("byte"),
        Column::number("bit"),
        Column::number("bits"),
    ];
    let mut table = Table::new("layout", columns);
    for Bits { name, operand, start, bit, bits } in operand_bits(operation) {
        let Place { name: register, byte } = place(start + bit as usize / 8);
        let cells: Vec<Cell> = vec![
            name.into(),
            operand.into(),
            register.into(),
            byte.into(),
            u64::from(bit % 8).into(),
            u64::from(bits).into(),
        ];
        table.push(cells);
    }
    table
}

/// Where an element of an operand lies.
pub(crate) struct Bits {
    /// The element, such as `A[1,2]`.
    pub(crate) name: String,
    /// `dst`, `src0`, `src1` or `src2`.
    pub(crate) operand: &'static str,
    /// First byte of the operand in the registers.
    pub(crate) start: usize,
    /// First bit of the element from there on.
    pub(crate) bit: u32,
    /// Bits of the element.
    pub(crate) bits: u32,
}

/// Every element of a product: D, C, A, B.
pub(crate) fn operand_bits(operation: &Operation) -> Vec<Bits> {
    let shape = &operation.shape;
    let mut all = Vec::new();
    let mut add = |name: String, operand: &'static str, start: usize, bit: u32, bits: u32| {
        all.push(Bits { name, operand, start, bit, bits });
    };
    for r in 0..shape.repeat {
        for n in 0..shape.lanes {
            let bits = 8 * shape.dst.bytes();
            add(format!("D[{r},{n}]"), "dst", operation.dst, 8 * shape.d_byte(r, n), bits);
        }
    }
    for r in 0..shape.repeat {
        for n in 0..shape.lanes {
            let Some(src0) = operation.src0 else { continue };
            let bits = 8 * shape.src0.bytes();
            add(format!("C[{r},{n}]"), "src0", src0, 8 * shape.c_byte(r, n), bits);
        }
    }
    for r in 0..shape.repeat {
        for k in 0..shape.k() {
            let bits = shape.activations.bits();
            let own = shape.fused_bytes() * 8;
            match shape.a_bit(r, k) {
                // The second thread holds the rest from its own src2 on.
                bit if operation.fused && bit >= own => {
                    add(format!("A[{r},{k}]"), "src2, thread 1", operation.src2, bit - own, bits);
                }
                bit => add(format!("A[{r},{k}]"), "src2", operation.src2, bit, bits),
            }
        }
    }
    for k in 0..shape.k() {
        for n in 0..shape.lanes {
            let bits = shape.weights.bits();
            add(format!("B[{k},{n}]"), "src1", operation.src1, shape.b_bit(k, n), bits);
        }
    }
    // Of groups of elements along K.
    for (start, (operand, name, count)) in operation
        .scales
        .unwrap_or_default()
        .into_iter()
        .zip([("src3", "scale of B", shape.lanes), ("src4", "scale of A", shape.repeat)])
    {
        let places =
            (0..shape.k()).step_by(32).flat_map(|k| (0..count).map(move |at| (k / 32, at)));
        for (group, at) in places.filter(|_| start.is_some()) {
            let bit = 8 * (32 * group + at);
            add(format!("{name}[{group},{at}]"), operand, start.unwrap_or(0), bit, 8);
        }
    }
    all
}
