//! How results leave the array: as they are, as 8-bit or 1-bit frames, or as events.

use crate::program::Space;
use quincunx_contract::Grid;
use quincunx_graph::{Param, Quantiser};
use quincunx_num::Rounding;
use std::fmt;
use std::str::FromStr;

/// A form of read-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readout {
    /// The values; 1-bit registers as frames of bits.
    #[default]
    Analogue,
    /// 0 to 255: the value plus 128, rounded and limited. 1-bit registers give 0 and 255.
    EightBit,
    /// 1 where the value is above 0.
    OneBit,
    /// The coordinates of the elements whose value is above 0, as the host sees them: row from the
    /// top, column from the right; a row of -1 for every one that the buffer holds besides. It holds
    /// so many events; those that come later are lost.
    Events(usize),
}

/// The code of 0 in 8-bit frames.
const ZERO: f64 = 128.0;

impl fmt::Display for Readout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Readout::Analogue => write!(f, "analogue"),
            Readout::EightBit => write!(f, "8bit"),
            Readout::OneBit => write!(f, "1bit"),
            Readout::Events(most) => write!(f, "events:{most}"),
        }
    }
}

impl FromStr for Readout {
    type Err = ();

    /// As it is displayed.
    fn from_str(text: &str) -> Result<Readout, ()> {
        match (text, text.strip_prefix("events:")) {
            ("analogue", _) => Ok(Readout::Analogue),
            ("8bit", _) => Ok(Readout::EightBit),
            ("1bit", _) => Ok(Readout::OneBit),
            (_, Some(most)) => most.parse().map(Readout::Events).map_err(|_| ()),
            _ => Err(()),
        }
    }
}

