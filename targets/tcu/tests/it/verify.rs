//! Every rule has a program that breaks it and no other, and the checkers miss nothing.

use crate::common::naive::Naive;
use crate::common::random::{image, legal_step, program, rows, small};
use quincunx_diag::{Place, Severity, any_error};
use quincunx_isa::{OperandValue, RawInst};
use quincunx_tcu::TcuArch;
use quincunx_tcu::arch::DataType;
use quincunx_tcu::binary::Coder;
use quincunx_tcu::isa::{Access, Compute, Inst, Register, SimdOp, TABLE};
use quincunx_tcu::program::{Memory, Program, Step};
use quincunx_tcu::simulate::Executor;
use quincunx_tcu::time::{costs, sequence};
use quincunx_tcu::verify::{Rules, races, verify};
use quincunx_testkit::{Random, Verdict, campaign};

fn machine() -> TcuArch {
    small(DataType::FP16BP8, 1)
}

fn step(inst: Inst) -> Step {
    Step { tid: 0, inst }
}

fn of(insts: &[Inst]) -> Program {
    Program { arch: machine(), steps: insts.iter().copied().map(step).collect() }
}

fn simd(access: Access, destination: u8, op: SimdOp, left: u8, right: u8) -> Inst {
    Inst::Simd { access, write: 1, read: 2, destination, compute: Compute { op, left, right } }
}

fn to_local(local: u32, local_stride: u32, size: u32) -> Inst {
    Inst::Dram0ToLocal { local, local_stride, address: 0, stride: 0, size }
}

/// The one problem of a program.
fn expect(program: &Program, rules: Rules, code: &str, severity: Severity) {
    let found = verify(program, &rules);
    let codes: Vec<_> = found.iter().map(|problem| (problem.code(), problem.severity())).collect();
    assert_eq!(codes, [(code, severity)], "{found:?}");
    assert!(matches!(found[0].place(), Some(Place::Instruction(_))));
}

fn error(insts: &[Inst], code: &str) {
    expect(&of(insts), Rules::default(), code, Severity::Error);
}

fn warning(insts: &[Inst], code: &str) {
    expect(&of(insts), Rules::default(), code, Severity::Warning);
}

fn legal(insts: &[Inst]) {
    assert_eq!(verify(&of(insts), &Rules::default()), []);
}

#[test]
fn q3010_to_q3012_the_machine_has_it() {
    let mut program = of(&[Inst::NoOp { thread: 0 }]);
    program.steps[0].tid = 1;
    expect(&program, Rules::default(), "Q3010", Severity::Error);
    let mut program = of(&[Inst::Configure { register: Register::Timeout, value: 1 }]);
    program.arch.number_of_threads = 2;
    expect(&program, Rules::default(), "Q3011", Severity::Error);
    error(&[Inst::LoadLut { local: 0, stride: 0, table: 3 }], "Q3012");
    legal(&[Inst::LoadLut { local: 0, stride: 0, table: 2 }]);
    let mut program = of(&[Inst::LoadLut { local: 0, stride: 0, table: 0 }]);
    (program.arch.lookup_tables, program.arch.lookup_table_depth) = (None, None);
    expect(&program, Rules::default(), "Q3012", Severity::Error);
}

#[test]
fn operands_fit_their_fields() {
    error(&[to_local(32, 0, 0)], "Q2103");
    error(&[simd(Access::None, 0, SimdOp::Move, 8, 0)], "Q3022");
    let mut program = of(&[simd(Access::None, 1, SimdOp::Lookup, 0, 0)]);
    (program.arch.lookup_tables, program.arch.lookup_table_depth) = (None, None);
    expect(&program, Rules::default(), "Q3021", Severity::Error);
}

