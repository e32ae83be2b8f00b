//! A plan made executable: stages on the machine and on the host, connected by value names.

use crate::compare::Distance;
use crate::{InputSpec, convert};
use quincunx_contract::{
    Clipped, Departure, Engine, Golden, Grid, Machine, Numerics, Port, Program, Stats,
};
use quincunx_diag::{Diagnostic, Place, Result};
use quincunx_graph::execute::{self, Keep};
use quincunx_graph::{Graph, Value, ValueId};
use quincunx_report::Table;
use quincunx_tensor::{Tensor, Tensors};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// Something that runs: a compiled graph, a program folder or a native program.
pub struct Executable {
    /// What it needs.
    pub inputs: Vec<InputSpec>,
    /// Names of its outputs. The first one decides the class of an image.
    pub outputs: Vec<String>,
    /// Outputs that are constants.
    pub constants: Tensors,
    /// Stages in order; each reads inputs and results of earlier stages.
    pub stages: Vec<Stage>,
}

/// One segment, ready to run.
pub struct Stage {
    /// Name of the segment.
    pub name: String,
    /// Values it reads.
    pub inputs: Vec<String>,
    /// Values it computes for others.
    pub outputs: Vec<String>,
    /// Position of its machine, or of the machine beside whose programs the host runs it; 0 where there
    /// is one machine.
    pub machine: usize,
    /// Who runs it.
    pub body: Body,
}

/// Who runs a stage.
pub enum Body {
    /// Prepared execution on this processor.
    Host(Box<Host>),
    /// The machine.
    Device {
        /// The program.
        program: Box<dyn Program>,
        /// What its compiler chose.
        numerics: Numerics,
    },
}

/// A graph that the host runs. It is prepared when it is first needed; all threads share it.
#[derive(Debug)]
pub struct Host {
    /// What it computes.
    pub graph: Graph,
    /// Returns the outputs.
    session: OnceLock<Result<execute::Session>>,
    /// Returns every value.
    traced: OnceLock<Result<execute::Session>>,
}

impl Host {
    /// A graph, not yet prepared.
    pub fn new(graph: Graph) -> Self {
        Host { graph, session: OnceLock::new(), traced: OnceLock::new() }
    }

    fn run(&self, inputs: &Tensors, keep: Keep) -> Result<Tensors> {
        let cell = match keep {
            Keep::Outputs => &self.session,
            Keep::All => &self.traced,
        };
        let settings = execute::Settings { keep, ..execute::Settings::default() };
        let prepare = || execute::Session::new(&self.graph, settings);
        let session = cell.get_or_init(prepare).as_ref().map_err(Clone::clone)?;
        session.run(inputs)
    }
}

/// The golden models of the device stages of an executable.
pub struct Goldens(Vec<Option<Box<dyn Golden>>>);

impl Goldens {
    fn of(&self, stage: usize) -> Result<&dyn Golden> {
        let golden = self.0.get(stage).and_then(Option::as_deref);
        golden.ok_or_else(|| Diagnostic::bug("a device stage has no golden model"))
    }
}

/// What one image gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Outputs of the network.
    pub outputs: Tensors,
    /// Values of device stages: in a traced run their outputs and every value that can be observed.
    pub device: Tensors,
    /// Values of host stages, as [`Session::run_layers`] keeps them.
    pub host: Tensors,
    /// Numbers that the machine's type did not hold: of what entered, and results.
    pub clipped: Vec<Clipped>,
    /// Values that went from one machine to another.
    pub handovers: Vec<Handover>,
    /// What the machine noticed besides numbers.
    pub notes: Vec<Diagnostic>,
    /// Tables about the run that an option of the target asks for.
    pub tables: Vec<Table>,
}

/// A value that went from one machine to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Handover {
    /// Its name.
    pub value: String,
    /// Names of the segments that computed and read it.
    pub segments: [String; 2],
    /// How the reader holds its numbers.
    pub grid: Grid,
    /// How far these are from the numbers that were computed.
    pub distance: Distance,
}

