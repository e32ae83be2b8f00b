//! A program as the toolchain sees it: with ports, native files and a simulator behind them.

mod origin;
mod session;

use crate::arch::TcuArch;
use crate::binary;
use crate::compile;
use crate::compile::hir::Network;
use crate::files::{Consts, Model, Prog, Vectors, write_data};
use crate::options::{Settings, wishes};
use crate::package::Package;
use crate::ports::{Piece, Ports, Tap};
use crate::program::layers::{Layer, layers};
use crate::program::{Memory, Span};
use crate::simulate::{Executor, Fast};
use crate::text;
use crate::time::{self, Costing, engines, estimate, sample};
use crate::verify::{dataflow, verify};
use crate::views::{Statistics, demand, dot, extent};
use quincunx_contract::{
    Check, Demand, EmitKind, Engine, File, Interface, LayerTap, Machine, Options, Origin, Stats,
    Verb, View,
};
use quincunx_diag::{Diagnostic, Result, any_error, first_error};
use quincunx_isa::DOES_NOT_FIT;
use quincunx_report::{Cell, Column, Heading, Table};
use quincunx_tensor::Tensors;
use quincunx_timeline::Timeline;
use session::{Session, Simulator};
use std::any::Any;

/// Kinds of native files.
pub(crate) const KINDS: &[EmitKind] = &[
    EmitKind { name: "tprog", doc: "machine code" },
    EmitKind {
        name: "tmodel",
        doc: "description, machine code and constants, as upstream compiles",
    },
    EmitKind { name: "asm", doc: "assembly text" },
    EmitKind {
        name: "stream",
        doc: "everything the host sends: configuration, program, probe, padding",
    },
    EmitKind { name: "dot", doc: "the layers and what passes between them, for Graphviz" },
    EmitKind { name: "samples", doc: "performance samples of the two-engine model, 64-bit words" },
];

/// A program with its ports and the options it was read with.
pub struct Artifact {
    package: Package,
    settings: Settings,
    ports: Ports,
    /// Instructions and comments before them.
    comments: Vec<(usize, String)>,
    /// It comes from the compiler and not from files.
    is_compiled: bool,
}

impl Artifact {
    /// Puts ports on a program: those of the interface, else those of its description, else raw
    /// memory.
    ///
    /// # Errors
    /// `Q3073` when the interface does not fit the program.
    pub(crate) fn new(
        package: Package,
        settings: Settings,
        interface: Option<Interface>,
    ) -> Result<Artifact> {
        let ports = Ports::new(&package, interface)?;
        Ok(Artifact { package, settings, ports, comments: Vec::new(), is_compiled: false })
    }

    /// A program that was made by hand, perhaps with a description and constants. Without an
    /// interface its ports are those of the description, else raw memory; the comments stand before
    /// the instructions they name.
    ///
    /// # Errors
    /// `Q3073` when the interface does not fit the program; those of the options.
    pub fn of_package(
        package: Package,
        interface: Option<Interface>,
        comments: Vec<(usize, String)>,
        options: &Options,
    ) -> Result<Artifact> {
        let settings = Settings::new(options, &package)?;
        Ok(Artifact::new(package, settings, interface)?.compiled(comments))
    }

    /// Compiles layers that were made with a [`Builder`](crate::compile::builder::Builder). Sums run
    /// in the order in which the products were emitted, whatever `rounding` says; the other options
    /// are those of the compiler.
    ///
    /// # Errors
    /// `Q3085` to `Q3087` when something does not fit; those of the options.
    pub fn of_layers(
        network: &Network,
        name: &str,
        arch: &TcuArch,
        options: &Options,
    ) -> Result<Artifact> {
        let wishes = wishes(options)?;
        let (package, interface, comments) = compile::layers(network, name, arch, &wishes)?;
        Artifact::of_package(package, Some(interface), comments, options)
    }

    /// The same as a result of the compiler, with comments for assembly text.
    pub(crate) fn compiled(self, comments: Vec<(usize, String)>) -> Artifact {
        Artifact { comments, is_compiled: true, ..self }
    }

