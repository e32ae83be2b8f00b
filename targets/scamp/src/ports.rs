//! Ports: input and output registers, and where the values of a network lie.

#![deny(clippy::arithmetic_side_effects)]

mod rims;

pub(crate) use rims::{Array, lost, rims};

use crate::arch::ScampArch;
use crate::isa::Reg;
use crate::options::Chosen;
use crate::program::{Named, Program, Space};
use crate::readout::Readout;
use crate::simulate::Edge;
use quincunx_contract::{Grid, Interface, LayerTap, Port, Rim};
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::element_count;
use std::collections::BTreeSet;

/// Shape of a port that a register is.
pub(crate) fn input_shape((_, register): Named, chosen: &Chosen) -> Vec<usize> {
    match register {
        Reg::IN => vec![1],
        _ => vec![chosen.height, chosen.width],
    }
}

/// What stands before the names of 1-bit registers.
const BIT: &str = "bit:";

/// Ports named after registers; a 1-bit register whose name an analogue one has is `bit:NAME`.
pub(crate) fn ports(list: &[Named], shape: impl Fn(Named) -> Vec<usize>) -> Vec<Port> {
    let name = |&(space, register): &Named| match space == Space::Digital
        && list.contains(&(Space::Analogue, register))
    {
        true => format!("{BIT}{register}"),
        false => register.to_string(),
    };
    list.iter()
        .map(|named| Port { name: name(named), shape: shape(*named), grid: Grid::Real })
        .collect()
}

/// Rows or columns of an array: `count` of them, `step` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: usize,
    pub(crate) step: usize,
    pub(crate) count: usize,
}

impl Span {
    /// So many neighbours in the middle of `size`; `None` when there are more.
    pub(crate) fn centred(count: usize, size: usize) -> Option<Span> {
        let margin = size.checked_sub(count)?;
        Some(Span { first: margin / 2, step: 1, count })
    }

    /// Behind the last one; `None` beyond any array.
    pub(crate) fn end(&self) -> Option<usize> {
        let last = self.count.checked_sub(1)?.checked_mul(self.step)?.checked_add(self.first)?;
        last.checked_add(1)
    }

    fn positions(self) -> impl Iterator<Item = usize> + Clone {
        (self.first..).step_by(self.step).take(self.count)
    }
}

/// The elements in which the pixels of an image are; row 0 is northmost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) rows: Span,
    pub(crate) columns: Span,
}

impl Area {
    /// All elements of an array.
    pub(crate) fn whole(height: usize, width: usize) -> Area {
        let span = |count| Span { first: 0, step: 1, count };
        Area { rows: span(height), columns: span(width) }
    }

    /// True when an array of this size has all of its elements.
    pub(crate) fn fits(&self, height: usize, width: usize) -> bool {
        let within = |span: &Span, size| span.step > 0 && span.end().is_some_and(|end| end <= size);
        within(&self.rows, height) && within(&self.columns, width)
    }

    /// Its elements in the order of pixels, in an array that has so many columns.
    pub(crate) fn elements(self, width: usize) -> impl Iterator<Item = usize> {
        let rows = self.rows.positions();
        rows.flat_map(move |row| {
            self.columns.positions().map(move |column| row.wrapping_mul(width).wrapping_add(column))
        })
    }
}

/// Elements between images and the edges, in the order of directions.
pub(crate) fn margin(areas: impl Iterator<Item = Area>, height: usize, width: usize) -> [i64; 4] {
    let far = |span: Span, size: usize| size.saturating_sub(span.end().unwrap_or(size));
    let all = areas.map(|Area { rows, columns }| {
        [rows.first, far(columns, width), far(rows, height), columns.first]
    });
    let least = all.reduce(|a, b| std::array::from_fn(|side| a[side].min(b[side])));
    least.unwrap_or_default().map(|count| i64::try_from(count).unwrap_or(i64::MAX))
}

/// A channel of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plane {
    /// The register; a 1-bit one holds 0 and 1.
    pub(crate) register: Named,
    /// The instruction after which it is read; of no account for inputs.
    pub(crate) after: usize,
    /// What the driver adds to every pixel.
    pub(crate) bias: f64,
}

