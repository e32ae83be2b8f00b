//! Goals of the search: sorted cells with what the heuristics ask of them, interned, so that a bag is
//! a list of small numbers.

use crate::goal::{Cell, Goal};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

/// How far a goal may reach from the centre; what would move further is not tried.
pub(crate) const REACH: i32 = 500;

/// Most channels.
pub(crate) const CHANNELS: u32 = 1 << 10;

/// Most atoms of a goal.
pub(crate) const ATOMS: i64 = 1 << 28;

const MIDDLE: i32 = 512;

/// A cell in one word, ordered by channel, x and y.
pub(crate) type Place = u32;

pub(crate) fn place(x: i32, y: i32, z: u32) -> Place {
    z << 20 | ((x + MIDDLE) as u32) << 10 | (y + MIDDLE) as u32
}

pub(crate) fn x_of(place: Place) -> i32 {
    (place >> 10 & 1023) as i32 - MIDDLE
}

pub(crate) fn y_of(place: Place) -> i32 {
    (place & 1023) as i32 - MIDDLE
}

pub(crate) fn z_of(place: Place) -> u32 {
    place >> 20
}

/// The place moved by (x, y).
pub(crate) fn moved(place: Place, x: i32, y: i32) -> Place {
    place.wrapping_add_signed((x << 10) + y)
}

/// The distance of a place from the centre of channel 0.
pub(crate) fn way(place: Place) -> i64 {
    i64::from(x_of(place).abs() + y_of(place).abs()) + i64::from(z_of(place))
}

/// Powers of two odd numbers modulo 2^64, from the -512th to the 511th.
struct Powers {
    x: Vec<u64>,
    y: Vec<u64>,
}

static POWERS: LazyLock<Powers> = LazyLock::new(|| {
    let powers = |base: u64| {
        // Newton's method doubles the correct bits of the inverse of an odd number.
        let step =
            |inverse: u64, _| inverse.wrapping_mul(2_u64.wrapping_sub(base.wrapping_mul(inverse)));
        let inverse = (0..6).fold(base, step);
        let start = (0..MIDDLE).fold(1_u64, |power, _| power.wrapping_mul(inverse));
        let next = |power: &u64| Some(power.wrapping_mul(base));
        std::iter::successors(Some(start), next).take(2 * MIDDLE as usize).collect()
    };
    Powers { x: powers(0x9e37_79b9_7f4a_7c15), y: powers(0xd6e8_feb8_6659_fd93) }
});

/// Mixes the bits of a number.
pub(crate) const fn mix(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// What a hash is multiplied with when a goal moves by (x, y).
pub(crate) fn factor(x: i32, y: i32) -> u64 {
    POWERS.x[(x + MIDDLE) as usize].wrapping_mul(POWERS.y[(y + MIDDLE) as usize])
}

/// What atoms of channel 0 are multiplied with.
const FIRST_CHANNEL: u64 = mix(1) | 1;

/// The hash of one atom.
pub(crate) fn weight(place: Place) -> u64 {
    let powers = &*POWERS;
    let (x, y) = ((place >> 10 & 1023) as usize, (place & 1023) as usize);
    let channel = match z_of(place) {
        0 => FIRST_CHANNEL,
        z => mix(u64::from(z) + 1) | 1,
    };
    powers.x[x].wrapping_mul(powers.y[y]).wrapping_mul(channel)
}

/// The bit of a place on a torus of 8 by 8.
fn bit(place: Place) -> u64 {
    1 << ((x_of(place) & 7) + 8 * (y_of(place) & 7))
}

/// The cells of a goal in the order of places, with counts that are not 0.
pub(crate) type Cells = SmallVec<[(Place, i32); 9]>;

/// A goal and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) cells: Cells,
    /// Number of atoms.
    pub(crate) total: i64,
    /// Distances of all atoms from the centre of channel 0.
    pub(crate) way: i64,
    /// Negative atoms.
    pub(crate) minus: i64,
    /// Sum of the weights of atoms: equal goals have equal hashes.
    pub(crate) hash: u64,
    /// The hash of the goal in the corner: equal for goals that are translations of each other.
    pub(crate) form: u64,
    /// Bits of the cells on a torus of 8 by 8.
    mask: u64,
    /// Least and largest count, signs aside; 0 without cells.
    pub(crate) low: i64,
    pub(crate) high: i64,
    /// Least and largest x and y.
    pub(crate) bounds: [i32; 4],
}

impl Shape {
    pub(crate) fn new(cells: Cells) -> Shape {
        let mut shape = Shape {
            cells: Cells::new(),
            total: 0,
            way: 0,
            minus: 0,
            hash: 0,
            form: 0,
            mask: 0,
            low: 0,
            high: 0,
            bounds: [i32::MAX, i32::MIN, i32::MAX, i32::MIN],
        };
        for &(place, count) in &cells {
            let (x, y) = (x_of(place), y_of(place));
            let atoms = i64::from(count.abs());
            shape.total += atoms;
            shape.way += atoms * way(place);
            shape.minus += if count < 0 { atoms } else { 0 };
            shape.hash =
                shape.hash.wrapping_add(weight(place).wrapping_mul(i64::from(count) as u64));
            shape.mask |= bit(place);
            shape.low = if shape.low == 0 { atoms } else { shape.low.min(atoms) };
            shape.high = shape.high.max(atoms);
            let [west, east, south, north] = shape.bounds;
            shape.bounds = [west.min(x), east.max(x), south.min(y), north.max(y)];
        }
        if cells.is_empty() {
            shape.bounds = [0; 4];
        }
        let [west, _, south, _] = shape.bounds;
        shape.form = shape.hash.wrapping_mul(factor(-west, -south));
        shape.cells = cells;
        shape
    }

