//! The kit on toy machines: text, words, layouts, manuals and the checks of tables.

use crate::laws::parse;
use proptest::prelude::*;
use quincunx_diag::{Class, Diagnostic, SourceId, count_errors};
use quincunx_isa::{
    Bits, Coverage, Cursor, FieldSpec, Fixup, Kind, Layout, Lines, ManualFormat, Operand, Piece,
    RawInst, Row, Style, Table, Term, Values, instructions, operand_enum, parse_lines,
};

operand_enum! {
    /// A condition.
    #[derive(Debug)]
    pub enum Condition {
        /// Equal.
        Equal = 0 "eq",
        /// Equal or less.
        EqualOrLess = 2 "eqle",
        /// Less.
        Less = 5 "le",
    }
}

/// Words of 256 bits; some fields hold -1 where they are not used, one lies in three pieces.
static WIDE_FIELDS: &[FieldSpec] = &[
    FieldSpec::unsigned("opcode", &[Piece::fixed(0, 6)]),
    FieldSpec::signed("id0", &[Piece::fixed(32, 32)]).rest(-1),
    FieldSpec::signed("id1", &[Piece::fixed(64, 32)]).rest(-1),
    FieldSpec::signed("wide", &[Piece::fixed(96, 64), Piece::fixed(160, 63)]),
    FieldSpec::unsigned("low", &[Piece::fixed(96, 16)]).rest(7),
    FieldSpec::unsigned(
        "scattered",
        &[Piece::fixed(255, 1), Piece::fixed(6, 3), Piece::fixed(226, 4)],
    ),
    FieldSpec::unsigned("flag", &[Piece::fixed(230, 1)]),
    FieldSpec::unsigned("condition", &[Piece::fixed(231, 3)]),
    FieldSpec::unsigned("byte", &[Piece::fixed(240, 8)]),
];

instructions! {
    /// A machine with long words.
    pub enum Wide, table WIDE = "wide";
    bits Term::Const(256); params []; fields WIDE_FIELDS;

    /// Does nothing.
    Nop = "nop" "nop" ["opcode" = 0] {}
    /// Adds.
    Add = "add" "add %{a}, %{b}[ << {shift}]" ["opcode" = 1] {
        /// First operand.
        a: i32 = Operand::at("id0", Kind::Signed).within(0, 1 << 20),
        /// Second operand.
        b: i32 = Operand::at("id1", Kind::Signed),
        /// Shift.
        shift: u8 = Operand::at("byte", Kind::Unsigned).or(0),
    }
    /// Adds a constant; this form shares the mnemonic.
    AddConstant = "add" "add %{a}, #{value}" ["opcode" = 2] {
        /// Operand.
        a: i32 = Operand::at("id0", Kind::Signed).within(0, 1 << 20),
        /// The constant.
        value: i128 = Operand::at("wide", Kind::Signed),
    }
    /// Adds and does something else.
    AddAnd = "adder" "adder {count}[, at {place}][, every {step}]{always?, always}" ["opcode" = 3] {
        /// How many.
        count: u16 = Operand::at("byte", Kind::Biased(1)),
        /// Where.
        place: u32 = Operand::at("low", Kind::Hex).or(16),
        /// How far.
        step: u32 = Operand::at("scattered", Kind::Scaled(4)).or(4),
        /// Without a condition.
        always: bool = Operand::at("flag", Kind::Flag),
    }
    /// Jumps `if` a condition {holds}.
    Jump = "jump" "jump.{condition}[ {{{a}}}] [[{b}]]" ["opcode" = 4, "flag" = 1] {
        /// The condition.
        condition: Condition = Operand::at("condition", Kind::Names(Condition::NAMES)),
        /// In braces.
        a: u8 = Operand::at("byte", Kind::Unsigned).or(1).within(1, 9),
        /// In brackets.
        b: u32 = Operand::at("scattered", Kind::Unsigned),
    }
}

/// Two digits in one field.
static DIGITS: Fixup = Fixup {
    to_fields: |values, _| {
        values[0] = 10 * values[0] + values[1];
        Ok(())
    },
    to_values: |values, _| {
        (values[0], values[1]) = (values[0] / 10, values[0] % 10);
        Ok(())
    },
};

