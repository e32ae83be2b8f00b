//! What is known of every vector of a memory, in pages: a DRAM bank may have 2^32 of them.

use crate::program::Span;
use rustc_hash::FxHashMap;

/// Something was written, by the program or the host.
pub(super) const WRITTEN: u8 = 1;
/// The program wrote it.
pub(super) const OURS: u8 = 2;
/// Nothing has read what the program wrote last.
pub(super) const UNREAD: u8 = 4;
/// An input that nothing has read.
pub(super) const INPUT: u8 = 8;
/// A constant.
pub(super) const CONSTANT: u8 = 16;

/// Vectors of a page.
const PAGE: u64 = 1 << 12;

/// Disjoint ranges of addresses in ascending order.
#[derive(Debug, Default)]
pub(super) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// The union of pieces, each with base and size.
    pub(super) fn new(pieces: impl Iterator<Item = (u64, u64)>) -> Ranges {
        let ranges = pieces.map(|(base, size)| (base, base.saturating_add(size)));
        let mut sorted: Vec<(u64, u64)> = ranges.filter(|(base, end)| base < end).collect();
        sorted.sort_unstable();
        let mut union: Vec<(u64, u64)> = Vec::with_capacity(sorted.len());
        for (base, end) in sorted {
            match union.last_mut() {
                Some(last) if base <= last.1 => last.1 = last.1.max(end),
                _ => union.push((base, end)),
            }
        }
        Ranges(union)
    }

    /// The parts that lie in a page.
    fn in_page(&self, page: u64) -> impl Iterator<Item = (usize, usize)> {
        let start = page.saturating_mul(PAGE);
        let stop = start.saturating_add(PAGE);
        let first = self.0.partition_point(|&(_, end)| end <= start);
        let inside = self.0[first..].iter().take_while(move |(base, _)| *base < stop);
        inside.map(move |&(base, end)| {
            let offset = |address: u64| address.clamp(start, stop).saturating_sub(start) as usize;
            (offset(base), offset(end))
        })
    }

    /// Numbers of the pages in which parts lie, ascending.
    fn pages(&self) -> impl Iterator<Item = u64> {
        let mut next = 0;
        self.0.iter().flat_map(move |&(base, end)| {
            let pages = next.max(base / PAGE)..end.div_ceil(PAGE);
            next = pages.end.max(next);
            pages
        })
    }
}

/// The marks of the vectors of one memory.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// What the host has put there, with its marks.
    host: Vec<(Ranges, u8)>,
    pages: FxHashMap<u64, Box<[u8]>>,
}

impl Marks {
    /// Puts marks on ranges, before any vector is visited.
    pub(super) fn preset(&mut self, ranges: Ranges, marks: u8) {
        self.host.push((ranges, marks));
    }

    /// Pages that are there.
    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    fn fresh(host: &[(Ranges, u8)], number: u64) -> Box<[u8]> {
        let mut page = vec![0; PAGE as usize];
        for (ranges, marks) in host {
            for (from, to) in ranges.in_page(number) {
                page[from..to].iter_mut().for_each(|mark| *mark |= marks);
            }
        }
        page.into()
    }

    /// Every vector of a span with its marks.
    pub(super) fn visit(&mut self, span: &Span, mut visit: impl FnMut(u64, &mut u8)) {
        let stride = span.stride.min(63);
        let mut index = 0;
        while index < span.count {
            let address = span.at(index);
            let (number, offset) = (address / PAGE, address % PAGE);
            let behind = (PAGE - 1).saturating_sub(offset) >> stride;
            let here = behind.saturating_add(1).min(span.count.saturating_sub(index));
            let page = self.pages.entry(number).or_insert_with(|| Marks::fresh(&self.host, number));
            for step in 0..here {
                let step = step << stride;
                let mark = &mut page[offset.saturating_add(step) as usize];
                visit(address.saturating_add(step), mark);
            }
            index = index.saturating_add(here);
        }
    }

    /// Every vector of ranges with its marks, until `visit` says that it is enough.
    pub(super) fn look(&self, ranges: &Ranges, mut visit: impl FnMut(u64, u8) -> bool) {
        for number in ranges.pages() {
            let made;
            let page = match self.pages.get(&number) {
                Some(page) => page,
                None => {
                    made = Marks::fresh(&self.host, number);
                    &made
                }
            };
            for (from, to) in ranges.in_page(number) {
                for at in from..to {
                    let address = number.saturating_mul(PAGE).saturating_add(at as u64);
                    if !visit(address, page[at]) {
                        return;
                    }
                }
            }
        }
    }

    /// How many vectors outside of some ranges have a mark.
    pub(super) fn count_outside(&self, ranges: &Ranges, mark: u8) -> u64 {
        let with = |page: &[u8]| page.iter().filter(|&&marks| marks & mark != 0).count();
        let pages = self.pages.iter().map(|(&number, page)| {
            let inside: usize =
                ranges.in_page(number).map(|(from, to)| with(&page[from..to])).sum();
            with(page).saturating_sub(inside) as u64
        });
        pages.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Memory;

    #[test]
    fn ranges_are_a_union() {
        let ranges = Ranges::new([(9, 1), (3, 4), (0, 4), (20, 0), (5000, 9000)].into_iter());
        assert_eq!(ranges.0, [(0, 7), (9, 10), (5000, 14000)]);
        assert_eq!(ranges.pages().collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(ranges.in_page(0).collect::<Vec<_>>(), [(0, 7), (9, 10)]);
        assert_eq!(ranges.in_page(1).collect::<Vec<_>>(), [(5000 - 4096, 4096)]);
        assert_eq!(ranges.in_page(4).count(), 0);
    }

    /// Visiting by pages meets the vectors of a span, each once and in order.
    #[test]
    fn spans_are_visited_vector_by_vector() {
        for (base, stride, count) in [(4090, 0, 20), (4095, 1, 5000), (1, 12, 4), (7, 31, 3)] {
            let span = Span { memory: Memory::Dram0, base, stride, count };
            let mut marks = Marks::default();
            let mut met = Vec::new();
            marks.visit(&span, |address, mark| {
                *mark += 1;
                met.push(address);
            });
            assert_eq!(met, (0..count).map(|i| span.at(i)).collect::<Vec<_>>());
            assert_eq!(marks.count_outside(&Ranges::default(), 1), count);
            let first = Ranges::new([(base, 1)].into_iter());
            assert_eq!(marks.count_outside(&first, 1), count - 1);
        }
    }
}
