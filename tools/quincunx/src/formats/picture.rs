//! Grey pictures of 8 bits.

use super::Kind;
use image::codecs::gif::{GifEncoder, Repeat};
use image::codecs::pnm::{PnmDecoder, PnmEncoder, PnmSubtype, SampleEncoding};
use image::{
    ColorType, Delay, DynamicImage, Frame, GrayImage, ImageDecoder, ImageFormat, ImageReader,
    Limits,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{Tensor, show_shape};
use std::io::Cursor;

/// Most memory for decoding a picture, and so most grey values; as f64 they take 256 MiB.
const MAX_BYTES: u64 = 1 << 25;

/// Where a PNG says how many bits a channel has: in its first chunk.
const PNG_DEPTH: usize = 24;

/// How long a frame is shown, in milliseconds.
const FRAME: u32 = 200;

/// Rows and columns of grey values, as they are in the file.
pub(super) fn read(kind: Kind, bytes: &[u8]) -> Result<Tensor> {
    check_greys(kind, bytes)?;
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format(kind));
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_BYTES);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(malformed)?;
    let found = decoder.color_type();
    if found != ColorType::L8 {
        return Err(not_grey(&describe(found)));
    }
    let (width, height) = decoder.dimensions();
    if !(1..=MAX_BYTES).contains(&decoder.total_bytes()) {
        let message =
            format!("the picture is {width} by {height}, expected 1 to {MAX_BYTES} pixels");
        return Err(wrong(message));
    }
    let mut grey = vec![0; decoder.total_bytes() as usize];
    decoder.read_image(&mut grey).map_err(malformed)?;
    Tensor::from_vec(&[height as usize, width as usize], grey)
}

/// Other greys than 0 to 255 would be stretched to these.
fn check_greys(kind: Kind, bytes: &[u8]) -> Result<()> {
    if kind == Kind::Pgm {
        let largest = PnmDecoder::new(Cursor::new(bytes)).map_err(malformed)?;
        return match largest.header().maximal_sample() {
            255 => Ok(()),
            found => {
                let message = format!("its largest grey value is {found}, expected 255");
                Err(wrong(message).help("convert it, as in: pamdepth 255 in.pgm > out.pgm"))
            }
        };
    }
    match bytes.get(PNG_DEPTH) {
        Some(depth @ (1 | 2 | 4)) => Err(not_grey(&format!("of {depth} bits per pixel"))),
        _ => Ok(()),
    }
}

fn not_grey(found: &str) -> Diagnostic {
    wrong(format!("the picture is {found}, expected grey of 8 bits"))
        .help("convert it, as in: convert in.png -colorspace Gray -depth 8 out.pgm")
}

fn malformed(error: image::ImageError) -> Diagnostic {
    wrong(format!("the picture is malformed: {error}"))
}

fn wrong(what: String) -> Diagnostic {
    Diagnostic::invalid("Q0644", what)
}

fn describe(colours: ColorType) -> String {
    let bits = colours.bits_per_pixel() / u16::from(colours.channel_count());
    let what = if colours.has_color() { "in colour" } else { "grey" };
    let alpha = if colours.has_alpha() { " with transparency" } else { "" };
    format!("{what}{alpha}, {bits} bits per channel")
}

fn format(kind: Kind) -> ImageFormat {
    match kind {
        Kind::Png => ImageFormat::Png,
        Kind::Pgm => ImageFormat::Pnm,
        Kind::Gif => ImageFormat::Gif,
    }
}

/// Rows and columns; outer axes count pictures, of which only a GIF holds several.
pub(super) fn write(kind: Kind, array: &Tensor) -> Result<Vec<u8>> {
    let frames = frames(array)?;
    let failed = |error: image::ImageError| refuse(format!("it cannot be written: {error}"));
    let mut bytes = Vec::new();
    match (kind, &frames[..]) {
        (Kind::Gif, _) => {
            let mut encoder = GifEncoder::new(&mut bytes);
            encoder.set_repeat(Repeat::Infinite).map_err(failed)?;
            for frame in frames {
                let delay = Delay::from_numer_denom_ms(FRAME, 1);
                let colours = DynamicImage::ImageLuma8(frame).to_rgba8();
                let frame = Frame::from_parts(colours, 0, 0, delay);
                encoder.encode_frame(frame).map_err(failed)?;
            }
        }
        (Kind::Pgm, [frame]) => {
            let subtype = PnmSubtype::Graymap(SampleEncoding::Binary);
            let encoder = PnmEncoder::new(&mut bytes).with_subtype(subtype);
            frame.write_with_encoder(encoder).map_err(failed)?;
        }
        (Kind::Png, [frame]) => {
            frame.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).map_err(failed)?;
        }
        (_, several) => {
            return Err(refuse(format!(
                "there are {} pictures, the file holds one",
                several.len()
            ))
            .help("write them to a .gif file, or choose one with --images"));
        }
    }
    Ok(bytes)
}

fn frames(array: &Tensor) -> Result<Vec<GrayImage>> {
    let [.., height, width] = *array.shape() else {
        let shape = show_shape(array.shape());
        return Err(refuse(format!("the output is {shape}, expected rows and columns")));
    };
    let grey = array.to_f64().iter().map(|&value| grey(value)).collect::<Result<Vec<u8>>>()?;
    let size = |extent: usize| u32::try_from(extent).ok().filter(|&extent| extent > 0);
    let (Some(columns), Some(rows)) = (size(width), size(height)) else {
        return Err(refuse("the output holds no picture".to_owned()));
    };
    let pictures = grey.chunks(width * height);
    let pictures = pictures.map(|part| GrayImage::from_raw(columns, rows, part.to_vec()));
    pictures.collect::<Option<_>>().ok_or_else(|| Diagnostic::bug("a picture has all its pixels"))
}

fn grey(value: f64) -> Result<u8> {
    if (0.0..=255.0).contains(&value) && value.fract() == 0.0 {
        return Ok(value as u8);
    }
    Err(refuse(format!("the output holds {value}, a grey value is a whole number 0 to 255"))
        .help("write it to a .npy file"))
}

fn refuse(what: String) -> Diagnostic {
    Diagnostic::usage("Q0645", what)
}
