//! Every value of a machine, and of the host beside it, against the model as given.

use super::Row;
use crate::executable::{Executable, Trace};
use quincunx_graph::Graph;
use quincunx_graph::passes::Scaled;
use quincunx_report::{Cell, Column, Table};
use quincunx_tensor::{Tensor, Tensors};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How far two arrays are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distance {
    /// Numbers compared.
    pub elements: usize,
    /// Largest difference; infinite where only one of two numbers is there.
    #[serde(with = "any_number")]
    pub max: f64,
    /// Sum of squared differences.
    #[serde(with = "any_number")]
    pub noise: f64,
    /// Sum of squares of the expected numbers.
    #[serde(with = "any_number")]
    pub signal: f64,
}

/// JSON has no infinity and no NaN: such a number is a word.
mod any_number {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Word(String),
    }

    pub(super) fn serialize<S: Serializer>(number: &f64, to: S) -> Result<S::Ok, S::Error> {
        match number.is_finite() {
            true => Written::Number(*number).serialize(to),
            false => Written::Word(number.to_string()).serialize(to),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        match Written::deserialize(from)? {
            Written::Number(number) => Ok(number),
            Written::Word(word) => word.parse().map_err(D::Error::custom),
        }
    }
}

impl Distance {
    /// The distance of arrays with equally many elements; `None` for others.
    pub(crate) fn of(found: &Tensor, expected: &Tensor) -> Option<Distance> {
        Distance::of_scaled(found, 1.0, expected)
    }

    /// The same of the first one times a factor.
    fn of_scaled(found: &Tensor, factor: f64, expected: &Tensor) -> Option<Distance> {
        let (found, expected) = (found.to_f64(), expected.to_f64());
        let same = found.len() == expected.len();
        same.then(|| {
            let mut distance = Distance { elements: found.len(), ..Distance::default() };
            for (found, expected) in found.into_iter().zip(expected) {
                distance.add(found * factor, expected);
            }
            distance
        })
    }

    fn add(&mut self, found: f64, expected: f64) {
        // Equal infinities, and two that are not numbers, are no distance apart.
        if found == expected || found.is_nan() && expected.is_nan() {
            self.signal += if expected.is_finite() { expected * expected } else { 0.0 };
            return;
        }
        let error = (found - expected).abs();
        let error = if error.is_nan() { f64::INFINITY } else { error };
        self.max = self.max.max(error);
        self.noise += error * error;
        self.signal += if expected.is_finite() { expected * expected } else { 0.0 };
    }

    /// That of two images together.
    pub(crate) fn join(self, other: Distance) -> Distance {
        Distance {
            elements: self.elements + other.elements,
            max: self.max.max(other.max),
            noise: self.noise + other.noise,
            signal: self.signal + other.signal,
        }
    }

    /// Root of the mean squared difference.
    pub fn rms(&self) -> f64 {
        (self.noise / self.elements.max(1) as f64).sqrt()
    }

    /// True when signal over noise is less than so many decibels; without a signal nothing is.
    pub fn is_below(&self, decibels: f64) -> bool {
        self.noise * 10.0_f64.powf(decibels / 10.0) > self.signal && self.signal > 0.0
    }

    /// Signal over noise in decibels; `None` without noise, or without anything else.
    pub fn decibels(&self) -> Option<f64> {
        let ratio = self.signal / self.noise;
        (ratio.is_finite() && ratio > 0.0).then(|| 10.0 * ratio.log10())
    }
}

/// One value over all images.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Name of the value.
    pub value: String,
    /// Operator of the model that computes it; `None` for inputs.
    pub op: Option<&'static str>,
    /// It was computed by the machine.
    pub device: bool,
    /// Images on which the simulator equals the golden model; `None` for values of the host.
    pub bit_exact: Option<usize>,
    /// From the model as given; `None` when it has another shape there.
    pub distance: Option<Distance>,
}

/// What one image says about every value, by name.
pub(super) type Layers = BTreeMap<String, Layer>;

/// The model as given, and its values for an image.
pub(super) struct Given<'a> {
    pub(super) model: &'a Graph,
    pub(super) values: &'a Tensors,
}