/// Which values a run keeps besides the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Observe {
    /// None.
    Outputs,
    /// Every value of device stages that can be observed.
    Device,
    /// These and every value of host stages.
    All,
}

/// An executable loaded into simulators.
pub struct Session<'a> {
    executable: &'a Executable,
    machines: Machines,
}

/// The simulators of the stages of an executable; none for those of the host.
pub(crate) type Machines = Vec<Option<Box<dyn Machine>>>;

impl Executable {
    /// The model as given, in prepared execution: what a framework would do in f32, and exact on grids.
    pub fn reference(graph: &Graph) -> Self {
        let name = |id: &ValueId| graph[*id].name.clone();
        Executable {
            inputs: InputSpec::of(graph),
            outputs: graph.outputs().iter().map(name).collect(),
            constants: Tensors::new(),
            stages: vec![Stage {
                name: "model".to_owned(),
                machine: 0,
                inputs: graph.inputs().iter().map(name).collect(),
                outputs: graph.outputs().iter().map(name).collect(),
                body: Body::Host(Box::new(Host::new(graph.clone()))),
            }],
        }
    }

    /// Names of all values, in the order in which they are computed.
    pub fn value_order(&self) -> Vec<String> {
        let mut names: Vec<String> = self.inputs.iter().map(|input| input.name.clone()).collect();
        for stage in &self.stages {
            match &stage.body {
                Body::Host(host) => {
                    let graph = &host.graph;
                    names.extend(graph.nodes().map(|(_, node)| graph[node.output].name.clone()));
                }
                Body::Device { program, .. } => {
                    names.extend(program.interface().layers.iter().map(|tap| tap.value.clone()));
                }
            }
            names.extend(stage.outputs.iter().cloned());
        }
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    /// What happens to the numbers of a value of another machine where they enter a program, of which
    /// those within the range of the port are `bounded`.
    fn handover(
        &self,
        to: &Stage,
        port: &Port,
        computed: &Tensor,
        bounded: &Tensor,
    ) -> Option<Handover> {
        let computes = |stage: &&Stage| stage.outputs.contains(&port.name);
        let from = self.stages.iter().find(computes)?;
        if from.machine == to.machine {
            return None;
        }
        let held = Tensor::from_vec(bounded.shape(), port.encode(bounded).ok()?).ok()?;
        Some(Handover {
            value: port.name.clone(),
            segments: [from.name.clone(), to.name.clone()],
            grid: port.grid.clone(),
            distance: Distance::of(&held, computed)?,
        })
    }

    /// A problem with a value at the node that computes it; with an input it is left as it is.
    fn blame(&self, problem: Diagnostic, value: &str) -> Diagnostic {
        let computes = |stage: &&Stage| stage.outputs.iter().any(|name| name == value);
        let Some(stage) = self.stages.iter().find(computes) else { return problem };
        let graph = match &stage.body {
            Body::Host(host) => Some(&host.graph),
            Body::Device { .. } => None,
        };
        let node =
            graph.and_then(|graph| graph[graph.value_named(value)?].producer.zip(Some(graph)));
        problem.at(match node {
            Some((id, graph)) => graph.place(&graph[id]),
            None => Place::Node {
                name: value.to_owned(),
                op: stage.name.clone(),
                operands: String::new(),
            },
        })
    }

    /// Loads every program.
    ///
    /// # Errors
    /// A program that is not legal.
    pub fn load(&self) -> Result<Session<'_>> {
        self.load_with(Engine::Exec)
    }