#[test]
fn q3040_every_vector_exists() {
    legal(&[to_local(19, 1, 2)]);
    error(&[to_local(20, 1, 2)], "Q3040");
    error(&[Inst::MatMulZeroes { accumulate: true, acc: 9, acc_stride: 2, size: 1 }], "Q3040");
    legal(&[Inst::MatMulZeroes { accumulate: true, acc: 7, acc_stride: 2, size: 1 }]);
    error(&[Inst::LoadLut { local: 21, stride: 0, table: 0 }], "Q3040");
    legal(&[Inst::LoadLut { local: 20, stride: 0, table: 0 }]);
    let compute = Compute { op: SimdOp::Zero, left: 0, right: 0 };
    let wrong = Inst::Simd { access: Access::Write, write: 12, read: 0, destination: 0, compute };
    error(&[wrong], "Q3040");
    // An address that is not used need not exist.
    let unused = Inst::Simd { access: Access::None, write: 12, read: 13, destination: 0, compute };
    legal(&[unused]);
}

#[test]
fn q3041_to_q3046() {
    error(&[Inst::LoadWeightsZeroes { size: 24 }], "Q3041");
    warning(&[Inst::LoadWeightsZeroes { size: 23 }], "Q3042");
    warning(&[Inst::LoadWeights { local: 0, stride: 0, size: 4 }], "Q3042");
    legal(&[Inst::LoadWeights { local: 0, stride: 0, size: 3 }]);
    error(&[to_local(0, 3, 1)], "Q3043");
    error(&[simd(Access::None, 6, SimdOp::Zero, 0, 0)], "Q3044");
    error(&[simd(Access::None, 0, SimdOp::Move, 7, 0)], "Q3044");
    error(&[simd(Access::Read, 0, SimdOp::Add, 1, 2)], "Q3046");
    legal(&[simd(Access::Read, 0, SimdOp::Add, 1, 0)]);
    legal(&[simd(Access::ReadWrite, 0, SimdOp::NoOp, 1, 1)]);
    warning(&[simd(Access::ReadAdd, 0, SimdOp::Move, 0, 0)], "Q3047");
}

#[test]
fn q3045_a_lookup_has_registers_for_its_results() {
    let tables = [0, 1, 2].map(|table| Inst::LoadLut { local: 0, stride: 0, table });
    let lookup = |d| simd(Access::Read, d, SimdOp::Lookup, 0, 0);
    let with = |d| [&tables[..], &[lookup(d)]].concat();
    // d + N may be as many as there are registers: five, with two tables.
    legal(&with(3));
    error(&with(4), "Q3045");
    warning(&[tables[0], tables[2], lookup(0)], "Q3055");
}

#[test]
fn q3048_and_q3049_configuration() {
    warning(&[Inst::Configure { register: Register::Unused6, value: 1 }], "Q3048");
    let widths = [
        (Register::Dram0Offset, 32),
        (Register::Dram0Cache, 4),
        (Register::Dram1Offset, 32),
        (Register::Dram1Cache, 4),
        (Register::Timeout, 16),
        (Register::Tracepoint, 32),
        (Register::ProgramCounter, 32),
        (Register::SampleInterval, 16),
    ];
    for (register, bits) in widths {
        // The small machine's operands have 20 bits for a value.
        let mut program = of(&[Inst::Configure { register, value: (1 << bits) - 1 }]);
        program.arch = TcuArch::preset("pynqz1").unwrap();
        assert_eq!(verify(&program, &Rules::default()), [], "{register:?}");
        if bits < 32 {
            program.steps[0].inst = Inst::Configure { register, value: 1 << bits };
            expect(&program, Rules::default(), "Q3049", Severity::Error);
        }
    }
}

#[test]
fn q3051_the_distance_from_simd_writes() {
    let write = simd(Access::Write, 0, SimdOp::Zero, 0, 0);
    let out = Inst::AccToLocal { local: 0, local_stride: 0, address: 0, stride: 0, size: 0 };
    let nop = Inst::NoOp { thread: 0 };
    legal(&[write, out]);
    let two = Rules { simd_write_gap: 2, ..Rules::default() };
    for (insts, is_legal) in [
        (vec![write, out], false),
        (vec![write, nop, out], false),
        (vec![write, nop, nop, out], true),
        (vec![simd(Access::Read, 1, SimdOp::Move, 0, 0), out], true),
        (vec![write, nop, to_local(0, 0, 0), out, out], true),
    ] {
        match is_legal {
            true => assert_eq!(verify(&of(&insts), &two), []),
            false => expect(&of(&insts), two, "Q3051", Severity::Error),
        }
    }
}

