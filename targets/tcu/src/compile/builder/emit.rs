//! Operations of the open layer.

use super::Builder;
use super::objects::{Dimensions, Home, Object, Tag, check_extents};
use crate::compile::hir::{
    Binary, ConstId, Layer, Op, Operand, Pooling, TempId, Unary, View, Windows,
};
use quincunx_diag::{Diagnostic, Result};

/// The layer under construction.
#[derive(Debug)]
pub(super) struct OpenLayer {
    pub(super) layer: Layer,
    number: u32,
    pub(super) states: Vec<State>,
}

/// What is known of a temp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Empty,
    /// The product at this place of the operations is still being summed; which positions it has.
    Summing(usize, Vec<bool>),
    Written,
}

/// How a window of positions becomes one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pool {
    /// The largest.
    Max,
    /// The sum times this number.
    Average(f64),
}

pub(super) fn usage(code: &'static str, message: String) -> Diagnostic {
    Diagnostic::usage(code, message)
}

/// Refuses an object of another memory.
pub(super) fn expect(object: &Object, role: &str, tags: &[Tag]) -> Result<()> {
    if tags.contains(&object.tag()) {
        return Ok(());
    }
    let names: Vec<String> = tags.iter().map(Tag::to_string).collect();
    let (name, tag) = (&object.name, object.tag());
    Err(usage("Q3088", format!("{role} \"{name}\" is a {tag} object"))
        .help(format!("expected {}", names.join(" or "))))
}

pub(super) fn mismatch(
    role: &str,
    object: &Object,
    expected: impl std::fmt::Display,
) -> Diagnostic {
    let message = format!("{role} \"{}\" has {}", object.name, object.dimensions);
    usage("Q3089", message).help(format!("expected {expected}"))
}

impl Builder {
    /// Begins a layer.
    ///
    /// # Errors
    /// `Q3092` when one is open.
    pub fn begin_layer(&mut self, name: &str) -> Result<()> {
        if let Some(open) = &self.open {
            return Err(usage("Q3092", format!("the layer \"{}\" is open", open.layer.name)));
        }
        let layer = Layer {
            name: name.to_owned(),
            nodes: Vec::new(),
            macs: 0,
            channels: 0,
            temps: Vec::new(),
            row: 1,
            ops: Vec::new(),
        };
        let number = self.network.layers.len() as u32;
        self.open = Some(OpenLayer { layer, number, states: Vec::new() });
        Ok(())
    }

    /// Ends the open layer.
    ///
    /// # Errors
    /// `Q3092` when no layer is open, or it does not end with a save.
    pub fn end_layer(&mut self) -> Result<()> {
        let open = self.open()?;
        if !matches!(open.layer.ops.last(), Some(Op::Save { .. })) {
            let message = format!("the layer \"{}\" does not end with a save", open.layer.name);
            return Err(usage("Q3092", message));
        }
        if let Some(open) = self.open.take() {
            self.add_layer(open.layer);
        }
        Ok(())
    }

    /// The network.
    ///
    /// # Errors
    /// `Q3092` when a layer is open.
    pub fn finish(self) -> Result<crate::compile::hir::Network> {
        match &self.open {
            Some(open) => {
                Err(usage("Q3092", format!("the layer \"{}\" is not ended", open.layer.name)))
            }
            None => Ok(self.network),
        }
    }

    pub(super) fn open(&mut self) -> Result<&mut OpenLayer> {
        self.open.as_mut().ok_or_else(|| usage("Q3092", "no layer is open".to_owned()))
    }

    pub(super) fn layer_name(&mut self) -> Result<String> {
        self.open().map(|open| open.layer.name.clone())
    }

    /// A temp of the open layer. All temps of a layer have the same channels.
    ///
    /// # Errors
    /// `Q3089` for other channels than the layer's, `Q3092` when no layer is open.
    pub fn temp(&mut self, name: &str, positions: u32, channels: u32) -> Result<Object> {
        let dimensions = Dimensions { positions, channels };
        check_extents(name, dimensions)?;
        let open = self.open()?;
        if open.layer.temps.is_empty() {
            open.layer.channels = channels;
        }
        if open.layer.channels != channels {
            let message = format!(
                "\"{name}\" has {channels} channels; those of this layer have {}",
                open.layer.channels
            );
            return Err(usage("Q3089", message));
        }
        let id = TempId(open.layer.temps.len() as u32);
        open.layer.temps.push(positions);
        open.states.push(State::Empty);
        let home = Home::Temp { id, layer: open.number };
        Ok(Object { name: name.into(), home, dimensions, first: 0, all: positions })
    }

    /// The temp of an object of the open layer.
    pub(super) fn temp_id(&mut self, role: &str, object: &Object) -> Result<TempId> {
        expect(object, role, &[Tag::Temp])?;
        let open = self.open()?;
        match object.home {
            Home::Temp { id, layer } if layer == open.number => Ok(id),
            _ => Err(usage("Q3092", format!("{role} \"{}\" is of another layer", object.name))),
        }
    }