instructions! {
    /// A machine with a fixup.
    pub enum Odd, table ODD = "odd";
    bits Term::Const(16); params [];
    fields &[FieldSpec::unsigned("opcode", &[Piece::fixed(0, 8)]), FieldSpec::unsigned("digits", &[Piece::fixed(8, 6)])];

    /// Rolls.
    Roll = "roll" "roll {high}.{low}" ["opcode" = 1] fixup DIGITS {
        /// Decimal digit, stored with the other one as a number minus 1.
        high: u8 = Operand::at("digits", Kind::Biased(1)).within(0, 9).converted(),
        /// Decimal digit.
        low: u8 = Operand::free(Kind::Unsigned).within(0, 9),
    }
}

/// Its widths and positions are parameters.
static NARROW_FIELDS: &[FieldSpec] = &[
    FieldSpec::unsigned("opcode", &[Piece::fixed(0, 2)]),
    FieldSpec::unsigned("a", &[Piece { at: Term::Const(2), width: Term::Param("a") }]),
    FieldSpec::signed(
        "b",
        &[Piece { at: Term::Sum(&[Term::Const(2), Term::Param("a")]), width: Term::Param("b") }],
    )
    .rest(-1),
    FieldSpec::unsigned("mode", &[Piece { at: Term::Const(2), width: Term::Param("mode") }]),
];

instructions! {
    /// A machine with parameters.
    pub enum Narrow, table NARROW = "narrow";
    bits Term::Param("bits"); params ["other"]; fields NARROW_FIELDS;

    /// Takes one operand.
    One = "one" "one {a}" ["opcode" = 0] {
        /// Operand.
        a: u64 = Operand::at("a", Kind::Unsigned),
    }
    /// Takes two operands.
    Two = "two" "two {a}, {b}" ["opcode" = 1] {
        /// First operand.
        a: u64 = Operand::at("a", Kind::Unsigned),
        /// Second operand.
        b: i64 = Operand::at("b", Kind::Signed),
    }
    /// Has a fixed field whose width is a parameter.
    Three = "three" "three" ["opcode" = 2, "mode" = 5] {}
}

fn wide() -> Layout {
    Layout::fixed(&WIDE).unwrap()
}

fn narrow(bits: u32, a: u32, b: u32, mode: u32) -> quincunx_diag::Result<Layout> {
    Layout::resolve(&NARROW, &|name| match name {
        "bits" => Some(bits),
        "a" => Some(a),
        "b" => Some(b),
        "mode" => Some(mode),
        "other" => Some(77),
        _ => None,
    })
}

fn error(table: &Table, text: &str, layout: Option<&Layout>) -> Diagnostic {
    table.parse(&mut Cursor::new(text, SourceId(0), Style::SLASHES), layout).unwrap_err()
}

fn word(inst: Wide) -> Bits {
    WIDE.encode(&inst.to_raw(), &wide()).unwrap()
}

#[test]
fn the_laws_hold() {
    crate::laws::hold(&WIDE, &wide());
    crate::laws::hold(&ODD, &Layout::fixed(&ODD).unwrap());
    for (bits, a, b, mode) in [(16, 7, 7, 3), (200, 64, 64, 64), (5, 0, 1, 3), (256, 1, 0, 60)] {
        if let Ok(layout) = narrow(bits, a, b, mode) {
            crate::laws::hold(&NARROW, &layout);
        }
    }
}

#[test]
fn optional_groups_and_flags_print_only_when_they_say_something() {
    for (text, printed) in [
        ("adder 1", "adder 1"),
        ("adder 1, at 16, every 4", "adder 1"),
        ("adder 256,at 0x1F", "adder 256, at 0x1f"),
        ("adder 1, every 8, always", "adder 1, every 8, always"),
        ("adder 1 , at 0 , always", "adder 1, at 0x0, always"),
        ("add %1,%2", "add %1, %2"),
        ("add  %1 , %-2   <<  3", "add %1, %-2 << 3"),
        ("add %1, #-5", "add %1, #-5"),
        ("jump.eqle [3]", "jump.eqle [3]"),
        ("jump.le {2} [3]", "jump.le {2} [3]"),
        ("nop // nothing", "nop"),
    ] {
        let mut cursor = Cursor::new(text, SourceId(0), Style::SLASHES);
        let inst = WIDE.parse(&mut cursor, None).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(cursor.at_statement_end(), "{text}");
        assert_eq!(WIDE.print(&inst), printed, "{text}");
    }
}

