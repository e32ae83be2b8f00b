//! Numbers in 1-bit registers as values of a network.

use super::reach::Walk;
use crate::arch::ScampArch;
use crate::files::{Bit, grid};
use crate::isa::Reg;
use crate::ports::{Area, Span, margin, misfit, parse_span};
use crate::program::Program;
use quincunx_contract::{Grid, Interface, LayerTap, Port, Rim};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::Rounding;
use std::collections::BTreeSet;

/// Most bits of a number.
const MAX_BITS: usize = 32;

/// Where the numbers of a value `[1, C, H, W]` are: each in a block of elements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Numbers {
    /// Name of the value.
    pub(crate) value: String,
    /// Corners of the blocks.
    pub(crate) area: Area,
    /// The highest bit is the sign.
    pub(crate) signed: bool,
    /// The bits of every channel, least significant first.
    pub(crate) channels: Vec<Vec<Bit>>,
}

impl Numbers {
    /// Extents of the value.
    pub(crate) fn shape(&self) -> Vec<usize> {
        vec![1, self.channels.len(), self.area.rows.count, self.area.columns.count]
    }

    /// The value as a layer tap. Its place names the corners as those of analogue values, then
    /// `signed` or `unsigned`, then the bits of every channel: `R5+R6`, with row and column in the
    /// block where they are not both 0: `R5.0.1`.
    pub(crate) fn tap(&self, after: usize) -> LayerTap {
        let span = |Span { first, step, count }: Span| format!("{first}/{step}x{count}");
        let bit = |bit: &Bit| match (bit.row, bit.column) {
            (0, 0) => bit.register.to_string(),
            (row, column) => format!("{}.{row}.{column}", bit.register),
        };
        let number = |bits: &Vec<Bit>| bits.iter().map(bit).collect::<Vec<_>>().join("+");
        let numbers: Vec<String> = self.channels.iter().map(number).collect();
        let sign = if self.signed { "signed" } else { "unsigned" };
        let (rows, columns) = (span(self.area.rows), span(self.area.columns));
        LayerTap {
            value: self.value.clone(),
            shape: self.shape(),
            after,
            place: format!("rows {rows} columns {columns} {sign} {}", numbers.join(" ")),
        }
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
        let channels = words.map(parse_number).collect::<Option<_>>()?;
        let numbers = Numbers { value: tap.value.clone(), area, signed, channels };
        (numbers.shape() == tap.shape).then_some(numbers)
    }

    /// The registers of its bits.
    pub(crate) fn registers(&self) -> impl Iterator<Item = Reg> {
        self.channels.iter().flatten().map(|bit| bit.register)
    }

