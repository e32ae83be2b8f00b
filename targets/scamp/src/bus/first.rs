//! First plans by structure: a kernel is a sum of neighbours of a smaller kernel and a rest, or twice
//! a smaller one and single cells. They are longer than need be, which the walk mends.

use super::plan::{Id, Kind, MAX_STEPS, NEWS, Plan, REACHED, Setting, Source, Step, Whose, way};
use crate::goal::{Cell, Goal};
use crate::search::random::Random;
use crate::task::Task;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Largest kernel that is taken apart, in cells.
const MAX_CELLS: usize = 400;

/// Furthest cell that plans by structure reach.
const MAX_REACH: u32 = 1 << 12;

/// A smaller kernel, and the places at which it is part of another one.
type Stencil = (Goal, Vec<(i32, i32)>);

/// A value that is a multiple of a kernel, seen from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    /// The value; not in NEWS.
    id: Id,
    /// It is `2^scale` times the kernel.
    scale: i32,
    /// It is minus that.
    negative: bool,
    /// How far to the east and the north the kernel is moved in it.
    shift: (i32, i32),
}

struct Builder<'a> {
    setting: &'a Setting,
    plan: Plan,
    depth: i32,
    /// Kernels that are there, each without common factors of two and with its first cell at (0, 0).
    known: BTreeMap<Goal, Part>,
    /// Values that outputs are.
    outputs: Vec<Id>,
    random: &'a mut Random,
}

/// A plan, if it fits the registers; which of several ways to take a kernel apart it goes depends on
/// `random`. Kernels are taken in this order.
pub(super) fn first(
    task: &Task,
    setting: &Setting,
    order: &[usize],
    random: &mut Random,
) -> Option<Plan> {
    let plan = Plan { inputs: setting.inputs.len(), steps: Vec::new(), outputs: Vec::new() };
    let depth = i32::try_from(task.wanted.depth).ok()?;
    let (known, outputs) = (BTreeMap::new(), Vec::new());
    let mut builder = Builder { setting, plan, depth, known, outputs, random };
    let reach = |(cell, _): (Cell, i64)| cell.x.unsigned_abs().max(cell.y.unsigned_abs());
    if task.wanted.goals.0.iter().flat_map(Goal::cells).map(reach).any(|far| far > MAX_REACH) {
        return None;
    }
    let mut outputs = vec![0; order.len()];
    for &index in order {
        let goal = &task.wanted.goals.0[index];
        let id = builder.output(goal)?;
        outputs[index] = id;
    }
    builder.plan.outputs = outputs;
    builder.plan.remove_dead();
    Some(builder.plan).filter(|plan| plan.fits(setting))
}

/// Additions that a kernel takes at most: digits of its counts that are not 0.
fn digits(goal: &Goal) -> usize {
    goal.cells().map(|(_, count)| signed_digits(count).count()).sum()
}

/// The digits of a number as a sum of powers of two with signs, no two of them neighbours: bit and
/// sign.
fn signed_digits(count: i64) -> impl Iterator<Item = (u32, i64)> {
    let (mut rest, mut bit) = (i128::from(count), 0);
    std::iter::from_fn(move || {
        while rest != 0 && rest & 1 == 0 {
            (rest, bit) = (rest >> 1, bit + 1);
        }
        let digit = 2 - (rest & 3);
        let found = (rest != 0).then_some((bit, digit as i64));
        rest -= digit;
        found
    })
}

fn minus(goal: &Goal, other: &Goal) -> Goal {
    let mut negated = Goal::default();
    other.cells().for_each(|(cell, count)| negated.set(cell, -count));
    goal.plus(&negated)
}

