//! A program as the toolchain sees it: ports, files, simulator, time.

use crate::arch::ScampArch;
use crate::files::KernelFile;
use crate::isa::Class;
use crate::isa::Reg;
use crate::options::Chosen;
use crate::ports::{Area, Wiring, input_shape, margin, ports};
use crate::program::{Named, Program, Space};
use crate::simulate::{Edge, Executor, Outcome};
use crate::symbolic::{Level, Reaches, computed, reaches};
use crate::text::{Dialect, Listing, print};
use crate::time;
use crate::verify::{verify, verify_kernels_within};
use quincunx_contract::{
    Check, EmitKind, Engine, File, Interface, Machine, Options, Port, Stats, Verb, View,
};
use quincunx_diag::{Diagnostic, Place, Result, Span, any_error, first_error};
use quincunx_graph::execute::given;
use quincunx_report::{Column, Table};
use quincunx_tensor::{Tensor, Tensors, element_count};
use quincunx_timeline::Timeline;
use std::any::Any;

/// Kinds of native files.
pub(crate) const KINDS: &[EmitKind] = &[
    EmitKind { name: "asm", doc: "Cain's default format" },
    EmitKind { name: "jss", doc: "Cain's format for a JavaScript simulator" },
    EmitKind { name: "cpp", doc: "C++ header with a kernel function" },
    EmitKind { name: "bus", doc: "bus listing: every macro as its bus steps" },
    EmitKind { name: "csim", doc: "AUKE's CSIM text" },
];

/// A program on a machine, with the options it was read with.
pub struct Artifact {
    program: Program,
    /// Where the instructions stand in the text; empty when they were rewritten.
    spans: Vec<Span>,
    arch: ScampArch,
    chosen: Chosen,
    /// The kernels it is to compute, where a kernel file was given with it.
    wanted: Option<KernelFile>,
    interface: Interface,
    inputs: Vec<Named>,
    outputs: Vec<Named>,
    /// Where the values of a network lie, if it is a compiled one.
    wiring: Option<Wiring>,
}

impl Artifact {
    /// A compiled program with its ports.
    ///
    /// # Errors
    /// `Q5070` for an interface that is not of the program, which is a bug of the compiler.
    pub(crate) fn compiled(
        program: Program,
        interface: Interface,
        arch: &ScampArch,
        options: &Options,
    ) -> Result<Artifact> {
        let listing = Listing { program, spans: Vec::new() };
        Artifact::new(listing, arch, Chosen::new(options, arch)?, None, Some(interface))
    }

    /// Puts ports on a program: its input and output registers, or the values of a network that the
    /// interface names.
    ///
    /// # Errors
    /// `Q5070` when an interface is given that is not that of the program.
    pub(crate) fn new(
        Listing { program, spans }: Listing,
        arch: &ScampArch,
        chosen: Chosen,
        wanted: Option<KernelFile>,
        interface: Option<Interface>,
    ) -> Result<Artifact> {
        let (inputs, outputs) = (program.input_registers(arch), program.output_registers(arch));
        let raw = Interface {
            inputs: ports(&inputs, |named| input_shape(named, &chosen)),
            outputs: ports(&outputs, |_| chosen.readout.shape(chosen.height, chosen.width)),
            ..Interface::default()
        };
        let given = interface.filter(|given| *given != raw);
        let wiring =
            given.as_ref().map(|given| Wiring::of(given, &program, &chosen)).transpose()?;
        let (interface, arch) = (given.unwrap_or(raw), arch.clone());
        Ok(Artifact { program, spans, arch, chosen, wanted, interface, inputs, outputs, wiring })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    fn dialect(&self, kind: &str) -> Result<(Dialect, &'static str)> {
        Ok(match kind {
            "asm" if self.chosen.jss => (Dialect::Jss(self.chosen.simulator.clone()), "scamp"),
            "asm" => (Dialect::Cain, "scamp"),
            "jss" => (Dialect::Jss(self.chosen.simulator.clone()), "jss"),
            "cpp" => (Dialect::Cpp(self.chosen.function.clone()), "hpp"),
            "bus" => (Dialect::Bus, "bus"),
            "csim" => (Dialect::Csim, "csim"),
            _ => return Err(Diagnostic::bug(format!("no {kind} files are declared"))),
        })
    }
}

/// Views of a program.
static VIEWS: &[View] =
    &[View { name: "kernels", doc: "what outputs compute", verb: Verb::Inspect }];

impl quincunx_contract::Program for Artifact {
    fn interface(&self) -> &Interface {
        &self.interface
    }