#[test]
fn errors_name_what_was_expected() {
    let layout = wide();
    for (text, code, message) in [
        ("nope", "Q2102", "unknown instruction `nope`"),
        ("jumb.eq [1]", "Q2102", "unknown instruction `jumb.eq`"),
        ("", "Q2101", "expected an instruction, found the end of the line"),
        ("= 3", "Q2101", "expected an instruction, found `=`"),
        ("add %1048577, %2", "Q2103", "operand a of add is 1048577, expected 0..=1048576"),
        (
            "add %1, %2147483648",
            "Q2103",
            "operand b of add is 2147483648, expected -2147483648..=2147483647",
        ),
        ("add %1, %2 << 256", "Q2103", "operand shift of add is 256, expected 0..=255"),
        ("add %x, %2", "Q2101", "expected a (a number), found `x`"),
        ("add %1 %2", "Q2101", "expected `,`, found `%`"),
        ("adder 0", "Q2103", "operand count of adder is 0, expected 1..=256"),
        ("adder 257", "Q2103", "operand count of adder is 257, expected 1..=256"),
        (
            "adder 1, every 6",
            "Q2103",
            "operand step of adder is 6, expected a multiple of 4, 0..=1020",
        ),
        ("adder 1, att 6", "Q2101", "expected `at`, found `att`"),
        (
            "adder 99999999999999999999999999999999999999999",
            "Q2104",
            "the number does not fit 128 bits",
        ),
        ("jump.lt [1]", "Q2101", "expected one of `eq`, `eqle`, `le`, found `lt`"),
        ("jump.eq {10} [1]", "Q2103", "operand a of jump is 10, expected 1..=9"),
        ("jump.eqles [1]", "Q2101", "expected one of `eq`, `eqle`, `le`, found `eqles`"),
    ] {
        let problem = error(&WIDE, text, Some(&layout));
        assert_eq!((problem.code(), problem.message()), (code, message), "{text}");
        assert!(problem.is_error() && problem.class() == Class::Invalid);
    }
    // Without a layout only the operand itself limits the value.
    let problem = error(&WIDE, "adder 1, at -1", None);
    assert_eq!(problem.message(), "operand place of adder is -1, expected at least 0");
    assert!(parse(&WIDE, "adder 1000", None).is_some());
}

#[test]
fn suggestions_come_from_the_table() {
    for (text, help) in [
        ("nopp", Some("did you mean \"nop\"?")),
        ("ADD %1, %2", Some("did you mean \"add\"?")),
        ("jumb.eq [1]", Some("did you mean \"jump\"?")),
        ("jump.eqlee [1]", Some("did you mean \"eqle\"?")),
        ("multiply", None),
    ] {
        assert_eq!(error(&WIDE, text, None).help_text(), help, "{text}");
    }
    let problem = WIDE.manual(Some("jmp"), None, ManualFormat::Text).unwrap_err();
    assert_eq!((problem.code(), problem.class()), ("Q2102", Class::Usage));
    assert_eq!(problem.help_text(), Some("did you mean \"jump\"?"));
}

#[test]
fn the_place_of_an_error_is_the_wrong_text() {
    let text = "  adder 1, at 70000";
    let problem = error(&WIDE, text, Some(&wide()));
    let (span, label) = &problem.labels()[0];
    assert_eq!(&text[span.start as usize..span.end as usize], "70000");
    assert_eq!(label, "expected 0..=65535");
}

fn program(text: &str) -> Lines<Wide> {
    let layout = wide();
    let style = Style { comments: &["#!", "//"], separators: &[';'] };
    parse_lines(Cursor::new(text, SourceId(0), style), |cursor| {
        if cursor.eat(".directive") {
            return Ok(None);
        }
        let raw = WIDE.parse(cursor, Some(&layout))?;
        Wide::from_raw(&raw).map(Some).ok_or_else(|| Diagnostic::bug("no variant"))
    })
}

#[test]
fn reading_goes_on_after_errors() {
    let text = "nop; nop x; nop\r\n\n// all\n.directive\n.directive x\nadd %1, %2 2 ; foo; nop //;\n;;\nadd";
    let lines = program(text);
    assert_eq!(lines.items.len(), 3);
    let spans: Vec<&str> =
        lines.items.iter().map(|(span, _)| &text[span.start as usize..span.end as usize]).collect();
    assert_eq!(spans, ["nop"; 3]);
    let messages: Vec<&str> = lines.diagnostics.iter().map(Diagnostic::message).collect();
    assert_eq!(
        messages,
        [
            "expected the end of the line, found `x`",
            "expected the end of the line, found `x`",
            "expected the end of the line, found `2`",
            "unknown instruction `foo`",
            "expected `%`, found the end of the line",
        ]
    );
}

