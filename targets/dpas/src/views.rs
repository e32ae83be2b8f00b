//! A program of launches as tables.

use crate::arch::DpasArch;
use crate::program::device::{ArgumentKind, Device, Value};
use crate::program::payload::placement;
use crate::shape::RowStride;
use crate::swsb::live;
use crate::time::{Cost, total};
use quincunx_contract::{Verb, View};
use quincunx_report::{Cell, Column, Table};
use quincunx_tensor::show_shape;

/// The views of a program of launches.
pub(crate) static VIEWS: &[View] = &[
    View { name: "kernels", doc: "kernels, and what they run in", verb: Verb::Inspect },
    View { name: "arguments", doc: "what lies where in cross-thread data", verb: Verb::Table },
    View { name: "buffers", doc: "buffers, and where they lie", verb: Verb::Inspect },
    View { name: "launches", doc: "launches in order", verb: Verb::Inspect },
    View { name: "tiles", doc: "tiles of layers that the compiler looked at", verb: Verb::Table },
    View { name: "layers", doc: "what launches cost, and what limits them", verb: Verb::Time },
];

/// The table of one of [`VIEWS`].
pub(crate) fn table(device: &Device, view: &str, arch: &DpasArch, stride: RowStride) -> Table {
    match view {
        "kernels" => kernels(device, arch, stride),
        "arguments" => arguments(device),
        "buffers" => buffers(device),
        "tiles" => tiles(device),
        _ => launches(device),
    }
}

fn kernels(device: &Device, arch: &DpasArch, stride: RowStride) -> Table {
    let columns = vec![
        Column::text("kernel"),
        Column::number("instructions"),
        Column::number("registers"),
        Column::number("live"),
        Column::number("live_at").titled("live at"),
        Column::number("lanes"),
        Column::number("slm").unit("B"),
        Column::number("barriers"),
        Column::number("arguments"),
        Column::number("cross_thread").titled("cross-thread").unit("B"),
        Column::number("inline").unit("B"),
    ];
    let mut table = Table::new("kernels", columns);
    for kernel in &device.kernels {
        let environment = kernel.environment;
        let arch = DpasArch { grfs: environment.grfs, ..arch.clone() };
        let live = live(&kernel.listing, &arch, stride);
        table.push(vec![
            kernel.name.clone().into(),
            kernel.listing.items.len().into(),
            u64::from(environment.grfs).into(),
            live.map(|live| live.most).into(),
            live.map(|live| live.at).into(),
            u64::from(environment.simd).into(),
            u64::from(environment.slm).into(),
            u64::from(environment.barriers).into(),
            u64::from(kernel.parameters()).into(),
            u64::from(kernel.cross_bytes()).into(),
            u64::from(environment.inline).into(),
        ]);
    }
    table
}

fn arguments(device: &Device) -> Table {
    let columns = vec![
        Column::text("kernel"),
        Column::number("offset"),
        Column::number("bytes").unit("B"),
        Column::number("argument"),
        Column::text("holds"),
    ];
    let mut table = Table::new("arguments", columns);
    for kernel in &device.kernels {
        for argument in &kernel.arguments {
            let holds = match &argument.kind {
                ArgumentKind::Pointer { access, .. } => format!("address, {}", access.name()),
                ArgumentKind::Surface { entry, .. } => format!("surface {entry}"),
                ArgumentKind::Offset { .. } => "offset in the surface: 0".to_owned(),
                ArgumentKind::Value { .. } => "number".to_owned(),
                ArgumentKind::Implicit(what) => what.name().to_owned(),
                ArgumentKind::Other(word) => word.clone(),
            };
            table.push(vec![
                kernel.name.clone().into(),
                u64::from(argument.offset).into(),
                u64::from(argument.size).into(),
                argument.kind.index().map(u64::from).into(),
                holds.into(),
            ]);
        }
    }
    table
}

