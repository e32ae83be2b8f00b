//! A program in the simulator, between its ports.

use crate::package::Package;
use crate::ports::{Piece, Ports};
use crate::simulate::{Driver, Executor, Notice};
use quincunx_diag::{Diagnostic, Place, Result, did_you_mean};
use quincunx_target::Machine;
use quincunx_tensor::{Tensor, Tensors, element_count};

/// Most scalars of all ports together: raw memory may be as large as a DRAM bank.
const MAX_PORTS: usize = 1 << 25;

/// Numbers of a vector that a notice shows.
const SHOWN: usize = 8;

/// Runs a program as the host does.
pub(crate) struct Session {
    executor: Executor,
    package: Package,
    driver: Driver,
    ports: Ports,
    /// The probe of the last run did not come back.
    lost_probe: bool,
}

impl Session {
    pub(crate) fn new(
        executor: Executor,
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
        Ok(Session { executor, package, driver, ports, lost_probe: false })
    }

    fn images(&self, inputs: &Tensors) -> Result<Vec<(Piece, Vec<i32>)>> {
        let data_type = self.package.arch().data_type;
        let lanes = self.package.arch().lanes();
        let mut images = Vec::new();
        for (port, pieces) in self.ports.inputs() {
            let tensor = inputs.get(&port.name).ok_or_else(|| {
                Diagnostic::invalid("Q3077", format!("input {:?} is not given", port.name))
                    .help_if(did_you_mean(&port.name, inputs.keys().map(String::as_str)))
            })?;
            let reals = port.encode(tensor)?;
            let mut scalars = reals.iter().map(|&real| data_type.encode_exact(real));
            for &piece in pieces {
                let count = piece.size as usize * lanes;
                images.push((piece, scalars.by_ref().take(count).collect()));
            }
        }
        Ok(images)
    }

    fn outputs(&self) -> Result<Tensors> {
        let data_type = self.package.arch().data_type;
        let lanes = self.package.arch().lanes();
        let mut outputs = Tensors::new();
        for (port, pieces) in self.ports.outputs() {
            let mut reals = Vec::new();
            for piece in pieces {
                let mut scalars = vec![0; piece.size as usize * lanes];
                self.executor.state.read(piece.memory, piece.base, &mut scalars)?;
                reals.extend(scalars.iter().map(|&scalar| data_type.decode(scalar)));
            }
            outputs.insert(port.name.clone(), Tensor::from_vec(&port.shape, reals)?);
        }
        Ok(outputs)
    }
}

/// The probe must not lie on inputs or outputs.
fn check_probe(package: &Package, ports: &Ports) -> Result<()> {
    let depth = package.arch().dram0_depth;
    let overlaps = |piece: &Piece| {
        piece.memory == crate::program::Memory::Dram0
            && piece.base + piece.size > depth - depth.min(2)
    };
    let hit = ports.inputs().chain(ports.outputs()).find(|(_, pieces)| pieces.iter().any(overlaps));
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
        let images = self.images(inputs)?;
        let Session { executor, package, driver, .. } = self;
        let returned = driver.run(executor, &package.program, |state| {
            package.load(state)?;
            let mut images = images.iter();
            images.try_for_each(|(piece, image)| state.write(piece.memory, piece.base, image))
        })?;
        self.lost_probe = !returned;
        self.outputs()
    }

    fn run_traced(&mut self, inputs: &Tensors) -> Result<Tensors> {
        // A program that was not compiled here has no layers.
        self.run(inputs)
    }

    fn notes(&mut self) -> Vec<Diagnostic> {
        let mut notes = Vec::new();
        for (name, flow, first) in self.executor.saturations() {
            let message = format!(
                "{name}: {} results too high, {} too low; they saturated",
                flow.over, flow.under
            );
            notes.push(
                Diagnostic::warning("Q3067", message)
                    .at(Place::Instruction(first))
                    .with_note("the first one is there"),
            );
        }
        notes.extend(self.executor.notices().iter().map(describe));
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
