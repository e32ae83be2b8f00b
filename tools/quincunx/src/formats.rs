//! Arrays in files that other programs make: decimals in rows, and pictures.

mod csv;
mod picture;

use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{DType, Tensor, Tensors};

/// A form besides `.npy` and `.npz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Decimals separated by commas, one row per line.
    Csv,
    /// Grey pictures: PNG, PGM; several as frames of a GIF.
    Picture(Kind),
}

/// Kinds of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Portable network graphics.
    Png,
    /// Portable grey map.
    Pgm,
    /// Frames one after the other; only written.
    Gif,
}

/// A file, and what became of the numbers where it holds others.
#[derive(Debug)]
pub struct Written {
    /// Its contents.
    pub bytes: Vec<u8>,
    /// `Q0649`: the greys that stand for the numbers.
    pub note: Option<Diagnostic>,
}

impl Format {
    /// The form of a file with these first bytes, or else with this name.
    pub fn of(name: &str, bytes: &[u8]) -> Option<Format> {
        if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            return Some(Format::Picture(Kind::Png));
        }
        if let [b'P', b'2' | b'5', space, ..] = bytes
            && space.is_ascii_whitespace()
        {
            return Some(Format::Picture(Kind::Pgm));
        }
        Format::named(name).filter(|format| *format == Format::Csv)
    }

    /// The form that the ending of a name says.
    pub fn named(name: &str) -> Option<Format> {
        let (_, ending) = name.rsplit_once('.')?;
        match ending.to_ascii_lowercase().as_str() {
            "csv" => Some(Format::Csv),
            "png" => Some(Format::Picture(Kind::Png)),
            "pgm" => Some(Format::Picture(Kind::Pgm)),
            "gif" => Some(Format::Picture(Kind::Gif)),
            _ => None,
        }
    }

    /// Reads an array: rows and columns. Decimals become the nearest numbers of `dtype` if it is
    /// `f32`, and of `f64` otherwise; grey values are 0 to 255.
    ///
    /// # Errors
    /// `Q0643` for malformed rows, `Q0644` for a malformed picture or one that is not grey.
    pub fn read(self, bytes: &[u8], dtype: DType) -> Result<Tensor> {
        match self {
            Format::Csv => csv::read(bytes, dtype),
            Format::Picture(kind) => picture::read(kind, bytes),
        }
    }

    /// Writes the only array.
    ///
    /// # Errors
    /// `Q0645` when there are several arrays, or the form cannot hold them.
    pub fn write(self, arrays: &Tensors) -> Result<Written> {
        match self {
            Format::Csv => Ok(Written { bytes: csv::write(only(arrays)?), note: None }),
            Format::Picture(kind) => picture::write(kind, only(arrays)?),
        }
    }
}

