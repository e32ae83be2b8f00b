//! What must hold for every table, whatever it describes.

use quincunx_diag::SourceId;
use quincunx_isa::{Bits, Coverage, Cursor, Layout, ManualFormat, RawInst, Style, Table};

/// Random instructions per row, random words and random texts per table.
const INSTRUCTIONS: usize = 300;
const WORDS: usize = 20_000;
const TEXTS: usize = 5_000;

/// A small random generator (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Checks all of them.
pub(crate) fn hold(table: &'static Table, layout: &Layout) {
    assert_eq!(table.check(), Vec::<String>::new());
    let mut random = Random(1);
    let mut coverage = Coverage::new(table);
    for row in 0..table.rows.len() {
        for _ in 0..INSTRUCTIONS {
            let inst = table.random_of(row, &mut |n| random.below(n), layout);
            assert_eq!(inst.row, row);
            round_trips(table, layout, &inst);
            let inst = table.random(&mut |n| random.below(n), layout);
            coverage.mark(inst.row);
        }
    }
    assert_eq!(coverage.missing(), Vec::<&str>::new());
    words(table, layout, &mut random);
    texts(table, layout, &mut random);
    manuals(table, layout);
}

/// Parses one statement, which must be an instruction and nothing else.
pub(crate) fn parse(table: &Table, text: &str, layout: Option<&Layout>) -> Option<RawInst> {
    let mut cursor = Cursor::new(text, SourceId(0), Style::SLASHES);
    let inst = table.parse(&mut cursor, layout).ok()?;
    cursor.at_statement_end().then_some(inst)
}

fn round_trips(table: &Table, layout: &Layout, inst: &RawInst) {
    let text = table.print(inst);
    assert_eq!(parse(table, &text, Some(layout)).as_ref(), Some(inst), "{text}");
    assert_eq!(parse(table, &text, None).as_ref(), Some(inst), "{text}");
    let word = table.encode(inst, layout).unwrap();
    let (decoded, warnings) = table.decode(&word, layout, false).unwrap();
    assert!(warnings.is_empty(), "{text}");
    assert_eq!(&decoded, inst, "{text}");
}

/// Random words, and words of instructions with a few bits flipped.
fn words(table: &Table, layout: &Layout, random: &mut Random) {
    let bits = u64::from(layout.bits());
    let (mut accepted, mut warned) = (0, 0);
    for index in 0..WORDS {
        let mut word = Bits::ZERO;
        if index % 2 == 0 {
            for at in (0..layout.bits()).step_by(32) {
                word.set(at, 32.min(layout.bits() - at), random.next());
            }
        } else {
            let inst = table.random(&mut |n| random.below(n), layout);
            word = table.encode(&inst, layout).unwrap();
            for _ in 0..random.below(3) {
                let at = random.below(bits) as u32;
                word.set(at, 1, 1 ^ word.get(at, 1));
            }
        }
        let strict = table.decode(&word, layout, false);
        match table.decode(&word, layout, true) {
            Ok((inst, warnings)) if warnings.is_empty() => {
                assert_eq!(strict.unwrap().0, inst);
                assert_eq!(table.encode(&inst, layout).unwrap(), word);
                accepted += 1;
            }
            Ok((inst, warnings)) => {
                assert_eq!(strict.unwrap_err().code(), "Q2112");
                assert_eq!((warnings.len(), warnings[0].code()), (1, "Q2112"));
                assert!(!warnings[0].is_error());
                assert_ne!(table.encode(&inst, layout).unwrap(), word);
                warned += 1;
            }
            Err(error) => {
                assert!(strict.is_err());
                assert_ne!(error.code(), "Q9999", "{error}");
            }
        }
    }
    assert!(accepted > WORDS / 10, "{accepted} of {WORDS} words mean something, {warned} nearly");
}

/// Texts of instructions with some characters changed.
fn texts(table: &Table, layout: &Layout, random: &mut Random) {
    for _ in 0..TEXTS {
        let inst = table.random(&mut |n| random.below(n), layout);
        let mut text: Vec<char> = table.print(&inst).chars().collect();
        for _ in 0..=random.below(3) {
            let at = random.below(text.len() as u64 + 1) as usize;
            let character = ['0', '9', 'x', '-', ' ', ',', '%', '/', 'a', '[', '\n', 'ß', '.']
                [random.below(13) as usize];
            match random.below(3) {
                0 => text.insert(at, character),
                1 if at < text.len() => text[at] = character,
                _ => text.truncate(at),
            }
        }
        survives(table, &text.into_iter().collect::<String>(), Some(layout));
    }
}

/// Parsing gives an instruction, which prints as what it is, or an error with a place in the text.
pub(crate) fn survives(table: &Table, text: &str, layout: Option<&Layout>) {
    let mut cursor = Cursor::new(text, SourceId(0), Style::SLASHES);
    match table.parse(&mut cursor, layout) {
        Ok(inst) => assert_eq!(parse(table, &table.print(&inst), layout), Some(inst), "{text:?}"),
        Err(error) => {
            assert_ne!(error.code(), "Q9999", "{error}");
            let (span, _) = error.labels()[0];
            assert!(span.start <= span.end && span.end as usize <= text.len(), "{text:?}");
            assert!(text.is_char_boundary(span.start as usize), "{text:?}");
            assert!(text.is_char_boundary(span.end as usize), "{text:?}");
        }
    }
}

fn manuals(table: &Table, layout: &Layout) {
    for mnemonic in table.mnemonics().into_iter().map(Some).chain([None]) {
        for layout in [None, Some(layout)] {
            let rows = table.rows.iter().filter(|row| mnemonic.is_none_or(|m| m == row.mnemonic));
            let manual = |format| table.manual(mnemonic, layout, format).unwrap();
            let (text, markdown) = (manual(ManualFormat::Text), manual(ManualFormat::Markdown));
            let json: serde_json::Value =
                serde_json::from_str(&manual(ManualFormat::Json)).unwrap();
            assert_eq!(json["machine"], table.machine);
            for (index, row) in rows.enumerate() {
                assert!(text.contains(row.syntax) && markdown.contains(row.syntax));
                let entry = &json["instructions"][index];
                assert_eq!(entry["name"], row.name);
                assert_eq!(entry["operands"].as_array().unwrap().len(), row.operands.len());
            }
        }
    }
}
