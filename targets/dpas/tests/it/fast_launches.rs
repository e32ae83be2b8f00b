//! Prepared kernels of a compiled network, as they are and with one bit changed, do what the executor
//! does.

use crate::common::{Random, arch};
use quincunx_contract::{Log, compiler_of};
use quincunx_dpas::arch::Platform;
use quincunx_dpas::program::Listing;
use quincunx_dpas::program::device::{Device, Launch as DeviceLaunch, Role};
use quincunx_dpas::program::payload::{payload, placement};
use quincunx_dpas::shape::RowStride;
use quincunx_dpas::simulate::Rules;
use quincunx_dpas::simulate::launch::{Buffer, Kernel, Launch, Limits, Memory, run, run_prepared};
use quincunx_dpas::{DeviceArtifact, DpasArch, TARGET, binary};
use quincunx_graph::{Graph, passes};
use quincunx_num::Level;
use quincunx_tensor::{Tensor, Tensors, element_count};
use quincunx_testkit::options;
use std::path::Path;

/// The network of the examples.
fn digits() -> Graph {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/digits.onnx");
    let bytes = std::fs::read(path).unwrap();
    let graph = quincunx_import::read_onnx(bytes.into(), &quincunx_import::Options::default());
    let graph = passes::fold_constants(&graph.unwrap()).unwrap();
    let symbol = graph.inputs().iter().flat_map(|&input| &graph[input].symbols).flatten().next();
    let graph = match symbol.cloned() {
        Some(symbol) => graph.rebind(&symbol, 1).unwrap(),
        None => graph,
    };
    passes::fold_batch_norm(&graph).unwrap()
}

/// The same, quantised on random numbers.
fn quantised(case: u64) -> Graph {
    let graph = digits();
    let mut random = Random::new(case);
    let mut tensors = Tensors::new();
    for &input in graph.inputs() {
        let shape = &graph[input].shape;
        let count = element_count(shape).unwrap();
        let reals: Vec<f32> = (0..count).map(|_| random.real().abs() as f32).collect();
        tensors.insert(graph[input].name.clone(), Tensor::from_vec(shape, reals).unwrap());
    }
    let ranges = passes::calibrate(&graph, [tensors]).unwrap();
    passes::quantise(&graph, &ranges, &passes::Scheme::AFFINE_INT8).unwrap()
}

/// The program for the first random numbers whose scales the compiler takes.
pub(crate) fn compiled(arch: &DpasArch, precision: &str) -> Device {
    let compiler = compiler_of(&TARGET).unwrap();
    let program = (0..100).find_map(|case| {
        let graph = if precision == "int8" { quantised(case) } else { digits() };
        let options = options(&TARGET, &[("precision", precision)]);
        compiler.compile(&graph, arch, &options, &mut Log::default()).ok()
    });
    let program = program.unwrap().program;
    program.as_any().downcast_ref::<DeviceArtifact>().unwrap().device().clone()
}

/// The memory of a program, with random numbers where there are no constants.
fn memory(device: &Device, random: &mut Random) -> Memory {
    let mut memory = Memory::new();
    for (buffer, base) in device.buffers.iter().zip(placement(&device.buffers)) {
        if buffer.inside.is_some() {
            continue;
        }
        let mut bytes: Vec<u8> = (0..buffer.bytes).map(|_| random.next() as u8).collect();
        if let Some(data) = &buffer.data {
            bytes[..data.len()].copy_from_slice(data);
        }
        let writable = buffer.role != Role::Constant;
        memory
            .add(Buffer { name: buffer.name.clone(), base, bytes: bytes.into(), writable })
            .unwrap();
    }
    memory
}

/// Runs a launch with another listing in the executor and prepared; says if it failed.
fn agree(
    (device, launch): (&Device, &DeviceLaunch),
    listing: &Listing,
    arch: &DpasArch,
    memory: &Memory,
    levels: &mut dyn Iterator<Item = Level>,
) -> Option<bool> {
    let own = device.kernels.iter().find(|kernel| kernel.name == launch.kernel).unwrap();
    let arch = DpasArch { grfs: own.environment.grfs, ..arch.clone() };
    let places = placement(&device.buffers);
    let address = |name: &str| {
        let place = device.buffers.iter().position(|buffer| buffer.name == name)?;
        Some(places[place])
    };
    let kernel = Kernel::new(&own.name, listing, &arch, RowStride::Full).ok()?;
    let started = Launch {
        groups: launch.groups.map(|count| count.min(2)),
        threads: launch.threads,
        payload: &payload(own, launch, &address).unwrap(),
        local: &[],
        inline_bytes: own.environment.inline as usize,
        slm_bytes: own.environment.slm as usize,
        dispatch_mask: u32::MAX,
    };
    let (rules, limits) = (Rules::default(), Limits { steps: 6_000 });
    let mut expected = memory.clone();
    let done = run(&kernel, &started, &mut expected, rules, limits).map_err(|e| format!("{e:?}"));
    for level in levels {
        let mut prepared = kernel.prepare(rules, level);
        let mut found = memory.clone();
        let again = run_prepared(&kernel, &mut prepared, &started, &mut found, limits);
        let again = again.map_err(|problem| format!("{problem:?}"));
        assert_eq!(again, done, "{} {level:?}", own.name);
        assert!(found == expected, "{} {level:?}: memory differs", own.name);
    }
    Some(done.is_err())
}

#[test]
fn kernels_of_a_network_give_the_same_memory() {
    for platform in [Platform::XeHpg, Platform::Xe2] {
        let arch = arch(platform);
        let device = compiled(&arch, "int8");
        let memory = memory(&device, &mut Random::new(1));
        for launch in &device.launches {
            let own = device.kernels.iter().find(|kernel| kernel.name == launch.kernel).unwrap();
            let listing = &own.listing;
            let failed = agree((&device, launch), listing, &arch, &memory, &mut Level::available());
            assert!(failed.is_some());
        }
    }
}

#[test]
fn kernels_with_one_changed_bit_do_the_same() {
    let levels: Vec<Level> = Level::available().collect();
    let (mut faults, mut others) = (0, 0);
    for platform in [Platform::XeHpg, Platform::Xe2] {
        let arch = arch(platform);
        let device = compiled(&arch, "int8");
        let memory = memory(&device, &mut Random::new(2));
        for case in 0..500 {
            let mut random = Random::new(18_000 + case);
            let launch = &device.launches[random.below(device.launches.len())];
            let own = device.kernels.iter().find(|kernel| kernel.name == launch.kernel).unwrap();
            let mut code = binary::native::write(&own.listing, platform).unwrap();
            let at = random.below(code.len());
            code[at] ^= 1 << random.below(8);
            let (listing, _) = binary::native::read(&code, platform);
            let one = &mut std::iter::once(levels[case as usize % levels.len()]);
            match agree((&device, launch), &listing, &arch, &memory, one) {
                Some(true) => faults += 1,
                Some(false) => others += 1,
                None => {}
            }
        }
    }
    assert!(faults > 50 && others > 300, "{faults} faults, {others} without");
}
