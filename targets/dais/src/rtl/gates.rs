//! Logic bit by bit: conjunctions and exclusive disjunctions of two bits, each of which is there
//! once. What is known or the same is folded away.

use rustc_hash::FxHashMap;

/// A bit of a graph, or its inverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Literal(u32);

impl Literal {
    pub(super) const ZERO: Literal = Literal(0);
    pub(super) const ONE: Literal = Literal(1);

    fn of(node: usize) -> Literal {
        Literal((node as u32) << 1)
    }

    pub(super) fn known(value: bool) -> Literal {
        Literal(value.into())
    }

    pub(super) fn node(self) -> usize {
        (self.0 >> 1) as usize
    }

    pub(super) fn is_inverse(self) -> bool {
        self.0 & 1 == 1
    }

    pub(super) fn is_known(self) -> bool {
        self.node() == 0
    }

    /// The inverse if so, else the bit itself.
    pub(super) fn inverted_if(self, invert: bool) -> Literal {
        Literal(self.0 ^ u32::from(invert))
    }
}

impl std::ops::Not for Literal {
    type Output = Literal;

    fn not(self) -> Literal {
        self.inverted_if(true)
    }
}

/// What makes a bit. Operands are earlier nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Gate {
    /// A bit that comes from elsewhere; node 0 is the known one.
    Leaf,
    And(Literal, Literal),
    Xor(Literal, Literal),
}

#[derive(Debug)]
pub(super) struct Gates {
    pub(super) nodes: Vec<Gate>,
    known: FxHashMap<Gate, u32>,
}

impl Gates {
    pub(super) fn new() -> Gates {
        Gates { nodes: vec![Gate::Leaf], known: FxHashMap::default() }
    }

    pub(super) fn leaf(&mut self) -> Literal {
        self.nodes.push(Gate::Leaf);
        Literal::of(self.nodes.len() - 1)
    }

    /// The operands of the live ones among these gates are live.
    pub(super) fn mark(&self, range: std::ops::Range<usize>, live: &mut [bool]) {
        for node in range.rev().filter(|&node| node > 0) {
            if let (true, Gate::And(a, b) | Gate::Xor(a, b)) = (live[node], self.nodes[node]) {
                live[a.node()] = true;
                live[b.node()] = true;
            }
        }
    }

    fn gate(&mut self, gate: Gate) -> Literal {
        let next = self.nodes.len() as u32;
        let node = *self.known.entry(gate).or_insert(next);
        if node == next {
            self.nodes.push(gate);
        }
        Literal(node << 1)
    }

    pub(super) fn and(&mut self, a: Literal, b: Literal) -> Literal {
        let (a, b) = (a.min(b), a.max(b));
        match (a, b) {
            (Literal::ZERO, _) => return Literal::ZERO,
            (Literal::ONE, _) => return b,
            _ if a == b => return a,
            _ if a == !b => return Literal::ZERO,
            _ => {}
        }
        for (x, y) in [(a, b), (b, a)] {
            // Of `x & (p & q)` or `x & !(p & q)` where x is an operand already.
            if let Gate::And(p, q) = self.nodes[y.node()] {
                let other = if p == x { Some(q) } else { (q == x).then_some(p) };
                match (other, y.is_inverse()) {
                    (Some(_), false) => return y,
                    (Some(other), true) => return self.and(x, !other),
                    (None, false) if p == !x || q == !x => return Literal::ZERO,
                    (None, true) if p == !x || q == !x => return x,
                    _ => {}
                }
            }
        }
        self.gate(Gate::And(a, b))
    }

    pub(super) fn or(&mut self, a: Literal, b: Literal) -> Literal {
        !self.and(!a, !b)
    }

    pub(super) fn xor(&mut self, a: Literal, b: Literal) -> Literal {
        let invert = a.is_inverse() != b.is_inverse();
        let plain = |x: Literal| x.inverted_if(x.is_inverse());
        let (a, b) = (plain(a.min(b)), plain(a.max(b)));
        let found = if a == b {
            Literal::ZERO
        } else if a == Literal::ZERO {
            b
        } else {
            self.gate(Gate::Xor(a, b))
        };
        found.inverted_if(invert)
    }

    /// `set` if the condition is 1, else `clear`.
    pub(super) fn select(&mut self, condition: Literal, set: Literal, clear: Literal) -> Literal {
        if set == clear {
            return set;
        }
        if set == !clear {
            return self.xor(condition, clear);
        }
        let (set, clear) = (self.and(condition, set), self.and(!condition, clear));
        self.or(set, clear)
    }

    /// Whether all bits are set, as a tree of few levels.
    pub(super) fn all(&mut self, bits: &[Literal]) -> Literal {
        match bits {
            [] => Literal::ONE,
            [only] => *only,
            _ => {
                let (low, high) = bits.split_at(bits.len().div_ceil(2));
                let (low, high) = (self.all(low), self.all(high));
                self.and(low, high)
            }
        }
    }

    /// The sum of three bits and what is carried.
    pub(super) fn full_adder(&mut self, [a, b, c]: [Literal; 3]) -> (Literal, Literal) {
        let half = self.xor(a, b);
        let carry = self.select(half, c, a);
        (self.xor(half, c), carry)
    }
}