    fn emit(&self, kind: &str, stem: &str) -> Result<Vec<File>> {
        let (dialect, extension) = self.dialect(kind)?;
        let text = print(&self.program, &dialect)?;
        Ok(vec![File::new(format!("{stem}.{extension}"), text)])
    }

    fn verify(&self) -> Vec<Diagnostic> {
        let mut problems = verify(&self.program, &self.arch);
        if let Some(wanted) = self.wanted.as_ref().filter(|_| !any_error(&problems)) {
            let limit = self.chosen.settings.work;
            match verify_kernels_within(&self.program, wanted, &self.arch, limit) {
                Ok(found) => problems.extend(found),
                Err(problem) => problems.push(problem),
            }
        }
        problems.into_iter().map(|problem| located(problem, &self.spans)).collect()
    }

    fn checks(&self) -> Vec<Check> {
        let instructions = self.program.instructions.len();
        let family = |holds, codes| Check::new(holds, codes, instructions, "instructions");
        let mut checks = vec![
            family("the machine has the macros", &[("Q5026", "Q5026")]),
            family(
                "registers exist and may be used so",
                &[("Q5020", "Q5022"), ("Q5025", "Q5025"), ("Q5027", "Q5027")],
            ),
            family("bus steps are possible", &[("Q5023", "Q5024"), ("Q5033", "Q5034")]),
            family("kernels begin and end", &[("Q5028", "Q5028")]),
            family(
                "what is used was written, outputs are written",
                &[("Q5031", "Q5031"), ("Q5036", "Q5036"), ("Q5110", "Q5110")],
            ),
            family(
                "FLAG masks nothing that others need",
                &[("Q5032", "Q5032"), ("Q5035", "Q5035")],
            ),
        ];
        if self.wanted.is_some() {
            let codes = &[("Q5042", "Q5043"), ("Q5048", "Q5048"), ("Q5052", "Q5052")];
            let (holds, outputs) = ("outputs hold the kernels of the file", self.outputs.len());
            checks.push(Check::new(holds, codes, outputs, "outputs").of_legal());
        }
        checks
    }

    fn load(&self, engine: Engine) -> Result<Box<dyn Machine>> {
        first_error(verify(&self.program, &self.arch)).map_err(|p| located(p, &self.spans))?;
        if let Some(wiring) = &self.wiring {
            return Ok(Box::new(self.network(wiring, engine)?));
        }
        let (width, height) = (self.chosen.width, self.chosen.height);
        let settings = self.chosen.settings.clone();
        let executor = Executor::new(&self.program, &self.arch, width, height, settings)?;
        Ok(Box::new(Exec {
            executor,
            interface: self.interface.clone(),
            chosen: self.chosen.clone(),
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            notes: Vec::new(),
        }))
    }

    fn time(&self) -> Result<Timeline> {
        Ok(time::timeline(&self.program, self.chosen.model, &self.arch))
    }

    fn stats(&self) -> Stats {
        let count = |is_wanted: fn(Class) -> bool| {
            let list = self.program.instructions.iter();
            list.filter(|inst| is_wanted(inst.class())).count().to_string()
        };
        let model = self.chosen.model;
        let total = time::total(&self.program, model, &self.arch);
        let mut figures = vec![
            (
                "macros",
                count(|class| matches!(class, Class::Macro | Class::Sensor | Class::LoadMacro)),
            ),
            ("bus steps", self.program.bus_steps().to_string()),
            ("digital", count(|class| matches!(class, Class::Digital(_) | Class::Pattern))),
            ("cost", format!("{total} {}", model.unit())),
        ];
        if let Some(frames) = time::frames_per_second(&self.program, model, &self.arch) {
            figures.push(("frames per second", frames.round().to_string()));
        }
        Stats {
            instructions: self.program.length(),
            bytes: print(&self.program, &Dialect::Cain).map_or(0, |text| text.len() as u64),
            cycles: model.cycles(total),
            interval: None,
            hertz: model.hertz(&self.arch).filter(|_| model.cycles(total).is_some()),
            figures,
        }
    }

