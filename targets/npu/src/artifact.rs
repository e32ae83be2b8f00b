//! Programs behind the trait: reading, writing, verifying, running, timing.

#![deny(clippy::arithmetic_side_effects)]

mod flow;
mod origin;

use crate::arch::NpuArch;
use crate::binary::{self, Attached, DATA};
use crate::files::IrFile;
use crate::ports::{NamedTensor, Ports, Taps};
use crate::program::Program;
use crate::replay::{Node, Port, Replay, replay, replay_with};
use crate::simulate::{Dram, Executor, Fast, Settings, State};
use crate::text;
use crate::time::{Model, VpCost, core_durations, dram_cycles};
use crate::verify::{Subject, executable, mislabelled, verify};
use crate::views::{Run, VIEWS, dram_bytes, timeline};
use crate::work::{Memory, Resolved, Work, accesses, product, products};
use bytes::Bytes;
use quincunx_contract::{
    Check, Demand, EmitKind, Engine, File, Interface, LayerTap, Machine, Options, Origin, Stats,
    View,
};
use quincunx_diag::{Class, Diagnostic, Result, any_error, first};
use quincunx_report::Table;
use quincunx_tensor::Tensors;
use quincunx_timeline::Timeline;
use std::any::Any;
use std::collections::BTreeMap;

/// Native file kinds.
pub(crate) const KINDS: &[EmitKind] = &[
    EmitKind { name: "bin", doc: "machine code of 16-byte words with a side section (.qnpu)" },
    EmitKind { name: "asm", doc: "assembly text (.asm.txt)" },
    EmitKind { name: "trace", doc: "assembly text with start and end of every line (.trace.txt)" },
    EmitKind { name: "sched", doc: "scheduler IR of a compiled program (.sched.json)" },
    EmitKind { name: "frontend", doc: "frontend IR of a compiled program (.frontend.json)" },
    EmitKind { name: "scales", doc: "quantisation scales of a compiled program (.scales.json)" },
];

/// Where durations come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durations {
    /// From the trace if it is one, else from the model.
    Auto,
    Model,
    Traced,
}