#[test]
fn a_text_of_errors_is_read_to_its_end() {
    let lines = program(&"foo\nnop\n".repeat(1000));
    assert_eq!(lines.items.len(), 1000);
    assert_eq!((lines.diagnostics.len(), count_errors(&lines.diagnostics)), (101, 1000));
    let last = lines.diagnostics.last().unwrap();
    assert_eq!((last.code(), last.is_error()), ("Q0101", false));
}

#[test]
fn a_statement_that_reads_nothing_is_an_error() {
    let cursor = Cursor::new("a\nb", SourceId(0), Style::HASH);
    let lines = parse_lines(cursor, |_| Ok(Some(())));
    assert_eq!((lines.items.len(), lines.diagnostics.len()), (0, 2));
}

#[test]
fn unused_fields_rest() {
    let nop = word(Wide::Nop {});
    assert_eq!((nop.get(32, 64), nop.get(96, 64), nop.get(160, 64)), (u64::MAX, 7, 0));
    // `low` is part of `wide`: it has its rest value only where `wide` is not used.
    let add = word(Wide::AddConstant { a: 1, value: 1 << 20 });
    assert_eq!((add.get(32, 32), add.get(64, 32), add.get(96, 64)), (1, 0xffff_ffff, 1 << 20));
}

#[test]
fn stray_bits_are_errors_or_warnings() {
    let layout = wide();
    for (at, width, value, message) in [
        (64, 32, 5, "nop does not use field id1, which is 5, expected -1"),
        (32, 1, 0, "nop does not use field id0, which is -2, expected -1"),
        (255, 1, 1, "nop does not use field scattered, which is 1, expected 0"),
        (250, 1, 1, "nop does not use bit 250, which is 1, expected 0"),
    ] {
        let mut word = word(Wide::Nop {});
        word.set(at, width, value);
        let problem = WIDE.decode(&word, &layout, false).unwrap_err();
        assert_eq!((problem.code(), problem.message()), ("Q2112", message));
        assert!(problem.notes()[0].starts_with("the bytes of the instruction are 00 00"));
        let (inst, warnings) = WIDE.decode(&word, &layout, true).unwrap();
        assert_eq!(Wide::from_raw(&inst), Some(Wide::Nop {}));
        assert_eq!(warnings, [problem.as_warning()]);
    }
    // `wide` is used in part, so it is not the field to name.
    let mut word = word(Wide::AddAnd { count: 1, place: 3, step: 0, always: false });
    word.set(120, 1, 1);
    let problem = WIDE.decode(&word, &layout, false).unwrap_err();
    assert_eq!(problem.message(), "adder does not use bit 120, which is 1, expected 0");
}

#[test]
fn words_that_mean_nothing() {
    let layout = wide();
    let mut unknown = Bits::ZERO;
    unknown.set(0, 6, 9);
    let mut no_form = word(Wide::Jump { condition: Condition::Less, a: 1, b: 0 });
    no_form.set(230, 1, 0);
    let mut no_name = word(Wide::Jump { condition: Condition::Less, a: 1, b: 0 });
    no_name.set(231, 3, 6);
    let mut out_of_range = word(Wide::Jump { condition: Condition::Less, a: 1, b: 0 });
    out_of_range.set(240, 8, 10);
    for (word, code, message) in [
        (unknown, "Q2111", "no instruction has opcode 9"),
        (no_form, "Q2111", "no form of opcode 4 has these fixed bits"),
        (
            no_name,
            "Q2113",
            "the number 6 means nothing as operand condition of jump, expected one of `eq`, `eqle`, `le`",
        ),
        (out_of_range, "Q2103", "operand a of jump is 10, expected 1..=9"),
    ] {
        for lenient in [false, true] {
            let problem = WIDE.decode(&word, &layout, lenient).unwrap_err();
            assert_eq!((problem.code(), problem.message()), (code, message));
        }
    }
}

#[test]
fn encoding_refuses_what_the_fields_cannot_hold() {
    let layout = wide();
    let refused = |inst: Wide| WIDE.encode(&inst.to_raw(), &layout).unwrap_err();
    let problem = refused(Wide::Add { a: -1, b: 0, shift: 0 });
    assert_eq!(problem.code(), "Q2103");
    assert_eq!(problem.message(), "operand a of add is -1, expected 0..=1048576");
    let problem = refused(Wide::AddAnd { count: 1, place: 0, step: 5, always: false });
    assert_eq!(problem.message(), "operand step of adder is 5, expected a multiple of 4, 0..=1020");
    // Data that belongs to no instruction, and a layout of another table.
    let nothing = RawInst { row: 99, values: Values::new() };
    let short = RawInst { row: 1, values: Values::new() };
    let other = narrow(16, 7, 7, 3).unwrap();
    for problem in [
        WIDE.encode(&nothing, &layout).unwrap_err(),
        WIDE.encode(&short, &layout).unwrap_err(),
        WIDE.encode(&Wide::Nop {}.to_raw(), &other).unwrap_err(),
        WIDE.decode(&Bits::ZERO, &other, true).unwrap_err(),
    ] {
        assert_eq!(problem.class(), Class::Bug);
    }
    assert_eq!(WIDE.print(&short), "<not an instruction of this machine>");
    assert_eq!(Wide::from_raw(&nothing), None);
    assert_eq!(Wide::from_raw(&short), None);
}

