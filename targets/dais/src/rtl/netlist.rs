//! A module as cells and nets. Both printers, the evaluation and the estimate of its size are
//! made from this form; it is the only place where a cell is defined.
//!
//! A net is a row of bits without a sign: signs are extended by wires before they meet a cell, so
//! that no language's rules about signed expressions matter.

pub use super::wires::{Bit, NetId, Piece, Wires};
use quincunx_num::{Int, power_of_two};
use rustc_hash::FxHashMap;

/// What drives a net. Operands have the width of the result unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cell {
    /// The bits that enter the module; net 0 only.
    Port,
    /// The bits themselves.
    Wires(Wires),
    /// The low bits of the sum.
    Add(Wires, Wires),
    /// The low bits of the difference.
    Subtract(Wires, Wires),
    /// The whole product, as wide as both factors together.
    Multiply {
        /// First factor.
        a: Wires,
        /// Second factor.
        b: Wires,
        /// Both are in two's complement; else both are numbers from 0 on.
        signed: bool,
    },
    /// Every bit inverted.
    Not(Wires),
    /// Conjunction bit by bit.
    And(Wires, Wires),
    /// Disjunction bit by bit.
    Or(Wires, Wires),
    /// Exclusive disjunction bit by bit.
    Xor(Wires, Wires),
    /// One bit: whether any bit of the operand, of any width, is set.
    Any(Wires),
    /// One bit: whether all bits of the operand, of any width, are set.
    All(Wires),
    /// `set` if the condition is 1, else `clear`.
    Select {
        /// One bit.
        condition: Wires,
        /// Taken if it is set.
        set: Wires,
        /// Taken if it is clear.
        clear: Wires,
    },
    /// The entry of a table that the operand, of the table's width, is the number of.
    Rom {
        /// The table.
        rom: usize,
        /// Which entry.
        index: Wires,
    },
}

impl Cell {
    /// The same for all cells that differ in the order of operands that does not matter.
    fn normal(self) -> Cell {
        match self {
            Cell::Add(a, b) if b < a => Cell::Add(b, a),
            Cell::And(a, b) if b < a => Cell::And(b, a),
            Cell::Or(a, b) if b < a => Cell::Or(b, a),
            Cell::Xor(a, b) if b < a => Cell::Xor(b, a),
            Cell::Multiply { a, b, signed } if b < a => Cell::Multiply { a: b, b: a, signed },
            other => other,
        }
    }

    /// The operands.
    pub fn operands(&self) -> impl Iterator<Item = &Wires> {
        let list: [Option<&Wires>; 3] = match self {
            Cell::Port => [None; 3],
            Cell::Wires(x) | Cell::Not(x) | Cell::Any(x) | Cell::All(x) => [Some(x), None, None],
            Cell::Rom { index, .. } => [Some(index), None, None],
            Cell::Add(a, b)
            | Cell::Subtract(a, b)
            | Cell::And(a, b)
            | Cell::Or(a, b)
            | Cell::Xor(a, b)
            | Cell::Multiply { a, b, .. } => [Some(a), Some(b), None],
            Cell::Select { condition, set, clear } => [Some(condition), Some(set), Some(clear)],
        };
        list.into_iter().flatten()
    }
}

/// What a net is called, and why it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// The port.
    Port,
    /// The result of an operation of the program.
    Slot(u32),
    /// A step on the way to it, numbered.
    Step(u32, u32),
    /// A step on the way to an output, numbered.
    Output(u32, u32),
}

/// Bits with what drives them.
#[derive(Clone, Debug)]
pub struct Net {
    /// Number of bits, at least 1 except for the port.
    pub width: u32,
    /// What drives it.
    pub cell: Cell,
    /// What it is called.
    pub name: Name,
}

/// A table of numbers that wires choose from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rom {
    /// Bits of the number of an entry, at least 1.
    pub index_width: u32,
    /// Bits of an entry, at least 1.
    pub width: u32,
    /// The entries, `2^index_width` numbers of which only the low `width` bits count.
    pub entries: Vec<i32>,
}

