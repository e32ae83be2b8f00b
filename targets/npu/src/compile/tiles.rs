//! Mini tiles: how the array walks through the tile of a convolution.
//!
//! Every way of cutting is tried, and the timing model judges. How many channels of a mini tile
//! AL1 takes at a time is no part of the search, since the model does not count later loads: it is
//! as many as fit.

use crate::arch::NpuArch;
use crate::isa::YCutMode;
use crate::time::{al1_words, mini_image, tile_cycles};
use crate::work::{Conv, ConvKind, product};
use rustc_hash::FxHashMap;

/// Mini tiles have up to this many rows and columns: MTI has 5 bits.
const MAX_EXTENT: u32 = 32;
/// Output channels of a mini tile in units of 8.
const MTK0: [u32; 3] = [1, 2, 4];
/// What the rows of the array divide.
pub(crate) const CUTS: [YCutMode; 5] =
    [YCutMode::CUT_H, YCutMode::CUT_W, YCutMode::CUT_K, YCutMode::CUT_C, YCutMode::CUT_N];

/// How the array walks through a tile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mini {
    /// MTK0 and MTC0.
    pub(crate) channels: [u32; 2],
    /// Rows and columns minus 1.
    pub(crate) image: [u32; 2],
}

/// Best mini tiles of the shapes seen so far.
#[derive(Debug, Default)]
pub(crate) struct Minis {
    known: FxHashMap<Key, Option<(Mini, f64)>>,
}

/// What the cycles of a tile depend on: tile, kernel, stride, groups and cut.
type Key = ([u32; 5], [u32; 2], [u32; 2], u32, u8);

impl Minis {
    /// The fastest mini tile of a convolution whose rows are cut in this way, and the cycles of the
    /// tile; `None` where no mini tile fits AL1, or the machine has no such cut.
    pub(crate) fn best(
        &mut self,
        conv: &Conv,
        cut: YCutMode,
        arch: &NpuArch,
    ) -> Option<(Mini, f64)> {
        let key = (conv.tile, conv.kernel, conv.stride, conv.groups, cut.0);
        *self.known.entry(key).or_insert_with(|| search(conv, cut, arch))
    }
}

fn search(conv: &Conv, cut: YCutMode, arch: &NpuArch) -> Option<(Mini, f64)> {
    if cut == YCutMode::CUT_C && conv.kind == ConvKind::Grouped {
        return None;
    }
    let blocks = conv.weight_row()[0].div_ceil(8);
    let blocks = if cut == YCutMode::CUT_C { blocks.div_ceil(arch.rows.max(1)) } else { blocks };
    let mut best: Option<(Mini, f64)> = None;
    let [.., rows, columns] = conv.tile;
    for h in 1..=rows.min(MAX_EXTENT) {
        for w in 1..=columns.min(MAX_EXTENT) {
            let mut tried = Conv { mini_image: [h - 1, w - 1], mini: [1, 1], y_cut: cut, ..*conv };
            let words = al1_words(&tried);
            if words > arch.al1_words.into() {
                break;
            }
            let channels = (u64::from(arch.al1_words) / words).min(blocks.into()) as u32;
            for mtk0 in MTK0 {
                let (hm, wm) = mini_image(&tried);
                let results = product([mtk0, hm, wm].map(u64::from));
                if arch.ol1_results > 0 && results > arch.ol1_results.into() {
                    break;
                }
                tried.mini = [mtk0, channels.min(1023)];
                let cycles = tile_cycles(&tried, arch);
                if best.is_none_or(|(_, least)| cycles < least) {
                    best = Some((Mini { channels: tried.mini, image: tried.mini_image }, cycles));
                }
            }
        }
    }
    best
}
