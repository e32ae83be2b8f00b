use super::*;
use crate::split::{Split, Wish, compile_split, foldable, handovers, parse};
use crate::verify::{Against, against_model, verify};
use crate::{Calibration, Silent, open_folder, run::run, time};
use quincunx_contract::Target;
use quincunx_report::Format;

/// Names of the nodes of every machine.
fn parsed(text: &str) -> Vec<(String, Vec<String>)> {
    let graph = mixed().graph;
    let names = |wish: Wish| {
        let nodes = wish.nodes.iter().map(|&id| graph[id].name.clone()).collect();
        (wish.machine, nodes)
    };
    parse(text, &graph).unwrap().into_iter().map(names).collect()
}

#[test]
fn nodes_ranges_and_the_rest_go_to_machines() {
    let expected = |parts: &[(&str, &[&str])]| -> Vec<(String, Vec<String>)> {
        let part = |(machine, nodes): &(&str, &[&str])| {
            ((*machine).to_owned(), nodes.iter().map(|&node| node.to_owned()).collect())
        };
        parts.iter().map(part).collect()
    };
    let halves = expected(&[("a", &["relu", "neg"]), ("b@two", &["mul", "add"])]);
    assert_eq!(parsed("relu,neg@a, rest@b@two"), halves);
    assert_eq!(parsed("relu..neg@a,rest@b@two"), halves);
    assert_eq!(parsed("rest@a,mul..add@b@two"), halves);
    // The ways from one node to another go through the nodes between alone.
    let ways = expected(&[("a", &["relu"]), ("b", &["neg", "mul", "add"])]);
    assert_eq!(parsed("relu@a, neg..add@b"), ways);
    // A machine can come several times; one without nodes is none.
    let thrice = expected(&[("a", &["relu"]), ("b", &["neg", "mul"]), ("a", &["add"])]);
    assert_eq!(parsed("relu@a, neg,mul@b, add@a, rest@b"), thrice);
}

#[test]
fn splits_that_cannot_be_are_told_with_names() {
    let graph = mixed().graph;
    for (text, code, parts) in [
        ("rellu@a, rest@b", "Q0656", &["\"rellu\"", "did you mean \"relu\""][..]),
        ("relu..nge@a, rest@b", "Q0656", &["\"nge\""]),
        ("relu@a, relu@b, rest@b", "Q0656", &["\"relu\" is given twice"]),
        ("relu..add@a, neg@b", "Q0656", &["\"neg\" is given twice"]),
        ("rest@a, rest@b", "Q0656", &["the rest is given twice"]),
        ("relu@a", "Q0656", &["\"neg\" has no machine"]),
        ("relu, rest", "Q0656", &["\"relu, rest\" has no machine"]),
        ("", "Q0656", &["has no machine"]),
        ("add..relu@a, rest@b", "Q0656", &["no way leads from \"add\" to \"relu\""]),
        ("neg@a, rest@b", "Q0657", &["\"neg\" on a reads \"r\"", "\"relu\" on b"]),
        ("relu,add@a, rest@b", "Q0657", &["\"add\" on a reads \"m\"", "\"mul\" on b"]),
    ] {
        let problem = parse(text, &graph).unwrap_err();
        assert_eq!(problem.code(), code, "{text}");
        let told = format!("{} {}", problem.message(), problem.help_text().unwrap_or_default());
        parts.iter().for_each(|part| assert!(told.contains(part), "{text}: {told}"));
    }
}

#[test]
fn a_pipeline_is_one_program() {
    let model = foldable(&mixed()).unwrap();
    let data = images(&model, 12);
    let wishes = parse("relu@toy, neg,mul@toy, rest@toy", &model.graph).unwrap();
    let parts = wishes.into_iter().map(|wish| (setup(&[]), wish.nodes)).collect();
    let calibration = Calibration::default();
    let (strict, fold_batch_norm) = (false, true);
    let verify_each = true;
    let split = Split { model: &model, parts, strict, fold_batch_norm, calibration, verify_each };
    let pipeline = compile_split(split).unwrap();
    let names: Vec<&str> =
        pipeline.executable.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["0-toy-device0", "1-toy-host0", "2-toy-device0"]);
    let rows: Vec<_> = pipeline.rows().iter().map(|row| row.segment.clone()).collect();
    assert_eq!(rows, ["0-toy-device0", "1-toy-host0", "1-toy-host0", "2-toy-device0"]);

    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("p");
    pipeline.to_folder(&model).unwrap().write(&path).unwrap();
    let targets: &[&dyn Target] = &[&TOY];
    let opened = open_folder(&path, targets, &[]).unwrap();
    assert!(verify(&opened).is_empty());
    assert_eq!(opened.plan_of(1).len(), 2);
    let traces = run(&opened.executable, &data, &plain(), &Silent).unwrap();
    assert_eq!(traces, run(&pipeline.executable, &data, &plain(), &Silent).unwrap());
    let whole = crate::Executable::reference(&model.graph);
    for (trace, expected) in traces.iter().zip(run(&whole, &data, &plain(), &Silent).unwrap()) {
        assert_eq!(trace.outputs["y"].to_f64(), expected.outputs["y"].to_f64());
    }
    // What the last machine reads came from both others.
    let table = handovers(traces.iter().flat_map(|trace| &trace.handovers)).unwrap();
    let table = crate::report::Report::from(table).render(Format::Csv);
    let moved: Vec<String> =
        table.lines().skip(1).map(|l| l.split(',').take(3).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(moved, ["r 0-toy-device0 2-toy-device0", "m 1-toy-host0 2-toy-device0"]);
    assert_eq!(time::time(&opened.executable).unwrap().len(), 2);

    let against = Against { model: &mixed(), no_fold_batch_norm: false, calibration };
    let agree = |options: &[(String, String)], number: usize| {
        let opened = open_folder(&path, targets, options).unwrap();
        let agreement = against_model(&opened, &against, &data, false, threads(number), &Silent);
        agreement.map(|found| (found.bit_exact, found.difference))
    };
    for number in [1, 2] {
        assert_eq!(agree(&[], number).unwrap(), (12, None));
    }
    let wrong = [("wrong".to_owned(), "true".to_owned())];
    assert!(agree(&wrong, 1).unwrap().0 < 12);
    let against = Against { model: &neg_only(), ..against };
    let other = against_model(&opened, &against, &data, false, ONE, &Silent);
    assert_eq!(other.unwrap_err().exit_code(), 3);
}