/// Where a value `[1, C, H, W]` lies: a register for each channel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lie {
    pub(crate) value: String,
    pub(crate) area: Area,
    /// Registers hold the value times this, a power of two.
    pub(crate) times: f64,
    /// How a result leaves the array; values that stay there are looked at as they are.
    pub(crate) readout: Readout,
    pub(crate) planes: Vec<Plane>,
}

impl Lie {
    /// Extents of the value.
    pub(crate) fn shape(&self) -> Vec<usize> {
        vec![1, self.planes.len(), self.area.rows.count, self.area.columns.count]
    }

    /// The value as a port.
    pub(crate) fn port(&self) -> Port {
        let is_plain = self.planes.iter().all(|plane| plane.bias == 0.0);
        let grid = match self.planes.first() {
            // A bias that the driver adds leaves the grid.
            Some(plane) if is_plain => self.readout.grid(plane.register.0, self.times),
            _ => Grid::Real,
        };
        Port { name: self.value.clone(), shape: self.shape(), grid }
    }

    /// The bytes in which a channel leaves an array of this size.
    pub(crate) fn bytes(&self, plane: &Plane, size: [usize; 2]) -> u64 {
        let pixels = self.area.rows.count.saturating_mul(self.area.columns.count);
        self.readout.bytes(plane.register.0, pixels, size)
    }

    /// Why the value cannot be read out in its form.
    pub(crate) fn unreadable(&self) -> Option<String> {
        let is_analogue = self.planes.iter().any(|plane| plane.register.0 == Space::Analogue);
        let Area { rows, columns } = self.area;
        let is_spread = [rows, columns].iter().any(|span| span.step != 1 && span.count > 1);
        match self.readout {
            Readout::OneBit | Readout::Events(_) if is_analogue => {
                Some("it is analogue, and a bit says only where it is above 0".to_owned())
            }
            Readout::Events(_) if is_spread => {
                Some("elements between its pixels would give events as well".to_owned())
            }
            _ => None,
        }
    }

    /// The value as a layer tap. Its place names first row, step and number of rows, the same of the
    /// columns, the factor of the array if it is not 1, how it is read out if not as it is, then register, instruction and bias of every
    /// channel: `rows 124/1x8 columns 124/1x8 times 128 A@12 B@20+0.5`. Before 1-bit registers stands
    /// `bit:`.
    pub(crate) fn tap(&self) -> LayerTap {
        let span = |Span { first, step, count }: Span| format!("{first}/{step}x{count}");
        let plane = |Plane { register: (space, register), after, bias }: &Plane| {
            let space = if *space == Space::Digital { BIT } else { "" };
            match *bias == 0.0 {
                true => format!(" {space}{register}@{after}"),
                false => format!(" {space}{register}@{after}{bias:+}"),
            }
        };
        let times = match self.times == 1.0 {
            true => String::new(),
            false => format!(" times {}", self.times),
        };
        let readout = match self.readout {
            Readout::Analogue => String::new(),
            other => format!(" read {other}"),
        };
        let planes: String = self.planes.iter().map(plane).collect();
        LayerTap {
            value: self.value.clone(),
            shape: self.shape(),
            after: self.planes.iter().map(|plane| plane.after).max().unwrap_or(0),
            place: format!(
                "rows {} columns {}{times}{readout}{planes}",
                span(self.area.rows),
                span(self.area.columns)
            ),
        }
    }

    /// The tap read back; `None` when its place is none, or its shape another one.
    fn of(tap: &LayerTap) -> Option<Lie> {
        let mut words = tap.place.split(' ').peekable();
        let mut next = |name: &str| {
            (words.next()? == name).then_some(())?;
            parse_span(words.next()?)
        };
        let area = Area { rows: next("rows")?, columns: next("columns")? };
        let mut times = 1.0;
        if words.next_if_eq(&"times").is_some() {
            times = words.next()?.parse::<f64>().ok().filter(|&times| is_power_of_two(times))?;
        }
        let mut readout = Readout::Analogue;
        if words.next_if_eq(&"read").is_some() {
            readout = words.next()?.parse().ok()?;
        }
        let planes = words.map(parse_plane).collect::<Option<_>>()?;
        let lie = Lie { value: tap.value.clone(), area, times, readout, planes };
        // Places name every channel, so that no shape is larger than its text.
        element_count(&tap.shape)?;
        (lie.shape() == tap.shape).then_some(lie)
    }
}

