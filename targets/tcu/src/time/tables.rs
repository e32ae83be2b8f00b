//! The profile of a program as tables, and its roofline.

use super::cost::transfers_per_vector;
use super::profile::{Time, Traffic, Unit, energy, times, traffic};
use super::{Costing, Model};
use crate::arch::{PRESETS, TcuArch};
use crate::program::Program;
use crate::program::layers::Layer;
use quincunx_report::{Cell, Column, Table};
use quincunx_timeline::{Point, Roofline};

/// What is known of a program by layer.
struct Profile<'a> {
    program: &'a Program,
    layers: &'a [Layer],
    /// The model whose figures are shown in detail.
    model: Model,
    traffic: Vec<Traffic>,
    /// By model, in the order of [`Model::ALL`], and by layer.
    times: Vec<Vec<Time>>,
    clock_mhz: Option<u32>,
}

/// Tables of where the time goes.
pub(crate) fn tables(program: &Program, costing: &Costing<'_>) -> Vec<Table> {
    let layers = costing.layers;
    let profile = Profile {
        program,
        layers,
        model: costing.model,
        traffic: layers.iter().map(|layer| traffic(program, layer)).collect(),
        times: Model::ALL.iter().map(|&model| times(program, model, layers)).collect(),
        clock_mhz: costing.clock_mhz,
    };
    let roofline = roofline(program, costing.model, layers, profile.own_times());
    let mut tables = vec![
        profile.models(),
        profile.boards(),
        profile.traffic_table(),
        profile.units(),
        profile.layers(),
        roofline_table(&roofline),
    ];
    // No preset has such an array, or no layer is known to multiply.
    tables.retain(|table| !table.is_empty());
    tables
}

impl Profile<'_> {
    fn own_times(&self) -> &[Time] {
        &self.times[self.model as usize]
    }

    fn cycles(&self, model: Model) -> u64 {
        self.times[model as usize].iter().map(|time| time.cycles).sum()
    }

    fn macs(&self) -> Option<u64> {
        self.layers.iter().map(|layer| layer.macs).sum()
    }

    fn efficiency(&self, macs: Option<u64>, cycles: u64) -> Cell {
        let share = macs.and_then(|macs| efficiency(&self.program.arch, macs, cycles));
        share.map_or(Cell::Empty, Cell::Share)
    }

    /// Totals under every model.
    fn models(&self) -> Table {
        let columns = ["cycles", "milliseconds", "fps", "macs", "efficiency", "energy"];
        let columns = [Column::text("model")].into_iter().chain(columns.map(Column::number));
        let mut table = Table::new("models", columns.collect());
        for (model, name) in Model::ALL.into_iter().zip(Model::NAMES) {
            let cycles = self.cycles(model);
            let [ms, fps] = speed(cycles, self.clock_mhz);
            let macs = self.macs();
            table.push(vec![
                (*name).into(),
                cycles.into(),
                ms,
                fps,
                macs.into(),
                self.efficiency(macs, cycles),
                energy(self.program, model).into(),
            ]);
        }
        table
    }

    /// The same on the boards with an array of this size.
    fn boards(&self) -> Table {
        let columns = ["board", "preset", "model"].map(Column::text).into_iter();
        let numbers = ["clock", "milliseconds", "fps"].map(Column::number);
        let mut table = Table::new("boards", columns.chain(numbers).collect());
        let arch = &self.program.arch;
        let machines = PRESETS.iter().filter_map(|preset| TcuArch::preset(preset.name).ok());
        for machine in machines {
            let (Some(clock), Some(board)) = (machine.clock_mhz, &machine.board) else { continue };
            let same = (machine.array_size, machine.data_type) == (arch.array_size, arch.data_type);
            for (model, name) in Model::ALL.into_iter().zip(Model::NAMES).filter(|_| same) {
                let [ms, fps] = speed(self.cycles(model), Some(clock));
                let words = [board.as_str(), &machine.name, name].map(Cell::from);
                let numbers = [u64::from(clock).into(), ms, fps];
                table.push(words.into_iter().chain(numbers).collect());
            }
        }
        table
    }

    /// What passes over the DRAMs.
    fn traffic_table(&self) -> Table {
        let numbers = ["read", "written"].map(|key| Column::number(key).unit("bytes"));
        let columns = [Column::text("memory")].into_iter().chain(numbers);
        let mut table = Table::new("traffic", columns.collect());
        let bytes = self.program.arch.vector_bytes() as u64;
        for (bank, name) in ["DRAM0", "DRAM1"].into_iter().enumerate() {
            let sum = |way: usize| self.traffic.iter().map(|sums| sums[bank][way]).sum::<u64>();
            table.push(vec![name.into(), (sum(0) * bytes).into(), (sum(1) * bytes).into()]);
        }
        table
    }

    /// How long every unit works under the chosen model.
    fn units(&self) -> Table {
        let columns = ["instructions", "vectors", "cycles", "share"].map(Column::number);
        let columns = [Column::text("unit")].into_iter().chain(columns);
        let mut table = Table::new("units", columns.collect());
        let total = self.cycles(self.model);
        for unit in Unit::ALL {
            let steps = self.program.steps.iter().filter(|step| Unit::of(&step.inst) == unit);
            let (instructions, vectors) =
                steps.fold((0_u64, 0), |(all, sum), step| (all + 1, sum + step.inst.count()));
            let busy: u64 = self.own_times().iter().map(|time| time.busy[unit as usize]).sum();
            table.push(vec![
                unit.name().into(),
                instructions.into(),
                vectors.into(),
                busy.into(),
                Cell::Share(busy as f64 / total.max(1) as f64),
            ]);
        }
        table
    }

    /// One row per layer.
    fn layers(&self) -> Table {
        let numbers = ["instructions", "macs", "cycles", "share", "efficiency"].map(Column::number);
        let bytes = ["dram0_read", "dram0_written", "dram1_read", "dram1_written"];
        let columns = [Column::text("layer")]
            .into_iter()
            .chain(numbers)
            .chain([Column::text("bound")])
            .chain(bytes.map(Column::number))
            .chain(["current", "early_2022", "two_engine"].map(Column::number));
        let mut table = Table::new("layers", columns.collect());
        let total = self.cycles(self.model).max(1) as f64;
        let bytes = self.program.arch.vector_bytes() as u64;
        for (index, layer) in self.layers.iter().enumerate() {
            let time = self.own_times()[index];
            let moved = self.traffic[index].into_iter().flatten();
            let mut row = vec![
                layer.name.as_str().into(),
                layer.steps.len().into(),
                layer.macs.into(),
                time.cycles.into(),
                Cell::Share(time.cycles as f64 / total),
                self.efficiency(layer.macs, time.cycles),
                time.bound(self.model).into(),
            ];
            row.extend(moved.map(|vectors| Cell::Count(vectors * bytes)));
            row.extend(self.times.iter().map(|times| Cell::Count(times[index].cycles)));
            table.push(row);
        }
        table
    }
}

