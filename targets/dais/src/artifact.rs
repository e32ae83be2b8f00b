//! A program as the toolchain sees it: with ports, layer taps, native files and simulators.

use crate::binary::{self, Dialect, ReadOptions};
use crate::files::{self, Pipeline};
use crate::isa::Inst;
use crate::program::{Program, Slot};
use crate::simulate::PipelineExecutor;
use crate::tap::Place;
use crate::text;
use crate::time;
use crate::verify::{Rules, verify_pipeline};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Kif};
use quincunx_target::{EmitKind, Engine, File, Interface, Machine, Port, Stats};
use quincunx_tensor::{Tensor, Tensors, element_count};
use quincunx_timeline::Timeline;
use std::any::Any;

/// Kinds of native files.
pub(crate) const KINDS: &[EmitKind] = &[
    EmitKind { name: "bin", doc: "machine code in the dialect of the architecture" },
    EmitKind { name: "json", doc: "JSON of dialect D1, as da4ml saves it" },
    EmitKind { name: "asm", doc: "assembly text" },
];

/// A program, or the stages of a pipeline, with its interface.
///
/// Invariant, checked when one is made: ports have as many elements as the program has inputs
/// and outputs, and taps read slots that exist.
pub struct Artifact {
    pipeline: Pipeline,
    dialect: Dialect,
    width_limit: u32,
    interface: Interface,
    taps: Vec<Vec<Place>>,
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
        let taps = interface
            .layers
            .iter()
            .map(|layer| Place::parse_list(&layer.place))
            .collect::<Result<_>>()?;
        let artifact = Artifact { pipeline, dialect, width_limit, interface, taps };
        artifact.check_interface()?;
        Ok(artifact)
    }

    /// The stages; one for a program that is no pipeline.
    pub fn stages(&self) -> &[Program] {
        &self.pipeline.stages
    }

    fn check_interface(&self) -> Result<()> {
        let misfit = |what: &str| {
            Err(Diagnostic::invalid(
                "Q1125",
                format!("the interface does not fit the program: {what}"),
            ))
        };
        let (inputs, outputs) = ends(&self.pipeline);
        if elements(&self.interface.inputs) != Some(inputs) {
            return misfit(&format!("the program has {inputs} inputs"));
        }
        if elements(&self.interface.outputs) != Some(outputs) {
            return misfit(&format!("the program has {outputs} outputs"));
        }
        for port in self.interface.inputs.iter().chain(&self.interface.outputs) {
            if let Some(quantiser) = &port.quantiser {
                quantiser.check()?;
                if !quantiser.fits(&port.shape) {
                    return misfit(&format!(
                        "the quantiser of \"{}\" does not fit its shape",
                        port.name
                    ));
                }
            }
        }
        // Taps of a pipeline would have to name a stage; no compiler makes them.
        let slots =
            if let [single] = &self.pipeline.stages[..] { single.operations.len() } else { 0 };
        for (layer, places) in self.interface.layers.iter().zip(&self.taps) {
            let exists = |place: &Place| match place {
                Place::Slot { slot, .. } => (slot.0 as usize) < slots,
                Place::Constant(_) => true,
            };
            if element_count(&layer.shape) != Some(places.len()) || !places.iter().all(exists) {
                return misfit(&format!("layer \"{}\" reads what is not there", layer.value));
            }
        }
        Ok(())
    }
}

/// Numbers of inputs of the first and outputs of the last stage.
fn ends(pipeline: &Pipeline) -> (usize, usize) {
    let inputs = pipeline.stages.first().map_or(0, |stage| stage.input_shifts.len());
    let outputs = pipeline.stages.last().map_or(0, |stage| stage.outputs.len());
    (inputs, outputs)
}

fn elements(ports: &[Port]) -> Option<usize> {
    ports.iter().try_fold(0_usize, |sum, port| sum.checked_add(element_count(&port.shape)?))
}

