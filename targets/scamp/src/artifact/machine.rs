//! The simulators behind the ports of a program: registers by name, or the values of a network.

use super::Artifact;
use crate::digital;
use crate::digital::machine::{Found, Simulator};
use crate::isa::{Inst, Reg};
use crate::options::Chosen;
use crate::ports::{Area, Lie, Wiring, margin};
use crate::program::{Named, Program};
use crate::simulate::{Cell, Edge, Executor, Fast, Inputs, Outcome, Write};
use crate::symbolic::{Reaches, needs, reaches};
use quincunx_contract::{Engine, Interface, Machine, Origin, Port};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::execute::given;
use quincunx_num::Level;
use quincunx_tensor::{Tensor, Tensors, element_count};
use std::borrow::Cow;

/// The simulator of a legal program.
///
/// # Errors
/// `Q5027`, `Q5060`, as [`Executor::new`].
pub(super) fn load(artifact: &Artifact, engine: Engine) -> Result<Box<dyn Machine>> {
    if let Some(wiring) = &artifact.digital {
        return Ok(Box::new(digital(artifact, wiring)?));
    }
    Ok(match &artifact.wiring {
        Some(wiring) => Box::new(Network::new(artifact, wiring, engine)?),
        None => Box::new(Registers::new(artifact, engine)?),
    })
}

/// The instruction that gave an element of a value its number.
///
/// # Errors
/// As a run.
pub(super) fn origin(
    artifact: &Artifact,
    inputs: &Tensors,
    value: &str,
    element: usize,
) -> Result<Option<Origin>> {
    if let Some(wiring) = &artifact.digital {
        let simulator = digital(artifact, wiring)?;
        let Some(found) = simulator.last_write(inputs, value, element)? else { return Ok(None) };
        let Found { write, place, number } = found;
        let (executor, program) = (simulator.executor(), &artifact.program);
        return Ok(Some(told(executor, program, write, (place, number.to_string()))));
    }
    match &artifact.wiring {
        Some(wiring) => {
            Network::new(artifact, wiring, Engine::Exec)?.origin(inputs, value, element)
        }
        None => Ok(None),
    }
}

/// An instruction with what it read.
fn told(executor: &Executor, program: &Program, write: Write, result: (String, String)) -> Origin {
    let Write { index, read, .. } = write;
    let held = |(cell, number): (Cell, f64)| (executor.cell_name(cell), number.to_string());
    Origin {
        place: format!("instruction {index}"),
        text: program.instructions.get(index).map_or_else(String::new, Inst::text),
        operands: read.into_iter().map(held).collect(),
        result,
    }
}

/// The simulator of numbers in 1-bit registers.
fn digital(artifact: &Artifact, wiring: &digital::ports::Wiring) -> Result<Simulator> {
    let Artifact { program, arch, chosen, .. } = artifact;
    let (height, width) = (chosen.height, chosen.width);
    let executor = Executor::new(program, arch, width, height, chosen.settings.clone())?;
    Ok(Simulator::new(executor, wiring.clone(), (height, width)))
}

/// The fast simulator, where it is wished and can run the program.
fn fast(executor: &Executor, reads: &[(usize, Named)], engine: Engine) -> Option<Fast> {
    match engine {
        Engine::Fast => Fast::new(executor, reads, Level::best()),
        Engine::Exec | Engine::Checked => None,
    }
}

/// An image of the last run.
fn image(fast: &Fast, read: usize) -> Vec<f64> {
    let mut image = Vec::new();
    fast.read(read, &mut image);
    image
}

/// The images as the executor takes them.
fn owned(images: &Inputs<'_>) -> Vec<(Named, Vec<f64>)> {
    images.iter().map(|(named, image)| (*named, image.to_vec())).collect()
}

