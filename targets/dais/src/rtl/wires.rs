//! Wires: bits of nets in some order. Slices, shifts, extensions and constants cost no logic, so
//! they are not cells; every operand of a cell is such a list.

use quincunx_num::{Int, power_of_two};

/// A net of a netlist, by its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetId(pub u32);

impl NetId {
    /// The bits that enter the module.
    pub const PORT: NetId = NetId(0);

    /// Its place in the list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Some neighbouring bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Piece {
    /// Bits `low .. low + width` of a net.
    Bits {
        /// The net.
        net: NetId,
        /// Its lowest bit that is taken.
        low: u32,
        /// Number of bits, at least 1.
        width: u32,
    },
    /// One bit of a net, `count` times.
    Repeat {
        /// The net.
        net: NetId,
        /// The bit.
        bit: u32,
        /// How often, at least 2.
        count: u32,
    },
    /// Known bits.
    Constant {
        /// The bits as a number from 0 on, below `2^width`.
        value: Int,
        /// Number of bits, at least 1.
        width: u32,
    },
}

impl Piece {
    /// Number of bits.
    pub fn width(&self) -> u32 {
        match self {
            Piece::Bits { width, .. } | Piece::Constant { width, .. } => *width,
            Piece::Repeat { count, .. } => *count,
        }
    }

    /// `width` of its bits, from bit `low` on.
    fn slice(&self, low: u32, width: u32) -> Piece {
        match self {
            Piece::Bits { net, low: first, .. } => {
                Piece::Bits { net: *net, low: first + low, width }
            }
            Piece::Repeat { net, bit, .. } if width == 1 => {
                Piece::Bits { net: *net, low: *bit, width }
            }
            Piece::Repeat { net, bit, .. } => Piece::Repeat { net: *net, bit: *bit, count: width },
            Piece::Constant { value, .. } => {
                Piece::Constant { value: low_bits(&(value >> low as usize), width), width }
            }
        }
    }
}

/// Bits side by side, the first ones lowest: numbers from 0 on with their widths. Halves are joined,
/// since adding one by one would copy the long number every time.
pub(super) fn join(parts: &[(Int, u32)]) -> Int {
    match parts {
        [] => Int::ZERO,
        [(bits, _)] => bits.clone(),
        _ => {
            let (low, high) = parts.split_at(parts.len() / 2);
            let width: usize = low.iter().map(|(_, width)| *width as usize).sum();
            join(low) + (join(high) << width)
        }
    }
}

/// The low bits of a number from 0 on.
pub(crate) fn low_bits(value: &Int, width: u32) -> Int {
    value & (power_of_two(width) - Int::ONE)
}

/// One bit of wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bit {
    /// A known one.
    Known(bool),
    /// A bit of a net.
    Of(NetId, u32),
}

/// Pieces, the least significant first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wires {
    pieces: Vec<Piece>,
}

impl Wires {
    /// No bits.
    pub fn none() -> Wires {
        Wires::default()
    }

    /// All bits of a net that is `width` wide.
    pub fn of_net(net: NetId, width: u32) -> Wires {
        Wires::default().and(Piece::Bits { net, low: 0, width })
    }

    /// The low `width` bits of a number in two's complement.
    pub fn constant(value: &Int, width: u32) -> Wires {
        Wires::default().and(Piece::Constant { value: low_bits(value, width), width })
    }

    /// So many bits that are 0.
    pub fn zeros(width: u32) -> Wires {
        Wires::constant(&Int::ZERO, width)
    }

    /// The pieces, the least significant first; neighbours are one piece where they can be.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Number of bits.
    pub fn width(&self) -> u32 {
        self.pieces.iter().map(Piece::width).sum()
    }

    /// The number, if all bits are known.
    pub fn known(&self) -> Option<Int> {
        match &self.pieces[..] {
            [] => Some(Int::ZERO),
            [Piece::Constant { value, .. }] => Some(value.clone()),
            _ => None,
        }
    }

    /// The bits, the least significant first.
    pub fn bits(&self) -> impl Iterator<Item = Bit> {
        self.pieces.iter().flat_map(|piece| {
            (0..piece.width()).map(move |at| match piece {
                Piece::Bits { net, low, .. } => Bit::Of(*net, low + at),
                Piece::Repeat { net, bit, .. } => Bit::Of(*net, *bit),
                Piece::Constant { value, .. } => {
                    Bit::Known(value >> at as usize & Int::ONE == Int::ONE)
                }
            })
        })
    }

    /// True if all bits are known to be 0.
    pub fn is_zero(&self) -> bool {
        self.known() == Some(Int::ZERO)
    }

    /// Number of low bits that are known to be 0.
    pub fn trailing_zeros(&self) -> u32 {
        match self.pieces.first() {
            Some(Piece::Constant { value, width }) => {
                { (0..*width).find(|&bit| value >> bit as usize & Int::ONE == Int::ONE) }
                    .unwrap_or(*width)
            }
            _ => 0,
        }
    }

