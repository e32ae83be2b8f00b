//! A program as the toolchain sees it: with ports, layer taps, native files and simulators.

mod exec;
mod fit;
mod origin;
mod prepared;
mod staging;

use crate::binary::{self, convert};
use crate::compile::pipeline::register_bits;
use crate::files::{self, packed};
use crate::hls::{self, Flavour};
use crate::isa::{Dialect, Inst};
use crate::ports::{Ports, elements, ends, expect_unscaled, raw_interface, scaling_lines};
use crate::program::{Output, Pipeline, Program, Slot};
use crate::rtl::{self, Language};
use crate::simulate::PipelineExecutor;
use crate::tap::Place;
use crate::text;
use crate::time;
use crate::verify::{Rules, verify_pipeline};
use crate::views::{self, Flat};
use exec::Exec;
use prepared::Prepared;
use quincunx_contract::{
    Check, Demand, EmitKind, Engine, File, Grid, Interface, LayerTap, Machine, Origin, Port, Stats,
    Verb, View,
};
use quincunx_diag::{Diagnostic, Result, first_error};
use quincunx_report::{Heading, Table};
use quincunx_tensor::{Tensors, element_count};
use quincunx_timeline::Timeline;
pub(crate) use staging::stage;
use std::any::Any;
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

/// Kinds of native files.
pub(crate) const KINDS: &[EmitKind] = &[
    EmitKind {
        name: "bin",
        doc: "machine code in the dialect of the architecture, a file per stage",
    },
    EmitKind { name: "json", doc: "JSON as da4ml saves it; in dialect a4, as alkaid does" },
    EmitKind { name: "gz", doc: "the same JSON, compressed with gzip" },
    EmitKind { name: "asm", doc: "assembly text" },
    EmitKind {
        name: "packed",
        doc: "the same in a fifth of the bytes; what folders of large programs hold",
    },
    EmitKind { name: "dot", doc: "the adder graph, for Graphviz" },
    EmitKind { name: "svg", doc: "the adder graph, drawn" },
    EmitKind {
        name: "verilog",
        doc: "Verilog-2001 with wrapper, testbench, constraints and scripts; see options rtl-…",
    },
    EmitKind { name: "vhdl", doc: "VHDL-2008 with the same files around it" },
    EmitKind {
        name: "vitis",
        doc: "C++ for Vitis HLS (ap_fixed) with top, testbench and script; see options rtl-…",
    },
    EmitKind { name: "oneapi", doc: "C++ for oneAPI (ac_fixed in a SYCL kernel), likewise" },
    EmitKind { name: "catapult", doc: "C++ for Catapult (ac_fixed), likewise" },
];

/// Operations of a program above which folders hold it packed: some ten megabytes of text.
const MOST_AS_TEXT: usize = 1 << 17;

/// A program, or the stages of a pipeline, with its interface.
///
/// Invariant, checked when one is made: ports have as many elements as the program has inputs
/// and outputs, and taps read slots that exist.
pub struct Artifact {
    /// Simulators share it.
    pipeline: Arc<Pipeline>,
    dialect: Dialect,
    width_limit: u32,
    ports: Arc<Ports>,
    rtl: rtl::Settings,
}

impl Artifact {
    /// Puts an interface on a program; raw ports `in` and `out` without one.
    ///
    /// # Errors
    /// `Q1125` when the interface does not fit the program.
    pub(crate) fn new(
        pipeline: Pipeline,
        interface: Option<Interface>,
        dialect: Dialect,
        width_limit: u32,
    ) -> Result<Self> {
        let interface = interface.unwrap_or_else(|| raw_interface(&pipeline));
        let ports = Arc::new(Ports::new(interface)?);
        let (pipeline, rtl) = (Arc::new(pipeline), rtl::Settings::default());
        let artifact = Artifact { pipeline, dialect, width_limit, ports, rtl };
        artifact.check_interface()?;
        Ok(artifact)
    }

