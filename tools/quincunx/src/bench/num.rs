//! The suite `num`: products of matrices and convolutions.

use quincunx_contract::OptionInfo;
use quincunx_contract::bench::{LEVEL, Row, Run, Suite};
use quincunx_diag::Result;
use quincunx_num::{
    ConvShape, Convolution, ImageLayout, Left, Level, Matrix, Packed, multiply_f32,
};
use std::thread;

/// Largest size of a matrix: 64 MiB of sums.
const MAX_SIZE: i128 = 4096;

pub(super) const SUITE: Suite = Suite {
    name: "num",
    doc: "integer and f32 products of square matrices, integer convolutions",
    options: &[
        OptionInfo::whole("size", "Rows and columns of the matrices", "1024", 1..=MAX_SIZE),
        LEVEL,
    ],
    run,
};

fn run(run: &Run) -> Result<Vec<Row>> {
    let (size, level) = (run.options.whole("size"), run.level()?);
    let gmacs = |name: String, value: f64| Row::named(&name)("gmacs", value, "GMAC/s", 2);
    Ok(vec![
        gmacs(format!("u8s8_{size}"), product::<u8>(run, size, level, 0x5a, -0x35)),
        gmacs(format!("s8s8_{size}"), product::<i8>(run, size, level, -0x5a, -0x35)),
        gmacs(format!("s16s16_{size}"), product::<i16>(run, size, level, -0x5a5, 0x353)),
        gmacs(format!("f32_{size}"), product_f32(run, size)),
        gmacs(format!("f32_packed_{size}"), product::<f32>(run, size, level, 0.75, -1.25)),
        gmacs("conv3x3_u8s8_56x56x64".to_owned(), convolution(run, 1, level)),
        gmacs("depthwise3x3_u8s8_56x56x64".to_owned(), convolution(run, 64, level)),
    ])
}

/// Thousand millions of products per second.
fn gmacs(run: &Run, products: usize, work: impl FnMut()) -> f64 {
    run.rate(products as f64 / 1e9, work)
}

/// Every thread multiplies some rows of the left-hand side with the same packed right-hand side.
fn product<L: Left>(run: &Run, size: usize, level: Level, left: L, right: L::Right) -> f64 {
    let left = vec![left; size * size];
    let packed =
        Packed::<L>::for_level(Matrix::row_major(&vec![right; size * size], size, size), level);
    let mut out = vec![L::Sum::default(); size * size];
    let part = size.div_ceil(run.threads.get()) * size;
    gmacs(run, size.pow(3), || {
        divide(out.chunks_mut(part).zip(left.chunks(part)), |(out, left)| {
            packed.multiply_add(Matrix::row_major(left, out.len() / size, size), out, size);
        });
    })
}

fn product_f32(run: &Run, size: usize) -> f64 {
    let (left, right) = (vec![0.75; size * size], vec![-1.25; size * size]);
    let right = Matrix::row_major(&right, size, size);
    let mut out = vec![0.0; size * size];
    let part = size.div_ceil(run.threads.get()) * size;
    gmacs(run, size.pow(3), || {
        divide(out.chunks_mut(part).zip(left.chunks(part)), |(out, left)| {
            let left = Matrix::row_major(left, out.len() / size, size);
            multiply_f32(left, right, 0.0, out, size);
        });
    })
}

/// A layer of a residual network: 64 channels in and out.
fn convolution(run: &Run, groups: usize, level: Level) -> f64 {
    let shape = ConvShape {
        channels: 64,
        size: [56, 56],
        outputs: 64,
        kernel: [3, 3],
        strides: [1, 1],
        dilations: [1, 1],
        pads: [1; 4],
        groups,
    };
    let pixels = 56 * 56;
    let weights = vec![-3_i8; 64 * 9 * 64 / groups];
    let convolution = Convolution::<u8>::for_level(shape, &weights, level);
    let (image, starts, mut out) = (vec![7_u8; pixels * 64], [0; 64], vec![0; pixels * 64]);
    let products = pixels * weights.len();
    if run.threads.get() == 1 {
        return gmacs(run, products, || {
            convolution.run(&image, ImageLayout::ChannelsLast, 0, &starts, &mut out);
        });
    }
    let rows = 56_usize.div_ceil(run.threads.get());
    gmacs(run, products, || {
        divide(out.chunks_mut(rows * 56 * 64).enumerate(), |(index, out)| {
            let first = index * rows;
            convolution.rows(&image, 0, &starts, first..first + out.len() / (56 * 64), out);
        });
    })
}

/// Works on every part, each in a thread of its own; on a single part in this one.
fn divide<T: Send>(parts: impl Iterator<Item = T>, work: impl Fn(T) + Sync) {
    let mut parts: Vec<T> = parts.collect();
    let Some(last) = parts.pop() else { return };
    thread::scope(|scope| {
        let work = &work;
        for part in parts {
            scope.spawn(move || work(part));
        }
        work(last);
    });
}