#[test]
fn q3053_the_probe_has_its_vectors() {
    let rules = Rules { flush_probe: true, ..Rules::default() };
    let at =
        |address| Inst::LocalToDram0 { local: 0, local_stride: 0, address, stride: 0, size: 0 };
    expect(&of(&[at(22), at(23)]), rules, "Q3053", Severity::Warning);
    assert_eq!(verify(&of(&[at(21)]), &rules), []);
    legal(&[at(23)]);
}

/// A program of two threads on a small machine.
fn threads(steps: &[(u8, Inst)]) -> Program {
    let steps = steps.iter().map(|&(tid, inst)| Step { tid, inst }).collect();
    Program { arch: small(DataType::FP16BP8, 2), steps }
}

#[test]
fn q3052_threads_do_not_race() {
    let other = Inst::LocalToDram0 { local: 2, local_stride: 0, address: 9, stride: 0, size: 0 };
    let racing = threads(&[(0, to_local(0, 1, 4)), (1, other)]);
    expect(&racing, Rules::default(), "Q3052", Severity::Error);
    let apart = Inst::LocalToDram0 { local: 3, local_stride: 1, address: 9, stride: 0, size: 1 };
    assert_eq!(verify(&threads(&[(0, to_local(0, 1, 4)), (1, apart)]), &Rules::default()), []);
    let waiting = [(0, to_local(0, 1, 4)), (1, Inst::NoOp { thread: 0 }), (1, other)];
    assert_eq!(verify(&threads(&waiting), &Rules::default()), []);
    let for_itself = [(0, to_local(0, 1, 4)), (1, Inst::NoOp { thread: 1 }), (1, other)];
    expect(&threads(&for_itself), Rules::default(), "Q3052", Severity::Error);
    let weights = Inst::LoadWeightsZeroes { size: 0 };
    let product = Inst::MatMulZeroes { accumulate: false, acc: 0, acc_stride: 0, size: 0 };
    expect(&threads(&[(0, weights), (1, product)]), Rules::default(), "Q3052", Severity::Error);
}

/// Another value for one operand, in range or not.
fn corrupted(program: &Program, random: &mut Random) -> Program {
    let mut program = program.clone();
    for _ in 0..1000 {
        let index = random.below(program.steps.len() as u64) as usize;
        let step = &mut program.steps[index];
        let mut raw: RawInst = step.inst.to_raw();
        if raw.values.is_empty() {
            continue;
        }
        let operand = random.below(raw.values.len() as u64) as usize;
        let before = raw.values[operand];
        raw.values[operand] = match random.below(4) {
            0 => before + 1,
            1 => before ^ (1 << random.below(6)),
            2 => i128::from(random.below(40)),
            _ => i128::from(random.below(1 << 18)),
        };
        if let Some(inst) = Inst::from_raw(&raw).filter(|inst| *inst != step.inst) {
            step.inst = inst;
            return program;
        }
    }
    panic!("no operand can be changed");
}

