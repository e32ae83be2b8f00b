//! Machines that are known by name: the six architecture files upstream ships, and the three
//! machines of the benchmark table in `tensil-doc` 1 (`docs/bibliography.md`).

use super::{DataType, TcuArch};
use quincunx_contract::Preset;

/// The presets; the first is the default.
pub const PRESETS: &[Preset] = &[
    Preset { name: "pynqz1", summary: "8x8 for the Pynq Z1, as upstream ships it" },
    Preset { name: "artya7100t", summary: "8x8 for the Arty A7-100T" },
    Preset { name: "cmoda7", summary: "4x4 for the Cmod A7" },
    Preset { name: "ultra96v2", summary: "16x16 for the Ultra96-V2" },
    Preset { name: "zcu104", summary: "32x32 for the ZCU104" },
    Preset { name: "zcu104_uram", summary: "32x32 for the ZCU104 with memories in UltraRAM" },
    Preset { name: "bench8", summary: "8x8 at 150 MHz on an Arty A7-35, of the benchmark table" },
    Preset { name: "bench12", summary: "12x12 at 150 MHz on a Pynq Z1, of the benchmark table" },
    Preset {
        name: "bench16",
        summary: "16x16 at 300 MHz on an Ultra96-V2, of the benchmark table",
    },
];

/// Array size, depths of DRAM0, DRAM1, local memory and accumulators.
type Sizes = (u32, u64, u64, u64, u64);

const KI: u64 = 1 << 10;
const MI: u64 = 1 << 20;

fn sizes(name: &str) -> Option<(Sizes, Option<(u32, &'static str)>)> {
    Some(match name {
        "pynqz1" | "artya7100t" => ((8, MI, MI, 8 * KI, 2 * KI), None),
        "cmoda7" => ((4, 4 * KI, 32 * KI, 4 * KI, 4 * KI), None),
        "ultra96v2" => ((16, 2 * MI, 2 * MI, 20 * KI, 4 * KI), None),
        "zcu104" => ((32, 2 * MI, 2 * MI, 16 * KI, 4 * KI), None),
        "zcu104_uram" => ((32, 2 * MI, 2 * MI, 48 * KI, 20 * KI), None),
        // The weights of ResNet-50, the largest network of the table, need 4 Mi vectors of 8.
        "bench8" => ((8, MI, 4 * MI, 8 * KI, 2 * KI), Some((150, "Arty A7-35"))),
        "bench12" => ((12, MI, 4 * MI, 8 * KI, 2 * KI), Some((150, "Pynq Z1"))),
        "bench16" => ((16, 2 * MI, 2 * MI, 20 * KI, 4 * KI), Some((300, "Ultra96-V2"))),
        _ => return None,
    })
}

/// The machine with this name.
pub(super) fn preset(name: &str) -> Option<TcuArch> {
    let ((array_size, dram0_depth, dram1_depth, local_depth, accumulator_depth), board) =
        sizes(name)?;
    Some(TcuArch {
        name: name.to_owned(),
        data_type: DataType::FP16BP8,
        array_size,
        dram0_depth,
        dram1_depth,
        local_depth,
        accumulator_depth,
        simd_registers_depth: 1,
        stride0_depth: 8,
        stride1_depth: 8,
        number_of_threads: 1,
        thread_queue_depth: 8,
        instruction_bytes: None,
        sample_block_size: None,
        lookup_tables: None,
        lookup_table_depth: None,
        clock_mhz: board.map(|(clock, _)| clock),
        board: board.map(|(_, name)| name.to_owned()),
        unknown: Vec::new(),
    })
}