    fn views(&self) -> &'static [View] {
        VIEWS
    }

    fn tables(&self, _view: &str) -> Result<Vec<Table>> {
        let columns = vec![Column::text("output"), Column::text("computes")];
        let mut table = Table::new("kernels", columns);
        match computed(&self.program, Level::Bus, &self.arch) {
            Ok(list) => {
                for computed in list {
                    let output = computed.output.to_string();
                    table.push(vec![output.into(), computed.describe().into()]);
                }
            }
            Err(problem) => table.push(vec!["?".into(), problem.message().into()]),
        }
        let mut tables = vec![table];
        if let Some(wanted) = &self.wanted {
            tables.push(crate::document::goals(wanted));
        }
        Ok(tables)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The problem with the place of its instruction in the text.
pub(crate) fn located(problem: Diagnostic, spans: &[Span]) -> Diagnostic {
    let span = match problem.place() {
        Some(&Place::Instruction(index)) => spans.get(index).copied(),
        _ => None,
    };
    match span {
        Some(span) => problem.label(span, ""),
        None => problem,
    }
}

/// The simulator behind the ports.
struct Exec {
    executor: Executor,
    interface: Interface,
    chosen: Chosen,
    inputs: Vec<Named>,
    outputs: Vec<Named>,
    notes: Vec<Diagnostic>,
}

impl Exec {
    /// The image of an input port.
    fn image(&self, port: &Port, tensor: &Tensor) -> Result<Vec<f64>> {
        let mut values = port.encode(tensor)?;
        if self.chosen.half {
            values.iter_mut().for_each(|value| *value /= 2.0);
        }
        if element_count(&port.shape) == Some(1) {
            // The global input is the same in every element.
            values = vec![values[0]; self.chosen.width * self.chosen.height];
        }
        Ok(values)
    }
}

/// What a run noticed besides numbers.
fn notes(outcome: &Outcome) -> Vec<Diagnostic> {
    let mut notes = Vec::new();
    if outcome.saturated > 0 {
        let text = format!("{} writes saturated", outcome.saturated);
        notes.push(Diagnostic::warning("Q5063", text));
    }
    if outcome.used_fractions {
        let text = "floats would have rounded; the run was computed in fractions";
        notes.push(Diagnostic::note("Q5064", text));
    }
    notes
}

impl Machine for Exec {
    fn run(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let mut images = Vec::new();
        for (port, &named) in self.interface.inputs.iter().zip(&self.inputs) {
            images.push((named, self.image(port, given(inputs, &port.name)?)?));
        }
        let outcome = self.executor.run(&images)?;
        self.notes = notes(&outcome);
        let mut outputs = Tensors::new();
        for (port, &named) in self.interface.outputs.iter().zip(&self.outputs) {
            let image = outcome
                .register(named)
                .ok_or_else(|| Diagnostic::bug(format!("no plane for {}", named.1)))?;
            let values = self.chosen.readout.apply(&image, named.0, self.chosen.width);
            outputs.insert(port.name.clone(), Tensor::from_vec(&port.shape, values)?);
        }
        Ok(outputs)
    }

    fn run_traced(&mut self, inputs: &Tensors) -> Result<Tensors> {
        self.run(inputs)
    }

    fn notes(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.notes)
    }
}

/// A part of the array.
#[derive(Clone, Copy)]
struct Region {
    row: usize,
    column: usize,
    height: usize,
    width: usize,
}

impl Region {
    /// The area as seen from the corner of the part.
    fn of(&self, mut area: Area) -> Area {
        area.rows.first -= self.row;
        area.columns.first -= self.column;
        area
    }
}

impl Artifact {
    fn network(&self, wiring: &Wiring, engine: Engine) -> Result<Network> {
        let region = match engine {
            Engine::Fast => self.region(wiring),
            Engine::Exec | Engine::Checked => self.array(),
        };
        let settings = self.chosen.settings.clone();
        let (width, height) = (region.width, region.height);
        Ok(Network {
            executor: Executor::new(&self.program, &self.arch, width, height, settings)?,
            wiring: wiring.clone(),
            region,
            half: self.chosen.half,
            outputs: self.interface.outputs.iter().map(|port| port.name.clone()).collect(),
            notes: Vec::new(),
        })
    }