/// The largest kernel whose copies at these places are part of a kernel, greedily from the south.
fn quotient(goal: &Goal, places: &[(i32, i32)]) -> Goal {
    let mut rest: BTreeMap<Cell, i64> = goal.cells().collect();
    let mut found = Goal::default();
    for (cell, _) in goal.cells() {
        let at = |&(x, y): &(i32, i32)| {
            let (x, y) = (x - places[0].0, y - places[0].1);
            Cell { x: cell.x + x, y: cell.y + y, z: cell.z }
        };
        let counts = || places.iter().map(|place| rest.get(&at(place)).copied().unwrap_or(0));
        let least = counts().map(i64::abs).min().unwrap_or(0);
        let first = counts().next().unwrap_or(0);
        if least > 0 && counts().all(|count| count.signum() == first.signum()) {
            let count = least * first.signum();
            for place in places {
                rest.entry(at(place)).and_modify(|old| *old -= count);
            }
            let (x, y) = places[0];
            found.set(Cell { x: cell.x - x, y: cell.y - y, z: cell.z }, count);
        }
    }
    found
}

/// The kernel at several places.
fn spread(goal: &Goal, places: &[(i32, i32)]) -> Goal {
    places.iter().fold(Goal::default(), |sum, &(x, y)| sum.plus(&goal.translated(x, y)))
}

/// The NEWS of the element so far away, if a step reaches it.
fn whose(way_to: (i32, i32)) -> Option<Whose> {
    let is_it = |&whose: &Whose| way(whose) == (way_to.0.into(), way_to.1.into());
    (0..REACHED as Whose).find(is_it)
}