/// True for the powers that are normal numbers.
fn is_power_of_two(number: f64) -> bool {
    let fraction = number.to_bits() & ((1 << 52) - 1);
    number.is_normal() && number > 0.0 && fraction == 0
}

pub(crate) fn parse_span(text: &str) -> Option<Span> {
    let (first, rest) = text.split_once('/')?;
    let (step, count) = rest.split_once('x')?;
    Some(Span { first: first.parse().ok()?, step: step.parse().ok()?, count: count.parse().ok()? })
}

fn parse_plane(text: &str) -> Option<Plane> {
    let (register, rest) = text.split_once('@')?;
    let (after, bias) = rest.split_at(rest.find(['+', '-']).unwrap_or(rest.len()));
    let bias = if bias.is_empty() { 0.0 } else { bias.parse().ok()? };
    let register = match register.strip_prefix(BIT) {
        Some(name) => (Space::Digital, Reg::new(name)?),
        None => (Space::Analogue, Reg::new(register)?),
    };
    Some(Plane { register, after: after.parse().ok()?, bias })
        .filter(|plane| plane.bias.is_finite())
}

/// Where the values of a compiled network lie.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wiring {
    /// Its inputs, in the order of the ports.
    pub(crate) inputs: Vec<Lie>,
    /// Every value that can be read.
    pub(crate) results: Vec<Lie>,
}

impl Wiring {
    /// The wiring of a program whose interface names graph values.
    ///
    /// # Errors
    /// `Q5070` for places that the program or the array does not have, and for inputs that are not
    /// those of the program; `Q5055` for another read-out than it was compiled for.
    pub(crate) fn of(
        interface: &Interface,
        program: &Program,
        arch: &ScampArch,
        chosen: &Chosen,
    ) -> Result<Wiring> {
        let written = program.written(arch);
        let is_register = |named: Named| match named {
            (Space::Analogue, register) => arch.is_general(register),
            (Space::Digital, _) => written.contains(&named),
        };
        let is_known =
            |plane: &Plane| plane.after < program.instructions.len() && is_register(plane.register);
        let lies = interface.layers.iter().map(|tap| {
            let lie = Lie::of(tap).ok_or_else(|| misfit(format!("no place is {:?}", tap.place)))?;
            let known = lie.planes.iter().all(is_known);
            let is_output = interface.outputs.iter().any(|port| port.name == lie.value);
            let readout = if is_output { chosen.readout } else { Readout::Analogue };
            if let Some(why) = lie.unreadable() {
                return Err(misfit(format!("{:?} cannot be read out so: {why}", lie.value)));
            }
            if lie.readout != readout {
                return Err(other_readout(&lie, readout));
            }
            match known && lie.area.fits(chosen.height, chosen.width) {
                true => Ok(lie),
                false => Err(misfit(format!("{:?} is not in the array or the program", tap.place))),
            }
        });
        let lies = lies.collect::<Result<Vec<Lie>>>()?;
        if lies.is_empty() {
            return Err(misfit("its ports are not the registers".to_owned()));
        }
        let find = |port: &Port| {
            let lie = lies.iter().find(|lie| lie.port() == *port);
            lie.ok_or_else(|| misfit(format!("the port {:?} has no place", port.name)))
        };
        for port in &interface.outputs {
            find(port)?;
        }
        let inputs: Vec<Lie> =
            interface.inputs.iter().map(|port| find(port).cloned()).collect::<Result<_>>()?;
        check_inputs(&inputs, &program.input_registers(arch))?;
        let results = lies.iter().filter(|lie| !inputs.contains(lie)).cloned().collect();
        Ok(Wiring { inputs, results })
    }

