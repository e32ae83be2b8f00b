//! Planted faults are noticed: wrong results of instructions by the functional cases, wrong tokens,
//! addresses, sizes, regions and configurations by the checkers.

use crate::common::cases::{Case, all};
use crate::common::corrupt::{CORRUPTIONS, corrupt, corrupt_operand, unconfigure};
use crate::common::{Random, arch, problems, shuffled};
use quincunx_isa::{OperandValue as _, RawInst};
use quincunx_npu::isa::{Inst, Queue, TABLE};
use quincunx_npu::ports::Ports;
use quincunx_npu::program::Program;
use quincunx_npu::replay::Node;
use quincunx_npu::simulate::{Executor, Settings, State};
use quincunx_npu::time::{Model, durations};
use quincunx_npu::work::resolve;
use quincunx_testkit::{Verdict, campaign};
use std::collections::{BTreeMap, BTreeSet};

type Outputs = Vec<(String, Vec<f64>)>;

/// Outputs of a run in an order; `None` when the programs are refused.
fn run(
    programs: &[Program],
    case: &Case,
    order: Option<&mut Random>,
    after: &mut dyn FnMut(Node, &mut State),
) -> Option<Outputs> {
    // The tensors lie in DRAM where the unchanged programs have them.
    let sound = Executor::new(case.programs.clone(), &arch(), Settings::default()).ok()?;
    let ports = Ports::tensors(sound.work(), sound.order());
    let executor = Executor::new(programs.to_vec(), &arch(), Settings::default()).ok()?;
    let mut state = executor.state();
    ports.write(&case.inputs, &mut state).ok()?;
    let lines = match order {
        Some(random) => shuffled(programs, random),
        _ => executor.order().to_vec(),
    };
    executor.run_in(&lines, &mut state, after).ok()?;
    let outputs = ports.read(&state).ok()?;
    Some(outputs.into_iter().map(|(name, tensor)| (name, tensor.to_f64())).collect())
}

fn expected(case: &Case) -> Outputs {
    let mut list = case.expected.clone();
    list.sort_by(|a, b| a.0.cmp(&b.0));
    list
}

/// Every byte of every core's memories inverted: what an instruction wrote is wrong then.
fn spoil(before: &State, state: &mut State, cores: usize) {
    let mut before = before.clone();
    for core in 0..cores {
        for (old, new) in before.l2(core).iter().zip(state.l2(core)) {
            *new ^= u8::from(old != new);
        }
        for (old, new) in before.wl0(core).iter().zip(state.wl0(core)) {
            *new ^= u8::from(old != new);
        }
    }
}

/// A wrong low bit in every byte that a moving or computing instruction changed is noticed.
#[test]
fn wrong_results_are_noticed() {
    let mut noticed = BTreeSet::new();
    let mut computing = BTreeSet::new();
    for case in all() {
        let cores = case.programs.len();
        for (core, program) in case.programs.iter().enumerate() {
            for (line, inst) in program.instructions().enumerate() {
                // Stores change DRAM, which the next test reaches.
                let memory =
                    !inst.is_config() && inst.queue() != Queue::Ct && inst.queue() != Queue::St;
                if !memory || !computing.insert((inst.row(), case.name.clone())) {
                    continue;
                }
                let executor =
                    Executor::new(case.programs.clone(), &arch(), Settings::default()).unwrap();
                let at = executor.order().iter().position(|&n| n == Node { core, line }).unwrap();
                let (first, rest) = executor.order().split_at(at);
                let ports = Ports::tensors(executor.work(), executor.order());
                let mut state = executor.state();
                ports.write(&case.inputs, &mut state).unwrap();
                executor.run_in(first, &mut state, &mut |_, _| ()).unwrap();
                let before = state.clone();
                executor.run_in(&rest[..1], &mut state, &mut |_, _| ()).unwrap();
                spoil(&before, &mut state, cores);
                executor.run_in(&rest[1..], &mut state, &mut |_, _| ()).unwrap();
                let outputs = ports.read(&state).unwrap();
                let differs =
                    case.expected.iter().any(|(name, list)| outputs[name].to_f64() != *list);
                if differs {
                    noticed.insert(inst.row());
                }
            }
        }
    }
    for (row, name) in &computing {
        assert!(noticed.contains(row), "{} ({name})", TABLE.rows[*row].name);
    }
    assert!(noticed.len() >= 14, "{}", noticed.len());
}

/// Operands that change neither numbers nor cycles nor legality of any case: what the columns
/// divide has one member; a phase is visible in f32 sums only; FP16 is rounded to half, not to whole
/// numbers, and so on.
const SILENT: &[(&str, &str)] =
    &[("PeConv", "ps"), ("PeDicv", "ps"), ("PeDecv", "ps"), ("PeGpcv", "ps"), ("PeFc", "ps")];