/// The part that so many multiplications are of those that the array could do in so many cycles.
pub(crate) fn efficiency(arch: &TcuArch, macs: u64, cycles: u64) -> Option<f64> {
    let size = f64::from(arch.array_size);
    (cycles > 0).then(|| macs as f64 / (size * size) / cycles as f64)
}

/// Milliseconds and frames in a second; nothing without a clock.
fn speed(cycles: u64, clock_mhz: Option<u32>) -> [Cell; 2] {
    let Some(clock) = clock_mhz.filter(|_| cycles > 0) else { return [Cell::Empty, Cell::Empty] };
    let seconds = cycles as f64 / (f64::from(clock) * 1e6);
    [Cell::Real(seconds * 1e3, 4), Cell::Real(1.0 / seconds, 2)]
}

/// DRAM vectors in a cycle under a model, at most.
fn bandwidth(arch: &TcuArch, model: Model) -> f64 {
    match model {
        Model::Current => 1.0,
        Model::Early2022 | Model::TwoEngine => 1.0 / transfers_per_vector(arch) as f64,
    }
}

/// The roofline of the machine with a point for every layer that multiplies.
pub(crate) fn roofline(
    program: &Program,
    model: Model,
    layers: &[Layer],
    times: &[Time],
) -> Roofline {
    let size = f64::from(program.arch.array_size);
    let point = |(layer, time): (&Layer, &Time)| {
        let macs = layer.macs.filter(|&macs| macs > 0 && time.cycles > 0)? as f64;
        let vectors: u64 = traffic(program, layer).into_iter().flatten().sum();
        // A layer whose tensors all stay on the chip is infinitely intense.
        let (intensity, rate) = (macs / vectors as f64, macs / time.cycles as f64);
        Some(Point { name: layer.name.clone(), intensity, rate })
    };
    Roofline {
        peak: size * size,
        bandwidth: bandwidth(&program.arch, model),
        intensity_unit: "MACs for each DRAM vector",
        rate_unit: "MACs in a cycle",
        points: layers.iter().zip(times).filter_map(point).collect(),
    }
}

fn roofline_table(roofline: &Roofline) -> Table {
    let columns = ["macs_per_vector", "macs_per_cycle", "roof", "reached"].map(Column::number);
    let columns = [Column::text("layer")].into_iter().chain(columns);
    let columns = columns.chain([Column::text("under")]);
    let mut table = Table::new("roofline", columns.collect());
    for Point { name, intensity, rate } in &roofline.points {
        let roof = roofline.roof(*intensity);
        let under = if *intensity < roofline.ridge() { "DRAM" } else { "array" };
        table.push(vec![
            name.as_str().into(),
            if intensity.is_finite() { Cell::Real(*intensity, 2) } else { Cell::Empty },
            Cell::Real(*rate, 2),
            Cell::Real(roof, 2),
            Cell::Share(rate / roof),
            under.into(),
        ]);
    }
    table
}
