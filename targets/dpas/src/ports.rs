//! Ports: the register file of a native listing, the variables of a kernel. Numbers cross them as
//! real numbers in the type of the port.

pub(crate) mod buffers;

use crate::arch::DpasArch;
use crate::isa::visa::Virtual;
use crate::precision::Precision;
use crate::program::{Element, FIRST_VARIABLE, Kernel, Program, Statement};
use crate::simulate::State;
use crate::simulate::exec::enabled;
use crate::simulate::lower::Memory;
use quincunx_contract::{Grid, Interface, Port, Sample};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::execute::given;
use quincunx_num::{Bf16, F16, FloatOverflow};
use quincunx_tensor::{Tensor, Tensors, element_count};

/// Where a port's numbers lie.
#[derive(Clone, Debug)]
struct Window {
    /// First byte in every thread.
    start: usize,
    /// Type.
    element: Element,
}

impl Window {
    /// The window of a variable with its number of elements. Numbers of 64 bits are not f64: they
    /// cross as pairs of dwords, the low one first.
    fn of(start: usize, element: Element, elements: u32) -> (Window, usize) {
        match element {
            Element::Uq | Element::Q => {
                (Window { start, element: Element::Ud }, 2 * elements as usize)
            }
            _ => (Window { start, element }, elements as usize),
        }
    }
}

/// Ports and their places.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    pub(crate) interface: Interface,
    inputs: Vec<Window>,
    outputs: Vec<Window>,
    /// First byte and name of every part of the memory, in order.
    parts: Vec<(usize, String)>,
    /// Bits of a dword that made-up data keeps and sets.
    pattern: (u32, u32),
}

/// A place in the memory of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Register or variable.
    pub(crate) name: String,
    /// Byte in it.
    pub(crate) byte: usize,
}

impl Ports {
    /// The ports of a program whose lanes are switched on by a mask.
    pub(crate) fn new(program: &Program, arch: &DpasArch, mask: u32) -> Result<Ports> {
        match program {
            Program::Native(listing) => {
                let products = listing.items.iter().filter_map(|item| match &item.statement {
                    Statement::Systolic(inst) => Some(inst.native()),
                    _ => None,
                });
                let fused = products.clone().any(|inst| inst.fused);
                let factors = products.flat_map(|inst| [inst.src1_type, inst.src2_type]);
                Ok(registers(arch, fused, pattern(factors)))
            }
            Program::Visa(kernel) => variables(kernel, arch, mask),
        }
    }

    /// Made-up words for an input: any for integers; for floats, numbers of similar size.
    pub(crate) fn sample(&self, input: usize) -> Sample {
        let (keep, set) = self.pattern;
        match self.inputs.get(input).map(|window| window.element) {
            None | Some(Element::F | Element::Hf | Element::Bf | Element::Df) => Sample::Fractions,
            Some(element) => {
                let mask = (1 << (8 * element.bytes().min(4))) - 1;
                Sample::Words { keep: u64::from(keep) & mask, set: u64::from(set) & mask }
            }
        }
    }

    /// The part of the memory that a byte lies in.
    pub(crate) fn place(&self, byte: usize) -> Place {
        let after = self.parts.partition_point(|(start, _)| *start <= byte);
        match after.checked_sub(1).and_then(|at| self.parts.get(at)) {
            Some((start, name)) => Place { name: name.clone(), byte: byte - start },
            None => Place { name: "memory".to_owned(), byte },
        }
    }

    /// Puts the inputs into a zeroed memory.
    ///
    /// # Errors
    /// `Q0310` for an input that is missing, `Q6092` for a number that the type does not have.
    pub(crate) fn load(&self, inputs: &Tensors, state: &mut State) -> Result<()> {
        state.threads.iter_mut().for_each(|bytes| bytes.fill(0));
        for (port, window) in self.interface.inputs.iter().zip(&self.inputs) {
            let numbers = port.encode(given(inputs, &port.name)?)?;
            let per_thread = numbers.len() / state.threads.len();
            let size = window.element.bytes() as usize;
            for (bytes, numbers) in state.threads.iter_mut().zip(numbers.chunks(per_thread.max(1)))
            {
                let places = bytes[window.start..].chunks_mut(size);
                for (place, &number) in places.zip(numbers) {
                    let code = encode(window.element, number).ok_or_else(|| {
                        let (name, kind) = (&port.name, window.element.name());
                        let message =
                            format!("input \"{name}\" holds {number}, which {kind} cannot hold");
                        Diagnostic::invalid("Q6092", message).help_if(whole(window.element))
                    })?;
                    place.copy_from_slice(&code.to_le_bytes()[..size]);
                }
            }
        }
        Ok(())
    }

