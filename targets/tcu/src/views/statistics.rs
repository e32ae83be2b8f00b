//! The statistics that upstream's compiler prints, as tables (`tensil` in `docs/bibliography.md`).
//! They are read off the program and what the compiler noted about its layers, so that a folder has
//! them as well. Upstream prints the bits of DRAM1's addresses in the row of DRAM0; here both rows
//! have their own.

use super::usage::{Touched, extent, touched};
use crate::arch::{TcuArch, Widths};
use crate::isa::Inst;
use crate::package::Package;
use crate::program::layers::{Layer, layers};
use crate::program::{Memory, Program};
use crate::time::{Cost, costs, sequence};
use quincunx_contract::{ConstantUse, Interface, Section};
use quincunx_report::{Cell, Column, Table};
use std::collections::BTreeMap;
use std::ops::Range;

/// A program with what is counted in it.
pub(crate) struct Statistics<'a> {
    package: &'a Package,
    interface: &'a Interface,
    layers: Vec<Layer>,
    costs: Vec<Cost>,
    /// By layer, the ranges of its partitions; the layer as a whole where they are not known.
    partitions: Vec<Vec<Range<usize>>>,
    /// By layer and partition; nothing for programs that touch too many vectors.
    usage: Vec<Option<Vec<Touched>>>,
}