    /// What the edge of the array spoils, which must be what the interface says; it may say so for
    /// either edge.
    ///
    /// # Errors
    /// `Q5070` when it says something else, `Q5044` when nothing of a value is right, `Q5045` for
    /// programs of which it is not known.
    pub(crate) fn rims(
        &self,
        stored: &[Rim],
        program: &Program,
        arch: &ScampArch,
        chosen: &Chosen,
    ) -> Result<Vec<Rim>> {
        let (height, width, masked) = (chosen.height, chosen.width, arch.roles.masked);
        let array = |edge| Array { height, width, edge, masked };
        let of = |edge| rims(program, &self.inputs, &self.results, array(edge));
        let found = of(chosen.settings.edge)?;
        if let Some((_, problem)) = lost(&found) {
            return Err(problem);
        }
        if stored != found && stored != of(Edge::Zero)? && stored != of(Edge::Stale)? {
            let array = format!("the edge of an array of {width} x {height} spoils other pixels");
            return Err(misfit(array));
        }
        Ok(found)
    }
}

/// The registers of images are the inputs of the program, each once.
fn check_inputs(lies: &[Lie], inputs: &[Named]) -> Result<()> {
    let mut given = BTreeSet::new();
    for plane in lies.iter().flat_map(|lie| &lie.planes) {
        let named = plane.register;
        if !inputs.contains(&named) || !given.insert(named) {
            return Err(misfit(format!("{} is not one input of the program", named.1)));
        }
    }
    match inputs.iter().find(|named| !given.contains(named)) {
        Some((_, register)) => Err(misfit(format!("no image is put into {register}"))),
        None => Ok(()),
    }
}

/// The problem of a value that leaves the array in another form than is wished.
fn other_readout(lie: &Lie, wished: Readout) -> Diagnostic {
    let Lie { value, readout, .. } = lie;
    let message = format!("option readout: \"{value}\" is read out as {readout}, not as {wished}");
    Diagnostic::invalid("Q5055", message).help("the read-out is chosen with `compile`")
}

pub(crate) fn misfit(what: String) -> Diagnostic {
    Diagnostic::invalid("Q5070", format!("the interface does not fit the program: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_back() {
        let span = |first, step, count| Span { first, step, count };
        let area = Area { rows: span(3, 2, 4), columns: span(0, 1, 5) };
        let register = |name: &str| (Space::Analogue, Reg::new(name).unwrap());
        let planes = vec![
            Plane { register: register("A"), after: 12, bias: 0.0 },
            Plane { register: register("B"), after: 3, bias: -1e-7 },
            Plane { register: register("C"), after: 3, bias: 1.0 / 3.0 },
            Plane { register: (Space::Digital, Reg::new("R5").unwrap()), after: 3, bias: 0.0 },
        ];
        for times in [1.0, 128.0, 2.0_f64.powi(-60), 2.0_f64.powi(60)] {
            for readout in [Readout::Analogue, Readout::EightBit, Readout::Events(20)] {
                let lie = Lie { value: "v".into(), area, times, readout, planes: planes.clone() };
                assert_eq!(Lie::of(&lie.tap()), Some(lie.clone()));
            }
        }
        let readout = Readout::Analogue;
        let lie = Lie { value: "v".into(), area, times: 1.0, readout, planes };
        assert_eq!(lie.tap().after, 12);
        assert!(area.fits(10, 5) && !area.fits(9, 5) && !area.fits(10, 4));
        let elements: Vec<usize> = area.elements(8).take(6).collect();
        assert_eq!(elements, [24, 25, 26, 27, 28, 40]);
        for place in
            ["", "rows 0/1x1", "rows 0/1x1 columns 0/1x1 A", "rows 0/1x1 columns 0/1x1 A@1+x"]
                .into_iter()
                .chain(["rows 0/1x1 columns 0/1x1 times 3 A@1", "rows 0/1x1 columns 0/1x1 times"])
        {
            let tap = LayerTap { place: place.into(), shape: vec![1, 1, 1, 1], ..lie.tap() };
            assert_eq!(Lie::of(&tap), None, "{place}");
        }
    }
}
