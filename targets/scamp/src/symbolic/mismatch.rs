//! What is left in registers of the mismatch of receivers: by how much a register takes more than its
//! share, which is fixed for each register of each element, as the simulator has it
//! ([`crate::simulate::Noise`]).

use super::{Term, Value, translated};
use crate::expand::expand;
use crate::isa::Reg;
use crate::program::Program;
use quincunx_num::Ratio;
use std::collections::BTreeMap;

/// The error of every register that has one: factors of what registers take too much, exact to first
/// order. Conditions are not followed.
pub fn mismatches(program: &Program) -> BTreeMap<Reg, Value> {
    let mut errors: BTreeMap<Reg, Value> = BTreeMap::new();
    for bus in program.instructions.iter().flat_map(expand).filter_map(|step| step.bus()) {
        let share = Ratio::from_parts(1.into(), (bus.receivers.len() as u64).into());
        let mut sum = Value::new();
        for &source in &bus.sources {
            let storage = if source.direction().is_some() { Reg::NEWS } else { source };
            let way = source.direction().map_or((0, 0), |direction| direction.step());
            if let Some(error) = errors.get(&storage) {
                add(&mut sum, &translated(error, way), &(Ratio::ZERO - &share));
            }
        }
        let storage = |receiver: Reg| match receiver.direction() {
            Some(_) => Reg::NEWS,
            None => receiver,
        };
        let excess = |receiver: Reg| {
            Value::from([(Term { source: storage(receiver), x: 0, y: 0 }, Ratio::ONE)])
        };
        if bus.receivers.len() > 1 {
            // The shares of a step sum up to the whole.
            bus.receivers.iter().for_each(|&r| add(&mut sum, &excess(r), &(Ratio::ZERO - &share)));
        }
        for &receiver in &bus.receivers {
            let mut error = sum.clone();
            if bus.receivers.len() > 1 {
                add(&mut error, &excess(receiver), &Ratio::ONE);
            }
            let way = receiver.direction().map_or((0, 0), |d| d.opposite().step());
            errors.insert(storage(receiver), translated(&error, way));
        }
    }
    errors.retain(|_, error| !error.is_empty());
    errors
}

fn add(sum: &mut Value, value: &Value, factor: &Ratio) {
    for (term, own) in value {
        let total = sum.remove(term).unwrap_or(Ratio::ZERO) + own * factor;
        if total != Ratio::ZERO {
            sum.insert(*term, total);
        }
    }
}
