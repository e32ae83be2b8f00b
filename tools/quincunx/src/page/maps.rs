//! Feature maps as small grey pictures.

use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::Tensor;

/// Most channels of a value that are shown.
const CHANNELS: usize = 8;

/// Most rows and columns of a channel.
const PIXELS: usize = 28;

/// Letters of base 64.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Channels of a value, each so many rows and columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Maps {
    rows: usize,
    columns: usize,
    channels: Vec<Vec<f64>>,
}

impl Maps {
    /// The first channels of a value, large ones made smaller by means; `None` without numbers. A
    /// value without rows and columns is one row.
    pub(super) fn of(value: &Tensor) -> Option<Maps> {
        let numbers = value.to_f64();
        let (rows, columns) = match *value.shape() {
            [.., channels, rows, columns] if channels > 0 && rows * columns > 1 => (rows, columns),
            _ => (1, numbers.len()),
        };
        let size = rows.checked_mul(columns).filter(|&size| size > 0)?;
        // Whole blocks become one pixel each, so that no pixel is smeared over two.
        let block = rows.div_ceil(PIXELS).max(if rows > 1 {
            columns.div_ceil(PIXELS)
        } else {
            columns.div_ceil(PIXELS * CHANNELS)
        });
        let channels: Vec<Vec<f64>> = numbers
            .chunks_exact(size)
            .take(CHANNELS)
            .map(|channel| smaller(channel, columns, block))
            .collect();
        let columns = columns.div_ceil(block);
        (!channels.is_empty()).then(|| Maps { rows: rows.div_ceil(block), columns, channels })
    }

    /// Lowest and highest finite number.
    pub(super) fn ends(&self) -> [f64; 2] {
        let finite = self.channels.iter().flatten().filter(|number| number.is_finite());
        finite.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], &number| {
            [low.min(number), high.max(number)]
        })
    }

    /// The channels side by side as a picture in the text of a page, from black to white, with its
    /// columns and rows.
    ///
    /// # Errors
    /// A bug: a picture of this size can always be written.
    pub(super) fn picture(&self, [low, high]: [f64; 2]) -> Result<(usize, usize, String)> {
        // A column between two channels.
        let width = self.channels.len() * (self.columns + 1) - 1;
        let mut grey = Vec::with_capacity(width * self.rows);
        let extent = (high - low).max(f64::MIN_POSITIVE);
        for row in 0..self.rows {
            for (index, channel) in self.channels.iter().enumerate() {
                if index > 0 {
                    grey.push(128);
                }
                let line = &channel[row * self.columns..][..self.columns];
                grey.extend(
                    line.iter().map(|number| ((number - low) / extent * 255.0).round() as u8),
                );
            }
        }
        let bytes = encode(width, self.rows, &grey).map_err(|error| {
            Diagnostic::bug(format!("a feature map cannot be written: {error}"))
        })?;
        Ok((width, self.rows, format!("data:image/png;base64,{}", base64(&bytes))))
    }
}

/// Means of square blocks.
fn smaller(channel: &[f64], columns: usize, block: usize) -> Vec<f64> {
    if block == 1 {
        return channel.to_vec();
    }
    let rows: Vec<&[f64]> = channel.chunks_exact(columns).collect();
    let mut out = Vec::new();
    for band in rows.chunks(block) {
        for left in (0..columns).step_by(block) {
            let right = (left + block).min(columns);
            let sum: f64 = band.iter().flat_map(|row| &row[left..right]).sum();
            out.push(sum / (band.len() * (right - left)) as f64);
        }
    }
    out
}

fn encode(
    width: usize,
    height: usize,
    grey: &[u8],
) -> std::result::Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(grey)?;
    Ok(bytes)
}

/// Bytes as letters (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let byte = |index: usize| u32::from(part.get(index).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * index) & 63) as usize];
            out.push(if index <= part.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_letters() {
        for (bytes, letters) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(bytes.as_bytes()), letters);
        }
    }

    #[test]
    fn channels_become_small_pictures() {
        let tensor = |shape: &[usize]| {
            let count = shape.iter().product::<usize>();
            Tensor::from_vec(shape, (0..count).map(|n| n as f64).collect()).unwrap()
        };
        let size = |shape: &[usize]| {
            let maps = Maps::of(&tensor(shape)).unwrap();
            assert_eq!(maps.channels[0].len(), maps.rows * maps.columns);
            let (width, height, picture) = maps.picture(maps.ends()).unwrap();
            assert!(picture.starts_with("data:image/png;base64,iVBOR"), "{picture}");
            (maps.channels.len(), width, height)
        };
        assert_eq!(size(&[1, 3, 4, 5]), (3, 17, 4));
        assert_eq!(size(&[1, 64, 112, 112]), (8, 8 * 28 + 7, 28));
        assert_eq!(size(&[1, 64, 115, 30]), (8, 8 * 6 + 7, 23));
        assert_eq!(size(&[1, 1000]), (1, 200, 1));
        assert_eq!(size(&[10]), (1, 10, 1));
        assert_eq!(size(&[1, 10, 1, 1]), (1, 10, 1));
        assert_eq!(size(&[]), (1, 1, 1));
        assert_eq!(Maps::of(&tensor(&[1, 0, 4, 4])), None);
        let four = Maps::of(&tensor(&[1, 1, 56, 56])).unwrap();
        assert_eq!(four.channels[0][0], (0.0 + 1.0 + 56.0 + 57.0) / 4.0);
    }
}