    /// The program with its description and constants.
    pub fn package(&self) -> &Package {
        &self.package
    }

    fn layers(&self) -> Vec<Layer> {
        layers(&self.package.program, &self.ports.interface().sections)
    }

    fn costing<'a>(&self, layers: &'a [Layer]) -> Costing<'a> {
        let Settings { timing: model, driver, .. } = &self.settings;
        Costing { model: *model, timeout: driver.timeout, clock_mhz: self.clock_mhz(), layers }
    }

    fn clock_mhz(&self) -> Option<u32> {
        self.settings.clock.or(self.package.arch().clock_mhz)
    }

    /// The program, if it is legal, in a simulator.
    fn session(&self, engine: Engine) -> Result<Session> {
        first_error(verify(&self.package.program, &self.settings.rules))?;
        let (package, driver) = (self.package.clone(), self.settings.driver.clone());
        Session::new(self.simulator(engine), package, driver, self.ports.clone())
    }

    /// The simulator of a legal program: the prepared one unless something is to be observed that
    /// only the executor sees.
    fn simulator(&self, engine: Engine) -> Simulator {
        let Settings { watches, driver, .. } = &self.settings;
        if engine == Engine::Fast && watches.is_empty() {
            let ports = self.ports.inputs().chain(self.ports.outputs());
            let pieces = ports.flat_map(|(_, lie)| lie.pieces.iter().copied());
            let spans: Vec<Span> = pieces
                .chain(self.ports.taps().iter().flat_map(Tap::pieces))
                .map(|Piece { memory, base, size }| Span { memory, base, stride: 0, count: size })
                .collect();
            if let Some(fast) = Fast::new(&self.package, driver, &spans) {
                return Simulator::Fast(Box::new(fast));
            }
        }
        let mut executor = Executor::new(self.package.arch());
        executor.strict = engine == Engine::Checked;
        executor.watch(watches.clone());
        Simulator::Exec(Box::new(executor))
    }

    /// The description under a new name for its files; made up for a program without one.
    fn model(&self, stem: &str) -> Result<Model> {
        let program = &self.package.program;
        let size = binary::write(program)?.len() as u64;
        let mut model = self.package.model.clone().unwrap_or_else(|| Model {
            name: stem.to_owned(),
            prog: Prog { file_name: String::new(), size },
            consts: Vec::new(),
            inputs: self.ports.raw_pieces(true),
            outputs: self.ports.raw_pieces(false),
            arch: program.arch.clone(),
            load_consts_to_local: false,
            packed: Default::default(),
            unknown: Vec::new(),
        });
        let several = self.package.consts.len() > 1;
        let consts = self.package.consts.iter().enumerate().map(|(index, part)| Consts {
            file_name: if several {
                format!("{stem}_{index}.tdata")
            } else {
                format!("{stem}.tdata")
            },
            base: part.base,
            size: program.arch.vectors(part.scalars.len()),
        });
        model.consts = consts.collect();
        model.prog.file_name = format!("{stem}.tprog");
        // What was compiled here is called like its files; a description that was read keeps its name.
        if self.is_compiled {
            stem.clone_into(&mut model.name);
        }
        Ok(model)
    }

    fn emit_model(&self, stem: &str) -> Result<Vec<File>> {
        let model = self.model(stem)?;
        let program = &self.package.program;
        let mut files = vec![
            File::new(format!("{stem}.tmodel"), model.print()),
            File::new(model.prog.file_name, binary::write(program)?),
        ];
        for (part, data) in model.consts.iter().zip(&self.package.consts) {
            let bytes = write_data(&data.scalars, &program.arch);
            files.push(File::new(part.file_name.clone(), bytes));
        }
        Ok(files)
    }

    fn samples(&self) -> Result<Vec<u8>> {
        let program = self.settings.driver.stream(&self.package.program)?;
        let timing = engines(&program);
        // The stream itself sets interval and counter.
        let samples = sample(&program, &timing, 0, self.settings.sample_block, 0)?;
        if samples.words.is_empty() {
            let message = "no sample is taken: nothing sets the sample interval";
            return Err(Diagnostic::usage("Q3084", message)
                .help("give --sample-interval CYCLES, with a machine of one thread"));
        }
        Ok(samples.write())
    }

    fn instructions(&self) -> Table {
        let program = &self.package.program;
        let costs = time::costs(program, false);
        let rows = crate::isa::TABLE.rows;
        let mut sums = vec![[0_u64; 4]; rows.len()];
        for (step, cost) in program.steps.iter().zip(&costs) {
            let counts = [1, step.inst.count(), cost.cycles, cost.energy];
            sums[step.inst.row()].iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        let columns = ["count", "vectors", "cycles", "energy"].map(Column::number);
        let columns = [Column::text("instruction")].into_iter().chain(columns).collect();
        let mut table = Table::new("instructions", columns);
        for (row, sums) in rows.iter().zip(sums) {
            if sums[0] > 0 {
                let cells = sums.map(Cell::Count);
                table.push([row.name.into()].into_iter().chain(cells).collect());
            }
        }
        table
    }

    fn memory_map(&self) -> Table {
        let columns = ["what", "name", "memory"].map(Column::text);
        let numbers = ["base", "vectors"].map(Column::number);
        let columns = columns.into_iter().chain(numbers).collect();
        let mut table = Table::new("memory_map", columns);
        let mut row = |what: &str, name: &str, memory: &str, base: u64, size: u64| {
            table.push(vec![what.into(), name.into(), memory.into(), base.into(), size.into()]);
        };
        let arch = self.package.arch();
        for part in &self.package.consts {
            row("constants", &part.name, "DRAM1", part.base, arch.vectors(part.scalars.len()));
        }
        let model = self.package.model.iter();
        for (what, pieces) in model.flat_map(|m| [("input", &m.inputs), ("output", &m.outputs)]) {
            for Vectors { name, base, size } in pieces {
                let packed = what == "input" && self.ports.is_packed(name);
                let what = if packed { "packed input" } else { what };
                row(what, name, "DRAM0", *base, *size);
            }
        }
        table
    }
}

