//! Grey pictures of 8 bits.

use super::{Kind, Written};
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{Tensor, show_shape};
use std::io::Cursor;

/// Most memory for decoding a picture, and so most grey values; as f64 they take 256 MiB.
const MAX_BYTES: usize = 1 << 25;

/// How long a frame is shown, in hundredths of a second.
const FRAME: u16 = 20;

/// Rows and columns of grey values, as they are in the file.
pub(super) fn read(kind: Kind, bytes: &[u8]) -> Result<Tensor> {
    let (columns, rows, grey) = match kind {
        Kind::Png => read_png(bytes)?,
        Kind::Pgm => read_pgm(bytes)?,
        Kind::Gif => return Err(Diagnostic::bug("GIF files are only written")),
    };
    Tensor::from_vec(&[rows as usize, columns as usize], grey)
}

/// Columns, rows, and the grey values.
type Picture = (u32, u32, Vec<u8>);

fn read_png(bytes: &[u8]) -> Result<Picture> {
    let limits = png::Limits { bytes: MAX_BYTES };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    // What is transparent becomes a channel, so that it is seen.
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(malformed)?;
    let info = reader.info();
    let (columns, rows) = info.size();
    match (info.bit_depth, info.color_type, reader.output_color_type()) {
        (png::BitDepth::Eight, _, (png::ColorType::Grayscale, _)) => {}
        (depth, png::ColorType::Grayscale | png::ColorType::Indexed, _) if (depth as u8) < 8 => {
            return Err(not_grey(&format!("of {} bits per pixel", depth as u8)));
        }
        (.., (colours, depth)) => {
            use png::ColorType::{GrayscaleAlpha, Indexed, Rgb, Rgba};
            let what = if matches!(colours, Rgb | Rgba | Indexed) { "in colour" } else { "grey" };
            let alpha = match colours {
                GrayscaleAlpha | Rgba => " with transparency",
                _ => "",
            };
            return Err(not_grey(&format!("{what}{alpha}, {} bits per channel", depth as u8)));
        }
    }
    let mut grey = vec![0; count(columns, rows)?];
    reader.next_frame(&mut grey).map_err(malformed)?;
    Ok((columns, rows, grey))
}

fn read_pgm(bytes: &[u8]) -> Result<Picture> {
    let mut rest = bytes.get(2..).unwrap_or_default();
    let (columns, rows) = (number(&mut rest)?, number(&mut rest)?);
    match number(&mut rest)? {
        // Other greys than 0 to 255 would have to be stretched to these.
        255 => {}
        found => {
            let message = format!("its largest grey value is {found}, expected 255");
            return Err(wrong(message).help("convert it, as in: pamdepth 255 in.pgm > out.pgm"));
        }
    }
    let count = count(columns, rows)?;
    let grey = if bytes.starts_with(b"P2") {
        let mut grey = Vec::new();
        while grey.len() < count {
            let value = number(&mut rest)?;
            let outside = |_| malformed(format!("a grey value is {value}, expected 0 to 255"));
            grey.push(u8::try_from(value).map_err(outside)?);
        }
        grey
    } else {
        // One blank ends the header.
        let there = rest.len().saturating_sub(1);
        let short = || malformed(format!("it has {there} grey values, expected {count}"));
        rest.get(1..=count).ok_or_else(short)?.to_vec()
    };
    Ok((columns, rows, grey))
}

/// Takes the next decimal of a PGM, behind blanks and comments.
fn number(rest: &mut &[u8]) -> Result<u32> {
    loop {
        *rest = rest.trim_ascii_start();
        if !rest.starts_with(b"#") {
            break;
        }
        let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        *rest = &rest[end..];
    }
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (decimal, behind) = rest.split_at(digits);
    *rest = behind;
    let value = std::str::from_utf8(decimal).ok().and_then(|decimal| decimal.parse().ok());
    value.ok_or_else(|| malformed("expected decimals below 2^32"))
}

/// How many pixels a picture has.
fn count(columns: u32, rows: u32) -> Result<usize> {
    let pixels = usize::try_from(u64::from(columns) * u64::from(rows)).ok();
    pixels.filter(|pixels| (1..=MAX_BYTES).contains(pixels)).ok_or_else(|| {
        let size = format!("{columns} by {rows}");
        wrong(format!("the picture is {size}, expected 1 to {MAX_BYTES} pixels"))
    })
}

fn not_grey(found: &str) -> Diagnostic {
    wrong(format!("the picture is {found}, expected grey of 8 bits"))
        .help("convert it, as in: convert in.png -colorspace Gray -depth 8 out.pgm")
}

fn malformed(error: impl std::fmt::Display) -> Diagnostic {
    wrong(format!("the picture is malformed: {error}"))
}

