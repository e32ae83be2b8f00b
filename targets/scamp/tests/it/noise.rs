//! Errors of devices: what they do to numbers, and the files that say so.

use crate::common::{Images, parse, reg, scamp5};
use quincunx_contract::{Arch, File, Log, Options, Target};
use quincunx_diag::Diagnostic;
use quincunx_scamp::TARGET;
use quincunx_scamp::program::Space;
use quincunx_scamp::simulate::{Executor, Noise, Pattern, Settings, WriteErrors};
use quincunx_tensor::{Tensor, npy::write_npy};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const SIDE: usize = 128;

/// What a register holds after a program, row 0 northmost; A holds `a`, and C holds `c`.
fn run(
    text: &str,
    noise: Noise,
    size: (usize, usize),
    [a, c]: [f64; 2],
    register: &str,
) -> Vec<f64> {
    let settings = Settings { noise: Some(noise), ..Settings::default() };
    let executor = Executor::new(&parse(text), &scamp5(), size.0, size.1, settings).unwrap();
    let plane = |name: &str, value| ((Space::Analogue, reg(name)), vec![value; size.0 * size.1]);
    let images: Images = vec![plane("A", a), plane("C", c)];
    let outcome = executor.run(&images).unwrap();
    outcome.register((Space::Analogue, reg(register))).unwrap()
}

fn square(text: &str, noise: Noise, a: f64, register: &str) -> Vec<f64> {
    run(text, noise, (SIDE, SIDE), [a, 0.0], register)
}

/// Mean and standard deviation.
fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (square / values.len() as f64).sqrt())
}

fn assert_near((mean, deviation): (f64, f64), expected: (f64, f64), what: &str) {
    // The mean of 128 x 128 draws is off by less than five of its own deviations.
    let close = 5.0 / SIDE as f64;
    assert!((mean - expected.0).abs() <= close * expected.1 + 1e-9, "{what}: mean {mean}");
    assert!((deviation / expected.1 - 1.0).abs() < 0.04, "{what}: deviation {deviation}");
}

fn write(sigma: f64, bias: f64, gain: f64) -> WriteErrors {
    WriteErrors { sigma, bias, gain }
}

/// Noise, bias and gain of each class of writes, over all elements.
#[test]
fn statistics_of_writes() {
    let noise = Noise {
        writes: [write(0.5, 0.25, 1.0), write(1.0, -2.0, 0.5), write(2.0, 3.0, 1.25)],
        seed: 3,
        ..Noise::default()
    };
    let of = |text: &str| moments(&square(text, noise.clone(), 48.0, "B"));
    assert_near(of("bus(B, A)"), (-47.75, 0.5), "bus");
    assert_near(of("bus2(B, C, A)"), (-14.0, 1.0), "bus2");
    assert_near(of("bus3(B, C, D, A)"), (-17.0, 2.0), "bus3");
    // The second write turns the sign of the first one's bias.
    assert_near(of("mov(B, A)"), (48.0, 0.5_f64.sqrt()), "mov");
    // Writes into a neighbour are as noisy as others; the sides of the array have no writer.
    let moved = square("movx(B, A, north)", noise, 48.0, "B");
    assert_near(moments(&moved[SIDE..]), (48.0, 0.5_f64.sqrt()), "movx");
}

/// Mismatch has the stated deviation, is the same in every write, and sums to 0 over the receivers.
#[test]
fn statistics_of_patterns() {
    let text = "bus2(B, C, A); bus2(D, E, A)";
    let of = |register| square(text, Noise::of_mismatch(0.5, 9), 48.0, register);
    let (b, c) = (of("B"), of("C"));
    // Of two receivers each has half of the difference of two numbers.
    assert_near(moments(&b), (-24.0, 0.5 / 2.0_f64.sqrt()), "mismatch");
    assert!(b.iter().zip(&c).all(|(b, c)| (b + c + 48.0).abs() < 1e-12));
    let alone = square("bus(B, A)", Noise::of_mismatch(0.5, 9), 48.0, "B");
    assert!(alone.iter().all(|value| *value == -48.0));
    let offset = Pattern { sigma: 0.25, ..Pattern::default() };
    let noise = Noise { offset, seed: 4, ..Noise::default() };
    let twice = "bus(B, A); bus(C, A)";
    let (first, other) =
        (square(twice, noise.clone(), 1.0, "B"), square(twice, noise.clone(), 1.0, "C"));
    assert_near(moments(&first), (-1.0, 0.25), "offset");
    assert_ne!(first, other);
    // The pattern is that of the register, whatever the program and the image.
    let later = square("bus(D, A); bus(B, D)", noise, 5.0, "B");
    let later: Vec<f64> = later.iter().map(|value| value - 5.0).collect();
    let d = square(
        "bus(D, A)",
        Noise {
            seed: 4,
            offset: Pattern { sigma: 0.25, ..Pattern::default() },
            ..Noise::default()
        },
        5.0,
        "D",
    );
    for (at, (later, first)) in later.iter().zip(&first).enumerate() {
        // B holds minus D, which has an offset of its own.
        assert!((later + d[at] + 5.0 - (first + 1.0)).abs() < 1e-9);
    }
}