    /// The outputs.
    ///
    /// # Errors
    /// An internal error when a port has another size than its memory.
    pub(crate) fn store(&self, state: &State) -> Result<Tensors> {
        let mut outputs = Tensors::new();
        for (port, window) in self.interface.outputs.iter().zip(&self.outputs) {
            let size = window.element.bytes() as usize;
            let count = element_count(&port.shape).unwrap_or(0) / state.threads.len();
            let numbers: Vec<f64> = state
                .threads
                .iter()
                .flat_map(|bytes| bytes[window.start..].chunks(size).take(count))
                .map(|place| decode(window.element, place))
                .collect();
            outputs.insert(port.name.clone(), Tensor::from_vec(&port.shape, numbers)?);
        }
        Ok(outputs)
    }
}

/// What an integer port takes, in words.
fn whole(element: Element) -> Option<String> {
    let bits = 8 * element.bytes();
    let range = format!("-2^{} to 2^{bits} - 1", bits - 1);
    let help = format!("its words hold packed elements: whole numbers from {range}");
    (!matches!(element, Element::F | Element::Df | Element::Hf | Element::Bf)).then_some(help)
}

/// Bits of a dword that made-up data keeps and sets, so that all float factors of a program are
/// numbers of similar size, whichever of them lies there.
fn pattern(factors: impl Iterator<Item = Precision>) -> (u32, u32) {
    factors.fold((u32::MAX, 0), |(keep, set), precision| match precision {
        // Every byte has an exponent near that of 1, as bf8 and as hf8.
        Precision::Bf8 | Precision::Hf8 => (keep & 0x8f8f_8f8f, 0x3030_3030),
        Precision::Hf => (keep & 0x8fff_8fff, set | 0x3000_3000),
        Precision::Bf | Precision::Tf32 | Precision::Df if set == 0 => (0x81ff_81ff, 0x3e00_3e00),
        _ => (keep, set),
    })
}

/// All registers as unsigned dwords; two threads when src2 is shared.
fn registers(arch: &DpasArch, fused: bool, pattern: (u32, u32)) -> Ports {
    let grf = arch.platform.grf_bytes() as usize;
    let mut shape = vec![arch.grfs as usize, grf / 4];
    if fused {
        shape.insert(0, 2);
    }
    let port = Port { name: "grf".to_owned(), shape, grid: Grid::Real };
    let window = Window { start: 0, element: Element::Ud };
    Ports {
        interface: Interface {
            inputs: vec![port.clone()],
            outputs: vec![port],
            ..Interface::default()
        },
        inputs: vec![window.clone()],
        outputs: vec![window],
        parts: (0..arch.grfs as usize).map(|index| (index * grf, format!("r{index}"))).collect(),
        pattern,
    }
}

