//! A program as the toolchain sees it: with ports, native files, a simulator and its timing.

mod device;

pub use device::DeviceArtifact;

use crate::arch::DpasArch;
use crate::binary;
use crate::files::{cisa, zebin};
use crate::layout;
use crate::options::Settings;
use crate::ports::Ports;
use crate::program::device::Kernel;
use crate::program::{Item, Listing, Program, Statement};
use crate::simulate::lower::{Memory, listing_steps, visa_operation};
use crate::simulate::{Plan, Rules, State, Step, thread};
use crate::swsb;
use crate::text;
use crate::time;
use crate::verify::verify;
use quincunx_contract::{
    Check, EmitKind, Engine, File, Interface, LayerTap, Machine, Origin, Sample, Stats, Verb, View,
};
use quincunx_diag::{Diagnostic, Problems, Result, first_error};
use quincunx_report::Table;
use quincunx_tensor::Tensors;
use quincunx_timeline::Timeline;
use std::any::Any;

/// Kinds of native files.
pub(crate) const KINDS: &[EmitKind] = &[
    EmitKind { name: "bin", doc: "native machine code, or vISA byte code in its shell" },
    EmitKind { name: "asm", doc: "native assembly, or vISA text" },
    EmitKind { name: "launch", doc: "launches: a TOML file with kernels and data beside it" },
    EmitKind { name: "zebin", doc: "native kernels with their arguments, as drivers load them" },
    EmitKind { name: "stream", doc: "vISA byte code of the instructions alone" },
];

/// A program with its machine and settings.
pub struct Artifact {
    program: Program,
    arch: DpasArch,
    settings: Settings,
    ports: Ports,
}

impl Artifact {
    /// Puts ports on a program.
    ///
    /// # Errors
    /// `Q6091` when a given interface is not that of the program.
    pub(crate) fn new(
        program: Program,
        interface: Option<&Interface>,
        arch: DpasArch,
        settings: Settings,
    ) -> Result<Artifact> {
        let ports = Ports::new(&program, &arch, settings.dispatch_mask)?;
        if interface.is_some_and(|interface| *interface != ports.interface) {
            let message = "the interface does not fit the program, whose ports are its memory";
            return Err(Diagnostic::invalid("Q6091", message));
        }
        let artifact = Artifact { program, arch, settings, ports };
        artifact.check_layout()?;
        if settings.origin.is_some() {
            let message = "option origin is for launches of kernels, and this is a listing";
            let help = "write a launch file that names it (docs/machines/dpas-launch.md)";
            return Err(Diagnostic::usage("Q6003", message).help(help));
        }
        Ok(artifact)
    }

    /// The option layout names a product of the program.
    fn check_layout(&self) -> Result<()> {
        let Some(index) = self.settings.layout else { return Ok(()) };
        if let Some(Step::Multiply(_)) = self.known_steps().get(index) {
            return Ok(());
        }
        let message = format!("option layout is {index}, which is not a systolic instruction");
        let help = format!("the program has {} instructions, counted from 0", self.count());
        Err(Diagnostic::usage("Q6003", message).help(help))
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The steps of the program, and the bytes of a thread.
    fn steps(&self) -> Result<(Vec<Step>, usize)> {
        let stride = self.settings.allow.stride;
        match &self.program {
            Program::Native(listing) => {
                let steps = listing_steps(listing, &self.arch, stride)?;
                Ok((steps, self.arch.file_bytes() as usize))
            }
            Program::Visa(kernel) => {
                let memory = Memory::new(kernel, self.arch.platform.grf_bytes())?;
                let operation = |item: &crate::program::VirtualItem| {
                    let parts = item.inst.parts();
                    visa_operation(&parts, kernel, &memory, &self.arch, stride).map(Step::Multiply)
                };
                let steps = kernel.instructions.iter().map(operation).collect::<Result<_>>()?;
                Ok((steps, memory.bytes))
            }
        }
    }

    /// The steps that are understood; nothing for the others, which keep their places.
    fn known_steps(&self) -> Vec<Step> {
        let Program::Native(listing) = &self.program else {
            return self.steps().map(|(steps, _)| steps).unwrap_or_default();
        };
        let step = |item: &crate::program::Item| {
            let one = Listing { items: vec![item.clone()] };
            let steps = listing_steps(&one, &self.arch, self.settings.allow.stride);
            steps.ok().and_then(|steps| steps.first().copied()).unwrap_or(Step::Wait)
        };
        listing.items.iter().map(step).collect()
    }

    /// The text of an instruction; `names` are those of the kernel.
    fn text_of(&self, index: usize, names: &[String]) -> String {
        let mut text = String::new();
        match &self.program {
            Program::Native(listing) => {
                if let Some(item) = listing.items.get(index) {
                    text::native::print_statement(&item.statement, &mut text);
                }
            }
            Program::Visa(kernel) => {
                if let Some(item) = kernel.instructions.get(index) {
                    text = text::visa::instruction_text(&item.inst, names);
                }
            }
        }
        text
    }

    fn count(&self) -> usize {
        match &self.program {
            Program::Native(listing) => listing.items.len(),
            Program::Visa(kernel) => kernel.instructions.len(),
        }
    }

    /// The main binary form; `None` where an instruction has none.
    fn code(&self) -> Result<Vec<u8>> {
        match &self.program {
            Program::Native(listing) => binary::native::write(listing, self.arch.platform),
            Program::Visa(kernel) => cisa::write(kernel, self.settings.form),
        }
    }
}

/// The rules of so many instructions; dependencies belong to native ones.
fn native_checks(known: usize, native: bool, dependencies: bool) -> Vec<Check> {
    let family = |holds, codes| Check::new(holds, codes, known, "instructions");
    let mut checks = vec![
        family(
            "the platform has the shapes and precisions",
            &[("Q6040", "Q6050"), ("Q6061", "Q6065")],
        ),
        family("variables have fitting types", &[("Q6051", "Q6053"), ("Q6060", "Q6060")]),
        family("operands are aligned", &[("Q6054", "Q6057"), ("Q6065", "Q6065")]),
        family(
            "operands exist and share no bytes with a result",
            &[("Q6058", "Q6059"), ("Q6066", "Q6068")],
        ),
    ];
    if native {
        let codes = &[("Q6025", "Q6025"), ("Q6141", "Q6149")];
        checks.push(family("vector instructions and messages are legal", codes));
    }
    if native && dependencies {
        let codes = &[("Q6080", "Q6090")];
        checks.push(family("every instruction waits for what it needs", codes));
    }
    checks
}

/// Views of a program.
static VIEWS: &[View] =
    &[View { name: "operands", doc: "where operands lie", verb: Verb::Inspect }];

impl quincunx_contract::Program for Artifact {
    fn interface(&self) -> &Interface {
        &self.ports.interface
    }