    /// Loads every program into this simulator.
    ///
    /// # Errors
    /// A program that is not legal.
    pub fn load_with(&self, engine: Engine) -> Result<Session<'_>> {
        let load = |stage: &Stage| match &stage.body {
            Body::Host(_) => Ok(None),
            Body::Device { program, .. } => program.load(engine).map(Some),
        };
        let machines = self.stages.iter().map(load).collect::<Result<_>>()?;
        Ok(self.resume(machines))
    }

    /// Goes on with simulators that are loaded.
    pub(crate) fn resume(&self, machines: Machines) -> Session<'_> {
        Session { executable: self, machines }
    }

    /// The programs of the device stages.
    pub fn programs(&self) -> impl Iterator<Item = (&Stage, &dyn Program)> {
        self.stages.iter().filter_map(|stage| match &stage.body {
            Body::Device { program, .. } => Some((stage, &**program)),
            Body::Host(_) => None,
        })
    }

    /// True for a value that a machine computes.
    pub fn is_of_machine(&self, value: &str) -> bool {
        self.programs().any(|(stage, program)| {
            let mut layers = program.interface().layers.iter();
            stage.outputs.iter().any(|name| name == value) || layers.any(|tap| tap.value == value)
        })
    }

    /// Constants with numbers that the machine's type does not hold.
    pub fn clipped(&self) -> impl Iterator<Item = &Clipped> {
        self.programs().flat_map(|(_, program)| &program.interface().clipped)
    }

    /// Sets what nobody judges to 0: the parts of values that a machine does not compute right.
    pub(crate) fn blank(&self, values: &mut Tensors) -> Result<()> {
        for rim in self.programs().flat_map(|(_, program)| &program.interface().rims) {
            let Some(tensor) = values.get_mut(&rim.value) else { continue };
            let mut numbers = tensor.to_f64();
            for (element, number) in numbers.iter_mut().enumerate() {
                if !rim.holds(tensor.shape(), element) {
                    *number = 0.0;
                }
            }
            *tensor = Tensor::from_vec(tensor.shape(), numbers)?;
        }
        Ok(())
    }

    /// Size of all programs together. Cycles are known when they are for every program, with one clock;
    /// without a program there are none to know. Programs that overlap their inferences are different
    /// parts of the machine, and the slowest one decides.
    pub fn stats(&self) -> Stats {
        stats(self.programs())
    }

    /// Prepares the golden models of the device stages, each by `prepare`.
    ///
    /// # Errors
    /// Those of `prepare`.
    pub(crate) fn goldens(
        &self,
        prepare: impl Fn(&Stage, &Numerics) -> Result<Box<dyn Golden>>,
    ) -> Result<Goldens> {
        let golden = |stage: &Stage| match &stage.body {
            Body::Host(_) => Ok(None),
            Body::Device { numerics, .. } => prepare(stage, numerics).map(Some),
        };
        Ok(Goldens(self.stages.iter().map(golden).collect::<Result<_>>()?))
    }

    /// The same computation with every device stage done by the golden model of its layers.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn golden(&self, goldens: &Goldens, inputs: &Tensors) -> Result<Trace> {
        self.walk(inputs, Observe::Device, |stage, given| goldens.of(stage)?.run(given))
    }

    /// Where the numbers of every device stage depart from those of the machine's own tools, on
    /// these inputs.
    ///
    /// # Errors
    /// As [`Executable::golden`].
    pub fn departures(&self, goldens: &Goldens, inputs: &Tensors) -> Result<Vec<Departure>> {
        let mut found = Vec::new();
        self.walk(inputs, Observe::Device, |stage, given| {
            let golden = goldens.of(stage)?;
            found.extend(golden.departures(given)?);
            golden.run(given)
        })?;
        Ok(found)
    }

    /// Runs all stages; `device` runs a device stage and may return more than its outputs.
    fn walk(
        &self,
        inputs: &Tensors,
        observe: Observe,
        mut device: impl FnMut(usize, &Tensors) -> Result<Tensors>,
    ) -> Result<Trace> {
        let last_reads = self.last_reads();
        let mut walk = Walk::new(self, inputs, observe);
        for (index, stage) in self.stages.iter().enumerate() {
            match &stage.body {
                Body::Host(host) => walk.host(stage, host)?,
                Body::Device { program, .. } => {
                    let given = walk.given(stage, &**program)?;
                    walk.device(stage, device(index, &given)?)?;
                }
            }
            walk.forget(index, &last_reads);
        }
        walk.finish()
    }

    /// For every value that is read the number of the last stage that does; outputs are read last.
    fn last_reads(&self) -> BTreeMap<&str, usize> {
        let mut last = BTreeMap::new();
        for (index, stage) in self.stages.iter().enumerate() {
            last.extend(stage.inputs.iter().map(|name| (&**name, index)));
        }
        last.extend(self.outputs.iter().map(|name| (&**name, usize::MAX)));
        last
    }
}

