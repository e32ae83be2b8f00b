//! Scheduler IR: transfers, workloads, buffers. Facts: `gemini` (`docs/bibliography.md`).

use super::{Json, whole_list};
use quincunx_diag::Problems;
use quincunx_report::{Cell, Column, Table};
use std::collections::{BTreeMap, BTreeSet};

/// A box of a tensor, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Box4 {
    lower: Vec<i64>,
    upper: Vec<i64>,
}

impl Box4 {
    fn of(value: &Json) -> Option<Box4> {
        Box4::ends(value.get("lower"), value.get("upper"))
    }

    fn ends(lower: Option<&Json>, upper: Option<&Json>) -> Option<Box4> {
        let (lower, upper) = (whole_list(lower)?, whole_list(upper)?);
        let right = lower.len() == 4 && upper.len() == 4;
        let ordered = lower.iter().zip(&upper).all(|(low, high)| (0..=*high).contains(low));
        let small = upper.iter().all(|&high| high < 1 << 24);
        (right && ordered && small).then_some(Box4 { lower, upper })
    }

    fn extents(&self) -> [u128; 4] {
        std::array::from_fn(|axis| {
            u128::from(self.upper[axis].abs_diff(self.lower[axis])).saturating_add(1)
        })
    }

    fn volume(&self) -> u128 {
        product(self.extents())
    }

    fn overlaps(&self, other: &Box4) -> bool {
        (0..4).all(|a| self.lower[a] <= other.upper[a] && other.lower[a] <= self.upper[a])
    }

    fn inside(&self, outer: &Box4) -> bool {
        (0..4).all(|a| outer.lower[a] <= self.lower[a] && self.upper[a] <= outer.upper[a])
    }
}

/// The product, at most the largest number.
fn product(factors: impl IntoIterator<Item = u128>) -> u128 {
    factors.into_iter().fold(1, u128::saturating_mul)
}

fn number(value: &Json, key: &str) -> Option<i64> {
    value.get(key).and_then(Json::whole)
}

fn text<'a>(value: &'a Json, key: &str) -> &'a str {
    value.get(key).and_then(Json::text).unwrap_or("")
}

fn items<'a>(value: &'a Json, key: &str) -> &'a [Json] {
    value.get(key).and_then(Json::list).unwrap_or(&[])
}

/// The workloads of all cores, with the core.
fn workloads(file: &Json) -> Vec<(i64, &Json)> {
    let cores = file.members().unwrap_or(&[]).iter();
    let cores = cores.filter_map(|(key, value)| Some((key.parse::<i64>().ok()?, value.list()?)));
    let cores = cores.filter(|(core, _)| *core >= 0);
    cores.flat_map(|(core, list)| list.iter().map(move |work| (core, work))).collect()
}

/// Rules: `Q4072` keys and types, `Q4073` identifiers and references, `Q4074` sizes and boxes,
/// `Q4075` places in L2, `Q4076` places in WL0.
pub(super) fn check(file: &Json, problems: &mut Problems) {
    for key in ["buffersize", "top_batch_cut", "xlen", "ylen"] {
        let right = number(file, key).is_some_and(|value| value > 0);
        problems.rule(right, "Q4072", || format!("{key} is not a positive number"));
    }
    let size = number(file, "buffersize").unwrap_or(0);
    let work = workloads(file);
    let (xlen, ylen) = (number(file, "xlen").unwrap_or(1), number(file, "ylen").unwrap_or(1));
    let cores: BTreeSet<i64> = work.iter().map(|(core, _)| *core).collect();
    let too_many = cores.last().is_some_and(|&last| last >= xlen.saturating_mul(ylen));
    problems.rule(!too_many, "Q4073", || format!("there are more cores than {xlen} by {ylen}"));
    identifiers(&work, problems);
    let empty = Json::Null;
    let dram = file.get("-1").unwrap_or(&empty);
    transfers(dram, &work, problems);
    for (core, workload) in &work {
        workload_rules(*core, workload, size, problems);
    }
}

/// Workload ids of a core count up from 0.
fn identifiers(work: &[(i64, &Json)], problems: &mut Problems) {
    let mut positions: BTreeMap<i64, i64> = BTreeMap::new();
    for (core, workload) in work {
        let position = positions.entry(*core).or_default();
        let id = number(workload, "workload_id");
        problems.rule(id == Some(*position), "Q4073", || {
            format!("workload {position} of core {core} has workload_id {id:?}")
        });
        *position = position.saturating_add(1);
    }
}