    fn sample(&self, input: usize) -> Sample {
        self.ports.sample(input)
    }

    fn emit(&self, kind: &str, stem: &str) -> Result<Vec<File>> {
        let file = match (kind, &self.program) {
            ("bin", Program::Native(_)) => File::new(format!("{stem}.xebin"), self.code()?),
            ("bin", Program::Visa(_)) => File::new(format!("{stem}.visa"), self.code()?),
            ("asm", Program::Native(listing)) => {
                File::new(format!("{stem}.xeasm"), text::native::print(listing))
            }
            ("asm", Program::Visa(kernel)) => {
                File::new(format!("{stem}.visaasm"), text::visa::print(kernel))
            }
            ("stream", Program::Visa(kernel)) => {
                let form = self.settings.form;
                let bytes = binary::visa::write(&kernel.instructions, false, form)?;
                File::new(format!("{stem}.visab"), bytes)
            }
            ("zebin", Program::Native(listing)) => {
                let (grfs, simd) = (self.arch.grfs, self.arch.platform.lanes());
                let kernel = Kernel::of_listing(stem, listing.clone(), grfs, simd);
                File::new(format!("{stem}.zebin"), zebin::write(&[kernel], self.arch.platform)?)
            }
            ("launch" | "zebin", _) => {
                let message = format!("{kind} files hold native kernels with their arguments");
                let help =
                    "write a launch file that names the listing (docs/machines/dpas-launch.md)";
                return Err(Diagnostic::unsupported("Q6121", message).help(help));
            }
            ("stream", Program::Native(_)) => {
                let message = "a native listing has no byte code";
                return Err(Diagnostic::unsupported("Q6093", message).help("emit bin or asm"));
            }
            _ => return Err(Diagnostic::bug(format!("no {kind} files are declared"))),
        };
        Ok(vec![file])
    }

    fn verify(&self) -> Vec<Diagnostic> {
        let mut found = Problems::default();
        found.extend(verify(&self.program, &self.arch, &self.settings.allow));
        if let (Program::Native(listing), true) = (&self.program, self.settings.check_dependencies)
        {
            found.extend(swsb::check(listing, &self.arch, self.settings.allow.stride));
        }
        found.finish()
    }

    fn checks(&self) -> Vec<Check> {
        let known = match &self.program {
            // What raw machine code does is not known.
            Program::Native(listing) => {
                let known = |item: &&Item| !matches!(item.statement, Statement::Raw(_));
                listing.items.iter().filter(known).count()
            }
            Program::Visa(kernel) => kernel.instructions.len(),
        };
        native_checks(
            known,
            matches!(self.program, Program::Native(_)),
            self.settings.check_dependencies,
        )
    }

