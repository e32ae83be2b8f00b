//! The keys of launch files.

use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileForm {
    pub(super) dpas_launch: Spanned<u32>,
    pub(super) platform: Spanned<String>,
    #[serde(default)]
    pub(super) kernel: Vec<KernelForm>,
    #[serde(default)]
    pub(super) buffer: Vec<BufferForm>,
    #[serde(default)]
    pub(super) layer: Vec<LayerForm>,
    #[serde(default)]
    pub(super) launch: Vec<LaunchForm>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KernelForm {
    pub(super) name: Spanned<String>,
    pub(super) file: Spanned<String>,
    /// Name in the file, where it is another.
    pub(super) entry: Option<Spanned<String>>,
    pub(super) grf_count: Option<u32>,
    pub(super) simd_size: Option<u32>,
    pub(super) slm_size: Option<u32>,
    pub(super) barrier_count: Option<u32>,
    pub(super) inline_data_payload_size: Option<u32>,
    pub(super) local_ids: Option<u32>,
    pub(super) arguments: Option<Vec<Spanned<ArgumentForm>>>,
}

impl KernelForm {
    /// A key that is given and that a zebin has itself.
    pub(super) fn given(&self) -> Option<&'static str> {
        let keys = [
            ("grf_count", self.grf_count.is_some()),
            ("simd_size", self.simd_size.is_some()),
            ("slm_size", self.slm_size.is_some()),
            ("barrier_count", self.barrier_count.is_some()),
            ("inline_data_payload_size", self.inline_data_payload_size.is_some()),
            ("local_ids", self.local_ids.is_some()),
            ("arguments", self.arguments.is_some()),
        ];
        keys.into_iter().find(|(_, given)| *given).map(|(key, _)| key)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArgumentForm {
    pub(super) pointer: Option<u32>,
    pub(super) surface: Option<u32>,
    pub(super) value: Option<u32>,
    pub(super) implicit: Option<Spanned<String>>,
    pub(super) other: Option<String>,
    pub(super) offset: Option<u32>,
    pub(super) size: Option<u32>,
    pub(super) access: Option<Spanned<String>>,
    pub(super) entry: Option<u32>,
    pub(super) from: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BufferForm {
    pub(super) name: Spanned<String>,
    pub(super) element: Spanned<String>,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Option<Vec<usize>>,
    pub(super) offset: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) role: Spanned<String>,
    pub(super) scale: Option<f64>,
    pub(super) zero_point: Option<i64>,
    pub(super) fill: Option<u8>,
    pub(super) data: Option<Spanned<String>>,
    pub(super) data_offset: Option<u64>,
    pub(super) inside: Option<String>,
    pub(super) inside_offset: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LayerForm {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) nodes: Vec<String>,
    #[serde(default)]
    pub(super) macs: u64,
    #[serde(default)]
    pub(super) values: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) tiles: Vec<TileForm>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TileForm {
    pub(super) rows: usize,
    pub(super) channels: usize,
    pub(super) weights: Option<String>,
    pub(super) grf_count: u32,
    pub(super) registers: Option<u32>,
    pub(super) threads: Option<u64>,
    pub(super) cycles: Option<u64>,
    pub(super) limit: Option<String>,
    pub(super) verdict: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LaunchForm {
    pub(super) kernel: Spanned<String>,
    pub(super) layer: Option<String>,
    pub(super) groups: [u32; 3],
    pub(super) threads: u32,
    pub(super) local_size: Option<[u32; 3]>,
    #[serde(default)]
    pub(super) arguments: Vec<Spanned<toml::Value>>,
}
