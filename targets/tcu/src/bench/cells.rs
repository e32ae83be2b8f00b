//! The benchmark table of `tensil-doc` 1 (`docs/bibliography.md`), compiled: `quincunx bench
//! tcu:cells`.

use crate::arch::TcuArch;
use crate::bound::{Classes, lower_bound};
use crate::compile::frontend::Freedom;
use crate::compile::{Compiled, Strategy, Wishes, compile};
use crate::time::{engines_total, estimate};
use crate::verify::{Rules, verify};
use quincunx_contract::bench::{Calls, Row, Run};
use quincunx_contract::{ArchSource, Log, NotCompiled};
use quincunx_diag::{Diagnostic, Result, first, first_error};
use quincunx_graph::{Graph, passes};
use std::path::Path;

const MI: u64 = 1 << 20;

/// A network of the table.
struct Network {
    row: &'static str,
    file: &'static str,
    /// By array: see [`Cell`].
    cells: [Cell; 3],
}

/// Published milliseconds (`tensil-doc` 1), cycles of upstream's last compiler by its current model
/// (golden data), and vectors of DRAM1.
struct Cell(u32, u64, u64);

/// What a program spends beyond the bound, in the order of [`Classes::cycles`].
const EXCESS: [&str; 7] = [
    "excess_products",
    "excess_startups",
    "excess_weights",
    "excess_simd",
    "excess_accumulator_moves",
    "excess_dram_moves",
    "excess_other",
];

const ARRAYS: [u32; 3] = [8, 12, 16];

const NETWORKS: [Network; 3] = [
    Network {
        row: "resnet20v2",
        file: "resnet20v2_cifar.onnx",
        cells: [Cell(21, 2_009_500, MI), Cell(14, 1_299_874, MI), Cell(4, 681_076, 2 * MI)],
    },
    Network {
        row: "yolov4_tiny_192",
        file: "yolov4_tiny_192.onnx",
        cells: [Cell(175, 17_403_170, MI), Cell(112, 9_467_552, MI), Cell(36, 5_055_992, 2 * MI)],
    },
    Network {
        row: "resnet50v2",
        file: "resnet50v2.onnx",
        cells: [
            Cell(1969, 105_865_808, 4 * MI),
            Cell(833, 54_641_221, 4 * MI),
            Cell(260, 28_569_697, 2 * MI),
        ],
    },
];

/// Compiles the rows that are asked for, all of them without a list.
pub(super) fn measure(run: &Run) -> Result<Vec<Row>> {
    let wanted: Vec<&str> =
        run.options.get("rows").split(',').map(str::trim).filter(|row| !row.is_empty()).collect();
    let names: Vec<String> = NETWORKS
        .iter()
        .flat_map(|network| ARRAYS.iter().map(|array| format!("{}/{array}", network.row)))
        .collect();
    if let Some(unknown) = wanted.iter().find(|row| !names.iter().any(|name| name == *row)) {
        let message = format!("there is no row \"{}\"", unknown.escape_debug());
        return Err(
            Diagnostic::usage("Q3101", message).help(format!("the rows are {}", names.join(", ")))
        );
    }
    let mut rows = Vec::new();
    for network in &NETWORKS {
        let asked = |array: u32| {
            wanted.is_empty() || wanted.contains(&format!("{}/{array}", network.row).as_str())
        };
        if !ARRAYS.iter().any(|&array| asked(array)) {
            continue;
        }
        let graph = model(run.options.get("models"), network.file)?;
        for (&array, cell) in ARRAYS.iter().zip(&network.cells).filter(|(array, _)| asked(**array))
        {
            rows.extend(measure_cell(run, network, array, cell, &graph)?);
        }
    }
    Ok(rows)
}

/// The machine of a cell.
pub(super) fn machine(array: u32, dram1_depth: u64) -> Result<TcuArch> {
    let mut arch = TcuArch::from_source(&ArchSource::Preset(format!("bench{array}")))?;
    arch.dram1_depth = dram1_depth;
    Ok(arch)
}