#[test]
fn scattered_fields_join_low_piece_first() {
    let word = word(Wide::Jump { condition: Condition::Equal, a: 1, b: 0b1010_0110 });
    assert_eq!((word.get(255, 1), word.get(6, 3), word.get(226, 4)), (0, 0b011, 0b1010));
    let layout = wide();
    assert_eq!(layout.read("scattered", &word), Some(0b1010_0110));
    assert_eq!(layout.pieces("scattered"), Some(&[(255, 1), (6, 3), (226, 4)][..]));
    assert_eq!((layout.width("scattered"), layout.width("none")), (Some(8), None));
    assert_eq!(
        (layout.range(3, 2), layout.range(3, 4), layout.range(9, 0)),
        (Some((0, 1020)), None, None)
    );
}

#[test]
fn the_widest_field_keeps_its_sign() {
    let layout = wide();
    let (low, high) = (-(1i128 << 126), (1i128 << 126) - 1);
    for value in [low, -1, 0, high] {
        let word = word(Wide::AddConstant { a: 0, value });
        assert_eq!(layout.read("wide", &word), Some(value));
        let (inst, _) = WIDE.decode(&word, &layout, false).unwrap();
        assert_eq!(Wide::from_raw(&inst), Some(Wide::AddConstant { a: 0, value }));
    }
    let problem = WIDE.encode(&Wide::AddConstant { a: 0, value: low - 1 }.to_raw(), &layout);
    assert_eq!(problem.unwrap_err().code(), "Q2103");
}

#[test]
fn widths_come_from_the_parameters() {
    let layout = narrow(16, 7, 7, 3).unwrap();
    assert_eq!((layout.bits(), layout.bytes(), layout.param("other")), (16, 2, Some(77)));
    let two = Narrow::Two { a: 127, b: -64 };
    let word = NARROW.encode(&two.to_raw(), &layout).unwrap();
    assert_eq!(word.get(0, 16), 1 | 127 << 2 | 64 << 9);
    let problem = error(&NARROW, "two 128, 0", Some(&layout));
    assert_eq!(problem.message(), "operand a of two is 128, expected 0..=127");
    // Fields of no bits hold 0 only.
    let layout = narrow(8, 0, 1, 3).unwrap();
    assert_eq!(layout.range(0, 0), Some((0, 0)));
    assert!(NARROW.encode(&Narrow::One { a: 0 }.to_raw(), &layout).is_ok());
    assert!(NARROW.encode(&Narrow::One { a: 1 }.to_raw(), &layout).is_err());
}

#[test]
fn parameters_that_do_not_go_together_are_refused() {
    for (layout, code, message) in [
        (narrow(321, 7, 7, 3), "Q2121", "a narrow instruction would have 321 bits"),
        (narrow(15, 7, 7, 3), "Q2122", "field b of narrow cannot have 7 bits at 9"),
        (narrow(200, 65, 7, 3), "Q2122", "field a of narrow cannot have 65 bits at 2"),
        (
            narrow(200, u32::MAX, 7, 3),
            "Q2122",
            "field a of narrow cannot have 4294967295 bits at 2",
        ),
        (narrow(16, 7, 0, 3), "Q2122", "field b of narrow has 0 bits and cannot hold -1"),
        (narrow(16, 7, 7, 2), "Q2122", "field mode of narrow has 2 bits and cannot hold 5"),
    ] {
        let problem = layout.unwrap_err();
        assert_eq!((problem.code(), problem.message()), (code, message));
        assert_eq!(problem.class(), Class::Unsupported);
    }
    let problem = Layout::fixed(&NARROW).unwrap_err();
    assert_eq!(problem.class(), Class::Bug);
    assert_eq!(problem.message(), "table narrow: no parameter bits");
}