/// As [`Executable::stats`], of some programs.
pub(crate) fn stats<'e>(programs: impl Iterator<Item = (&'e Stage, &'e dyn Program)>) -> Stats {
    let mut some = false;
    let mut total = Stats::default();
    let (mut cycles, mut interval) = (Some(0), Some(0));
    for (index, (_, program)) in programs.enumerate() {
        some = true;
        let stats = program.stats();
        if index > 0 && stats.hertz != total.hertz {
            (cycles, interval) = (None, None);
        }
        total.instructions += stats.instructions;
        total.bytes += stats.bytes;
        cycles = cycles.zip(stats.cycles).map(|(a, b)| a + b);
        interval = interval.zip(stats.interval).map(|(a, b)| a.max(b));
        total.hertz = stats.hertz;
    }
    total.interval = interval.filter(|&cycles| cycles > 0);
    total.cycles = cycles.filter(|_| some);
    total
}

/// One image on its way through the stages.
struct Walk<'a> {
    executable: &'a Executable,
    inputs: &'a Tensors,
    observe: Observe,
    /// Everything that a later stage may read.
    values: Tensors,
    device: Tensors,
    host: Tensors,
    clipped: Vec<Clipped>,
    handovers: Vec<Handover>,
}

impl<'a> Walk<'a> {
    fn new(executable: &'a Executable, inputs: &'a Tensors, observe: Observe) -> Self {
        let mut values = inputs.clone();
        values.extend(executable.constants.clone());
        let (device, host) = (Tensors::new(), Tensors::new());
        let (clipped, handovers) = (Vec::new(), Vec::new());
        Walk { executable, inputs, observe, values, device, host, clipped, handovers }
    }

    /// Runs a stage of the host.
    fn host(&mut self, stage: &Stage, host: &Host) -> Result<()> {
        if self.observe != Observe::All {
            let results = self.on_host(host, Keep::Outputs)?;
            return self.put(stage, &results);
        }
        let results = self.on_host(host, Keep::All)?;
        // Values of earlier stages are not the host's.
        let own = |name: &String| self.inputs.contains_key(name) || !stage.inputs.contains(name);
        let kept = results.iter().filter(|(name, _)| own(name));
        self.host.extend(kept.map(|(name, value)| (name.clone(), value.clone())));
        self.put(stage, &results)
    }

    fn on_host(&self, host: &Host, keep: Keep) -> Result<Tensors> {
        let take = |&id| {
            let Value { name, dtype, .. } = &host.graph[id];
            let tensor = self.values.get(name).ok_or_else(|| missing(name))?;
            let converted = convert::for_host(tensor, *dtype);
            let converted = converted.map_err(|problem| self.executable.blame(problem, name));
            Ok((name.clone(), converted?))
        };
        let given = host.graph.inputs().iter().map(take).collect::<Result<_>>()?;
        host.run(&given, keep)
    }