    /// A temp that is complete and read.
    fn read(&mut self, object: &Object) -> Result<TempId> {
        let id = self.temp_id("the input", object)?;
        if !object.is_whole() {
            return Err(mismatch("the input", object, "all positions of the temp"));
        }
        let state = &mut self.open()?.states[id.0 as usize];
        let complete = match state {
            State::Empty => false,
            State::Summing(_, named) => named.iter().all(|&named| named),
            State::Written => true,
        };
        if !complete {
            let message = format!("\"{}\" is read before all of it is written", object.name);
            return Err(usage("Q3092", message));
        }
        *state = State::Written;
        Ok(id)
    }

    /// A temp that is written as a whole.
    fn write(&mut self, object: &Object) -> Result<TempId> {
        let id = self.temp_id("the output", object)?;
        if !object.is_whole() {
            return Err(mismatch("the output", object, "all positions of the temp"));
        }
        let state = &mut self.open()?.states[id.0 as usize];
        if *state != State::Empty {
            return Err(usage("Q3092", format!("\"{}\" is written twice", object.name)));
        }
        *state = State::Written;
        Ok(id)
    }

    fn push(&mut self, op: Op) -> Result<()> {
        self.open()?.layer.ops.push(op);
        Ok(())
    }

    /// How a variable is read.
    fn view(&self, object: &Object) -> Result<View> {
        let Home::Vars { planes, zero_padding } = &object.home else {
            return Err(Diagnostic::bug("only variables are viewed"));
        };
        let positions = object.first..object.first + object.dimensions.positions;
        let map = (!object.is_whole()).then(|| positions.map(Some).collect());
        Ok(View { planes: planes.clone(), map, zero_padding: *zero_padding })
    }

    /// Brings a variable into a temp.
    ///
    /// # Errors
    /// `Q3088` for other memories than Vars and Temp, `Q3089` for other dimensions, `Q3092` for a
    /// temp that is written.
    pub fn emit_load(&mut self, input: &Object, output: &Object) -> Result<()> {
        expect(input, "the input", &[Tag::Vars])?;
        expect(output, "the output", &[Tag::Temp])?;
        same_dimensions(input, output)?;
        let output = self.write(output)?;
        let from = self.view(input)?;
        self.push(Op::Load { from, output })
    }

    /// Writes a temp to a variable.
    ///
    /// # Errors
    /// As [`Builder::emit_load`].
    pub fn emit_save(&mut self, input: &Object, output: &Object) -> Result<()> {
        expect(input, "the input", &[Tag::Temp])?;
        expect(output, "the output", &[Tag::Vars])?;
        same_dimensions(input, output)?;
        if !output.is_whole() {
            return Err(mismatch("the output", output, "all positions of the variable"));
        }
        let input = self.read(input)?;
        let Home::Vars { planes, .. } = &output.home else {
            return Err(Diagnostic::bug("only variables are saved to"));
        };
        self.push(Op::Save { input, to: planes.clone(), positions: None })
    }

    /// `output = input + other`; the other operand is a temp, a variable, or a constant with one
    /// row or one for every position.
    ///
    /// # Errors
    /// As [`Builder::emit_load`].
    pub fn emit_add(&mut self, input: &Object, other: &Object, output: &Object) -> Result<()> {
        self.emit_binary(Binary::Add, input, other, output)
    }

    /// `output = input - other`.
    ///
    /// # Errors
    /// As [`Builder::emit_load`].
    pub fn emit_sub(&mut self, input: &Object, other: &Object, output: &Object) -> Result<()> {
        self.emit_binary(Binary::Sub, input, other, output)
    }

    /// `output = input * other`.
    ///
    /// # Errors
    /// As [`Builder::emit_load`].
    pub fn emit_mul(&mut self, input: &Object, other: &Object, output: &Object) -> Result<()> {
        self.emit_binary(Binary::Mul, input, other, output)
    }

    /// `output = op(input, other)`.
    ///
    /// # Errors
    /// As [`Builder::emit_load`].
    pub fn emit_binary(
        &mut self,
        op: Binary,
        input: &Object,
        other: &Object,
        output: &Object,
    ) -> Result<()> {
        same_temps(input, output)?;
        let row = other.tag() == Tag::Consts && other.is_whole() && other.dimensions.positions == 1;
        if !row {
            same_dimensions(input, other)?;
        } else if other.dimensions.channels != input.dimensions.channels {
            return Err(mismatch("the operand", other, input.dimensions));
        }
        let input = self.read(input)?;
        let other = match &other.home {
            Home::Temp { .. } => Operand::Temp(self.read(other)?),
            Home::Vars { .. } => Operand::Vars(self.view(other)?),
            Home::Consts(id) if other.is_whole() => Operand::Const(*id),
            Home::Consts(_) => return Err(mismatch("the operand", other, "a whole constant")),
        };
        let output = self.write(output)?;
        self.push(Op::Binary { op, input, other, output })
    }

    /// `output = max(input, 0)`.
    ///
    /// # Errors
    /// As [`Builder::emit_load`].
    pub fn emit_relu(&mut self, input: &Object, output: &Object) -> Result<()> {
        self.emit_unary(Unary::Relu, input, output)
    }