/// What knows a compiled program as files of the ecosystem.
pub(crate) trait Describe: std::fmt::Debug + Send + Sync {
    /// Scheduler IR, frontend IR and quantisation scales, with the kinds of the files.
    ///
    /// # Errors
    /// `Q4103` for programs that the formats cannot hold.
    fn files(&self, program: &Program, arch: &NpuArch) -> Result<[(&'static str, IrFile); 3]>;
}

/// The programs of all cores with everything the options chose.
#[derive(Debug)]
pub struct Artifact {
    programs: Vec<Program>,
    work: Vec<Vec<Resolved>>,
    arch: NpuArch,
    settings: Settings,
    model: Model,
    durations: Durations,
    /// Machine code gets a side section.
    side: bool,
    ports: Ports,
    /// Named tensors of a compiled program.
    tensors: Vec<NamedTensor>,
    /// DRAM behind bases as the program finds it.
    memory: Vec<(u8, Bytes)>,
    taps: Taps,
    /// Weights that others overwrite are no reason to refuse it.
    clobbers: bool,
    /// Of a program that was just compiled.
    description: Option<Box<dyn Describe>>,
}

impl Artifact {
    /// Puts ports on programs, one per core.
    ///
    /// # Errors
    /// `Q4083` for traced durations of what is not a trace, those of [`Ports::bytes`].
    pub(crate) fn new(
        programs: Vec<Program>,
        arch: &NpuArch,
        options: &Options,
    ) -> Result<Artifact> {
        let settings = Settings {
            float_accumulation: options.get("accumulate") == "f32",
            advance_images: options.get("vp-batch-stride") == "implicit",
        };
        let mut model = match options.get("timing") {
            "physical" => Model::PHYSICAL,
            _ => Model::UPSTREAM,
        };
        match options.get("vp-cost") {
            "upstream" => model.vp = VpCost::Upstream,
            "per-image" => model.vp = VpCost::PerImage,
            _ => {}
        }
        let durations = match options.get("durations") {
            "model" => Durations::Model,
            "traced" => Durations::Traced,
            _ => Durations::Auto,
        };
        if durations == Durations::Traced && !programs.iter().all(Program::is_trace) {
            let message = "traced durations need traces, in which every line has times";
            return Err(Diagnostic::usage("Q4083", message));
        }
        let work: Vec<Vec<Resolved>> =
            programs.iter().map(|p| crate::simulate::work_of(p, settings)).collect();
        let list: Vec<&Program> = programs.iter().collect();
        let order = replay(&list, &work, &|_| 0).order;
        let ports = match options.get("ports") {
            "raw" => Ports::bytes(&work, arch)?,
            _ => Ports::tensors(&work, &order),
        };
        let side = options.flag("side");
        let arch = arch.clone();
        let (tensors, memory, taps) = (Vec::new(), Vec::new(), Taps::default());
        Ok(Artifact {
            programs,
            work,
            arch,
            settings,
            model,
            durations,
            side,
            ports,
            tensors,
            memory,
            taps,
            clobbers: false,
            description: None,
        })
    }

    /// A program as the original tool would write it, whose weights may be overwritten: that breaks
    /// a rule and is reported, but the program is written and run.
    pub(crate) fn with_clobbers(mut self) -> Artifact {
        self.clobbers = true;
        self
    }

    /// A program that can be written as a schedule.
    pub(crate) fn with_description(mut self, description: Box<dyn Describe>) -> Artifact {
        self.description = Some(description);
        self
    }

    /// The file of a schedule of this kind.
    fn described(&self, kind: &str, stem: &str) -> Result<Vec<File>> {
        let problem = |message: String, help| Diagnostic::unsupported("Q4103", message).help(help);
        let Some(description) = &self.description else {
            let message = format!("{kind} files need the network, which the program does not hold");
            return Err(problem(message, "write them when the network is compiled"));
        };
        let [program] = &self.programs[..] else {
            let message = format!("schedules have one core, the program {}", self.programs.len());
            return Err(problem(message, "compile for one core"));
        };
        let files = description.files(program, &self.arch)?;
        let own = files.into_iter().filter(|(own, _)| *own == kind);
        Ok(own.map(|(_, file)| File::new(format!("{stem}.{kind}.json"), file.write())).collect())
    }

    /// A compiled program: named tensors, and DRAM that is there before it runs.
    ///
    /// # Errors
    /// `Q4081`, `Q4087`, `Q4088` for tensors and an interface that do not fit, those of
    /// [`Artifact::new`].
    pub(crate) fn compiled(
        programs: Vec<Program>,
        tensors: Vec<NamedTensor>,
        memory: Vec<(u8, Bytes)>,
        interface: Option<Interface>,
        arch: &NpuArch,
        options: &Options,
    ) -> Result<Artifact> {
        if let Some((base, _)) = memory.iter().find(|(base, _)| *base > 2) {
            let message = format!("data lies behind DRAM base {base}, expected 0 to 2");
            return Err(Diagnostic::invalid("Q4088", message));
        }
        let is_raw = options.get("ports") == "raw";
        if is_raw && interface.is_some() {
            let message = "--ports raw is for native files: this program names its inputs";
            return Err(Diagnostic::usage("Q4081", message));
        }
        let mut artifact = Artifact::new(programs, arch, options)?;
        let lines: Vec<usize> = artifact.programs.iter().map(|p| p.lines.len()).collect();
        let layers = interface.as_ref().map_or(&[][..], |interface| &interface.layers);
        artifact.taps = Taps::new(layers, arch.l2_bytes as usize, &lines)?;
        if !is_raw {
            artifact.ports = Ports::named(&tensors, interface)?;
        }
        (artifact.tensors, artifact.memory) = (tensors, memory);
        Ok(artifact)
    }

    /// The same with what its values are made of in its interface.
    #[must_use]
    pub(crate) fn sealed(mut self) -> Artifact {
        let made = self.subject(|subject| {
            let order = replay(subject.programs, &self.work, &|_| 0).order;
            flow::made(subject, &order, &self.tensors, &self.taps)
        });
        let places = self.taps.set_made(made);
        for (layer, place) in self.ports.interface.layers.iter_mut().zip(places) {
            layer.place = place;
        }
        self
    }

    /// The programs, one per core.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// Calls `look` with the programs as checkers see them.
    pub(crate) fn subject<T>(&self, look: impl FnOnce(&Subject<'_>) -> T) -> T {
        let list = self.list();
        look(&Subject { programs: &list, work: &self.work, arch: &self.arch })
    }

    /// What every run finds in DRAM.
    fn dram(&self) -> Result<[Dram; 3]> {
        let mut dram: [Dram; 3] = Default::default();
        for (base, bytes) in &self.memory {
            dram[usize::from(*base)].write(0, bytes)?;
        }
        Ok(dram)
    }

    /// Bytes that the DRAM port moves.
    pub(crate) fn dram_bytes(&self) -> u64 {
        self.volumes().1
    }

    /// Cycles that no program of the same multiplications, with the same inputs, outputs and weights
    /// in DRAM, can fall below.
    pub(crate) fn lower_bound(&self) -> u64 {
        let cores = self.programs.len() as u64;
        let array = product([self.arch.rows, self.arch.columns, 64].map(u64::from));
        let array = array.saturating_mul(cores);
        let tensors = self.tensors.iter().map(NamedTensor::bytes);
        let memory = self.memory.iter().map(|(_, bytes)| bytes.len() as u64);
        let bytes = tensors.chain(memory).fold(0, u64::saturating_add);
        let (products, _) = self.volumes();
        products.div_ceil(array.max(1)).max(dram_cycles(bytes, &self.arch))
    }

    fn list(&self) -> Vec<&Program> {
        self.programs.iter().collect()
    }

    /// Whether the cycles of a program are those of its own times.
    fn is_traced(&self, program: &Program) -> bool {
        match self.durations {
            Durations::Auto => program.is_trace(),
            Durations::Model => false,
            Durations::Traced => true,
        }
    }

    /// Cycles of every line of every core.
    fn cycles(&self) -> Vec<Vec<u64>> {
        let traced = |program: &Program| {
            let cycles = |(start, end): (u64, u64)| end.saturating_sub(start);
            program.lines.iter().map(|line| line.time.map_or(0, cycles)).collect()
        };
        let of = |(core, program): (usize, &Program)| match self.is_traced(program) {
            true => traced(program),
            false => core_durations(core, program, &self.work[core], &self.arch, self.model),
        };
        self.programs.iter().enumerate().map(of).collect()
    }

    /// Replay with the chosen cycles. Traces have their own order of DRAM operations.
    pub(crate) fn replay(&self) -> (Vec<Vec<u64>>, Replay) {
        let cycles = self.cycles();
        let cost = |node: Node| cycles[node.core][node.line];
        let replay = replay_with(&self.list(), &self.work, &cost, self.port());
        (cycles, replay)
    }

    /// Who uses DRAM at a time.
    fn port(&self) -> Port {
        match self.programs.iter().any(|program| self.is_traced(program)) {
            true => Port::Many,
            false => self.model.port,
        }
    }

    /// The programs with when their lines run, for views.
    fn run(&self) -> Run<'_> {
        let (cycles, replay) = self.replay();
        Run {
            programs: &self.programs,
            work: &self.work,
            arch: &self.arch,
            cycles,
            port: self.port(),
            replay,
            names: self.names(),
        }
    }

    /// A name per core: without a number when there is one core.
    fn file_name(&self, stem: &str, core: usize, ending: &str) -> String {
        match self.programs.len() {
            1 => format!("{stem}.{ending}"),
            _ => format!("{stem}.core{core:02}.{ending}"),
        }
    }

    /// Without the lines that never start there is nothing to time.
    fn check_deadlock(&self) -> Result<()> {
        let list = self.list();
        let subject = Subject { programs: &list, work: &self.work, arch: &self.arch };
        match executable(&subject) {
            Ok(_) => Ok(()),
            Err(problems) => match problems.into_iter().find(|p| p.code() == "Q4021") {
                Some(problem) => Err(problem),
                None => Ok(()),
            },
        }
    }

    fn traced(&self) -> Result<Vec<Program>> {
        self.check_deadlock()?;
        let (_, replay) = self.replay();
        let mut programs = self.programs.clone();
        for (program, times) in programs.iter_mut().zip(&replay.times) {
            for (line, &time) in program.lines.iter_mut().zip(times) {
                line.time = Some(time);
            }
        }
        Ok(programs)
    }

    /// The names of the layers of a compiled program, by their numbers in maps.
    fn names(&self) -> BTreeMap<i32, &str> {
        let lines = self.programs.first().map_or(&[][..], |program| &program.lines);
        let named = self.ports.interface.sections.iter().filter_map(|section| {
            let map = lines.get(section.first)?.map.as_ref()?;
            Some((map.slyr, &section.name[..]))
        });
        named.collect()
    }

    /// Picojoules, if the machine file gives any: every byte that a line reads or writes counts once,
    /// and every multiplication. What a parameter leaves out costs nothing.
    fn energy(&self) -> Option<f64> {
        let arch = &self.arch;
        let given = [arch.dram_pj_per_byte, arch.l2_pj_per_byte, arch.wl0_pj_per_byte, arch.mac_pj];
        given.iter().any(Option::is_some).then_some(())?;
        let [dram, l2, wl0, mac] = given.map(Option::unwrap_or_default);
        let mut sum = self.volumes().0 as f64 * mac;
        for work in self.work.iter().flatten().flatten() {
            for access in accesses(work, arch) {
                let bytes = access.pattern.runs() as f64 * access.pattern.bytes as f64;
                sum += bytes
                    * match access.memory {
                        Memory::Dram(_) => dram,
                        Memory::Wl0 => wl0,
                        Memory::L2(_) | Memory::Remote(..) | Memory::RemoteWhole(_) => l2,
                    };
            }
        }
        Some(sum)
    }

    /// Multiplications of all convolutions, and bytes of the DRAM port.
    fn volumes(&self) -> (u64, u64) {
        let (mut sum, mut bytes) = (0_u64, 0_u64);
        for work in self.work.iter().flatten().flatten() {
            if let Work::Conv(conv) = work {
                sum = sum.saturating_add(products(conv));
            }
            let (read, written) = dram_bytes(work);
            bytes = bytes.saturating_add(read).saturating_add(written);
        }
        (sum, bytes)
    }
}

impl quincunx_contract::Program for Artifact {
    fn interface(&self) -> &Interface {
        &self.ports.interface
    }

    fn emit(&self, kind: &str, stem: &str) -> Result<Vec<File>> {
        let plain = |program: &Program| {
            let mut program = program.clone();
            program.lines.iter_mut().for_each(|line| line.time = None);
            program
        };
        let programs = match kind {
            "bin" => self.programs.clone(),
            "asm" => self.programs.iter().map(plain).collect(),
            "trace" => self.traced()?,
            "sched" | "frontend" | "scales" => return self.described(kind, stem),
            _ => return Err(Diagnostic::bug(format!("no {kind} files are declared"))),
        };
        let data = |(base, _): &(u8, Bytes)| (*base, format!("{stem}.{base}{DATA}"));
        let file = |(core, program): (usize, &Program)| {
            let attached = Attached {
                tensors: if core == 0 { self.tensors.clone() } else { Vec::new() },
                data: self.memory.iter().map(data).collect(),
            };
            Ok(match kind {
                "bin" => File::new(
                    self.file_name(stem, core, "qnpu"),
                    binary::write_with(program, &self.arch, self.side.then_some(&attached))?,
                ),
                "asm" => File::new(self.file_name(stem, core, "asm.txt"), text::print(program)),
                _ => File::new(self.file_name(stem, core, "trace.txt"), text::print(program)),
            })
        };
        let mut files: Vec<File> = programs.iter().enumerate().map(file).collect::<Result<_>>()?;
        if kind == "bin" && self.side {
            let bytes = self.memory.iter().map(|named| File::new(data(named).1, named.1.clone()));
            files.extend(bytes);
        }
        Ok(files)
    }

    fn verify(&self) -> Vec<Diagnostic> {
        let list = self.list();
        let subject = Subject { programs: &list, work: &self.work, arch: &self.arch };
        let mut problems = verify(&subject);
        if !self.tensors.is_empty() {
            // The compiler's own labels must be right; those of other tools are only doubted.
            problems.retain(|problem| problem.code() != "Q4042");
            let wrong = mislabelled(&subject).into_iter();
            problems.extend(
                wrong.map(|(node, what)| subject.at(node, Diagnostic::invalid("Q4042", what))),
            );
        }
        if self.taps.values().next().is_some() && !any_error(&problems) {
            let order = replay(&list, &self.work, &|_| 0).order;
            problems.extend(flow::check(&subject, &order, &self.tensors, &self.taps));
        }
        problems
    }

    fn illegal(&self) -> Vec<Diagnostic> {
        let mut problems = self.verify();
        problems.retain(|problem| problem.is_error() && problem.class() == Class::Invalid);
        problems.retain(|problem| !self.clobbers || problem.code() != "Q4032");
        problems
    }

    fn checks(&self) -> Vec<Check> {
        let lines = self.programs.iter().map(|program| program.lines.len()).sum();
        let family = |holds, codes| Check::new(holds, codes, lines, "lines");
        // What lines behind a deadlock access is not looked at.
        let (_, replay) = self.replay();
        let order = |holds, codes| Check::new(holds, codes, replay.order.len(), "lines");
        let mut checks = vec![
            family("fields have a meaning, extents fit each other", &[("Q4034", "Q4035")]),
            family(
                "registers are configured, lines lie in tasks",
                &[("Q4020", "Q4020"), ("Q4023", "Q4023")],
            ),
            family(
                "every token comes and is taken: no deadlock",
                &[("Q4021", "Q4022"), ("Q4036", "Q4036")],
            ),
            order("accesses lie in their regions, regions in L2", &[("Q4024", "Q4026")]),
            family("weights and mini tiles fit their buffers", &[("Q4027", "Q4029")]),
            order(
                "accesses to the same bytes are ordered",
                &[("Q4030", "Q4031"), ("Q4048", "Q4048")],
            ),
            order("convolutions find their weights", &[("Q4032", "Q4032")]),
            order(
                "bytes are written before they are read",
                &[("Q4033", "Q4033"), ("Q4048", "Q4048")],
            ),
            order("nothing is overwritten too early", &[("Q4040", "Q4041")]),
            family(
                "maps and configurations are plausible",
                &[("Q4037", "Q4039"), ("Q4042", "Q4042")],
            ),
        ];
        // Only what was compiled says where its values lie.
        if self.taps.values().next().is_some() {
            checks.push(order("values lie where the interface says", &[("Q4043", "Q4043")]));
        }
        checks
    }

    fn load(&self, engine: Engine) -> Result<Box<dyn Machine>> {
        let executor = Executor::new(self.programs.clone(), &self.arch, self.settings);
        let executor = executor.map_err(first)?;
        let runner = match engine {
            Engine::Fast => Runner::Fast(Box::new(Fast::new(executor))),
            Engine::Exec | Engine::Checked => Runner::Exec(Box::new(executor)),
        };
        Ok(Box::new(Exec {
            runner,
            ports: self.ports.clone(),
            dram: self.dram()?,
            taps: self.taps.clone(),
            checked: engine == Engine::Checked,
            notes: Vec::new(),
        }))
    }

    fn origin(&self, inputs: &Tensors, tap: &LayerTap, element: usize) -> Result<Option<Origin>> {
        self.origin_of(inputs, self.interface().layer(tap, element)?, element)
    }

    fn time(&self) -> Result<Timeline> {
        self.check_deadlock()?;
        let mut timeline = timeline(&self.run());
        if let Some(energy) = self.energy() {
            timeline.figure("energy", format!("{energy:.0} pJ"));
        }
        Ok(timeline)
    }

    fn stats(&self) -> Stats {
        let (products, bytes) = self.volumes();
        let lines = self.programs.iter().map(|program| program.lines.len() as u64).sum::<u64>();
        let tasks: usize = self.programs.iter().map(|program| program.tasks().len()).sum();
        let (_, replay) = self.replay();
        let energy = self.energy().map(|energy| ("energy in pJ", format!("{energy:.0}")));
        Stats {
            instructions: lines,
            bytes: lines.saturating_mul(binary::WORD as u64),
            cycles: replay.blocked.is_empty().then(|| replay.total()),
            interval: None,
            hertz: Some(self.arch.hertz),
            figures: vec![
                ("cores", self.programs.len().to_string()),
                ("tasks", tasks.to_string()),
                ("multiplications", products.to_string()),
                ("DRAM bytes", bytes.to_string()),
            ]
            .into_iter()
            .chain(energy)
            .collect(),
        }
    }

    fn demand(&self) -> Result<Demand> {
        self.check_deadlock()?;
        let run = self.run();
        let (products, _) = self.volumes();
        let possible = run.peak() as f64 * run.replay.total() as f64;
        let utilisation = (possible > 0.0).then(|| products as f64 / possible);
        Ok(Demand { utilisation, ..Demand::of(&timeline(&run)) })
    }

    fn views(&self) -> &'static [View] {
        VIEWS
    }

    fn tables(&self, view: &str) -> Result<Vec<Table>> {
        Ok(self.run().tables(view))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// What executes lines.
enum Runner {
    Exec(Box<Executor>),
    Fast(Box<Fast>),
}

impl Runner {
    fn state(&self) -> State {
        match self {
            Runner::Exec(executor) => executor.state(),
            Runner::Fast(fast) => fast.state(),
        }
    }

    /// Calls `after` behind each line.
    fn run(&mut self, state: &mut State, after: &mut dyn FnMut(Node, &State)) -> Result<()> {
        match self {
            Runner::Fast(fast) => fast.run_observed(state, after),
            Runner::Exec(executor) => {
                executor.run_in(executor.order(), state, &mut |node, state| after(node, state))
            }
        }
    }
}

/// What executes lines, behind the ports.
struct Exec {
    runner: Runner,
    ports: Ports,
    /// What every run finds there; runs share the pages that they do not write.
    dram: [Dram; 3],
    taps: Taps,
    /// A result that does not fit its format is a fault.
    checked: bool,
    notes: Vec<Diagnostic>,
}

impl Exec {
    fn execute(&mut self, inputs: &Tensors, after: &mut dyn FnMut(Node, &State)) -> Result<State> {
        let mut state = self.runner.state();
        state.dram = self.dram.clone();
        self.ports.write(inputs, &mut state)?;
        self.runner.run(&mut state, after)?;
        let counts = state.counts;
        let lost = counts.saturated.saturating_add(counts.infinite);
        if self.checked && lost > 0 {
            let message = format!("{lost} of {} results leave their format", counts.results);
            return Err(Diagnostic::answer("Q4061", message));
        }
        self.notes.clear();
        for (count, what) in [
            (counts.saturated, "were limited to the range of 8-bit codes"),
            (counts.infinite, "became infinite in 16 bits"),
        ] {
            if count > 0 {
                let message = format!("{count} of {} results {what}", counts.results);
                self.notes.push(Diagnostic::note("Q4061", message));
            }
        }
        Ok(state)
    }
}

impl Machine for Exec {
    fn run(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let state = self.execute(inputs, &mut |_, _| ())?;
        self.ports.read(&state)
    }

    fn run_traced(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let taps = self.taps.clone();
        let mut seen = taps.start();
        let mut after = |node: Node, state: &State| {
            if taps.at(node) {
                taps.see(node, state, &mut seen);
            }
        };
        let state = self.execute(inputs, &mut after)?;
        let mut tensors = taps.finish(seen)?;
        tensors.extend(self.ports.read(&state)?);
        Ok(tensors)
    }

    fn notes(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.notes)
    }
}