fn buffers(device: &Device) -> Table {
    let columns = vec![
        Column::text("buffer"),
        Column::text("role"),
        Column::text("type"),
        Column::text("shape"),
        Column::number("bytes").unit("B"),
        Column::text("address"),
    ];
    let mut table = Table::new("buffers", columns);
    for (buffer, address) in device.buffers.iter().zip(placement(&device.buffers)) {
        table.push(vec![
            buffer.name.clone().into(),
            buffer.role.name().into(),
            buffer.element.name().into(),
            show_shape(&buffer.shape).into(),
            buffer.bytes.into(),
            format!("{address:#x}").into(),
        ]);
    }
    table
}

fn launches(device: &Device) -> Table {
    let columns = vec![
        Column::number("launch"),
        Column::text("layer"),
        Column::text("kernel"),
        Column::text("groups"),
        Column::number("threads"),
        Column::text("arguments"),
    ];
    let mut table = Table::new("launches", columns);
    for (at, launch) in device.launches.iter().enumerate() {
        let [x, y, z] = launch.groups;
        let arguments = launch.arguments.iter().map(|value| match value {
            Value::Buffer(name) => name.clone(),
            Value::Whole(number) => number.to_string(),
            Value::Real(real) => format!("{real:?}"),
        });
        table.push(vec![
            at.into(),
            launch.layer.clone().unwrap_or_default().into(),
            launch.kernel.clone().into(),
            format!("{x} x {y} x {z}").into(),
            u64::from(launch.threads).into(),
            arguments.collect::<Vec<_>>().join(" ").into(),
        ]);
    }
    table
}

fn tiles(device: &Device) -> Table {
    let numbers = ["grfs", "registers", "threads", "cycles"];
    let shape = [Column::text("layer"), Column::number("rows"), Column::number("channels")];
    let columns = shape.into_iter().chain([Column::text("weights")]);
    let columns = columns.chain(numbers.map(Column::number));
    let texts = ["limit", "verdict"].map(Column::text);
    let mut table = Table::new("tiles", columns.chain(texts).collect());
    for (layer, tile) in device.layers.iter().flat_map(|l| l.tiles.iter().map(move |t| (l, t))) {
        table.push(vec![
            layer.name.clone().into(),
            tile.rows.into(),
            tile.channels.into(),
            tile.weights.clone().unwrap_or_default().into(),
            u64::from(tile.grfs).into(),
            tile.registers.map(u64::from).into(),
            tile.threads.into(),
            tile.cycles.into(),
            tile.limit.clone().unwrap_or_default().into(),
            tile.verdict.clone().into(),
        ]);
    }
    table
}

/// What launches cost, and what limits them.
pub(crate) fn layers(device: &Device, arch: &DpasArch, costs: &[Cost]) -> Table {
    let names = ["cycles", "share", "waves", "threads", "macs", "peak", "issue", "systolic"];
    let columns = [Column::number("launch"), Column::text("layer"), Column::text("limit")]
        .into_iter()
        .chain(names.map(Column::number))
        .chain(["l1", "l2", "memory"].map(Column::number))
        .chain([Column::number("memory_bytes").unit("B")]);
    let mut table = Table::new("layers", columns.collect());
    let all = total(costs).max(1) as f64;
    let arrays = f64::from(arch.cores) * f64::from(arch.engines);
    for (at, (launch, cost)) in device.launches.iter().zip(costs).enumerate() {
        let cycles = cost.cycles.max(1) as f64;
        let share = |part: u64| Cell::Share(part as f64 / cycles);
        table.push(vec![
            at.into(),
            launch.layer.as_ref().unwrap_or(&launch.kernel).clone().into(),
            cost.limit().into(),
            cost.cycles.into(),
            Cell::Share(cost.cycles as f64 / all),
            cost.waves.into(),
            cost.threads.into(),
            cost.macs.into(),
            Cell::Share(cost.array as f64 / arrays / cycles),
            share(cost.issue),
            share(cost.systolic),
            share(cost.l1),
            share(cost.l2),
            share(cost.memory),
            cost.bytes.into(),
        ]);
    }
    table
}
