//! Numbers in 1-bit registers, and what converters make of them, as values of a network.

use crate::arch::ScampArch;
use crate::files::{Bit, Channel, grid};
use crate::isa::Reg;
use crate::ports::{Area, Span, margin, misfit, parse_span};
use crate::program::{Named, Program, Space};
use crate::symbolic::edges::Walk;
use quincunx_contract::{Grid, Interface, LayerTap, Port, Rim};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::Rounding;

/// Most bits of a number.
const MAX_BITS: usize = 32;

/// What stands before an analogue register in the place of a tap.
const ANALOGUE: &str = "analogue:";

/// A channel in the place of a tap.
fn channel_text(channel: &Channel) -> String {
    let one = |bit: &Bit| match (bit.row, bit.column) {
        (0, 0) => bit.register.to_string(),
        (row, column) => format!("{}.{row}.{column}", bit.register),
    };
    match channel {
        Channel::Number(bits) => bits.iter().map(one).collect::<Vec<_>>().join("+"),
        Channel::Analogue(place) => format!("{ANALOGUE}{}", one(place)),
    }
}

fn parse_channel(text: &str) -> Option<Channel> {
    match text.strip_prefix(ANALOGUE) {
        Some(place) => parse_bit(place).map(Channel::Analogue),
        None => text.split('+').map(parse_bit).collect::<Option<_>>().map(Channel::Number),
    }
}

/// Where the numbers of a value `[1, C, H, W]` are: each in a block of elements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Numbers {
    /// Name of the value.
    pub(crate) value: String,
    /// Corners of the blocks.
    pub(crate) area: Area,
    /// The highest bit is the sign.
    pub(crate) signed: bool,
    /// The channels.
    pub(crate) channels: Vec<Channel>,
}

impl Numbers {
    /// Extents of the value.
    pub(crate) fn shape(&self) -> Vec<usize> {
        vec![1, self.channels.len(), self.area.rows.count, self.area.columns.count]
    }

    /// The value as a layer tap. Its place names the corners as those of analogue values, then
    /// `signed` or `unsigned`, then the bits of every channel: `R5+R6`, with row and column in the
    /// block where they are not both 0: `R5.0.1`. What is in an analogue register is `analogue:A.0.1`.
    pub(crate) fn tap(&self, after: usize) -> LayerTap {
        let span = |Span { first, step, count }: Span| format!("{first}/{step}x{count}");
        let numbers: Vec<String> = self.channels.iter().map(channel_text).collect();
        let sign = if self.signed { "signed" } else { "unsigned" };
        let (rows, columns) = (span(self.area.rows), span(self.area.columns));
        LayerTap {
            value: self.value.clone(),
            shape: self.shape(),
            after,
            place: format!("rows {rows} columns {columns} {sign} {}", numbers.join(" ")),
        }
    }

    /// The value as a port. Real numbers enter where converters make numbers of them.
    pub(crate) fn port(&self) -> Port {
        let bits = |channel: &Channel| match channel {
            Channel::Number(bits) => Some(bits.len()),
            Channel::Analogue(_) => None,
        };
        let grid = match self.channels.first().and_then(bits) {
            Some(bits) => Grid::Codes(grid(self.signed, bits, Rounding::HalfEven)),
            None => Grid::Real,
        };
        Port { name: self.value.clone(), shape: self.shape(), grid }
    }

    /// The tap read back; `None` when its place is none, or its shape another one.
    fn of(tap: &LayerTap) -> Option<Numbers> {
        let mut words = tap.place.split(' ');
        let mut next = |name: &str| {
            (words.next()? == name).then_some(())?;
            parse_span(words.next()?)
        };
        let area = Area { rows: next("rows")?, columns: next("columns")? };
        let signed = match words.next()? {
            "signed" => true,
            "unsigned" => false,
            _ => return None,
        };
        let channels = words.map(parse_channel).collect::<Option<_>>()?;
        let numbers = Numbers { value: tap.value.clone(), area, signed, channels };
        (numbers.shape() == tap.shape).then_some(numbers)
    }

    /// Its registers in their elements.
    pub(crate) fn places(&self) -> impl Iterator<Item = (Named, &Bit)> {
        self.channels.iter().flat_map(Channel::places)
    }

