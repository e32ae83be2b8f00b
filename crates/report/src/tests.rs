use crate::{Cell, Column, Format, Heading, Report, Table, VERSION, shortened};

fn sample() -> Report {
    let columns = vec![
        Column::text("target"),
        Column::number("seconds_compile").unit("s"),
        Column::number("share"),
        Column::number("cycles"),
    ];
    let mut table = Table::new("rows", columns);
    table.push(vec!["dais".into(), Cell::Real(0.123_456, 3), Cell::Share(0.5), Cell::Empty]);
    table.push(vec!["a|b,\"<c>".into(), Cell::Real(f64::NAN, 3), Cell::Share(1.0), 7_u64.into()]);
    Report::from(table)
}

#[test]
fn text_is_aligned_and_has_no_trailing_blanks() {
    let expected = "\
target    seconds compile [s]     share  cycles
────────────────────────────────────────────────
dais                    0.123   50.00 %
a|b,\"<c>                  NaN  100.00 %       7
";
    assert_eq!(sample().render(Format::Text), expected);
}

#[test]
fn json_keeps_the_order_of_columns() {
    let json: String = sample().render(Format::Json).split_whitespace().collect();
    assert_eq!(
        json,
        r#"{"schema":1,"rows":[{"target":"dais","seconds_compile":0.123456,"share":0.5,"cycles":null},{"target":"a|b,\"<c>","seconds_compile":null,"share":1.0,"cycles":7}]}"#
    );
}

#[test]
fn markdown_escapes_what_would_end_a_cell() {
    let markdown = sample().render(Format::Markdown);
    assert!(markdown.contains("| --- | ---: | ---: | ---: |"));
    assert!(markdown.contains("| a\\|b,\"\\<c\\> |"), "{markdown}");
}

#[test]
fn csv_quotes_and_keeps_full_numbers() {
    let csv = sample().render(Format::Csv);
    assert_eq!(
        csv,
        "target,seconds_compile,share,cycles\ndais,0.123456,0.5,\n\"a|b,\"\"<c>\",NaN,1,7\n"
    );
}

#[test]
fn html_escapes_markup() {
    let html = sample().text("dump", "<script>").render(Format::Html);
    assert!(html.contains("a|b,&quot;&lt;c&gt;"));
    assert!(html.contains("<pre>&lt;script&gt;</pre>"));
    assert!(!html.contains("<script>"));
}

#[test]
fn control_characters_reach_no_format() {
    let mut table = Table::properties("rows");
    table.property("\u{1b}[31mred\n\u{202e}", "\u{7}\u{9b}");
    let report = Report::from(table).text("dump", "one\r\ntwo\u{1b}");
    for (name, format) in Format::ALL {
        let text = report.render(format);
        let hidden =
            |c: char| c.is_control() && c != '\n' || format != Format::Json && c == '\u{202e}';
        // JSON escapes C0 by its own rules and carries all others as they are.
        let allowed = |c: char| format == Format::Json && c == '\u{9b}';
        assert!(!text.chars().any(|c| hidden(c) && !allowed(c)), "{name}: {text:?}");
        assert_eq!(name.parse(), Ok(format));
    }
    assert!("xml".parse::<Format>().is_err());
}

#[test]
fn a_fence_is_longer_than_any_in_the_text() {
    let markdown = Report::new().text("dump", "```\n````").render(Format::Markdown);
    assert!(markdown.starts_with("`````text\n"));
}

#[test]
fn lists_show_some_entries_to_people_and_all_to_programs() {
    let mut table = Table::new("rows", vec![Column::text("values")]);
    let numbers = [0.5, 1.0 / 3.0, f64::NAN, 1.25e-9].map(Cell::Brief);
    let whole = [i64::MIN, -1].map(Cell::Integer);
    table.push(vec![Cell::List(numbers.into_iter().chain(whole).collect(), 4)]);
    let report = Report::from(table);
    assert!(report.render(Format::Text).ends_with("0.5 0.3333 NaN 1.2500e-9 …\n"));
    let json: String = report.render(Format::Json).split_whitespace().collect();
    assert!(
        json.ends_with("[0.5,0.3333333333333333,null,1.25e-9,-9223372036854775808,-1]}]}"),
        "{json}"
    );
    assert!(report.render(Format::Csv).ends_with("-9223372036854775808 -1\n"));
}

