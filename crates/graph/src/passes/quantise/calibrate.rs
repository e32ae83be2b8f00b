//! What values are like on calibration data.

use super::histogram::{FEWEST_BINS, Histogram, MOST_BINS};
use super::{Method, Ranges};
use crate::execute::{Session, Settings};
use crate::{Graph, Op};
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{DType, Tensor, Tensors};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes that all histograms together may take, unless they have [`FEWEST_BINS`] already.
const HISTOGRAM_BYTES: usize = 1 << 25;

/// What is known about the numbers of one value.
#[derive(Clone, Debug)]
pub(super) struct Statistics {
    pub(super) low: f64,
    pub(super) high: f64,
    /// Absent when only the range is wanted.
    pub(super) histogram: Option<Histogram>,
}

impl Statistics {
    pub(super) fn empty(bins: Option<usize>) -> Self {
        let histogram = bins.map(Histogram::new);
        Statistics { low: f64::INFINITY, high: f64::NEG_INFINITY, histogram }
    }

    pub(super) fn add(&mut self, x: f64) {
        self.low = self.low.min(x);
        self.high = self.high.max(x);
        if let Some(histogram) = &mut self.histogram {
            histogram.add(x);
        }
    }

    /// Joins what is known about two values, or about parts of one.
    pub(super) fn merge(&mut self, other: Statistics) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        if let (Some(own), Some(more)) = (&mut self.histogram, other.histogram) {
            own.merge(more);
        }
    }

    /// Bins of the histogram.
    pub(super) fn range(&self) -> (f64, f64) {
        if self.low > self.high { (0.0, 0.0) } else { (self.low, self.high) }
    }
}

/// What calibration has found out, by value name.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    pub(super) values: BTreeMap<String, Statistics>,
    pub(super) bins: Option<usize>,
    samples: usize,
}

impl From<&Ranges> for Observations {
    fn from(ranges: &Ranges) -> Self {
        let statistics = |&(low, high): &(f64, f64)| Statistics { low, high, histogram: None };
        let values = ranges.iter().map(|(name, range)| (name.clone(), statistics(range)));
        Observations { values: values.collect(), bins: None, samples: 1 }
    }
}

impl Observations {
    /// Lowest and highest number of a value.
    pub fn range(&self, value: &str) -> Option<(f64, f64)> {
        self.values.get(value).map(Statistics::range)
    }
}

/// Observes the numbers of a float graph, sample by sample. Memory does not grow with the number
/// of samples, and the result does not depend on their order.
pub struct Calibrator<'a> {
    graph: &'a Graph,
    session: Arc<Session>,
    found: Observations,
}

impl<'a> Calibrator<'a> {
    /// A calibrator that has seen nothing. Ranges alone are kept for [`Method::MinMax`], else a
    /// histogram of every value that may be quantised.
    ///
    /// # Errors
    /// Those of [`Session::new`].
    pub fn new(graph: &'a Graph, method: Method) -> Result<Self> {
        let floats = graph.values().filter(|(_, value)| value.dtype == DType::F32).count();
        let most = HISTOGRAM_BYTES / (16 * floats.max(1));
        let bins = most.clamp(FEWEST_BINS, MOST_BINS).next_power_of_two();
        let bins = if bins > most { (bins / 2).max(FEWEST_BINS) } else { bins };
        let bins = (method != Method::MinMax).then_some(bins);
        let session = Arc::new(Session::for_values(graph, Settings::default())?);
        let found = Observations { bins, ..Observations::default() };
        Ok(Calibrator { graph, session, found })
    }

    /// Another calibrator of the same graph and method that has seen nothing.
    #[must_use]
    pub fn another(&self) -> Self {
        let found = Observations { bins: self.found.bins, ..Observations::default() };
        Calibrator { graph: self.graph, session: Arc::clone(&self.session), found }
    }

    /// Runs the graph in f32 on sample number `number` and takes notes.
    ///
    /// # Errors
    /// `Q0313` when a value is not finite; otherwise those of [`Session`].
    pub fn add(&mut self, sample: &Tensors, number: usize) -> Result<()> {
        let session = Arc::clone(&self.session);
        for value in session.values(sample)? {
            let (name, tensor) = value?;
            self.note(name, &tensor, number)?;
        }
        self.found.samples += 1;
        Ok(())
    }

    fn note(&mut self, name: &str, tensor: &Tensor, number: usize) -> Result<()> {
        if self.graph.value_named(name).is_none_or(|id| self.graph[id].constant.is_some()) {
            return Ok(());
        }
        let bins = self.found.bins.filter(|_| self.may_be_quantised(name));
        let statistics = self.found.values.entry(name.to_owned());
        let statistics = statistics.or_insert_with(|| Statistics::empty(bins));
        for x in tensor.to_f64() {
            if !x.is_finite() {
                let message =
                    format!("value \"{name}\" is not finite on calibration sample {number}");
                return Err(Diagnostic::invalid("Q0313", message));
            }
            statistics.add(x);
        }
        Ok(())
    }

    /// Adds what another calibrator of the same graph and method has seen.
    pub fn merge(&mut self, other: Calibrator<'_>) {
        self.found.samples += other.found.samples;
        for (name, statistics) in other.found.values {
            match self.found.values.get_mut(&name) {
                Some(own) => own.merge(statistics),
                None => {
                    self.found.values.insert(name, statistics);
                }
            }
        }
    }

    /// What was seen.
    ///
    /// # Errors
    /// `Q0313` when there was no sample.
    pub fn finish(self) -> Result<Observations> {
        if self.found.samples == 0 {
            return Err(Diagnostic::invalid("Q0313", "the calibration data holds no samples"));
        }
        Ok(self.found)
    }

    /// False for results that are quantised elsewhere or hold no real numbers.
    fn may_be_quantised(&self, name: &str) -> bool {
        let Some(id) = self.graph.value_named(name) else { return false };
        let value = &self.graph[id];
        let op = value.producer.map(|node| &self.graph[node].op);
        value.dtype == DType::F32
            && !op.is_some_and(|op| crate::grid::moves(op) || matches!(op, Op::Quantise(_)))
    }
}

/// Runs the graph in f32 on each sample and records the range of every input and result.
///
/// # Errors
/// `Q0313` when there is no sample, or a value is not finite; otherwise those of [`Session`].
pub fn calibrate(graph: &Graph, samples: impl IntoIterator<Item = Tensors>) -> Result<Ranges> {
    let mut calibrator = Calibrator::new(graph, Method::MinMax)?;
    for (index, sample) in samples.into_iter().enumerate() {
        calibrator.add(&sample, index + 1)?;
    }
    let values = calibrator.finish()?.values;
    Ok(values.into_iter().map(|(name, found)| (name, (found.low, found.high))).collect())
}
