//! Random programs survive every form.

use crate::common::{Random, arch, fragment, inst, only, parse, read_lenient};
use quincunx_isa::Coverage;
use quincunx_npu::binary;
use quincunx_npu::isa::{Inst, Queue, TABLE};
use quincunx_npu::program::{Line, Map, Program};
use quincunx_npu::text::{self, Schema};

fn random_program(random: &mut Random, trace: bool) -> Program {
    let layout = arch().layout().unwrap();
    let count = 1 + random.below(60);
    let mut line = |index: u64| {
        let raw = TABLE.random(&mut |n| random.below(n), &layout);
        let mut index_of = || random.below(200) - 1;
        let map = Map {
            slyr: index_of(),
            clyr: (0..index_of().max(0) % 4).collect(),
            s_flyr: index_of(),
            c_flyr: (0..index_of().max(0) % 3).collect(),
            wkl: index_of(),
            tile: (index_of() > 50).then_some(7),
        };
        let time = trace.then_some((index * 3, index * 3 + 100));
        Line { inst: Inst::from_raw(&raw).unwrap(), map: Some(map), time }
    };
    Program { lines: (0..count).map(&mut line).collect(), spellings: Vec::new() }
}

#[test]
fn text_is_lossless() {
    let mut coverage = Coverage::new(&TABLE);
    for seed in 0..400 {
        let program = random_program(&mut Random::new(seed), seed % 2 == 0);
        let bytes = text::print(&program);
        assert!(text::recognises(&bytes));
        let read = parse(&bytes);
        assert_eq!(read, program, "{}", String::from_utf8_lossy(&bytes));
        program.instructions().for_each(|inst| coverage.mark(inst.row()));
    }
    assert_eq!(coverage.missing(), Vec::<&str>::new());
}

/// The text is the syntax of the rows: the kit reads and prints the same fields.
#[test]
fn the_text_is_that_of_the_table() {
    let program = random_program(&mut Random::new(1), false);
    for line in &program.lines {
        let raw = line.inst.to_raw();
        let printed = TABLE.print(&raw);
        let fields = printed.split_once(' ').unwrap().1;
        let mut own = Vec::new();
        text::print_line(line, 0, &[], &mut own);
        let own = String::from_utf8(own).unwrap();
        assert!(own.ends_with(&format!("{fields}]")), "{own} and {fields}");
    }
}

#[test]
fn machine_code_keeps_everything_with_its_side_section() {
    for seed in 0..300 {
        let program = random_program(&mut Random::new(seed), seed % 2 == 0);
        let Ok(code) = binary::write(&program, &arch(), true) else {
            // Only ct_bc cannot give tokens to its own queue.
            assert!(program.instructions().any(|inst| matches!(inst, Inst::CtBc { .. })));
            continue;
        };
        assert_eq!(binary::read(&code, &arch()).unwrap(), program, "seed {seed}");
        let bare = binary::write(&program, &arch(), false).unwrap();
        let read = binary::read(&bare, &arch()).unwrap();
        assert!(read.instructions().eq(program.instructions()));
    }
    let own = inst("ct_bc", &[]).with_tokens(only(Queue::Ct), only(Queue::Ct));
    let line = Line { inst: own, map: None, time: None };
    let program = Program { lines: vec![line], spellings: Vec::new() };
    assert_eq!(binary::write(&program, &arch(), false).unwrap_err().code(), "Q2103");
}

/// Words worked out by hand from the widths that `quincunx isa npu` lists.
#[test]
fn words_of_machine_code() {
    let word = |inst: Inst| {
        let line = Line { inst, map: None, time: None };
        let program = Program { lines: vec![line], spellings: Vec::new() };
        binary::write(&program, &arch(), false).unwrap()[12..].to_vec()
    };
    let regions = inst("ct_bc", &[("bcs", 3), ("last0", 8191)]);
    let code = word(regions.with_tokens(only(Queue::Ld), only(Queue::So)));
    // Opcode 19; LD is bit 0 and SO bit 7 of 8; 13 bits of length, 13 of the last KiB.
    assert_eq!(code[..8], [19, 1, 128, 0, 0xe0, 0xff, 0x03, 0]);
    // Masks of 9 bits, RS, DBSG, then 32 bits of DRAM address.
    let load = inst("lda_mov", &[("staddr", 0x1234_5678), ("dbsg", 2), ("dtaddr", -8)]);
    let bits = u128::from_le_bytes(word(load).try_into().unwrap());
    assert_eq!(bits & 0xff, 40);
    assert_eq!(bits >> 27 & 3, 2);
    assert_eq!(bits >> 29 & 0xffff_ffff, 0x1234_5678);
    assert_eq!(bits >> 61 & 0x1f_ffff, 0x1f_ffff);
}