/// All values times a power of two.
fn scaled(mut values: Cow<'_, [f64]>, times: f64) -> Cow<'_, [f64]> {
    if times != 1.0 {
        values.to_mut().iter_mut().for_each(|value| *value *= times);
    }
    values
}

/// What inputs are multiplied by.
fn range(chosen: &Chosen) -> f64 {
    if chosen.half { 0.5 } else { 1.0 }
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

/// Ports are registers.
struct Registers {
    executor: Executor,
    fast: Option<Fast>,
    interface: Interface,
    chosen: Chosen,
    inputs: Vec<Named>,
    outputs: Vec<Named>,
    notes: Vec<Diagnostic>,
}

impl Registers {
    fn new(artifact: &Artifact, engine: Engine) -> Result<Registers> {
        let Artifact { program, arch, chosen, interface, inputs, outputs, .. } = artifact;
        let settings = chosen.settings.clone();
        let executor = Executor::new(program, arch, chosen.width, chosen.height, settings)?;
        let last = program.instructions.len().saturating_sub(1);
        let reads: Vec<_> = outputs.iter().map(|&named| (last, named)).collect();
        Ok(Registers {
            fast: fast(&executor, &reads, engine),
            executor,
            interface: interface.clone(),
            chosen: chosen.clone(),
            inputs: inputs.clone(),
            outputs: outputs.clone(),
            notes: Vec::new(),
        })
    }

    /// The image of an input port.
    fn image<'t>(&self, port: &Port, tensor: &'t Tensor) -> Result<Cow<'t, [f64]>> {
        let values = scaled(port.finite(tensor)?, range(&self.chosen));
        Ok(match element_count(&port.shape) == Some(1) {
            // The global input is the same in every element.
            true => vec![values[0]; self.chosen.width * self.chosen.height].into(),
            false => values,
        })
    }

    /// The images of the output registers.
    fn results(&mut self, images: &Inputs<'_>) -> Result<Vec<Vec<f64>>> {
        self.notes.clear();
        if let Some(fast) = self.fast.as_mut()
            && fast.run(images)
        {
            return Ok((0..self.outputs.len()).map(|read| image(fast, read)).collect());
        }
        let outcome = self.executor.run(&owned(images))?;
        self.notes = notes(&outcome);
        let image = |&named: &Named| {
            let none = || Diagnostic::bug(format!("no plane for {}", named.1));
            outcome.register(named).ok_or_else(none)
        };
        self.outputs.iter().map(image).collect()
    }
}

impl Machine for Registers {
    fn run(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let mut images = Vec::new();
        for (port, &named) in self.interface.inputs.iter().zip(&self.inputs) {
            images.push((named, self.image(port, given(inputs, &port.name)?)?));
        }
        let results = self.results(&images)?;
        let mut outputs = Tensors::new();
        let ports = self.interface.outputs.iter().zip(&self.outputs);
        for ((port, named), image) in ports.zip(&results) {
            let values = self.chosen.readout.apply(image, named.0, self.chosen.width);
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
    fn array(artifact: &Artifact) -> Region {
        Region { row: 0, column: 0, height: artifact.chosen.height, width: artifact.chosen.width }
    }

    /// The part of the array in which numbers can differ from 0, and those that are read: the others
    /// need not be simulated. All of it where that is not known.
    fn used(artifact: &Artifact, wiring: &Wiring) -> Region {
        let array = Region::array(artifact);
        let settings = &artifact.chosen.settings;
        let areas = || wiring.inputs.iter().chain(&wiring.results).map(|lie| lie.area);
        if settings.noise.is_some() || settings.edge == Edge::Stale {
            return array;
        }
        let registers = wiring.inputs.iter().flat_map(|lie| &lie.planes);
        let registers: Vec<Reg> = registers.map(|plane| plane.register.1).collect();
        let known = artifact.inputs.iter().all(|(_, register)| registers.contains(register));
        let margin = margin(areas(), array.height, array.width);
        let state = Reaches::new(&registers, margin, false)
            .with_patterns([array.height, array.width], artifact.arch.roles.masked);
        let reached = reaches(&artifact.program, state, &[]);
        let Some((_, most)) = reached.filter(|_| known) else { return array };
        // Beyond that there are zeros, or what is never read.
        let planes = wiring.results.iter().flat_map(|lie| &lie.planes);
        let reads: Vec<_> = planes.map(|plane| (plane.after, plane.register)).collect();
        let seen = needs(&artifact.program, &reads).unwrap_or(most);
        let far = |side: usize| margin[side] - most[side].min(seen[side]);
        let keep = |side: usize| usize::try_from(far(side).max(0)).unwrap_or(0);
        let (row, column) = (keep(0), keep(3));
        let (height, width) = (array.height - row - keep(2), array.width - column - keep(1));
        Region { row, column, height, width }
    }

    /// The area as seen from the corner of the part.
    fn of(&self, mut area: Area) -> Area {
        area.rows.first -= self.row;
        area.columns.first -= self.column;
        area
    }

    fn is_all(&self, area: Area) -> bool {
        self.of(area) == Area::whole(self.height, self.width)
    }

    /// The numbers of an area, in the order of pixels.
    fn pixels<'i>(&self, area: Area, image: &'i [f64]) -> impl Iterator<Item = f64> + use<'i> {
        self.of(area).elements(self.width).map(|element| image[element])
    }

