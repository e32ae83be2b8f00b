//! Lines against lines, as a unified difference.

use imara_diff::{Algorithm, Diff, Hunk, InternedInput};
use std::ops::Range;

/// The unified difference of two named texts with so many equal lines around changes; `None` for
/// equal texts.
pub(super) fn unified(a: (&str, &str), b: (&str, &str), context: usize) -> Option<String> {
    if a.1 == b.1 {
        return None;
    }
    let lines = [a.1, b.1].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    let hunks = changes(a.1, b.1, [lines[0].len(), lines[1].len()]);
    let mut out = format!("--- {}\n+++ {}\n", a.0, b.0);
    for group in
        hunks.chunk_by(|[one, _], [next, _]| next.start - one.end <= context.saturating_mul(2))
    {
        let ([[first, first_b], ..], [.., [last, last_b]]) = (group, group) else { continue };
        let before = context.min(first.start);
        let after = context.min(lines[0].len() - last.end);
        let ranges =
            [first.start - before..last.end + after, first_b.start - before..last_b.end + after];
        let [range_a, range_b] = ranges.clone().map(show);
        out += &format!("@@ -{range_a} +{range_b} @@\n");
        let mut put = |sign: char, lines: &[&str]| {
            for line in lines {
                out.push(sign);
                out += line;
                if !line.ends_with('\n') {
                    out += "\n\\ No newline at end of file\n";
                }
            }
        };
        let mut done = ranges[0].start;
        for [old, new] in group {
            put(' ', &lines[0][done..old.start]);
            put('-', &lines[0][old.clone()]);
            put('+', &lines[1][new.clone()]);
            done = old.end;
        }
        put(' ', &lines[0][done..ranges[0].end]);
    }
    Some(out)
}

/// Which lines of the first text become which of the second, in order. Equal lines are searched in
/// time that texts without much in common do not stretch.
fn changes(a: &str, b: &str, lines: [usize; 2]) -> Vec<[Range<usize>; 2]> {
    // More lines cannot be numbered there.
    if lines.iter().any(|&lines| lines >= i32::MAX as usize) {
        return vec![lines.map(|lines| 0..lines)];
    }
    let input = InternedInput::new(a, b);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_no_heuristic(&input);
    let range = |lines: Range<u32>| lines.start as usize..lines.end as usize;
    diff.hunks().map(|Hunk { before, after }| [range(before), range(after)]).collect()
}

/// The first of so many lines, and how many.
fn show(lines: Range<usize>) -> String {
    match lines.len() {
        // An empty range is named by the line before it.
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many.
    const LINES: usize = 1 << 18;

    /// Applies a unified difference to a text.
    fn patch(text: &str, patch: &str) -> String {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let (mut at, mut out) = (0, String::new());
        let mut hunks = patch.split_inclusive('\n').skip(2).peekable();
        while let Some(line) = hunks.next() {
            let bare = matches!(hunks.peek(), Some(next) if next.starts_with('\\'));
            let content = if bare { line[1..].trim_end_matches('\n') } else { &line[1..] };
            match line.as_bytes()[0] {
                b'@' => {
                    let old = line.split(' ').nth(1).unwrap().trim_start_matches('-');
                    let (start, count) = old.split_once(',').unwrap_or((old, "1"));
                    let start: usize = start.parse().unwrap();
                    let start = if count == "0" { start } else { start - 1 };
                    out.extend(lines[at..start].iter().copied());
                    at = start;
                }
                b' ' => {
                    assert_eq!(lines[at], content);
                    out += content;
                    at += 1;
                }
                b'-' => {
                    assert_eq!(lines[at], content);
                    at += 1;
                }
                b'+' => out += content,
                b'\\' => {}
                other => panic!("{other}"),
            }
        }
        out.extend(lines[at..].iter().copied());
        out
    }

    fn random_text(state: &mut u64, lines: usize, words: u64) -> String {
        let mut next = |below: u64| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (*state >> 33) % below
        };
        let mut text: String = (0..lines).map(|_| format!("{}\n", next(words))).collect();
        if next(3) == 0 {
            text.pop();
        }
        text
    }

    #[test]
    fn patches_turn_one_text_into_the_other() {
        let mut state = 1;
        for round in 0..400 {
            let a = random_text(&mut state, round % 23, 6);
            let b = random_text(&mut state, (round * 7) % 19, 6);
            for context in [0, 1, 3] {
                match unified(("a", &a), ("b", &b), context) {
                    Some(text) => assert_eq!(patch(&a, &text), b, "{text}"),
                    None => assert_eq!(a, b),
                }
            }
        }
    }

    #[test]
    fn texts_without_much_in_common_end_soon() {
        let text = |from: usize, lines: usize| -> String {
            (from..from + lines).map(|i| format!("{i}\n")).collect()
        };
        for lines in [LINES / 2, LINES] {
            let found = unified(("a", &text(0, lines)), ("b", &text(lines, lines)), 3).unwrap();
            assert_eq!(found.lines().count(), 2 * lines + 3);
        }
        let (a, b) = ("x\ny\n".repeat(LINES / 16), "y\nz\nx\n".repeat(LINES / 24));
        assert!(unified(("a", &a), ("b", &b), 0).is_some());
    }

    #[test]
    fn equal_ends_do_not_count() {
        let equal = "same\n".repeat(LINES);
        let found = unified(
            ("a", &format!("{equal}1\nx\n2\n{equal}")),
            ("b", &format!("{equal}3\nx\n4\n{equal}")),
            0,
        )
        .unwrap();
        let (first, second) = (LINES + 1, LINES + 3);
        let hunks = format!("@@ -{first} +{first} @@\n-1\n+3\n@@ -{second} +{second} @@\n-2\n+4\n");
        assert_eq!(found, format!("--- a\n+++ b\n{hunks}"));
    }
}