#[test]
fn lenient_reading_takes_unknown_members_and_parts_left_out() {
    let text = "[ct_st, {...}, {'Prev_Insts': [], 'Next_Insts': []}]\n...\n\
        [vp_cfg_gcs, {'slyr': 0, 'clyr': [], 's_flyr': 0, 'c_flyr': [], 'wkl': 0}, \
        {'CMPS': <CMPS.LEAST: 3>, 'SG0M': <SG0M.DEFAULT: 0>, 'CMPVS': 0, 'SG0VS': 0, 'SG0V': 0, 'CMPV': 0}]\n";
    assert!(read_lenient(text.as_bytes(), false).is_err());
    let read = read_lenient(text.as_bytes(), true).unwrap();
    assert_eq!(read.warnings.len(), 3, "{:?}", read.warnings);
    let printed = String::from_utf8(text::print(&read.program)).unwrap();
    assert_eq!(printed, text.replace("...\n[", "[").replace("\n...\n", "\n"));
    let code = binary::write(&read.program, &arch(), true).unwrap();
    assert_eq!(binary::read(&code, &arch()).unwrap(), read.program);
    let elided = "[pe_conv, {...}, {..., 'Prev_Insts': ['LW'], 'Next_Insts': ['VP', 'LW']}]\n";
    let read = read_lenient(elided.as_bytes(), true).unwrap();
    let (prev, next) = read.program.lines[0].inst.tokens().unwrap();
    assert_eq!((prev.len(), next.len()), (1, 2));
}

#[test]
fn several_tasks_and_maps_without_tiles() {
    let one = fragment("f02_load_quantise_store");
    let two = [&one[..], &one[..]].concat();
    let program = parse(&two);
    assert_eq!((program.tasks().len(), text::print(&program)), (2, two));
    let without =
        String::from_utf8(one).unwrap().replace(", 'tile': -1", "").replace(", 'tile': 0", "");
    assert_eq!(text::print(&parse(without.as_bytes())), without.as_bytes());
}

#[test]
fn other_machines_have_other_ranges() {
    let text = "[lda_mov, {'slyr': 0, 'clyr': [], 's_flyr': 0, 'c_flyr': [], 'wkl': 0, 'tile': -1}, {'RS': 0, \
        'DBSG': 0, 'STaddr': 0, 'DTaddr': 65536, 'Tile': [1, 1, 1, 1], 'Prev_Insts': [], 'Next_Insts': []}]\n";
    let mut arch = arch();
    arch.l2_address_bits = 13;
    let schema = Schema::new(&arch).unwrap();
    let problems = text::read(text.as_bytes(), quincunx_diag::SourceId(0), &schema, false);
    assert_eq!(problems.unwrap_err()[0].code(), "Q4004");
    assert_eq!(parse(text.as_bytes()).lines.len(), 1);
}

/// The comparison of two programs names the line that differs, with both texts, and the totals.
#[test]
fn differences_name_lines_and_cycles() {
    use quincunx_contract::{ArchSource, File, Log, Options, Target as _};
    let target = &quincunx_npu::TARGET;
    let bytes = fragment("f02_load_quantise_store");
    let read = |text: &[u8]| {
        let arch = target.arch(&ArchSource::Default).unwrap();
        let options = Options::new(target.info().options, &[]).unwrap();
        let file = File::new("a.asm.txt", text.to_vec());
        target.read(&[file], None, arch.as_ref(), &options, &mut Log::default()).unwrap()
    };
    let left = read(&bytes);
    assert_eq!(target.diff(left.as_ref(), read(&bytes).as_ref()), None);
    let mut lines: Vec<String> =
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect();
    let at = lines.iter().position(|line| line.starts_with("[sta_mov")).unwrap();
    let before = lines[at].clone();
    lines[at] = before.replace("'DTaddr': ", "'DTaddr': 1");
    assert_ne!(lines[at], before);
    let right = read((lines.join("\n") + "\n").as_bytes());
    let tables = target.diff(left.as_ref(), right.as_ref()).unwrap();
    let keys: Vec<_> = tables.iter().map(quincunx_report::Table::key).collect();
    assert_eq!(keys, ["cycles", "lines"]);
    let shown = format!("{:?}", tables[1]);
    assert!(shown.contains(&format!("Count({})", at + 1)), "{shown}");
    assert!(shown.contains(&format!("{before:?}")) && shown.contains(&format!("{:?}", lines[at])));
}

/// What is not a number, and lines of another system, with what to write instead.
#[test]
fn messages_about_numbers_and_line_ends() {
    let text = String::from_utf8(crate::common::fragment("f04_conv3x3_stride2_padded")).unwrap();
    let help = |from: &str, to: &str| -> (String, String) {
        let problems = read_lenient(text.replacen(from, to, 1).as_bytes(), false).unwrap_err();
        let problem = problems.into_iter().next().unwrap();
        assert_eq!(problem.labels().len(), 1);
        (problem.message().to_owned(), problem.help_text().unwrap_or_default().to_owned())
    };
    let (message, advice) = help("-128.0", "-99999999999");
    assert!(message.contains("a whole number of 32 bits"), "{message}");
    assert!(advice.ends_with("-99999999999.0"), "{advice}");
    assert!(read_lenient(text.replacen("-128.0", "-99999999999.0", 1).as_bytes(), false).is_ok());
    for word in ["nan", "-inf", "None"] {
        let (message, advice) = help("-128.0", word);
        assert!(message.contains("a finite number") && advice.contains("such as 0"), "{advice}");
    }
    assert_eq!(help("-128.0", "1e999").1, "");
    assert!(help("\n", "\r\n").1.contains("line feed"));
    assert_eq!(help("]\n", "] \n").1, "");
}