impl Builder<'_> {
    fn push(
        &mut self,
        receivers: usize,
        sources: impl IntoIterator<Item = Source>,
        news: Option<Whose>,
    ) -> Option<Id> {
        let sources: SmallVec<_> = sources.into_iter().collect();
        let kinds = &self.setting.kinds;
        let kind = kinds
            .iter()
            .position(|kind| kind.receivers == receivers && kind.sources >= sources.len())?
            as u8;
        if self.plan.steps.len() >= MAX_STEPS {
            return None;
        }
        self.plan.steps.push(Step { kind, sources, news });
        let slot = if news.is_some() { NEWS } else { 0 };
        Some(self.plan.id(self.plan.steps.len() - 1, slot))
    }

    fn negated(&mut self, id: Id) -> Option<Id> {
        self.push(1, [Source::of(id)], None)
    }

    /// Minus the value in NEWS, moved.
    fn load(&mut self, mut id: Id, (mut x, mut y): (i32, i32)) -> Option<Id> {
        let unit = |x: i32, y: i32| if x != 0 { (x.signum(), 0) } else { (0, y.signum()) };
        while x.abs() + y.abs() > 1 {
            let (dx, dy) = unit(x, y);
            let news = self.push(1, [Source::of(id)], whose((-dx, -dy)))?;
            (x, y) = (x - dx, y - dy);
            let (dx, dy) = unit(x, y);
            id = self.push(1, [Source { id: news, whose: whose((dx, dy))? }], None)?;
            (x, y) = (x - dx, y - dy);
        }
        self.push(1, [Source::of(id)], whose((-x, -y)))
    }

    /// The same, not moved any more.
    fn centred(&mut self, mut part: Part) -> Option<Part> {
        if part.shift != (0, 0) {
            let (x, y) = part.shift;
            let id = self.load(part.id, (-x, -y))?;
            part.id = self.push(1, [Source { id, whose: 0 }], None)?;
            part.shift = (0, 0);
        }
        Some(part)
    }

    /// The same at another scale.
    fn scaled(&mut self, mut part: Part, scale: i32) -> Option<Part> {
        while part.scale > scale {
            part.id = self.push(2, [Source::of(part.id)], None)?;
            (part.scale, part.negative) = (part.scale - 1, !part.negative);
        }
        while part.scale < scale {
            let news = self.push(1, [Source::of(part.id)], Some(0))?;
            let copy = self.negated(part.id)?;
            part.id = self.push(1, [Source { id: news, whose: 0 }, Source::of(copy)], None)?;
            part.scale += 1;
        }
        Some(part)
    }

    /// The same with this sign.
    fn signed(&mut self, part: Part, negative: bool) -> Option<Part> {
        match part.negative == negative {
            true => Some(part),
            false => Some(Part { id: self.negated(part.id)?, negative, ..part }),
        }
    }

    /// The sum of two parts.
    fn sum(&mut self, a: Part, b: Part) -> Option<Part> {
        let scale = a.scale.min(b.scale).max(0);
        let (a, b) = (self.scaled(a, scale)?, self.scaled(b, scale)?);
        let (a, b) = (self.centred(a)?, self.centred(b)?);
        let b = self.signed(b, a.negative)?;
        self.added(&[Source::of(a.id), Source::of(b.id)], a)
    }

    /// Minus the sum of sources that are alike apart from their kernels. Sometimes it is halved at once,
    /// which is a step less later if a half will do, and steps more if not.
    fn added(&mut self, sources: &[Source], like: Part) -> Option<Part> {
        let halves =
            |kind: &Kind| kind.bus == 1 && kind.receivers == 2 && kind.sources >= sources.len();
        let can_halve = like.scale > 0 && self.setting.kinds.iter().any(halves);
        let halved = can_halve && self.random.below(2) == 0;
        let id = self.push(if halved { 2 } else { 1 }, sources.iter().copied(), None)?;
        Some(Part { id, scale: like.scale - i32::from(halved), negative: !like.negative, ..like })
    }

    fn output(&mut self, goal: &Goal) -> Option<Id> {
        let Some(part) = self.part(goal)? else { return self.push(1, [], None) };
        let part = self.scaled(part, 0)?;
        let part = self.centred(part)?;
        let part = self.signed(part, false)?;
        let is_taken = usize::from(part.id) < self.plan.inputs || self.outputs.contains(&part.id);
        let id = match is_taken {
            true => {
                let negated = self.negated(part.id)?;
                self.negated(negated)?
            }
            false => part.id,
        };
        self.outputs.push(id);
        Some(id)
    }

    /// Some multiple of a kernel; `None` inside for 0.
    fn part(&mut self, goal: &Goal) -> Option<Option<Part>> {
        let Some((first, _)) = goal.cells().next() else { return Some(None) };
        let common = goal.cells().map(|(_, count)| count.trailing_zeros()).min().unwrap_or(0);
        let mut own = Goal::default();
        goal.cells().for_each(|(cell, count)| own.set(cell, count >> common));
        let named = own.translated(-first.x, -first.y);
        let moved = |part: Part, sign: i32| {
            let shift = (part.shift.0 + sign * first.x, part.shift.1 + sign * first.y);
            Part { shift, ..part }
        };
        let part = match self.known.get(&named) {
            Some(part) => moved(*part, -1),
            None => {
                let part = self.take_apart(&own)?;
                self.known.insert(named, moved(part, 1));
                part
            }
        };
        Some(Some(Part { scale: part.scale - common as i32, ..part }))
    }

    fn take_apart(&mut self, goal: &Goal) -> Option<Part> {
        let cells: Vec<(Cell, i64)> = goal.cells().collect();
        if cells.len() > MAX_CELLS {
            return None;
        }
        if let [(Cell { x, y, z }, count)] = cells[..]
            && count.abs() == 1
        {
            let (scale, negative) = (self.depth, count < 0);
            return Some(Part { id: z as Id, scale, negative, shift: (-x, -y) });
        }
        if let Some((small, places)) = self.stencil(goal) {
            let rest = minus(goal, &spread(&small, &places));
            let part = self.part(&small)??;
            let (x, y) = part.shift;
            let news = self.load(part.id, (-x, -y))?;
            let reads = places.iter().filter_map(|&place| whose(place));
            let sources: Vec<Source> = reads.map(|whose| Source { id: news, whose }).collect();
            let in_news = Part { negative: !part.negative, shift: (0, 0), ..part };
            let sum = self.added(&sources, in_news)?;
            return match self.part(&rest)? {
                None => Some(sum),
                Some(rest) => self.sum(sum, rest),
            };
        }
        let (mut odd, mut even) = (Goal::default(), Goal::default());
        for (cell, count) in cells {
            let low = signed_digits(count).find(|(bit, _)| *bit == 0).map_or(0, |(_, sign)| sign);
            odd.set(cell, low);
            even.set(cell, count - low);
        }
        match self.part(&even)? {
            None => self.cells(&odd),
            Some(even) => {
                let odd = self.part(&odd)??;
                self.sum(odd, even)
            }
        }
    }

    /// A smaller kernel and the places at which it is part of this one, if that saves additions.
    fn stencil(&mut self, goal: &Goal) -> Option<Stencil> {
        let all = digits(goal);
        let most = self.setting.kinds.first().map_or(0, |kind| kind.sources);
        let mut best: Option<(usize, Stencil)> = None;
        for mask in 1_u8..1 << REACHED {
            let places = (0..REACHED as Whose).filter(|whose| mask >> whose & 1 == 1).map(way);
            let mut places: Vec<(i32, i32)> = places.map(|(x, y)| (x as i32, y as i32)).collect();
            places.sort_unstable();
            if !(2..=most).contains(&places.len()) {
                continue;
            }
            let small = quotient(goal, &places);
            let rest = minus(goal, &spread(&small, &places));
            let cost = 2 * (digits(&small) + digits(&rest) + 1) + self.random.below(3);
            let is_smaller = small.cells().next().is_some() && cost < 2 * all;
            if is_smaller && best.as_ref().is_none_or(|(old, ..)| cost < *old) {
                best = Some((cost, (small, places)));
            }
        }
        best.map(|(_, stencil)| stencil)
    }

    /// A sum of single cells: as many as NEWS reaches at once.
    fn cells(&mut self, goal: &Goal) -> Option<Part> {
        let mut rest: BTreeMap<Cell, i64> = goal.cells().collect();
        let most = self.setting.kinds.first().map_or(0, |kind| kind.sources).saturating_sub(1);
        let mut sum: Option<Part> = None;
        while let Some((centre, whole)) = best_cross(&rest, most.max(1)) {
            let sign = rest[&whole[0].0];
            let sum_before = match sum {
                Some(part) => Some(self.signed(part, sign > 0)?),
                None => None,
            };
            let news = self.load(centre.z as Id, (centre.x, centre.y))?;
            let reads = whole.iter().map(|&(_, whose)| Source { id: news, whose });
            let sources: Vec<Source> =
                reads.chain(sum_before.map(|part| Source::of(part.id))).collect();
            let id = self.push(1, sources, None)?;
            sum = Some(Part { id, scale: self.depth, negative: sign < 0, shift: (0, 0) });
            rest.retain(|cell, _| whole.iter().all(|(own, _)| own != cell));
        }
        sum
    }
}

/// Where NEWS reaches most cells of one sign, and these.
fn best_cross(cells: &BTreeMap<Cell, i64>, most: usize) -> Option<(Cell, Vec<(Cell, Whose)>)> {
    let mut best: Option<(Cell, Vec<(Cell, Whose)>)> = None;
    for (cell, &count) in cells {
        for from in 0..REACHED as Whose {
            let at = |whose: Whose, sign: i32, cell: &Cell| {
                let (x, y) = way(whose);
                Cell { x: cell.x + sign * x as i32, y: cell.y + sign * y as i32, z: cell.z }
            };
            let centre = at(from, -1, cell);
            let seen = (0..REACHED as Whose).map(|whose| (at(whose, 1, &centre), whose));
            let same = |(cell, _): &(Cell, Whose)| cells.get(cell) == Some(&count);
            let seen: Vec<(Cell, Whose)> = seen.filter(same).take(most).collect();
            let far = |centre: &Cell| centre.x.abs() + centre.y.abs();
            let rank = |(centre, seen): &(Cell, Vec<_>)| (seen.len(), -far(centre));
            let found = (centre, seen);
            if best.as_ref().is_none_or(|old| rank(&found) > rank(old)) {
                best = Some(found);
            }
        }
    }
    best
}