impl Readout {
    /// Names for the option `readout`.
    pub const NAMES: [&'static str; 4] = ["analogue", "8bit", "1bit", "events"];

    /// The form with a name; of events so many.
    pub fn from_name(name: &str, events: usize) -> Readout {
        match name {
            "8bit" => Readout::EightBit,
            "1bit" => Readout::OneBit,
            "events" => Readout::Events(events),
            _ => Readout::Analogue,
        }
    }

    /// Shape of what is read out of an array.
    pub fn shape(self, height: usize, width: usize) -> Vec<usize> {
        match self {
            Readout::Events(most) => vec![most.min(height.saturating_mul(width)), 2],
            _ => vec![height, width],
        }
    }

    /// Reads an image out, row 0 northmost; the numbers in the order of [`Readout::shape`].
    pub fn apply(self, image: &[f64], space: Space, width: usize) -> Vec<f64> {
        match self {
            Readout::Analogue => image.to_vec(),
            Readout::EightBit if space == Space::Digital => {
                image.iter().map(|&bit| bit * 255.0).collect()
            }
            Readout::EightBit => image.iter().map(|&value| code(value)).collect(),
            Readout::OneBit => image.iter().map(|&v| f64::from(u8::from(v > 0.0))).collect(),
            Readout::Events(most) => {
                let most = most.min(image.len());
                let address = |at| [at / width, width - 1 - at % width].map(|place| place as f64);
                let mut list: Vec<f64> =
                    events(image, width).take(most).flat_map(address).collect();
                list.resize(2 * most, -1.0);
                list
            }
        }
    }

    /// What the host makes of an image that it reads in this form: the values again, as far as they
    /// came through; and how many events were lost. Bits are 0 and 1.
    pub(crate) fn received(self, image: &mut [f64], space: Space, width: usize) -> usize {
        match self {
            Readout::EightBit if space == Space::Analogue => {
                image.iter_mut().for_each(|value| *value = code(*value) - ZERO);
                0
            }
            Readout::Events(most) => {
                let lost: Vec<usize> = events(image, width).skip(most).collect();
                lost.iter().for_each(|&at| image[at] = 0.0);
                lost.len()
            }
            Readout::Analogue | Readout::EightBit | Readout::OneBit => 0,
        }
    }

    /// The grid of values that are times so much in registers of a space.
    pub(crate) fn grid(self, space: Space, times: f64) -> Grid {
        match (self, space) {
            (Readout::EightBit, Space::Analogue) => Grid::Codes(Quantiser {
                zero: Param::uniform(ZERO as i64),
                rounding: Param::uniform(Rounding::HalfCeil),
                ..Quantiser::symmetric(false, 8, times.recip())
            }),
            _ => Grid::Real,
        }
    }

    /// Bytes in which so many pixels of a register leave an array of some rows and columns: one for
    /// each pixel, one for eight bits, one for a coordinate of an event up to 255. Of events these are
    /// as many as the buffer holds.
    pub(crate) fn bytes(self, space: Space, pixels: usize, size: [usize; 2]) -> u64 {
        match (self, space) {
            (Readout::Events(most), _) => {
                let coordinate = if size.iter().all(|&extent| extent <= 256) { 1 } else { 2 };
                2 * coordinate * most.min(pixels) as u64
            }
            (Readout::Analogue | Readout::OneBit, Space::Digital) => pixels.div_ceil(8) as u64,
            (Readout::EightBit, Space::Digital) | (_, Space::Analogue) => pixels as u64,
        }
    }
}

/// The 8-bit code of a value.
fn code(value: f64) -> f64 {
    // Adding a half could round; the difference of a number and its integer part is exact.
    let whole = value.floor();
    let nearest = whole + f64::from(u8::from(value - whole >= 0.5));
    (nearest + ZERO).clamp(0.0, 255.0)
}

/// Where events are in an image, in the order of the host's addresses.
fn events(image: &[f64], width: usize) -> impl Iterator<Item = usize> {
    let rows = image.chunks(width.max(1)).enumerate();
    rows.flat_map(move |(row, line)| {
        let columns = line.iter().enumerate().rev().filter(|(_, value)| **value > 0.0);
        columns.map(move |(column, _)| row * width + column)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let image = [-200.0, -0.6, 0.0, 0.4, 127.0, 500.0];
        let read = |form: Readout| form.apply(&image, Space::Analogue, 3);
        assert_eq!(read(Readout::EightBit), [0.0, 127.0, 128.0, 128.0, 255.0, 255.0]);
        assert_eq!(read(Readout::OneBit), [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        let expected = [1.0, 0.0, 1.0, 1.0, 1.0, 2.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0];
        assert_eq!(read(Readout::Events(6)), expected);
        assert_eq!(read(Readout::Events(2)), expected[..4]);
        // The east end of a row is column 0.
        assert_eq!(Readout::Events(9).apply(&[1.0, 0.0, 0.0], Space::Digital, 3)[..2], [0.0, 2.0]);
        assert_eq!(Readout::EightBit.apply(&[1.0, 0.0], Space::Digital, 2), [255.0, 0.0]);
    }
    #[test]
    fn what_the_host_receives() {
        let mut bits = [1.0, 0.0, 1.0, 1.0];
        assert_eq!(Readout::Events(2).received(&mut bits, Space::Digital, 2), 1);
        assert_eq!(bits, [1.0, 0.0, 0.0, 1.0]);
        let mut values = [-200.0, -0.5, 2.5, 0.49];
        assert_eq!(Readout::EightBit.received(&mut values, Space::Analogue, 2), 0);
        assert_eq!(values, [-128.0, 0.0, 3.0, 0.0]);
        for form in [Readout::Analogue, Readout::EightBit, Readout::OneBit, Readout::Events(7)] {
            assert_eq!(form.to_string().parse(), Ok(form));
        }
        let bytes = |form: Readout, space| form.bytes(space, 100, [256, 256]);
        assert_eq!(bytes(Readout::OneBit, Space::Digital), 13);
        assert_eq!(bytes(Readout::EightBit, Space::Digital), 100);
        assert_eq!(bytes(Readout::Events(20), Space::Digital), 40);
        assert_eq!(Readout::Events(20).bytes(Space::Digital, 5, [256, 300]), 20);
    }
}