#[test]
fn tables_are_joined_and_chosen() {
    let table = |word: &str| {
        let mut table = Table::new("t", vec![Column::text("a")]);
        table.push(vec![word.into()]);
        table
    };
    let mut joined = table("x").with_first("segment", "one");
    let other = table("y").with_first("segment", "two");
    assert!(joined.has_form_of(&other) && !joined.has_form_of(&table("z")));
    joined.append(other);
    let report = Report::from(joined).text("note", "n\n").and(table("w").into());
    assert_eq!(report.keys().collect::<Vec<_>>(), ["t", "note", "t"]);
    let csv = report.clone().only(|key| key == "t").render(Format::Csv);
    assert!(csv.starts_with("segment,a\none,x\ntwo,y\n"), "{csv}");
    assert_eq!(report.only(|key| key == "note").render(Format::Text), "n\n");
}

/// The longest line.
fn width(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap()
}

#[test]
fn long_names_lose_their_middles_and_stay_distinct() {
    let prefix = "StatefulPartitionedCall/model/block/".repeat(6);
    let ends = ["conv/Conv2D", "bn/FusedBatchNormV3", "conv/Conv2D_1"];
    let middles = ["a", "b"].map(|word| format!("{prefix}{word}{prefix}"));
    for names in [ends.map(|end| format!("{prefix}{end}")).to_vec(), middles.to_vec()] {
        let columns = vec![Column::text("node"), Column::number("macs"), Column::text("reason")];
        let mut table = Table::new("rows", columns);
        for name in &names {
            let reason = "the machine has no such operator, nor one that does the same";
            table.push(vec![name.as_str().into(), 1_u64.into(), reason.into()]);
        }
        let report = Report::from(table);
        let text = report.render_within(Format::Text, Some(80));
        assert!(width(&text) <= 80, "{text}");
        assert_eq!(text.matches('…').count(), names.len(), "{text}");
        let shown: Vec<&str> = text
            .lines()
            .filter(|line| line.contains('…'))
            .map(|l| &l[..l.find(' ').unwrap()])
            .collect();
        let distinct: std::collections::BTreeSet<&str> = shown.iter().copied().collect();
        assert_eq!(distinct.len(), names.len(), "{text}");
        let words =
            |text: &str| text.split_whitespace().filter(|word| *word == "operator,").count();
        assert_eq!(words(&text), names.len(), "{text}");
        assert!(report.render(Format::Json).contains(&names[0]));
        assert!(report.render(Format::Text).contains(&names[0]));
    }
}

#[test]
fn columns_that_do_not_fit_follow_below_behind_the_first() {
    let headings = ["value", "instructions", "read_from_memory", "written", "utilisation"];
    let mut columns = vec![Column::text("layer")];
    columns.extend(headings.map(Column::number));
    let mut table = Table::new("rows", columns);
    let numbers = (1..=5_u64).map(|digit| crate::Cell::from(digit * 11_111_111));
    table.push([Cell::from("conv_1")].into_iter().chain(numbers).collect());
    let report = Report::from(table);
    for limit in [30, 40, 60, 80] {
        let text = report.render_within(Format::Text, Some(limit));
        assert!(width(&text) <= limit, "{limit}\n{text}");
        let blocks = text.matches("conv_1").count();
        assert_eq!(text.matches("layer").count(), blocks, "{text}");
        assert_eq!(blocks == 1, limit == 80, "{limit}\n{text}");
        for digit in 1..=5 {
            assert_eq!(text.matches(&(digit * 11_111_111).to_string()).count(), 1, "{text}");
        }
    }
}

#[test]
fn columns_without_entries_go_where_there_is_no_room() {
    let columns = ["name", "first_reason", "second_reason"].map(Column::text).to_vec();
    let mut table = Table::new("rows", columns);
    table.push(vec!["a".into(), "x".repeat(20).into(), Cell::Empty]);
    let report = Report::from(table);
    assert!(report.render_within(Format::Text, Some(60)).contains("second reason"));
    let narrow = report.render_within(Format::Text, Some(40));
    assert!(narrow.contains("first reason") && !narrow.contains("second"), "{narrow}");
}

