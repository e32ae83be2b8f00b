use crate::{Event, LaneId, Step, Timeline};
use quincunx_report::Heading;

fn event(lane: LaneId, start: u64, duration: u64, name: &str) -> Event {
    Event { lane, start, duration, name: name.to_owned(), detail: String::new() }
}

/// A load of 10, work of 20 that waits for it, and a short second load.
fn example() -> Timeline {
    let mut timeline = Timeline::new("cycles");
    let (load, work) = (timeline.lane("load"), timeline.lane("work"));
    let first = timeline.event(event(load, 0, 10, "ld"));
    let second = timeline.event(event(work, 10, 20, "mul"));
    timeline.depend(first, second, "token");
    timeline.event(event(load, 10, 5, "ld"));
    let third = timeline.event(event(work, 30, 10, "mul"));
    timeline.depend(first, third, "token");
    timeline
}

#[test]
fn the_critical_path_follows_what_ended_last() {
    let timeline = example();
    let path = timeline.critical_path();
    let reasons: Vec<_> =
        path.iter().map(|step: &Step| (step.event.index(), step.reason)).collect();
    assert_eq!(reasons, [(0, "start"), (1, "token"), (3, "order")]);
    assert_eq!(timeline.total(), 40);
}

#[test]
fn usage_says_who_waits_for_whom() {
    let usage = example().usage();
    assert_eq!((usage[0].events, usage[0].busy, usage[0].critical), (2, 15, 10));
    assert_eq!((usage[1].events, usage[1].busy, usage[1].critical), (2, 30, 30));
    assert_eq!(usage[1].waits, [(LaneId(0), 10)]);
    assert!(usage[0].waits.is_empty());
}

#[test]
fn an_empty_timeline_has_no_path() {
    let timeline = Timeline::new("ns");
    assert!(timeline.critical_path().is_empty() && timeline.usage().is_empty());
    assert!(timeline.chart(20).contains("0 ns"));
    assert_eq!(timeline.listing(0..5, None), "");
    assert!(serde_json::from_str::<serde_json::Value>(&timeline.perfetto()).is_ok());
}

#[test]
fn the_chart_shows_how_busy_lanes_are() {
    let text = example().chart(15);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "load │███·····│");
    assert_eq!(lines[1], "work │··██████│");
    assert!(lines[2].ends_with("40 cycles"));
}

#[test]
fn the_listing_draws_waiting_and_working() {
    let text = example().listing(0..2, None);
    let bars: Vec<&str> = text.lines().collect();
    assert!(bars[0].contains("==========  "), "{text}");
    assert!(bars[1].contains("----------===================="), "{text}");
}

