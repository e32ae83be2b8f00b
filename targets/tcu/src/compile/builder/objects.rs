//! Memory objects.

use super::{Builder, Fate};
use crate::compile::hir::{Binding, ConstId, Order, Plane, TempId};
use quincunx_diag::{Diagnostic, Result};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The memory that an object lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// DRAM0: inputs, outputs and what passes between layers.
    Vars,
    /// DRAM1: constants.
    Consts,
    /// What passes within a layer, in accumulators.
    Temp,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tag::Vars => "Vars",
            Tag::Consts => "Consts",
            Tag::Temp => "Temp",
        })
    }
}

/// Extents of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions {
    /// Positions; the rows of a constant.
    pub positions: u32,
    /// Channels of every position, without padding.
    pub channels: u32,
}

impl fmt::Display for Dimensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} positions of {} channels", self.positions, self.channels)
    }
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Vars { planes: Arc<[Plane]>, zero_padding: bool },
    Consts(ConstId),
    Temp { id: TempId, layer: u32 },
}

/// A tensor in one of the memories, or some positions of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub(super) name: Arc<str>,
    pub(super) home: Home,
    pub(super) dimensions: Dimensions,
    /// The position of the whole tensor that is the first one here.
    pub(super) first: u32,
    /// Positions of the whole tensor.
    pub(super) all: u32,
}

impl Object {
    /// The memory it lies in.
    pub fn tag(&self) -> Tag {
        match self.home {
            Home::Vars { .. } => Tag::Vars,
            Home::Consts(_) => Tag::Consts,
            Home::Temp { .. } => Tag::Temp,
        }
    }

    /// Its extents.
    pub fn dimensions(&self) -> Dimensions {
        self.dimensions
    }

    /// Some of its positions.
    ///
    /// # Errors
    /// `Q3089` when it has fewer, or none are taken.
    pub fn at(&self, positions: Range<u32>) -> Result<Object> {
        if positions.is_empty() || positions.end > self.dimensions.positions {
            let (start, end) = (positions.start, positions.end);
            let message = format!(
                "positions {start} to {end} are not in \"{}\": {}",
                self.name, self.dimensions
            );
            return Err(Diagnostic::usage("Q3089", message));
        }
        let dimensions =
            Dimensions { positions: positions.end - positions.start, ..self.dimensions };
        Ok(Object { dimensions, first: self.first + positions.start, ..self.clone() })
    }

    /// True when these are all positions of the tensor.
    pub(super) fn is_whole(&self) -> bool {
        self.dimensions.positions == self.all
    }
}

/// A constant that may become a parameter or an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    pub(super) name: String,
    pub(super) rows: u32,
    pub(super) channels: u32,
    pub(super) reals: Vec<f64>,
}

impl Pending {
    /// A constant of `rows * channels` numbers, row by row.
    ///
    /// # Errors
    /// `Q3089` for another number of them, or none; `Q3093` for one that is not finite.
    pub fn new(name: &str, rows: u32, channels: u32, reals: Vec<f64>) -> Result<Pending> {
        if rows == 0 || channels == 0 || u64::from(rows) * u64::from(channels) != reals.len() as u64
        {
            let message =
                format!("\"{name}\" has {} numbers for {rows} rows of {channels}", reals.len());
            return Err(Diagnostic::usage("Q3089", message));
        }
        if let Some(bad) = reals.iter().find(|real| !real.is_finite()) {
            let message = format!("\"{name}\" holds {bad}, which no scalar stands for");
            return Err(Diagnostic::usage("Q3093", message));
        }
        Ok(Pending { name: name.to_owned(), rows, channels, reals })
    }
}

impl Builder {
    /// A tensor in DRAM0 that passes data between layers.
    ///
    /// # Errors
    /// `Q3089` without positions or channels.
    pub fn vars(&mut self, name: &str, positions: u32, channels: u32) -> Result<Object> {
        let dimensions = Dimensions { positions, channels };
        self.tensor(name, dimensions, Order::Planar, false)
    }