    /// An image of the part with pixels in an area, and zeros around them.
    fn image<'p>(&self, area: Area, pixels: &'p [f64]) -> Cow<'p, [f64]> {
        if self.is_all(area) {
            return pixels.into();
        }
        let mut image = vec![0.0; self.height * self.width];
        for (element, &pixel) in self.of(area).elements(self.width).zip(pixels) {
            image[element] = pixel;
        }
        image.into()
    }
}

/// Ports are values of a network.
struct Network {
    program: Program,
    executor: Executor,
    fast: Option<Fast>,
    wiring: Wiring,
    /// What is simulated.
    region: Region,
    /// Registers after instructions, in the order of the results.
    reads: Vec<(usize, Named)>,
    /// What inputs are multiplied by besides.
    range: f64,
    outputs: Vec<String>,
    notes: Vec<Diagnostic>,
}

impl Network {
    fn new(artifact: &Artifact, wiring: &Wiring, engine: Engine) -> Result<Network> {
        let Artifact { program, arch, chosen, interface, .. } = artifact;
        let region = match engine {
            Engine::Fast => Region::used(artifact, wiring),
            Engine::Exec | Engine::Checked => Region::array(artifact),
        };
        let settings = chosen.settings.clone();
        let executor = Executor::new(program, arch, region.width, region.height, settings)?;
        let executor = executor.within(region.row, chosen.width - region.width - region.column);
        let planes = wiring.results.iter().flat_map(|lie| &lie.planes);
        let reads: Vec<_> = planes.map(|plane| (plane.after, plane.register)).collect();
        Ok(Network {
            program: program.clone(),
            fast: fast(&executor, &reads, engine),
            executor,
            wiring: wiring.clone(),
            region,
            reads,
            range: range(chosen),
            outputs: interface.outputs.iter().map(|port| port.name.clone()).collect(),
            notes: Vec::new(),
        })
    }

