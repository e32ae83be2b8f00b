//! The graph in the DOT language.

use super::picture::{Item, Kind, Picture};
use quincunx_report::{Heading, html};
use std::fmt::Write as _;

/// The graph; stages of a pipeline are frames.
pub(super) fn dot(picture: &Picture, heading: &Heading) -> String {
    let line = heading.line();
    let mut out = format!("digraph {} {{\n  rankdir=LR;\n  labelloc=t;\n", quoted(&line));
    let kinds = picture
        .kinds()
        .map(|kind| format!("<font color=\"{}\">\u{25a0}</font> {}", kind.colour(), kind.name()));
    let legend: Vec<String> = kinds.collect();
    let _ = writeln!(out, "  label=<{}<br/>{}>;", html(&line), legend.join(" "));
    out.push_str("  node [shape=box, style=filled];\n");
    for stage in 0..picture.stages {
        let is_framed = picture.stages > 1;
        if is_framed {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "  subgraph cluster_{stage} {{\n  label=\"stage {stage}\";");
        }
        let members = picture.items.iter().enumerate().filter(|(_, item)| item.stage == stage);
        members.for_each(|(index, item)| node(index, item, &mut out));
        if is_framed {
            out.push_str("  }\n");
        }
    }
    for (&(from, to), &count) in &picture.edges {
        let label = if count > 1 { format!(" [label=\"{count}\"]") } else { String::new() };
        let _ = writeln!(out, "  n{from} -> n{to}{label};");
    }
    out.push_str("}\n");
    out
}

fn node(index: usize, item: &Item, out: &mut String) {
    let shape = match item.kind {
        Kind::Input | Kind::Output => ", shape=ellipse",
        _ => "",
    };
    let (label, title) = (quoted(&item.label), quoted(&item.title));
    let (colour, words) = (item.kind.colour(), item.kind.words());
    let _ = writeln!(
        out,
        "  n{index} [label={label}, tooltip={title}, fillcolor=\"{colour}\", fontcolor=\"{words}\"{shape}];"
    );
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