#[test]
fn fixups_and_kinds_both_convert() {
    let layout = Layout::fixed(&ODD).unwrap();
    let word = ODD.encode(&Odd::Roll { high: 3, low: 7 }.to_raw(), &layout).unwrap();
    assert_eq!(word.get(8, 8), 36);
    let (raw, _) = ODD.decode(&word, &layout, false).unwrap();
    assert_eq!(Odd::from_raw(&raw), Some(Odd::Roll { high: 3, low: 7 }));
    // 00 and 65 cannot be stored.
    for (high, low, stored) in [(0, 0, 0), (6, 5, 65)] {
        let problem = ODD.encode(&Odd::Roll { high, low }.to_raw(), &layout).unwrap_err();
        let message = format!("operand high of roll is stored as {stored}, expected 1..=64");
        assert_eq!((problem.code(), problem.message()), ("Q2103", &message[..]));
    }
}

const fn row(
    syntax: &'static str,
    matches: &'static [(&'static str, i128)],
    operands: &'static [Operand],
) -> Row {
    Row {
        name: "Row",
        mnemonic: "row",
        syntax,
        doc: &["Doc."],
        matches,
        operands,
        fixup: None,
        steps: &[],
    }
}

const fn operand(name: &'static str, field: &'static str) -> Operand {
    Operand { name, ..Operand::at(field, Kind::Unsigned) }
}

static BAD_FIELDS: &[FieldSpec] = &[
    FieldSpec::unsigned("a", &[Piece::fixed(0, 4)]),
    FieldSpec::unsigned("b", &[Piece::fixed(2, 4)]),
    FieldSpec::unsigned("c", &[Piece::fixed(8, 4)]),
];

const fn bad(fields: &'static [FieldSpec], rows: &'static [Row]) -> Table {
    Table::new("bad", &["Doc."], Term::Const(16), &[], fields, rows)
}

#[test]
fn layouts_of_wrong_tables_are_refused() {
    static AMBIGUOUS: Table =
        bad(BAD_FIELDS, &[row("row", &[("a", 1)], &[]), row("row x", &[("c", 2)], &[])]);
    static OVERLAP: Table = bad(BAD_FIELDS, &[row("row {x}", &[("a", 1)], &[operand("x", "b")])]);
    static TWICE: Table = bad(BAD_FIELDS, &[row("row", &[("a", 1), ("b", 1)], &[])]);
    static NO_FIELD: Table = bad(BAD_FIELDS, &[row("row {x}", &[], &[operand("x", "z")])]);
    static SAME_BITS: Table =
        bad(&[FieldSpec::unsigned("a", &[Piece::fixed(0, 4), Piece::fixed(3, 4)])], &[]);
    static TOO_WIDE: Table = Table::new(
        "bad",
        &[],
        Term::Const(256),
        &[],
        &[FieldSpec::unsigned("a", &[Piece::fixed(0, 64), Piece::fixed(64, 64)])],
        &[],
    );
    for (table, message) in [
        (&AMBIGUOUS, "table bad: rows Row and Row can match one word"),
        (&OVERLAP, "table bad, row Row: the field of operand x overlaps another"),
        (&TWICE, "table bad, row Row: field b overlaps another one"),
        (&NO_FIELD, "table bad, row Row: no field z"),
        (&SAME_BITS, "table bad: field a has a bit twice"),
        (&TOO_WIDE, "field a of bad cannot have 64 bits at 64"),
    ] {
        assert_eq!(Layout::fixed(table).unwrap_err().message(), message);
    }
}

