//! What parts of AMD have, by the beginnings of their names: `amd-parts` (`docs/bibliography.md`).

use super::Estimate;

/// Beginnings of names, with LUTs, flip-flops and multiplier blocks.
const PARTS: &[(&str, u64, u64, u64)] = &[
    ("xc7a35t", 20_800, 41_600, 90),
    ("xc7a100t", 63_400, 126_800, 240),
    ("xc7z020", 53_200, 106_400, 220),
    ("xcku5p", 216_960, 433_920, 1824),
    ("xcku115", 663_360, 1_326_720, 5520),
    ("xcu250", 1_728_000, 3_456_000, 12_288),
    ("xcvu9p", 1_182_240, 2_364_480, 6840),
    ("xcvu13p", 1_728_000, 3_456_000, 12_288),
    ("xczu7ev", 230_400, 460_800, 1728),
    ("xczu9eg", 274_080, 548_160, 2520),
];

/// What a part has, `None` for one that is not in the table.
pub(crate) fn capacity(part: &str) -> Option<Estimate> {
    let part = part.to_ascii_lowercase();
    let known = PARTS.iter().find(|(name, ..)| part.starts_with(name));
    known.map(|&(_, luts, flip_flops, multipliers)| Estimate {
        luts,
        flip_flops,
        multipliers,
        ..Estimate::default()
    })
}
