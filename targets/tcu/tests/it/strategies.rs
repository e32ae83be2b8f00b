//! What stays in local memory: every strategy gives the same numbers, keeps there what it says, and
//! says why a network does not fit.

use crate::common::graphs::{judge, of_peer, random_graph};
use quincunx_contract::{Compiled, Compiler, Log, NotCompiled};
use quincunx_diag::Diagnostic;
use quincunx_graph::Graph;
use quincunx_import::{Options as ImportOptions, read_onnx};
use quincunx_tcu::isa::Inst;
use quincunx_tcu::{Artifact, TARGET, TcuArch};
use quincunx_testkit::{Random, options};
use std::collections::BTreeMap;

const STRATEGIES: [&str; 5] =
    ["auto", "local-isolated", "local-vars", "local-consts", "local-vars-and-consts"];

fn compile(graph: &Graph, arch: &TcuArch, strategy: &str) -> Result<Compiled, Diagnostic> {
    let options = options(&TARGET, &[("strategy", strategy)]);
    let compiled = TARGET.compile(graph, arch, &options, &mut Log::default());
    compiled.map_err(NotCompiled::first)
}

/// Moves between DRAM0 and local memory that touch neither an input nor an output, and those from
/// DRAM1.
fn moves(compiled: &Compiled) -> (usize, usize) {
    let artifact = compiled.program.as_any().downcast_ref::<Artifact>().unwrap();
    let model = artifact.package().model.as_ref().unwrap();
    let of_host = |address: u64| {
        let mut ports = model.inputs.iter().chain(&model.outputs);
        ports.any(|port| (port.base..port.base + port.size).contains(&address))
    };
    let steps = &artifact.package().program.steps;
    let vars = steps.iter().filter(|step| match step.inst {
        Inst::Dram0ToLocal { address, .. } | Inst::LocalToDram0 { address, .. } => {
            !of_host(address)
        }
        _ => false,
    });
    let consts = steps.iter().filter(|step| matches!(step.inst, Inst::Dram1ToLocal { .. }));
    (vars.count(), consts.count())
}

/// Every strategy before the judges.
#[test]
fn every_strategy_gives_the_same_numbers() {
    let mut compiled_with = BTreeMap::<&str, u32>::new();
    for (number, name) in (0..).zip(["artya7100t", "small4", "nostride8"]) {
        let arch = of_peer(name);
        for case in 1000 * number..1000 * number + 40 {
            let (graph, inputs) = random_graph(&mut Random::new(case), &arch);
            for strategy in STRATEGIES {
                let compiled = match judge(&graph, &inputs, &arch, &[("strategy", strategy)]) {
                    Ok(agreed) => agreed.compiled,
                    Err(problem) => {
                        assert!(
                            ["Q3086", "Q3087", "Q3115"].contains(&problem.code()),
                            "{case} {problem}"
                        );
                        assert!(problem.help_text().is_some(), "{problem}");
                        continue;
                    }
                };
                *compiled_with.entry(strategy).or_default() += 1;
                let (vars, consts) = moves(&compiled);
                assert!(vars == 0 || !strategy.contains("vars"), "{case} {strategy}");
                assert!(consts == 0 || !strategy.contains("consts"), "{case} {strategy}");
            }
        }
    }
    assert_eq!(compiled_with.len(), STRATEGIES.len());
    assert!(compiled_with.values().all(|&count| count > 80), "{compiled_with:?}");
}

/// What does not fit is named, with what it needs, what there is, and what would help.
#[test]
fn what_must_stay_and_does_not_fit_is_named() {
    let path = crate::common::root().join("models/t_resblock.onnx");
    let graph = read_onnx(std::fs::read(path).unwrap().into(), &ImportOptions::default()).unwrap();
    let small = |local_depth| TcuArch { local_depth, ..of_peer("artya7100t") };
    let refused = |strategy: &str, arch: &TcuArch| {
        assert!(compile(&graph, arch, "auto").is_ok());
        let problem = compile(&graph, arch, strategy).err().unwrap();
        assert_eq!(problem.code(), "Q3115");
        assert!(problem.help_text().unwrap().contains("--strategy auto"));
        problem
    };
    let problem = refused("local-vars", &small(128));
    let start = "layer \"conv_12\" does not fit: the tensors that live there need ";
    assert!(problem.message().starts_with(start), "{problem}");
    assert!(problem.message().ends_with("and there are 127"), "{problem}");
    // 13 vectors beside the constants hold the inputs of a position, but of few at a time.
    assert!(compile(&graph, &small(128), "local-consts").is_ok());
    let problem = refused("local-consts", &small(96));
    assert!(problem.message().starts_with("the constants need "), "{problem}");
    assert!(problem.message().ends_with(" of which there are 95"), "{problem}");
    assert!(problem.notes()[0].starts_with("most of them are for layer \"conv_"), "{problem}");
    let constants = problem.message().split(' ').nth(3).unwrap().parse::<u64>().unwrap();
    let problem = refused("local-vars-and-consts", &small(constants + 40));
    assert!(
        problem.message().contains(&format!("of which constants take {constants}")),
        "{problem}"
    );
}