    fn load(&self, engine: Engine) -> Result<Box<dyn Machine>> {
        // Dependencies do not matter here: instructions are in order. Types whose sums can leave
        // them do not exist (integers wrap by definition), so that the checked engine is the same.
        let found = verify(&self.program, &self.arch, &self.settings.allow);
        first_error(found)?;
        let (steps, bytes) = self.steps()?;
        let threads = if steps.iter().any(Step::is_fused) { 2 } else { 1 };
        let program = match &self.program {
            Program::Native(listing) => {
                Some(thread::Program::new(listing, &self.arch, self.settings.allow.stride)?)
            }
            Program::Visa(_) => None,
        };
        let is_systolic = !steps.iter().any(|step| matches!(step, Step::Vector(_)));
        let plan = (engine == Engine::Fast && is_systolic)
            .then(|| Plan::new(&steps, bytes, self.settings.rules));
        Ok(Box::new(Exec {
            steps,
            program,
            plan,
            arch: self.arch.clone(),
            state: State {
                dispatch_mask: self.settings.dispatch_mask,
                ..State::new(threads, bytes)
            },
            rules: self.settings.rules,
            ports: self.ports.clone(),
            told: false,
        }))
    }

    fn origin(&self, _: &Tensors, _: &LayerTap, _: usize) -> Result<Option<Origin>> {
        Err(Origin::not_followed("a listing has no layers, only registers"))
    }

    fn time(&self) -> Result<Timeline> {
        let found = verify(&self.program, &self.arch, &self.settings.allow);
        first_error(found)?;
        let (steps, bytes) = self.steps()?;
        let waits = |index: usize| match &self.program {
            Program::Native(listing) if self.settings.check_dependencies => {
                listing.items.get(index).map_or(time::Wait::default(), |i| {
                    time::Wait::of(&i.statement, self.arch.platform)
                })
            }
            _ => time::Wait::default(),
        };
        let names = match &self.program {
            Program::Visa(kernel) => text::visa::names(kernel),
            Program::Native(_) => Vec::new(),
        };
        let text = |index: usize| self.text_of(index, &names);
        Ok(time::timeline(&steps, bytes, &self.arch, &text, &waits))
    }

    fn stats(&self) -> Stats {
        let steps = self.known_steps();
        let products = steps.iter().filter_map(|step| match step {
            Step::Multiply(operation) => Some(operation.shape),
            _ => None,
        });
        let (mut count, mut macs) = (0u64, 0u64);
        for shape in products {
            count += 1;
            macs += u64::from(shape.repeat * shape.lanes * shape.k());
        }
        Stats {
            instructions: self.count() as u64,
            bytes: self.code().map_or(0, |bytes| bytes.len() as u64),
            cycles: self.time().ok().map(|timeline| timeline.total()),
            interval: None,
            hertz: Some(self.arch.clock_ghz * 1e9),
            figures: vec![
                ("platform", self.arch.platform.name().to_owned()),
                ("systolic instructions", count.to_string()),
                ("multiply-accumulates", macs.to_string()),
            ],
        }
    }

    fn views(&self) -> &'static [View] {
        VIEWS
    }

    fn tables(&self, _view: &str) -> Result<Vec<Table>> {
        let steps = self.known_steps();
        let place = |byte: usize| self.ports.place(byte);
        let mut tables = vec![layout::operands(&steps, &place)];
        let chosen = self.settings.layout.and_then(|index| steps.get(index));
        if let Some(Step::Multiply(operation)) = chosen {
            tables.push(layout::elements(operation, &place));
        }
        Ok(tables)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The executor, or a prepared plan, behind the ports.
struct Exec {
    steps: Vec<Step>,
    /// A native program, which may branch.
    program: Option<thread::Program>,
    plan: Option<Plan>,
    arch: DpasArch,
    state: State,
    rules: Rules,
    ports: Ports,
    told: bool,
}

impl Machine for Exec {
    fn run(&mut self, inputs: &Tensors) -> Result<Tensors> {
        self.ports.load(inputs, &mut self.state)?;
        match (&mut self.plan, &self.program) {
            (Some(plan), _) => plan.run(&mut self.state)?,
            (None, Some(program)) => {
                thread::run_state(program, &mut self.state, &self.arch, self.rules)?;
            }
            (None, None) => {
                self.steps.iter().try_for_each(|step| step.run(&mut self.state, self.rules))?;
            }
        }
        self.ports.store(&self.state)
    }

    fn run_traced(&mut self, inputs: &Tensors) -> Result<Tensors> {
        self.run(inputs)
    }

    fn notes(&mut self) -> Vec<Diagnostic> {
        let is_float = |step: &Step| match step {
            Step::Multiply(operation) => !operation.shape.weights.is_integer(),
            _ => false,
        };
        if std::mem::replace(&mut self.told, true) || !self.steps.iter().any(is_float) {
            return Vec::new();
        }
        vec![float_note(self.rules)]
    }
}

/// How float sums are computed.
fn float_note(rules: Rules) -> Diagnostic {
    let Rules { model, ftz } = rules;
    let ftz = if ftz { ", subnormal sums are flushed to zero" } else { "" };
    let message = format!("float sums follow the model {}{ftz}", model.name());
    Diagnostic::note("Q6095", message)
}
