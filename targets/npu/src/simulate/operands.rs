//! What a line reads for one element that it writes: places and the numbers there.

#![deny(clippy::wildcard_enum_match_arm)]

use super::State;
use super::conv::{decode, patch_length};
use super::moves::pixel;
use super::vector::{MULTIPLY, POST, SCALAR, SUM0, SUM1};
use crate::isa::{DataFmt, MG0S};
use crate::regions::Region;
use crate::work::{
    Access, Conv, Copy, Extents, PARAMETER_BYTES, Place, Remote, Reorder, Vector, VectorKind, Work,
    buffer_row_bytes, element_bytes, pitch,
};
use quincunx_diag::Result;

/// Numbers that are shown of many.
const SHOWN: usize = 8;

/// A place and what is there.
type Held = (String, String);

/// An element that a line writes.
#[derive(Clone, Copy)]
struct At {
    /// Image, row and column of the tile.
    pixel: [u32; 3],
    /// Byte of the pixel.
    byte: u32,
}

impl At {
    /// The element so many bytes behind the start of an access; `None` between its runs.
    fn of(access: &Access, offset: i64) -> Option<At> {
        let (pattern, merged) = (access.pattern, access.pattern.merged());
        let within =
            |start: i64, bytes: i64| (start..start.saturating_add(bytes)).contains(&offset);
        // Few runs tell whether there is anything to find among all.
        merged.starts().find(|&start| within(start, merged.bytes))?;
        let mut runs = pattern.starts().enumerate();
        let (index, start) = runs.find(|&(_, start)| within(start, pattern.bytes))?;
        let [_, rows, columns] = pattern.counts.map(|count| count as usize);
        let pixel = [index / (rows * columns), index / columns % rows, index % columns];
        Some(At { pixel: pixel.map(|at| at as u32), byte: (offset - start) as u32 })
    }
}

/// How far behind its start an access to a ring touches a byte of L2, if it does.
pub(crate) fn reaches(access: &Access, ring: Region, byte: u64) -> Option<i64> {
    if !(ring.start..ring.end()).contains(&byte) {
        return None;
    }
    let offset = ((byte - ring.start) as i64).saturating_sub(access.span.start);
    let offset = offset.rem_euclid(ring.length as i64);
    let near = offset < access.span.length() as i64;
    near.then(|| At::of(access, offset))?.map(|_| offset)
}

impl State {
    /// What a line of a core reads for the element that it writes `offset` bytes behind the start of
    /// its access `write`, before it runs. Of weights, which are no elements, nothing is told.
    ///
    /// # Errors
    /// `Q4024` for regions that are not set.
    pub(crate) fn operands(
        &self,
        core: usize,
        work: &Work,
        unit: u32,
        write: &Access,
        offset: i64,
    ) -> Result<Vec<Held>> {
        let Some(at) = At::of(write, offset) else { return Ok(Vec::new()) };
        match work {
            Work::Copy(copy) => Ok(self.copied(copy, at)),
            Work::Conv(conv) => self.convolved(core, conv, unit, at),
            Work::Vector(vector) => self.reckoned(core, vector, at),
            Work::Reorder(reorder) => self.reordered(core, reorder, at),
            Work::Remote(remote) => self.sent(core, remote, at),
            Work::Begin | Work::End | Work::Configure | Work::Regions(_) => Ok(Vec::new()),
            Work::Weights(_) => Ok(Vec::new()),
        }
    }

    /// A number in L2.
    fn l2_number(
        &self,
        core: usize,
        place: Place,
        format: DataFmt,
        (signed, bytes): (bool, u32),
    ) -> Result<Held> {
        let ring = self.region(core, place)?;
        let mut code = [0; 4];
        let code = &mut code[..bytes as usize];
        self.cores[core].read(ring, place.address, code);
        let number = decode(code, format, signed).to_string();
        Ok((self.byte_name(core, ring.byte(place.address)), number))
    }

    /// A byte of L2 by name; with the core where there are several.
    pub(crate) fn byte_name(&self, core: usize, byte: u64) -> String {
        let of_core = if self.cores.len() > 1 { format!("core {core} ") } else { String::new() };
        format!("{of_core}L2@{byte}")
    }

    fn copied(&self, copy: &Copy, at: At) -> Vec<Held> {
        let offset = pixel(copy.dram_tensor, copy.dram_pixel(), at.pixel) as u64;
        let address =
            u64::from(copy.dram) + offset + u64::from(at.byte / bytes(copy) * bytes(copy));
        let mut code = [0; 2];
        let code = &mut code[..bytes(copy) as usize];
        self.dram[usize::from(copy.bas)].read(address, code);
        let number = decode(code, copy.format, true).to_string();
        vec![(format!("DRAM{}@{address}", copy.bas), number)]
    }

