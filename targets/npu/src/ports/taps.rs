//! Values of the graph that can be seen in L2 while a program runs.
//!
//! Ours. A place is text: format, scale and zero of the codes, channels, rows and columns, and for
//! every part of the batch the line after which it is there, its first byte and its images:
//! `int8 0.5 -128 64x56x56 812@401408+4`. `64x7x7/2` has two columns in a pixel, `64x7x7=3136*1` its
//! own order of the numbers. `#` and 16 digits at the end say from what the value is made.

use super::{Code, NamedTensor, View};
use crate::isa::DataFmt;
use crate::replay::Node;
use crate::simulate::State;
use crate::work::{Extents, element_bytes, pitch};
use quincunx_contract::LayerTap;
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{Tensor, Tensors, element_count};
use rustc_hash::FxHashMap;

/// Images of a value that are complete together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    /// Core.
    pub(crate) core: usize,
    /// The line after which they are there, from 0.
    pub(crate) line: usize,
    /// First byte in L2.
    pub(crate) address: usize,
    /// Images.
    pub(crate) images: usize,
}

/// Where a value lies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tap {
    /// Format of the elements.
    pub(crate) format: DataFmt,
    /// Scale and zero of codes; 1 and 0 of other numbers.
    pub(crate) grid: (f64, i32),
    /// Channels, rows and columns.
    pub(crate) extents: Extents,
    /// Columns that lie in the channels of one pixel.
    pub(crate) fold: u32,
    /// The order of its numbers.
    pub(crate) view: View,
    /// The batch in parts.
    pub(crate) parts: Vec<Part>,
    /// What lines make it of which other values, as a number.
    pub(crate) made: Option<u64>,
}

impl Element {
    /// Its byte, and the code there.
    pub(crate) fn held(&self, state: &State) -> (String, String) {
        let code = Code::of(self.format);
        let end = self.byte.saturating_add(code.bytes());
        let number = code.decode(&state.memory(self.node.core)[self.byte..end]);
        (state.byte_name(self.node.core, self.byte as u64), number.to_string())
    }
}

impl Tap {
    /// The place as text.
    pub(crate) fn show(&self) -> String {
        let [c, h, w] = self.extents;
        let format = NamedTensor::format_name(self.format);
        let (scale, zero) = self.grid;
        let mut text = format!("{format} {scale:?} {zero} {c}x{h}x{w}");
        if self.fold > 1 {
            text += &format!("/{}", self.fold);
        }
        if self.view != View::image([self.images(), c, h, w]) {
            text += &format!("={}", self.view);
        }
        for part in &self.parts {
            let Part { core, line, address, images } = part;
            text += &match core {
                0 => format!(" {line}@{address}+{images}"),
                _ => format!(" {core}:{line}@{address}+{images}"),
            };
        }
        if let Some(made) = self.made {
            text += &format!(" #{made:016x}");
        }
        text
    }

    fn parse(text: &str) -> Option<Tap> {
        let (text, made) = match text.split_once(" #") {
            Some((text, made)) => (text, Some(u64::from_str_radix(made, 16).ok()?)),
            None => (text, None),
        };
        let mut words = text.split(' ');
        let format = NamedTensor::format_of(words.next()?)?;
        let grid: (f64, i32) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let shape = words.next()?;
        let (shape, given) = match shape.split_once('=') {
            Some((shape, view)) => (shape, Some(view.parse().ok()?)),
            None => (shape, None),
        };
        let (extents, fold) = match shape.split_once('/') {
            Some((extents, fold)) => (extents, fold.parse().ok()?),
            None => (shape, 1),
        };
        let extents: Vec<u32> =
            extents.split('x').map(|extent| extent.parse().ok()).collect::<Option<_>>()?;
        let extents = <[u32; 3]>::try_from(extents).ok()?;
        let part = |word: &str| {
            let (core, rest) = match word.split_once(':') {
                Some((core, rest)) => (core.parse().ok()?, rest),
                None => (0, word),
            };
            let (line, rest) = rest.split_once('@')?;
            let (address, images) = rest.split_once('+')?;
            let [line, address, images] = [line, address, images].map(|n| n.parse().ok());
            Some(Part { core, line: line?, address: address?, images: images? })
        };
        let parts = words.map(part).collect::<Option<Vec<_>>>()?;
        let sound = grid.0.is_finite() && (1..=16).contains(&fold) && !parts.is_empty();
        let [c, h, w] = extents;
        let tap = Tap { format, grid, extents, fold, view: View::dense(1), parts, made };
        let view = given.unwrap_or_else(|| View::image([tap.images(), c, h, w]));
        sound.then_some(Tap { view, ..tap })
    }