impl<'a> Statistics<'a> {
    /// Counts.
    pub(crate) fn new(package: &'a Package, interface: &'a Interface) -> Statistics<'a> {
        let program = &package.program;
        let layers = layers(program, &interface.sections);
        let partitions: Vec<Vec<Range<usize>>> = layers
            .iter()
            .enumerate()
            .map(|(index, layer)| partitions(layer, interface.sections.get(index)))
            .collect();
        let usage = partitions.iter().map(|ranges| touched(program, ranges)).collect();
        let costs = costs(program, false);
        Statistics { package, interface, layers, costs, partitions, usage }
    }

    /// All tables.
    pub(crate) fn tables(&self) -> Vec<Table> {
        vec![
            self.summary(),
            self.layer_table(),
            self.scheduler(),
            self.partition_table(),
            self.strides(),
            constants(&self.interface.constants),
        ]
    }

    fn arch(&self) -> &TcuArch {
        self.package.arch()
    }

    fn program(&self) -> &Program {
        &self.package.program
    }

    /// The rows of upstream's summary. What is counted in vectors has the scalars beside it.
    fn summary(&self) -> Table {
        let columns = [Column::text("name"), Column::text("value"), Column::number("scalars")];
        let columns = columns.into_iter().chain([Column::number("bits")]).collect();
        let mut table = Table::new("compilation", columns);
        let lanes = self.arch().lanes() as u64;
        let mut row = |name: &str, value: Cell, scalars: Cell, bits: Cell| {
            table.push(vec![name.into(), value, scalars, bits]);
        };
        let arch = self.arch();
        if let Some(model) = self.package.model.as_ref().filter(|model| !model.name.is_empty()) {
            row("model", model.name.as_str().into(), Cell::Empty, Cell::Empty);
        }
        row("data type", arch.data_type.name().into(), Cell::Empty, Cell::Empty);
        row("array size", u64::from(arch.array_size).into(), Cell::Empty, Cell::Empty);
        let memories = [
            ("DRAM0", Memory::Dram0),
            ("DRAM1", Memory::Dram1),
            ("local memory", Memory::Local),
            ("accumulators", Memory::Acc),
        ];
        for (name, memory) in memories {
            let depth = memory.depth(arch);
            let bits = u64::from(depth.next_power_of_two().trailing_zeros());
            let scalars = depth.saturating_mul(lanes);
            row(&format!("{name}, vectors"), depth.into(), scalars.into(), bits.into());
        }
        for (name, value) in self.widths() {
            row(name, value.into(), Cell::Empty, Cell::Empty);
        }
        for (name, vectors) in self.usages() {
            let scalars = vectors.map(|vectors| vectors.saturating_mul(lanes));
            row(name, vectors.into(), scalars.into(), Cell::Empty);
        }
        for (name, value) in self.totals() {
            row(name, value, Cell::Empty, Cell::Empty);
        }
        table
    }

    fn widths(&self) -> [(&'static str, u64); 6] {
        let widths = Widths::of(self.arch());
        [
            ("stride 0, bits", widths.stride0.into()),
            ("stride 1, bits", widths.stride1.into()),
            ("operand 0, bits", widths.operands[0].into()),
            ("operand 1, bits", widths.operands[1].into()),
            ("operand 2, bits", widths.operands[2].into()),
            ("instruction, bytes", self.arch().instruction_bytes.unwrap_or(widths.bytes()).into()),
        ]
    }

    /// Vectors in use: at most at a time, and over all tensors, constants or partitions together.
    fn usages(&self) -> [(&'static str, Option<u64>); 8] {
        let program = self.program();
        let lanes = self.arch().lanes();
        let consts =
            self.package.consts.iter().map(|part| part.scalars.len() / lanes).sum::<usize>();
        let model = self.package.model.iter();
        let inputs: u64 = model.flat_map(|model| &model.inputs).map(|piece| piece.size).sum();
        let written = program.steps.iter().filter_map(|step| match step.inst {
            Inst::LocalToDram0 { .. } => Some(step.inst.count()),
            _ => None,
        });
        let of = |pick: fn(&Touched) -> u64, join: fn(u64, u64) -> u64| {
            let all = self.usage.iter().map(|layer| {
                let counts = layer.as_ref()?.iter().map(pick);
                Some(counts.fold(0, join))
            });
            all.collect::<Option<Vec<u64>>>().map(|all| all.into_iter().fold(0, join))
        };
        [
            ("DRAM0, vectors used at most", Some(extent(program, Memory::Dram0))),
            ("DRAM0, vectors of all tensors", Some(inputs + written.sum::<u64>())),
            (
                "DRAM1, vectors used at most",
                Some(extent(program, Memory::Dram1).max(consts as u64)),
            ),
            ("DRAM1, vectors of all constants", Some(consts as u64)),
            ("local memory, vectors used at most", of(|t| t.local, u64::max)),
            ("local memory, vectors of all partitions", of(|t| t.local, u64::saturating_add)),
            ("accumulators used at most", of(|t| t.acc, u64::max)),
            ("accumulators of all partitions", of(|t| t.acc, u64::saturating_add)),
        ]
    }

    fn totals(&self) -> Vec<(&'static str, Cell)> {
        let sum = Cost::sum(&self.costs);
        let reported = sequence(self.program(), &self.costs).reported;
        let known = !self.interface.sections.is_empty();
        let figure = |name: &str| {
            let all = self.interface.sections.iter().filter_map(|s| s.figures.get(name));
            all.max().copied()
        };
        let macs: Option<u64> = self.layers.iter().map(|layer| layer.macs).sum();
        let size = f64::from(self.arch().array_size);
        let (scalars, used) = true_constants(&self.interface.constants, self.arch().lanes());
        vec![
            ("layers", known.then_some(self.layers.len() as u64).into()),
            ("stages of a layer at most", figure("stages").into()),
            ("partitions of a stage at most", figure("partitions").into()),
            ("execution latency as upstream reports, cycles", reported.cycles.into()),
            ("aggregate latency, cycles", sum.cycles.into()),
            ("execution energy as upstream reports, units", reported.energy.into()),
            ("aggregate energy, units", sum.energy.into()),
            (
                "MAC efficiency",
                macs.map_or(Cell::Empty, |macs| {
                    Cell::Share(macs as f64 / (size * size) / sum.cycles.max(1) as f64)
                }),
            ),
            ("instructions", self.program().steps.len().into()),
            ("true scalars of constants", known.then_some(scalars).into()),
            ("utilisation of constants", used.map_or(Cell::Empty, Cell::Share)),
            ("true MACs", macs.into()),
        ]
    }

    /// What a layer takes and costs.
    fn layer_table(&self) -> Table {
        let words = ["layer", "nodes"].map(Column::text);
        let numbers = ["stages", "partitions", "instructions", "cycles", "energy", "macs"];
        let columns = words.into_iter().chain(numbers.map(Column::number));
        let columns = columns.chain(["efficiency", "local", "accumulators"].map(Column::number));
        let mut table = Table::new("layers", columns.collect());
        let size = f64::from(self.arch().array_size);
        for (index, layer) in self.layers.iter().enumerate() {
            let section = self.interface.sections.get(index);
            let cost = Cost::sum(&self.costs[layer.steps.clone()]);
            let [local, acc] = self.most(index);
            let efficiency = layer.macs.filter(|_| cost.cycles > 0).map_or(Cell::Empty, |macs| {
                Cell::Share(macs as f64 / (size * size) / cost.cycles as f64)
            });
            table.push(vec![
                layer.name.as_str().into(),
                section.map(|section| section.nodes.join(" ")).into(),
                figure(section, "stages"),
                figure(section, "partitions"),
                layer.steps.len().into(),
                cost.cycles.into(),
                cost.energy.into(),
                layer.macs.into(),
                efficiency,
                local,
                acc,
            ]);
        }
        table
    }

    /// How the compiler cut the layers, and how full the memories of the chip become.
    fn scheduler(&self) -> Table {
        let columns = [Column::text("layer"), Column::text("outside")].into_iter();
        let numbers = ["stages", "stage_blocks", "partitions", "weight_rows_stay", "planes_stay"];
        let columns = columns.chain(numbers.map(Column::number));
        let columns = columns.chain(["local_used", "accumulators_used"].map(Column::number));
        let mut table = Table::new("scheduler", columns.collect());
        let arch = self.arch();
        let share = |cell: Cell, depth: u64| match cell {
            Cell::Count(count) => Cell::Share(count as f64 / depth as f64),
            other => other,
        };
        for (index, layer) in self.layers.iter().enumerate() {
            let section = self.interface.sections.get(index);
            let nest = section.and_then(|section| section.figures.get("partitions_outside"));
            let nest = nest.map(|&outside| if outside > 0 { "partitions" } else { "stages" });
            let [local, acc] = self.most(index);
            let mut row = vec![layer.name.as_str().into(), nest.into()];
            row.extend(numbers.map(|name| figure(section, name)));
            row.push(share(local, arch.local_depth));
            row.push(share(acc, arch.accumulator_depth));
            table.push(row);
        }
        table
    }

    /// Most vectors of local memory and accumulators that a partition of a layer touches.
    fn most(&self, layer: usize) -> [Cell; 2] {
        let Some(usage) = &self.usage[layer] else { return [Cell::Empty, Cell::Empty] };
        let most = |pick: fn(&Touched) -> u64| usage.iter().map(pick).max().unwrap_or(0).into();
        [most(|touched| touched.local), most(|touched| touched.acc)]
    }

    /// One row for every partition of every stage.
    fn partition_table(&self) -> Table {
        let numbers = ["partition", "first", "instructions", "cycles", "vectors", "local"];
        let numbers = numbers.into_iter().chain(["accumulators"]).map(Column::number);
        let columns = [Column::text("layer")].into_iter().chain(numbers).collect();
        let mut table = Table::new("partitions", columns);
        for ((layer, ranges), usage) in self.layers.iter().zip(&self.partitions).zip(&self.usage) {
            for (index, range) in ranges.iter().enumerate() {
                let steps = &self.program().steps[range.clone()];
                let vectors: u64 = steps.iter().map(|step| step.inst.count()).sum();
                let touched = usage.as_ref().map(|usage| usage[index]);
                table.push(vec![
                    layer.name.as_str().into(),
                    index.into(),
                    range.start.into(),
                    range.len().into(),
                    Cost::sum(&self.costs[range.clone()]).cycles.into(),
                    vectors.into(),
                    touched.map(|touched| touched.local).into(),
                    touched.map(|touched| touched.acc).into(),
                ]);
            }
        }
        table
    }

    /// How often every step between vectors occurs, by instruction and operand.
    fn strides(&self) -> Table {
        let mut counts: BTreeMap<(usize, usize, u32), (u64, u64)> = BTreeMap::new();
        for step in &self.program().steps {
            let strides = step.inst.strides();
            for (operand, stride) in strides.into_iter().enumerate() {
                let Some(stride) = stride else { continue };
                let key = (step.inst.row(), operand, stride);
                let (count, vectors) = counts.entry(key).or_default();
                *count += 1;
                *vectors += step.inst.count();
            }
        }
        let numbers = ["operand", "stride", "count", "vectors"].map(Column::number);
        let columns = [Column::text("instruction")].into_iter().chain(numbers).collect();
        let mut table = Table::new("strides", columns);
        for ((row, operand, stride), (count, vectors)) in counts {
            let name = crate::isa::TABLE.rows[row].name;
            let step = 1_u64 << stride.min(63);
            table.push(vec![
                name.into(),
                operand.into(),
                step.into(),
                count.into(),
                vectors.into(),
            ]);
        }
        table
    }
}

/// The partitions of a layer; what is behind the last one belongs to it.
fn partitions(layer: &Layer, section: Option<&Section>) -> Vec<Range<usize>> {
    let pieces = section.map_or(&[][..], |section| &section.pieces);
    let Some((_, ends)) = pieces.split_last() else { return vec![layer.steps.clone()] };
    let ends = ends.iter().copied().chain([layer.steps.end]);
    let starts = [layer.steps.start].into_iter().chain(pieces.iter().copied());
    starts.zip(ends).map(|(start, end)| start..end).collect()
}

fn figure(section: Option<&Section>, name: &str) -> Cell {
    section.and_then(|section| section.figures.get(name)).copied().into()
}

/// Scalars of all constants in memory, and how full their vectors are: the mean over constants.
fn true_constants(uses: &[ConstantUse], lanes: usize) -> (u64, Option<f64>) {
    let objects: Vec<&ConstantUse> = uses.iter().filter(|used| used.vectors > 0).collect();
    let share = |used: &&ConstantUse| used.scalars as f64 / (used.vectors * lanes as u64) as f64;
    let sum: f64 = objects.iter().map(share).sum();
    let mean = (!objects.is_empty()).then(|| sum / objects.len() as f64);
    (objects.iter().map(|used| used.scalars).sum(), mean)
}

/// What became of the constants of the graph.
fn constants(uses: &[ConstantUse]) -> Table {
    let words = ["constant", "became", "of"].map(Column::text).into_iter();
    let numbers = ["scalars", "vectors"].map(Column::number);
    let mut table = Table::new("constants", words.chain(numbers).collect());
    for ConstantUse { name, user, parameter, scalars, vectors } in uses {
        let became = if *parameter { "parameter" } else { "data" };
        let words = [name.as_str(), became, user].map(Cell::from);
        let numbers = [Cell::Count(*scalars), Cell::Count(*vectors)];
        table.push(words.into_iter().chain(numbers).collect());
    }
    table
}