fn raw_interface(pipeline: &Pipeline) -> Interface {
    let (inputs, outputs) = ends(pipeline);
    let port =
        |name: &str, count| Port { name: name.to_owned(), shape: vec![count], quantiser: None };
    Interface {
        inputs: vec![port("in", inputs)],
        outputs: vec![port("out", outputs)],
        ..Interface::default()
    }
}

impl quincunx_target::Program for Artifact {
    fn interface(&self) -> &Interface {
        &self.interface
    }

    fn emit(&self, kind: &str, stem: &str) -> Result<Vec<File>> {
        let single = || match &self.pipeline.stages[..] {
            [single] => Ok(single),
            stages => Err(Diagnostic::unsupported(
                "Q1126",
                format!(
                    "{kind} files hold one program, this is a pipeline of {} stages",
                    stages.len()
                ),
            )
            .help("write it as json")),
        };
        let file = match kind {
            "bin" => {
                let extension = if self.dialect <= Dialect::D0Doc { "dais0" } else { "dais" };
                File::new(format!("{stem}.{extension}"), binary::write(single()?, self.dialect)?)
            }
            "json" => {
                let text = match &self.pipeline.stages[..] {
                    [single] => files::write_json(single)?,
                    _ => files::write_pipeline_json(&self.pipeline)?,
                };
                File::new(format!("{stem}.json"), text)
            }
            "asm" => File::new(format!("{stem}.dasm"), text::print(single()?)),
            _ => {
                let names = KINDS.iter().map(|k| k.name);
                return Err(Diagnostic::usage("Q1127", format!("dais writes no {kind} files"))
                    .help_if(quincunx_diag::did_you_mean(kind, names)));
            }
        };
        Ok(vec![file])
    }

    fn verify(&self) -> Vec<Diagnostic> {
        // Whether the dialect has an instruction matters to machine code only; writing it checks.
        verify_pipeline(&self.pipeline, &Rules { width_limit: self.width_limit, dialect: None })
    }

    fn load(&self, engine: Engine) -> Result<Box<dyn Machine>> {
        Ok(Box::new(Exec {
            executor: PipelineExecutor::new(&self.pipeline)?,
            checked: engine == Engine::Checked,
            interface: self.interface.clone(),
            taps: self.taps.clone(),
            types: self.pipeline.stages.first().map_or_else(Vec::new, |stage| {
                stage.operations.iter().map(|operation| operation.slot_type.kif()).collect()
            }),
        }))
    }

    fn time(&self) -> Result<Timeline> {
        Ok(time::stages(&self.pipeline.stages))
    }