    /// Images of all parts.
    fn images(&self) -> u32 {
        let images = self.parts.iter().fold(0, |n: usize, part| n.saturating_add(part.images));
        u32::try_from(images).unwrap_or(u32::MAX)
    }

    /// Bytes of an image in L2, if they can be counted.
    fn image(&self) -> Option<usize> {
        let [c, h, w] = self.extents;
        let columns = w.checked_div(self.fold)?;
        let pixel = pitch(c.checked_mul(self.fold)?, element_bytes(self.format)) as usize;
        pixel.checked_mul(h as usize)?.checked_mul(columns as usize)
    }

    /// Where an element lies that exists.
    fn element(&self, element: usize) -> Option<Element> {
        let at = usize::try_from(self.view.places().nth(element)?).ok()?;
        let bytes = element_bytes(self.format) as usize;
        let channels = self.extents[0].checked_mul(self.fold)?;
        let pixel = pitch(channels, bytes as u32) as usize;
        let (at, channel) =
            (at.checked_div(channels as usize)?, at.checked_rem(channels as usize)?);
        let mut offset = at.checked_mul(pixel)?.checked_add(channel.checked_mul(bytes)?)?;
        for part in &self.parts {
            let held = self.image()?.checked_mul(part.images)?;
            if offset < held {
                let node = Node { core: part.core, line: part.line };
                let byte = part.address.checked_add(offset)?;
                return Some(Element { node, byte, format: self.format });
            }
            offset = offset.checked_sub(held)?;
        }
        None
    }

    /// The real numbers of images that lie together, in the order of memory.
    #[expect(clippy::arithmetic_side_effects, reason = "the bytes were counted before")]
    fn decode(&self, bytes: &[u8], out: &mut Vec<f64>) {
        let code = Code::of(self.format);
        let channels = self.extents[0] * self.fold;
        let pixel = pitch(channels, code.bytes() as u32) as usize;
        let used = channels as usize * code.bytes();
        let (scale, zero) = self.grid;
        for pixel in bytes.chunks_exact(pixel.max(1)) {
            for code_bytes in pixel[..used].chunks_exact(code.bytes()) {
                out.push((code.decode(code_bytes) - f64::from(zero)) * scale);
            }
        }
    }
}

/// Where an element of a value lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    /// The line after which it is read.
    pub(crate) node: Node,
    /// Its first byte in the L2 of the line's core.
    pub(crate) byte: usize,
    /// Its format.
    pub(crate) format: DataFmt,
}

/// The taps of a program, by the lines after which they are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taps {
    taps: Vec<(LayerTap, Tap)>,
    /// Tap and part.
    by_line: FxHashMap<Node, Vec<(usize, usize)>>,
}

impl Taps {
    /// Reads the places.
    ///
    /// # Errors
    /// `Q4087` for a place that is no place of this machine.
    pub(crate) fn new(layers: &[LayerTap], l2: usize, lines: &[usize]) -> Result<Taps> {
        let mut taps = Taps::default();
        for layer in layers {
            let fits = |tap: &Tap| {
                let images = tap.images() as usize;
                let [c, h, w] = tap.extents.map(|extent| extent as usize);
                let part = |part: &Part| {
                    let bytes = tap.image()?.checked_mul(part.images)?;
                    let inside = part.address.checked_add(bytes)? <= l2;
                    let line = part.line < *lines.get(part.core)?;
                    (inside && line).then_some(())
                };
                w.is_multiple_of(tap.fold as usize)
                    && Some(tap.view.count() as usize) == element_count(&layer.shape)
                    && element_count(&layer.shape) == element_count(&[images, c, h, w])
                    && tap.parts.iter().all(|p| part(p).is_some())
            };
            let Some(tap) = Tap::parse(&layer.place).filter(fits) else {
                let message = format!("layer {:?} has no place in L2 of this program", layer.value);
                return Err(Diagnostic::invalid("Q4087", message));
            };
            let number = taps.taps.len();
            for (index, part) in tap.parts.iter().enumerate() {
                let node = Node { core: part.core, line: part.line };
                taps.by_line.entry(node).or_default().push((number, index));
            }
            taps.taps.push((layer.clone(), tap));
        }
        Ok(taps)
    }

