//! The direct solver: the last steps of a plan, when the goals are nearly the inputs.
//!
//! Facts: `cain` (`docs/bibliography.md`).

use super::goals::{Goals, Id, Shape};
use super::op::{Op, Ops, Step, WAYS, Way, offset};
use smallvec::{SmallVec, smallvec};

/// The steps, in the order of the search, that make all goals of a bag of the inputs; `None` where
/// there are more goals than inputs, or one takes more than a single kind of step.
pub(super) fn solve(
    goals: &mut Goals,
    bag: &[Id],
    identities: &[Shape],
    ops: &Ops,
) -> Option<Vec<Step>> {
    if bag.len() > identities.len() {
        return None;
    }
    let mut steps = Vec::new();
    let (mut zeros, mut rest): (Vec<Id>, Vec<Id>) =
        bag.iter().partition(|&&id| goals.get(id).total == 0);
    while ops.res2 && zeros.len() >= 2 {
        let uppers = zeros.drain(..2).collect();
        steps.push(Step { op: Op::Res2, uppers, lowers: SmallVec::new() });
    }
    for id in zeros {
        steps.push(ops.res.then(|| Step {
            op: Op::Res,
            uppers: smallvec![id],
            lowers: SmallVec::new(),
        })?);
    }
    while let Some(at) = (1..rest.len()).find(|&at| rest[..at].contains(&rest[at])) {
        let id = rest.remove(at);
        let has = ops.mov.contains(&0);
        steps.push(has.then(|| Step {
            op: Op::Mov(0),
            uppers: smallvec![id],
            lowers: smallvec![id],
        })?);
    }
    let mut used: Vec<usize> = Vec::new();
    for id in rest {
        let free = (0..identities.len()).filter(|channel| !used.contains(channel));
        let tries = free.map(|channel| (channel, chain(goals, id, &identities[channel], ops)));
        let found = tries.filter_map(|(channel, chain)| Some((channel, chain?))).next();
        let (channel, chain) = found?;
        used.push(channel);
        let mut upper = id;
        for op in chain {
            let lower = match op {
                Op::Div | Op::DivFrom | Op::Divq => goals.get(upper).doubled(),
                _ => identities[channel].clone(),
            };
            let lower = goals.intern(lower);
            steps.push(Step { op, uppers: smallvec![upper], lowers: smallvec![lower] });
            upper = lower;
        }
    }
    Some(steps)
}

/// What makes a goal of an input: nothing, a negation, halvings or one move.
fn chain(goals: &Goals, id: Id, identity: &Shape, ops: &Ops) -> Option<Vec<Op>> {
    let goal = goals.get(id);
    if goal.cells == identity.cells {
        return Some(Vec::new());
    }
    if ops.neg && goal.cells == identity.clone().negated().cells {
        return Some(vec![Op::Neg]);
    }
    let (&[(place, n)], &[(home, unit)]) = (&goal.cells[..], &identity.cells[..]) else {
        return None;
    };
    if place == home {
        let halvings = (1..32).find(|&k| n > 0 && i64::from(n) << k == i64::from(unit))?;
        return Some(vec![*ops.halve.first()?; halvings]);
    }
    let ways = (1..WAYS.len() as Way).filter(|way| ops.mov.contains(way));
    let mut ways = ways.filter(|&way| {
        let (x, y) = offset(way);
        super::goals::moved(home, x, y) == place
    });
    (n == unit).then(|| ways.next().map(|way| vec![Op::Mov(way)]))?
}
