//! How results leave the array: as they are, as 8-bit or 1-bit frames, or as events.

use crate::program::Space;

/// A form of read-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readout {
    /// The values.
    #[default]
    Analogue,
    /// 0 to 255: the value plus 128, rounded and limited. 1-bit registers give 0 and 255.
    EightBit,
    /// 1 where the value is above 0.
    OneBit,
    /// The coordinates of the elements whose value is above 0, as the host sees them: row from the
    /// top, column from the right; a row of -1 for every element without event.
    Events,
}

impl Readout {
    /// Names for the option `readout`.
    pub const NAMES: [&'static str; 4] = ["analogue", "8bit", "1bit", "events"];

    /// The form with a name.
    pub fn from_name(name: &str) -> Readout {
        match name {
            "8bit" => Readout::EightBit,
            "1bit" => Readout::OneBit,
            "events" => Readout::Events,
            _ => Readout::Analogue,
        }
    }

    /// Shape of what is read out of an array.
    pub fn shape(self, height: usize, width: usize) -> Vec<usize> {
        match self {
            Readout::Events => vec![height * width, 2],
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
            Readout::Events => events(image, width),
        }
    }
}

/// Bytes in which so many pixels of a register leave the array: one for each analogue value, one for
/// eight 1-bit ones.
pub(crate) fn bytes(space: Space, pixels: usize) -> u64 {
    match space {
        Space::Analogue => pixels as u64,
        Space::Digital => pixels.div_ceil(8) as u64,
    }
}

/// The 8-bit code of a value.
fn code(value: f64) -> f64 {
    (value + 128.5).floor().clamp(0.0, 255.0)
}

/// Events in the order of the host's addresses.
fn events(image: &[f64], width: usize) -> Vec<f64> {
    let mut list = Vec::with_capacity(2 * image.len());
    for (row, line) in image.chunks(width).enumerate() {
        for (column, _) in line.iter().rev().enumerate().filter(|(_, value)| **value > 0.0) {
            list.extend([row as f64, column as f64]);
        }
    }
    list.resize(2 * image.len(), -1.0);
    list
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
        assert_eq!(read(Readout::Events), expected);
        // The east end of a row is column 0.
        assert_eq!(Readout::Events.apply(&[1.0, 0.0, 0.0], Space::Digital, 3)[..2], [0.0, 2.0]);
        assert_eq!(Readout::EightBit.apply(&[1.0, 0.0], Space::Digital, 2), [255.0, 0.0]);
    }
}