    fn sent(&self, core: usize, remote: &Remote, at: At) -> Result<Vec<Held>> {
        let from = if remote.receive { usize::from(remote.core) } else { core };
        let bytes = element_bytes(remote.format);
        let (tensor, place) = (remote.tensors[0], remote.places[0]);
        let offset = pixel(tensor, pitch(tensor[0], bytes), at.pixel);
        let address = place.address + offset + i64::from(at.byte / bytes * bytes);
        let place = Place { address, ..place };
        Ok(vec![self.l2_number(from, place, remote.format, (true, bytes))?])
    }

    fn reordered(&self, core: usize, reorder: &Reorder, at: At) -> Result<Vec<Held>> {
        let bytes = element_bytes(reorder.format);
        let [image, row, column] = at.pixel;
        let written = [row, column, at.byte / bytes];
        let mut source = [0; 3];
        for (axis, index) in reorder.axes().unwrap_or([0, 1, 2]).into_iter().zip(written) {
            source[axis] = index;
        }
        let [row, column, channel] = source;
        let (tensor, place) = (reorder.tensors[0], reorder.places[0]);
        let offset = pixel(tensor, pitch(tensor[0], bytes), [image, row, column]);
        let address = place.address + offset + i64::from(channel * bytes);
        let place = Place { address, ..place };
        Ok(vec![self.l2_number(core, place, reorder.format, (true, bytes))?])
    }

    /// The inputs under the kernel and the weights, both with the channels of a position together and
    /// padded to 8, the parameters of the channel, and what is there already if that counts.
    fn convolved(&self, core: usize, conv: &Conv, unit: u32, at: At) -> Result<Vec<Held>> {
        let ring = self.region(core, conv.input)?;
        let written = element_bytes(conv.formats[2]);
        let channel = at.byte / written;
        let group = channel / (conv.tile[1] / conv.groups.max(1)).max(1);
        let mut patch = vec![0; patch_length(conv)];
        self.gather(core, conv, ring, at.pixel, group, &mut patch);
        // Where the first position under the kernel would lie, which may be outside of the image.
        let [image, y, x] = at.pixel;
        let step = |axis: usize, at: u32| at * conv.stride[axis] / conv.insert[axis].max(1);
        let read = pitch(conv.source[0], element_bytes(conv.formats[0]));
        let offset = pixel(conv.source, read, [image, step(0, y), step(1, x)]);
        let first = conv.input.address + offset + i64::from(group * conv.weight_row()[0]);
        let row = buffer_row_bytes(conv.weight_row(), 1);
        let start = u64::from(conv.weights) * u64::from(unit)
            + u64::from(channel) * (row + PARAMETER_BYTES);
        let bytes = &self.cores[core].wl0[start as usize..][..row as usize + 8];
        let weights = bytes[..patch.len()].iter().map(|&byte| i16::from(byte as i8));
        let parameter =
            |at: usize| decode(&bytes[row as usize + at..][..4], DataFmt::INT8, true).to_string();
        let mut held = vec![
            (format!("window from {}", self.byte_name(core, ring.byte(first))), list(patch)),
            (format!("WL0@{start}"), list(weights)),
            (format!("WL0@{}", start + row), parameter(0)),
            (format!("WL0@{}", start + row + 4), parameter(4)),
        ];
        if conv.accumulate.is_some() {
            let offset = pixel(conv.dest, pitch(conv.dest[0], written), at.pixel);
            let address = conv.output.address + offset + i64::from(channel * written);
            let place = Place { address, ..conv.output };
            held.push(self.l2_number(core, place, conv.formats[2], (conv.signed[1], written))?);
        }
        let (_, offset, factor) = conv.quantiser;
        if conv.formats[2] != DataFmt::FP16 {
            held.push(("output factor".to_owned(), factor.single().to_string()));
            held.push(("output offset".to_owned(), offset.single().to_string()));
        }
        Ok(held)
    }

