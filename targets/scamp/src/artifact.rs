//! A program as the toolchain sees it: ports, files, simulator, time.

mod layers;
mod machine;

use crate::arch::ScampArch;
use crate::digital::ports as digital;
use crate::files::KernelFile;
use crate::isa::{Class, Reg};
use crate::options::Chosen;
use crate::ports::{Plane, Wiring, input_shape, ports};
use crate::program::{Named, Program};
use crate::symbolic::{Level, computed};
use crate::text::{Dialect, Listing, print};
use crate::time::{self, Read};
use crate::verify::{verify, verify_kernels_within};
use crate::views::{film, page};
use quincunx_contract::{
    Check, Demand, EmitKind, Engine, File, Interface, LayerTap, Machine, MemoryUse, Options,
    Origin, Stats, Verb, View,
};
use quincunx_diag::{Diagnostic, Place, Result, Span, any_error, first_error};
use quincunx_report::{Column, Heading, Table};
use quincunx_tensor::Tensors;
use quincunx_timeline::Timeline;
use std::any::Any;
use std::collections::BTreeSet;

/// Kinds of native files.
pub(crate) const KINDS: &[EmitKind] = &[
    EmitKind { name: "asm", doc: "Cain's default format" },
    EmitKind { name: "jss", doc: "Cain's format for a JavaScript simulator" },
    EmitKind { name: "cpp", doc: "C++ header with a kernel function" },
    EmitKind { name: "bus", doc: "bus listing: every macro as its bus steps" },
    EmitKind { name: "csim", doc: "AUKE's CSIM text" },
    EmitKind { name: "steps", doc: "page with every register after each instruction" },
    EmitKind { name: "steps-gif", doc: "animated GIF with every register after each instruction" },
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
    /// The same of numbers in 1-bit registers.
    digital: Option<digital::Wiring>,
}

impl Artifact {
    /// A compiled program with its ports.
    ///
    /// # Errors
    /// As [`Artifact::new`], which is a bug of the compiler.
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
    /// `Q5070` when an interface is given that is not that of the program; `Q5044`, `Q5045` where the
    /// edge of the array leaves nothing right, or nobody knows what.
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
        let mut given = interface.filter(|given| *given != raw);
        let size = (chosen.height, chosen.width);
        let digital = given.as_ref().map(|g| digital::Wiring::of(g, &program, arch, size));
        let digital = digital.transpose()?.flatten();
        let mut wiring = None;
        if let Some(given) = given.as_mut().filter(|_| digital.is_none()) {
            let wires = Wiring::of(given, &program, arch, &chosen)?;
            given.rims = wires.rims(&given.rims, &program, arch, &chosen)?;
            wiring = Some(wires);
        }
        let (interface, arch) = (given.unwrap_or(raw), arch.clone());
        Ok(Artifact {
            program,
            spans,
            arch,
            chosen,
            wanted,
            interface,
            inputs,
            outputs,
            wiring,
            digital,
        })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// What the host reads of the results of a network, in the order of the program.
    fn reads(&self) -> Vec<Read> {
        let is_output = |value: &str| self.interface.outputs.iter().any(|port| port.name == value);
        let lies = self.wiring.iter().flat_map(|wiring| &wiring.results);
        let size = [self.chosen.height, self.chosen.width];
        let reads = lies.filter(|lie| is_output(&lie.value)).flat_map(|lie| {
            let read = |plane: &Plane| Read {
                after: plane.after,
                value: lie.value.clone(),
                bytes: lie.bytes(plane, size),
            };
            lie.planes.iter().map(read)
        });
        let mut reads: Vec<Read> = reads.collect();
        reads.sort_by_key(|read| read.after);
        reads
    }

    /// The first rule of the machine that the program breaks.
    fn expect_legal(&self) -> Result<()> {
        first_error(verify(&self.program, &self.arch)).map_err(|p| located(p, &self.spans))
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

/// What pages with all steps are called.
const STEPS: &str = "Registers step by step";

/// Views of a program.
static VIEWS: &[View] = &[
    View { name: "kernels", doc: "what outputs compute", verb: Verb::Inspect },
    View {
        name: "layers",
        doc: "what the layers of a network cost on the array, and what reading them out costs",
        verb: Verb::Inspect,
    },
];

impl quincunx_contract::Program for Artifact {
    fn interface(&self) -> &Interface {
        &self.interface
    }

    fn emit(&self, kind: &str, stem: &str) -> Result<Vec<File>> {
        match kind {
            "steps" => return self.emit_headed(kind, stem, &Heading::new(STEPS)),
            "steps-gif" => {
                self.expect_legal()?;
                let film = film(&self.program, &self.arch, &self.chosen.settings)?;
                return Ok(vec![File::new(format!("{stem}.gif"), film)]);
            }
            _ => {}
        }
        let (dialect, extension) = self.dialect(kind)?;
        let text = print(&self.program, &dialect)?;
        Ok(vec![File::new(format!("{stem}.{extension}"), text)])
    }

    fn emit_headed(&self, kind: &str, stem: &str, heading: &Heading) -> Result<Vec<File>> {
        if kind != "steps" {
            return self.emit(kind, stem);
        }
        self.expect_legal()?;
        let heading = heading.clone().titled(STEPS);
        let page = page(&self.program, &self.arch, &self.chosen.settings, &heading)?;
        Ok(vec![File::new(format!("{stem}.html"), page)])
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
        self.expect_legal()?;
        machine::load(self, engine)
    }

    fn origin(&self, inputs: &Tensors, tap: &LayerTap, element: usize) -> Result<Option<Origin>> {
        self.interface.layer(tap, element)?;
        self.expect_legal()?;
        machine::origin(self, inputs, &tap.value, element)
    }

    fn time(&self) -> Result<Timeline> {
        Ok(time::timeline(&self.program, &self.reads(), self.chosen.model, &self.arch))
    }

    fn demand(&self) -> Result<Demand> {
        let timeline = self.time()?;
        let total = timeline.total();
        // The array stands still while a result leaves it.
        let usage = timeline.usage().into_iter();
        let works = usage.filter(|usage| timeline.lanes()[usage.lane.index()] != time::READ_OUT);
        let busy = works.fold(0, |sum: u64, usage| sum.saturating_add(usage.busy));
        let instructions = self.program.instructions.iter();
        let used: BTreeSet<Reg> = instructions.flat_map(|inst| inst.registers()).collect();
        let registers = |name: &str, all: &[Reg]| MemoryUse {
            name: name.to_owned(),
            unit: "registers",
            used: all.iter().filter(|register| used.contains(register)).count() as u64,
            size: Some(all.len() as u64),
        };
        Ok(Demand {
            utilisation: (total > 0).then(|| busy as f64 / total as f64),
            memories: vec![
                registers("analogue", &self.arch.analogue),
                registers("digital", &self.arch.digital),
            ],
            ..Demand::of(&timeline)
        })
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
        let reads = self.reads();
        let bytes: u64 = reads.iter().map(|read| read.bytes).sum();
        if !reads.is_empty() {
            figures.push(("bytes read out", bytes.to_string()));
            if model.hertz(&self.arch).is_some() {
                let cost = model.read_out(bytes, &self.arch);
                figures.push(("read-out", format!("{cost} {}", model.unit())));
            }
        }
        let total = total.saturating_add(model.read_out(bytes, &self.arch));
        if let Some(frames) = time::frames_per_second(total, model, &self.arch) {
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

    fn tables(&self, view: &str) -> Result<Vec<Table>> {
        if view == "layers" {
            return Ok(self.wiring.iter().map(|_| layers::table(self, &self.reads())).collect());
        }
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