    /// The operations of all stages with the layers they belong to.
    fn flat(&self) -> Flat {
        let names = self.ports.interface.layers.iter().map(|layer| layer.value.clone());
        let layers: Vec<(String, &[Place])> =
            names.zip(self.ports.taps.iter().map(|places| &places[..])).collect();
        Flat::new(&self.timed(), &layers)
    }

    /// The stages with latencies and costs, of the model where the program has none.
    fn timed(&self) -> Cow<'_, Pipeline> {
        time::timed(&self.pipeline)
    }

    /// As [`Artifact::flat`], of a legal program.
    fn legal_flat(&self) -> Result<Flat> {
        self.check_legal()?;
        Ok(self.flat())
    }

    fn check_legal(&self) -> Result<()> {
        first_error(verify_pipeline(&self.pipeline, &Rules::EXECUTABLE))
    }

    /// The same with this clock and these options of generated logic.
    #[must_use]
    pub(crate) fn with_rtl(self, rtl: rtl::Settings) -> Self {
        Artifact { rtl, ..self }
    }

    /// The readable executor of a legal program.
    fn exec(&self, checked: bool) -> Exec {
        let is_seed = matches!(self.dialect, Dialect::D0 | Dialect::D0Doc);
        Exec {
            executor: PipelineExecutor::of_legal(&self.pipeline).with_exact_mux(is_seed),
            checked,
            ports: Arc::clone(&self.ports),
        }
    }

    /// Registers at every boundary of generated logic.
    fn registers(&self) -> u32 {
        self.rtl.registers.unwrap_or(rtl::default_registers(&self.pipeline))
    }

    fn emit_rtl(&self, language: Language, stem: &str) -> Result<Vec<File>> {
        rtl::emit(&self.pipeline, &self.ports.interface, language, &self.rtl, stem)
    }

    fn emit_hls(&self, flavour: Flavour, stem: &str) -> Result<Vec<File>> {
        hls::emit(&self.pipeline, &self.ports.interface, flavour, &self.rtl, stem)
    }

    /// The stages; one for a program that is not a pipeline.
    pub fn stages(&self) -> &[Program] {
        &self.pipeline.stages
    }

    /// Operations of all stages.
    fn operations(&self) -> usize {
        self.pipeline.stages.iter().map(|stage| stage.operations.len()).sum()
    }

    /// A file for a program, one for each stage of a pipeline.
    fn machine_code(&self, stem: &str) -> Result<Vec<File>> {
        let extension = match self.dialect {
            Dialect::D0 | Dialect::D0Doc => "dais0",
            Dialect::D1Version0 | Dialect::D1 => "dais",
            Dialect::A4 => "alir",
        };
        let stages = &self.pipeline.stages;
        let name = |number| match stages.len() {
            1 => format!("{stem}.{extension}"),
            _ => format!("{stem}.stage{number}.{extension}"),
        };
        let file = |(number, stage)| {
            let program = convert(stage, self.dialect)?.program;
            Ok(File::new(name(number), binary::write(&program, self.dialect)?))
        };
        stages.iter().enumerate().map(file).collect()
    }

    /// JSON of alkaid in its dialect, of da4ml in all others.
    fn json(&self) -> Result<String> {
        let dialect = if self.dialect == Dialect::A4 { Dialect::A4 } else { Dialect::D1 };
        let converted = |stage| convert(stage, dialect).map(|converted| converted.program);
        let stages: Vec<Program> =
            self.pipeline.stages.iter().map(converted).collect::<Result<_>>()?;
        match &stages[..] {
            [single] if dialect != Dialect::A4 => files::write_json(single),
            [single] if single.state.is_empty() => files::write_alir_json(single),
            _ if dialect == Dialect::A4 => files::write_alir_pipeline_json(&Pipeline { stages }),
            _ => files::write_pipeline_json(&Pipeline { stages }),
        }
    }

    /// Assembly text; what the driver makes of outputs is in comments.
    fn assembly(&self) -> String {
        let mut text = String::new();
        for line in scaling_lines(&self.ports.interface) {
            let _ = writeln!(text, "# {line}");
        }
        text + &text::print_pipeline(&self.pipeline)
    }

    /// Where the time goes.
    fn profile(&self) -> Result<Vec<Table>> {
        let flat = self.legal_flat()?;
        let layers = views::layers(&flat, self.rtl.clock);
        let mut tables = vec![views::stages(&self.timed()), layers];
        tables.extend(self.estimate().map(|estimate| estimate.table()));
        Ok(tables)
    }

    fn check_interface(&self) -> Result<()> {
        let misfit = |what: &str| {
            Err(Diagnostic::invalid(
                "Q1125",
                format!("the interface does not fit the program: {what}"),
            ))
        };
        let (inputs, outputs) = ends(&self.pipeline);
        if elements(&self.ports.interface.inputs) != Some(inputs) {
            return misfit(&format!("the program has {inputs} inputs"));
        }
        if elements(&self.ports.interface.outputs) != Some(outputs) {
            return misfit(&format!("the program has {outputs} outputs"));
        }
        for port in self.ports.interface.inputs.iter().chain(&self.ports.interface.outputs) {
            if !port.grid.fits(&port.shape) || matches!(port.grid, Grid::Float(_)) {
                return misfit(&format!("the quantiser of \"{}\" does not fit it", port.name));
            }
        }
        for (layer, places) in self.ports.interface.layers.iter().zip(&self.ports.taps) {
            let exists = |place: &Place| {
                place.slot().is_none_or(|(stage, slot)| {
                    let stage = self.pipeline.stages.get(stage);
                    stage.is_some_and(|stage| (slot.0 as usize) < stage.operations.len())
                })
            };
            if element_count(&layer.shape) != Some(places.len()) || !places.iter().all(exists) {
                return misfit(&format!("layer \"{}\" reads what is not there", layer.value));
            }
        }
        Ok(())
    }
}

