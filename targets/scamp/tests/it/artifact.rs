//! Programs behind ports: inputs, read-out, options, files, time.

use crate::common::{parse, reg, scamp5};
use quincunx_contract::{Engine, File, Interface, Log, Options, Program, Target};
use quincunx_diag::Diagnostic;
use quincunx_scamp::program::Space;
use quincunx_scamp::simulate::{Executor, Settings};
use quincunx_scamp::time::{Model, frames_per_second, timeline, total};
use quincunx_tensor::{Tensor, Tensors};

fn read(source: &str, options: &[(&str, &str)]) -> Result<Box<dyn Program>, Vec<Diagnostic>> {
    let target = &quincunx_scamp::TARGET;
    let mut given = vec![("size".to_owned(), "3x2".to_owned())];
    given.extend(options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let options = Options::new(target.info().options, &given).unwrap();
    let files = [File::new("a.txt", source.to_owned())];
    target.read(&files, None, &scamp5(), &options, &mut Log::default())
}

fn names(source: &str) -> (Vec<String>, Vec<String>) {
    let program = read(source, &[]).unwrap();
    let Interface { inputs, outputs, .. } = program.interface();
    let names = |ports: &[quincunx_contract::Port]| ports.iter().map(|p| p.name.clone()).collect();
    (names(inputs), names(outputs))
}

fn image(values: &[f64]) -> Tensor {
    Tensor::from_vec(&[2, 3], values.to_vec()).unwrap()
}

fn tensors(list: &[(&str, Tensor)]) -> Tensors {
    list.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect()
}

/// The output `B` of a program for an image in `A`, and what was noticed.
fn run(source: &str, options: &[(&str, &str)], values: &[f64; 6]) -> (Vec<f64>, Vec<&'static str>) {
    let program = read(source, options).unwrap();
    let mut machine = program.load(Engine::Exec).unwrap();
    let outputs = machine.run(&tensors(&[("A", image(values))])).unwrap();
    let notes = machine.notes().iter().map(Diagnostic::code).collect();
    assert!(machine.notes().is_empty());
    (outputs["B"].to_f64(), notes)
}

#[test]
fn ports_are_registers() {
    let list = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<String>>();
    let given = "/*Inputs in: [C, A]*/ add(B, A, C); /*Null Instruction: [] <- [B]*/";
    assert_eq!(names(given), (list(&["C", "A"]), list(&["B"])));
    assert_eq!(names("sub(B, A, C); neg(D, B)"), (list(&["A", "C"]), list(&["B", "D"])));
    assert_eq!(names("getpix(A, IN)"), (list(&["IN", "PIX"]), list(&["A"])));
    let both = names("where(A); MOV(R5, FLAG); all()");
    assert_eq!(both, (list(&["A"]), list(&["R5"])));
    let sensor = "/*Inputs in: [A]*/ get_image(B); add(B, A, B);";
    assert_eq!(names(sensor).0, list(&["A", "PIX"]));
}

/// The global input is one number; the sensor an image.
#[test]
fn sensor_inputs() {
    let program = read("getpix(A, B, IN)", &[]).unwrap();
    let mut machine = program.load(Engine::Exec).unwrap();
    let level = Tensor::from_vec(&[1], vec![10.0]).unwrap();
    let pixels = image(&[10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
    let inputs = tensors(&[("PIX", pixels), ("IN", level)]);
    let outputs = machine.run(&inputs).unwrap();
    assert_eq!(outputs["A"].to_f64(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
    assert_eq!(outputs["B"].to_f64(), [0.0, -5.0, -10.0, -15.0, -20.0, -25.0]);
    assert_eq!(machine.run(&Tensors::new()).unwrap_err().code(), "Q0310");
}

#[test]
fn options_of_a_run() {
    let values = [1.0, 2.0, 3.0, 4.0, 200.0, 6.0];
    let copy = "mov(B, A)";
    assert_eq!(run(copy, &[], &values).0, values);
    assert_eq!(run(copy, &[("input-range", "half")], &values).0[4], 100.0);
    assert_eq!(run(copy, &[("readout", "8bit")], &values).0[4], 255.0);
    assert_eq!(run(copy, &[("readout", "1bit")], &values).0, [1.0; 6]);
    assert_eq!(run(copy, &[("readout", "events")], &values).0.len(), 12);
    let (saturated, notes) = run(copy, &[("saturate", "true")], &values);
    assert_eq!((saturated[4], notes), (128.0, vec!["Q5063"]));
    assert_ne!(run(copy, &[("noise-bus", "0.5")], &values).0, values);
    let east = "movx(B, A, east)";
    assert_eq!(run(east, &[], &values).0, [2.0, 3.0, 0.0, 200.0, 6.0, 0.0]);
    // With nothing beyond the edge, NEWS of the last column keeps what it was.
    let stale = run("bus(NEWS, A); movx(B, A, east)", &[("edge", "stale")], &values).0;
    assert_eq!(stale, [2.0, 3.0, 3.0, 200.0, 6.0, 6.0]);
    let (thirds, notes) = run("bus3(B, C, D, A)", &[], &values);
    assert_eq!((thirds[0], notes), (-1.0 / 3.0, vec!["Q5064"]));
}

#[test]
fn options_that_mean_nothing() {
    for (name, value) in [
        ("size", "3"),
        ("size", "0x3"),
        ("size", "100000x100000"),
        ("simulator-name", "a b"),
        ("function", ""),
    ] {
        let problems = read("res(A)", &[(name, value)]).err().unwrap();
        assert_eq!(problems[0].code(), "Q5013", "{name} {value}");
    }
}

#[test]
fn files_and_interfaces() {
    let program = read("mov(B, A)", &[("simulator-name", "cam"), ("function", "f")]).unwrap();
    for kind in quincunx_scamp::TARGET.info().kinds {
        let files = program.emit(kind.name, "x");
        match kind.name {
            "csim" => assert_eq!(files.unwrap_err().code(), "Q5004"),
            "steps" => assert_eq!(files.unwrap()[0].name, "x.html"),
            "steps-gif" => assert_eq!(files.unwrap()[0].name, "x.gif"),
            _ => {
                let text = files.unwrap()[0].text().unwrap().to_owned();
                let source =
                    if kind.name == "bus" { "bus(NEWS, A); bus(B, NEWS)" } else { "mov(B, A)" };
                assert_eq!(parse(&text), parse(source), "{text}");
                assert_eq!(text.contains("cam.mov(cam.B, cam.A)"), kind.name == "jss");
                assert_eq!(text.contains("void f() {"), kind.name == "cpp");
            }
        }
    }
    assert_eq!(read("neg(A, A)", &[]).unwrap().load(Engine::Exec).err().unwrap().code(), "Q5022");
    let target = &quincunx_scamp::TARGET;
    let options = Options::new(target.info().options, &[]).unwrap();
    let files = [File::new("a.txt", "mov(B, A)")];
    let other = Some(Interface::default());
    let problems = target.read(&files, other, &scamp5(), &options, &mut Log::default());
    assert_eq!(problems.err().unwrap()[0].code(), "Q5070");
}

/// Cycles of the public simulator as documented.
#[test]
fn simulator_cycles() {
    for (source, cycles) in [
        ("bus(A)", 1),
        ("bus(A, B)", 1),
        ("bus(A, B, C)", 4),
        ("bus(A, B, C, D)", 5),
        ("bus(A, B, C, D, E)", 6),
        ("bus2(A, B)", 2),
        ("bus2(A, B, C)", 3),
        ("bus2(A, B, C, D)", 5),
        ("where(A)", 2),
        ("where(A, B)", 4),
        ("where(A, B, C)", 5),
        ("bus(XE, A)", 2),
        ("bus(A, XE, XW)", 6),
        ("movx(A, B, north)", 3),
        ("NOT(R5, R6)", 3),
        ("OR(R5, R6, R7)", 4),
        ("OR(R5, R6, R7, R8, R9)", 6),
        ("NOR(R5, R6, R7)", 5),
        ("NOR(R5, R6, R7, R8, R9)", 7),
        ("MOV(R5, R6)", 2),
        ("SET(R5, R6, R7)", 3),
        ("CLR(R5)", 1),
    ] {
        assert_eq!(total(&parse(source), Model::Simulator, &scamp5()), cycles, "{source}");
    }
}

#[test]
fn cost_models_and_timelines() {
    let program = parse("add(A, B, C); abs(D, A); MOV(R5, R6); res(A, B)");
    let arch = scamp5();
    let cost = |model| total(&program, model, &arch);
    assert_eq!((cost(Model::Macro), cost(Model::Bus)), (4, 2 + 4 + 3));
    // Nine bus steps and one `where` at 190 ns, three cycles off the bus at 100 ns.
    assert_eq!(cost(Model::Device), 10 * 190 + 3 * 100);
    let frames = frames_per_second(cost(Model::Device), Model::Device, &arch).unwrap();
    assert!((frames - 1e9 / 2200.0).abs() < 1e-6);
    assert_eq!(frames_per_second(10, Model::Bus, &arch), None);
    for name in Model::NAMES {
        let timeline = timeline(&program, &[], Model::from_name(name), &arch);
        assert_eq!(timeline.total(), cost(Model::from_name(name)), "{name}");
    }
}

/// The data of a page of steps.
fn steps_of(source: &str) -> serde_json::Value {
    let files = read(source, &[]).unwrap().emit("steps", "x").unwrap();
    let page = files[0].text().unwrap();
    assert!(!page.contains("src=") && !page.contains("http") && page.contains("ArrowRight"));
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
}

/// A page has what every register holds after each instruction: the kernel, and the image that the
/// kernel makes of the test picture.
#[test]
fn pages_of_steps() {
    let data = steps_of("movx(B, A, east); add(C, A, B); divq(B, C); where(B); res(A); all()");
    let steps = data["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 7);
    assert_eq!(data["registers"], serde_json::json!(["A", "B", "C", "NEWS"]));
    let written = |step: usize| {
        let names = steps[step]["writes"].as_object().unwrap().keys();
        names.map(String::as_str).collect::<Vec<_>>()
    };
    assert_eq!((written(0), written(2)), (vec!["A"], vec!["C", "NEWS"]));
    assert!(written(4).is_empty());
    let kernel = |step: usize, register: &str| steps[step]["writes"][register]["kernel"].clone();
    let table = |rows: &[&[&str]], centre: [usize; 2]| serde_json::json!([{ "of": "A", "rows": rows, "centre": centre }]);
    assert_eq!(kernel(1, "B"), table(&[&["0", "1"]], [0, 0]));
    assert_eq!(kernel(2, "NEWS"), table(&[&["-1", "-1"]], [0, 0]));
    assert_eq!(kernel(3, "B"), table(&[&["1/2", "1/2"]], [0, 0]));
    // Behind a condition there is no kernel, but an image.
    assert_eq!(kernel(5, "A"), "no kernel");
    let grey = |step: usize, register: &str, at: usize| {
        let image = steps[step]["writes"][register]["image"].as_str().unwrap();
        assert_eq!(image.len(), 2 * 32 * 32);
        f64::from(u8::from_str_radix(&image[2 * at..2 * at + 2], 16).unwrap()) - 127.5
    };
    for at in (0..32 * 32).filter(|at| at % 32 < 31) {
        let sum = grey(0, "A", at) + grey(0, "A", at + 1);
        assert!((grey(2, "C", at) - sum).abs() <= 2.0, "{at}");
        assert!((grey(3, "B", at) - sum / 2.0).abs() <= 2.0, "{at}");
    }
    let bits = steps_of("NOT(R5, R6); MOV(R7, R5)");
    let image =
        |step: usize, register: &str| bits["steps"][step]["writes"][register]["image"].clone();
    assert_eq!(image(1, "R5 (1 bit)"), image(2, "R7 (1 bit)"));
    assert_ne!(image(0, "R6 (1 bit)"), image(1, "R5 (1 bit)"));
    let long = read(&"res(A);".repeat(1001), &[]).unwrap();
    assert_eq!(long.emit("steps", "x").unwrap_err().code(), "Q5046");
    assert_eq!(read("neg(A, A)", &[]).unwrap().emit("steps", "x").unwrap_err().code(), "Q5022");
}

/// Frames of a film, as palette indices, with their width.
fn film_of(source: &str) -> (Vec<Vec<u8>>, usize) {
    let files = read(source, &[]).unwrap().emit("steps-gif", "x").unwrap();
    let mut decoder = gif::DecodeOptions::new().read_info(&files[0].bytes[..]).unwrap();
    let width = usize::from(decoder.width());
    let palette = decoder.global_palette().unwrap();
    assert_eq!(
        (&palette[3 * 200..3 * 201], &palette[3 * 255..]),
        (&[200; 3][..], &[255, 179, 0][..])
    );
    let mut frames = Vec::new();
    while let Some(frame) = decoder.read_next_frame().unwrap() {
        frames.push(frame.buffer.to_vec());
    }
    (frames, width)
}

/// Frames of a film hold what registers hold in the simulator, a square for every element.
#[test]
fn films_of_steps() {
    let source = "movx(B, A, east); add(C, A, B); divq(B, C)";
    let (frames, width) = film_of(source);
    assert_eq!(frames.len(), 4);
    // Registers stand in the order of their names, five in a row, 4 x 4 pixels an element.
    let element = |step: usize, register: usize, at: usize| {
        let (left, top) = (10 + register * 138, 50);
        let corner = (top + at / 32 * 4) * width + left + at % 32 * 4;
        let square = (0..16).map(|dot| frames[step][corner + dot / 4 * width + dot % 4]);
        let square: Vec<u8> = square.collect();
        assert!(square.iter().all(|grey| *grey == square[0]), "{step} {register} {at}");
        square[0]
    };
    // The simulator on the picture of frame 0, whose greys have 0 in the middle.
    let program = parse(source);
    let executor = Executor::new(&program, &scamp5(), 32, 32, Settings::default()).unwrap();
    let named = |name: &str| (Space::Analogue, reg(name));
    let picture: Vec<f64> = (0..1024).map(|at| f64::from(element(0, 0, at)) - 127.0).collect();
    assert!(
        picture.iter().any(|value| *value > 20.0) && picture.iter().any(|value| *value < -20.0)
    );
    let written =
        [(1, 1, "B"), (1, 3, "NEWS"), (2, 2, "C"), (2, 3, "NEWS"), (3, 1, "B"), (3, 3, "NEWS")];
    let reads = written.map(|(step, _, name)| (step - 1, named(name)));
    let (_, found) = executor.run_reading(&[(named("A"), picture)], &reads).unwrap();
    for ((step, register, name), values) in written.into_iter().zip(found) {
        // Every image has the greys to itself; those of the picture are its values.
        let white = values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
        for (at, value) in values.into_iter().enumerate() {
            let grey = f64::from(element(step, register, at)) - 127.0;
            assert_eq!(grey, (value / white * 127.0).round(), "{step} {name} {at}: {value}");
        }
    }
    // What was not written stays, and what is not there yet is empty; the frame is about what changes.
    assert!((0..1024).all(|at| element(3, 2, at) == element(2, 2, at)));
    assert!((0..1024).all(|at| element(0, 1, at) == 30));
    let rim = |step: usize, register: usize| frames[step][49 * width + 10 + register * 138];
    assert_eq!([rim(1, 0), rim(1, 1), rim(1, 2)], [30, 255, 30]);
    assert_ne!(frames[1][..20 * width], frames[2][..20 * width], "titles differ");
    let long = read(&"res(A);".repeat(1001), &[]).unwrap();
    assert_eq!(long.emit("steps-gif", "x").unwrap_err().code(), "Q5046");
    assert_eq!(read("neg(A, A)", &[]).unwrap().emit("steps-gif", "x").unwrap_err().code(), "Q5022");
}
