//! Quantisation scales that a network must have.

use crate::files::layers::{Layer, Layers, Operation};
use crate::files::{At, IrFile};
use quincunx_diag::Result;
use std::collections::BTreeMap;

/// Relative difference of a scale and the factor of a layer: they are inverse in single precision.
const CLOSE: f64 = 1e-6;

/// Checks that scales are those of the network, where both have them.
///
/// # Errors
/// `Q4073` with the path in the file of scales.
pub(super) fn check(layers: &Layers<'_>, file: &IrFile) -> Result<()> {
    let records: BTreeMap<&str, At<'_>> = At::root(&file.value).members()?.into_iter().collect();
    for (name, layer) in &layers.layers {
        let Operation::Conv(conv) = &layer.operation else { continue };
        if let Some(record) = records.get(name)
            && let Some(scales) = record.get("weight_scale")
        {
            let found = scales.list()?.len() as i64;
            if found != conv.weights[0] {
                let message = format!("{found} scales for {} output channels", conv.weights[0]);
                return Err(scales.wrong("Q4073", message));
            }
        }
        if let Some([offset, factor]) = conv.quantiser
            && let Some(record) = producer(&records, name, layer)?
        {
            let same = |key: &str, wanted: f64, invert: bool| -> Result<()> {
                let Some(at) = record.get(key) else { return Ok(()) };
                let found = at.number()?.value();
                let found = if invert { found.recip() } else { -found };
                match (found - wanted).abs() <= CLOSE * wanted.abs() {
                    true => Ok(()),
                    false => {
                        let message = format!("gives {found}, layer {name:?} has {wanted}");
                        Err(at.wrong("Q4073", message))
                    }
                }
            };
            same("output_scale", factor.value(), true)?;
            same("output_zero_point", offset.value(), false)?;
        }
    }
    Ok(())
}

/// The record of what a layer computes, under the name that the node had in the model.
fn producer<'r, 'a>(
    records: &'r BTreeMap<&str, At<'a>>,
    name: &str,
    layer: &Layer<'_>,
) -> Result<Option<&'r At<'a>>> {
    let original = layer.at.get("ori_name").map(|name| name.text()).transpose()?;
    Ok(records.get(original.unwrap_or(name)))
}