/// Inputs are the variables that an instruction reads before one has written all of them, and those
/// of which lanes that are off keep elements; outputs are those that an instruction writes. Aliases
/// count as the variable whose bytes they share.
fn variables(kernel: &Kernel, arch: &DpasArch, mask: u32) -> Result<Ports> {
    let memory = Memory::new(kernel, arch.platform.grf_bytes())?;
    let count = kernel.variables.len();
    let (mut read, mut written) = (vec![false; count], vec![false; count]);
    let mut covered = vec![false; count];
    let fused = kernel.instructions.iter().any(|item| item.inst.parts().fused);
    for item in &kernel.instructions {
        let parts = item.inst.parts();
        let root = |variable: crate::isa::visa::Var| {
            let at = variable.index()?.checked_sub(FIRST_VARIABLE)?;
            memory.roots.get(at as usize).copied()
        };
        for source in [parts.src0.0, parts.src1.0, parts.src2.0] {
            if let Some(at) = root(source) {
                read[at] |= !covered[at];
            }
        }
        if let Some(at) = root(parts.dst.0) {
            written[at] = true;
            let all = all_lanes(&parts, mask);
            read[at] |= !all && !covered[at];
            covered[at] |= all && covers(kernel, &parts);
        }
    }
    let ports = |wanted: &[bool]| {
        let chosen = kernel.variables.iter().enumerate().filter(|(at, _)| wanted[*at]);
        let both = chosen.map(|(at, variable)| {
            let (window, elements) =
                Window::of(memory.offsets[at], variable.element, variable.elements);
            let shape = if fused { vec![2, elements] } else { vec![elements] };
            (Port { name: variable.name.clone(), shape, grid: Grid::Real }, window)
        });
        both.unzip::<_, _, Vec<_>, Vec<_>>()
    };
    let ((input_ports, inputs), (output_ports, outputs)) = (ports(&read), ports(&written));
    let is_root = |(_, variable): &(usize, &crate::program::Variable)| variable.alias.is_none();
    let named = kernel.variables.iter().enumerate().filter(is_root);
    Ok(Ports {
        interface: Interface { inputs: input_ports, outputs: output_ports, ..Interface::default() },
        inputs,
        outputs,
        parts: named.map(|(at, v)| (memory.offsets[at], v.name.clone())).collect(),
        pattern: pattern(kernel.instructions.iter().flat_map(|item| {
            let parts = item.inst.parts();
            [parts.w, parts.a]
        })),
    })
}

/// True if every lane of an instruction writes.
fn all_lanes(inst: &Virtual, mask: u32) -> bool {
    let lanes = u32::MAX >> 32u32.saturating_sub(inst.exec.lanes());
    enabled(mask, inst.exec.offset(), inst.exec.no_mask()) & lanes == lanes
}

/// True if dst is all of a variable.
fn covers(kernel: &Kernel, inst: &Virtual) -> bool {
    let variable = inst.dst.0.index().and_then(|index| kernel.variable(index));
    variable.is_some_and(|variable| {
        let size = u64::from(variable.element.bytes());
        let written = u64::from(inst.repeat * inst.exec.lanes()) * size;
        inst.dst.1 == 0 && variable.alias.is_none() && written >= variable.bytes()
    })
}

/// The code of a number: floats are rounded to nearest, integers must be whole and fit, signed or
/// not.
fn encode(element: Element, number: f64) -> Option<u64> {
    let bits = 8 * element.bytes();
    Some(match element {
        Element::F => (number as f32).to_bits().into(),
        Element::Df => number.to_bits(),
        Element::Hf => F16::from_f64(number, FloatOverflow::Infinity)?.to_bits().into(),
        Element::Bf => Bf16::from_f64(number, FloatOverflow::Infinity)?.to_bits().into(),
        _ => {
            // Powers of two, which f64 holds.
            let (low, high) = (-((1_u64 << (bits - 1)) as f64), 2.0 * (1_u64 << (bits - 1)) as f64);
            // Negative numbers are two's complement.
            let word = if number < 0.0 { number as i64 as u64 } else { number as u64 };
            let back = if number < 0.0 { word as i64 as f64 } else { word as f64 };
            let fits = number >= low && number < high && back == number;
            return fits.then_some(word);
        }
    })
}

fn decode(element: Element, bytes: &[u8]) -> f64 {
    let code = bytes.iter().rev().fold(0u64, |code, &byte| code << 8 | u64::from(byte));
    let shift = 64 - 8 * element.bytes();
    let signed = (code << shift) as i64 >> shift;
    match element {
        Element::F => f32::from_bits(code as u32).into(),
        Element::Df => f64::from_bits(code),
        Element::Hf => F16::from_bits(code as u32).to_f64(),
        Element::Bf => Bf16::from_bits(code as u32).to_f64(),
        Element::Ud | Element::Uw | Element::Ub | Element::Uq => code as f64,
        Element::D | Element::W | Element::B | Element::Q => signed as f64,
    }
}