fn only(arrays: &Tensors) -> Result<&Tensor> {
    let mut values = arrays.values();
    match (values.next(), values.next()) {
        (Some(array), None) => Ok(array),
        _ => Err(Diagnostic::usage(
            "Q0645",
            format!("there are {} outputs, the file holds one", arrays.len()),
        )
        .help("write several to a .npz file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dataset, InputFile, InputSpec};

    fn tensor(shape: &[usize], values: &[f64]) -> Tensor {
        Tensor::from_vec(shape, values.to_vec()).unwrap()
    }

    fn one(array: Tensor) -> Tensors {
        Tensors::from([("y".to_owned(), array)])
    }

    fn round_trip(format: Format, array: Tensor) -> Tensor {
        format.read(&format.write(&one(array)).unwrap().bytes, DType::F64).unwrap()
    }

    #[test]
    fn arrays_come_back() {
        let rows = tensor(&[2, 3], &[0.5, -1.0, 1e-9, 2.0, 255.0, 0.1]);
        assert_eq!(round_trip(Format::Csv, rows.clone()), rows);
        let picture = tensor(&[2, 3], &[0.0, 1.0, 2.0, 128.0, 254.0, 255.0]);
        for kind in [Kind::Png, Kind::Pgm] {
            let format = Format::Picture(kind);
            let Written { bytes, note } = format.write(&one(picture.clone())).unwrap();
            assert_eq!((Format::of("x", &bytes), note), (Some(format), None));
            assert_eq!(format.read(&bytes, DType::F64).unwrap().to_f64(), picture.to_f64());
        }
    }

    #[test]
    fn a_gif_holds_several_pictures() {
        let frames =
            tensor(&[3, 2, 2], &[0.0, 9.0, 255.0, 1.0, 0.0, 0.0, 0.0, 0.0, 7.0, 7.0, 7.0, 7.0]);
        let bytes = Format::Picture(Kind::Gif).write(&one(frames.clone())).unwrap().bytes;
        let mut options = gif::DecodeOptions::new();
        options.set_color_output(gif::ColorOutput::RGBA);
        let mut read = options.read_info(&bytes[..]).unwrap();
        let mut grey = Vec::new();
        while let Some(frame) = read.read_next_frame().unwrap() {
            grey.extend(frame.buffer.chunks(4).map(|colour| f64::from(colour[0])));
        }
        assert_eq!(grey, frames.to_f64());
        assert_eq!(Format::Picture(Kind::Png).write(&one(frames)).unwrap_err().code(), "Q0645");
    }

    /// Numbers that are no greys: zero is black, or in the middle where some are negative.
    #[test]
    fn other_numbers_are_scaled_and_a_note_says_how() {
        let png = Format::Picture(Kind::Png);
        for (numbers, greys, scale) in [
            ([0.0, 0.5, 1.0, 0.25], [0, 128, 255, 64], "0 + 255 / 1 * number"),
            ([0.0, 510.0, 255.0, 2.0], [0, 255, 128, 1], "0 + 255 / 510 * number"),
            ([0.0, 0.25, 0.5, 0.125], [0, 64, 128, 32], "0 + 255 / 1 * number"),
            ([-4.0, 0.0, 2.0, 4.0], [1, 128, 192, 255], "128 + 127 / 4 * number"),
            ([-1.0, 0.0, 0.0, 0.5], [1, 128, 128, 192], "128 + 127 / 1 * number"),
            ([-1e-310, 0.0, 0.0, 0.0], [1, 128, 128, 128], "* number"),
            ([-1e308, 0.0, 0.0, 1e308], [1, 128, 128, 255], "* number"),
        ] {
            let Written { bytes, note } = png.write(&one(tensor(&[2, 2], &numbers))).unwrap();
            let read = png.read(&bytes, DType::F64).unwrap().to_f64();
            assert_eq!(read, greys.map(f64::from), "{numbers:?}");
            let note = note.unwrap();
            let [low, high] = [f64::min, f64::max].map(|f| numbers.into_iter().reduce(f).unwrap());
            assert!(note.message().contains(&format!("from {low} to {high}")), "{note}");
            assert!(note.code() == "Q0649" && note.message().contains(scale), "{note}");
        }
        // Pictures of a GIF have one scale.
        let frames = tensor(&[2, 1, 2], &[-1.0, 0.0, 0.0, 2.0]);
        let written = Format::Picture(Kind::Gif).write(&one(frames)).unwrap();
        assert!(written.note.unwrap().message().contains("127 / 2"));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let png = Format::Picture(Kind::Png);
        for values in [[f64::INFINITY; 4], [f64::NAN; 4]] {
            assert_eq!(png.write(&one(tensor(&[2, 2], &values))).unwrap_err().code(), "Q0645");
        }
        assert_eq!(png.write(&one(tensor(&[4], &[0.0; 4]))).unwrap_err().code(), "Q0645");
        for text in ["1,2\n3\n", "1,x\n", "nan\n", "1,,2\n"] {
            let problem = Format::Csv.read(text.as_bytes(), DType::F64).unwrap_err();
            assert_eq!(problem.code(), "Q0643", "{text}");
        }
        let long = format!("1\n{}", ",".repeat(1 << 22));
        let problem = Format::Csv.read(long.as_bytes(), DType::F64).unwrap_err();
        assert!(problem.message().starts_with("line 2 has more than"), "{problem}");
        assert_eq!(png.read(b"\x89PNG\r\n\x1a\nrest", DType::F64).unwrap_err().code(), "Q0644");
        let mut bytes = Vec::new();
        let mut colour = ::png::Encoder::new(&mut bytes, 2, 2);
        colour.set_color(::png::ColorType::Rgb);
        colour.write_header().unwrap().write_image_data(&[0; 12]).unwrap();
        let problem = png.read(&bytes, DType::F64).unwrap_err();
        assert!(problem.to_string().contains("in colour"), "{problem}");
    }

    /// The decimals of f32 are the nearest numbers; rows beyond one input are more images.
    #[test]
    fn rows_become_images() {
        let spec = |dtype| {
            [InputSpec {
                name: "x".to_owned(),
                dtype,
                shape: vec![2, 2],
                sample: Default::default(),
            }]
        };
        let text = "0.1,2\r\n3,4\r\n5,6\r\n7,8\r\n";
        let file = InputFile { name: "a.csv".into(), path: None, bytes: text.as_bytes().into() };
        let data = Dataset::read(&file, &spec(DType::F32)).unwrap();
        assert_eq!(data.images.len(), 2);
        assert_eq!(data.images[0]["x"].to_f64()[0], f64::from(0.1_f32));
        assert_eq!(data.images[1]["x"].to_f64(), [5.0, 6.0, 7.0, 8.0]);
        let narrow = InputFile { bytes: "1\n2\n3\n4\n".as_bytes().into(), ..file };
        assert!(Dataset::read(&narrow, &spec(DType::F64)).is_err());
    }
}