#[test]
fn checking_a_table_finds_its_mistakes() {
    let x = const { operand("x", "a") };
    let problem = |syntax: &'static str, operand: Operand| {
        let row = Box::leak(Box::new(row(syntax, &[], Box::leak(Box::new([operand])))));
        bad(BAD_FIELDS, std::slice::from_ref(row)).check()
    };
    let flag = Operand { kind: Kind::Flag, ..x };
    for (syntax, operand, expected) in [
        ("row {x}", x, &[][..]),
        ("row {x?yes}", flag, &[]),
        ("row", x, &["Row: operand x is not in the syntax", "Row: operand x has no default"]),
        ("row {x}, {x}", x, &["Row: operand x is more than once in the syntax"]),
        ("row[ {x}]", x, &["Row: operand x has no default"]),
        ("row {x}", x.or(-1), &["Row: operand x cannot have its default"]),
        ("row {x}", x.within(1, 4).or(5), &["Row: operand x cannot have its default"]),
        ("row {x}", x.converted(), &["Row: operand x is converted, but the row has no fixup"]),
        (
            "row {x}",
            Operand { kind: Kind::Scaled(0), ..x },
            &["Row: operand x has no positive scale"],
        ),
        ("row {x}", Operand { field: None, ..x }, &["Row: operand x has no field"]),
        ("row {y}", x, &["Row: the syntax names no operand `y`"]),
        ("row {x", x, &["Row: no `}` after `x`"]),
        ("row {x}[", x, &["Row: the syntax lacks a `]`"]),
        ("row {x}]", x, &["Row: the syntax has a stray `]`"]),
        ("row }", x, &["Row: the syntax has a stray `}`"]),
        ("row [a [{x}]]", x, &["Row: the syntax has a stray `[`"]),
        ("row {x?yes}", x, &["Row: operand x is not a flag"]),
        ("row {x?{x}}", flag, &["Row: the text of flag x is not plain"]),
    ] {
        assert_eq!(problem(syntax, operand), expected, "{syntax}");
    }
    static TWINS: Table = bad(BAD_FIELDS, &[row("row", &[], &[]), row("row", &[], &[])]);
    assert_eq!(TWINS.check(), ["Row: its name is taken"]);
    static SILENT: Table = bad(BAD_FIELDS, &[Row { doc: &[], ..row("row", &[], &[]) }]);
    assert_eq!(SILENT.check(), ["Row: it has no documentation"]);
}