/// Values that the model as given has too, without its inputs. Those with a scale are compared
/// without it.
pub(super) fn layers(
    Given { model, values: given }: Given<'_>,
    scaled: &BTreeMap<String, Scaled>,
    trace: &Trace,
    golden: &Trace,
) -> Layers {
    let ops: BTreeMap<&str, &'static str> =
        model.nodes().map(|(_, node)| (&*model[node.output].name, node.op.name())).collect();
    let layer = |(name, value): (&String, &Tensor), device: bool| {
        let scale = scaled.get(name);
        let original = scale.map_or(name, |scale| &scale.value);
        let op = Some(*ops.get(&**original)?);
        let exact = || golden.device.get(name).is_some_and(|g| same_bits(value, g));
        let bit_exact = device.then(|| usize::from(exact()));
        let factor = scale.map_or(1.0, |scale| 2.0_f64.powi(-scale.exponent));
        let distance = Distance::of_scaled(value, factor, given.get(original)?);
        Some((name.clone(), Layer { value: name.clone(), op, device, bit_exact, distance }))
    };
    let host = trace.host.iter().filter_map(|entry| layer(entry, false));
    let device = trace.device.iter().filter_map(|entry| layer(entry, true));
    host.chain(device).collect()
}

fn same_bits(a: &Tensor, b: &Tensor) -> bool {
    let (a_values, b_values) = (a.to_f64(), b.to_f64());
    let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect::<Vec<_>>();
    a.shape() == b.shape() && bits(a_values) == bits(b_values)
}

/// All images together, in the order of computation.
pub(super) fn total(images: impl Iterator<Item = Layers>, executable: &Executable) -> Vec<Layer> {
    let mut all = Layers::new();
    for (name, layer) in images.flatten() {
        match all.get_mut(&name) {
            None => drop(all.insert(name, layer)),
            Some(sum) => {
                sum.bit_exact = sum.bit_exact.zip(layer.bit_exact).map(|(a, b)| a + b);
                sum.distance = sum.distance.zip(layer.distance).map(|(a, b)| a.join(b));
            }
        }
    }
    let order = executable.value_order();
    order.iter().filter_map(|name| all.remove(name)).collect()
}

/// The columns of [`push`].
pub(super) fn table() -> Table {
    Table::new(
        "layers",
        vec![
            Column::text("target"),
            Column::text("machine"),
            Column::text("value"),
            Column::text("op"),
            Column::text("place"),
            Column::number("bit_exact"),
            Column::number("elements"),
            Column::number("max_difference"),
            Column::number("rms_difference"),
            Column::number("signal_to_noise").unit("dB"),
        ],
    )
}

/// Adds the values of a machine.
pub(super) fn push(table: &mut Table, row: &Row, layers: &[Layer]) {
    for layer in layers {
        let distance = layer.distance.as_ref();
        table.push(vec![
            row.target.into(),
            row.machine.as_str().into(),
            layer.value.as_str().into(),
            layer.op.into(),
            if layer.device { "device" } else { "host" }.into(),
            layer.bit_exact.map_or(Cell::Empty, Cell::from),
            distance.map_or(Cell::Empty, |d| d.elements.into()),
            distance.map_or(Cell::Empty, |d| Cell::Brief(d.max)),
            distance.map_or(Cell::Empty, |d| Cell::Brief(d.rms())),
            distance.and_then(Distance::decibels).map_or(Cell::Empty, |db| Cell::Real(db, 1)),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(values: &[f64]) -> Tensor {
        Tensor::from_vec(&[values.len()], values.to_vec()).unwrap()
    }

    #[test]
    fn distances_are_of_all_images() {
        let one = Distance::of(&tensor(&[1.0, 2.0]), &tensor(&[1.0, 4.0])).unwrap();
        let two = Distance::of(&tensor(&[3.0, 4.0]), &tensor(&[3.0, 3.0])).unwrap();
        let both = one.join(two);
        assert_eq!((both.elements, both.max, both.noise, both.signal), (4, 2.0, 5.0, 35.0));
        assert_eq!(both.rms(), 1.25_f64.sqrt());
        assert_eq!(both.decibels(), Some(10.0 * 7_f64.log10()));
        assert_eq!(Distance::of(&tensor(&[1.0]), &tensor(&[1.0, 2.0])), None);
    }

    #[test]
    fn what_is_not_finite_is_infinitely_far_from_everything_else() {
        let (nan, infinite) = (f64::NAN, f64::INFINITY);
        let same = Distance::of(&tensor(&[nan, infinite]), &tensor(&[nan, infinite])).unwrap();
        assert_eq!((same.max, same.noise, same.decibels()), (0.0, 0.0, None));
        for (found, expected) in [(nan, 1.0), (1.0, nan), (infinite, 1.0), (-infinite, infinite)] {
            let far = Distance::of(&tensor(&[found]), &tensor(&[expected])).unwrap();
            assert_eq!((far.max, far.decibels()), (infinite, None), "{found} {expected}");
        }
    }
}
