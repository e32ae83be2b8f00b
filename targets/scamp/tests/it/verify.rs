//! Every rule, broken alone.

use crate::common::{generous, golden, golden_text, parse, program, reg, scamp5};
use quincunx_contract::ArchSource;
use quincunx_diag::{Diagnostic, SourceId, any_error, count_errors};
use quincunx_scamp::ScampArch;
use quincunx_scamp::files::{KernelFile, read_kernels};
use quincunx_scamp::fix::fix;
use quincunx_scamp::isa::Reg;
use quincunx_scamp::symbolic::{Level, computed, run};
use quincunx_scamp::text;
use quincunx_scamp::verify::{verify, verify_kernels};

fn arch(text: &str) -> ScampArch {
    let text = format!("name = \"x\"\n{text}");
    ScampArch::from_source(&ArchSource::Text { name: "x".to_owned(), text }).unwrap()
}

fn codes_on(source: &str, arch: &ScampArch) -> Vec<&'static str> {
    verify(&parse(source), arch).iter().map(Diagnostic::code).collect()
}

fn codes(source: &str) -> Vec<&'static str> {
    codes_on(source, &scamp5())
}

#[test]
fn registers_exist() {
    assert_eq!(codes("mov(A, G)"), ["Q5020"]);
    assert_eq!(codes("bus(G, A)"), ["Q5020"]);
    assert_eq!(codes("where(G)"), ["Q5020", "Q5035"]);
    assert_eq!(codes("input(G, 3)"), ["Q5020"]);
    assert_eq!(codes_on("mov(A, G)", &ScampArch::preset("scamp5-18reg").unwrap()), [""; 0]);
    assert_eq!(codes("NOT(DB1, R1)"), ["Q5027"]);
    assert_eq!(codes("NOT(RP, S6); MOV(R5, FLAG); CLR(SELECT, RECT)"), [""; 0]);
    assert_eq!(codes_on("NOT(DB1, R1)", &arch("virtual_digital = true")), [""; 0]);
}

#[test]
fn macros_take_general_registers() {
    for source in ["movx(A, NEWS, north)", "mov(XE, A)", "add(A, PIX, B)", "get_image(PIX)"] {
        assert_eq!(codes(source), ["Q5021"], "{source}");
    }
    assert_eq!(codes("getpix(A, IN); getpix(A, B, IN)"), [""; 0]);
    assert_eq!(codes("getpix(A, NEWS)"), ["Q5021"]);
}

#[test]
fn a_register_is_once_on_the_bus() {
    for source in ["bus(A, A)", "bus(A, B, B)", "bus2(A, A)", "bus(NEWS, XE, XE)", "neg(A, A)"] {
        assert_eq!(codes(source), ["Q5022"], "{source}");
    }
    assert_eq!(codes("where(A, A)"), ["Q5022", "Q5035"]);
    let all = "bus(A, XE, XW, XN, XS, NEWS, B, C, D, E, F, PIX, IN)";
    assert_eq!(codes_on(all, &ScampArch::preset("scamp5-wide").unwrap()), [""; 0]);
}

#[test]
fn sources_and_receivers_have_limits() {
    assert_eq!(codes("bus4(A, B, C, D, E)"), ["Q5023"]);
    assert_eq!(codes_on("bus4(A, B, C, D, E)", &generous()), [""; 0]);
    let wide = ScampArch::preset("scamp5-wide").unwrap();
    for (source, codes_now) in [
        ("bus(A, XE, XW, XN, XS)", &[][..]),
        ("bus(A, XE, XW, XN, XS, B)", &["Q5023"]),
        ("bus2(A, B, C, D)", &[]),
        ("bus2(A, B, C, D, E)", &["Q5023"]),
        ("bus3(A, B, C, D)", &[]),
        ("bus3(A, B, C, D, E)", &["Q5023"]),
    ] {
        assert_eq!(codes(source), codes_now, "{source}");
        assert_eq!(codes_on(source, &wide), [""; 0], "{source}");
    }
    let small = arch("max_sources = 2\nmax_where = 1");
    assert_eq!(codes_on("add(A, B, C, D)", &small), ["Q5023"]);
    assert_eq!(codes_on("where(A, B); all()", &small), ["Q5023"]);
}