    fn stats(&self) -> Stats {
        let operations = || self.pipeline.stages.iter().flat_map(|stage| &stage.operations);
        let count = |wanted: fn(&Inst) -> bool| {
            operations().filter(|o| wanted(&o.inst)).count().to_string()
        };
        let latency = self.pipeline.stages.iter().map(time::latency).fold(0.0, f64::max);
        let size = |stage| binary::write(stage, Dialect::D1).map_or(0, |bytes| bytes.len() as u64);
        Stats {
            instructions: operations().count() as u64,
            bytes: self.pipeline.stages.iter().map(size).sum(),
            // Combinational logic gives one result per clock; a pipeline one per stage of latency.
            cycles: Some(self.pipeline.stages.len() as u64),
            figures: vec![
                ("adders", count(|i| matches!(i, Inst::Add { .. } | Inst::Sub { .. }))),
                ("multipliers", count(|i| matches!(i, Inst::Multiply { .. }))),
                ("cost", operations().map(|o| o.cost).sum::<f64>().to_string()),
                ("latency", latency.to_string()),
            ],
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The readable executor behind the ports of an artifact.
struct Exec {
    executor: PipelineExecutor,
    /// A result that its type does not hold is a fault.
    checked: bool,
    interface: Interface,
    taps: Vec<Vec<Place>>,
    types: Vec<Kif>,
}

impl Exec {
    fn execute(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let mut numbers = Vec::new();
        for port in &self.interface.inputs {
            let tensor = inputs.get(&port.name).ok_or_else(|| {
                Diagnostic::invalid("Q1128", format!("input \"{}\" is not given", port.name))
                    .help_if(quincunx_diag::did_you_mean(
                        &port.name,
                        inputs.keys().map(String::as_str),
                    ))
            })?;
            numbers.extend(port.encode(tensor)?);
        }
        let results = match self.checked {
            true => self.executor.run_strict(&numbers)?,
            false => self.executor.run(&numbers)?,
        };
        let mut rest = &results[..];
        let mut outputs = Tensors::new();
        for port in &self.interface.outputs {
            let (own, others) = rest.split_at(element_count(&port.shape).unwrap_or(0));
            outputs.insert(port.name.clone(), Tensor::from_vec(&port.shape, own.to_vec())?);
            rest = others;
        }
        Ok(outputs)
    }

    /// The layers after a run, from the slots they lie in.
    fn layers(&self) -> Result<Tensors> {
        let slots = self.executor.stages().first().map_or(&[][..], |stage| stage.slots());
        let value = |slot: Slot| {
            let index = slot.0 as usize;
            Dyadic::new(slots[index].clone(), -self.types[index].fraction)
        };
        self.interface
            .layers
            .iter()
            .zip(&self.taps)
            .map(|(layer, places)| {
                let numbers: Vec<f64> =
                    places.iter().map(|place| place.read(value).to_f64()).collect();
                Ok((layer.value.clone(), Tensor::from_vec(&layer.shape, numbers)?))
            })
            .collect()
    }
}

impl Machine for Exec {
    fn run(&mut self, inputs: &Tensors) -> Result<Tensors> {
        self.execute(inputs)
    }

    fn run_traced(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let outputs = self.execute(inputs)?;
        let mut values = self.layers()?;
        // An output is also a layer; what counts is what leaves the program.
        values.extend(outputs);
        Ok(values)
    }
}

fn looks_like_json(text: &str) -> bool {
    text.trim_start().starts_with('[')
}

/// True when a file looks like one of this target's files.
pub(crate) fn recognises(file: &File) -> bool {
    match std::str::from_utf8(&file.bytes) {
        Ok(text) if looks_like_json(text) => files::read_json(text, true).is_ok(),
        Ok(text) if text::recognises(text) => true,
        _ => binary::recognises(&file.bytes),
    }
}

/// A program with the dialect it was found to be in, where its form tells, and warnings.
pub(crate) type ReadFile = (Pipeline, Option<Dialect>, Vec<Diagnostic>);

/// Reads JSON, assembly text or machine code, whichever the contents are.
pub(crate) fn read_file(
    file: &File,
    dialect: Option<Dialect>,
    lenient: bool,
) -> std::result::Result<ReadFile, Vec<Diagnostic>> {
    read_contents(file, dialect, lenient)
        .map_err(|problems| problems.into_iter().map(|p| p.name_file(&file.name)).collect())
}

fn read_contents(
    file: &File,
    dialect: Option<Dialect>,
    lenient: bool,
) -> std::result::Result<ReadFile, Vec<Diagnostic>> {
    match std::str::from_utf8(&file.bytes) {
        Ok(text) if looks_like_json(text) => {
            let read = files::read_json(text, lenient)?;
            Ok((read.pipeline, None, read.warnings))
        }
        Ok(text) if text::recognises(text) || file.extension() == "dasm" => {
            let (program, warnings) = text::read(text, &file.name)?;
            Ok((program.into(), None, warnings))
        }
        _ => {
            let read = binary::read(&file.bytes, &ReadOptions { dialect, lenient })?;
            Ok((read.program.into(), Some(read.dialect), read.warnings))
        }
    }
}
