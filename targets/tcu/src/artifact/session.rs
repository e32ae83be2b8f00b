//! A program in the simulator, between its ports.

use crate::arch::TcuArch;
use crate::package::Package;
use crate::ports::{Piece, Ports, Tap, grid};
use crate::program::layers::{Layer, layers};
use crate::program::{Memory, Step};
use crate::simulate::{Driver, Executor, Fast, Flow, Notice, State};
use quincunx_contract::{Clipped, Machine};
use quincunx_diag::{Diagnostic, Place, Result};
use quincunx_graph::execute::given;
use quincunx_tensor::{Tensor, Tensors, element_count};

/// Most scalars of all ports together: raw memory may be as large as a DRAM bank.
const MAX_PORTS: usize = 1 << 25;

/// Numbers of a vector that are shown.
pub(super) const SHOWN: usize = 8;

/// What executes the instructions.
pub(crate) enum Simulator {
    /// One by one, with everything that can be observed.
    Exec(Box<Executor>),
    /// Prepared.
    Fast(Box<Fast>),
}

impl Simulator {
    fn read(&self, piece: &Piece, out: &mut [i32]) -> Result<()> {
        match self {
            Simulator::Exec(executor) => executor.state.read(piece.memory, piece.base, out),
            Simulator::Fast(fast) => fast.read(piece.memory, piece.base, out),
        }
    }

    fn saturations(&self) -> &[(usize, Flow)] {
        match self {
            Simulator::Exec(executor) => executor.saturations(),
            Simulator::Fast(fast) => fast.saturations(),
        }
    }

    fn notices(&self) -> &[Notice] {
        match self {
            Simulator::Exec(executor) => executor.notices(),
            // What would take notice of anything is not prepared.
            Simulator::Fast(_) => &[],
        }
    }
}

/// Runs a program as the host does.
pub(crate) struct Session {
    simulator: Simulator,
    package: Package,
    driver: Driver,
    ports: Ports,
    /// The probe of the last run did not come back.
    lost_probe: bool,
}

impl Session {
    pub(crate) fn new(
        simulator: Simulator,
        package: Package,
        driver: Driver,
        ports: Ports,
    ) -> Result<Session> {
        let shapes = ports.inputs().chain(ports.outputs()).map(|(port, _)| &port.shape);
        let counts = shapes.map(|shape| element_count(shape).unwrap_or(usize::MAX));
        if counts.fold(0, usize::saturating_add) > MAX_PORTS {
            let message = format!("the ports have more than {MAX_PORTS} scalars");
            return Err(Diagnostic::unsupported("Q3072", message)
                .help("give a .tmodel file, which says where inputs and outputs are"));
        }
        if driver.flush_probe {
            check_probe(&package, &ports)?;
        }
        Ok(Session { simulator, package, driver, ports, lost_probe: false })
    }

    fn images(&self, inputs: &Tensors) -> Result<Vec<(Piece, Vec<i32>)>> {
        let data_type = self.package.arch().data_type;
        let lanes = self.package.arch().lanes();
        let grid = grid(data_type);
        let mut images = Vec::new();
        for (port, lie) in self.ports.inputs() {
            let tensor = given(inputs, &port.name)?;
            // On the grid of the type scalars round as the port does.
            let scalars = match port.grid == grid {
                true => data_type.encode_all(&port.finite(tensor)?),
                false => data_type.encode_all(&port.encode(tensor)?),
            };
            let scalars = match (&lie.packing, &lie.table) {
                (Some(packing), _) => packing.vectors(&scalars, lanes),
                (None, Some(table)) => table.vectors_of(&scalars),
                (None, None) => scalars,
            };
            let mut rest = scalars;
            for &piece in &lie.pieces {
                let behind = rest.split_off(rest.len().min(piece.size as usize * lanes));
                images.push((piece, std::mem::replace(&mut rest, behind)));
            }
        }
        Ok(images)
    }

    fn outputs(&self) -> Result<Tensors> {
        let data_type = self.package.arch().data_type;
        let lanes = self.package.arch().lanes();
        let mut outputs = Tensors::new();
        for (port, lie) in self.ports.outputs() {
            let mut scalars = Vec::new();
            for piece in &lie.pieces {
                let start = scalars.len();
                scalars.resize(start + piece.size as usize * lanes, 0);
                self.simulator.read(piece, &mut scalars[start..])?;
            }
            let decode = |scalar| data_type.decode(scalar);
            let reals = match lie.table {
                Some(table) => table.elements_of(&scalars, decode),
                None => scalars.into_iter().map(decode).collect(),
            };
            outputs.insert(port.name.clone(), Tensor::from_vec(&port.shape, reals)?);
        }
        Ok(outputs)
    }

    /// Prepares everything as the host does, for `run` to execute the instructions that it wants.
    pub(super) fn observe<R>(
        &mut self,
        inputs: &Tensors,
        run: impl FnOnce(&mut Executor, &[Step]) -> Result<R>,
    ) -> Result<R> {
        let images = self.images(inputs)?;
        let Session { simulator, package, driver, .. } = self;
        let Simulator::Exec(executor) = simulator else {
            return Err(Diagnostic::bug("a prepared program has no single instructions"));
        };
        let load = |state: &mut State| {
            package.load(state)?;
            images.iter().try_for_each(|(at, image)| state.write(at.memory, at.base, image))
        };
        let mut seen = None;
        driver.run_with(executor, &package.program, load, |executor| {
            seen = Some(run(executor, &package.program.steps)?);
            Ok(())
        })?;
        seen.ok_or_else(|| Diagnostic::bug("the program was not run"))
    }

    /// The program and its machine.
    pub(super) fn package(&self) -> &Package {
        &self.package
    }

