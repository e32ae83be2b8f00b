//! Lines against lines, as a unified difference.

use similar::{Algorithm, TextDiff};

/// Most lines of both texts together, without those at the beginning and the end that are equal,
/// among which equal lines are searched: a few seconds at worst. More are shown as replaced as a
/// whole.
const MAX_LINES: usize = 1 << 20;

/// The unified difference of two named texts with so many equal lines around changes; `None` for
/// equal texts.
pub(super) fn unified(a: (&str, &str), b: (&str, &str), context: usize) -> Option<String> {
    if a.1 == b.1 {
        return None;
    }
    let ends = Ends::of(a.1, b.1);
    if ends.between() > MAX_LINES {
        return Some(format!("--- {}\n+++ {}\n{}", a.0, b.0, ends.replaced(a.1, b.1, context)));
    }
    let diff = TextDiff::configure().algorithm(Algorithm::Patience).diff_lines(a.1, b.1);
    Some(diff.unified_diff().context_radius(context).header(a.0, b.0).to_string())
}

/// How many lines two texts have, and how many of them are equal at the beginning and at the end.
struct Ends {
    lines: [usize; 2],
    head: usize,
    tail: usize,
}

impl Ends {
    fn of(a: &str, b: &str) -> Self {
        let lines = [a, b].map(|text| text.split_inclusive('\n').count());
        let pairs = a.split_inclusive('\n').zip(b.split_inclusive('\n'));
        let head = pairs.take_while(|(a, b)| a == b).count();
        let pairs = a.split_inclusive('\n').rev().zip(b.split_inclusive('\n').rev());
        let rest = lines[0].min(lines[1]) - head;
        Ends { lines, head, tail: pairs.take(rest).take_while(|(a, b)| a == b).count() }
    }

    fn between(&self) -> usize {
        self.lines.iter().map(|lines| lines - self.head - self.tail).sum()
    }

    /// One hunk in which everything between the equal ends is replaced.
    fn replaced(&self, a: &str, b: &str, context: usize) -> String {
        let (before, after) = (context.min(self.head), context.min(self.tail));
        let start = self.head - before;
        let ranges = self.lines.map(|lines| match lines - self.tail + after - start {
            // An empty range is named by the line before it.
            0 => format!("{start},0"),
            1 => format!("{}", start + 1),
            count => format!("{},{count}", start + 1),
        });
        let mut hunk = format!("@@ -{} +{} @@\n", ranges[0], ranges[1]);
        let mut put = |sign: char, text: &str, from: usize, to: usize| {
            for line in text.split_inclusive('\n').take(to).skip(from) {
                hunk.push(sign);
                hunk += line;
                if !line.ends_with('\n') {
                    hunk += "\n\\ No newline at end of file\n";
                }
            }
        };
        let [end_a, end_b] = self.lines.map(|lines| lines - self.tail);
        put(' ', a, start, self.head);
        put('-', a, self.head, end_a);
        put('+', b, self.head, end_b);
        put(' ', a, end_a, end_a + after);
        hunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn replaced_as_a_whole_is_a_patch_too() {
        let mut state = 3;
        for round in 0..400 {
            let a = random_text(&mut state, round % 13, 2);
            let b = random_text(&mut state, (round * 5) % 11, 2);
            for context in [0, 1, 3] {
                if a != b {
                    let hunk = Ends::of(&a, &b).replaced(&a, &b, context);
                    assert_eq!(patch(&a, &format!("--- a\n+++ b\n{hunk}")), b, "{hunk}");
                }
            }
        }
    }

    #[test]
    fn texts_without_much_in_common_end_soon() {
        let text = |from: usize, lines: usize| -> String {
            (from..from + lines).map(|i| format!("{i}\n")).collect()
        };
        for lines in [MAX_LINES / 2, MAX_LINES] {
            let found = unified(("a", &text(0, lines)), ("b", &text(lines, lines)), 3).unwrap();
            assert_eq!(found.lines().count(), 2 * lines + 3);
        }
        let (a, b) = ("x\ny\n".repeat(MAX_LINES / 16), "y\nz\nx\n".repeat(MAX_LINES / 24));
        assert!(unified(("a", &a), ("b", &b), 0).is_some());
    }

    #[test]
    fn equal_ends_do_not_count() {
        let equal = "same\n".repeat(MAX_LINES);
        let found = unified(
            ("a", &format!("{equal}1\nx\n2\n{equal}")),
            ("b", &format!("{equal}3\nx\n4\n{equal}")),
            0,
        )
        .unwrap();
        let (first, second) = (MAX_LINES + 1, MAX_LINES + 3);
        let hunks = format!("@@ -{first} +{first} @@\n-1\n+3\n@@ -{second} +{second} @@\n-2\n+4\n");
        assert_eq!(found, format!("--- a\n+++ b\n{hunks}"));
    }
}
