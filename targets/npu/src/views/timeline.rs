//! The replay as a timeline.

use super::{Run, dram_bytes, layers, memory, order};
use crate::isa::Queue;
use crate::replay::Node;
use quincunx_timeline::{Event, EventId, LaneId, Timeline};

/// Lanes (one per queue of each core), events, what lines wait for, the use of the DRAM port and of
/// memories, and the roofline.
pub(crate) fn timeline(run: &Run<'_>) -> Timeline {
    let mut timeline = Timeline::new("cycles");
    timeline.set_hertz(run.arch.hertz);
    add_events(run, &mut timeline);
    add_port(run, &mut timeline);
    let sum = |of: &dyn Fn(Node) -> u64| {
        run.replay.order.iter().map(|&node| of(node)).fold(0, u64::saturating_add)
    };
    let moved = |node| run.work(node).map_or((0, 0), dram_bytes);
    let busy = sum(&|node| if run.uses_dram(node) { run.duration(node) } else { 0 });
    timeline.figure("DRAM port busy", format!("{busy} cycles"));
    timeline.figure("DRAM bytes", sum(&|node| moved(node).0.saturating_add(moved(node).1)));
    timeline.figure("multiplications", sum(&|node| run.products(node)));
    timeline.figure("busy cycles of all queues", sum(&|node| run.duration(node)));
    timeline.set_roofline(layers::roofline(run));
    match memory::maps(run) {
        Some(maps) => maps.into_iter().for_each(|map| timeline.memory(map)),
        None => {
            timeline.figure("memories", "not drawn, the program cuts them into too many pieces")
        }
    }
    timeline
}

fn add_events(run: &Run<'_>, timeline: &mut Timeline) {
    let cores = run.programs.len();
    let lane = |core: usize, queue: Queue| match cores {
        1 => queue.name().to_owned(),
        _ => format!("{core} {queue}"),
    };
    let mut lanes: Vec<[LaneId; 9]> = Vec::new();
    for core in 0..cores {
        lanes.push(Queue::ALL.map(|queue| timeline.lane(lane(core, queue))));
    }
    let mut events: Vec<Vec<Option<EventId>>> =
        run.programs.iter().map(|program| vec![None; program.lines.len()]).collect();
    let holds = order::holds(run);
    for &node in &run.replay.order {
        let event = timeline.event(Event {
            lane: lanes[node.core][run.queue(node).index()],
            start: run.time(node).0,
            duration: run.duration(node),
            name: run.programs[node.core].lines[node.line].inst.mnemonic().to_owned(),
            detail: detail(run, node),
        });
        events[node.core][node.line] = Some(event);
        let task = holds[node.core][node.line].filter(|(_, kind)| *kind == order::TASK);
        for (from, kind) in run.replay.sources(node).iter().copied().chain(task) {
            if let Some(from) = events[from.core][from.line] {
                timeline.depend(from, event, kind);
            }
        }
    }
}

fn detail(run: &Run<'_>, node: Node) -> String {
    let mut detail = format!("line {}", node.number());
    if let Some(map) = &run.programs[node.core].lines[node.line].map {
        detail += &format!(", workload {}", map.wkl);
        if let Some(tile) = map.tile.filter(|&tile| tile >= 0) {
            detail += &format!(", tile {tile}");
        }
    }
    detail
}

/// How many operations use the DRAM port.
fn add_port(run: &Run<'_>, timeline: &mut Timeline) {
    let counter = timeline.counter("DRAM port", "operations");
    let dram = run.replay.order.iter().filter(|&&node| run.uses_dram(node));
    // Ends come before starts, so that a chain of operations never counts two.
    let ends = |&node: &Node| {
        let (start, end) = run.time(node);
        [(start, 1), (end, -1)]
    };
    let mut changes: Vec<(u64, i32)> = dram.flat_map(ends).collect();
    changes.sort_unstable();
    let mut running = 0_i32;
    for (time, change) in changes {
        running = running.saturating_add(change);
        timeline.sample(counter, time, f64::from(running));
    }
}