    /// Runs the program as the host does; `traced` takes the values of layers.
    fn execute(&mut self, inputs: &Tensors, traced: Option<&mut Tensors>) -> Result<()> {
        let images = self.images(inputs)?;
        let Session { simulator, package, driver, ports, .. } = self;
        let taps = if traced.is_some() { ports.taps() } else { &[] };
        let mut images = images.iter();
        let returned = match simulator {
            Simulator::Exec(executor) => {
                let load = |state: &mut State| {
                    package.load(state)?;
                    images.try_for_each(|(at, image)| state.write(at.memory, at.base, image))
                };
                let steps = &package.program.steps;
                driver.run_with(executor, &package.program, load, |executor| {
                    run_past(executor, steps, taps, traced)
                })?
            }
            Simulator::Fast(fast) => {
                let load = |fast: &mut Fast| {
                    images.try_for_each(|(at, image)| fast.write(at.memory, at.base, image))
                };
                let stops: Vec<usize> = taps.iter().map(|tap| tap.after).collect();
                let mut values = traced;
                fast.run_past(load, &stops, |number, fast| {
                    let (tap, arch) = (&taps[number], package.arch());
                    let value = read_tap(arch, tap, |m, at, out| fast.read(m, at, out))?;
                    if let Some(values) = &mut values {
                        values.insert(tap.value.clone(), value);
                    }
                    Ok(())
                })?
            }
        };
        self.lost_probe = !returned;
        Ok(())
    }
}

/// Executes instructions, and reads the values of layers where they are there.
fn run_past(
    executor: &mut Executor,
    steps: &[Step],
    taps: &[Tap],
    mut values: Option<&mut Tensors>,
) -> Result<()> {
    let mut done = 0;
    for tap in taps {
        executor.run(&steps[done..tap.after])?;
        done = tap.after;
        if let Some(values) = &mut values {
            let state = &executor.state;
            let value = read_tap(state.arch(), tap, |m, at, out| state.read(m, at, out))?;
            values.insert(tap.value.clone(), value);
        }
    }
    executor.run(&steps[done..])
}

/// The value of a layer.
fn read_tap(
    arch: &TcuArch,
    tap: &Tap,
    read: impl Fn(Memory, u64, &mut [i32]) -> Result<()>,
) -> Result<Tensor> {
    let lanes = arch.lanes();
    let (positions, blocks) = (tap.table.positions(), tap.columns.0.len());
    let mut vectors = vec![0; positions * blocks * lanes];
    for (block, column) in tap.columns.0.iter().enumerate() {
        for position in 0..positions {
            let to = &mut vectors[(position * blocks + block) * lanes..][..lanes];
            read(column.memory, column.base + position as u64 * column.step, to)?;
        }
    }
    Tensor::from_vec(
        &tap.shape,
        tap.table.elements_of(&vectors, |scalar| arch.data_type.decode(scalar)),
    )
}

/// The probe must not lie on inputs or outputs.
fn check_probe(package: &Package, ports: &Ports) -> Result<()> {
    let depth = package.arch().dram0_depth;
    let overlaps = |piece: &Piece| {
        piece.memory == crate::program::Memory::Dram0
            && piece.base + piece.size > depth - depth.min(2)
    };
    let hit =
        ports.inputs().chain(ports.outputs()).find(|(_, lie)| lie.pieces.iter().any(overlaps));
    match hit {
        Some((port, _)) => Err(Diagnostic::unsupported(
            "Q3065",
            format!(
                "{:?} uses the last two vectors of DRAM0, which the flush probe needs",
                port.name
            ),
        )
        .help("give --flush-probe=false")),
        None => Ok(()),
    }
}

impl Machine for Session {
    fn run(&mut self, inputs: &Tensors) -> Result<Tensors> {
        self.execute(inputs, None)?;
        self.outputs()
    }

    fn run_traced(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let mut values = Tensors::new();
        self.execute(inputs, Some(&mut values))?;
        values.extend(self.outputs()?);
        Ok(values)
    }

    fn clipped(&mut self) -> Vec<Clipped> {
        let layers = layers(&self.package.program, &self.ports.interface().sections);
        let data_type = self.package.arch().data_type;
        let mut flows = self.simulator.saturations().iter().peekable();
        let in_layer = |layer: &Layer| {
            let first = flows.peek().map(|&&(at, _)| at);
            let mut count = 0;
            while let Some((_, flow)) = flows.next_if(|&&(at, _)| at < layer.steps.end) {
                count += flow.over + flow.under;
            }
            (count > 0).then(|| Clipped {
                what: format!("results of {}", layer.name),
                count,
                of: None,
                range: data_type.range(),
                largest: None,
                first,
            })
        };
        layers.iter().filter_map(in_layer).collect()
    }

    fn notes(&mut self) -> Vec<Diagnostic> {
        let mut notes: Vec<Diagnostic> = self.simulator.notices().iter().map(describe).collect();
        if self.lost_probe {
            let message = "the flush probe did not come back: the program moved DRAM0";
            notes.push(Diagnostic::warning("Q3066", message));
        }
        notes
    }
}

fn describe(notice: &Notice) -> Diagnostic {
    match notice {
        Notice::Tracepoint { instruction, counter } => {
            let message = format!("tracepoint: the program counter is {counter}");
            Diagnostic::note("Q3068", message).at(Place::Instruction(*instruction))
        }
        Notice::Written { instruction, name, address, values } => {
            let shown: Vec<String> = values.iter().take(SHOWN).map(f64::to_string).collect();
            let dots = if values.len() > SHOWN { " …" } else { "" };
            let message = format!("{name}, vector {address}: {}{dots}", shown.join(" "));
            Diagnostic::note("Q3069", message).at(Place::Instruction(*instruction))
        }
    }
}
