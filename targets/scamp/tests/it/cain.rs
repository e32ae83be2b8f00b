//! Cain's search: plans of all traversals, generators and heuristics, and what it reports.

use crate::common::{golden, golden_text, scamp5};
use quincunx_scamp::cain::{Settings, search};
use quincunx_scamp::files::read_kernels;
use quincunx_scamp::task::Task;

fn input(id: &str) -> (Task, Settings) {
    let file = read_kernels(&golden_text(&format!("cain_inputs/{id}.json"))).unwrap();
    (Task::of_file(&file, &scamp5()).unwrap(), Settings::of_file(&file).unwrap())
}

#[test]
fn trace() {
    let (task, mut settings) = input("gauss3");
    settings.max_nodes = 1500;
    let start = std::time::Instant::now();
    let outcome = search(&task, &settings, &scamp5()).unwrap();
    for plan in &outcome.plans {
        println!("{} {}", plan.nodes, plan.length);
        for i in &plan.program.instructions {
            println!("   {}", i.text());
        }
    }
    println!("{:?} {:?}", start.elapsed(), outcome.counts);
    let trace = golden("search_trace_gauss3.json");
    println!(
        "{:?}",
        trace["plans"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| (p[0].as_u64(), p[1].as_u64()))
            .collect::<Vec<_>>()
    );
}

#[test]
fn allof() {
    let mut names: Vec<String> = std::fs::read_dir(crate::common::root().join("cain_inputs"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in names {
        let (task, mut settings) = input(name.strip_suffix(".json").unwrap());
        settings.max_nodes = 1000;
        let start = std::time::Instant::now();
        match search(&task, &settings, &scamp5()) {
            Ok(outcome) => println!(
                "{name} {} first {} {:?} {} visits {}",
                outcome.best.length(),
                outcome.plans[0].nodes,
                start.elapsed(),
                outcome.counts.nodes,
                outcome.counts.visits
            ),
            Err(e) => println!("{name} {} {:?}", e.message(), start.elapsed()),
        }
    }
}
