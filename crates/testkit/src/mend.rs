//! Damage behind what containers check first: hashes, checksums, counts and numbers of lines are
//! made right again, so that readers see what lies behind them.

use crate::{Random, damaged};
use flate2::{Compression, Crc, read::GzDecoder, write::GzEncoder};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::{Cursor, Read, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// Most bytes that are unpacked.
const MAX_UNPACKED: u64 = 1 << 24;

/// As [`damaged`](crate::damaged), in half of the cases inside of the container that the bytes are,
/// which stays sound: compressed text, a file of an archive, a chunk of a picture, words of npu
/// machine code.
pub fn damaged_inside(bytes: &[u8], marks: &[u8], random: &mut Random) -> Vec<u8> {
    if random.coin() {
        return damaged(bytes, marks, random);
    }
    match bytes {
        [0x1f, 0x8b, ..] => {
            let mut inner = Vec::new();
            let unpacked = GzDecoder::new(bytes).take(MAX_UNPACKED).read_to_end(&mut inner);
            unpacked.expect("the bytes were sound");
            gzip(&damaged(&inner, marks, random))
        }
        [b'P', b'K', ..] => {
            let mut entries = entries(bytes);
            let at = random.below(entries.len());
            entries[at].1 = damaged(&entries[at].1, marks, random);
            zip(&entries)
        }
        [0x89, b'P', b'N', b'G', ..] => mended_png(&damaged(bytes, marks, random)),
        [b'Q', b'N', b'P', b'U', _, _, _, _, _, _, _, _, words @ ..] => {
            let words = damaged(words, marks, random);
            let count = (words.len() / 16) as u32;
            let words = &words[..count as usize * 16];
            [&bytes[..8], &count.to_le_bytes(), words].concat()
        }
        _ => damaged(bytes, marks, random),
    }
}

/// Compressed bytes with a right checksum.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes every byte")
}

/// An archive of files with these names, with right checksums and lengths.
pub fn zip(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, bytes) in entries {
        // Names that come twice are left out.
        if archive.start_file(name.as_str(), options).is_ok() {
            archive.write_all(bytes).expect("memory takes every byte");
        }
    }
    archive.finish().expect("memory takes every byte").into_inner()
}

fn entries(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).expect("the bytes were sound");
    let names: Vec<String> =
        archive.file_names().filter_map(Result::ok).map(|name| name.into_owned()).collect();
    let entry = |name: String| {
        let mut bytes = Vec::new();
        let mut entry = archive.by_name(&name).expect("the bytes were sound");
        entry.read_to_end(&mut bytes).expect("the bytes were sound");
        drop(entry);
        (name, bytes)
    };
    names.into_iter().map(entry).collect()
}

/// The checksums of all chunks of a picture are made right.
pub fn mended_png(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 8;
    while let Some(&[a, b, c, d]) = bytes.get(at..at + 4).and_then(|part| part.first_chunk()) {
        let end = (at + 8).saturating_add(u32::from_be_bytes([a, b, c, d]) as usize);
        let Some(summed) = bytes.get(at + 4..end) else { break };
        let mut crc = Crc::new();
        crc.update(summed);
        let sum = crc.sum().to_be_bytes();
        let Some(place) = bytes.get_mut(end..end.saturating_add(4)) else { break };
        place.copy_from_slice(&sum);
        at = end + 4;
    }
    bytes
}

/// Lines of a text are left out, repeated, exchanged or moved, and those that define a numbered
/// value (`%7 = ...`) are numbered again.
pub fn damaged_lines(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..random.range(1, 3) {
        if lines.is_empty() {
            break;
        }
        let (at, other) = (random.below(lines.len()), random.below(lines.len()));
        match random.below(4) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            _ => {
                let line = lines.remove(at);
                lines.insert(other.min(lines.len()), line);
            }
        }
    }
    let mut number = 0;
    for line in &mut lines {
        let rest = line.strip_prefix('%').map(|rest| rest.trim_start_matches(char::is_numeric));
        if let Some(rest) = rest.filter(|rest| rest.starts_with(" =")) {
            *line = format!("%{number}{rest}");
            number += 1;
        }
    }
    lines.join("\n") + "\n"
}

/// Makes the description of a program folder fit its files again: hashes and lengths.
///
/// # Panics
///
/// If there is no such folder.
pub fn mend_folder(folder: &Path) {
    let path = folder.join("program.json");
    let text = std::fs::read(&path).expect("a description");
    let mut description: Value = serde_json::from_slice(&text).expect("a description is JSON");
    let record = |place: &Path, record: &mut Value| {
        let Some(bytes) = record["name"].as_str().and_then(|n| std::fs::read(place.join(n)).ok())
        else {
            return;
        };
        let hash = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        record["sha256"] = Value::String(hash);
        record["bytes"] = bytes.len().into();
    };
    for segment in description["segments"].as_array_mut().into_iter().flatten() {
        let place = folder.join(segment["name"].as_str().expect("a name"));
        let files = segment["files"].as_array_mut().into_iter().flatten();
        files.for_each(|file| record(&place, file));
    }
    if !description["constants"].is_null() {
        record(folder, &mut description["constants"]);
    }
    std::fs::write(path, description.to_string()).expect("the folder can be written");
}