    fn array(&self) -> Region {
        Region { row: 0, column: 0, height: self.chosen.height, width: self.chosen.width }
    }

    /// The part of the array in which numbers can differ from 0, and those that are read: the others
    /// need not be simulated. All of it where that is not known.
    fn region(&self, wiring: &Wiring) -> Region {
        let array = self.array();
        let settings = &self.chosen.settings;
        let areas = || wiring.inputs.iter().chain(&wiring.results).map(|lie| lie.area);
        if settings.noise.is_some() || settings.edge == Edge::Stale {
            return array;
        }
        let registers = wiring.inputs.iter().flat_map(|lie| &lie.planes);
        let registers: Vec<Reg> = registers.map(|plane| plane.register).collect();
        let known = self.inputs.iter().all(|(_, register)| registers.contains(register));
        let margin = margin(areas(), array.height, array.width);
        let reached = reaches(&self.program, Reaches::new(&registers, margin, false), &[]);
        let Some((_, most)) = reached.filter(|_| known) else { return array };
        let keep = |side: usize| usize::try_from((margin[side] - most[side]).max(0)).unwrap_or(0);
        let (row, column) = (keep(0), keep(3));
        let (height, width) = (array.height - row - keep(2), array.width - column - keep(1));
        Region { row, column, height, width }
    }
}

/// The simulator behind the values of a network.
struct Network {
    executor: Executor,
    wiring: Wiring,
    /// What is simulated.
    region: Region,
    half: bool,
    outputs: Vec<String>,
    notes: Vec<Diagnostic>,
}

impl Network {
    /// The images of the input registers.
    fn images(&self, inputs: &Tensors) -> Result<Vec<(Named, Vec<f64>)>> {
        let Region { height, width, .. } = self.region;
        let mut images = Vec::new();
        for lie in &self.wiring.inputs {
            let mut pixels = lie.port().encode(given(inputs, &lie.value)?)?.into_iter();
            let area = self.region.of(lie.area);
            for plane in &lie.planes {
                let mut image = vec![0.0; height * width];
                for (element, pixel) in area.elements(width).zip(&mut pixels) {
                    image[element] = if self.half { pixel / 2.0 } else { pixel };
                }
                images.push(((Space::Analogue, plane.register), image));
            }
        }
        Ok(images)
    }

    /// Every value that can be read.
    fn values(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let planes = || self.wiring.results.iter().flat_map(|lie| &lie.planes);
        let reads: Vec<_> = planes().map(|plane| (plane.after, plane.register)).collect();
        let (outcome, images) = self.executor.run_reading(&self.images(inputs)?, &reads)?;
        let (mut values, mut images) = (Tensors::new(), images.into_iter());
        for lie in &self.wiring.results {
            let (area, mut pixels) = (self.region.of(lie.area), Vec::new());
            for (plane, image) in lie.planes.iter().zip(&mut images) {
                let elements = area.elements(self.region.width);
                // Without a bias -0 stays what it is.
                pixels.extend(elements.map(|element| match plane.bias == 0.0 {
                    true => image[element],
                    false => image[element] + plane.bias,
                }));
            }
            values.insert(lie.value.clone(), Tensor::from_vec(&lie.shape(), pixels)?);
        }
        self.notes = notes(&outcome);
        Ok(values)
    }
}

impl Machine for Network {
    fn run(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let mut values = self.values(inputs)?;
        values.retain(|name, _| self.outputs.contains(name));
        Ok(values)
    }

    fn run_traced(&mut self, inputs: &Tensors) -> Result<Tensors> {
        self.values(inputs)
    }

    fn notes(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.notes)
    }
}