    /// A goal of the interface; `None` where it reaches too far or has too many atoms.
    pub(crate) fn of_goal(goal: &Goal) -> Option<Shape> {
        let near = |offset: i32| (-REACH..=REACH).contains(&offset);
        let cell = |(Cell { x, y, z }, count): (Cell, i64)| {
            let fits = near(x) && near(y) && z < CHANNELS && count.abs() <= ATOMS;
            fits.then(|| (place(x, y, z), count as i32))
        };
        let mut cells = goal.cells().map(cell).collect::<Option<Cells>>()?;
        cells.sort_unstable();
        let shape = Shape::new(cells);
        (shape.total <= ATOMS).then_some(shape)
    }

    /// The goal in the form of the interface.
    pub(crate) fn to_goal(&self) -> Goal {
        let mut goal = Goal::default();
        for &(place, count) in &self.cells {
            let cell = Cell { x: x_of(place), y: y_of(place), z: z_of(place) };
            goal.set(cell, i64::from(count));
        }
        goal
    }

    /// The identity of a channel.
    pub(crate) fn identity(channel: u32, depth: u32) -> Shape {
        Shape::new(Cells::from_slice(&[(place(0, 0, channel), 1 << depth)]))
    }

    /// What the goal adds to the hash of a bag; 0 atoms are something as well.
    pub(crate) fn key(&self) -> u64 {
        mix(self.hash.wrapping_add(0x9e37_79b9_7f4a_7c15))
    }

    /// True where all atoms are in one element.
    pub(crate) fn is_point(&self) -> bool {
        self.bounds[0] == self.bounds[1] && self.bounds[2] == self.bounds[3]
    }

    /// True if the goal may be moved by (x, y).
    pub(crate) fn may_move(&self, x: i32, y: i32) -> bool {
        let [west, east, south, north] = self.bounds;
        west + x >= -REACH && east + x <= REACH && south + y >= -REACH && north + y <= REACH
    }

    /// The goal moved by (x, y).
    pub(crate) fn translated(&self, x: i32, y: i32) -> Shape {
        let [west, east, south, north] = self.bounds;
        let mut shape = Shape {
            cells: Cells::new(),
            way: 0,
            mask: 0,
            hash: self.hash.wrapping_mul(factor(x, y)),
            bounds: if self.total == 0 {
                [0; 4]
            } else {
                [west + x, east + x, south + y, north + y]
            },
            ..*self
        };
        for &(place, n) in &self.cells {
            let place = moved(place, x, y);
            shape.way += i64::from(n.abs()) * way(place);
            shape.mask |= bit(place);
            shape.cells.push((place, n));
        }
        shape
    }

    /// Minus the goal.
    pub(crate) fn negated(mut self) -> Shape {
        self.cells.iter_mut().for_each(|cell| cell.1 = -cell.1);
        self.minus = self.total - self.minus;
        self.hash = self.hash.wrapping_neg();
        self.form = self.form.wrapping_neg();
        self
    }

    /// Two times the goal.
    pub(crate) fn doubled(&self) -> Shape {
        Shape::new(self.cells.iter().map(|&(place, n)| (place, 2 * n)).collect())
    }

    /// The goal without atoms of another one, which may have more.
    pub(crate) fn minus(&self, other: &[(Place, i32)]) -> Shape {
        let (mut cells, mut rest) = (Cells::new(), other.iter().copied().peekable());
        for &(place, count) in &self.cells {
            while let Some((_, n)) = rest.next_if(|next| next.0 < place) {
                debug_assert!(n != 0, "counts of 0 are not stored");
                continue;
            }
            let other = rest.next_if(|next| next.0 == place).map_or(0, |next| next.1);
            if count != other {
                cells.push((place, count - other));
            }
        }
        Shape::new(cells)
    }

    /// True if another goal has all atoms of this one.
    pub(crate) fn is_within(&self, other: &Shape) -> bool {
        if self.total > other.total || self.mask & !other.mask != 0 {
            return false;
        }
        let mut rest = other.cells.iter();
        self.cells.iter().all(|&(place, n)| {
            let found = rest.by_ref().find(|cell| cell.0 >= place);
            found.is_some_and(|&(at, m)| at == place && covers(m, n))
        })
    }
}

/// True if so many atoms contain so many others of the same sign.
fn covers(more: i32, less: i32) -> bool {
    if less < 0 { more <= less } else { more >= less }
}

/// The number of an interned goal.
pub(crate) type Id = u32;

/// Hashes are keys of maps as they are.
#[derive(Default)]
pub(crate) struct Keep(u64);

impl Hasher for Keep {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mix(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(word);
    }
}

pub(crate) type ByHash<T> = HashMap<u64, T, BuildHasherDefault<Keep>>;

/// All goals that were met.
#[derive(Default)]
pub(crate) struct Goals {
    list: Vec<Shape>,
    ids: ByHash<Id>,
}

impl Goals {
    /// The number of a goal.
    pub(crate) fn intern(&mut self, shape: Shape) -> Id {
        let next = self.list.len() as Id;
        match self.ids.get(&shape.hash) {
            Some(&id) if self.list[id as usize].cells == shape.cells => return id,
            // Of two goals with one hash the first keeps it.
            Some(_) => {}
            None => drop(self.ids.insert(shape.hash, next)),
        }
        self.list.push(shape);
        next
    }

    pub(crate) fn get(&self, id: Id) -> &Shape {
        &self.list[id as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
}
