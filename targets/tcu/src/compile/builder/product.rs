//! Matrix products.

use super::Builder;
use super::emit::{State, expect, mismatch, row_of, usage};
use super::objects::{Dimensions, Home, Object, Tag};
use crate::compile::hir::{Bias, ConstId, MatMul, Op, Pair, Plane, Tap, TempId, VarId};
use quincunx_diag::Result;
use std::sync::Arc;

/// Input planes, whether their padding is zeros, and pairs of positions.
type Group = (Arc<[Plane]>, bool, Vec<Pair>);

impl Builder {
    /// Adds products with a matrix to a temp. The rows of the weights, of all objects together, are
    /// the channels of the inputs. An input that is absent is zeros. The bias, a constant with one
    /// row, starts the sum of every position of the temp, in the last block of channels.
    ///
    /// Several calls with the same outputs add up, as long as nothing has read them; every position
    /// of the temp must be an output of one at least.
    ///
    /// # Errors
    /// As [`Builder::emit_load`]; `Q3092` for a second bias and for an output that is named twice.
    pub fn emit_mat_mul(
        &mut self,
        weights: &[&Object],
        bias: Option<&Object>,
        pairs: &[(Option<&Object>, &Object)],
    ) -> Result<()> {
        let Some((_, first)) = pairs.first() else {
            return Err(usage("Q3089", "a product has no outputs".to_owned()));
        };
        let output = self.temp_id("the output", first)?;
        let (rows, channels) = self.check_weights(weights, first)?;
        let row = Dimensions { positions: 1, channels };
        let bias = bias.map(|bias| row_of("the bias", bias, row)).transpose()?;
        let groups = self.group(pairs, output, rows)?;
        let named = self.name_outputs(pairs, first.all)?;
        let at = self.begin_product(output, &named, bias.is_some())?;
        let lanes = self.lanes;
        let blocks = rows.div_ceil(lanes);
        let weights = self.stack(weights, blocks * lanes)?;
        let mut macs = 0;
        let mut taps = Vec::with_capacity(groups.len());
        for (inputs, zero_padding, mut pairs) in groups {
            macs += pairs.len() as u64 * u64::from(rows) * u64::from(channels);
            pairs.sort_by_key(|pair| pair.output);
            let rest =
                if rows.is_multiple_of(lanes) || !zero_padding { lanes } else { rows % lanes };
            taps.push(Tap { weights, inputs, last_lanes: rest, pairs: pairs.into() });
        }
        let open = self.open()?;
        open.layer.macs += macs;
        if let Some(Op::MatMul(product)) = open.layer.ops.get_mut(at) {
            if let Some(row) = bias {
                let tap = product.taps.len() as u32;
                product.bias = Some(Bias { row, tap, block: blocks - 1 });
            }
            product.taps.extend(taps);
        }
        Ok(())
    }

    /// Rows and channels of the weights.
    fn check_weights(&self, weights: &[&Object], output: &Object) -> Result<(u32, u32)> {
        let channels = output.dimensions.channels;
        let mut rows = 0_u32;
        for object in weights {
            expect(object, "the weights", &[Tag::Consts])?;
            if object.dimensions.channels != channels {
                return Err(mismatch("the weights", object, format!("{channels} channels")));
            }
            rows = rows.saturating_add(object.dimensions.positions);
        }
        match rows {
            0 => Err(usage("Q3089", "a product has no weights".to_owned())),
            rows => Ok((rows, channels)),
        }
    }