#[test]
fn news_is_written_once() {
    assert_eq!(codes("bus2(NEWS, XE, A)"), ["Q5024"]);
    assert_eq!(codes("bus2(XN, XE, A)"), ["Q5024"]);
    assert_eq!(codes("bus2(A, XE, B)"), [""; 0]);
    assert_eq!(codes("bus(NEWS, XE)"), ["Q5033"]);
}

#[test]
fn sensor_registers() {
    assert_eq!(codes("bus(IN)"), ["Q5025"]);
    assert_eq!(codes("bus(PIX, A)"), ["Q5025"]);
    assert_eq!(codes("bus2(PIX, A)"), ["Q5025"]);
    assert_eq!(codes("bus(PIX); bus(A, PIX, IN)"), [""; 0]);
}

#[test]
fn macro_sets() {
    let basic = arch("macros = \"basic\"");
    assert_eq!(codes_on("mov2x(A, B, north, east)", &basic), ["Q5026"]);
    assert_eq!(codes_on("add(A, B, C); add(A, B, C, D)", &basic), ["Q5026"]);
    assert_eq!(codes_on("divq(A, B)", &arch("macros = \"all\"")), ["Q5026"]);
    assert_eq!(codes_on("bus3(A, B, C, D)", &basic), [""; 0]);
}

#[test]
fn kernels_begin_and_end() {
    let (begin, end) = ("scamp5_kernel_begin();", "scamp5_kernel_end();");
    let load = "scamp5_load_pattern(R5, 0x00, 0x00, 0xff, 0xff);";
    assert_eq!(codes(&format!("{begin} {begin} {end}")), ["Q5028"]);
    assert_eq!(codes(&format!("{end} {begin} {end}")), ["Q5028"]);
    assert_eq!(codes(begin), ["Q5028"]);
    assert_eq!(codes(&format!("{begin} {load} {end} {begin} {end}")), ["Q5028"]);
    assert_eq!(codes(&format!("{begin} {end} res(A); {begin} {end}")), ["Q5028"]);
    assert_eq!(codes(&format!("{begin} {end} {load} {begin} res(A); {end}")), [""; 0]);
}

#[test]
fn warnings() {
    assert_eq!(codes("mov(A, B, north); sub(A, B, east, C)"), ["Q5030", "Q5030"]);
    assert_eq!(codes("/*Inputs in: [A]*/ add(B, A, C);"), ["Q5031"]);
    assert_eq!(codes("/*Inputs in: [A]*/ bus(B, NEWS);"), ["Q5031"]);
    assert_eq!(codes("where(A); movx(A, B, north); all()"), ["Q5032"]);
    assert_eq!(codes("add2x(A, B, C, north, south)"), ["Q5034"]);
    assert_eq!(codes("where(A)"), ["Q5035"]);
    assert_eq!(codes("WHERE(R5)"), ["Q5035"]);
    assert_eq!(codes("/*Inputs in: [A]*/ res(B); /*Null Instruction: [] <- [C]*/"), ["Q5036"]);
    for source in ["where(A); all()", "where(A); abs(A, B)", "res(A, B); getpix(C)"] {
        assert_eq!(codes(source), [""; 0], "{source}");
    }
}

#[test]
fn many_errors_end_the_list() {
    let problems = verify(&parse(&"neg(A, A);".repeat(500)), &scamp5());
    assert_eq!(count_errors(&problems), 500);
    assert_eq!((problems.len(), problems[100].code()), (101, "Q0101"));
}

#[test]
fn texts_that_are_wrong() {
    for (source, code) in [
        ("foo(A)", "Q2102"),
        ("add(A, B)", "Q2101"),
        ("movx(A, B, up)", "Q2101"),
        ("mov(A, ABCDEFGHIJKLMNOP)", "Q5001"),
        ("mov(A, B", "Q2101"),
        ("mov(A, b)", "Q2101"),
        ("scamp5_load_pattern(R5, 256, 0, 0, 0)", "Q2103"),
        ("res(A); /* x", "Q5002"),
    ] {
        let problems = text::parse(source, SourceId(0)).unwrap_err();
        assert_eq!(problems[0].code(), code, "{source}");
    }
    let problems = text::parse(&"res(A);".repeat((1 << 18) + 5), SourceId(0)).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].code(), "Q5003");
}

