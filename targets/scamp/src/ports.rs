//! Ports: input and output registers.

use crate::isa::Reg;
use crate::options::Chosen;
use crate::program::{Named, Space};
use quincunx_contract::{Grid, Port};

/// Shape of a port that a register is.
pub(crate) fn input_shape((_, register): Named, chosen: &Chosen) -> Vec<usize> {
    match register {
        Reg::IN => vec![1],
        _ => vec![chosen.height, chosen.width],
    }
}

/// Ports named after registers; a 1-bit register whose name an analogue one has is `bit:NAME`.
pub(crate) fn ports(list: &[Named], shape: impl Fn(Named) -> Vec<usize>) -> Vec<Port> {
    let name = |&(space, register): &Named| match space == Space::Digital
        && list.contains(&(Space::Analogue, register))
    {
        true => format!("bit:{register}"),
        false => register.to_string(),
    };
    list.iter()
        .map(|named| Port { name: name(named), shape: shape(*named), grid: Grid::Real })
        .collect()
}