#[test]
fn pages_and_pictures_say_what_they_are_of() {
    let heading = Heading::new("Time <line>").of("a<b>&\"c\".onnx").on("dais d1");
    let page = sample().text("more_of_it", "x").headed(heading.clone()).render(Format::Html);
    let picture = heading.picture([300.0, 100.0], "<g/>\n");
    for text in [&page, &picture] {
        for part in ["Time &lt;line&gt;", "a&lt;b&gt;&amp;&quot;c&quot;.onnx", "dais d1", VERSION] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("prefers-color-scheme: dark"), "{text}");
        assert_eq!(text.matches("<title>").count(), 1);
        // Nothing comes from elsewhere.
        let own = text.replace("http://www.w3.org/2000/svg", "");
        for word in ["http", "src=", "url(", "@import", "<link", "<script"] {
            assert!(!own.contains(word), "{word}: {text}");
        }
    }
    assert!(page.contains("<h1>Time &lt;line&gt;</h1>") && page.contains("<h2>more of it</h2>"));
    // The main table is what the heading says; rounded numbers tell all of themselves.
    assert!(!page.contains("<h2>rows</h2>"));
    assert!(page.contains("<td class=\"number\" title=\"0.123456\">0.123</td>"), "{page}");
    assert!(picture.starts_with("<svg") && picture.ends_with("<g/>\n</svg>\n"));
    assert_eq!(
        heading.line(),
        format!("Time <line>, of a<b>&\"c\".onnx, machine dais d1, {VERSION}")
    );
    // Long names are short on a page, and whole when one points at them.
    let mut table = Table::new("rows", vec![Column::text("node")]);
    let names = [0, 1].map(|n| format!("{}conv{n}", "block/".repeat(40)));
    names.iter().for_each(|name| table.push(vec![format!("{name} twice").into()]));
    let page = Report::from(table).render(Format::Html);
    for name in names {
        let (tag, shown) = page.split_once(&format!("<td title=\"{name} twice\">")).unwrap();
        assert!(!tag.is_empty() && shown.split_once(" twice</td>").unwrap().0.len() < 60, "{page}");
    }
    // What is not known is not named.
    let bare = Heading::new("Targets").page("", "");
    assert!(!bare.contains("machine") && !bare.contains("<dt>of</dt>"), "{bare}");
}

#[test]
fn headings_of_pictures_fit_them() {
    let name = "block/".repeat(80);
    let picture = Heading::new("Graph").of(name.as_str()).picture([400.0, 100.0], "");
    let shown = picture.lines().find(|line| line.starts_with("<text")).unwrap();
    assert!(shown.contains("Graph of block/") && shown.contains('…'), "{shown}");
    assert!(shown.len() < 140, "{shown}");
    // All of it shows when one points at it.
    assert!(picture.contains(&format!("<title>Graph, of {name}, {VERSION}</title>")));
    for (text, width, expected) in
        [("abcdefgh", 8, "abcdefgh"), ("abcdefgh", 7, "abc…fgh"), ("abcdefgh", 0, "a…h")]
    {
        assert_eq!(shortened(text, width), expected);
    }
}

#[test]
fn long_lines_of_texts_are_folded_unless_others_read_them() {
    let names: Vec<String> =
        (0..3).map(|n| format!("{}conv{n}", "functional/block/".repeat(12))).collect();
    let text =
        format!("graph\n  {}:\n    Conv({}, {})\n  short line\n", names[0], names[1], names[2]);
    let report = Report::new().text("graph", text.as_str());
    for limit in [40, 80] {
        let shown = report.render_within(Format::Text, Some(limit));
        assert!(width(&shown) <= limit, "{limit}\n{shown}");
        assert!(shown.starts_with("graph\n  functional/") && shown.ends_with("\n  short line\n"));
        let ends = ["conv0:", "conv1,", "conv2)"];
        assert!(ends.iter().all(|end| shown.contains(end)), "{limit}\n{shown}");
        assert!(!shown.lines().any(|line| line.trim().is_empty()), "{limit}\n{shown}");
    }
    for (format, limit) in
        [(Format::Text, None), (Format::Json, Some(40)), (Format::Html, Some(40))]
    {
        assert!(report.render_within(format, limit).contains(&names[2]), "{format:?}");
    }
    let patch = Report::new().verbatim("diff", text.as_str());
    assert_eq!(patch.render_within(Format::Text, Some(40)), text);
}

#[test]
fn rows_that_say_nothing_more_are_not_repeated() {
    let columns = ["node", "place", "reason"].map(Column::text).to_vec();
    let mut table = Table::new("rows", columns);
    for n in 0..5 {
        let reason = if n == 3 { Cell::from("too large a tensor") } else { Cell::Empty };
        let place = "a segment of the host";
        table.push(vec![format!("{}{n}", "block/".repeat(9)).into(), place.into(), reason]);
    }
    let text = Report::from(table).render_within(Format::Text, Some(40));
    assert_eq!(text.matches("block/bloc").count(), 6, "{text}");
    assert_eq!(text.matches("k/3").count(), 2, "{text}");
}

#[test]
fn columns_for_programs_are_in_json_and_csv_alone() {
    let columns =
        vec![Column::text("target"), Column::number("bytes").for_programs(), Column::text("limit")];
    let mut table = Table::new("rows", columns);
    table.push(vec!["tcu".into(), 7_u64.into(), "array".into()]);
    let report = Report::from(table);
    for (format, has) in [
        (Format::Text, false),
        (Format::Markdown, false),
        (Format::Html, false),
        (Format::Json, true),
        (Format::Csv, true),
    ] {
        let text = report.render(format);
        assert_eq!(text.contains("bytes"), has, "{text}");
        assert!(text.contains("array"), "{text}");
    }
}