#[test]
fn kernels_that_are_not_the_wanted_ones() {
    let file = read_kernels(&golden_text("cain_inputs/box2.json")).unwrap();
    let right = "movx(B, A, north); add(A, A, B); movx(B, A, west); add(A, A, B)";
    assert_eq!(verify_kernels(&parse(right), &file, &scamp5()).unwrap(), []);
    let wrong = parse(&right.replace("west", "east"));
    let problems = verify_kernels(&wrong, &file, &scamp5()).unwrap();
    assert_eq!(problems[0].code(), "Q5042");
    assert_eq!(
        problems[0].message(),
        "A holds <0 1 1; 0 1 1; 0 0 0>, expected <1 1 0; 1 1 0; 0 0 0>"
    );
    let conditional = verify_kernels(&parse("where(A); mov(A, B); all()"), &file, &scamp5());
    assert_eq!(conditional.unwrap_err().code(), "Q5040");
    // Doubling makes ever longer numbers.
    let long = "mov(B, A); add(A, A, B);".repeat(3000);
    assert_eq!(verify_kernels(&parse(&long), &file, &scamp5()).unwrap_err().code(), "Q5041");
}

#[test]
fn thirds_are_followed() {
    let program = parse("bus3(B, C, D, A); bus(E, B, C, D)");
    let list = computed(&program, Level::Bus, &scamp5()).unwrap();
    let of = |name| list.iter().find(|c| c.output == reg(name)).unwrap().describe();
    assert_eq!(of("B"), "-1/3 A(0, 0)");
    assert_eq!(of("E"), "<1>");
    let constant = computed(&parse("input(A, 64); bus(B, A, IN)"), Level::Bus, &scamp5()).unwrap();
    assert_eq!(constant[1].describe(), "-1/2 + -1 IN");
}

/// What `--fix` makes is legal and computes what was meant, for every illegal single instruction
/// with any operands.
#[test]
fn fixed_instructions() {
    let mut count = 0;
    for form in [
        "neg($1, $2)",
        "divq($1, $2)",
        "add($1, $2, $3)",
        "sub($1, $2, $3)",
        "div($1, $2, $3)",
        "diva($1, $2, $3)",
        "add($1, $2, $3, $4)",
        "div($1, $2, $3, $4)",
        "addx($1, $2, $3, east)",
        "add2x($1, $2, $3, east, north)",
        "subx($1, $2, west, $3)",
        "sub2x($1, $2, south, south, $3)",
        "mov($1, $2, north)",
        "sub($1, $2, east, $3)",
        "get_image($1, $2)",
        "getpix($1, $2)",
        "getpix($1, $2, $3)",
    ] {
        for choice in 0..256_usize {
            let mut source = form.to_owned();
            for place in 0..4 {
                let name = ["A", "B", "C", "D"][choice >> (2 * place) & 3];
                source = source.replace(["$1", "$2", "$3", "$4"][place], name);
            }
            let mut program = parse(&source);
            let targets = quincunx_scamp::meaning::meaning(&program.instructions[0]).unwrap();
            program.outputs = Some(vec![targets.last().unwrap().target]);
            let legal = !any_error(&verify(&program, &scamp5()));
            let (fixed, notes) = fix(&program, &scamp5());
            assert!(verify(&fixed, &scamp5()).iter().all(|p| p.code() == "Q5036"), "{source}");
            let meant = run(&program, Level::Meaning).unwrap();
            let done = run(&fixed, Level::Bus).unwrap();
            let output = program.outputs.clone().unwrap()[0];
            assert_eq!(meant.value(output), done.value(output), "{source}");
            count += usize::from(!legal);
            assert!(legal || !notes.is_empty());
        }
    }
    assert!(count > 1000, "{count}");
}

#[test]
fn fixing_needs_free_registers() {
    let all = "add(A, A, A); add(A, A, B, C); add(A, A, D, E); add(A, A, F)";
    let (fixed, notes) = fix(&parse(all), &scamp5());
    assert_eq!(fixed, parse(all));
    assert_eq!(notes[0].code(), "Q5038");
}

