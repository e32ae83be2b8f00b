//! Damaged compiled programs: refused by the verifier, a fault of the simulator, or other numbers;
//! never a panic or an endless run.

use crate::common::Random;
use crate::common::networks::{Net, compiled, grid};
use quincunx_contract::{Engine, Program};
use quincunx_diag::{Diagnostic, any_error};
use quincunx_dpas::arch::Platform;
use quincunx_dpas::binary;
use quincunx_dpas::isa::operands::{ATOMIC, DEPENDENCY, Options};
use quincunx_dpas::program::Statement;
use quincunx_dpas::program::device::Device;
use quincunx_dpas::{DeviceArtifact, DpasArch, Settings};
use quincunx_graph::{Binary, Graph, Op, Pool, PoolKind, Unary, Window};
use quincunx_tensor::Tensors;

/// A convolution, a pool, a sum, and a product whose sums leave.
fn network() -> (Graph, Tensors) {
    let mut net = Net::new(3);
    let x = net.input(&[1, 5, 6, 6], grid(true, 0.05, -3));
    let mut window = Window::new(&[3, 3]);
    window.pads.fill((1, 1));
    let y = net.conv(x, window, 1, 5).unwrap();
    let y = net.node(Op::Quantise(grid(true, 0.1, -3)), &[y]).unwrap();
    let sum = net.node(Op::Binary(Binary::Add), &[x, y]).unwrap();
    let sum = net.node(Op::Unary(Unary::Relu), &[sum]).unwrap();
    let sum = net.node(Op::Quantise(grid(false, 0.05, 0)), &[sum]).unwrap();
    let mut window = Window::new(&[2, 2]);
    window.strides.fill(2);
    let pool = Pool { kind: PoolKind::Max, window, ceil: false };
    let y = net.node(Op::Pool(pool), &[sum]).unwrap();
    let y = net.node(Op::Flatten { axis: 1 }, &[y]).unwrap();
    let w = net.weights(&[45, 10], quincunx_graph::Quantiser::symmetric(true, 8, 0.01));
    let y = net.node(Op::MatMul, &[y, w]).unwrap();
    net.graph.add_output(y);
    let sample = net.sample();
    (net.graph, sample)
}

/// What became of damaged programs.
#[derive(Debug, Default)]
struct Count {
    refused: usize,
    faults: usize,
    same: usize,
    different: usize,
}

/// The program with another device.
fn with(device: Device, arch: &DpasArch) -> DeviceArtifact {
    let settings = Settings {
        step_limit: 200_000,
        dispatch_mask: u32::MAX,
        check_dependencies: true,
        ..Settings::default()
    };
    DeviceArtifact::new(device, None, arch.clone(), settings).unwrap()
}

fn numbers(program: &DeviceArtifact, inputs: &Tensors) -> Result<Vec<f64>, Diagnostic> {
    let outputs = program.load(Engine::Exec)?.run(inputs)?;
    Ok(outputs.into_values().flat_map(|value| value.to_f64()).collect())
}

impl Count {
    fn judge(&mut self, device: Device, arch: &DpasArch, inputs: &Tensors, expected: &[f64]) {
        let program = with(device, arch);
        if any_error(&program.verify()) {
            self.refused += 1;
            return;
        }
        match numbers(&program, inputs) {
            Err(_) => self.faults += 1,
            Ok(found) if found == expected => self.same += 1,
            Ok(_) => self.different += 1,
        }
    }
}

/// An instruction less, or one with another bit.
fn damaged(device: &Device, random: &mut Random, platform: Platform) -> Option<Device> {
    let mut device = device.clone();
    let kernel = random.below(device.kernels.len());
    let items = &mut device.kernels[kernel].listing.items;
    let at = random.below(items.len());
    if random.chance(30) {
        items.remove(at);
        return Some(device);
    }
    let mut code = binary::native::write(&device.kernels[kernel].listing, platform).unwrap();
    let bit = random.below(128);
    code[16 * at + bit / 8] ^= 1 << (bit % 8);
    let (listing, _) = binary::native::read(&code, platform);
    let same = listing.items.len() == device.kernels[kernel].listing.items.len();
    device.kernels[kernel].listing = listing;
    same.then_some(device)
}

#[test]
fn damaged_programs_are_refused_or_give_other_numbers() {
    let (graph, inputs) = network();
    for platform in [Platform::XeHpg, Platform::Xe2] {
        let arch = crate::common::arch(platform);
        let program = compiled(&graph, &arch).program;
        let artifact = program.as_any().downcast_ref::<DeviceArtifact>().unwrap();
        let device = artifact.device();
        let expected = numbers(&with(device.clone(), &arch), &inputs).unwrap();
        let (mut random, mut count) = (Random::new(1), Count::default());
        let mut cases = 0;
        while cases < 200 {
            if let Some(damaged) = damaged(device, &mut random, platform) {
                count.judge(damaged, &arch, &inputs, &expected);
                cases += 1;
            }
        }
        let Count { refused, faults, different, .. } = count;
        assert!(refused > 40 && faults > 40 && different > 20, "{count:?}");
    }
}

/// Every wait that is left out is missed, but those at the ends of blocks, where everything is waited
/// for.
#[test]
fn waits_that_are_left_out_are_missed() {
    let (graph, _) = network();
    for platform in [Platform::XeHpg, Platform::Xe2] {
        let arch = crate::common::arch(platform);
        let program = compiled(&graph, &arch).program;
        let artifact = program.as_any().downcast_ref::<DeviceArtifact>().unwrap();
        let (mut missed, mut accepted) = (0, Vec::new());
        for (kernel, own) in artifact.device().kernels.iter().enumerate() {
            for (at, item) in own.listing.items.iter().enumerate() {
                let options = item.statement.options();
                let is_plain = options.0 & DEPENDENCY != 0 && options.0 & ATOMIC == 0;
                if !is_plain
                    || !matches!(item.statement, Statement::Systolic(_) | Statement::Vector(_))
                {
                    continue;
                }
                let mut device = artifact.device().clone();
                let item = &mut device.kernels[kernel].listing.items[at];
                item.statement = item.statement.with_options(Options(options.0 & !DEPENDENCY));
                let found = with(device, &arch).verify();
                match found.is_empty() {
                    false => missed += 1,
                    true => accepted.push((own.name.clone(), at)),
                }
            }
        }
        assert!(missed > 200 && accepted.len() * 10 < missed, "{missed} {accepted:?}");
    }
}