impl Rom {
    /// The bits of an entry as a number from 0 on.
    pub fn entry(&self, index: usize) -> Int {
        let value = self.entries.get(index).copied().unwrap_or(0);
        super::wires::low_bits(&Int::from(value), self.width)
    }
}

/// A combinational module.
#[derive(Clone, Debug)]
pub struct Netlist {
    nets: Vec<Net>,
    roms: Vec<Rom>,
    outputs: Vec<Wires>,
}

impl Netlist {
    /// The nets; each reads earlier ones only. Net 0 is the port.
    pub fn nets(&self) -> &[Net] {
        &self.nets
    }

    /// The tables.
    pub fn roms(&self) -> &[Rom] {
        &self.roms
    }

    /// The bits that leave the module, output by output, the first one lowest.
    pub fn outputs(&self) -> &[Wires] {
        &self.outputs
    }

    /// Number of bits that enter.
    pub fn input_width(&self) -> u32 {
        self.nets[0].width
    }

    /// Number of bits that leave.
    pub fn output_width(&self) -> u32 {
        self.outputs.iter().map(Wires::width).sum()
    }

    /// All outputs as one row of bits.
    pub fn output(&self) -> Wires {
        self.outputs.iter().fold(Wires::none(), |wires, output| wires.below(output))
    }

    /// For every net whether an output depends on it.
    pub fn live(&self) -> Vec<bool> {
        let mut live = vec![false; self.nets.len()];
        self.outputs.iter().for_each(|wires| mark(wires, &mut live));
        for index in (0..self.nets.len()).rev() {
            if live[index] {
                self.nets[index].cell.operands().for_each(|wires| mark(wires, &mut live));
            }
        }
        live
    }
}

fn mark(wires: &Wires, live: &mut [bool]) {
    for piece in wires.pieces() {
        match piece {
            Piece::Bits { net, .. } | Piece::Repeat { net, .. } => live[net.index()] = true,
            Piece::Constant { .. } => {}
        }
    }
}

/// Makes a netlist. A cell that computes nothing becomes wires, and a cell that is there already is
/// used again.
#[derive(Debug)]
pub struct Builder {
    nets: Vec<Net>,
    roms: Vec<Rom>,
    known_cells: FxHashMap<Cell, NetId>,
    known_roms: FxHashMap<Rom, usize>,
    /// What the next nets are steps of, and how many there are.
    owner: Name,
    steps: u32,
}

impl Builder {
    /// An empty module that so many bits enter.
    pub fn new(input_width: u32) -> Builder {
        let port = Net { width: input_width, cell: Cell::Port, name: Name::Port };
        Builder {
            nets: vec![port],
            roms: Vec::new(),
            known_cells: FxHashMap::default(),
            known_roms: FxHashMap::default(),
            owner: Name::Port,
            steps: 0,
        }
    }

    /// The nets from here on are steps towards this.
    pub fn begin(&mut self, owner: Name) {
        self.owner = owner;
        self.steps = 0;
    }

    /// The module with these outputs.
    pub fn finish(self, outputs: Vec<Wires>) -> Netlist {
        Netlist { nets: self.nets, roms: self.roms, outputs }
    }

    fn net(&mut self, width: u32, cell: Cell, name: Name) -> Wires {
        let id = NetId(self.nets.len() as u32);
        self.nets.push(Net { width, cell, name });
        Wires::of_net(id, width)
    }

    /// A net that a cell drives; not for known bits or none.
    fn cell(&mut self, width: u32, cell: Cell) -> Wires {
        let key = cell.clone().normal();
        if let Some(&id) = self.known_cells.get(&key) {
            return Wires::of_net(id, width);
        }
        let name = match self.owner {
            Name::Slot(slot) => Name::Step(slot, self.steps),
            Name::Output(output, _) => Name::Output(output, self.steps),
            other => other,
        };
        self.steps += 1;
        self.known_cells.insert(key, NetId(self.nets.len() as u32));
        self.net(width, cell, name)
    }

