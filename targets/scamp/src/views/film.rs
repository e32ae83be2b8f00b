//! An animated GIF of what registers hold after each instruction, on the test picture of the page of
//! steps: a frame for every step, what it writes in a bright rim. The number behind a name is the
//! value of white; minus it is black.

use super::letters::{COLUMNS, ROWS, pixels};
use super::steps::{SIDE, Steps, label};
use crate::arch::ScampArch;
use crate::program::{Named, Program, Space};
use crate::simulate::Settings;
use gif::{Encoder, Frame, Repeat};
use quincunx_diag::{Diagnostic, Result};
use quincunx_report::shortened;
use std::collections::BTreeMap;

/// Most registers of a film.
const MAX_REGISTERS: usize = 64;

/// Pixels of the side of an element, and of that of a pixel of a letter.
const ELEMENT: usize = 4;
const DOT: usize = 2;

/// Registers side by side, pixels between them, and of the lines of text.
const ACROSS: usize = 5;
const GAP: usize = 10;
const LINE: usize = DOT * (ROWS + 3);

/// Pixels of an image, of the place that it takes with its name, and of a letter.
const IMAGE: usize = ELEMENT * SIDE;
const WIDE: usize = IMAGE + GAP;
const HIGH: usize = IMAGE + LINE + GAP;
const LETTER: usize = DOT * (COLUMNS + 1);

/// Hundredths of a second of a frame, and of the last one.
const DELAY: u16 = 100;
const LAST: u16 = 300;

/// Greys go from 0 to 254, with 127 for zero.
const MIDDLE: f64 = 127.0;
const BACKGROUND: u8 = 30;
const FAINT: u8 = 110;
const INK: u8 = 254;
const ORANGE: u8 = 255;

/// The film of a legal program.
///
/// # Errors
/// `Q5046` for a program with too many instructions or registers; what the simulator says.
pub(crate) fn film(program: &Program, arch: &ScampArch, settings: &Settings) -> Result<Vec<u8>> {
    let steps = Steps::new(program, arch, settings)?;
    let names: Vec<Named> = steps.names().into_iter().collect();
    if names.len() > MAX_REGISTERS {
        let message = format!("{} registers, a film shows {MAX_REGISTERS}", names.len());
        return Err(Diagnostic::unsupported("Q5046", message).help("a page of steps shows all"));
    }
    let rows = names.len().div_ceil(ACROSS);
    let (width, height) = (ACROSS * WIDE + GAP, LINE + GAP + rows * HIGH);
    let failed = |error: &dyn std::fmt::Display| {
        Diagnostic::bug(format!("a film of {width} x {height} pixels is not written: {error}"))
    };
    let (wide, high) = u16::try_from(width)
        .and_then(|wide| Ok((wide, u16::try_from(height)?)))
        .map_err(|error| failed(&error))?;
    let mut palette: Vec<u8> = (0..255).flat_map(|grey| [grey; 3]).collect();
    palette.extend([0xff, 0xb3, 0x00]);
    let mut encoder =
        Encoder::new(Vec::new(), wide, high, &palette).map_err(|error| failed(&error))?;
    encoder.set_repeat(Repeat::Infinite).map_err(|error| failed(&error))?;
    let mut held: BTreeMap<Named, Shown> = BTreeMap::new();
    let texts: Vec<String> = steps.texts().collect();
    for (step, text) in texts.iter().enumerate() {
        let written = steps.writes(step);
        held.extend(written.iter().map(|&(named, image)| (named, Shown::new(image))));
        let mut canvas = Canvas { width, pixels: vec![BACKGROUND; width * height] };
        let title = format!("{step}/{} {text}", texts.len() - 1);
        canvas.text(&shortened(&title, (width - 2 * GAP) / LETTER), (GAP, GAP), INK);
        for (index, named) in names.iter().enumerate() {
            let is_written = written.iter().any(|(other, _)| other == named);
            let place = (GAP + index % ACROSS * WIDE, LINE + GAP + index / ACROSS * HIGH);
            canvas.register(*named, held.get(named), is_written, place);
        }
        let mut frame = Frame::from_indexed_pixels(wide, high, canvas.pixels, None);
        frame.delay = if step + 1 == texts.len() { LAST } else { DELAY };
        encoder.write_frame(&frame).map_err(|error| failed(&error))?;
    }
    encoder.into_inner().map_err(|error| failed(&error))
}

/// An image in greys, and the value of white.
struct Shown {
    greys: Vec<u8>,
    white: f64,
}

impl Shown {
    fn new(image: &[f64]) -> Shown {
        let most = image.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
        let white = if most > 0.0 { most } else { 1.0 };
        let grey = |value: &f64| (MIDDLE + value / white * MIDDLE).round() as u8;
        Shown { greys: image.iter().map(grey).collect(), white }
    }

    /// The value of white in few digits.
    fn number(&self) -> String {
        let digits = match self.white {
            100.0.. => 0,
            10.0.. => 1,
            _ => 3,
        };
        format!("{:.digits$}", self.white)
    }
}

/// Pixels of a frame.
struct Canvas {
    width: usize,
    pixels: Vec<u8>,
}

impl Canvas {
    fn fill(&mut self, (left, top): (usize, usize), (wide, high): (usize, usize), colour: u8) {
        for row in top..top + high {
            self.pixels[row * self.width + left..][..wide].fill(colour);
        }
    }

    fn text(&mut self, text: &str, (left, top): (usize, usize), colour: u8) {
        pixels(text, |column, row| {
            self.fill((left + DOT * column, top + DOT * row), (DOT, DOT), colour);
        });
    }

    /// A register with its name above its image; before it is written there is the name only.
    fn register(
        &mut self,
        named: Named,
        shown: Option<&Shown>,
        is_written: bool,
        (left, top): (usize, usize),
    ) {
        let colour = match (shown, is_written) {
            (None, _) => FAINT,
            (_, true) => ORANGE,
            (_, false) => INK,
        };
        let name = match shown {
            Some(shown) if named.0 == Space::Analogue => {
                format!("{} {}", label(named), shown.number())
            }
            _ => label(named),
        };
        self.text(&shortened(&name, IMAGE / LETTER), (left, top), colour);
        let (left, top) = (left, top + LINE);
        if is_written {
            let rim = IMAGE + 2 * DOT;
            self.fill((left - DOT, top - DOT), (rim, rim), ORANGE);
        }
        for (at, grey) in shown.iter().flat_map(|shown| &shown.greys).enumerate() {
            let place = (left + at % SIDE * ELEMENT, top + at / SIDE * ELEMENT);
            self.fill(place, (ELEMENT, ELEMENT), *grey);
        }
    }
}