    /// The numbers of a vector instruction, and the registers that it applies to them.
    fn reckoned(&self, core: usize, vector: &Vector, at: At) -> Result<Vec<Held>> {
        let config = &vector.config;
        let [_, y, x] = at.pixel;
        let channel = at.byte / vector.output_bytes();
        let mut held = match vector.kind {
            VectorKind::Single => {
                let place = [channel, y * config.stride[0], x * config.stride[1]];
                let second = vector.has_second().then_some((vector.second, config.second_axes));
                let tensors = [(vector.input, config.first_axes)].into_iter().chain(second);
                let element = |(start, axes)| {
                    let tensor = vector.masked(axes);
                    let at = [0, 1, 2].map(|axis| if tensor[axis] == 1 { 0 } else { place[axis] });
                    self.vector_element(core, vector, start, tensor, at.map(i64::from))
                };
                tensors.map(element).collect::<Result<Vec<_>>>()?
            }
            VectorKind::Pool => vec![self.pooled(core, vector, [channel, y, x])?],
            VectorKind::Enlarge => {
                let inside = |axis: usize, at: u32| {
                    let start = i64::from(vector.start[axis]);
                    let place = start + i64::from(at / config.stride[axis].max(1));
                    place.clamp(0, i64::from(config.source[axis + 1]) - 1) - start
                };
                let at = [channel.into(), inside(0, y), inside(1, x)];
                vec![self.vector_element(core, vector, vector.input, config.source, at)?]
            }
        };
        held.extend(self.applied(core, vector));
        Ok(held)
    }

    /// The element of a tensor at a channel, row and column.
    fn vector_element(
        &self,
        core: usize,
        vector: &Vector,
        place: Place,
        tensor: Extents,
        [channel, row, column]: [i64; 3],
    ) -> Result<Held> {
        let bytes = vector.input_bytes();
        let pixel = i64::from(pitch(tensor[0], bytes));
        let offset = (row * i64::from(tensor[2]) + column) * pixel + channel * i64::from(bytes);
        let place = Place { address: place.address + offset, ..place };
        let config = &vector.config;
        self.l2_number(core, place, config.formats[0], (config.signed[0], bytes))
    }

    /// All numbers that a pooling reduces, from the first on.
    fn pooled(&self, core: usize, vector: &Vector, [channel, y, x]: Extents) -> Result<Held> {
        let config = &vector.config;
        let (mut first, mut numbers) = (None, Vec::new());
        for r in 0..config.window[0] {
            for s in 0..config.window[1] {
                let row = i64::from(y * config.stride[0] + r);
                let column = i64::from(x * config.stride[1] + s);
                let inside = |axis: usize, at: i64| {
                    (0..i64::from(config.source[axis + 1]))
                        .contains(&(i64::from(vector.start[axis]) + at))
                };
                if inside(0, row) && inside(1, column) {
                    let at = [channel.into(), row, column];
                    let (place, number) =
                        self.vector_element(core, vector, vector.input, config.source, at)?;
                    first.get_or_insert(place);
                    numbers.push(number);
                } else if config.pad != i16::MIN {
                    numbers.push(config.pad.to_string());
                }
            }
        }
        Ok((format!("window from {}", first.unwrap_or_default()), list(numbers)))
    }

    /// What registers of the queue make of the numbers, in the order in which they do.
    fn applied(&self, core: usize, vector: &Vector) -> Vec<Held> {
        let config = &vector.config;
        let mut held = Vec::new();
        let mut push = |name: &str, number: f32| held.push((name.to_owned(), number.to_string()));
        if vector.dequantise {
            for index in 0..1 + usize::from(vector.has_second()) {
                let (offset, factor) = config.dequantisers[index];
                push(&format!("factor of input {index}"), factor);
                push(&format!("offset of input {index}"), offset);
            }
        }
        if vector.modules & MULTIPLY != 0 && config.multiply.0 != MG0S::TENSOR {
            push("factor", self.scalar(core, config.multiply.1));
        }
        if vector.groups & SUM1 != 0 {
            push("sum 1", self.scalar(core, config.sum1.1));
        }
        if vector.modules & SUM0 != 0 && !vector.has_second() {
            push("sum 0", self.scalar(core, config.sum0.1));
        }
        if vector.modules & SCALAR != 0 {
            push("scalar factor", self.scalar(core, config.scalar.1));
            push("scalar sum", self.scalar(core, config.scalar.2));
        }
        if vector.modules & POST != 0 {
            let (_, _, offset, factor) = config.quantiser;
            for (bit, name, number) in [(1, "output factor", factor), (2, "output offset", offset)]
            {
                if vector.quantise & bit != 0 {
                    push(name, number);
                }
            }
        }
        held
    }
}

fn bytes(copy: &Copy) -> u32 {
    element_bytes(copy.format)
}

/// The first of several numbers, and how many there are.
fn list<T: ToString>(numbers: impl IntoIterator<Item = T>) -> String {
    let numbers: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
    match numbers.len() {
        count if count > SHOWN => format!("[{}, … {count} numbers]", numbers[..SHOWN].join(", ")),
        _ => format!("[{}]", numbers.join(", ")),
    }
}
