//! What becomes of results on super-pixels: halves, biases, ReLU, and the places where they belong.

use super::block::load;
use super::place::{clear, is_missing, set};
use super::plan::Part;
use super::ripple::{Home, Look, Place, Writer};
use crate::isa::{Inst, Reg};

/// What becomes of a result after the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finish {
    /// What is added to it.
    pub(crate) bias: i64,
    /// 0 stands in the place of what is below.
    pub(crate) relu: bool,
}

impl Writer<'_> {
    /// The bias and ReLU of a result; its register, `None` for 0.
    pub(super) fn finished(&mut self, result: Option<Reg>, finish: Finish) -> Option<Reg> {
        let biased = self.biased(result, finish.bias);
        biased.map(|x| if finish.relu { self.positive(x) } else { x })
    }

    /// A result: a shifted number, halved.
    pub(super) fn result(&mut self, part: Part, depth: u32, target: Option<Reg>) -> Reg {
        if depth == 0 && part.shift == 0 {
            let (register, _) = self.read(part.value);
            // Several results may be one number.
            *self.held.entry(register).or_default() += 1;
            self.finish(part.value, Reg::NONE);
            return register;
        }
        let (from, dies) = self.shifted(part, usize::MAX);
        if depth == 0 {
            self.finish(part.value, from);
            return from;
        }
        let to = match target.and_then(|target| self.claim(target)) {
            Some(target) => target,
            None if dies => from,
            None => self.take(),
        };
        self.halve(to, from, depth);
        if self.register[part.value] != Some(from) && from != to {
            self.release(from);
        }
        self.finish(part.value, to);
        to
    }

    /// `to` := `from` halved so often; the sign stays.
    fn halve(&mut self, to: Reg, from: Reg, times: u32) {
        self.shift_down(from, times);
        self.push(Inst::Move { d: to, a: self.home.masked });
    }

    /// The masked register := `from` halved so often; the sign stays.
    fn shift_down(&mut self, from: Reg, times: u32) {
        let Home { mask, masked, select, .. } = *self.home;
        self.push(set(mask));
        self.push(Inst::Move { d: masked, a: from });
        self.turn(Look::Above);
        self.list.extend(self.home.block.sign(mask, select));
        self.push(Inst::Not { d: mask, a: mask });
        for _ in 0..times.min(self.home.block.path.len() as u32) {
            self.push(Inst::Dnews0 { d: masked, a: masked });
        }
    }

    /// The masked register := the sign of `from`, in every element of the bank.
    pub(super) fn sign(&mut self, from: Reg) {
        self.shift_down(from, self.home.block.path.len() as u32 - 1);
    }

    /// The register of a result to which a constant is added, modulo the numbers of a bank.
    fn biased(&mut self, result: Option<Reg>, bias: i64) -> Option<Reg> {
        let path = &self.home.block.path;
        let bits = path.iter().enumerate().filter(|(bit, _)| bias >> bit & 1 == 1);
        let ones: Vec<(usize, usize)> = bits.map(|(_, &element)| element).collect();
        if ones.is_empty() {
            return result;
        }
        let constant = self.home.of_bias.unwrap_or_else(|| self.take());
        let rest: Vec<_> = path.iter().copied().filter(|at| !ones.contains(at)).collect();
        let patterns = self.home.block.bank(&ones, &rest);
        self.list.extend(load(constant, &patterns, self.home.select));
        let to = match result {
            Some(x) => {
                let to = self.writable(x);
                let (s, t) = (self.take(), self.take());
                self.add([to, x, constant], [s, t], false);
                [s, t].into_iter().for_each(|register| self.release(register));
                to
            }
            None => {
                let to = self.take();
                self.push(Inst::Move { d: to, a: constant });
                to
            }
        };
        if self.home.of_bias.is_none() {
            self.release(constant);
        }
        Some(to)
    }

    /// The register of a result in which what is below 0 becomes 0.
    fn positive(&mut self, x: Reg) -> Reg {
        let Home { masked, .. } = *self.home;
        self.sign(x);
        let to = self.writable(x);
        // What is 1 in a positive number is 1 in no sign.
        self.push(Inst::Not { d: to, a: x });
        self.push(Inst::Nor { d: to, a: to, b: masked, c: Reg::NONE, e: Reg::NONE });
        to
    }

    /// The register of a result, if it may be overwritten, else another one in its place.
    fn writable(&mut self, x: Reg) -> Reg {
        let is_own = self.home.pool.contains(&x) || is_missing(x);
        let is_shared = self.held.get(&x).is_some_and(|&count| count > 1);
        if is_own && !is_shared {
            return x;
        }
        let to = self.take();
        self.release(x);
        to
    }

    /// Puts the results where they belong.
    pub(super) fn store(&mut self, mut results: Vec<Option<Reg>>) {
        let home = self.home;
        for (result, place) in results.iter_mut().zip(&home.outputs) {
            let offset = home.offset(place.bank);
            if let Some(register) = result.filter(|_| offset != (0, 0)) {
                // What is to be in another bank is seen from there.
                let to = self.take();
                self.travel(to, register, (-offset.0, -offset.1));
                self.release(register);
                *result = Some(to);
            }
        }
        let mut waiting: Vec<Reg> = home.outputs.iter().map(|place| place.register).collect();
        waiting.sort_unstable();
        waiting.dedup();
        while !waiting.is_empty() {
            let of = |register: Reg| {
                let all = home.outputs.iter().zip(0..).filter(move |(p, _)| p.register == register);
                all.map(|(_, index): (&Place, usize)| index)
            };
            let blocked = |to: Reg| {
                let others = waiting.iter().filter(|other| **other != to).flat_map(|o| of(*o));
                others.into_iter().any(|index| results[index] == Some(to))
            };
            if let Some(at) = waiting.iter().position(|&to| !blocked(to)) {
                let to = waiting.remove(at);
                let members: Vec<usize> = of(to).collect();
                self.store_in(to, &members, &results);
                continue;
            }
            // All wait for each other: one goes elsewhere meanwhile.
            let (held, spare) = (waiting[0], self.take());
            self.push(Inst::Move { d: spare, a: held });
            results.iter_mut().filter(|r| **r == Some(held)).for_each(|r| *r = Some(spare));
        }
    }

    /// Puts results into one register, each into its bank.
    fn store_in(&mut self, to: Reg, members: &[usize], results: &[Option<Reg>]) {
        let Home { mask, masked, select, .. } = *self.home;
        if let &[only] = members {
            match results[only] {
                Some(a) if a == to => {}
                Some(a) => self.push(Inst::Move { d: to, a }),
                None => self.push(clear(&[to])),
            }
            return;
        }
        let banks: Vec<&Vec<(usize, usize)>> =
            members.iter().map(|&index| &self.home.banks[self.home.outputs[index].bank]).collect();
        for (position, &index) in members.iter().enumerate() {
            let others = banks.iter().enumerate().filter(|(other, _)| *other != position);
            let others: Vec<(usize, usize)> =
                others.flat_map(|(_, bank)| (*bank).clone()).collect();
            let patterns = self.home.block.bank(banks[position], &others);
            self.list.extend(load(mask, &patterns, select));
            self.push(match results[index] {
                Some(a) => Inst::Move { d: masked, a },
                None => clear(&[masked]),
            });
        }
        self.push(Inst::Move { d: to, a: masked });
    }
}