/// AUKE's listings of the paper are illegal, and legal and right when rewritten.
#[test]
fn listings_of_auke() {
    let file = read_kernels(&golden_text("cain_inputs/analognet2.json")).unwrap();
    let goals = file.goals(2).unwrap().0;
    for listing in golden("paper_programs.json")["table2"]["auke"].as_array().unwrap() {
        let mut program = program(&listing["program"]);
        let out = listing["out"].as_str().unwrap();
        program.outputs = Some(vec![reg(out)]);
        program.inputs = Some(vec![reg("A")]);
        let errors = verify(&program, &scamp5());
        assert!(errors.iter().filter(|p| p.code() == "Q5022").count() >= 2);
        let (fixed, _) = fix(&program, &scamp5());
        assert_eq!(verify(&fixed, &scamp5()), []);
        let index = file.outputs().iter().position(|name| *name == out).unwrap();
        for (program, level) in [(&program, Level::Meaning), (&fixed, Level::Bus)] {
            let (goal, depth) = computed(program, level, &scamp5()).unwrap()[0].goal().unwrap();
            assert_eq!((&goal, depth), (&goals[index], 2));
        }
    }
}

/// A kernel file of digital mode for numbers of two bits.
fn digital_file(filter: &str) -> KernelFile {
    read_kernels(&format!(
        "{{\"name\": \"d\", \"target\": \"scamp5\", \"mode\": \"digital\", \"goalSystem\": \"atom\", \
         \"maxApproximationDepth\": 2, \"maxApproximationError\": 0, \"filter\": {{\"DB\": {filter}}}, \
         \"registerAllocator\": {{\"name\": \"linearScan\", \"availableRegisters\": [\"DA\", \"DB\"], \
         \"initialRegisters\": [\"DA\"]}}, \"pairGen\": {{\"bits\": 2, \"regMapping\": \
         {{\"DA\": [\"R5\", \"R6\"], \"DB\": [\"R7\", \"R8\"]}}}}}}"
    ))
    .unwrap()
}

/// `DB := DA of the east neighbour + DA`, with a carry.
const SUM: &str = "CLR(R1, R2, R3, R4); SET(R4); DNEWS0(R7, R5); DNEWS0(R8, R6); \
    AND(R9, R7, R5); XOR(R7, R7, R5); XOR(R8, R8, R6); XOR(R8, R8, R9)";

#[test]
fn digital_programs_are_compared_by_simulation() {
    let check = |source: &str, filter: &str| {
        verify_kernels(&parse(source), &digital_file(filter), &scamp5())
    };
    assert_eq!(check(SUM, "[[0, 1, 1]]").unwrap(), []);
    for (source, filter) in [
        (SUM.to_owned(), "[[1, 1, 0]]"),
        (SUM.replace("SET(R4)", "SET(R3)"), "[[0, 1, 1]]"),
        (SUM.replace("; XOR(R8, R8, R9)", ""), "[[0, 1, 1]]"),
        ("res(A)".to_owned(), "[[0, 1, 1]]"),
    ] {
        assert_eq!(check(&source, filter).unwrap()[0].code(), "Q5042", "{source}");
    }
    // Many moves are no long way.
    let often = format!("{SUM}; ").repeat(101);
    assert_eq!(check(&often, "[[0, 1, 1]]").unwrap(), []);
    // What leaves the array does not come back.
    let way = "DNEWS0(R7, R7); ".repeat(210);
    let far = format!("{SUM}; {way} CLR(R4); SET(R2); {way}");
    assert_eq!(check(&far, "[[1]]").unwrap_err().code(), "Q5043");
}