    /// An input of the network, an `[N, C]` or `[N, C, …]` tensor.
    ///
    /// # Errors
    /// `Q3089` for a shape that is none of these, or without elements.
    pub fn input(&mut self, name: &str, shape: &[usize]) -> Result<Object> {
        let object = self.tensor(name, dimensions_of(name, shape)?, Order::Interleaved, true)?;
        let binding = self.binding(name, shape, &object);
        self.network.inputs.extend(binding);
        Ok(object)
    }

    /// An output of the network, an `[N, C]` or `[N, C, …]` tensor.
    ///
    /// # Errors
    /// As [`Builder::input`].
    pub fn output(&mut self, name: &str, shape: &[usize]) -> Result<Object> {
        let object = self.tensor(name, dimensions_of(name, shape)?, Order::Interleaved, false)?;
        let binding = self.binding(name, shape, &object);
        self.network.outputs.extend(binding);
        Ok(object)
    }

    fn binding(&self, name: &str, shape: &[usize], object: &Object) -> Option<Binding> {
        let Home::Vars { planes, .. } = &object.home else {
            return None;
        };
        let var = planes.first()?.var;
        Some(Binding { name: name.to_owned(), var, shape: shape.to_vec() })
    }

    fn tensor(
        &mut self,
        name: &str,
        dimensions: Dimensions,
        order: Order,
        is_input: bool,
    ) -> Result<Object> {
        let Dimensions { positions, channels } = dimensions;
        check_extents(name, dimensions)?;
        let blocks = channels.div_ceil(self.lanes);
        let var = self.add_var(name, positions, blocks, order);
        let planes = (0..blocks).map(|block| Plane { var, block }).collect();
        let zero_padding = is_input || channels.is_multiple_of(self.lanes);
        let home = Home::Vars { planes, zero_padding };
        Ok(Object { name: name.into(), home, dimensions, first: 0, all: positions })
    }

    /// The object in DRAM1 that a constant becomes.
    ///
    /// # Errors
    /// `Q3093` when it is a parameter already.
    pub fn consts(&mut self, pending: &Pending) -> Result<Object> {
        let Pending { name, rows, channels, reals } = pending;
        self.decide(name, false)?;
        let data = reals.iter().map(|&real| self.data_type.encode(real)).collect();
        let id = self.add_const(name, *rows, *channels, data);
        self.note_constant(name, Fate::Const(id))?;
        let dimensions = Dimensions { positions: *rows, channels: *channels };
        let home = Home::Consts(id);
        Ok(Object { name: name.as_str().into(), home, dimensions, first: 0, all: *rows })
    }

    /// The number that a constant becomes as a parameter of an operation of the open layer.
    ///
    /// # Errors
    /// `Q3093` when it is an object already; `Q3089` when it has several numbers; `Q3092` without an
    /// open layer.
    pub fn parameter(&mut self, pending: &Pending) -> Result<f64> {
        let layer = self.layer_name()?;
        let [real] = pending.reals[..] else {
            let message = format!("\"{}\" has several numbers, a parameter has one", pending.name);
            return Err(Diagnostic::usage("Q3089", message));
        };
        self.note_constant(&pending.name, Fate::Parameter(layer))?;
        Ok(real)
    }
}

pub(super) fn check_extents(name: &str, dimensions: Dimensions) -> Result<()> {
    if dimensions.positions > 0 && dimensions.channels > 0 {
        return Ok(());
    }
    let message = format!("\"{name}\" has {dimensions}");
    Err(Diagnostic::usage("Q3089", message).help("extents are 1 and more"))
}

fn dimensions_of(name: &str, shape: &[usize]) -> Result<Dimensions> {
    let bad = || {
        let message = format!("\"{name}\" has the shape {shape:?}");
        Diagnostic::usage("Q3089", message).help("shapes are [N, C] or [N, C, …]")
    };
    let [n, c, spatial @ ..] = shape else {
        return Err(bad());
    };
    let positions = spatial.iter().try_fold(*n, |all, &extent| all.checked_mul(extent));
    let extent = |extent: Option<usize>| u32::try_from(extent?).ok();
    let positions = extent(positions).ok_or_else(bad)?;
    Ok(Dimensions { positions, channels: extent(Some(*c)).ok_or_else(bad)? })
}