    /// What a stage of the machine reads.
    fn given(&mut self, stage: &Stage, program: &dyn Program) -> Result<Tensors> {
        let mut given = Tensors::new();
        for name in &stage.inputs {
            let tensor = self.values.get(name).ok_or_else(|| missing(name))?;
            let mut tensor = convert::to_f64(tensor)?;
            let ports = &program.interface().inputs;
            if let Some(port) = ports.iter().find(|port| port.name == *name) {
                self.clipped.extend(port.clipped(&tensor));
                if !self.inputs.contains_key(name) {
                    let bounded = port.bounded(&tensor);
                    let bounded =
                        bounded.map_err(|problem| self.executable.blame(problem, name))?;
                    let computed = std::mem::replace(&mut tensor, bounded);
                    self.handovers
                        .extend(self.executable.handover(stage, port, &computed, &tensor));
                }
            }
            given.insert(name.clone(), tensor);
        }
        Ok(given)
    }

    /// Takes the results of a stage of the machine.
    fn device(&mut self, stage: &Stage, results: Tensors) -> Result<()> {
        self.put(stage, &results)?;
        if self.observe != Observe::Outputs {
            self.device.extend(results);
        }
        Ok(())
    }

    /// Drops the values that no stage behind this one reads.
    fn forget(&mut self, stage: usize, last_reads: &BTreeMap<&str, usize>) {
        self.values.retain(|name, _| last_reads.get(&**name).is_some_and(|&last| last > stage));
    }

    fn put(&mut self, stage: &Stage, results: &Tensors) -> Result<()> {
        for name in &stage.outputs {
            let value = results.get(name).ok_or_else(|| missing(name))?;
            self.values.insert(name.clone(), value.clone());
        }
        Ok(())
    }

    fn finish(self) -> Result<Trace> {
        let output = |name: &String| {
            Ok((name.clone(), self.values.get(name).cloned().ok_or_else(|| missing(name))?))
        };
        let outputs = self.executable.outputs.iter().map(output).collect::<Result<_>>()?;
        let Walk { device, host, clipped, handovers, .. } = self;
        let (notes, tables) = (Vec::new(), Vec::new());
        Ok(Trace { outputs, device, host, clipped, handovers, notes, tables })
    }
}