/// Another value in any operand of any instruction changes outputs or cycles, or is refused.
#[test]
fn wrong_operands_are_noticed() {
    let cases = all();
    let mut open: BTreeSet<(usize, usize)> = TABLE
        .rows
        .iter()
        .enumerate()
        .flat_map(|(row, spec)| (0..spec.operands.len()).map(move |operand| (row, operand)))
        .collect();
    for case in &cases {
        let wanted = expected(case);
        let cycles = |programs: &[Program]| -> Vec<Vec<u64>> {
            let of =
                |program: &Program| durations(program, &resolve(program), &arch(), Model::UPSTREAM);
            programs.iter().map(of).collect()
        };
        let time = cycles(&case.programs);
        let before = problems(&case.programs);
        let before: BTreeSet<_> = before.iter().map(|problem| problem.code()).collect();
        for core in 0..case.programs.len() {
            for line in 0..case.programs[core].lines.len() {
                let raw = case.programs[core].lines[line].inst.to_raw();
                for operand in 0..raw.values.len() {
                    if !open.contains(&(raw.row, operand)) {
                        continue;
                    }
                    for inst in other_values(&raw, operand) {
                        let mut programs = case.programs.clone();
                        programs[core].lines[line].inst = inst;
                        let silent = cycles(&programs) == time
                            && run(&programs, case, None, &mut |_, _| ()).as_ref() == Some(&wanted)
                            && !problems(&programs)
                                .iter()
                                .any(|problem| !before.contains(&problem.code()));
                        if !silent {
                            open.remove(&(raw.row, operand));
                            break;
                        }
                    }
                }
            }
        }
    }
    let name = |&(row, operand): &(usize, usize)| {
        let spec = &TABLE.rows[row];
        (spec.name, spec.operands[operand].name)
    };
    let unnoticed: Vec<_> = open.iter().map(name).filter(|name| !SILENT.contains(name)).collect();
    assert_eq!(unnoticed, []);
}

/// The instruction with other values of an operand.
fn other_values(raw: &RawInst, operand: usize) -> Vec<Inst> {
    let value = raw.values[operand];
    let one = crate::common::num(1.5);
    let list = crate::common::only(Queue::Dt).to_raw();
    let candidates = [
        value + 1,
        value - 1,
        value + 8,
        value - 8,
        value ^ 1,
        value + 64,
        value ^ 2,
        0,
        one,
        list,
    ];
    let other = |candidate: i128| {
        let mut values = raw.values.clone();
        values[operand] = candidate;
        let inst = Inst::from_raw(&RawInst { row: raw.row, values })?;
        (candidate != value).then_some(inst)
    };
    candidates.into_iter().filter_map(other).collect()
}

/// 1,000 programs with a wrong token each: refused by the checkers, or the outputs are the same in
/// every order that is still allowed.
#[test]
fn corrupted_tokens_are_refused_or_harmless() {
    let cases: Vec<Case> = all().into_iter().filter(|case| case.programs.len() == 1).collect();
    let [refused, harmless] = campaign(|random| {
        let case = &cases[random.below(cases.len())];
        let mut program = case.programs[0].clone();
        let what = corrupt(&mut program, random);
        let changed = program != case.programs[0];
        changed.then(|| verdict(&[program], case, random, || format!("{}: {what}", case.name)))
    });
    assert!(refused > 500, "{refused} refused, {harmless} harmless");
}

/// Refused when a checker names a problem; maps and superfluous configurations do not count.
/// Harmless when the outputs are the expected ones in every order that was tried.
fn verdict(
    programs: &[Program],
    case: &Case,
    random: &mut Random,
    what: impl Fn() -> String,
) -> Verdict {
    let problems = problems(programs);
    if problems.iter().any(|problem| problem.code() != "Q4038" && problem.code() != "Q4037") {
        return Verdict::Rejected;
    }
    let wanted = expected(case);
    let mut right = || run(programs, case, Some(random), &mut |_, _| ()).as_ref() == Some(&wanted);
    if (0..4).all(|_| right()) { Verdict::Harmless } else { Verdict::Missed(what()) }
}

/// 1,000 programs with a wrong address, size, region or configuration each: refused by the checkers,
/// or the outputs are the same in every order that is allowed.
#[test]
fn corrupted_fields_are_refused_or_harmless() {
    let cases = all();
    let mut kinds: BTreeMap<&'static str, [usize; 2]> = BTreeMap::new();
    let [refused, harmless] = campaign(|random| {
        let case = &cases[random.below(cases.len())];
        let mut programs = case.programs.clone();
        let core = random.below(programs.len());
        let kind = match random.below(6) {
            0 => unconfigure(&mut programs[core], random),
            _ => corrupt_operand(&mut programs[core], random),
        }?;
        // With ADDEN the destination holds numbers, which a smaller tile legally leaves there.
        if kind == "size" && case.name.starts_with("adden") {
            return None;
        }
        // Of the enlarged image the first column is not read: a load that is one pixel off fills all
        // that is read, legally.
        if kind == "address" && case.name == "enlarge" {
            return None;
        }
        let verdict = verdict(&programs, case, random, || {
            let mut changed = programs[core].lines.iter().zip(&case.programs[core].lines);
            let line = changed.position(|(new, old)| new.inst != old.inst);
            let inst = line.map(|line| programs[core].lines[line].inst);
            format!("{}: {kind} at line {line:?} of core {core}: {inst:?}", case.name)
        });
        let harmless = matches!(verdict, Verdict::Harmless);
        kinds.entry(kind).or_default()[usize::from(harmless)] += 1;
        Some(verdict)
    });
    assert!(refused > 600 && harmless > 50, "{refused} refused, {harmless} harmless");
    // Every kind was refused somewhere.
    assert_eq!(kinds.len(), CORRUPTIONS.len() + 2);
    assert!(kinds.values().all(|[refused, _]| *refused > 0), "{kinds:?}");
}