/// A program or pipeline in another dialect; layers are where their values have moved to.
///
/// # Errors
/// As [`convert`], and `Q1123` for malformed places of layers.
pub(crate) fn in_dialect(
    pipeline: Pipeline,
    mut interface: Option<Interface>,
    dialect: Dialect,
) -> Result<(Pipeline, Option<Interface>)> {
    let mut stages = Vec::with_capacity(pipeline.stages.len());
    let mut moved = Vec::with_capacity(pipeline.stages.len());
    for stage in &pipeline.stages {
        let converted = convert(stage, dialect)?;
        stages.push(converted.program);
        moved.push(converted.moved);
    }
    for layer in interface.iter_mut().flat_map(|interface| &mut interface.layers) {
        let places = Place::parse_list(&layer.place)?;
        let places: Vec<String> =
            places.into_iter().map(|place| place.moved(&moved).to_string()).collect();
        layer.place = places.join(", ");
    }
    Ok((Pipeline { stages }, interface))
}

/// The program with an output for every slot behind its own, in a port `buffer`.
///
/// # Errors
/// `Q1130` for a pipeline, whose stages have buffers of their own, and for the program of a network,
/// whose outputs are values of the network.
pub(crate) fn with_buffer(
    mut pipeline: Pipeline,
    interface: Option<Interface>,
) -> Result<(Pipeline, Option<Interface>)> {
    if interface.is_some() {
        let message = "the buffer of a compiled network cannot be shown";
        return Err(Diagnostic::unsupported("Q1130", message)
            .help("run the file of its program, such as OUT/device0/program.dasm"));
    }
    let mut interface = raw_interface(&pipeline);
    let [program] = &mut pipeline.stages[..] else {
        let message = "the buffer of a pipeline cannot be shown";
        return Err(Diagnostic::unsupported("Q1130", message).help("run its stages one by one"));
    };
    let (count, end) = (program.operations.len(), program.ends().1);
    let output = |slot| Output { source: Some(Slot::of(slot)), shift: 0, negate: false };
    program.outputs.splice(end..end, (0..count).map(output));
    let (name, shape) = ("buffer".to_owned(), vec![count]);
    interface.outputs.push(Port { name, shape, grid: Grid::Real });
    Ok((pipeline, Some(interface)))
}