    /// True when all elements of its bits are in an array.
    fn fits(&self, height: usize, width: usize) -> bool {
        let within = |span: Span, inner: usize, size: usize| {
            inner < span.step
                && span.end().and_then(|end| end.checked_add(inner)).is_some_and(|end| end <= size)
        };
        let bit = |bit: &Bit| {
            within(self.area.rows, bit.row, height) && within(self.area.columns, bit.column, width)
        };
        self.channels.iter().flatten().all(bit)
            && self.channels.iter().all(|bits| (1..=MAX_BITS).contains(&bits.len()))
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

    /// Puts numbers of a channel into the planes of its registers.
    pub(crate) fn write(
        &self,
        channel: usize,
        codes: &[f64],
        width: usize,
        mut set: impl FnMut(Reg, usize),
    ) {
        for (position, bit) in self.channels[channel].iter().enumerate() {
            for (element, code) in self.elements(bit, width).zip(codes) {
                if (*code as i64) >> position & 1 == 1 {
                    set(bit.register, element);
                }
            }
        }
    }

    /// Reads the numbers of a channel; `plane` gives the bits of a register.
    pub(crate) fn read(
        &self,
        channel: usize,
        width: usize,
        plane: impl Fn(Reg) -> Result<Vec<f64>>,
    ) -> Result<Vec<f64>> {
        let bits = &self.channels[channel];
        let mut codes = vec![0_i64; self.area.rows.count * self.area.columns.count];
        for (position, bit) in bits.iter().enumerate() {
            let plane = plane(bit.register)?;
            // The highest bit of a number with a sign counts negative.
            let negative = self.signed && position + 1 == bits.len();
            let weight = if negative { -(1 << position) } else { 1 << position };
            for (code, element) in codes.iter_mut().zip(self.elements(bit, width)) {
                *code += if plane[element] == 0.0 { 0 } else { weight };
            }
        }
        Ok(codes.into_iter().map(|code| code as f64).collect())
    }
}

fn parse_number(text: &str) -> Option<Vec<Bit>> {
    let bit = |text: &str| {
        let mut parts = text.split('.');
        let register = Reg::new(parts.next()?)?;
        let (row, column) = match (parts.next(), parts.next(), parts.next()) {
            (None, None, None) => (0, 0),
            (Some(row), Some(column), None) => (row.parse().ok()?, column.parse().ok()?),
            _ => return None,
        };
        Some(Bit { register, row, column })
    };
    text.split('+').map(bit).collect()
}

/// Where the numbers of a compiled network are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wiring {
    /// Its input, whose port has a grid.
    pub(crate) input: (Port, Numbers),
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
            let known = numbers.registers().all(|register| arch.digital(register).is_some());
            if !known || !numbers.fits(height, width) {
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
        let expected = Grid::Codes(grid(
            input.signed,
            input.channels.first().map_or(1, Vec::len),
            Rounding::HalfEven,
        ));
        let places = |output: &Port| {
            all.iter()
                .any(|numbers| numbers.value == output.name && numbers.shape() == output.shape)
        };
        if port.grid != expected || !interface.outputs.iter().all(places) {
            return Err(misfit("its ports have no places".into()));
        }
        let wiring = Wiring { input: (port.clone(), input), results: all };
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
        let input = &self.input.1;
        let block = input.block();
        let inner = |span: Span, block: usize| Span { first: span.first + block - 1, ..span };
        let Area { rows, columns } = input.area;
        let ends = Area { rows: inner(rows, block.1), columns: inner(columns, block.0) };
        let margin = margin([input.area, ends].into_iter(), height, width);
        let mut rims = Vec::new();
        for numbers in &self.results {
            let registers: BTreeSet<Reg> = input.registers().collect();
            let walk = Walk::new(arch, block, margin, registers.into_iter());
            let spoilt = walk.spoilt(program, numbers.registers());
            let spoilt = spoilt.ok_or_else(|| misfit("its bits cannot be followed".into()))?;
            rims.extend(rim(numbers, spoilt, block, (height, width))?);
        }
        Ok(rims)
    }
}

/// The part of a result that is not spoilt, where some of it is.
fn rim(
    numbers: &Numbers,
    spoilt: [i64; 4],
    block: (usize, usize),
    (height, width): (usize, usize),
) -> Result<Option<Rim>> {
    let inside = |span: Span, before: i64, after: i64, size: usize, block: usize| {
        let right = |at: &usize| {
            let first = (span.first + at * span.step) as i64;
            first >= before && first + block as i64 <= size as i64 - after
        };
        let from = (0..span.count).find(right)?;
        let to = (0..span.count).rfind(right).map_or(from, |last| last + 1);
        Some((from, to))
    };
    let Area { rows, columns } = numbers.area;
    let rows = inside(rows, spoilt[0], spoilt[2], height, block.1);
    let columns = inside(columns, spoilt[3], spoilt[1], width, block.0);
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
                vec![bit("R5", 0, 0), bit("R5", 0, 1)],
                vec![bit("R[a]", 1, 0), bit("R6", 0, 0)],
            ],
        };
        let tap = numbers.tap(7);
        assert_eq!(tap.place, "rows 3/2x4 columns 3/4x4 signed R5+R5.0.1 R[a].1.0+R6");
        assert_eq!(Numbers::of(&tap), Some(numbers.clone()));
        assert!(numbers.fits(11, 17) && !numbers.fits(10, 17) && !numbers.fits(11, 15));
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
            let numbers = Numbers { value: "v".into(), area, signed, channels: vec![bits.clone()] };
            let mut planes = std::collections::BTreeMap::from(registers.map(|r| (r, vec![0.0; 4])));
            numbers.write(0, &codes, 2, |register, element| {
                planes.get_mut(&register).unwrap()[element] = 1.0;
            });
            let read = numbers.read(0, 2, |register| Ok(planes[&register].clone())).unwrap();
            assert_eq!(read, codes);
        }
    }
}
