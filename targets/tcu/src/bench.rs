//! How fast programs run: `quincunx bench tcu:run`.

mod cells;

use crate::compile::frontend::Freedom;
use crate::files::Model;
use crate::isa::Inst;
use crate::package::Package;
use crate::program::{Memory, Span};
use crate::simulate::Fast;
use quincunx_contract::OptionInfo;
use quincunx_contract::bench::{LEVEL, Row, Run, Suite};
use quincunx_diag::{Diagnostic, Result, first};
use std::path::Path;

/// The suites of this target.
pub(crate) static SUITES: &[Suite] = &[CELLS, RUN];

const MODELS: OptionInfo = OptionInfo::text(
    "models",
    "The folder of resnet20v2_cifar.onnx, yolov4_tiny_192.onnx and resnet50v2.onnx",
    "",
);

const CELLS: Suite = Suite {
    name: "cells",
    doc: "the nine networks and machines of the published table, compiled",
    options: &[
        MODELS,
        OptionInfo::text(
            "rows",
            "Rows to compile, separated by commas, such as resnet20v2/8; all of them without",
            "",
        ),
    ],
    run: cells::measure,
};

const RUN: Suite = Suite {
    name: "run",
    doc: "images through the prepared simulator on one core",
    options: &[
        MODELS,
        OptionInfo::text(
            "program",
            "A .tmodel file to run instead of resnet20v2_cifar.onnx compiled for bench8",
            "",
        ),
        LEVEL,
    ],
    run: measure,
};

fn measure(run: &Run) -> Result<Vec<Row>> {
    let path = run.options.get("program");
    let (name, package) = match path {
        "" => {
            let graph = cells::model(run.options.get("models"), "resnet20v2_cifar.onnx")?;
            let arch = cells::machine(8, 1 << 20)?;
            let compiled = cells::program(&graph, &arch, Freedom::Compat)?;
            ("resnet20v2/8".to_owned(), compiled.package)
        }
        _ => open(Path::new(path)).map_err(|problem| problem.name_file(path))?,
    };
    rows(run, name, &package)
}

/// `seconds` of an image: its scalars go into DRAM0, the program runs from the start, outputs are
/// taken out. `gmacs` are the multiplications of its MatMuls, `n * n` for every vector that is not
/// zeros by definition, in that time; moves, SIMD and weights cost time and count nothing.
fn rows(run: &Run, name: String, package: &Package) -> Result<Vec<Row>> {
    let level = run.level()?;
    let model = package.model.as_ref().ok_or_else(|| Diagnostic::bug("no description"))?;
    let span = |base, count| Span { memory: Memory::Dram0, base, stride: 0, count };
    let pieces = model.inputs.iter().chain(&model.outputs);
    let spans: Vec<Span> = pieces.map(|piece| span(piece.base, piece.size)).collect();
    let driver = package.driver();
    let mut fast = Fast::for_level(package, &driver, &spans, level).ok_or_else(|| {
        let message = "the program cannot be prepared: it fails or needs too much memory";
        Diagnostic::invalid("Q3090", message)
            .help("run it with quincunx run, which says what is wrong")
    })?;
    let images = images(model);
    let mut image = || -> Result<Vec<i32>> {
        fast.run(|fast| {
            let mut pairs = model.inputs.iter().zip(&images);
            pairs.try_for_each(|(piece, image)| fast.write(Memory::Dram0, piece.base, image))
        })?;
        let mut all = Vec::new();
        for piece in &model.outputs {
            let mut scalars = vec![0; piece.size as usize * package.arch().lanes()];
            fast.read(Memory::Dram0, piece.base, &mut scalars)?;
            all.extend(scalars);
        }
        Ok(all)
    };
    image()?;
    let seconds = run.seconds(|| std::hint::black_box(image().is_ok()));
    let row = Row::named(&name);
    Ok(vec![
        row("gmacs", macs(package) / seconds / 1e9, "GMAC/s", 2),
        row("seconds", seconds, "s", 6),
    ])
}

/// A generator of numbers (xorshift).
struct Random(u64);

impl Random {
    /// A number from `-most` to `most`.
    fn within(&mut self, most: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % (2 * most as u64 + 1)) as i64 - most
    }
}

/// Scalars between -1 and 1.
fn images(model: &Model) -> Vec<Vec<i32>> {
    let mut random = Random(1);
    let one = 1_i64 << model.arch.data_type.binary_point().unwrap_or(8);
    let mut image = |size: u64| -> Vec<i32> {
        let scalars = 0..size as usize * model.arch.lanes();
        let real = |steps: i64| model.arch.data_type.encode_exact(steps as f64 / one as f64);
        scalars.map(|_| real(random.within(one))).collect()
    };
    model.inputs.iter().map(|piece| image(piece.size)).collect()
}

/// Multiplications of the MatMuls.
fn macs(package: &Package) -> f64 {
    let lanes = package.arch().lanes() as f64;
    let steps = &package.program.steps;
    let products = steps.iter().filter(|step| matches!(step.inst, Inst::MatMul { .. }));
    products.map(|step| step.inst.count() as f64 * lanes * lanes).sum()
}

/// A compiled program.
fn open(path: &Path) -> Result<(String, Package)> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| {
            Diagnostic::system("Q3100", &format!("read {}", path.display()), &error)
        })
    };
    let text = String::from_utf8(read(path)?)
        .map_err(|_| Diagnostic::invalid("Q3100", "expected the text of a .tmodel file"))?;
    let model = Model::parse(&text)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut files = Vec::new();
    for name in model.file_names() {
        let bytes = read(&folder.join(&name))?;
        files.push((name, bytes));
    }
    let name = model.name.clone();
    let (package, _) = Package::new(model, &files, false).map_err(first)?;
    Ok((format!("{name}/{}", package.arch().array_size), package))
}