/// Views of a program.
static VIEWS: &[View] = &[
    View {
        name: "profile",
        doc: "where the time goes: stages, layers, an estimate of the logic",
        verb: Verb::Time,
    },
    View {
        name: "logic",
        doc: "what the program takes as logic, and whether it meets the clock",
        verb: Verb::Compile,
    },
    View { name: "synthesis", doc: "what Yosys makes of the program", verb: Verb::Synth },
    View {
        name: "statistics",
        doc: "layers, widths of results, kinds of operations",
        verb: Verb::Table,
    },
];

impl quincunx_contract::Program for Artifact {
    fn interface(&self) -> &Interface {
        &self.ports.interface
    }

    fn emit(&self, kind: &str, stem: &str) -> Result<Vec<File>> {
        if ["bin", "json", "gz"].contains(&kind) {
            expect_unscaled(&self.ports.interface, kind)?;
        }
        let file = match kind {
            "bin" => return self.machine_code(stem),
            "json" => File::new(format!("{stem}.json"), self.json()?),
            "gz" => File::new(format!("{stem}.json.gz"), files::compress(&self.json()?)?),
            "verilog" => return self.emit_rtl(Language::Verilog, stem),
            "vhdl" => return self.emit_rtl(Language::Vhdl, stem),
            "vitis" => return self.emit_hls(Flavour::Vitis, stem),
            "oneapi" => return self.emit_hls(Flavour::OneApi, stem),
            "catapult" => return self.emit_hls(Flavour::Catapult, stem),
            "asm" => File::new(format!("{stem}.dasm"), self.assembly()),
            "packed" => File::new(format!("{stem}.qdais"), packed::write(&self.pipeline)),
            "dot" | "svg" => return self.emit_headed(kind, stem, &Heading::default().of(stem)),
            _ => return Err(Diagnostic::bug(format!("no {kind} files are declared"))),
        };
        Ok(vec![file])
    }

