//! Programs that become pipelines.

use crate::compile::pipeline::{Cutoff, to_pipeline};
use crate::program::{Pipeline, Slot};
use crate::tap::Place;
use crate::time::timed;
use quincunx_contract::Interface;
use quincunx_diag::{Diagnostic, Result};

/// Divides a program into stages, and moves its taps; gives warnings. What is a pipeline stays as
/// it is.
pub(crate) fn stage(
    pipeline: &mut Pipeline,
    interface: &mut Option<Interface>,
    cutoff: Cutoff,
) -> Result<Vec<Diagnostic>> {
    let timed = timed(pipeline);
    let [program] = &timed.stages[..] else { return Ok(Vec::new()) };
    let layers = interface.iter().flat_map(|interface| &interface.layers);
    let taps =
        layers.map(|layer| Place::parse_list(&layer.place)).collect::<Result<Vec<Vec<Place>>>>()?;
    let slot = |place: &Place| place.slot().map(|(_, slot)| slot);
    let roots: Vec<Slot> = taps.iter().flatten().filter_map(slot).collect();
    if roots.iter().any(|root| root.0 as usize >= program.operations.len()) {
        let message = "the interface does not fit the program: a layer reads what is not there";
        return Err(Diagnostic::invalid("Q1125", message));
    }
    let staged = to_pipeline(program, cutoff, &roots)?;
    let moved = |place: Place| {
        let Some((_, slot)) = place.slot() else { return Ok(place) };
        match staged.places[slot.0 as usize] {
            Some((stage, slot)) => Ok(place.to(stage, slot)),
            None => Err(Diagnostic::bug("a tapped operation has no stage")),
        }
    };
    let layers = interface.iter_mut().flat_map(|interface| &mut interface.layers);
    for (layer, places) in layers.zip(taps) {
        let places = places.into_iter().map(moved).collect::<Result<Vec<Place>>>()?;
        layer.place = places.iter().map(Place::to_string).collect::<Vec<_>>().join(", ");
        layer.after = places.iter().filter_map(slot).map(|slot| slot.0 as usize).max().unwrap_or(0);
    }
    *pipeline = staged.pipeline;
    Ok(staged.warnings)
}
