//! Results that are lost: everything an instruction wrote to L2 is overwritten before anything
//! reads a byte of it. The program is legal and its outputs are defined, but hardly those meant.
//!
//! Only writes without gaps count, as results and as what overwrites them: slices of channels of
//! one tensor are interleaved.

use super::Subject;
use super::residency::{Labels, l2_of};
use crate::regions::RegionTable;
use crate::replay::{Node, Replay};
use crate::work::{Access, Work, accesses};
use quincunx_diag::{Diagnostic, Problems};

pub(super) fn check(subject: &Subject<'_>, replay: &Replay, problems: &mut Problems) {
    let lost = find(subject, replay);
    let Some(&(first, by)) = lost.first() else { return };
    let (what, by) = (subject.show(first), subject.show(by));
    let message = match lost.len() {
        1 => format!("{by} overwrites everything that {what} wrote to L2 before anything reads it"),
        count => format!(
            "what {count} lines wrote to L2 is overwritten before anything reads it; the first is \
             {what}, overwritten by {by}"
        ),
    };
    let problem = Diagnostic::warning("Q4041", message)
        .help("give the later line another address, or let a line read the result before");
    problems.push(subject.at(first, problem));
}

/// Lines whose results are lost, each with the line that overwrote the last of it.
fn find(subject: &Subject<'_>, replay: &Replay) -> Vec<(Node, Node)> {
    let cores = subject.programs.len();
    let mut regions = vec![RegionTable::default(); cores];
    let mut labels: Vec<Labels> = (0..cores).map(|_| Labels::default()).collect();
    // Bytes of each result that are still there; `None` once a byte was read.
    let mut left: Vec<Option<u64>> = vec![None; replay.order.len()];
    let mut lost = Vec::new();
    for (number, &node) in replay.order.iter().enumerate() {
        let Ok(work) = &subject.work[node.core][node.line] else { continue };
        if let Work::Regions(cuts) = work {
            regions[node.core].set(cuts);
        }
        for access in accesses(work, subject.arch) {
            let Some((core, region)) = l2_of(subject, &regions, node, access.memory) else {
                continue;
            };
            let pieces = region.pieces(access.span.start, access.span.end).into_iter().flatten();
            if !access.write {
                for number in pieces.flat_map(|(start, end)| labels[core].of(start, end)).flatten()
                {
                    left[number] = None;
                }
            } else if has_no_gaps(&access) {
                left[number] = Some(access.span.length());
                for (bytes, old) in
                    pieces.flat_map(|(start, end)| labels[core].set(start, end, number))
                {
                    let Some(rest) = &mut left[old] else { continue };
                    *rest = rest.saturating_sub(bytes);
                    if *rest == 0 && old != number {
                        lost.push((replay.order[old], node));
                    }
                }
            }
        }
    }
    lost
}

/// Whether an access touches every byte from its first to its last; what pads a pixel counts.
fn has_no_gaps(access: &Access) -> bool {
    let mut pattern = access.pattern;
    if access.span.slice.is_none() {
        pattern.bytes = pattern.pitches[2];
    }
    pattern.merged().runs() == 1
}