/// A corrupted program that is not rejected runs on the second machine without touching what is
/// not there, and our executor gives the same results.
#[test]
fn legality_misses_nothing() {
    let mut false_alarms = 0;
    let [rejected, harmless] = campaign(|random| {
        let arch = machine();
        let broken = corrupted(&program(random, &arch, 12), random);
        let coder = Coder::new(&arch).unwrap();
        let mut naive = Naive::new(&arch);
        let local = image(random, &arch, arch.local_depth);
        for (address, vector) in local.chunks(arch.lanes()).enumerate() {
            naive.local[address] = vector.iter().map(|&scalar| scalar.into()).collect();
        }
        let encodes = broken.steps.iter().all(|step| coder.encode(step).is_ok());
        let runs = encodes && broken.steps.iter().all(|step| naive.step(&step.inst).is_ok());
        let problems = verify(&broken, &Rules::default());
        if any_error(&problems) {
            // Rules that are not memory faults: strides, sources, widths of registers, rows of
            // zeros.
            let codes = ["Q3041", "Q3043", "Q3044", "Q3046", "Q3049"];
            let other = problems.iter().any(|p| p.is_error() && !codes.contains(&p.code()));
            false_alarms += usize::from(runs && other);
            return Some(Verdict::Rejected);
        }
        let mut executor = Executor::new(&arch);
        executor.state.write(Memory::Local, 0, &local).unwrap();
        let same = runs && executor.run(&broken.steps).is_ok() && {
            let mut acc = vec![0; naive.acc.len() * arch.lanes()];
            executor.state.read(Memory::Acc, 0, &mut acc).unwrap();
            acc.iter().map(|&scalar| i128::from(scalar)).eq(naive.acc.concat())
        };
        Some(if same { Verdict::Harmless } else { Verdict::Missed(format!("{broken:?}")) })
    });
    assert_eq!(false_alarms, 0);
    assert!(rejected > 300 && harmless > 100, "{rejected} rejected, {harmless} harmless");
}

/// A second definition of the distance rule, pair by pair.
#[test]
fn the_distance_rule_misses_nothing() {
    let (mut rejected, mut accepted) = (0, 0);
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let arch = machine();
        let rows = rows(&arch);
        let pick = ["Simd", "AccToLocal", "NoOp"]
            .map(|name| *rows.iter().find(|&&row| TABLE.rows[row].name == name).unwrap());
        let length = 3 + random.below(9);
        let steps: Vec<Step> = (0..length)
            .map(|_| {
                let row = random.pick(&pick);
                legal_step(&mut random, &arch, row)
            })
            .collect();
        let gap = random.below(4);
        let writes =
            |step: &Step| matches!(step.inst, Inst::Simd { access, .. } if access.writes());
        let too_close = (0..steps.len()).any(|to| {
            let is_move = matches!(steps[to].inst, Inst::AccToLocal { .. });
            is_move && (0..to).any(|from| writes(&steps[from]) && ((to - from - 1) as u64) < gap)
        });
        let rules = Rules { simd_write_gap: gap, ..Rules::default() };
        let found = verify(&Program { arch, steps }, &rules);
        assert_eq!(found.iter().any(|p| p.code() == "Q3051"), too_close, "seed {seed}");
        if too_close { rejected += 1 } else { accepted += 1 }
    }
    assert!(rejected > 100 && accepted > 100, "{rejected} {accepted}");
}

/// Executes with operands read when an instruction starts and results written when it ends, in the
/// order of the sequencer.
fn sequenced(program: &Program, start: &Naive) -> Naive {
    let intervals = sequence(program, &costs(program, false)).intervals;
    // Ends come before starts of the same time.
    let mut events: Vec<(u64, u8, usize)> = Vec::new();
    for (index, interval) in intervals.iter().enumerate() {
        events.push((interval.end, 0, index));
        events.push((interval.start, 1, index));
    }
    events.sort_unstable();
    let mut machine = start.clone();
    let mut results: Vec<Option<(Naive, Naive)>> = vec![None; program.steps.len()];
    for (_, kind, index) in events {
        if kind == 1 {
            let mut after = machine.clone();
            after.step(&program.steps[index].inst).unwrap();
            results[index] = Some((machine.clone(), after));
        } else if let Some((before, after)) = results[index].take() {
            apply(&before, &after, &program.steps[index].inst, &mut machine);
        }
    }
    machine
}

