//! Golden kernels: machine code of vector instructions, spellings of messages, a kernel that runs.

use crate::common::{arch, golden, listing};
use quincunx_dpas::arch::Platform;
use quincunx_dpas::binary;
use quincunx_dpas::isa::vector;
use quincunx_dpas::program::{Listing, Statement};
use quincunx_dpas::shape::RowStride;
use quincunx_dpas::simulate::Rules;
use quincunx_dpas::simulate::launch::{Buffer, Kernel, Launch, Limits, Memory, run};
use quincunx_dpas::text::{self, from_hex, to_hex};
use quincunx_isa::Coverage;
use serde_json::Value;

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn machine_code_of_vector_instructions() {
    let mut coverage = Coverage::new(&vector::TABLE);
    let mut faults = Vec::new();
    for platform in [Platform::XeHpg, Platform::XeHpc] {
        let file = golden(&format!("kernel_native_{}", platform.name()));
        for case in file["cases"].as_array().unwrap() {
            let text = |key: &str| case[key].as_str().unwrap();
            for source in [text("asm"), text("disasm")] {
                let bytes = binary::native::write(&listing(source, platform), platform).unwrap();
                if to_hex(&bytes) != text("hex") {
                    faults.push(format!("{source}: {} for {}", to_hex(&bytes), text("hex")));
                }
            }
            let (read, warnings) = binary::native::read(&from_hex(text("hex")).unwrap(), platform);
            let printed = squeeze(&text::native::print(&read));
            if printed != squeeze(text("disasm")) {
                faults.push(format!("{printed} for {}; {warnings:?}", text("disasm")));
            }
            if let Statement::Vector(inst) = &read.items[0].statement {
                coverage.mark(inst.row());
            }
        }
    }
    assert_eq!(faults, Vec::<String>::new());
    // Immediates, jumps and the like have cases elsewhere.
    assert!(coverage.missing().len() < 50, "{:?}", coverage.missing());
}

#[test]
fn messages_have_two_spellings() {
    for platform in [Platform::XeHpg, Platform::XeHpc] {
        let file = golden(&format!("kernel_ldst_{}", platform.name()));
        for case in file["cases"].as_array().unwrap() {
            for key in ["ldst", "send"] {
                let source = case[key].as_str().unwrap();
                let bytes = binary::native::write(&listing(source, platform), platform).unwrap();
                assert_eq!(to_hex(&bytes), case["hex"].as_str().unwrap(), "{source}");
            }
        }
    }
}

fn lines(value: &Value) -> String {
    let line = |line: &Value| line.as_str().unwrap().to_owned();
    value.as_array().unwrap().iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_kernel_in_text_and_machine_code() {
    let file = golden("kernel_programs");
    let platform = Platform::XeHpc;
    for key in ["text", "disasm"] {
        let bytes =
            binary::native::write(&listing(&lines(&file[key]), platform), platform).unwrap();
        assert_eq!(to_hex(&bytes), file["hex"].as_str().unwrap());
    }
    let (read, warnings) =
        binary::native::read(&from_hex(file["hex"].as_str().unwrap()).unwrap(), platform);
    assert_eq!(warnings, Vec::new());
    assert_eq!(squeeze(&text::native::print(&read)), squeeze(&lines(&file["disasm"])));
}

/// Runs the kernel of a case; gives c.
fn product(kernel: &Listing, case: &Value) -> Vec<u8> {
    let kernel = Kernel::new("gemm", kernel, &arch(Platform::XeHpc), RowStride::Full).unwrap();
    let bytes = |key: &str| from_hex(case[key].as_str().unwrap()).unwrap();
    let number = |key: &str| case[key].as_u64().unwrap() as u32;
    let (mut memory, mut payload) = (Memory::new(), Vec::new());
    let c = vec![0xaa; bytes("c").len()];
    for (at, (name, bytes)) in
        [("a", bytes("a")), ("b", bytes("b")), ("c", c)].into_iter().enumerate()
    {
        let base = (at as u64 + 1) << 32;
        let buffer =
            Buffer { name: name.to_owned(), base, bytes: bytes.into(), writable: name == "c" };
        memory.add(buffer).unwrap();
        payload.extend(base.to_le_bytes());
    }
    ["M", "N", "K"].iter().for_each(|key| payload.extend(number(key).to_le_bytes()));
    payload.resize(64, 0);
    let groups = std::array::from_fn(|at| case["groups"][at].as_u64().unwrap() as u32);
    let launch = Launch {
        groups,
        threads: number("threads_per_group"),
        payload: &payload,
        local: &[],
        inline_bytes: 64,
        slm_bytes: 0,
        dispatch_mask: u32::MAX,
    };
    let limits = Limits { steps: 1_000_000 };
    run(&kernel, &launch, &mut memory, Rules::default(), limits).unwrap();
    memory.buffer("c").unwrap().bytes.to_vec()
}

#[test]
fn a_kernel_multiplies_matrices() {
    let file = golden("kernel_programs");
    let kernel = listing(&lines(&file["text"]), Platform::XeHpc);
    for case in file["cases"].as_array().unwrap() {
        assert_eq!(to_hex(&product(&kernel, case)), case["c"].as_str().unwrap());
    }
}
