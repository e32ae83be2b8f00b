//! All constants of a network, for programs that keep them in local memory: where they are must be
//! known before layers are planned.

use super::lookup::columns;
use super::pack::unit_scalars;
use crate::arch::TcuArch;
use crate::compile::hir::{Const, ConstId, Op, Operand};
use crate::compile::memory::{Misfit, Pool};
use crate::compile::schedule::{LayerInfo, layer_units};

/// The constants that the layers read, those of equal contents once.
///
/// # Errors
/// `Q3087` when they do not fit DRAM1, from which they are loaded.
pub(crate) fn preload(infos: &[LayerInfo<'_>], arch: &TcuArch) -> Result<Pool, Misfit> {
    let mut pool = Pool::new(arch.lanes());
    for (layer, info) in infos.iter().enumerate() {
        preload_layer(info, arch, &mut pool);
        pool.fits(layer, arch)?;
    }
    Ok(pool)
}

fn preload_layer(info: &LayerInfo<'_>, arch: &TcuArch, pool: &mut Pool) {
    let lanes = arch.lanes();
    if let Some(product) = info.product {
        let columns = layer_units(info.layer, product, info.network, arch);
        for (column, units) in columns.iter().enumerate() {
            for unit in units {
                let mut scalars = Vec::new();
                unit_scalars(info.network, lanes, product, unit, column as u32, &mut scalars);
                pool.add(&scalars);
            }
        }
    }
    for &value in &info.constants.splats {
        pool.add(&vec![value; lanes]);
    }
    let constant = |id: &ConstId| &info.network.consts[id.0 as usize];
    for id in &info.constants.rows {
        pool.add(&row_scalars(constant(id), 0, lanes));
    }
    for op in &info.layer.ops {
        match op {
            Op::Binary { other: Operand::Const(id), .. } | Op::Mix { weights: id, .. } => {
                let constant = constant(id);
                for row in 0..constant.rows {
                    pool.add(&row_scalars(constant, row, lanes));
                }
            }
            Op::Lookup { table, .. } => {
                let table = &info.network.tables[table.0 as usize];
                columns(table, arch).for_each(|vectors| {
                    pool.add(&vectors);
                });
            }
            _ => {}
        }
    }
}

/// A row of a constant as whole vectors.
pub(super) fn row_scalars(constant: &Const, row: u32, lanes: usize) -> Vec<i32> {
    let channels = constant.channels as usize;
    let mut scalars = constant.data[row as usize * channels..][..channels].to_vec();
    scalars.resize(channels.next_multiple_of(lanes), 0);
    scalars
}