/// A register that only some elements have written, and then all read, was there before.
#[test]
fn old_values_under_flag_have_a_warning() {
    let codes = |source: &str| {
        let source = format!("/*Inputs in: [A, C]*/ {source} /*Null Instruction: [] <- [D]*/");
        let found = verify(&parse(&source), &scamp5());
        found.iter().map(|p| (p.code(), p.message().to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(codes("res(D); where(A); mov(B, C); mov(D, B); all()"), []);
    let found = codes("where(A); mov(B, C); all(); mov(D, B)");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].0 == "Q5031" && found[0].1.starts_with("B "), "{found:?}");
    // FLAG is written as a 1-bit register as well.
    assert_eq!(
        codes("CLR(FLAG); add(D, A, C)").iter().map(|f| f.0).collect::<Vec<_>>(),
        ["Q5035", "Q5031"]
    );
}

/// A rewrite keeps what survives where FLAG is 0, however FLAG was written.
#[test]
fn fixing_under_a_written_flag() {
    // In elements without FLAG, B keeps its value over the write; it is not free for neg.
    let lists = "/*Inputs in: [A, B]*/";
    let tail = "mov(B, C); SET(FLAG); add(A, A, B) /*Null Instruction: [] <- [A]*/";
    for condition in ["WHERE(R5)", "MOV(FLAG, R5)"] {
        let source = format!("{lists} neg(A, A); {condition}; {tail}");
        let (fixed, _) = fix(&parse(&source), &scamp5());
        let repaired = &fixed.instructions[..2];
        let touched = repaired.iter().any(|inst| inst.registers().any(|r| r == reg("B")));
        assert!(!touched, "{condition}: {repaired:?}");
    }
}

/// Programs that halve in an order of their own are compared where none drops a bit; a note says that
/// it was so.
#[test]
fn digital_programs_with_halves() {
    // DB := DA / 2, by bits; and the mean of DA and its east neighbour.
    const HALF: &str = "MOV(R7, R6); CLR(R8)";
    const MEAN: &str = "CLR(R1, R2, R3, R4); SET(R4); DNEWS0(R7, R5); DNEWS0(R8, R6); \
        XOR(R7, R6, R8); AND(R8, R6, R8)";
    let codes = |source: &str, filter: &str| {
        let found = verify_kernels(&parse(source), &digital_file(filter), &scamp5());
        found.map(|list| list.iter().map(Diagnostic::code).collect::<Vec<_>>())
    };
    assert_eq!(codes(HALF, "[[0.5]]").unwrap(), [""; 0]);
    assert_eq!(codes("MOV(R7, R6); MOV(R8, R6)", "[[0.5]]").unwrap(), ["Q5042", "Q5048"]);
    assert_eq!(codes("MOV(R7, R5); MOV(R8, R6)", "[[0.5]]").unwrap(), ["Q5042", "Q5048"]);
    // 2 + 2 needs three bits.
    let refused = codes(MEAN, "[[0, 0.5, 0.5]]").unwrap_err();
    assert_eq!(refused.code(), "Q5043");
    assert!(refused.message().contains("need 3 bits"), "{}", refused.message());
    assert!(refused.help_text().is_some_and(|help| help.contains("bitOrder")));
}

/// Numbers of super-pixels have a sign, which a halving keeps.
#[test]
fn super_pixel_programs_with_halves() {
    // One row of four bits: each moves one element west, towards the least significant, and the
    // sign stays in the last.
    let file = |filter: &str| {
        read_kernels(&format!(
            "{{\"name\": \"s\", \"target\": \"scamp5\", \"mode\": \"superpixel\", \
             \"maxApproximationDepth\": 1, \"maxApproximationError\": 0, \
             \"filter\": {{\"0:R7\": {filter}}}, \
             \"registerAllocator\": {{\"name\": \"linearScan\", \"availableRegisters\": \
             [[\"R5\"], [\"R7\"]], \"initialRegisters\": [\"0:R5\"]}}, \
             \"pairGen\": {{\"width\": 4, \"height\": 1, \"bitOrder\": [[[1, 2, 3, 4]]]}}}}"
        ))
        .unwrap()
    };
    // The pattern of column 0 of four, counted from the east, is the sign.
    const HALF: &str = "scamp5_load_pattern(R8, 0, 0, 0xff, 0xfc); CLR(R1, R2, R3); SET(R4); \
        DNEWS0(R7, R5); MUX(R7, R8, R5, R7)";
    let codes = |source: &str| {
        let found = verify_kernels(&parse(source), &file("[[0.5]]"), &scamp5()).unwrap();
        found.iter().map(Diagnostic::code).collect::<Vec<_>>()
    };
    assert_eq!(codes(HALF), [""; 0]);
    // Without the sign only positive numbers come out right.
    assert_eq!(
        codes(&HALF.replace("MUX(R7, R8, R5, R7)", "MUX(R7, R8, R9, R7)")),
        ["Q5042", "Q5048"]
    );
}

/// A kernel file of super-pixel mode: blocks of 2 x 2 elements, numbers of two bits, the bank 0 in
/// the north of a block and the bank 1 in the south.
fn super_pixel_file(output: &str, filter: &str, banks: &str) -> Result<KernelFile, Diagnostic> {
    read_kernels(&format!(
        "{{\"name\": \"s\", \"target\": \"scamp5\", \"mode\": \"superpixel\", \
         \"maxApproximationDepth\": 0, \"maxApproximationError\": 0, \
         \"filter\": {{\"{output}\": {filter}}}, \
         \"registerAllocator\": {{\"name\": \"linearScan\", \"availableRegisters\": \
         [[\"R5\"], [\"R7\"]], \"initialRegisters\": [\"0:R5\"]}}, \
         \"pairGen\": {{\"width\": 2, \"height\": 2, \"bitOrder\": {banks}}}}}"
    ))
}

const BANKS: &str = "[[[1, 2], [0, 0]], [[0, 0], [1, 2]]]";

/// Two steps to the east are one pixel; one to the north is from bank to bank.
#[test]
fn super_pixel_programs_are_compared_by_simulation() {
    const EAST: &str = "CLR(R1, R2, R3); SET(R4); DNEWS0(R6, R5); DNEWS0(R7, R6)";
    const DOWN: &str = "CLR(R1, R2, R4); SET(R3); DNEWS0(R7, R5)";
    let check = |source: &str, output: &str, filter: &str| {
        let file = super_pixel_file(output, filter, BANKS).unwrap();
        verify_kernels(&parse(source), &file, &scamp5())
    };
    for (source, output, filter) in
        [(EAST, "0:R7", "[[0, 0, 1]]"), (EAST, "R7", "[[0, 0, 1]]"), (DOWN, "1:R7", "[[1]]")]
    {
        assert_eq!(check(source, output, filter).unwrap(), [], "{source}");
    }
    for (source, output, filter) in [
        (EAST, "0:R7", "[[1, 0, 0]]"),
        (EAST, "1:R7", "[[0, 0, 1]]"),
        (DOWN, "0:R7", "[[1]]"),
        (&EAST[16..], "0:R7", "[[0, 0, 1]]"),
        (&EAST.replace("SET(R4)", "SET(R2)"), "0:R7", "[[0, 0, 1]]"),
    ] {
        assert_eq!(check(source, output, filter).unwrap()[0].code(), "Q5042", "{source}");
    }
    assert_eq!(check(EAST, "2:R7", "[[1]]").unwrap_err().code(), "Q5052");
    assert_eq!(check(&format!("{EAST};").repeat(61), "R7", "[[0, 0, 1]]").unwrap(), []);
    let way = "DNEWS0(R7, R7); ".repeat(130);
    let far = format!("{EAST}; {way} CLR(R4); SET(R2); {way}");
    assert_eq!(check(&far, "R7", "[[1]]").unwrap_err().code(), "Q5043");
    for (banks, code) in [
        ("3", "Q5051"),
        ("[]", "Q5052"),
        ("[[[1, 2]]]", "Q5052"),
        ("[[[1, 3], [0, 0]]]", "Q5052"),
        ("[[[1, 1], [0, 0]]]", "Q5052"),
        ("[[[1, 2], [0, 0]], [[1, 0], [0, 0]]]", "Q5052"),
        ("[[[1, -2], [0, 0]]]", "Q5051"),
    ] {
        assert_eq!(super_pixel_file("R7", "[[1]]", banks).unwrap_err().code(), code, "{banks}");
    }
}

/// What else a digital program finds in its registers is not 0.
#[test]
fn digital_programs_clear_what_they_use() {
    let file = digital_file("[[0, 1, 1]]");
    let careless = SUM.replace("CLR(R1, R2, R3, R4); ", "");
    let problems = verify_kernels(&parse(&careless), &file, &scamp5()).unwrap();
    assert_eq!(problems[0].code(), "Q5042");
}

/// Ports: aliases are one register, and registers with a part to play are read without being named.
#[test]
fn ports_are_registers() {
    let names = |source: &str| {
        let (program, arch) = (parse(source), scamp5());
        let text = |list: Vec<(_, Reg)>| {
            list.into_iter().map(|(_, register)| register.to_string()).collect::<Vec<_>>().join(" ")
        };
        (text(program.input_registers(&arch)), text(program.output_registers(&arch)))
    };
    for (source, inputs, outputs) in [
        ("MOV(R6, R5); MOV(S2, S1)", "R5", "R6 R7"),
        ("SET(RF); MOV(R12, R5); MOV(R6, RP)", "R5", "R0 R12 R6"),
        // What a mask or FLAG switches off keeps its old value, which is then an input.
        ("MOV(RP, R5)", "R0 R12 R5", "R12"),
        ("SET(R0); CLR(R12); MOV(R0, R5); MOV(R12, R6)", "R5 R6", "R0 R12"),
        ("SET(R0); CLR(R0); MOV(R12, R6)", "R12 R6", "R0 R12"),
        ("where(A); mov(B, C); all()", "A B C", "B"),
        ("res(B); where(A); mov(B, C); all()", "A C", "B"),
        ("where(A); all(); mov(B, C)", "A C", "B"),
        ("WHERE(R5); res(B); ALL(); res(C)", "B R5", "B C"),
        ("abs(B, C)", "C", "B"),
        ("where(A); input(B, 3); all()", "A", "B"),
        // What is written and read under one FLAG is not an input, unless it is an output.
        ("where(A); mov(B, C); add(D, D, B); all() /*Null Instruction: [] <- [D]*/", "A C D", "D"),
        ("where(A); mov(B, C); all(); mov(D, B) /*Null Instruction: [] <- [D]*/", "A B C", "D"),
        ("where(A); mov(B, C); where(B); all() /*Null Instruction: [] <- [A]*/", "A B C", "A"),
        ("CLR(RS, RW, RE); DNEWS0(R6, R5)", "R3 R5", "R1 R2 R4 R6"),
        ("scamp5_select_pattern(0, 0, 0, 0); MOV(R5, SELECT)", "", "R5 SELECT"),
    ] {
        let mut found = names(source);
        let sort = |text: &mut String| {
            let mut words: Vec<&str> = text.split(' ').collect();
            words.sort_unstable();
            *text = words.join(" ");
        };
        sort(&mut found.0);
        sort(&mut found.1);
        assert_eq!(found, (inputs.to_owned(), outputs.to_owned()), "{source}");
    }
}

/// A broken rule is shown where it stands in the text, kernel begin and comments before it or not.
#[test]
fn problems_have_places() {
    use quincunx_contract::{Arch, File, Log, Options, Target};
    let source = "/* x */\nscamp5_kernel_begin();\nres(A);\n  neg(A, A);\nscamp5_kernel_end();\n";
    let target = &quincunx_scamp::TARGET;
    let arch: Box<dyn Arch> = Box::new(scamp5());
    let read = |options: &[(String, String)]| {
        let options = Options::new(target.info().options, options).unwrap();
        let mut log = Log::default();
        let files = [File::new("a.txt", source)];
        let program = target.read(&files, None, &*arch, &options, &mut log).unwrap();
        (program.verify(), log.diagnostics)
    };
    let text_at = |problem: &Diagnostic| {
        let span = problem.labels()[0].0;
        &source[span.start as usize..span.end as usize]
    };
    let (problems, _) = read(&[]);
    assert_eq!((problems.len(), text_at(&problems[0])), (1, "neg(A, A)"));
    let (problems, notes) = read(&[("fix".to_owned(), "true".to_owned())]);
    assert_eq!((problems.len(), notes.len(), text_at(&notes[0])), (0, 1, "neg(A, A)"));
}

/// A kernel file beside a program is verified; two programs, or none, are refused.
#[test]
fn files_that_belong_together() {
    use quincunx_contract::{File, Log, Options, Target};
    let target = &quincunx_scamp::TARGET;
    let options = Options::new(target.info().options, &[]).unwrap();
    let kernels = File::new("k.json", golden_text("cain_inputs/gauss3.json"));
    let right = File::new("a.txt", golden_text("sample_default_format.txt"));
    let wrong = File::new("b.txt", golden_text("sample_jss_format.txt"));
    for file in [&kernels, &right, &wrong] {
        assert!(target.recognises(file), "{}", file.name);
    }
    assert!(!target.recognises(&File::new("c.txt", "address(A);")));
    let read = |files: &[&File]| {
        let files: Vec<File> = files.iter().map(|&file| file.clone()).collect();
        target.read(&files, None, &scamp5(), &options, &mut Log::default())
    };
    assert_eq!(read(&[&kernels, &right]).ok().unwrap().verify(), []);
    assert_eq!(read(&[&wrong, &kernels]).ok().unwrap().verify()[0].code(), "Q5042");
    assert_eq!(read(&[&right, &wrong]).err().unwrap()[0].code(), "Q5073");
    assert_eq!(read(&[&kernels]).err().unwrap()[0].code(), "Q5074");
    let document = target.document(&kernels, &scamp5(), &options).unwrap().unwrap();
    assert_eq!((document.kind.as_str(), document.problems.len()), ("Cain kernel file", 0));
    assert_eq!(target.document(&right, &scamp5(), &options).unwrap(), None);
}
