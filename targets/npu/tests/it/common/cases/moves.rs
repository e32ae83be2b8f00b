//! Copies: reordered, between cores, in rings, with padded pixels.

use super::{Case, INT8, codes, images, load, store, tile};
use crate::common::{Random, axes, chain, inst, with};
use quincunx_npu::isa::Inst;
use quincunx_tensor::Tensors;

/// Every order of axes.
pub fn reorders() -> Vec<Case> {
    // Axes of the source (rows, columns, channels) that become those of the destination.
    let orders = ["HWC", "WHC", "HCW", "CHW", "WCH", "CWH"];
    orders
        .iter()
        .enumerate()
        .map(|(order, axes)| {
            let [c, h, w] = [5, 3, 2];
            let extent = |axis: char| match axis {
                'C' => c,
                'H' => h,
                _ => w,
            };
            let axes: Vec<char> = axes.chars().collect();
            let dest = [extent(axes[2]), extent(axes[0]), extent(axes[1])];
            let mut insts: Vec<Inst> = load(INT8, 0, 0, 2, [c, h, w]).to_vec();
            let tensors = [tile("source", [c, h, w]), tile("dest", dest)];
            insts.push(with("dt_cfg", &[("df", INT8)], &tensors));
            let place = [("order", order as i128), ("dtaddr", 4096)];
            insts.push(with("dt_cal", &place, &[images(2, [c, h, w])]));
            insts.extend(store(INT8, 4096, 4096, 2, dest));
            let x = codes(&mut Random::new(order as u64), &[2, c, h, w]);
            let list = x.to_f64();
            let mut expected = Vec::new();
            for n in 0..2 {
                for third in 0..dest[0] {
                    for first in 0..dest[1] {
                        for second in 0..dest[2] {
                            let at = |axis: char| {
                                [first, second, third]
                                    [axes.iter().position(|&a| a == axis).unwrap()]
                            };
                            expected.push(list[((n * c + at('C')) * h + at('H')) * w + at('W')]);
                        }
                    }
                }
            }
            Case {
                name: format!("reorder {order}"),
                programs: vec![chain(insts, None)],
                inputs: Tensors::from([("dram0_0".to_owned(), x)]),
                expected: vec![("dram0_4096".to_owned(), expected)],
            }
        })
        .collect()
}

/// Two cores: core 0 loads a tensor, waits, and sends a part of it; core 1 waits, fetches the other part
/// and stores both.
pub fn two_cores() -> Case {
    let [c, h, w] = [6, 2, 3];
    let shape = [c, h, w];
    let config = |core: i128, syn: i128| [("core", core), ("syn", syn), ("df", INT8)];
    let tensors = [tile("source", shape), tile("dest", shape)];
    let one = [axes("tile", "nchw", &[1, c as i128, h as i128, w as i128])];
    let mut zero: Vec<Inst> = load(INT8, 0, 0, 2, shape).to_vec();
    zero.push(with("so_syn_cfg", &config(1, 3), &tensors));
    zero.push(with("sopw_mov", &[("dtaddr", 1024)], &one));
    // Core 1 says that its regions are set; nothing is moved.
    let none = [axes("tile", "nchw", &[0, c as i128, h as i128, w as i128])];
    let mut first = vec![with("so_syn_cfg", &config(0, 2), &tensors)];
    first.push(with("sopw_mov", &[], &none));
    first.push(with("si_syn_cfg", &config(0, 1), &tensors));
    first.push(with("siaa_mov", &[("staddr", 48), ("dtaddr", 1072)], &one));
    first.extend(store(INT8, 1024, 4096, 2, shape));
    let x = codes(&mut Random::new(3), &[2, c, h, w]);
    let expected = x.to_f64();
    Case {
        name: "two cores".to_owned(),
        programs: vec![chain(zero, None), chain(first, None)],
        inputs: Tensors::from([("dram0_0".to_owned(), x)]),
        expected: vec![("dram0_4096".to_owned(), expected)],
    }
}

/// A tensor that wraps at the end of region 1, a window of a padded tensor in DRAM, and the copy of
/// one image to a place of its own.
pub fn ring() -> Case {
    let (shape, window) = ([5, 4, 7], [3, 2, 4]);
    let regions = inst("ct_bc", &[("len0", 16), ("last0", 15), ("len1", 2), ("last1", 17)]);
    let load = [
        with(
            "lda_cfg",
            &[("df", INT8), ("rs", 1), ("bas", 2)],
            &[tile("source", shape), tile("dest", window)],
        ),
        with(
            "lda_mov",
            &[("rs", 1), ("dbsg", 1), ("staddr", 8 * 7 + 16), ("dtaddr", 2048 - 24)],
            &[images(1, window)],
        ),
    ];
    let store = [
        with(
            "sta_cfg",
            &[("sme", 1), ("df", INT8)],
            &[tile("source", window), tile("dest", window)],
        ),
        with("sta_mov", &[("sbsg", 1), ("staddr", -24), ("dtaddr", 512)], &[images(1, window)]),
    ];
    let x = codes(&mut Random::new(4), &[1, 3, 2, 4]);
    let expected = x.to_f64();
    Case {
        name: "ring".to_owned(),
        programs: vec![chain(load.into_iter().chain(store).collect(), Some(regions))],
        inputs: Tensors::from([("dram2_72".to_owned(), x)]),
        expected: vec![("dram0_512".to_owned(), expected)],
    }
}

/// Pixels of 5 channels padded to 8 bytes in DRAM are pixels of 8 channels without padding.
pub fn padded() -> Case {
    let (five, eight) = ([5, 2, 3], [8, 2, 3]);
    let with_sme = |[config, exec]: [Inst; 2], shape: [usize; 3], sme: i128| {
        let operands = [("df", INT8), ("sme", sme)];
        let config =
            with(config.mnemonic(), &operands, &[tile("source", shape), tile("dest", shape)]);
        [config, exec]
    };
    let mut insts: Vec<Inst> = load(INT8, 0, 0, 1, five).to_vec();
    insts.extend(with_sme(store(INT8, 0, 4096, 1, five), five, 0));
    insts.extend(load(INT8, 4096, 1024, 1, eight));
    insts.extend(store(INT8, 1024, 8192, 1, eight));
    insts.extend(with_sme(load(INT8, 8192, 2048, 1, five), five, 0));
    insts.extend(store(INT8, 2048, 12_288, 1, five));
    let x = codes(&mut Random::new(6), &[1, 5, 2, 3]);
    let list = x.to_f64();
    let mut wide = list.clone();
    wide.resize(48, 0.0);
    let expected = [(4096, list.clone()), (8192, wide), (12_288, list)]
        .map(|(at, list)| (format!("dram0_{at}"), list));
    Case {
        name: "padded".to_owned(),
        programs: vec![chain(insts, None)],
        inputs: Tensors::from([("dram0_0".to_owned(), x)]),
        expected: expected.to_vec(),
    }
}
