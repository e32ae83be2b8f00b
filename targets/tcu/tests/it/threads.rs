//! Loads come early, on a second thread where there is one: the numbers stay, no threads race, and
//! it takes less time.

use crate::common::graphs::{self, judge, random_graph};
use quincunx_contract::{Compiled, Compiler, Log};
use quincunx_graph::Graph;
use quincunx_import::{Options as ImportOptions, read_onnx};
use quincunx_tcu::isa::Inst;
use quincunx_tcu::program::Program;
use quincunx_tcu::time::{Cost, costs, sequence};
use quincunx_tcu::{Artifact, TARGET, TcuArch};
use quincunx_testkit::{Random, options};

fn compile(graph: &Graph, arch: &TcuArch, given: &[(&str, &str)]) -> Option<Compiled> {
    TARGET.compile(graph, arch, &options(&TARGET, given), &mut Log::default()).ok()
}

fn program(compiled: &Compiled) -> &Program {
    let artifact = compiled.program.as_any().downcast_ref::<Artifact>().unwrap();
    &artifact.package().program
}

/// Cycles until both threads are done, by upstream's model.
fn finish(program: &Program) -> u64 {
    let sequence = sequence(program, &costs(program, false));
    sequence.intervals.iter().map(|interval| interval.end).max().unwrap_or(0)
}

/// A machine of the peer's programs, with one thread and with two.
fn of_peer(name: &str) -> [TcuArch; 2] {
    let one = graphs::of_peer(name);
    let two = TcuArch { number_of_threads: 2, ..one.clone() };
    [one, two]
}

/// Random graphs on machines with two threads: legal (which includes that threads do not race), the
/// golden model's numbers at every layer, as early as with one thread or earlier, and only moves
/// between DRAM and local memory are on the second thread.
#[test]
fn two_threads_give_the_numbers_of_one() {
    let (mut together, mut faster, mut all) = ([0; 2], 0, 0);
    for (number, name) in (0..).zip(["artya7100t", "small4", "tight8"]) {
        let machines = of_peer(name);
        for case in 1000 * number..1000 * number + 60 {
            let (graph, inputs) = random_graph(&mut Random::new(case), &machines[0]);
            for rounding in ["compat", "free"] {
                let options = [("rounding", rounding)];
                let Some(one) = compile(&graph, &machines[0], &options) else { continue };
                let Ok(two) = judge(&graph, &inputs, &machines[1], &options) else { continue };
                let two = two.compiled;
                let times = [&one, &two].map(|compiled| finish(program(compiled)));
                assert!(times[1] <= times[0], "{case}: {times:?}");
                (all, faster) = (all + 1, faster + usize::from(times[1] < times[0]));
                together[0] += times[0];
                together[1] += times[1];
                assert!(program(&one).steps.iter().all(|step| step.tid == 0));
                let moves = program(&two).steps.iter().filter(|step| step.tid == 1);
                assert!(moves.into_iter().all(|step| matches!(
                    step.inst,
                    Inst::Dram0ToLocal { .. }
                        | Inst::LocalToDram0 { .. }
                        | Inst::Dram1ToLocal { .. }
                        | Inst::NoOp { thread: 0 }
                )));
            }
        }
    }
    assert!(all > 250 && faster * 10 > all * 8, "{faster} of {all} are faster");
    // A twelfth less in all.
    assert!(together[1] * 12 < together[0] * 11, "{together:?}");
}

/// What is known of the peer's networks: cycles by the two-engine model, which loads in the order of
/// the computation would not reach, and the sum by upstream's model with a second thread.
#[test]
fn loads_run_beside_products() {
    let read = |name: &str| {
        let path = crate::common::root().join("models").join(format!("{name}.onnx"));
        read_onnx(std::fs::read(path).unwrap().into(), &ImportOptions::default()).unwrap()
    };
    let [one, two] = of_peer("small4");
    for name in ["t_resblock", "t_conv3_same", "t_conv3_valid"] {
        let graph = read(name);
        let early = compile(&graph, &one, &[]).unwrap();
        let threads = compile(&graph, &two, &[]).unwrap();
        let early = program(&early);
        let total = quincunx_tcu::time::engines(early).total;
        let late = late(early);
        let in_order = quincunx_tcu::time::engines(&late).total;
        assert!(total < in_order, "{name}: {total}, in order {in_order}");
        let sums = [early, &late].map(|program| Cost::sum(&costs(program, false)).cycles);
        assert!(sums[0] <= sums[1], "{name}: {sums:?}");
        let finished = finish(program(&threads));
        assert!(finished < sums[0], "{name}: {finished} of {}", sums[0]);
    }
}

/// Every load as late as it may be: right before something touches what it writes.
fn late(program: &Program) -> Program {
    let arch = &program.arch;
    let mut steps = program.steps.clone();
    for index in (0..steps.len()).rev() {
        if !matches!(steps[index].inst, Inst::Dram0ToLocal { .. } | Inst::Dram1ToLocal { .. }) {
            continue;
        }
        let effects = steps[index].inst.effects(arch);
        let mut to = index;
        while to + 1 < steps.len() {
            let next = steps[to + 1].inst.effects(arch);
            let touches = next.spans().any(|span| effects.writes[0].meets(span))
                || next.writes.iter().any(|span| effects.reads[0].meets(span));
            if touches {
                break;
            }
            steps.swap(to, to + 1);
            to += 1;
        }
    }
    Program { arch: arch.clone(), steps }
}