/// Which transfers a workload takes, and which it gives.
fn taken(workload: &Json) -> BTreeSet<i64> {
    let weight = workload.get("weight").into_iter();
    let sources = items(workload, "ifmap").iter().chain(weight);
    sources.filter_map(|source| whole_list(source.get("transfer_id"))).flatten().collect()
}

fn transfers(dram: &Json, work: &[(i64, &Json)], problems: &mut Problems) {
    let consumers: BTreeMap<(i64, i64), BTreeSet<i64>> = work
        .iter()
        .filter_map(|(core, workload)| {
            Some(((*core, number(workload, "workload_id")?), taken(workload)))
        })
        .collect();
    let mut given: BTreeSet<i64> = BTreeSet::new();
    let mut give = |id: Option<i64>, what: &str, problems: &mut Problems| match id {
        None => problems.error("Q4072", format!("{what} has no transfer_id")),
        Some(id) => {
            let fresh = given.insert(id);
            problems.rule(fresh, "Q4073", || format!("transfer {id} is given twice"));
        }
    };
    for out in items(dram, "out") {
        give(number(out, "transfer_id"), "an entry of out", problems);
        destinations(out, 0, &consumers, true, problems);
    }
    for (core, workload) in work {
        let own = number(workload, "workload_id").unwrap_or(-1);
        for ofmap in items(workload, "ofmap") {
            give(number(ofmap, "transfer_id"), "an ofmap", problems);
            destinations(ofmap, *core, &consumers, false, problems);
            for destination in items(ofmap, "destination") {
                let to = number(destination, "workload_id");
                let back = text(destination, "type") == "core"
                    && number(destination, "core_id") == Some(*core)
                    && to.is_some_and(|to| to <= own);
                if back {
                    let message =
                        format!("workload {own} gives to workload {to:?}, which is earlier");
                    problems.warn("Q4073", message);
                }
            }
        }
    }
    related(dram, problems);
}

/// The consumer lists the transfer. Splitting upstream sometimes leaves it out for feature maps.
fn destinations(
    giver: &Json,
    core: i64,
    consumers: &BTreeMap<(i64, i64), BTreeSet<i64>>,
    strict: bool,
    problems: &mut Problems,
) {
    let Some(id) = number(giver, "transfer_id") else { return };
    for destination in items(giver, "destination") {
        if text(destination, "type") != "core" {
            continue;
        }
        let core = number(destination, "core_id").unwrap_or(core);
        let Some(to) = number(destination, "workload_id") else { continue };
        match consumers.get(&(core, to)) {
            None => problems
                .error("Q4073", format!("transfer {id} goes to workload {to}, which is missing")),
            Some(taken) if taken.contains(&id) => {}
            Some(_) => {
                let message =
                    format!("workload {to} does not list transfer {id}, which goes to it");
                match strict {
                    true => problems.error("Q4073", message),
                    false => problems.warn("Q4073", message),
                }
            }
        }
    }
}

/// `related_ifmap` of what comes from DRAM and `related_ofmap` of what goes there name each other.
fn related(dram: &Json, problems: &mut Problems) {
    let pairs = |list: &str, key: &str| -> BTreeSet<(i64, i64)> {
        let entries = items(dram, list).iter();
        let pairs = entries.filter_map(|entry| {
            let id = number(entry, "transfer_id")?;
            Some(whole_list(entry.get(key))?.into_iter().map(move |other| (id, other)))
        });
        pairs.flatten().collect()
    };
    let loads = pairs("out", "related_ifmap");
    for (store, load) in pairs("in", "related_ofmap") {
        problems.rule(loads.contains(&(load, store)), "Q4073", || {
            format!("transfer {store} is related to {load}, but not the other way round")
        });
    }
}

fn workload_rules(core: i64, workload: &Json, size: i64, problems: &mut Problems) {
    let id = number(workload, "workload_id").unwrap_or(-1);
    // Identifiers count up from 0.
    let place = format!("workload {id} ($.{core}[{id}])");
    let kind = text(workload, "layer_type");
    problems
        .rule(["pe", "vp"].contains(&kind), "Q4072", || format!("{place} has layer_type {kind:?}"));
    problems.rule(number(workload, "time").is_some(), "Q4072", || format!("{place} has no time"));
    for ifmap in items(workload, "ifmap") {
        tensor(&format!("an ifmap of {place}"), ifmap, problems);
    }
    if kind == "pe" {
        match workload.get("weight") {
            None => problems.error("Q4072", format!("{place} has no weight")),
            Some(weight) => weights(&place, weight, problems),
        }
    }
    buffer(&place, workload, size, problems);
    weight_buffer(&place, workload, problems);
    tiles(&place, workload, problems);
}

