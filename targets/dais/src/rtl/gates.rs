//! Logic bit by bit: conjunctions and exclusive disjunctions of two bits, each of which is there
//! once. What is known or the same is folded away.

use rustc_hash::FxHashMap;

/// A bit of a graph, or its inverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Literal(u32);

impl Literal {
    pub(super) const ZERO: Literal = Literal(0);
    pub(super) const ONE: Literal = Literal(1);

    pub(super) fn of(node: usize) -> Literal {
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

/// A graph of gates.
#[derive(Debug)]
pub(super) struct Gates {
    pub(super) nodes: Vec<Gate>,
    known: FxHashMap<Gate, Literal>,
}

impl Gates {
    /// A graph with so many leaves, the nodes from 1 on.
    pub(super) fn new(leaves: usize) -> Gates {
        Gates { nodes: vec![Gate::Leaf; 1 + leaves], known: FxHashMap::default() }
    }

    /// So many leaves more.
    pub(super) fn leaves(&mut self, count: usize) {
        self.nodes.resize(self.nodes.len() + count, Gate::Leaf);
    }

    /// The operands of the live ones among these gates are live.
    pub(super) fn mark(&self, range: std::ops::Range<usize>, live: &mut [bool]) {
        for node in range.rev() {
            if let (true, Gate::And(a, b) | Gate::Xor(a, b)) = (live[node], self.nodes[node]) {
                live[a.node()] = true;
                live[b.node()] = true;
            }
        }
    }

    fn gate(&mut self, gate: Gate) -> Literal {
        let next = Literal::of(self.nodes.len());
        let found = *self.known.entry(gate).or_insert(next);
        if found == next {
            self.nodes.push(gate);
        }
        found
    }

    pub(super) fn and(&mut self, a: Literal, b: Literal) -> Literal {
        match (a.min(b), a.max(b)) {
            (Literal::ZERO, _) => Literal::ZERO,
            (Literal::ONE, b) => b,
            (a, b) if a == b => a,
            (a, b) if a == !b => Literal::ZERO,
            (a, b) => self.gate(Gate::And(a, b)),
        }
    }

    pub(super) fn or(&mut self, a: Literal, b: Literal) -> Literal {
        !self.and(!a, !b)
    }

    pub(super) fn xor(&mut self, a: Literal, b: Literal) -> Literal {
        let invert = a.is_inverse() != b.is_inverse();
        let plain = |x: Literal| x.inverted_if(x.is_inverse());
        let found = match (plain(a.min(b)), plain(a.max(b))) {
            (a, b) if a == b => Literal::ZERO,
            (Literal::ZERO, b) => b,
            (a, b) => self.gate(Gate::Xor(a, b)),
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
        let (chosen, other) = (self.and(condition, set), self.and(!condition, clear));
        self.or(chosen, other)
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
}