/// Writes what an instruction wrote, whether or not it changed it.
fn apply(before: &Naive, after: &Naive, inst: &Inst, machine: &mut Naive) {
    let effects = inst.effects(&machine.arch);
    for span in &effects.writes {
        for address in (0..span.count).map(|i| span.at(i)) {
            match span.memory {
                Memory::Local => {
                    machine.local[address as usize] = after.local[address as usize].clone()
                }
                Memory::Acc => machine.acc[address as usize] = after.acc[address as usize].clone(),
                Memory::Dram0 | Memory::Dram1 => {
                    let bank = span.memory as usize;
                    let vector = after.read_dram(bank, address).unwrap();
                    machine.write_dram(bank, address, &vector).unwrap();
                }
            }
        }
    }
    for register in 0..machine.registers.len() {
        if before.registers[register] != after.registers[register] {
            machine.registers[register].clone_from(&after.registers[register]);
        }
    }
    match inst {
        Inst::LoadWeights { .. } | Inst::LoadWeightsZeroes { .. } => {
            machine.weights.clone_from(&after.weights);
        }
        Inst::MatMul { .. } | Inst::MatMulZeroes { .. } => machine.array.clone_from(&after.array),
        Inst::LoadLut { table, .. } => {
            machine.tables[*table as usize].clone_from(&after.tables[*table as usize]);
        }
        _ => {}
    }
}

/// A program of two threads without races.
fn race_free(random: &mut Random, arch: &TcuArch, length: usize) -> Program {
    let rows = rows(arch);
    let mut program = Program { arch: arch.clone(), steps: Vec::new() };
    while program.steps.len() < length {
        let row = random.pick(&rows);
        let step = legal_step(random, arch, row);
        program.steps.push(step);
        if !races(&program).is_empty() {
            // Waiting is what makes it legal, if anything does.
            program.steps.pop();
            let wait = Step { inst: Inst::NoOp { thread: 1 - step.tid }, ..step };
            program.steps.extend([wait, step]);
            if !races(&program).is_empty() {
                program.steps.truncate(program.steps.len() - 2);
            }
        }
    }
    program
}

/// Takes away, moves or gives away an instruction, or changes an operand.
fn disturbed(program: &Program, random: &mut Random) -> Program {
    let mut broken = program.clone();
    let length = broken.steps.len() as u64;
    let index = random.below(length) as usize;
    match random.below(4) {
        0 => broken.steps[index].tid ^= 1,
        1 => {
            let step = broken.steps.remove(index);
            broken.steps.insert(random.below(length) as usize, step);
        }
        2 => {
            let waits = |step: &Step| matches!(step.inst, Inst::NoOp { .. });
            match broken.steps.iter().position(waits) {
                Some(wait) => drop(broken.steps.remove(wait)),
                None => drop(broken.steps.remove(index)),
            }
        }
        _ => broken = corrupted(&broken, random),
    }
    broken
}

#[test]
fn the_race_rule_misses_nothing() {
    let mut wrong = 0;
    let arch = TcuArch { array_size: 2, ..small(DataType::FP16BP8, 2) };
    let [rejected, harmless] = campaign(|random| {
        let program = race_free(random, &arch, 16);
        let broken = disturbed(&program, random);
        let problems = verify(&broken, &Rules::default());
        if problems.iter().any(|problem| problem.is_error() && problem.code() != "Q3052") {
            return None;
        }
        let mut start = Naive::new(&arch);
        for vector in start.local.iter_mut().chain(&mut start.acc) {
            vector.iter_mut().for_each(|scalar| *scalar = random.below(900) as i128 - 450);
        }
        let mut in_order = start.clone();
        broken.steps.iter().for_each(|step| in_order.step(&step.inst).unwrap());
        let mut sequenced = sequenced(&broken, &start);
        // Only instructions that end count.
        sequenced.configuration = in_order.configuration;
        let same = sequenced == in_order;
        wrong += usize::from(!same);
        Some(match (any_error(&problems), same) {
            (true, _) => Verdict::Rejected,
            (false, true) => Verdict::Harmless,
            (false, false) => Verdict::Missed(format!("{broken:?}")),
        })
    });
    assert!(
        wrong > 50 && harmless > 100,
        "{rejected} rejected, {wrong} wrong, {harmless} harmless"
    );
}

#[test]
fn values_of_the_table_and_of_the_enum_agree() {
    for &(_, number) in Register::NAMES {
        assert_eq!(Register::from_raw(number).unwrap() as i128, number);
    }
}
