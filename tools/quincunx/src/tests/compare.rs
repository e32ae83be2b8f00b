use super::*;
use crate::compare::{Comparison, Figures, Row, Status, compare, exit_code, report};
use crate::{Calibration, Silent};
use quincunx_report::Format;

fn rows(model: &Model, data: &Dataset, options: &[(&str, &str)], number: usize) -> Vec<Row> {
    rows_with(model, data, options, number, false)
}

fn rows_with(
    model: &Model,
    data: &Dataset,
    options: &[(&str, &str)],
    number: usize,
    layers: bool,
) -> Vec<Row> {
    let comparison = Comparison {
        model,
        data,
        calibration: Calibration::default(),
        fold_batch_norm: true,
        layers,
        threads: threads(number),
    };
    compare(&comparison, &[setup(options)], &Silent).unwrap()
}

/// The row without measured times.
fn timeless(row: &Row) -> String {
    let figures = row.figures.clone().map(|figures| Figures {
        seconds_compile: 0.0,
        images_per_second: 0.0,
        ..figures
    });
    format!("{:?} {} {figures:?} {}", row.status, row.images, row.problems)
}

#[test]
fn judges_agree_on_a_correct_machine() {
    let model = mixed();
    let rows = rows(&model, &images(&model, 9), &[], 2);
    let figures = rows[0].figures.as_ref().unwrap();
    assert_eq!((rows[0].status, rows[0].images), (Status::Ok, 9));
    assert_eq!((figures.bit_exact, figures.agree), (9, 9));
    assert_eq!((figures.accuracy, figures.max_error), (None, Some(0.0)));
    assert_eq!(figures.device_mac_share, 0.5);
    assert_eq!(figures.stats.instructions, 2);
    assert!(rows[0].is_exact() && rows[0].problems.diagnostics.is_empty());
}

#[test]
fn a_wrong_simulator_is_caught_with_the_first_difference() {
    let model = mixed();
    let data = images(&model, 40);
    let rows = rows(&model, &data, &[("wrong", "true")], 2);
    let hit = data.images.iter().filter(|image| image["x"].to_f64()[0] > 0.5).count();
    assert!(hit > 0 && hit < 40);
    assert_eq!(rows[0].figures.as_ref().unwrap().bit_exact, 40 - hit);
    assert!(!rows[0].is_exact());
    assert_eq!(rows[0].problems.exit_code(), 1);
    assert!(rows[0].problems.to_string().contains("value \"r\" differs at element 0"));
}

#[test]
fn layers_tell_where_a_machine_parts_from_the_model_as_given() {
    let model = mixed();
    let data = images(&model, 40);
    let right = &rows_with(&model, &data, &[], 2, true)[0];
    let layers = &right.figures.as_ref().unwrap().layers;
    let places: Vec<_> = layers.iter().map(|l| (&*l.value, l.op, l.device)).collect();
    let (relu, add) = (("r", Some("Relu"), true), ("y", Some("Add"), true));
    assert_eq!(places, [relu, ("n", Some("Neg"), false), ("m", Some("Mul"), false), add]);
    for layer in layers {
        let distance = layer.distance.unwrap();
        assert_eq!((distance.max, distance.elements), (0.0, 40 * 4), "{}", layer.value);
        assert_eq!(layer.bit_exact, layer.device.then_some(40));
    }

    let wrong = &rows_with(&model, &data, &[("wrong", "true")], 2, true)[0];
    let figures = wrong.figures.as_ref().unwrap();
    assert!(figures.max_difference > 0.0);
    let hit = data.images.iter().filter(|image| image["x"].to_f64()[0] > 0.5).count();
    assert_eq!(figures.layers[0].bit_exact, Some(40 - hit));
    assert!(figures.layers.iter().all(|layer| layer.distance.unwrap().max > 0.0));
    assert!(figures.layers[0].distance.unwrap().decibels().is_some());

    let json = report(std::slice::from_ref(wrong), true, false).render(Format::Json);
    assert!(json.contains("\"layers\"") && json.contains("\"signal_to_noise\""));
}