impl Session<'_> {
    /// The simulators, for later.
    pub(crate) fn rest(self) -> Machines {
        self.machines
    }

    /// One image.
    ///
    /// # Errors
    /// Inputs that do not fit, faults of the program, and operators the host cannot execute.
    pub fn run(&mut self, inputs: &Tensors) -> Result<Trace> {
        self.walk(inputs, Observe::Outputs)
    }

    /// Several images, in order; as many results, each what [`Session::run`] gives. Machines that
    /// gain from it get them together.
    pub fn run_batch(&mut self, images: &[Tensors]) -> Vec<Result<Trace>> {
        let together = self.machines.iter().flatten().map(|machine| machine.batch()).max();
        match together {
            Some(2..) => {}
            _ => return images.iter().map(|image| self.run(image)).collect(),
        }
        let executable = self.executable;
        let start = |inputs| Ok(Walk::new(executable, inputs, Observe::Outputs));
        let mut walks: Vec<Result<Walk<'_>>> = images.iter().map(start).collect();
        let last_reads = executable.last_reads();
        for (index, (stage, machine)) in
            executable.stages.iter().zip(&mut self.machines).enumerate()
        {
            match (&stage.body, machine) {
                (Body::Host(host), _) => advance(&mut walks, |walk| walk.host(stage, host)),
                (Body::Device { program, .. }, Some(machine)) => {
                    on_machine(&mut walks, stage, &**program, &mut **machine)
                }
                (Body::Device { .. }, None) => advance(&mut walks, |_| Err(not_loaded())),
            }
            walks.iter_mut().flatten().for_each(|walk| walk.forget(index, &last_reads));
        }
        walks.into_iter().map(|walk| walk.and_then(Walk::finish)).collect()
    }

    /// The outputs of images that lie stacked along a new outermost axis, and so do the outputs: for programs
    /// without stages of the host on machines that take images so. `None` elsewhere, and where an image is
    /// at fault or has numbers beyond the types of the machine: [`Session::run_batch`] tells which.
    pub(crate) fn run_stacked(&mut self, inputs: &Tensors, images: usize) -> Option<Tensors> {
        let Executable { stages, outputs, constants, .. } = self.executable;
        let ([stage], [Some(machine)]) = (&stages[..], &mut self.machines[..]) else { return None };
        let Body::Device { program, .. } = &stage.body else { return None };
        if machine.batch() < 2 || !constants.is_empty() {
            return None;
        }
        let mut given = Tensors::new();
        for name in &stage.inputs {
            let tensor = convert::to_f64(inputs.get(name)?).ok()?;
            let port = program.interface().inputs.iter().find(|port| port.name == *name)?;
            let shape = [images].iter().chain(&port.shape).copied().collect();
            if (Port { shape, ..port.clone() }).clipped(&tensor).is_some() {
                return None;
            }
            given.insert(name.clone(), tensor);
        }
        let results = machine.run_stacked(&given, images)?;
        outputs.iter().map(|name| Some((name.clone(), results.get(name)?.clone()))).collect()
    }

    /// One image; the trace also has every value of the machine that can be observed.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_traced(&mut self, inputs: &Tensors) -> Result<Trace> {
        self.walk(inputs, Observe::Device)
    }

    /// One image; the trace also has every value of the machine and of the host.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_layers(&mut self, inputs: &Tensors) -> Result<Trace> {
        self.walk(inputs, Observe::All)
    }

    fn walk(&mut self, inputs: &Tensors, observe: Observe) -> Result<Trace> {
        let machines = &mut self.machines;
        let mut trace =
            self.executable.walk(inputs, observe, |index, given| match &mut machines[index] {
                Some(machine) if observe == Observe::Outputs => machine.run(given),
                Some(machine) => machine.run_traced(given),
                None => Err(not_loaded()),
            })?;
        for machine in machines.iter_mut().flatten() {
            trace.notes.extend(machine.notes());
            trace.tables.extend(machine.tables());
            trace.clipped.extend(machine.clipped());
        }
        Ok(trace)
    }
}

/// One step of every image that has not failed.
fn advance<'a>(walks: &mut [Result<Walk<'a>>], mut step: impl FnMut(&mut Walk<'a>) -> Result<()>) {
    for walk in walks {
        if let Ok(on_its_way) = walk
            && let Err(problem) = step(on_its_way)
        {
            *walk = Err(problem);
        }
    }
}

/// A stage of the machine for all images that have not failed.
fn on_machine(
    walks: &mut [Result<Walk<'_>>],
    stage: &Stage,
    program: &dyn Program,
    machine: &mut dyn Machine,
) {
    let mut given = Vec::with_capacity(walks.len());
    advance(walks, |walk| {
        given.push(walk.given(stage, program)?);
        Ok(())
    });
    let mut results = machine.run_batch(&given).into_iter();
    advance(walks, |walk| {
        let result = results.next().unwrap_or_else(|| Err(missing(&stage.name)));
        walk.device(stage, result?)
    });
}

fn not_loaded() -> Diagnostic {
    Diagnostic::bug("a device stage was not loaded")
}

fn missing(name: &str) -> Diagnostic {
    Diagnostic::bug(format!("nothing computed the value {name:?}"))
}

/// Index of the largest number, the first of equals; `None` without numbers. A NaN never wins.
pub(crate) fn top1(tensor: &Tensor) -> Option<usize> {
    let values = tensor.to_f64();
    let mut best: Option<(usize, f64)> = None;
    for (index, value) in values.into_iter().enumerate() {
        if !value.is_nan() && best.is_none_or(|(_, most)| value > most) {
            best = Some((index, value));
        }
    }
    best.map(|(index, _)| index)
}