/// A network from a folder, ready to be compiled.
pub(super) fn model(folder: &str, file: &str) -> Result<Graph> {
    if folder.is_empty() {
        return Err(Diagnostic::usage("Q3102", "give the folder of the networks with --models"));
    }
    let path = Path::new(folder).join(file);
    let bytes = std::fs::read(&path).map_err(|error| {
        Diagnostic::system("Q3100", &format!("read {}", path.display()), &error)
    })?;
    let graph = quincunx_import::read_onnx(bytes.into(), &quincunx_import::Options::default());
    let graph = graph.map_err(|p| first(p).name_file(&path.display().to_string()))?;
    passes::remove_dead(&passes::fold_constants(&graph)?)
}

/// A compiled program that is legal.
pub(super) fn program(graph: &Graph, arch: &TcuArch, freedom: Freedom) -> Result<Compiled> {
    let wishes = Wishes {
        freedom,
        driver_reserve: true,
        strategy: Strategy::Auto,
        packed_inputs: false,
        simd_write_gap: 0,
        approximate: None,
    };
    let compiled = compile(graph, arch, &wishes, &mut Log::default());
    let compiled = compiled.map_err(NotCompiled::first)?;
    first_error(verify(
        &compiled.package.program,
        &Rules { simd_write_gap: 0, flush_probe: true },
    ))?;
    Ok(compiled)
}

fn measure_cell(
    run: &Run,
    network: &Network,
    array: u32,
    &Cell(published, upstream, dram1): &Cell,
    graph: &Graph,
) -> Result<Vec<Row>> {
    let arch = machine(array, dram1)?;
    let name = format!("{}/{array}", network.row);
    let row = Row::named(&name);
    let mut rows = Vec::new();
    let mut measured = |freedom, [seconds_of, bytes_of]: [&'static str; 2]| {
        let Calls { seconds, peak, last } = run.calls(|| program(graph, &arch, freedom))?;
        rows.push(row(seconds_of, seconds, "s", 3));
        rows.extend(peak.map(|bytes| row(bytes_of, bytes as f64, "bytes", 0)));
        Ok::<_, Diagnostic>(last.package.program)
    };
    let free = measured(Freedom::Free, ["compile_seconds", "peak_bytes"])?;
    let compat = measured(Freedom::Compat, ["compat_compile_seconds", "compat_peak_bytes"])?;
    let of_sum = |program, early| estimate(program, early).aggregate.cycles as f64;
    let clock = f64::from(arch.clock_mhz.unwrap_or(1)) * 1e6;
    let milliseconds = |cycles: f64| cycles / clock * 1e3;
    let (bound, spent) = (lower_bound(graph, &arch), Classes::of_program(&free));
    let cycles = of_sum(&free, false);
    let published_model = milliseconds(of_sum(&free, true));
    let mut figures = vec![
        row("cycles", cycles, "cycles", 0),
        row("compat_cycles", of_sum(&compat, false), "cycles", 0),
        row("upstream_cycles", upstream as f64, "cycles", 0),
        row("bound", bound.total() as f64, "cycles", 0),
        row("two_engine_cycles", engines_total(&arch, &free.steps) as f64, "cycles", 0),
        row("milliseconds", milliseconds(cycles), "ms", 2),
        row("frames_per_second", clock / cycles, "/s", 2),
        row("published_model_milliseconds", published_model, "ms", 2),
        row("published_ms", f64::from(published), "ms", 0),
    ];
    let classes = EXCESS.into_iter().zip(spent.cycles()).zip(bound.cycles());
    figures.extend(
        classes
            .map(|((metric, spent), bound)| row(metric, spent as f64 - bound as f64, "cycles", 0)),
    );
    figures.append(&mut rows);
    Ok(figures)
}