/// Size of a tensor of activations: channels are aligned, elements have `bitwidth` bits.
fn tensor(place: &str, value: &Json, problems: &mut Problems) {
    let (Some(align), Some(bits)) = (number(value, "align"), number(value, "bitwidth")) else {
        return problems.error("Q4072", format!("{place} has no align or bitwidth"));
    };
    let Some(area) = Box4::of(value) else {
        return problems.error("Q4074", format!("{place} has no box"));
    };
    problems.rule(align > 0 && align.checked_mul(bits) == Some(64), "Q4074", || {
        format!("{place} has align {align} and bitwidth {bits}, expected a product of 64")
    });
    let (Ok(align @ 1..), Ok(bits)) = (u128::try_from(align), u128::try_from(bits)) else {
        return;
    };
    let [n, c, h, w] = area.extents();
    size(place, value, product([n, c.next_multiple_of(align), h, w, bits]) / 8, problems);
}

fn size(place: &str, value: &Json, expected: u128, problems: &mut Problems) {
    let found = number(value, "size");
    let right = found.and_then(|found| u128::try_from(found).ok()) == Some(expected);
    problems.rule(right, "Q4074", || format!("{place} has size {found:?}, expected {expected}"));
}

/// Size of weights in DRAM and L2; the box is `[K, C, R*S]` behind a 0.
fn weights(place: &str, value: &Json, problems: &mut Problems) {
    let Some(area) = Box4::of(value) else {
        return problems.error("Q4074", format!("the weight of {place} has no box"));
    };
    let [_, k, c, rs] = area.extents();
    let row = product([c.next_multiple_of(8), rs]).saturating_add(32);
    size(&format!("the weight of {place}"), value, product([k, row]), problems);
}

/// Addresses in a memory: start, end, what.
type Spans = Vec<(i64, i64, String)>;

fn disjoint(mut spans: Spans, code: &'static str, place: &str, problems: &mut Problems) {
    spans.sort();
    for pair in spans.windows(2) {
        let apart = pair[0].1 <= pair[1].0;
        problems
            .rule(apart, code, || format!("{} and {} of {place} overlap", pair[0].2, pair[1].2));
    }
}

fn buffer(place: &str, workload: &Json, size: i64, problems: &mut Problems) {
    let mut spans = Spans::new();
    let mut current = Vec::new();
    for (position, entry) in items(workload, "buffer").iter().enumerate() {
        let what = format!("buffer {position}");
        let (Some(address), Some(bytes)) = (number(entry, "address"), number(entry, "size")) else {
            problems.error("Q4072", format!("{what} of {place} has no address or size"));
            continue;
        };
        let end = address.saturating_add(bytes);
        let inside = address >= 0 && bytes >= 0 && end <= size;
        problems.rule(inside, "Q4075", || {
            format!("{what} of {place} lies at {address} to {end}, outside of {size} bytes")
        });
        problems.rule(address % 64 == 0, "Q4075", || {
            format!("{what} of {place} lies at {address}, expected a multiple of 64")
        });
        match text(entry, "type") {
            "weight" => weights(&format!("{what} of {place}"), entry, problems),
            _ => tensor(&format!("{what} of {place}"), entry, problems),
        }
        if entry.get("cur_wl_ifmap") == Some(&Json::Bool(true)) {
            current.extend(Box4::of(entry));
        }
        spans.push((address, end, what));
    }
    disjoint(spans, "Q4075", place, problems);
    for ifmap in items(workload, "ifmap").iter().filter_map(Box4::of) {
        let parts = current.iter().filter(|own| own.inside(&ifmap)).map(Box4::volume);
        let covered = parts.fold(0, u128::saturating_add);
        let held = current.iter().any(|own| ifmap.inside(own)) || covered >= ifmap.volume();
        if !held {
            problems.warn(
                "Q4075",
                format!("an ifmap of {place} is in no buffer that cur_wl_ifmap marks"),
            );
        }
    }
}

/// Units of WL0 and the multiple that addresses keep.
const WL0_UNITS: i64 = 18_944;
const WL0_ALIGN: i64 = 32;