    /// The pixels of every input.
    fn pixels<'t>(&self, inputs: &'t Tensors) -> Result<Vec<Cow<'t, [f64]>>> {
        let pixels = |lie: &Lie| {
            Ok(scaled(lie.port().finite(given(inputs, &lie.value)?)?, self.range * lie.times))
        };
        self.wiring.inputs.iter().map(pixels).collect()
    }

    /// The registers of all inputs with their images.
    fn images<'p>(&self, values: &'p [Cow<'_, [f64]>]) -> Vec<(Named, Cow<'p, [f64]>)> {
        let mut images = Vec::new();
        for (lie, pixels) in self.wiring.inputs.iter().zip(values) {
            let size = (pixels.len() / lie.planes.len()).max(1);
            for (plane, pixels) in lie.planes.iter().zip(pixels.chunks_exact(size)) {
                images.push((plane.register, self.region.image(lie.area, pixels)));
            }
        }
        images
    }

    /// Runs the program; the images that the executor read, none where the fast simulator ran.
    fn start(&mut self, inputs: &Tensors) -> Result<Option<Vec<Vec<f64>>>> {
        let values = self.pixels(inputs)?;
        let images = self.images(&values);
        self.notes.clear();
        if self.fast.as_mut().is_some_and(|fast| fast.run(&images)) {
            return Ok(None);
        }
        let (outcome, found) = self.executor.run_reading(&owned(&images), &self.reads)?;
        self.notes = notes(&outcome);
        Ok(Some(found))
    }

    /// The last instruction that writes an element of a value before it is read; `None` for inputs.
    ///
    /// # Errors
    /// As a run.
    fn origin(&self, inputs: &Tensors, value: &str, element: usize) -> Result<Option<Origin>> {
        let lie = self.wiring.results.iter().find(|lie| lie.value == value);
        let Some(lie) = lie else { return Ok(None) };
        let size = (lie.area.rows.count * lie.area.columns.count).max(1);
        let plane = lie.planes.get(element / size);
        let at = self.region.of(lie.area).elements(self.region.width).nth(element % size);
        let cell = plane.zip(at).and_then(|(p, at)| self.executor.cell(p.register, at));
        let (Some(plane), Some(cell)) = (plane, cell) else {
            return Err(Diagnostic::bug("an element of a layer is lost"));
        };
        let images = owned(&self.images(&self.pixels(inputs)?));
        let write = self.executor.last_write(&images, &[cell], plane.after)?;
        Ok(write.map(|write| {
            let held = write.held.first().map(f64::to_string).unwrap_or_default();
            told(&self.executor, &self.program, write, (self.executor.cell_name(cell), held))
        }))
    }

    /// Appends a channel of a result.
    fn read(&self, found: Option<&[Vec<f64>]>, read: usize, area: Area, pixels: &mut Vec<f64>) {
        match (found, &self.fast) {
            (None, Some(fast)) if self.region.is_all(area) => fast.read(read, pixels),
            (None, Some(fast)) => pixels.extend(self.region.pixels(area, &image(fast, read))),
            (found, _) => {
                let image = &found.unwrap_or_default()[read];
                pixels.extend(self.region.pixels(area, image));
            }
        }
    }

    /// The values that are wanted.
    fn values(&mut self, inputs: &Tensors, wanted: impl Fn(&str) -> bool) -> Result<Tensors> {
        let found = self.start(inputs)?;
        let mut lost = 0;
        let (mut values, mut reads) = (Tensors::new(), 0..);
        for lie in &self.wiring.results {
            let reads = reads.by_ref().take(lie.planes.len());
            if !wanted(&lie.value) {
                reads.for_each(drop);
                continue;
            }
            let shape = lie.shape();
            let mut pixels = Vec::with_capacity(element_count(&shape).unwrap_or(0));
            for (read, plane) in reads.zip(&lie.planes) {
                let start = pixels.len();
                self.read(found.as_deref(), read, lie.area, &mut pixels);
                let (space, columns) = (plane.register.0, lie.area.columns.count);
                lost += lie.readout.received(&mut pixels[start..], space, columns);
                if lie.times != 1.0 {
                    pixels[start..].iter_mut().for_each(|pixel| *pixel /= lie.times);
                }
                // Without a bias -0 stays what it is.
                if plane.bias != 0.0 {
                    pixels[start..].iter_mut().for_each(|pixel| *pixel += plane.bias);
                }
            }
            values.insert(lie.value.clone(), Tensor::from_vec(&shape, pixels)?);
        }
        if lost > 0 {
            let message = format!("{lost} events were lost, the buffer was full");
            let problem = Diagnostic::warning("Q5113", message);
            self.notes.push(problem.help("`--event-buffer` of `compile` says how many it holds"));
        }
        Ok(values)
    }
}

impl Machine for Network {
    fn run(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let outputs = self.outputs.clone();
        self.values(inputs, |name| outputs.iter().any(|output| output == name))
    }

    fn run_traced(&mut self, inputs: &Tensors) -> Result<Tensors> {
        self.values(inputs, |_| true)
    }

    fn notes(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.notes)
    }
}