    /// True when all elements of its bits are on a machine with an array of so many rows and columns.
    fn fits(&self, arch: &ScampArch, height: usize, width: usize) -> bool {
        let within = |span: Span, inner: usize, size: usize| {
            inner < span.step
                && span.end().and_then(|end| end.checked_add(inner)).is_some_and(|end| end <= size)
        };
        let is_known = |(space, register): Named| match space {
            Space::Digital => arch.digital(register).is_some(),
            Space::Analogue => arch.is_general(register),
        };
        let place = |(register, bit): (Named, &Bit)| {
            is_known(register)
                && within(self.area.rows, bit.row, height)
                && within(self.area.columns, bit.column, width)
        };
        self.places().all(place)
            && self.channels.iter().all(|c| (1..=MAX_BITS).contains(&c.places().count()))
    }

    /// Width and height of a block.
    pub(crate) fn block(&self) -> (usize, usize) {
        (self.area.columns.step, self.area.rows.step)
    }

    /// Elements of a bit in an array with so many columns, in the order of pixels.
    fn elements(&self, bit: &Bit, width: usize) -> impl Iterator<Item = usize> {
        let offset = bit.row * width + bit.column;
        self.area.elements(width).map(move |element| element + offset)
    }

    /// Puts the pixels of a channel into the planes of its registers, which hold 0.
    pub(crate) fn write(
        &self,
        channel: usize,
        pixels: &[f64],
        width: usize,
        mut set: impl FnMut(Named, usize, f64),
    ) {
        let is_number = matches!(self.channels[channel], Channel::Number(_));
        for (position, (register, bit)) in self.channels[channel].places().enumerate() {
            for (element, &pixel) in self.elements(bit, width).zip(pixels) {
                match is_number {
                    false => set(register, element, pixel),
                    true if (pixel as i64) >> position & 1 == 1 => set(register, element, 1.0),
                    true => {}
                }
            }
        }
    }

    /// What a bit of so many counts: the highest of a number with a sign is negative.
    fn weight(&self, position: usize, bits: usize) -> i64 {
        let negative = self.signed && position + 1 == bits;
        if negative { -(1 << position) } else { 1 << position }
    }

    /// The channel of an element, and which of its pixels it is.
    fn channel_of(&self, element: usize) -> (usize, usize) {
        let size = (self.area.rows.count * self.area.columns.count).max(1);
        (element / size, element % size)
    }

    /// The registers of an element with their places in an array of so many columns.
    pub(crate) fn cells(
        &self,
        element: usize,
        width: usize,
    ) -> impl Iterator<Item = (Named, usize)> + '_ {
        let (channel, pixel) = self.channel_of(element);
        let places = self.channels.get(channel).into_iter().flat_map(Channel::places);
        let cell = move |(register, bit): (Named, &Bit)| {
            self.elements(bit, width).nth(pixel).map(|at| (register, at))
        };
        places.filter_map(cell)
    }

    /// The number of an element from what its registers hold.
    pub(crate) fn number(&self, element: usize, held: &[f64]) -> f64 {
        let number = self.channels.get(self.channel_of(element).0);
        let Some(Channel::Number(bits)) = number else {
            return held.first().copied().unwrap_or(0.0);
        };
        let weighed = held.iter().enumerate().filter(|(_, bit)| **bit != 0.0);
        weighed.map(|(position, _)| self.weight(position, bits.len())).sum::<i64>() as f64
    }

    /// Reads the pixels of a channel; `plane` gives what a register holds.
    pub(crate) fn read(
        &self,
        channel: usize,
        width: usize,
        plane: impl Fn(Named) -> Result<Vec<f64>>,
    ) -> Result<Vec<f64>> {
        let bits = match &self.channels[channel] {
            Channel::Number(bits) => bits,
            Channel::Analogue(place) => {
                let plane = plane((Space::Analogue, place.register))?;
                return Ok(self.elements(place, width).map(|element| plane[element]).collect());
            }
        };
        let mut codes = vec![0_i64; self.area.rows.count * self.area.columns.count];
        for (position, bit) in bits.iter().enumerate() {
            let plane = plane((Space::Digital, bit.register))?;
            let weight = self.weight(position, bits.len());
            for (code, element) in codes.iter_mut().zip(self.elements(bit, width)) {
                *code += if plane[element] == 0.0 { 0 } else { weight };
            }
        }
        Ok(codes.into_iter().map(|code| code as f64).collect())
    }
}