    /// `output = max(input, input * alpha)`.
    ///
    /// # Errors
    /// As [`Builder::emit_load`].
    pub fn emit_leaky_relu(&mut self, input: &Object, alpha: f64, output: &Object) -> Result<()> {
        let alpha = self.data_type.encode(alpha);
        self.emit_unary(Unary::LeakyRelu { alpha }, input, output)
    }

    /// `output = min(max(input, low), high)`.
    ///
    /// # Errors
    /// As [`Builder::emit_load`].
    pub fn emit_clip(
        &mut self,
        input: &Object,
        [low, high]: [f64; 2],
        output: &Object,
    ) -> Result<()> {
        let (low, high) = (self.data_type.encode(low), self.data_type.encode(high));
        self.emit_unary(Unary::Clip { low, high }, input, output)
    }

    fn emit_unary(&mut self, op: Unary, input: &Object, output: &Object) -> Result<()> {
        same_temps(input, output)?;
        let input = self.read(input)?;
        let output = self.write(output)?;
        self.push(Op::Unary { op, input, output })
    }

    /// `output = input * scale + offset`, the two being constants with one row.
    ///
    /// # Errors
    /// As [`Builder::emit_load`].
    pub fn emit_norm(
        &mut self,
        input: &Object,
        scale: &Object,
        offset: &Object,
        output: &Object,
    ) -> Result<()> {
        same_temps(input, output)?;
        let row = Dimensions { positions: 1, ..input.dimensions };
        let (scale, offset) =
            (row_of("the scale", scale, row)?, row_of("the offset", offset, row)?);
        let input = self.read(input)?;
        let output = self.write(output)?;
        self.push(Op::Norm { scale, offset, input, output })
    }

    /// Joins the positions of a window for every position of the output.
    ///
    /// # Errors
    /// As [`Builder::emit_load`]; `Q3089` for windows that are empty or leave the input, and for
    /// another number of them than output positions.
    pub fn emit_pool(
        &mut self,
        kind: Pool,
        input: &Object,
        windows: &[Vec<u32>],
        output: &Object,
    ) -> Result<()> {
        let windows =
            windows_of(windows.iter().map(|window| window.iter().copied()), input, output)?;
        let kind = match kind {
            Pool::Max => Pooling::Max,
            Pool::Average(multiplier) => {
                Pooling::Average { multipliers: [self.data_type.encode(multiplier)].into() }
            }
        };
        let input = self.read(input)?;
        let output = self.write(output)?;
        self.push(Op::Pool { kind, windows, input, output })
    }

    /// A weighted sum of positions for every position of the output.
    ///
    /// # Errors
    /// As [`Builder::emit_pool`].
    pub fn emit_interpolate(
        &mut self,
        input: &Object,
        windows: &[Vec<(u32, f64)>],
        output: &Object,
    ) -> Result<()> {
        let weights = windows.iter().flatten().map(|&(_, w)| self.data_type.encode(w)).collect();
        let positions = windows.iter().map(|window| window.iter().map(|&(at, _)| at));
        let windows = windows_of(positions, input, output)?;
        let input = self.read(input)?;
        let output = self.write(output)?;
        self.push(Op::Interpolate { windows, weights, input, output })
    }
}

fn same_dimensions(a: &Object, b: &Object) -> Result<()> {
    match a.dimensions == b.dimensions {
        true => Ok(()),
        false => Err(mismatch("the object", b, format!("{} as \"{}\"", a.dimensions, a.name))),
    }
}

fn same_temps(input: &Object, output: &Object) -> Result<()> {
    expect(input, "the input", &[Tag::Temp])?;
    expect(output, "the output", &[Tag::Temp])?;
    same_dimensions(input, output)
}

/// A constant with one row.
pub(super) fn row_of(role: &str, object: &Object, row: Dimensions) -> Result<ConstId> {
    expect(object, role, &[Tag::Consts])?;
    match object.home {
        Home::Consts(id) if object.dimensions == row && object.is_whole() => Ok(id),
        _ => Err(mismatch(role, object, row)),
    }
}

/// Windows whose positions are within the input.
fn windows_of<W: IntoIterator<Item = u32>>(
    windows: impl ExactSizeIterator<Item = W>,
    input: &Object,
    output: &Object,
) -> Result<Windows> {
    let (from, to) = (input.dimensions, output.dimensions);
    if windows.len() != to.positions as usize || from.channels != to.channels {
        let expected = Dimensions { positions: windows.len() as u32, channels: from.channels };
        return Err(mismatch("the output", output, expected));
    }
    let mut all = Windows { starts: vec![0], positions: Vec::new() };
    for window in windows {
        let before = all.positions.len();
        all.positions.extend(window);
        let outside = all.positions[before..].iter().any(|&at| at >= from.positions);
        if outside || all.positions.len() == before {
            let message = format!("a window on \"{}\" is empty or leaves it", input.name);
            return Err(usage("Q3089", message));
        }
        all.starts.push(all.positions.len() as u32);
    }
    Ok(all)
}