    /// The bits under the name of a slot, unless they are known. If they are the last step towards
    /// it, that net takes the name.
    pub fn named(&mut self, slot: u32, wires: Wires) -> Wires {
        if wires.known().is_some() {
            return wires;
        }
        let name = Name::Slot(slot);
        if let [Piece::Bits { net, low: 0, width }] = wires.pieces()
            && let Some(found) = self.nets.get_mut(net.index())
            && found.width == *width
            && matches!(found.name, Name::Step(owner, _) if owner == slot)
        {
            found.name = name;
            return wires;
        }
        self.net(wires.width(), Cell::Wires(wires), name)
    }

    /// The low bits of `a + b`, which are equally wide.
    pub fn add(&mut self, a: Wires, b: Wires) -> Wires {
        let width = a.width();
        match (a.known(), b.known()) {
            (Some(x), Some(y)) => Wires::constant(&(x + y), width),
            (_, Some(y)) if y == Int::ZERO => a,
            (Some(x), _) if x == Int::ZERO => b,
            _ => self.cell(width, Cell::Add(a, b)),
        }
    }

    /// The low bits of `a - b`, which are equally wide.
    pub fn subtract(&mut self, a: Wires, b: Wires) -> Wires {
        let width = a.width();
        match (a.known(), b.known()) {
            (Some(x), Some(y)) => Wires::constant(&(x - y), width),
            (_, Some(y)) if y == Int::ZERO => a,
            _ => self.cell(width, Cell::Subtract(a, b)),
        }
    }

    /// `a * b`, as wide as both together.
    pub fn multiply(&mut self, a: Wires, b: Wires, signed: bool) -> Wires {
        let width = a.width() + b.width();
        if a.is_zero() || b.is_zero() {
            return Wires::zeros(width);
        }
        self.cell(width, Cell::Multiply { a, b, signed })
    }

    /// Every bit inverted.
    pub fn not(&mut self, x: Wires) -> Wires {
        let width = x.width();
        match x.known() {
            Some(value) => Wires::constant(&!value, width),
            None => self.cell(width, Cell::Not(x)),
        }
    }

    /// One of the three bitwise operations; `cell` and `fold` are the same one.
    pub fn bitwise(
        &mut self,
        a: Wires,
        b: Wires,
        cell: fn(Wires, Wires) -> Cell,
        fold: fn(Int, Int) -> Int,
    ) -> Wires {
        let width = a.width();
        match (a.known(), b.known()) {
            (Some(x), Some(y)) => Wires::constant(&fold(x, y), width),
            _ => self.cell(width, cell(a, b)),
        }
    }

    /// Whether any bit is set; one bit.
    pub fn any(&mut self, x: Wires) -> Wires {
        match x.known() {
            Some(value) => Wires::constant(&Int::from(u8::from(value != Int::ZERO)), 1),
            None if x.width() == 1 => x,
            None => self.cell(1, Cell::Any(x)),
        }
    }

    /// Whether all bits are set; one bit. All of no bits are.
    pub fn all(&mut self, x: Wires) -> Wires {
        let ones = power_of_two(x.width()) - Int::ONE;
        match x.known() {
            Some(value) => Wires::constant(&Int::from(u8::from(value == ones)), 1),
            None if x.width() == 1 => x,
            None => self.cell(1, Cell::All(x)),
        }
    }

    /// `set` or `clear`, which are equally wide, by one bit.
    pub fn select(&mut self, condition: Wires, set: Wires, clear: Wires) -> Wires {
        if set == clear {
            return set;
        }
        match condition.known() {
            Some(value) if value == Int::ZERO => clear,
            Some(_) => set,
            None => self.cell(set.width(), Cell::Select { condition, set, clear }),
        }
    }

    /// The entry of a table; `index` has the table's width.
    pub fn rom(&mut self, table: Rom, index: Wires) -> Wires {
        let width = table.width;
        if let Some(known) = index.known() {
            let entry = usize::try_from(&known).map_or(Int::ZERO, |index| table.entry(index));
            return Wires::constant(&entry, width);
        }
        let rom = match self.known_roms.get(&table) {
            Some(&rom) => rom,
            None => {
                let rom = self.roms.len();
                self.known_roms.insert(table.clone(), rom);
                self.roms.push(table);
                rom
            }
        };
        self.cell(width, Cell::Rom { rom, index })
    }
}
