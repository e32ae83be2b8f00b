//! LUTs, carry chains and flip-flops that a design takes on an FPGA with 6-input LUTs, without a
//! synthesis tool. `docs/machines/dais.md` has the error against Yosys.
//!
//! Adders, products and registers are what Yosys makes of them; all other logic becomes gates, which
//! `mapping.rs` covers with LUTs.

use super::Design;
use super::logic::Logic;
use quincunx_report::{Column, Table};

/// What a design takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// LUTs.
    pub luts: u64,
    /// Blocks of four carry bits.
    pub carries: u64,
    /// Flip-flops.
    pub flip_flops: u64,
    /// Multiplier blocks of 25 by 18 bits.
    pub multipliers: u64,
}

impl Estimate {
    /// The estimate of a design with so many registers at every boundary.
    pub fn of(design: &Design, registers: u32) -> Estimate {
        let (registers_within, state) = match u64::from(design.state_width()) {
            0 => (registers, 0),
            state => (0, state + u64::from(registers) * u64::from(design.output_width())),
        };
        let mut sum = Logic::count(design, registers_within);
        sum.flip_flops += state;
        sum
    }
}

impl Estimate {
    /// The estimate as a table of one row.
    pub(crate) fn table(&self) -> Table {
        let columns = ["LUT", "CARRY4", "FF", "DSP"].map(Column::number).to_vec();
        let mut table = Table::new("logic_estimate", columns);
        table.push(vec![
            self.luts.into(),
            self.carries.into(),
            self.flip_flops.into(),
            self.multipliers.into(),
        ]);
        table
    }
}