/// Equal seeds and images have equal noise, others another; a device keeps its patterns.
#[test]
fn what_noise_depends_on() {
    let of = |seed, a| square("bus(B, A)", Noise::of_writes([0.5; 3], seed), a, "B");
    assert_eq!(of(1, 50.0), of(1, 50.0));
    assert_ne!(of(1, 50.0), of(2, 50.0));
    let shifted: Vec<f64> = of(1, 50.0).iter().map(|value| value + 1.0).collect();
    let differ = shifted.iter().zip(of(1, 49.0)).filter(|(a, b)| (*a - b).abs() > 1e-6).count();
    assert!(differ > SIDE * SIDE / 2, "{differ}");
    let of = |seed, device| {
        let noise = Noise { device, ..Noise::of_mismatch(1.0, seed) };
        square("bus2(B, C, A)", noise, 50.0, "B")
    };
    assert_eq!(of(1, Some(7)), of(2, Some(7)));
    assert_ne!(of(1, None), of(2, None));
    assert_eq!(of(7, None), of(1, Some(7)));
}

/// A device without chance on three elements, by hand: gains, biases and maps.
#[test]
fn errors_by_hand() {
    let maps = |list: &[(&str, [f64; 3])]| {
        list.iter().map(|(name, map)| (reg(name), map[..].into())).collect::<BTreeMap<_, _>>()
    };
    let news = [0.5, -0.25, 1.0];
    let (b, d) = ([0.125, 0.25, 0.5], [1.0, 2.0, -4.0]);
    let noise = Noise {
        writes: [write(0.0, 0.25, 0.5), write(0.0, -1.0, 2.0), write(0.0, 0.0, 1.0)],
        mismatch: Pattern { sigma: 0.0, maps: maps(&[("B", b), ("D", d)]) },
        offset: Pattern { sigma: 0.0, maps: maps(&[("NEWS", news)]) },
        ..Noise::default()
    };
    let text = "bus(NEWS, A, C); bus2(B, D, NEWS)";
    let of = |register| run(text, noise.clone(), (3, 1), [10.0, 6.0], register);
    for element in 0..3 {
        let first = -16.0 * 0.5 + 0.25 + news[element];
        let second = -first / 2.0 * 2.0 - 1.0;
        let half = (b[element] - d[element]) / 2.0;
        assert_eq!(of("NEWS")[element], first);
        assert_eq!(of("B")[element], second + half);
        assert_eq!(of("D")[element], second - half);
    }
    // Half as large errors.
    let mut half = noise.clone();
    half.scale(0.5);
    let found = run("bus(NEWS, A, C)", half, (3, 1), [10.0, 6.0], "NEWS");
    assert_eq!(found[1], -16.0 * 0.75 + 0.125 - 0.125);
    let settings = Settings { noise: Some(noise), ..Settings::default() };
    let problem = Executor::new(&parse(text), &scamp5(), 2, 2, settings).unwrap_err();
    assert_eq!(problem.code(), "Q5142");
}

/// The results of a program that reads a noise file with these options.
fn read(folder: &Path, text: &str, options: &[(&str, &str)]) -> Result<Vec<f64>, Diagnostic> {
    let path = folder.join("noise.toml");
    fs::write(&path, text).unwrap();
    let named = [("noise", path.to_str().unwrap()), ("size", "3x2")];
    let given = named.iter().chain(options);
    let given: Vec<_> =
        given.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let options = Options::new(TARGET.info().options, &given)?;
    let arch: Box<dyn Arch> = Box::new(scamp5());
    let program = [File::new("p.txt", "bus(B, A); bus2(C, D, A)")];
    let read = TARGET.read(&program, None, &*arch, &options, &mut Log::default());
    let program = read.map_err(quincunx_diag::first)?;
    let mut machine = program.load(quincunx_contract::Engine::Fast)?;
    let image = Tensor::from_vec(&[2, 3], vec![8.0; 6])?;
    let outputs = machine.run(&[("A".to_owned(), image)].into())?;
    Ok(["B", "C"].iter().flat_map(|name| outputs[*name].to_f64()).collect())
}