/// Views of a program.
static VIEWS: &[View] = &[
    View { name: "profile", doc: "where the time goes", verb: Verb::Time },
    View { name: "memory", doc: "kinds of instructions, and what lies where", verb: Verb::Inspect },
    View { name: "statistics", doc: "figures of the program and of its layers", verb: Verb::Table },
];

impl quincunx_contract::Program for Artifact {
    fn interface(&self) -> &Interface {
        self.ports.interface()
    }

    fn emit(&self, kind: &str, stem: &str) -> Result<Vec<File>> {
        let program = &self.package.program;
        let file = match kind {
            "tprog" => File::new(format!("{stem}.tprog"), binary::write(program)?),
            "tmodel" => return self.emit_model(stem),
            "asm" => File::new(format!("{stem}.tasm"), text::print_with(program, &self.comments)),
            "stream" => {
                let stream = self.settings.driver.stream(program)?;
                File::new(format!("{stem}.tstream"), binary::write(&stream)?)
            }
            "dot" => return self.emit_headed(kind, stem, &Heading::default().of(stem)),
            "samples" => File::new(format!("{stem}.tsamples"), self.samples()?),
            _ => return Err(Diagnostic::bug(format!("no {kind} files are declared"))),
        };
        Ok(vec![file])
    }

    fn emit_headed(&self, kind: &str, stem: &str, heading: &Heading) -> Result<Vec<File>> {
        if kind != "dot" {
            return self.emit(kind, stem);
        }
        let heading = heading.clone().titled("Layers of a program");
        let graph = dot(&self.package, &self.ports, &self.layers(), &heading);
        Ok(vec![File::new(format!("{stem}.dot"), graph)])
    }

    fn verify(&self) -> Vec<Diagnostic> {
        let mut problems = verify(&self.package.program, &self.settings.rules);
        // What flows through a program is a question about one that is legal otherwise.
        if !any_error(&problems) {
            problems.extend(dataflow(&self.package, &self.settings.driver));
        }
        problems
    }