    /// The values with their names.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, &Tap)> {
        self.taps.iter().map(|(layer, tap)| (layer.value.as_str(), tap))
    }

    /// Where an element of the layer with this number lies.
    pub(crate) fn element(&self, layer: usize, element: usize) -> Option<Element> {
        self.taps.get(layer)?.1.element(element)
    }

    /// Adds from what every value is made; gives the places anew.
    pub(crate) fn set_made(&mut self, made: Vec<Option<u64>>) -> Vec<String> {
        self.taps.iter_mut().zip(made).for_each(|((_, tap), made)| tap.made = made);
        let show = |(layer, tap): &mut (LayerTap, Tap)| {
            layer.place = tap.show();
            layer.place.clone()
        };
        self.taps.iter_mut().map(show).collect()
    }

    /// Nothing seen yet.
    pub(crate) fn start(&self) -> Vec<Vec<Vec<f64>>> {
        self.taps.iter().map(|(_, tap)| vec![Vec::new(); tap.parts.len()]).collect()
    }

    /// Whether anything is read after a line.
    pub(crate) fn at(&self, node: Node) -> bool {
        self.by_line.contains_key(&node)
    }

    /// Reads what is complete after a line.
    pub(crate) fn see(&self, node: Node, state: &State, seen: &mut [Vec<Vec<f64>>]) {
        for &(number, index) in self.by_line.get(&node).into_iter().flatten() {
            let tap = &self.taps[number].1;
            let part = tap.parts[index];
            let bytes = tap.image().unwrap_or(0).saturating_mul(part.images);
            let memory = state.memory(part.core);
            let place = &mut seen[number][index];
            place.clear();
            tap.decode(&memory[part.address..part.address.saturating_add(bytes)], place);
        }
    }

    /// What was seen, by name.
    pub(crate) fn finish(&self, seen: Vec<Vec<Vec<f64>>>) -> Result<Tensors> {
        let mut tensors = Tensors::new();
        for ((layer, tap), parts) in self.taps.iter().zip(seen) {
            // Programs that end early have seen less.
            let numbers = parts.concat();
            let number = |place: u64| numbers.get(place as usize).copied();
            let numbers = tap.view.places().map_while(number).collect();
            let tensor = Tensor::from_vec::<f64>(&layer.shape, numbers)?;
            tensors.insert(layer.value.clone(), tensor);
        }
        Ok(tensors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_back() {
        let part = Part { core: 0, line: 812, address: 401_408, images: 4 };
        let tap = Tap {
            format: DataFmt::INT8,
            grid: (0.5, -128),
            extents: [64, 56, 56],
            fold: 1,
            view: View::image([4, 64, 56, 56]),
            parts: vec![part],
            made: None,
        };
        assert_eq!(tap.show(), "int8 0.5 -128 64x56x56 812@401408+4");
        assert_eq!(Tap::parse(&tap.show()), Some(tap.clone()));
        let parts = vec![Part { core: 3, ..part }, part];
        let view = View::dense(8 * 64 * 56 * 56);
        let folded = Tap { format: DataFmt::FP16, fold: 2, view, parts, made: Some(255), ..tap };
        assert!(folded.show().ends_with(" #00000000000000ff"));
        assert_eq!(folded.show().split(' ').nth(3), Some("64x56x56/2=1605632*1"));
        assert_eq!(Tap::parse(&folded.show()), Some(folded));
        for text in ["", "int8", "int8 nan 0 1x1x1 0@0+1", "int8 1 0 1x1 0@0+1", "int8 1 0 1x1x1"] {
            assert_eq!(Tap::parse(text), None, "{text}");
        }
    }
}