    /// These bits with another piece above them.
    #[must_use]
    pub fn and(mut self, piece: Piece) -> Wires {
        if piece.width() == 0 {
            return self;
        }
        let merged = match (self.pieces.last(), &piece) {
            (
                Some(Piece::Bits { net, low, width }),
                Piece::Bits { net: above, low: next, width: more },
            ) if net == above && low + width == *next => {
                Some(Piece::Bits { net: *net, low: *low, width: width + more })
            }
            (
                Some(Piece::Repeat { net, bit, count }),
                Piece::Repeat { net: above, bit: other, count: more },
            ) if (net, bit) == (above, other) => {
                Some(Piece::Repeat { net: *net, bit: *bit, count: count + more })
            }
            (
                Some(Piece::Constant { value, width }),
                Piece::Constant { value: above, width: more },
            ) => Some(Piece::Constant {
                value: value + (above << *width as usize),
                width: width + more,
            }),
            _ => None,
        };
        match (merged, self.pieces.last_mut()) {
            (Some(merged), Some(last)) => *last = merged,
            _ => self.pieces.push(piece),
        }
        self
    }

    /// These bits with others above them.
    #[must_use]
    pub fn below(self, above: &Wires) -> Wires {
        above.pieces.iter().cloned().fold(self, Wires::and)
    }

    /// `width` bits from bit `low` on, all of which are there.
    #[must_use]
    pub fn slice(&self, low: u32, width: u32) -> Wires {
        let (mut at, mut taken) = (0, Wires::none());
        for piece in &self.pieces {
            let (first, end) = (low.max(at), (low + width).min(at + piece.width()));
            if first < end {
                taken = taken.and(piece.slice(first - at, end - first));
            }
            at += piece.width();
        }
        debug_assert_eq!(taken.width(), width, "bits that are not there");
        taken
    }

    /// The bits from bit `low` on.
    #[must_use]
    pub fn from(&self, low: u32) -> Wires {
        self.slice(low, self.width() - low)
    }

    /// The highest bit; none without bits.
    #[must_use]
    pub fn top(&self) -> Wires {
        match self.width() {
            0 => Wires::none(),
            width => self.slice(width - 1, 1),
        }
    }

    /// The first bit `count` times.
    #[must_use]
    pub fn repeated(&self, count: u32) -> Wires {
        if count < 2 {
            return self.slice(0, count);
        }
        match self.slice(0, 1).pieces.first() {
            Some(Piece::Bits { net, low, .. }) => {
                Wires::none().and(Piece::Repeat { net: *net, bit: *low, count })
            }
            Some(Piece::Constant { value, .. }) => Wires::constant(&-value.clone(), count),
            _ => Wires::zeros(count),
        }
    }

    /// The low `width` bits of the number that these bits are in two's complement, or without a
    /// sign. No bits are the number 0.
    #[must_use]
    pub fn fitted(&self, width: u32, signed: bool) -> Wires {
        let own = self.width();
        if width <= own {
            return self.slice(0, width);
        }
        let above = match signed && own > 0 {
            true => self.top().repeated(width - own),
            false => Wires::zeros(width - own),
        };
        self.clone().below(&above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(width: u32) -> Wires {
        Wires::of_net(NetId(3), width)
    }

    #[test]
    fn neighbours_become_one_piece() {
        let wires = net(8);
        assert_eq!(wires.slice(0, 3).below(&wires.from(3)), wires);
        let known = Wires::constant(&Int::from(5), 4).below(&Wires::constant(&Int::from(-1), 2));
        assert_eq!(known, Wires::constant(&Int::from(0x35), 6));
        assert_eq!(known.known(), Some(Int::from(0x35)));
        assert_eq!(known.slice(2, 3).known(), Some(Int::from(5)));
        assert_eq!(Wires::constant(&Int::from(40), 8).trailing_zeros(), 3);
        assert_eq!(Wires::zeros(8).below(&net(2)).trailing_zeros(), 8);
    }

    #[test]
    fn extensions_repeat_the_sign() {
        let wires = net(4).fitted(6, true);
        let sign = Piece::Repeat { net: NetId(3), bit: 3, count: 2 };
        assert_eq!(wires, net(4).and(sign));
        assert_eq!(wires.fitted(7, true).width(), 7);
        assert_eq!(wires.slice(4, 1), net(4).top());
        assert_eq!(net(4).fitted(6, false), net(4).below(&Wires::zeros(2)));
        assert_eq!(Wires::none().fitted(3, true), Wires::zeros(3));
        assert_eq!(Wires::constant(&Int::from(2), 2).fitted(4, true).known(), Some(Int::from(14)));
    }
}