/// A file says what the options say, and options count more.
#[test]
fn files_and_options() {
    let place = tempfile::tempdir().unwrap();
    let read = |text: &str, options: &[(&str, &str)]| read(place.path(), text, options).unwrap();
    let noisy = "seed = 5\n[bus]\nsigma = 1\n[bus2]\nsigma = 2.0\n[mismatch]\nsigma = 0.5\n";
    let by_options = [("seed", "5"), ("noise-bus", "1"), ("noise-bus2", "2"), ("mismatch", "0.5")];
    assert_eq!(read(noisy, &[]), read("", &by_options));
    let ideal = read("", &[]);
    assert_eq!(ideal, [[-8.0; 6], [-4.0; 6]].concat());
    let off = [("noise-bus", "0"), ("noise-bus2", "0"), ("mismatch", "0")];
    assert_eq!(read(noisy, &off), ideal);
    assert_eq!(read(noisy, &[("noise-scale", "0")]), ideal);
    assert_ne!(read(noisy, &[("seed", "6")]), read(noisy, &[]));
    let twice = "seed = 5\n[bus]\nsigma = 2\n[bus2]\nsigma = 4\n[mismatch]\nsigma = 1\n";
    assert_eq!(read(noisy, &[("noise-scale", "2")]), read(twice, &[]));
    let biased = "device = 1\n[bus]\nbias = 0.5\ngain = 0.5\n";
    assert_eq!(read(biased, &[])[..6], [-3.5; 6]);
    let map = Tensor::from_vec(&[2, 3], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0_f32]).unwrap();
    fs::write(place.path().join("b.npy"), write_npy(&map)).unwrap();
    let mapped = "[offset.maps]\nB = \"b.npy\"\n[mismatch.maps]\nC = \"b.npy\"\n";
    let expected = [-8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -4.0, -3.5, -3.0, -2.5, -2.0, -1.5];
    assert_eq!(read(mapped, &[]), expected);
    assert_eq!(read(mapped, &[("noise-scale", "0")]), ideal);
}

/// What is wrong in a file is told with its place.
#[test]
fn wrong_files_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let map = |name: &str, shape: &[usize], values: Vec<f64>| {
        let map = Tensor::from_vec(shape, values).unwrap();
        fs::write(place.path().join(name), write_npy(&map)).unwrap();
    };
    map("wide.npy", &[3, 2], vec![0.0; 6]);
    map("nan.npy", &[2, 3], vec![0.0, 0.0, 0.0, 0.0, f64::NAN, 0.0]);
    fs::write(place.path().join("text.npy"), "text").unwrap();
    for (text, code, at, says) in [
        ("[bus]\nsigma = -1\n", "Q5142", ":2:9", "sigma is -1, expected 0 to"),
        ("[bus2]\nsigma = nan\n", "Q5142", ":2:9", "sigma is NaN"),
        ("[bus3]\n\n  bias = inf\n", "Q5142", ":3:10", "bias is inf"),
        ("[bus]\ngain = 2.5\n", "Q5142", ":2:8", "gain is 2.5, expected 0 to 2"),
        ("[bus]\nsigmo = 1\n", "Q5141", ":2:1", "unknown field `sigmo`"),
        ("[bus4]\n", "Q5141", ":1:2", "unknown field `bus4`"),
        ("[bus]\nsigma = \"a\"\n", "Q5141", ":2:9", "invalid type"),
        ("seed = -1\n", "Q5141", ":1:8", "-1"),
        ("[bus\n", "Q5141", ":1:5", ""),
        ("[mismatch]\nsigma = 2e9\n", "Q5142", ":2:9", "2000000000"),
        ("[mismatch.maps]\nQ = \"a.npy\"\n", "Q5142", ":2:5", "\"Q\""),
        ("[offset.maps]\nA = \"wide.npy\"\n", "Q5142", ":2:5", "the array has 2 rows of 3"),
        ("[offset.maps]\nA = \"nan.npy\"\n", "Q5142", ":2:5", "row 1, column 1"),
    ] {
        let problem = read(place.path(), text, &[]).unwrap_err();
        assert_eq!(problem.code(), code, "{text}: {problem:?}");
        let shown = problem.place().unwrap().to_string();
        assert!(shown.ends_with(&format!("noise.toml{at}")), "{text}: {shown}");
        assert!(problem.message().contains(says), "{text}: {}", problem.message());
    }
    let helps = [("[bus]\nsigmo = 1\n", "sigma"), ("[offset.maps]\nNEW = \"a.npy\"\n", "NEWS")];
    for (text, help) in helps {
        let problem = read(place.path(), text, &[]).unwrap_err();
        assert!(problem.help_text().is_some_and(|text| text.contains(help)), "{problem:?}");
    }
    for (name, code) in [("none.npy", "Q5140"), ("text.npy", "Q0204")] {
        let text = format!("[offset.maps]\nA = {name:?}\n");
        let problem = read(place.path(), &text, &[]).unwrap_err();
        assert_eq!(problem.code(), code);
        assert!(problem.place().unwrap().to_string().contains(name), "{problem:?}");
    }
    let gone = place.path().join("gone.toml");
    let problem = read(place.path(), "", &[("noise", gone.to_str().unwrap())]).unwrap_err();
    assert_eq!((problem.code(), problem.class().exit_code()), ("Q5140", 74));
}
