//! Text without comments, C++ around the kernel, and the simulator's name, with every remaining
//! character where it was.

use quincunx_diag::{Diagnostic, Result, SourceId, Span};

/// A text made ready for the statement parser.
pub(super) struct Clean<'a> {
    /// As long as the text; what was removed is blank.
    pub(super) text: String,
    /// The contents of the comments.
    pub(super) comments: Vec<&'a str>,
}

impl<'a> Clean<'a> {
    /// # Errors
    /// `Q5002` for a comment that does not end.
    pub(super) fn new(text: &'a str, source: SourceId) -> Result<Clean<'a>> {
        let mut bytes = text.as_bytes().to_vec();
        let mut comments = Vec::new();
        for (start, end, inner) in comments_of(text, source)? {
            comments.push(inner);
            blank(&mut bytes[start..end]);
        }
        remove_cpp(&mut bytes);
        join_lines(&mut bytes);
        remove_simulator(&mut bytes);
        // Only whole characters were replaced, by ASCII.
        let text = String::from_utf8(bytes).map_err(|_| Diagnostic::bug("a split character"))?;
        Ok(Clean { text, comments })
    }
}

/// Replaces everything but line ends by blanks.
fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

/// Start, end and contents of every comment. Comments may nest, as those of Cain do; one whose
/// nesting does not come out even ends at its first end, as in C.
fn comments_of(text: &str, source: SourceId) -> Result<Vec<(usize, usize, &str)>> {
    let bytes = text.as_bytes();
    let (ends, closes) = pairs(bytes);
    let mut list = Vec::new();
    let mut at = 0;
    let mut next_pair = 0;
    while let Some(start) = find(bytes, at, |pair| pair == b"//" || pair == b"/*") {
        if &bytes[start..start + 2] == b"//" {
            let end = line_end(bytes, start);
            list.push((start, end, &text[start + 2..end]));
            at = end;
            continue;
        }
        while ends.get(next_pair).is_some_and(|&(open, _)| open < start) {
            next_pair += 1;
        }
        let paired = ends.get(next_pair).filter(|&&(open, _)| open == start).map(|&(_, end)| end);
        let first = closes[closes.partition_point(|&close| close < start + 2)..].first();
        let Some(end) = paired.or(first.map(|close| close + 2)) else {
            let clamp = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
            let span = Span { source, start: clamp(start), end: clamp(start + 2) };
            let problem = Diagnostic::invalid("Q5002", "the comment does not end");
            return Err(problem.label(span, "begins here"));
        };
        list.push((start, end, &text[start + 2..end - 2]));
        at = end;
    }
    Ok(list)
}

/// The pairs (start, end) of comments by nesting, in the order of their starts, and all places where
/// a comment could end.
fn pairs(bytes: &[u8]) -> (Vec<(usize, usize)>, Vec<usize>) {
    let (mut open, mut ends, mut closes) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = 0;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"//" if open.is_empty() => at = line_end(bytes, at),
            b"/*" => {
                open.push(at);
                at += 2;
            }
            b"*/" => {
                if let Some(start) = open.pop() {
                    ends.push((start, at + 2));
                }
                at += 2;
            }
            _ => at += 1,
        }
    }
    let mut at = 0;
    while let Some(close) = find(bytes, at, |pair| pair == b"*/") {
        closes.push(close);
        at = close + 1;
    }
    ends.sort_unstable();
    (ends, closes)
}

fn find(bytes: &[u8], from: usize, wanted: impl Fn(&[u8]) -> bool) -> Option<usize> {
    let tail = bytes.get(from..)?;
    tail.windows(2).position(wanted).map(|at| from + at)
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |at| from + at)
}

/// Blanks what stands around a kernel in a C++ header: directives, the function, `using`.
fn remove_cpp(bytes: &mut [u8]) {
    let mut start = 0;
    while start < bytes.len() {
        let end = line_end(bytes, start);
        let line = String::from_utf8_lossy(&bytes[start..end]);
        let line = line.trim();
        let is_function = line.ends_with('{')
            && ["void ", "inline void ", "static inline void "].iter().any(|s| line.starts_with(s));
        if line.starts_with('#') || line == "}" || line.starts_with("using ") || is_function {
            blank(&mut bytes[start..end]);
        }
        start = end + 1;
    }
}

/// A statement in parentheses may go over several lines; blanks before a parenthesis move before
/// the word.
fn join_lines(bytes: &mut [u8]) {
    let mut depth = 0_usize;
    for at in 0..bytes.len() {
        match bytes[at] {
            b'(' => {
                depth += 1;
                pull(bytes, at);
            }
            b')' => depth = depth.saturating_sub(1),
            b';' => depth = 0,
            b'\n' if depth > 0 => bytes[at] = b' ',
            _ => {}
        }
    }
}

/// Turns `name  (` into `  name(`.
fn pull(bytes: &mut [u8], parenthesis: usize) {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'.';
    let blanks = bytes[..parenthesis].iter().rev().take_while(|&&byte| byte == b' ').count();
    if blanks == 0 {
        return;
    }
    let end = parenthesis - blanks;
    let length = bytes[..end].iter().rev().take_while(|byte| is_word(byte)).count();
    bytes[end - length..parenthesis].rotate_right(blanks);
}

/// Blanks the name of the simulator of the JSS format, `s.` in `s.add(s.A, s.B, s.C)`. It is what
/// stands before the last dot of the first instruction.
fn remove_simulator(bytes: &mut [u8]) {
    let Some(start) = bytes.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != b';')
    else {
        return;
    };
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'.';
    let length = bytes[start..].iter().take_while(|byte| is_part(byte)).count();
    let Some(dot) = bytes[start..start + length].iter().rposition(|&byte| byte == b'.') else {
        return;
    };
    let name = bytes[start..=start + dot].to_vec();
    let mut at = start;
    while at + name.len() <= bytes.len() {
        let begins = at == 0 || !is_part(&bytes[at - 1]);
        if begins && bytes[at..].starts_with(&name) {
            blank(&mut bytes[at..at + name.len()]);
            at += name.len();
        } else {
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(text: &str) -> String {
        let clean = Clean::new(text, SourceId(0)).unwrap().text;
        assert_eq!(clean.len(), text.len());
        clean.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments() {
        assert_eq!(clean("a(/*x*/B); // c\nd()"), "a( B); d()");
        // Cain nests comments, C does not.
        assert_eq!(clean("/*/*SP Div(..)*/ */ a();"), "a();");
        assert_eq!(clean("/*\n/* Bit 1 */*/ a();"), "a();");
        assert_eq!(clean("/* x /* y */ a();"), "a();");
        assert_eq!(clean("/* x /* y */ a(); /* z */ b();"), "a(); b();");
        assert_eq!(clean("// /* x\na(); /* ä */"), "a();");
        assert!(Clean::new("a(); /* b", SourceId(0)).is_err());
    }

    #[test]
    fn words_around_the_kernel() {
        assert_eq!(clean("#include <x>\nusing namespace y;\ninline void f() {\n a();\n}"), "a();");
        assert_eq!(clean("a (B,\n C);\nd ()"), "a(B, C); d()");
        assert_eq!(clean("my.s.add(my.s.A, north);"), "add( A, north);");
    }
}