fn weight_buffer(place: &str, workload: &Json, problems: &mut Problems) {
    let entries = match (workload.get("wl0_buffer"), workload.get("wl1_buffer")) {
        (Some(Json::List(list)), _) | (None | Some(Json::Null), Some(Json::List(list))) => {
            &list[..]
        }
        _ => &[],
    };
    let mut spans = Spans::new();
    for (position, entry) in entries.iter().enumerate() {
        let what = format!("weights {position}");
        let (Some(address), Some(units)) = (number(entry, "address"), number(entry, "size")) else {
            problems.error("Q4072", format!("{what} of {place} have no address or size"));
            continue;
        };
        let end = address.saturating_add(units);
        problems.rule(address >= 0 && units >= 0 && end <= WL0_UNITS, "Q4076", || {
            format!("{what} of {place} end at unit {end} of {WL0_UNITS}")
        });
        problems.rule(address % WL0_ALIGN == 0, "Q4076", || {
            format!("{what} of {place} lie at {address}, expected a multiple of {WL0_ALIGN}")
        });
        spans.push((address, end, what));
    }
    disjoint(spans, "Q4076", place, problems);
    let own = text(workload, "layer_name");
    if text(workload, "layer_type") == "pe" {
        let there = entries.iter().any(|entry| text(entry, "layer_name") == own);
        problems.rule(there, "Q4076", || format!("the weights of {own} are not in WL0 in {place}"));
    }
}

/// The tiles divide the output of the workload.
fn tiles(place: &str, workload: &Json, problems: &mut Problems) {
    let whole = match workload.get("workload").and_then(Json::list) {
        Some([lower, upper]) => Box4::ends(Some(lower), Some(upper)),
        _ => None,
    };
    let Some(whole) = whole else {
        return problems.error("Q4074", format!("{place} has no box"));
    };
    let mut boxes: Vec<Box4> = Vec::new();
    let mut volume = 0_u128;
    for index in 0.. {
        let tile =
            workload.get("tile_info").and_then(|info| info.get(&format!("tile_num_{index}")));
        let Some(tile) = tile else { break };
        match Box4::ends(tile.get("ofmap_lower"), tile.get("ofmap_upper")) {
            None => problems.error("Q4074", format!("tile {index} of {place} has no box")),
            Some(area) => {
                let right = area.inside(&whole) && !boxes.iter().any(|other| other.overlaps(&area));
                problems.rule(right, "Q4074", || {
                    format!("tile {index} of {place} overlaps another or leaves the workload")
                });
                volume = volume.saturating_add(area.volume());
                boxes.push(area);
            }
        }
        if index >= 4096 {
            return problems.error("Q4074", format!("{place} has more than 4096 tiles"));
        }
    }
    let members = workload.get("tile_info").and_then(Json::members).map_or(0, <[_]>::len);
    problems.rule(members == boxes.len(), "Q4073", || {
        format!("tiles of {place} are not numbered from 0")
    });
    problems.rule(volume == whole.volume(), "Q4074", || {
        format!("the tiles of {place} hold {volume} of {} elements", whole.volume())
    });
}

pub(super) fn tables(file: &Json) -> Vec<Table> {
    let work = workloads(file);
    let mut summary = Table::properties("schedule");
    let dram = file.get("-1").cloned().unwrap_or(Json::Null);
    let sum = |entries: &[Json]| -> u64 {
        entries
            .iter()
            .filter_map(|entry| number(entry, "size"))
            .map(|size| size.max(0) as u64)
            .fold(0, u64::saturating_add)
    };
    summary.property("workloads", work.len());
    summary.property("transfers from DRAM", items(&dram, "out").len());
    summary.property("bytes from DRAM", sum(items(&dram, "out")));
    summary.property("transfers to DRAM", items(&dram, "in").len());
    for key in ["buffersize", "top_batch_cut", "xlen", "ylen"] {
        summary.property(key, Cell::Integer(number(file, key).unwrap_or(0)));
    }
    let columns = vec![
        Column::number("core"),
        Column::number("workload"),
        Column::text("layer"),
        Column::text("unit"),
        Column::number("tiles"),
        Column::number("time").unit("cycles"),
        Column::number("L2").unit("bytes"),
    ];
    let mut table = Table::new("workloads", columns);
    for (core, workload) in work {
        let tiles = workload.get("tile_info").and_then(Json::members).map_or(0, <[_]>::len);
        table.push(vec![
            Cell::Integer(core),
            Cell::Integer(number(workload, "workload_id").unwrap_or(-1)),
            text(workload, "layer_name").into(),
            text(workload, "layer_type").into(),
            tiles.into(),
            Cell::Integer(number(workload, "time").unwrap_or(0)),
            sum(items(workload, "buffer")).into(),
        ]);
    }
    vec![summary, table]
}