    fn checks(&self) -> Vec<Check> {
        let Package { program, model, .. } = &self.package;
        let family = |holds, codes| Check::new(holds, codes, program.steps.len(), "instructions");
        let mut checks = vec![
            family(
                "the machine has the instructions, operands fit their fields",
                &[(DOES_NOT_FIT, DOES_NOT_FIT), ("Q3010", "Q3012"), ("Q3021", "Q3022")],
            ),
            family("every vector exists, strides included", &[("Q3040", "Q3043")]),
            family(
                "registers, sources and tables exist",
                &[("Q3044", "Q3047"), ("Q3055", "Q3055")],
            ),
            family("configuration values fit their registers", &[("Q3048", "Q3049")]),
        ];
        if self.settings.rules.simd_write_gap > 0 {
            checks.push(family("SIMD writes are far enough from moves", &[("Q3051", "Q3051")]));
        }
        if self.settings.rules.flush_probe {
            checks.push(family("the vectors of the probe are left alone", &[("Q3053", "Q3053")]));
        }
        if program.arch.number_of_threads > 1 {
            let codes = &[("Q3052", "Q3052"), ("Q3056", "Q3056")];
            checks.push(family("threads never race", codes).of_legal());
        }
        if model.is_some() {
            let codes = &[("Q3054", "Q3054"), ("Q3057", "Q3058"), ("Q3099", "Q3099")];
            let holds = "what is read was written, constants stay, outputs are written";
            checks.push(family(holds, codes).of_legal());
            let codes = &[("Q3059", "Q3059"), ("Q3098", "Q3099")];
            checks.push(family("what is written is read, inputs before they go", codes).of_legal());
        }
        checks
    }

    fn load(&self, engine: Engine) -> Result<Box<dyn Machine>> {
        Ok(Box::new(self.session(engine)?))
    }

    fn origin(&self, inputs: &Tensors, tap: &LayerTap, element: usize) -> Result<Option<Origin>> {
        self.interface().layer(tap, element)?;
        let own = self.ports.taps().iter().find(|own| own.is_of(tap));
        let own = own.ok_or_else(|| Diagnostic::bug("a layer was lost"))?;
        let mut session = self.session(Engine::Exec)?;
        session.origin(inputs, own, element)
    }

    fn time(&self) -> Result<Timeline> {
        time::timeline(&self.package.program, &self.costing(&self.layers()))
    }

    fn stats(&self) -> Stats {
        let program = &self.package.program;
        let estimate = estimate(program, false);
        let bytes = binary::write(program).map_or(0, |bytes| bytes.len());
        let consts = self.package.consts.iter().map(|part| part.scalars.len()).sum::<usize>();
        let data = consts * program.arch.data_type.bytes();
        let used =
            |memory| (extent(program, memory) * program.arch.vector_bytes() as u64).to_string();
        Stats {
            instructions: program.steps.len() as u64,
            bytes: (bytes + data) as u64,
            cycles: Some(estimate.aggregate.cycles),
            interval: None,
            hertz: self.clock_mhz().map(|mhz| f64::from(mhz) * 1e6),
            figures: vec![
                ("data type", program.arch.data_type.name().to_owned()),
                ("array", format!("{0} x {0}", program.arch.array_size)),
                ("threads", program.arch.number_of_threads.to_string()),
                ("energy", estimate.aggregate.energy.to_string()),
                ("constants", format!("{consts} scalars")),
                ("constant bytes", data.to_string()),
                ("DRAM0 bytes", used(Memory::Dram0)),
                ("local bytes", used(Memory::Local)),
            ],
        }
    }

    fn demand(&self) -> Result<Demand> {
        Ok(demand(&self.package.program, &self.costing(&self.layers())))
    }

    fn views(&self) -> &'static [View] {
        VIEWS
    }

    fn tables(&self, view: &str) -> Result<Vec<Table>> {
        Ok(match view {
            "profile" => time::tables(&self.package.program, &self.costing(&self.layers())),
            "memory" => vec![self.instructions(), self.memory_map()],
            "statistics" => Statistics::new(&self.package, self.ports.interface()).tables(),
            _ => return Err(Diagnostic::bug(format!("no view {view} is declared"))),
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
