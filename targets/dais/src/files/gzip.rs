//! Compressed files, as alkaid writes them: gzip around JSON.

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use quincunx_diag::{Diagnostic, Result};
use std::io::{Read as _, Write as _};

/// The first bytes of compressed files.
pub(crate) const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Longest text that is decompressed. Real programs of a million operations are a quarter of it.
const MAX_TEXT: u64 = 1 << 28;

/// Longest text for every byte of a file. Real programs have 3 to 10; gzip can hold a thousand, so that a
/// small file could fill the memory.
const MAX_RATIO: u64 = 64;

/// Text that any file may hold.
const SHORT_TEXT: u64 = 1 << 20;

/// The text of a compressed file.
///
/// # Errors
/// `Q1093` when it is not a gzip file, ends early, is damaged, holds more than 2^28 bytes, far more
/// than its own length, or other bytes than text, or is followed by something else.
pub fn decompress(bytes: &[u8]) -> Result<String> {
    let bad = |message: String| Diagnostic::invalid("Q1093", message);
    let most = MAX_RATIO.saturating_mul(bytes.len() as u64).clamp(SHORT_TEXT, MAX_TEXT);
    let mut decoder = GzDecoder::new(bytes);
    let mut text = Vec::new();
    decoder
        .by_ref()
        .take(most.saturating_add(1))
        .read_to_end(&mut text)
        .map_err(|error| bad(format!("the compressed file is damaged: {error}")))?;
    if text.len() as u64 > most {
        let message = format!("the file holds more than {most} bytes of text");
        return Err(
            Diagnostic::unsupported("Q1093", message).help("decompress it with another tool")
        );
    }
    let rest = decoder.into_inner().len();
    if rest > 0 {
        return Err(bad(format!("{rest} bytes follow the end of the compressed file")));
    }
    String::from_utf8(text).map_err(|_| bad("the compressed file holds no text".to_owned()))
}

/// A text as a compressed file; equal texts give equal files.
///
/// # Errors
/// None that is known: writing to memory does not fail.
pub fn compress(text: &str) -> Result<Vec<u8>> {
    let failed = |error| Diagnostic::bug(format!("compressing in memory failed: {error}"));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).map_err(failed)?;
    encoder.finish().map_err(failed)
}