#[test]
fn manuals_have_three_forms() {
    let layout = wide();
    let manual = |layout, format| WIDE.manual(Some("add"), layout, format).unwrap();
    let text = manual(Some(&layout), ManualFormat::Text);
    assert_eq!(text.matches("encoding").count(), 2);
    assert!(text.contains(
        "add %{a}, #{value}\n    Adds a constant; this form shares the mnemonic.\n    a            number, 0 to 1048576; Operand.\n"
    ));
    assert!(text.contains("opcode [5:0] = 2, id0 [63:32] = a, wide [159:96, 222:160] = value\n"));
    assert!(manual(None, ManualFormat::Text).contains("opcode = 2, id0 = a, wide = value\n"));
    let markdown = manual(None, ManualFormat::Markdown);
    assert!(markdown.starts_with("### `add %{a}, %{b}[ << {shift}]`\n\nAdds.\n\n| operand |"));
    assert!(markdown.contains("| `shift` | unsigned number (0 if absent) | Shift. |\n"));
    let json: serde_json::Value = serde_json::from_str(&manual(None, ManualFormat::Json)).unwrap();
    assert_eq!(json["schema"], 1);
    let wide = &json["instructions"][1];
    assert_eq!(wide["operands"][1]["field"], "wide");
    assert_eq!(wide["operands"][0]["range"], serde_json::json!(["0", "1048576"]));
    assert_eq!(wide["fields"][0]["value"], "2");
    assert_eq!(
        (&wide["fields"][2]["operand"], &wide["fields"][2]["bits"]),
        (&"value".into(), &serde_json::Value::Null)
    );
    let json: serde_json::Value =
        serde_json::from_str(&manual(Some(&layout), ManualFormat::Json)).unwrap();
    let wide = &json["instructions"][1];
    assert_eq!(wide["fields"][2]["bits"], serde_json::json!([[96, 64], [160, 63]]));
    assert_eq!(wide["operands"][1]["range"][1], ((1_i128 << 126) - 1).to_string());
    assert_eq!(WIDE.mnemonics(), ["nop", "add", "adder", "jump"]);
    assert_eq!(WIDE.find("add").map(|(index, _)| index).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn coverage_counts_rows() {
    let mut coverage = Coverage::new(&WIDE);
    assert_eq!(coverage.missing(), ["Nop", "Add", "AddConstant", "AddAnd", "Jump"]);
    for row in [0, 1, 1, 3, 4, 99] {
        coverage.mark(row);
    }
    assert_eq!(coverage.missing(), ["AddConstant"]);
    assert_eq!((coverage.count(1), coverage.count(2), coverage.count(99)), (2, 0, 0));
}

#[test]
fn equal_draws_give_equal_instructions() {
    let layout = wide();
    let draw = |seed| {
        let mut random = crate::laws::Random(seed);
        let mut list = Vec::new();
        for _ in 0..50 {
            list.push(WIDE.random(&mut |n| random.below(n), &layout));
        }
        list
    };
    assert_eq!(draw(3), draw(3));
    assert_ne!(draw(3), draw(4));
}

#[test]
fn random_values_reach_the_edges() {
    let layout = wide();
    let mut random = crate::laws::Random(5);
    let (mut counts, mut steps) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        let inst = WIDE.random_of(3, &mut |n| random.below(n), &layout);
        counts.push(inst.values[0]);
        steps.push(inst.values[2]);
    }
    assert!(counts.contains(&1) && counts.contains(&256));
    assert!(steps.contains(&0) && steps.contains(&1020));
}

proptest! {
    #[test]
    fn any_line_is_survived(text in r"((add|adder|jump\.eq|nop|two)[ %#]{0,3})?[ \PC]{0,40}") {
        crate::laws::survives(&WIDE, &text, Some(&wide()));
        crate::laws::survives(&NARROW, &text, None);
    }

    #[test]
    fn any_program_is_survived(text in r"(\PC|\n|\r|;| |nop|add %1){0,200}") {
        let lines = program(&text);
        for (span, _) in lines.items {
            prop_assert!(text.get(span.start as usize..span.end as usize).is_some());
        }
    }

    #[test]
    fn any_word_is_survived(halves: [u64; 4], lenient: bool) {
        let mut word = Bits::ZERO;
        for (at, half) in (0..256).step_by(64).zip(halves) {
            word.set(at, 64, half);
        }
        prop_assert_eq!(Bits::from_le_bytes(&word.to_le_bytes()), Some(word));
        let _ = WIDE.decode(&word, &wide(), lenient);
    }

    #[test]
    fn any_parameters_are_survived(bits in 0..340u32, a in 0..70u32, b in 0..70u32, mode: u32) {
        if let Ok(layout) = narrow(bits, a, b, mode) {
            let inst = NARROW.random(&mut |n| n - 1, &layout);
            let word = NARROW.encode(&inst, &layout).unwrap();
            prop_assert_eq!(NARROW.decode(&word, &layout, false).unwrap().0, inst);
        }
    }
}

instructions! {
    /// A machine that has assembly text only.
    pub enum Spoken, table SPOKEN = "spoken";
    bits Term::Const(0); params []; fields &[];

    /// Says a number.
    Say = "say" "say({a}[, {b}])" [] {
        /// The number.
        a: u8 = Operand::free(Kind::Unsigned).within(0, 9),
        /// Another one.
        b: u8 = Operand::free(Kind::Unsigned).or(0),
    }
    /// Says nothing.
    Wait = "wait" "wait()" [] {}
}

/// A table without machine code needs no fields, cannot be decoded, and its manual has no encoding.
#[test]
fn machines_without_machine_code() {
    assert_eq!(SPOKEN.check(), Vec::<String>::new());
    let layout = Layout::fixed(&SPOKEN).unwrap();
    assert!(SPOKEN.decode(&Bits::ZERO, &layout, true).is_err());
    let mut draws = 0;
    let mut below = |n: u64| {
        draws += 1;
        draws % n
    };
    for row in 0..SPOKEN.rows.len() {
        let inst = SPOKEN.random_of(row, &mut below, &layout);
        assert_eq!(parse(&SPOKEN, &SPOKEN.print(&inst), None).unwrap(), inst);
    }
    let blanks = parse(&SPOKEN, "say( 1 , 2 )", None).unwrap();
    assert_eq!(Spoken::from_raw(&blanks), Some(Spoken::Say { a: 1, b: 2 }));
    for format in [ManualFormat::Text, ManualFormat::Markdown] {
        let manual = SPOKEN.manual(None, Some(&layout), format).unwrap();
        assert!(manual.contains("Says a number") && !manual.to_lowercase().contains("encoding"));
    }
}

instructions! {
    /// A machine with a spelling that may be shorter.
    pub enum Plural, table PLURAL = "plural";
    bits Term::Const(8); params [];
    fields &[
        FieldSpec::unsigned("opcode", &[Piece::fixed(0, 4)]),
        FieldSpec::unsigned("count", &[Piece::fixed(4, 4)]),
    ];

    /// Loads.
    Load = "loads" "load[s] {count}" ["opcode" = 1] {
        /// How many.
        count: u8 = Operand::at("count", Kind::Unsigned),
    }
}

#[test]
fn groups_of_plain_text_are_printed_and_may_be_missing() {
    for text in ["load 3", "loads 3"] {
        let inst = parse(&PLURAL, text, None).unwrap();
        assert_eq!(inst, Plural::Load { count: 3 }.to_raw());
        assert_eq!(PLURAL.print(&inst), "loads 3");
    }
    assert!(parse(&PLURAL, "loadss 3", None).is_none());
    assert!(PLURAL.check().is_empty());
}