    fn folder_kind(&self) -> Option<&'static str> {
        (self.operations() > MOST_AS_TEXT).then_some("packed")
    }

    fn emit_headed(&self, kind: &str, stem: &str, heading: &Heading) -> Result<Vec<File>> {
        let draw = match kind {
            "dot" => views::dot,
            "svg" => views::svg,
            _ => return self.emit(kind, stem),
        };
        Ok(vec![File::new(format!("{stem}.{kind}"), draw(&self.legal_flat()?, heading))])
    }

    fn verify(&self) -> Vec<Diagnostic> {
        // Whether the dialect has an instruction matters to machine code only; writing it checks.
        let rules = Rules { width_limit: self.width_limit, ..Rules::default() };
        let mut problems = verify_pipeline(&self.pipeline, &rules);
        // Layers read operations that no output needs.
        if !self.ports.taps.is_empty() {
            problems.retain(|problem| problem.code() != "Q1037");
        }
        problems
    }

    fn illegal(&self) -> Vec<Diagnostic> {
        // What values are possible is no matter of legality, and takes most of the time.
        let width_limit = self.width_limit;
        let rules = Rules { width_limit, values: false, ..Rules::default() };
        let mut problems = verify_pipeline(&self.pipeline, &rules);
        problems.retain(Diagnostic::is_error);
        problems
    }

    fn checks(&self) -> Vec<Check> {
        let (stages, operations) = (&self.pipeline.stages, self.operations());
        let family = |holds, codes| Check::new(holds, codes, operations, "operations");
        let mut checks = vec![
            family("operands, inputs, tables and outputs exist", &[("Q1001", "Q1004")]),
            family("types are sound and within the limit of width", &[("Q1010", "Q1015")]),
            family("shifts, branches and tables fit", &[("Q1020", "Q1022")]),
            family("no fraction bits are lost but in quantisers", &[("Q1030", "Q1033")]),
            family("constants and entries of tables fit their types", &[("Q1034", "Q1035")]),
            family("no result overflows, for all inputs: intervals proved", &[("Q1036", "Q1036")])
                .of_legal(),
            family(
                "the same without relying on declared intervals",
                &[("Q1036", "Q1036"), ("Q1038", "Q1038")],
            )
            .of_legal(),
            family("lookups stay within their tables", &[("Q1039", "Q1039")]).of_legal(),
        ];
        if stages.len() > 1 {
            let codes = &[("Q1040", "Q1040")];
            checks.push(Check::new("stages fit each other", codes, stages.len(), "stages"));
        }
        checks
    }

    fn clock_warnings(&self) -> Vec<Diagnostic> {
        self.clock_problem().into_iter().collect()
    }

    fn load(&self, engine: Engine) -> Result<Box<dyn Machine>> {
        self.check_legal()?;
        if engine == Engine::Fast
            && let Some(machine) = Prepared::new(self)
        {
            return Ok(Box::new(machine));
        }
        Ok(Box::new(self.exec(engine == Engine::Checked)))
    }

    fn origin(&self, inputs: &Tensors, tap: &LayerTap, element: usize) -> Result<Option<Origin>> {
        let layer = self.ports.interface.layer(tap, element)?;
        self.check_legal()?;
        self.exec(false).origin(inputs, layer, element)
    }

    fn time(&self) -> Result<Timeline> {
        self.check_legal()?;
        let mut timeline = time::stages(&self.timed().stages);
        timeline.set_hertz(1e9 / self.rtl.clock);
        timeline.figure("register bits", register_bits(&self.pipeline));
        Ok(timeline)
    }

    fn demand(&self) -> Result<Demand> {
        self.check_legal()?;
        Ok(self.uses())
    }

    fn stats(&self) -> Stats {
        let stages = &self.timed().stages;
        let operations = || stages.iter().flat_map(|stage| &stage.operations);
        let count = |wanted: fn(&Inst) -> bool| {
            operations().filter(|o| wanted(&o.inst)).count().to_string()
        };
        let latency = stages.iter().map(time::latency).fold(0.0, f64::max);
        let size = self
            .machine_code("")
            .map_or(0, |files| files.iter().map(|f| f.bytes.len() as u64).sum());
        Stats {
            instructions: operations().count() as u64,
            bytes: size,
            // Combinational logic gives one result per clock; a pipeline one per stage of latency.
            cycles: Some(stages.len() as u64),
            interval: Some(1),
            hertz: Some(1e9 / self.rtl.clock),
            figures: vec![
                ("adders", count(|i| matches!(i, Inst::Add { .. } | Inst::Sub { .. }))),
                ("multipliers", count(|i| matches!(i, Inst::Multiply { .. }))),
                ("cost", operations().map(|o| o.cost).sum::<f64>().to_string()),
                ("latency", latency.to_string()),
            ],
        }
    }

    fn keeps_state(&self) -> bool {
        self.pipeline.has_state()
    }

    fn views(&self) -> &'static [View] {
        VIEWS
    }

    fn tables(&self, view: &str) -> Result<Vec<Table>> {
        match view {
            "profile" => self.profile(),
            "logic" => Ok(vec![self.logic()?]),
            "synthesis" => Ok(vec![rtl::synthesise(&self.pipeline, self.registers())?.table()]),
            "statistics" => {
                let flat = self.legal_flat()?;
                let layers = views::layers(&flat, self.rtl.clock);
                Ok(vec![layers, views::widths(&flat), views::operations(&flat)])
            }
            _ => Err(Diagnostic::bug(format!("no view {view} is declared"))),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