#[test]
fn perfetto_has_threads_events_and_arrows() {
    let mut timeline = example();
    let counter = timeline.counter("words", "B");
    timeline.sample(counter, 3, 2.5);
    let trace: serde_json::Value = serde_json::from_str(&timeline.perfetto()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert_eq!((of("M"), of("X"), of("s"), of("f"), of("C")), (4, 4, 2, 2, 1));
    // The arrow leaves inside its event, which lasts until 10.
    let start = events.iter().find(|event| event["ph"] == "s").unwrap();
    assert_eq!(start["ts"], 9);
}

#[test]
fn hostile_names_do_not_leave_the_script() {
    let mut timeline = Timeline::new("cycles");
    let lane = timeline.lane("</script><b>");
    timeline.event(event(lane, 0, 1, "</script>"));
    let page = timeline.html(&Heading::new("a </script> b"));
    // That of the data and that of the script.
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(page.contains("\"unit\":\"cycles\""));
}

/// The data of the only timeline of a page.
fn data(page: &str) -> serde_json::Value {
    let (_, data) = page.split_once("<script type=\"application/json\">").unwrap();
    serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_page_can_have_several_timelines() {
    let [one, two] = ["one", "two <b>"].map(|name| example().element(name));
    for element in [&one, &two] {
        assert!(!element.contains(" id="), "{element}");
        let data = data(element);
        assert_eq!(data["events"].as_array().unwrap().len(), example().events().len());
        // What an event waits for lies together.
        let waits = data["dependencies"].as_array().unwrap().iter();
        assert!(waits.map(|wait| wait[1].as_u64().unwrap()).is_sorted());
    }
    assert!(two.contains("aria-label=\"two &lt;b&gt;\""));
}

/// Places of the steps of the critical path and why.
fn path(timeline: &Timeline) -> Vec<(usize, &'static str)> {
    timeline.critical_path().iter().map(|step| (step.event.index(), step.reason)).collect()
}

#[test]
fn events_need_not_be_added_in_the_order_of_time() {
    let mut timeline = Timeline::new("cycles");
    let lane = timeline.lane("a");
    timeline.event(event(lane, 10, 10, "second"));
    timeline.event(event(lane, 0, 10, "first"));
    timeline.event(event(lane, 25, 0, "third"));
    assert_eq!(path(&timeline), [(1, "start"), (0, "order"), (2, "order")]);
    let usage = &timeline.usage()[0];
    assert_eq!((usage.busy, usage.critical), (20, 20));
    // Nothing says what the lane waits for from 20 to 25.
    assert!(usage.waits.is_empty());
}

/// Work that starts while what it depends on still runs counts that only until it starts, so that
/// no share exceeds the whole.
#[test]
fn overlapping_work_is_counted_once() {
    let mut timeline = Timeline::new("cycles");
    let (load, work) = (timeline.lane("load"), timeline.lane("work"));
    let first = timeline.event(event(load, 0, 100, "ld"));
    let second = timeline.event(event(work, 40, 70, "mul"));
    timeline.event(event(load, 50, 10, "mark"));
    timeline.depend(first, second, "stream");
    assert_eq!(path(&timeline), [(0, "start"), (1, "stream")]);
    let usage = timeline.usage();
    assert_eq!((usage[0].busy, usage[0].critical), (100, 40));
    assert_eq!((usage[1].busy, usage[1].critical), (70, 70));
    assert_eq!(usage[1].waits, [(LaneId(0), 40)]);
}

#[test]
fn a_later_event_is_no_cause_and_has_no_arrow() {
    let mut timeline = Timeline::new("cycles");
    let (a, b) = (timeline.lane("a"), timeline.lane("b"));
    let late = timeline.event(event(a, 50, 1, "late"));
    let early = timeline.event(event(b, 0, 60, "early"));
    timeline.depend(late, early, "odd");
    assert_eq!(path(&timeline), [(1, "start")]);
    assert!(!timeline.perfetto().contains("\"cat\""));
}

#[test]
fn events_without_duration_are_steps_too() {
    let mut timeline = Timeline::new("cycles");
    let lane = timeline.lane("a");
    let events: Vec<_> = (0..3).map(|_| timeline.event(event(lane, 0, 0, "nop"))).collect();
    timeline.depend(events[0], events[2], "token");
    assert_eq!(path(&timeline), [(0, "start"), (2, "token")]);
    assert_eq!(timeline.tracks().names, ["a"]);
    assert_eq!((timeline.total(), timeline.usage()[0].busy), (0, 0));
    assert!(timeline.chart(4).contains("0 cycles"));
}

/// A thread of a trace shows only events that do not overlap, and an arrow that leaves before it
/// arrives.
#[test]
fn overlapping_events_get_tracks_of_their_own() {
    let mut timeline = Timeline::new("cycles");
    let (a, b) = (timeline.lane("a"), timeline.lane("b"));
    let long = timeline.event(event(a, 0, 10, "long"));
    timeline.event(event(a, 5, 10, "across"));
    timeline.event(event(a, 10, 1, "after"));
    let work = timeline.event(event(b, 3, 1, "work"));
    timeline.depend(long, work, "stream");
    let tracks = timeline.tracks();
    assert_eq!(tracks.names, ["a", "a (2)", "b"]);
    assert_eq!(tracks.of, [0, 1, 0, 2]);
    let trace: serde_json::Value = serde_json::from_str(&timeline.perfetto()).unwrap();
    let ends = trace["traceEvents"].as_array().unwrap().iter();
    let times: Vec<_> = ends.filter(|e| e["cat"] == "d").map(|e| e["ts"].clone()).collect();
    assert_eq!(times, [3, 3]);
}

#[test]
fn the_largest_times_and_odd_samples_are_written() {
    let mut timeline = Timeline::new("cycles");
    let lane = timeline.lane("a");
    timeline.event(event(lane, u64::MAX - 1, 9, "last"));
    let counter = timeline.counter("power", "W");
    timeline.sample(counter, 0, f64::NAN);
    timeline.sample(counter, 1, 2.0);
    let trace: serde_json::Value = serde_json::from_str(&timeline.perfetto()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert_eq!(events.iter().filter(|event| event["ph"] == "C").count(), 1);
    assert!(events.iter().any(|event| event["ts"] == u64::MAX - 1));
    assert_eq!(timeline.usage()[0].busy, 1);
    assert!(timeline.chart(8).contains("18446744073709551615 cycles"));
    assert!(timeline.listing(0..1, Some(80)).contains("last"));
}

/// Files of a million events are large: what says nothing is not written.
#[test]
fn perfetto_leaves_out_what_is_empty() {
    let mut timeline = Timeline::new("cycles");
    let lane = timeline.lane("unit");
    for start in 0..1000 {
        let (name, detail) = ("op".to_owned(), String::new());
        timeline.event(Event { lane, start, duration: 1, name, detail });
    }
    let text = timeline.perfetto();
    assert_eq!(text.matches("\"args\"").count(), 2, "those of the lane only");
    assert!(text.len() < 65 * 1000, "{}", text.len());
}

/// Names of trace events of a phase, with their threads.
fn traced(text: &str, phase: &str) -> Vec<(String, u64)> {
    let trace: serde_json::Value = serde_json::from_str(text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == phase);
    events
        .map(|e| (e["name"].as_str().unwrap().to_owned(), e["tid"].as_u64().unwrap_or(0)))
        .collect()
}

#[test]
fn parts_have_a_row_of_their_own() {
    let mut timeline = example();
    timeline.part("first", 0, 12);
    timeline.part("second </script>", 12, 40);
    let drawn = traced(&timeline.perfetto(), "X");
    assert_eq!(drawn[4..], [("first".to_owned(), 3), ("second </script>".to_owned(), 3)]);
    let page = timeline.html(&Heading::new("t"));
    let data = data(&page);
    assert_eq!(data["tracks"], serde_json::json!(["parts", "load", "work"]));
    let events = data["events"].as_array().unwrap();
    let shown = |event: &serde_json::Value| {
        let word = |at: usize| data["words"][event[at].as_u64().unwrap() as usize].clone();
        serde_json::json!([event[0], event[1], event[2], word(3), word(4)])
    };
    let shown: Vec<_> = events.iter().map(shown).collect();
    assert!(shown.contains(&serde_json::json!([0, 12, 28, "second </script>", ""])), "{shown:?}");
    assert!(shown.contains(&serde_json::json!([2, 10, 20, "mul", ""])), "lanes move one row down");
}

#[test]
fn a_long_run_is_drawn_with_few_events() {
    let mut timeline = Timeline::new("cycles");
    let (a, b) = (timeline.lane("a"), timeline.lane("b"));
    let counter = timeline.counter("full", "things");
    for step in 0..10_000 {
        let first = timeline.event(event(a, step * 10, 4, if step % 3 == 0 { "x" } else { "y" }));
        let second = timeline.event(event(b, step * 10 + 4, 6, "z"));
        timeline.depend(first, second, "data");
        timeline.sample(counter, step * 10, step as f64);
    }
    timeline.part("p", 0, 50_005);
    timeline.part("q", 50_005, 100_000);
    let small = timeline.condensed(100);
    assert!(small.events().len() <= 104, "{}", small.events().len());
    assert!(small.counters()[0].samples.len() <= 52 && small.parts().len() == 2);
    assert_eq!(small.counters()[0].samples.last().unwrap().1, 9_999.0);
    assert_eq!(small.total(), timeline.total());
    let most = small.events().iter().map(|event| event.name.as_str()).next().unwrap();
    assert_eq!(most, "y and others, 200");
    let detail = &small.events()[0].detail;
    assert_eq!(detail, "200 events that work for 800: x 268, y 532");
    assert!(!small.dependencies().is_empty() && small.dependencies().len() <= 52);
    // No event crosses the border of the parts.
    let border = 50_005;
    let crosses = |event: &&Event| event.start < border && event.end() > border + 10;
    assert_eq!(small.events().iter().filter(crosses).count(), 0);
    assert!(matches!(timeline.condensed(20_000), std::borrow::Cow::Borrowed(_)));
    let text = small.perfetto();
    assert_eq!(traced(&text, "s").len(), small.dependencies().len());
}

#[test]
fn a_roofline_is_drawn_with_a_point_for_every_part() {
    use crate::{Point, Roofline};
    let point = |name: &str, intensity, rate| Point { name: name.to_owned(), intensity, rate };
    let points = vec![
        point("a<b>&", 4.0, 3.0),
        point("flat", 1000.0, 64.0),
        point("free", f64::INFINITY, 9.0),
    ];
    let roofline = Roofline {
        peak: 64.0,
        bandwidth: 0.5,
        intensity_unit: "work for each unit",
        rate_unit: "work",
        points,
    };
    assert_eq!((roofline.roof(4.0), roofline.roof(1e6), roofline.ridge()), (2.0, 64.0, 128.0));
    let svg = roofline.svg(&Heading::new("").of("<net>"));
    // One is that of the legend.
    assert_eq!(svg.matches("<circle").count(), 3);
    assert!(svg.contains("a&lt;b&gt;&amp;: 4 work for each unit, 3 work, 150.00 % of the roof"));
    // Axes from 1 to 1000 and from 1 to 100: the roof starts at 2, where it has half a decade.
    assert!(svg.contains("M132.2 450.0"), "{svg}");
    let mut timeline = example();
    timeline.set_roofline(roofline);
    assert!(timeline.html(&Heading::new("t")).contains("<svg"));
}

/// A run whose lanes, events and details have names like those of converted networks.
fn long_names() -> Timeline {
    let mut timeline = Timeline::new("cycles");
    let name = |n: u64| format!("{}conv{n}", "functional_1/block/".repeat(20));
    let lanes = [0, 1].map(|n| timeline.lane(name(n)));
    for n in 0..20 {
        let (name, detail) = (name(n), format!("reads {}", name(n + 1)));
        let lane = lanes[n as usize % 2];
        timeline.event(Event { lane, start: n * 1_000_000, duration: 5000, name, detail });
    }
    timeline
}

#[test]
fn texts_fit_the_columns() {
    let width = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
    for columns in [40, 80, 120] {
        for timeline in [example(), long_names()] {
            let (chart, list) = (timeline.chart(columns), timeline.listing(0..20, Some(columns)));
            assert_eq!(width(&chart), columns, "{chart}");
            assert!(width(&list) <= columns, "{columns}\n{list}");
            assert_eq!(list.lines().count(), timeline.events().len());
        }
        // Lanes stay apart.
        let chart = long_names().chart(columns);
        assert!(chart.contains("conv0 │") && chart.contains("conv1 │"), "{chart}");
    }
    assert!(long_names().listing(0..1, None).contains(&long_names().events()[0].name));
}

#[test]
fn the_page_has_a_heading_a_legend_and_numbers_of_what_one_points_at() {
    let heading = Heading::new("Timeline").of("<net>").on("tcu bench8");
    let page = example().html(&heading);
    let version = quincunx_report::VERSION;
    for part in [
        "<title>&lt;net&gt; - Timeline - quincunx</title>",
        "<h1>Timeline</h1>",
        "<dd>tcu bench8</dd>",
        version,
        "class=\"legend\"",
        "class=\"tip\"",
        "prefers-color-scheme: dark",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for word in ["http", "src=", "url(", "@import", "<link"] {
        assert!(!page.contains(word), "{word}");
    }
    assert_eq!(page, example().html(&heading));
}

#[test]
fn a_memory_is_drawn_with_its_largest_blocks() {
    use crate::{Block, MemoryMap};
    let block = |name: &str, bytes, time| Block { name: name.to_owned(), bytes, time };
    let mut blocks = vec![
        block("a<b>", (0, 512), (0, 20)),
        block("c", (512, 1024), (10, 40)),
        // Neither bytes nor time: still something to point at.
        block("c", (0, 0), (40, 40)),
    ];
    let map = |blocks: Vec<Block>| MemoryMap { name: "L2".to_owned(), size: 1024, blocks };
    let svg = map(blocks.clone()).svg(40, "cycles", &Heading::new("").of("net"));
    assert!(svg.contains("L2 of net"), "{svg}");
    assert_eq!(svg.matches("<title>").count(), 4);
    assert!(svg.contains("a&lt;b&gt;: bytes 0 to 512, cycles 0 to 20"), "{svg}");
    // Half of the height and of the width, from the lower left.
    assert!(svg.contains("x=\"80.00\" y=\"230.00\" width=\"405.00\" height=\"160.00\""), "{svg}");
    assert!(!svg.contains("left out"));
    blocks.extend((0..5000).map(|n| block("tiny", (n % 1024, n % 1024 + 1), (5, 6))));
    let long = map(blocks.clone()).svg(40, "cycles", &Heading::new(""));
    assert_eq!(long.matches("<title>").count(), 4001);
    assert!(long.contains("a&lt;b&gt;") && long.contains("1003 smaller blocks are left out"));
    let mut timeline = example();
    timeline.memory(map(blocks));
    assert!(timeline.html(&Heading::new("t")).contains("smaller blocks"));
}

/// Bytes that go make room for those that come at the same time.
#[test]
fn the_peak_of_a_memory_is_what_is_held_at_one_time() {
    use crate::{Block, MemoryMap};
    let block = |bytes, time| Block { name: String::new(), bytes, time };
    let map = |blocks| MemoryMap { name: "L2".to_owned(), size: 1024, blocks };
    assert_eq!(map(Vec::new()).peak(), 0);
    let blocks =
        vec![block((0, 100), (0, 10)), block((100, 160), (5, 20)), block((0, 90), (10, 30))];
    assert_eq!(map(blocks.clone()).peak(), 160);
    let more = [block((0, 1 << 40), (20, 20)), block((200, 300), (12, 13))];
    assert_eq!(map([&blocks[..], &more].concat()).peak(), 250);
}