#[test]
fn labels_give_accuracy() {
    let model = relu_only();
    let mut data = images(&model, 4);
    let class = |image: &quincunx_tensor::Tensors| {
        let values = image["x"].to_f64();
        (0..4).max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap() as i64
    };
    let mut labels: Vec<i64> = data.images.iter().map(class).collect();
    labels[0] = -1;
    data.labels = Some(labels);
    assert_eq!(rows(&model, &data, &[], 1)[0].figures.as_ref().unwrap().accuracy, Some(0.75));
}

#[test]
fn a_model_without_machine_nodes_is_on_the_host() {
    let model = neg_only();
    let row = &rows(&model, &images(&model, 2), &[], 1)[0];
    let figures = row.figures.as_ref().unwrap();
    assert_eq!((row.status, figures.bit_exact, figures.device_mac_share), (Status::Host, 2, 0.0));
}

#[test]
fn what_does_not_fit_is_a_row_without_figures() {
    let model = mixed();
    let row = &rows(&model, &images(&model, 2), &[("full", "true")], 1)[0];
    assert_eq!((row.status, row.figures.is_none()), (Status::Unsupported, true));
    assert_eq!(row.problems.exit_code(), 4);
    let json = report(std::slice::from_ref(row), false, false).render(Format::Json);
    assert!(json.contains("\"bit_exact\": null"));
}

#[test]
fn rows_do_not_depend_on_threads() {
    let model = mixed();
    let data = images(&model, 13);
    for options in [&[][..], &[("wrong", "true")]] {
        let one = timeless(&rows_with(&model, &data, options, 1, true)[0]);
        for number in [2, 5, 16] {
            assert_eq!(one, timeless(&rows_with(&model, &data, options, number, true)[0]));
        }
    }
}

#[test]
fn json_has_the_documented_fields_in_order() {
    let model = mixed();
    let json = report(&rows(&model, &images(&model, 1), &[], 1), false, false).render(Format::Json);
    let keys: Vec<&str> = json.lines().filter_map(|l| l.trim().split('"').nth(1)).collect();
    assert_eq!(
        keys,
        [
            "schema",
            "rows",
            "target",
            "machine",
            "status",
            "images",
            "bit_exact",
            "agree",
            "accuracy",
            "device_mac_share",
            "microseconds",
            "utilisation",
            "limit",
            "instructions",
            "bytes",
            "cycles",
            "seconds_compile",
            "images_per_second",
            "max_error",
            "max_difference",
            "clipped"
        ]
    );
}

#[test]
fn exit_codes_rank_judges_above_missing_support() {
    let (model, wrong) = (mixed(), &[("wrong", "true")][..]);
    let data = images(&model, 40);
    let row = |options: &[(&str, &str)]| rows(&model, &data, options, 2).remove(0);
    let (good, bad, full) = (row(&[]), row(wrong), row(&[("full", "true")]));
    assert_eq!(exit_code(std::slice::from_ref(&good), true), 0);
    let pair = [good, full];
    assert_eq!((exit_code(&pair, false), exit_code(&pair, true)), (0, 4));
    let [_, full] = pair;
    assert_eq!(exit_code(&[full, bad], true), 1);
}

/// All that is known of a machine is there on request, and in its terms.
#[test]
fn tables_tell_the_rest() {
    let model = mixed();
    let rows = rows(&model, &images(&model, 1), &[], 1);
    let all = report(&rows, false, true);
    assert_eq!(all.tables(), ["rows", "programs", "errors", "memories", "costs", "host"],);
    let host = all.only(|key| key == "host").render(Format::Csv);
    let nodes: Vec<&str> = host.lines().skip(1).filter_map(|l| l.split(',').nth(2)).collect();
    assert_eq!(nodes, ["neg", "mul"], "{host}");
}