fn parse_bit(text: &str) -> Option<Bit> {
    let mut parts = text.split('.');
    let register = Reg::new(parts.next()?)?;
    let (row, column) = match (parts.next(), parts.next(), parts.next()) {
        (None, None, None) => (0, 0),
        (Some(row), Some(column), None) => (row.parse().ok()?, column.parse().ok()?),
        _ => return None,
    };
    Some(Bit { register, row, column })
}

/// Where the numbers of a compiled network are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wiring {
    /// Its input.
    pub(crate) input: Numbers,
    /// Results, which are read in the end.
    pub(crate) results: Vec<Numbers>,
}

impl Wiring {
    /// The wiring of an interface; `None` for one of analogue values.
    ///
    /// # Errors
    /// `Q5070` for places that the machine or the array does not have, and rims that are not those
    /// of the program.
    pub(crate) fn of(
        interface: &Interface,
        program: &Program,
        arch: &ScampArch,
        (height, width): (usize, usize),
    ) -> Result<Option<Wiring>> {
        let is_digital = |tap: &LayerTap| tap.place.contains("signed ");
        if !interface.layers.iter().any(is_digital) {
            return Ok(None);
        }
        let mut all = Vec::new();
        for tap in &interface.layers {
            let place = || format!("no place is {:?}", tap.place);
            let numbers = Numbers::of(tap).ok_or_else(|| misfit(place()))?;
            if !numbers.fits(arch, height, width) {
                return Err(misfit(format!("{:?} is not on the machine", tap.place)));
            }
            all.push(numbers);
        }
        let [port] = &interface.inputs[..] else {
            return Err(misfit("it has not one input".into()));
        };
        let input = all.iter().position(|numbers| numbers.value == port.name);
        let input = input.map(|at| all.remove(at)).filter(|numbers| numbers.shape() == port.shape);
        let input = input.ok_or_else(|| misfit("its input has no place".into()))?;
        let places = |output: &Port| {
            all.iter()
                .any(|numbers| numbers.value == output.name && numbers.shape() == output.shape)
        };
        if *port != input.port() || !interface.outputs.iter().all(places) {
            return Err(misfit("its ports have no places".into()));
        }
        let wiring = Wiring { input, results: all };
        match wiring.rims(program, arch, (height, width))? == interface.rims {
            true => Ok(Some(wiring)),
            false => Err(misfit("what the edge spoils is something else".into())),
        }
    }

    /// Results that the edge of the array spoils.
    ///
    /// # Errors
    /// `Q5070` for programs whose bits cannot be followed.
    pub(crate) fn rims(
        &self,
        program: &Program,
        arch: &ScampArch,
        (height, width): (usize, usize),
    ) -> Result<Vec<Rim>> {
        let Numbers { area: Area { rows, columns }, .. } = self.input;
        let block = self.input.block();
        let divides = [height, rows.first].iter().all(|rows| rows.is_multiple_of(block.1))
            && [width, columns.first].iter().all(|columns| columns.is_multiple_of(block.0));
        if !divides {
            return Err(misfit("blocks do not divide the array".into()));
        }
        let blocks = |span: Span| Span { first: span.first / span.step, step: 1, ..span };
        let area = Area { rows: blocks(rows), columns: blocks(columns) };
        let margin = margin([area].into_iter(), height / block.1, width / block.0);
        let inputs = self.input.places().map(|(register, _)| register);
        let walk = Walk::new(arch, block, margin, inputs).follow(program);
        let walk = walk.ok_or_else(|| misfit("its bits cannot be followed".into()))?;
        let rims = self.results.iter().map(|numbers| {
            let element = |bit: &Bit| bit.row * block.0 + bit.column;
            let places = numbers.places().map(|(register, bit)| (register, element(bit)));
            rim(numbers, walk.spoilt(places), (height, width))
        });
        rims.filter_map(Result::transpose).collect()
    }
}