fn wrong(what: String) -> Diagnostic {
    Diagnostic::invalid("Q0644", what)
}

/// How numbers become greys.
enum Scale {
    /// They are greys.
    Grey,
    /// The largest becomes the lightest; zero is black, or in the middle where there are negative
    /// ones.
    Linear { signed: bool, largest: f64 },
}

impl Scale {
    fn of(numbers: &[f64]) -> Scale {
        if numbers.iter().all(|number| (0.0..=255.0).contains(number) && number.fract() == 0.0) {
            return Scale::Grey;
        }
        let signed = numbers.iter().any(|&number| number < 0.0);
        let largest = numbers.iter().fold(0.0, |most: f64, number| most.max(number.abs()));
        // Shares of 1 keep their brightness from picture to picture.
        Scale::Linear { signed, largest: if signed { largest } else { largest.max(1.0) } }
    }

    fn grey(&self, number: f64) -> u8 {
        match *self {
            Scale::Grey => number as u8,
            Scale::Linear { signed: true, largest } => {
                ((number / largest * 127.0).round() + 128.0) as u8
            }
            Scale::Linear { signed: false, largest } => (number / largest * 255.0).round() as u8,
        }
    }

    /// What the greys stand for, unless they are the numbers.
    fn note(&self, numbers: &[f64]) -> Option<Diagnostic> {
        let Scale::Linear { signed, largest } = *self else { return None };
        let (middle, room) = if signed { (128, 127) } else { (0, 255) };
        let [low, high] = [f64::min, f64::max].map(|f| numbers.iter().copied().reduce(f));
        let (low, high) = low.zip(high)?;
        let message = format!(
            "the output holds numbers from {low} to {high}: a grey value is {middle} + {room} / \
             {largest} * number, rounded"
        );
        Some(Diagnostic::note("Q0649", message).help("a .npy file holds the numbers themselves"))
    }
}

/// Rows and columns; outer axes count pictures, of which only a GIF holds several.
pub(super) fn write(kind: Kind, array: &Tensor) -> Result<Written> {
    let [.., height, width] = *array.shape() else {
        let shape = show_shape(array.shape());
        return Err(refuse(format!("the output is {shape}, expected rows and columns")));
    };
    let numbers = array.to_f64();
    if let Some(number) = numbers.iter().find(|number| !number.is_finite()) {
        return Err(refuse(format!("the output holds {number}, for which there is no grey"))
            .help("write it to a .npy file"));
    }
    let scale = Scale::of(&numbers);
    let grey: Vec<u8> = numbers.iter().map(|&number| scale.grey(number)).collect();
    if grey.is_empty() {
        return Err(refuse("the output holds no picture".to_owned()));
    }
    let several = grey.len() / (width * height);
    if kind != Kind::Gif && several > 1 {
        return Err(refuse(format!("there are {several} pictures, the file holds one"))
            .help("write them to a .gif file, or choose one with --images"));
    }
    let bytes = match kind {
        Kind::Png => write_png((width, height), &grey)?,
        Kind::Pgm => [format!("P5\n{width} {height}\n255\n").into_bytes(), grey].concat(),
        Kind::Gif => write_gif((width, height), &grey)?,
    };
    Ok(Written { bytes, note: scale.note(&numbers) })
}

fn write_png(size: (usize, usize), grey: &[u8]) -> Result<Vec<u8>> {
    let (width, height) = fitting::<u32>(size)?;
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Grayscale);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(grey).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(bytes)
}

fn write_gif(size: (usize, usize), grey: &[u8]) -> Result<Vec<u8>> {
    let (width, height) = fitting::<u16>(size)?;
    let greys: Vec<u8> = (0..=255).flat_map(|grey| [grey; 3]).collect();
    let mut encoder = gif::Encoder::new(Vec::new(), width, height, &greys).map_err(failed)?;
    encoder.set_repeat(gif::Repeat::Infinite).map_err(failed)?;
    for frame in grey.chunks(size.0 * size.1) {
        let mut frame = gif::Frame::from_indexed_pixels(width, height, frame, None);
        frame.delay = FRAME;
        encoder.write_frame(&frame).map_err(failed)?;
    }
    encoder.into_inner().map_err(failed)
}

/// The width and the height as a file holds them.
fn fitting<T: TryFrom<usize>>((width, height): (usize, usize)) -> Result<(T, T)> {
    match (T::try_from(width), T::try_from(height)) {
        (Ok(columns), Ok(rows)) => Ok((columns, rows)),
        _ => Err(failed(format!("it does not hold {width} by {height} pixels"))),
    }
}

fn failed(error: impl std::fmt::Display) -> Diagnostic {
    refuse(format!("it cannot be written: {error}"))
}

fn refuse(what: String) -> Diagnostic {
    Diagnostic::usage("Q0645", what)
}