    /// The pairs of positions of every tensor that is an input; at least one, which may be empty.
    fn group(
        &mut self,
        pairs: &[(Option<&Object>, &Object)],
        output: TempId,
        rows: u32,
    ) -> Result<Vec<Group>> {
        let mut groups: Vec<Group> = Vec::new();
        for (input, to) in pairs {
            if self.temp_id("the output", to)? != output {
                let message = format!("\"{}\" is not the temp of the first output", to.name);
                return Err(usage("Q3089", message).help("emit a product for every temp"));
            }
            let Some(input) = input else { continue };
            expect(input, "the input", &[Tag::Vars])?;
            let expected = Dimensions { positions: to.dimensions.positions, channels: rows };
            if input.dimensions != expected {
                return Err(mismatch("the input", input, expected));
            }
            let Home::Vars { planes, zero_padding } = &input.home else { continue };
            let pair = |at| Pair { input: input.first + at, output: to.first + at };
            let new = (0..to.dimensions.positions).map(pair);
            match groups.iter_mut().find(|group| group.0 == *planes) {
                Some(group) => group.2.extend(new),
                None => groups.push((planes.clone(), *zero_padding, new.collect())),
            }
        }
        if groups.is_empty() {
            groups.push(self.absent(rows)?);
        }
        Ok(groups)
    }

    /// The group of a product all of whose inputs are zeros: it names planes, but no position of
    /// them, so that nothing is read.
    fn absent(&self, rows: u32) -> Result<Group> {
        if self.network.vars.is_empty() {
            return Err(usage(
                "Q3089",
                "a product of zeros in a network without tensors".to_owned(),
            )
            .help("add an input or output first"));
        }
        let plane = Plane { var: VarId(0), block: 0 };
        Ok((
            std::iter::repeat_n(plane, rows.div_ceil(self.lanes) as usize).collect(),
            false,
            Vec::new(),
        ))
    }

    /// The output positions that a call names, each once.
    fn name_outputs(&self, pairs: &[(Option<&Object>, &Object)], all: u32) -> Result<Vec<bool>> {
        let mut named = vec![false; all as usize];
        for (_, to) in pairs {
            for at in to.first..to.first + to.dimensions.positions {
                if std::mem::replace(&mut named[at as usize], true) {
                    let message = format!("position {at} of \"{}\" is named twice", to.name);
                    return Err(usage("Q3092", message).help("add up with another call"));
                }
            }
        }
        Ok(named)
    }

    /// The place of the product that writes a temp, after its state is renewed.
    fn begin_product(&mut self, output: TempId, named: &[bool], bias: bool) -> Result<usize> {
        let open = self.open()?;
        let node = open.layer.name.clone();
        let state = &mut open.states[output.0 as usize];
        match state {
            State::Written => Err(usage(
                "Q3092",
                "a temp is written by one operation, and not after it is read".to_owned(),
            )),
            State::Empty => {
                let at = open.layer.ops.len();
                *state = State::Summing(at, named.to_vec());
                let product = MatMul { node, taps: Vec::new(), bias: None, ordered: true, output };
                open.layer.ops.push(Op::MatMul(product));
                Ok(at)
            }
            State::Summing(at, known) => {
                let at = *at;
                known.iter_mut().zip(named).for_each(|(known, &named)| *known |= named);
                let second =
                    matches!(&open.layer.ops[at], Op::MatMul(product) if product.bias.is_some());
                if bias && second {
                    return Err(usage("Q3092", "a product has one bias".to_owned()));
                }
                Ok(at)
            }
        }
    }

    /// The weights of several objects as one constant with `rows` rows.
    fn stack(&mut self, weights: &[&Object], rows: u32) -> Result<ConstId> {
        let mut data: Vec<i32> = Vec::new();
        let mut channels = 0;
        for object in weights {
            let Home::Consts(id) = object.home else { continue };
            let constant = &self.network.consts[id.0 as usize];
            channels = constant.channels;
            let (first, count) = (object.first as usize, object.dimensions.positions as usize);
            let width = channels as usize;
            data.extend_from_slice(&constant.data[first * width..][..count * width]);
        }
        if let ([object], true) = (weights, data.len() == rows as usize * channels as usize)
            && let (Home::Consts(id), true) = (&object.home, object.is_whole())
        {
            return Ok(*id);
        }
        data.resize(rows as usize * channels as usize, 0);
        let names: Vec<&str> = weights.iter().map(|object| &*object.name).collect();
        Ok(self.add_const(&names.join(" over "), rows, channels, data.into()))
    }
}