/// The part of a result that is not spoilt, where so many blocks are along each edge.
fn rim(
    numbers: &Numbers,
    spoilt: [i64; 4],
    (height, width): (usize, usize),
) -> Result<Option<Rim>> {
    let inside = |span: Span, before: i64, after: i64, size: usize| {
        let right = |at: &usize| {
            let block = (span.first / span.step + at) as i64;
            block >= before && block < (size / span.step) as i64 - after
        };
        let from = (0..span.count).find(right)?;
        let to = (0..span.count).rfind(right).map_or(from, |last| last + 1);
        Some((from, to))
    };
    let Area { rows, columns } = numbers.area;
    let rows = inside(rows, spoilt[0], spoilt[2], height);
    let columns = inside(columns, spoilt[3], spoilt[1], width);
    let Some((rows, columns)) = rows.zip(columns) else {
        let message = format!("the edge of the array spoils all of \"{}\"", numbers.value);
        return Err(Diagnostic::unsupported("Q5125", message)
            .help("a smaller image, or a larger array (`--size`), has room for the kernel"));
    };
    let inside = vec![(0, 1), (0, numbers.channels.len()), rows, columns];
    let whole = numbers.shape().iter().zip(&inside).all(|(&extent, &range)| range == (0, extent));
    Ok((!whole).then(|| Rim { value: numbers.value.clone(), inside }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_back() {
        let span = |step| Span { first: 3, step, count: 4 };
        let bit = |name: &str, row, column| Bit { register: Reg::new(name).unwrap(), row, column };
        let numbers = Numbers {
            value: "v".into(),
            area: Area { rows: span(2), columns: span(4) },
            signed: true,
            channels: vec![
                Channel::Number(vec![bit("R5", 0, 0), bit("R5", 0, 1)]),
                Channel::Number(vec![bit("R[a]", 1, 0), bit("R6", 0, 0)]),
                Channel::Analogue(bit("B", 1, 3)),
            ],
        };
        let tap = numbers.tap(7);
        assert_eq!(
            tap.place,
            "rows 3/2x4 columns 3/4x4 signed R5+R5.0.1 R[a].1.0+R6 analogue:B.1.3"
        );
        assert_eq!(Numbers::of(&tap), Some(numbers.clone()));
        let mut arch = ScampArch::preset("scamp5").unwrap();
        arch.virtual_digital = true;
        assert!(numbers.fits(&arch, 11, 19) && !numbers.fits(&arch, 10, 19));
        assert!(!numbers.fits(&arch, 11, 18));
        arch.analogue.clear();
        assert!(!numbers.fits(&arch, 11, 19));
        for place in ["", "rows 3/2x4 columns 3/4x4 signed R5.0", "rows 3/2x4 columns 3/4x4 R5 R6"]
        {
            assert_eq!(Numbers::of(&LayerTap { place: place.into(), ..tap.clone() }), None);
        }
    }

    /// Numbers with a sign and without are what their bits say.
    #[test]
    fn numbers_are_written_and_read() {
        let span = Span { first: 0, step: 1, count: 2 };
        let registers = ["R5", "R6", "R7"].map(|name| Reg::new(name).unwrap());
        let bits = registers.map(|register| Bit { register, row: 0, column: 0 }).to_vec();
        for (signed, codes) in [(false, [0.0, 7.0, 5.0, 2.0]), (true, [0.0, -1.0, -3.0, 2.0])] {
            let area = Area { rows: span, columns: span };
            let channels = vec![Channel::Number(bits.clone())];
            let numbers = Numbers { value: "v".into(), area, signed, channels };
            let named = registers.map(|register| ((Space::Digital, register), vec![0.0; 4]));
            let mut planes = std::collections::BTreeMap::from(named);
            numbers.write(0, &codes, 2, |register, element, value| {
                planes.get_mut(&register).unwrap()[element] = value;
            });
            let read = numbers.read(0, 2, |register| Ok(planes[&register].clone())).unwrap();
            assert_eq!(read, codes);
        }
    }
}
