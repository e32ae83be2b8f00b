//! Each rule is broken by a change to a legal program, and named by its code.

use crate::common::cases::all;
use crate::common::{chain, fragment, inst, only, parse, problems};
use quincunx_isa::{OperandValue as _, RawInst};
use quincunx_npu::isa::{Inst, Queue, Queues};
use quincunx_npu::program::Program;

/// The program of a functional case.
fn case(name: &str) -> Vec<Program> {
    all().into_iter().find(|case| case.name == name).unwrap_or_else(|| panic!("{name}")).programs
}

/// Sets an operand of the first line with this mnemonic.
fn set(program: &mut Program, mnemonic: &str, operand: &str, value: i128) {
    let line = program.lines.iter_mut().find(|line| line.inst.mnemonic() == mnemonic).unwrap();
    let RawInst { row, mut values } = line.inst.to_raw();
    let (index, _) = line.inst.spec().operand(operand).unwrap_or_else(|| panic!("{operand}"));
    values[index] = value;
    line.inst = Inst::from_raw(&RawInst { row, values }).unwrap();
}

fn remove(program: &mut Program, mnemonic: &str) {
    let at = program.lines.iter().position(|line| line.inst.mnemonic() == mnemonic).unwrap();
    program.lines.remove(at);
}

fn expect(name: &str, code: &str, change: impl FnOnce(&mut [Program])) {
    let mut programs = case(name);
    let before = problems(&programs);
    assert!(before.iter().all(|problem| problem.code() != code), "{name}: {before:?}");
    change(&mut programs);
    let found = problems(&programs);
    assert!(found.iter().any(|problem| problem.code() == code), "{name}, {code}: {found:?}");
}

fn expect_operand(name: &str, code: &str, mnemonic: &str, operand: &str, value: i128) {
    expect(name, code, |programs| set(&mut programs[0], mnemonic, operand, value));
}

fn no_tokens(program: &mut Program, mnemonic: &str) {
    for line in &mut program.lines {
        if line.inst.mnemonic() == mnemonic {
            line.inst = line.inst.with_tokens(Queues::NONE, Queues::NONE);
        }
    }
}

#[test]
fn registers_and_tasks() {
    for config in ["lda_cfg", "lw_cfg", "pe_cfg_fm", "pe_cfg_pm", "pe_cfg_tp", "sta_cfg"] {
        expect("conv", "Q4020", |programs| remove(&mut programs[0], config));
    }
    expect("adden, ceil", "Q4020", |programs| remove(&mut programs[0], "pe_cfg_dq"));
    expect("dilated", "Q4020", |programs| remove(&mut programs[0], "pe_cfg_de"));
    expect("masked through L2", "Q4020", |programs| remove(&mut programs[0], "ldw_cfg"));
    expect("reorder 0", "Q4020", |programs| remove(&mut programs[0], "dt_cfg"));
    expect("two cores", "Q4020", |programs| remove(&mut programs[0], "so_syn_cfg"));
    for config in ["fm", "tp", "gcs", "gms", "sms", "qp", "iq", "iq1"] {
        expect("requantise", "Q4020", |programs| {
            remove(&mut programs[0], &format!("vp_cfg_{config}"))
        });
    }
    expect("conv", "Q4023", |programs| remove(&mut programs[0], "ct_st"));
    expect("conv", "Q4023", |programs| remove(&mut programs[0], "ct_ed"));
}

#[test]
fn deadlocks_name_the_chain_that_waits() {
    expect("conv", "Q4021", |programs| no_tokens(&mut programs[0], "lda_mov"));
    // Two queues that wait for each other.
    let mut program = chain(vec![], None);
    let wait = |own: &str, other| inst(own, &[]).with_tokens(only(other), only(other));
    let line = program.lines[1].clone();
    let lines = [
        inst("lda_cfg", &[]),
        wait("lda_mov", Queue::St),
        inst("sta_cfg", &[]),
        wait("sta_mov", Queue::Ld),
    ];
    for (index, inst) in lines.into_iter().enumerate() {
        let mut line = line.clone();
        line.inst = inst;
        program.lines.insert(2 + index, line);
    }
    let found = problems(&[program]);
    let deadlock = found.iter().find(|problem| problem.code() == "Q4021").unwrap();
    let chain = deadlock.notes().join(" ");
    assert!(
        chain.contains("line 4 (lda_mov) waits for ST")
            && chain.ends_with("they wait for each other")
    );
    expect("two cores", "Q4021", |programs| set(&mut programs[0], "so_syn_cfg", "syn", 1));
}

#[test]
fn tokens_and_signals_left_over() {
    let mut program = parse(&fragment("f02_load_quantise_store"));
    let line = program.lines.iter_mut().find(|line| line.inst.mnemonic() == "lda_mov").unwrap();
    let (prev, mut next) = line.inst.tokens().unwrap();
    next.push(Queue::Dt);
    line.inst = line.inst.with_tokens(prev, next);
    assert!(problems(&[program]).iter().any(|p| p.code() == "Q4022" && !p.is_error()));
    expect("two cores", "Q4036", |programs| set(&mut programs[1], "si_syn_cfg", "syn", 0));
    expect("two cores", "Q4036", |programs| set(&mut programs[0], "so_syn_cfg", "core", 5));
    expect("two cores", "Q4036", |programs| set(&mut programs[0], "so_syn_cfg", "core", 0));
}

#[test]
fn regions() {
    expect_operand("conv", "Q4024", "lda_mov", "dbsg", 2);
    expect_operand("ring", "Q4024", "ct_bc", "len1", 0);
    expect("ring", "Q4024", |programs| {
        set(&mut programs[0], "ct_bc", "len1", 1);
        for mnemonic in ["lda_cfg", "sta_cfg"] {
            for operand in ["source_w", "dest_w"] {
                set(&mut programs[0], mnemonic, operand, 200);
            }
        }
    });
    expect("conv", "Q4025", |programs| {
        // The first load takes no token of the control queue.
        let program = &mut programs[0];
        set(program, "ct_bc", "next", Queues::NONE.to_raw());
        set(program, "lda_mov", "prev", Queues::NONE.to_raw());
    });
    expect_operand("ring", "Q4026", "ct_bc", "last1", 16);
    expect_operand("ring", "Q4026", "ct_bc", "len1", 30);
    let small = chain(vec![], Some(inst("ct_bc", &[("len0", 3000), ("last0", 2000)])));
    assert!(problems(&[small]).iter().any(|problem| problem.code() == "Q4026"));
}

#[test]
fn buffers() {
    expect_operand("conv", "Q4027", "lw_mov", "dtaddr", 65);
    expect_operand("conv", "Q4027", "lw_mov", "dtaddr", 18_944);
    expect_operand("conv", "Q4027", "pe_conv", "swaddr", 18_944);
    expect_operand("conv", "Q4028", "pe_cfg_tp", "mtc0", 100);
    // OL1 has no limit on this machine; another one has.
    let programs = case("conv");
    let mut arch = crate::common::arch();
    arch.ol1_results = 1;
    let work = [quincunx_npu::work::resolve(&programs[0])];
    let subject =
        quincunx_npu::verify::Subject { programs: &[&programs[0]], work: &work, arch: &arch };
    let found = quincunx_npu::verify::verify(&subject);
    assert!(found.iter().any(|problem| problem.code() == "Q4029"));
}

#[test]
fn orders() {
    // The weights wait for the load and the store for the convolution: without either, nothing
    // orders DRAM.
    expect("conv", "Q4030", |programs| {
        let program = &mut programs[0];
        set(program, "lda_mov", "next", only(Queue::Pe).to_raw());
        set(program, "lw_mov", "prev", Queues::NONE.to_raw());
    });
    // The convolution no longer waits for the load.
    expect("conv", "Q4031", |programs| {
        let program = &mut programs[0];
        set(program, "lda_mov", "next", Queues::NONE.to_raw());
        set(program, "lw_mov", "prev", Queues::NONE.to_raw());
    });
    // Nor for the weights.
    expect("conv", "Q4031", |programs| {
        let program = &mut programs[0];
        set(program, "lda_mov", "next", only(Queue::Pe).to_raw());
        set(program, "lw_mov", "prev", Queues::NONE.to_raw());
        set(program, "lw_mov", "next", Queues::NONE.to_raw());
        set(program, "pe_conv", "prev", only(Queue::Ld).to_raw());
    });
}

/// An output that lies on its own input; in place is legal where each element has its own place.
#[test]
fn outputs_and_their_own_inputs() {
    expect_operand("conv", "Q4040", "pe_conv", "dtaddr", 4096);
    expect_operand("max pool", "Q4040", "vp_pool", "dtaddr", 8192);
    expect_operand("requantise", "Q4040", "vp_self", "dtaddr", 8192 + 16);
    expect_operand("reorder 3", "Q4040", "dt_cal", "dtaddr", 0);
    let mut programs = case("requantise");
    set(&mut programs[0], "vp_self", "dtaddr", 8192);
    assert!(problems(&programs).iter().all(|problem| problem.code() != "Q4040"));
}

/// Bytes between those that a narrower tile writes are not written.
#[test]
fn gaps_are_not_written() {
    expect_operand("conv", "Q4033", "lda_mov", "tile_c", 8);
    expect_operand("conv", "Q4033", "lda_mov", "tile_w", 4);
    expect_operand("conv", "Q4033", "lda_cfg", "dest_w", 6);
    expect_operand("requantise", "Q4033", "vp_cfg_tp", "tile_c", 9);
}

#[test]
fn weights_are_the_right_ones() {
    expect_operand("conv", "Q4032", "pe_conv", "swaddr", 96);
    expect_operand("conv", "Q4032", "lw_mov", "dtaddr", 4096);
    expect("conv", "Q4032", |programs| {
        set(&mut programs[0], "lw_cfg", "dest_c", 16);
    });
    // What lies in L2 is taken in other rows, or not from a row on.
    for core in ["through L2, leaky", "weights of another core"] {
        expect(core, "Q4032", |programs| {
            set(programs.last_mut().unwrap(), "ldw_cfg", "dest_c", 24);
        });
    }
    expect_operand("masked through L2", "Q4032", "lw_mov", "staddr", (2 << 20) + 8);
    expect("conv", "Q4032", |programs| {
        let program = &mut programs[0];
        for line in &mut program.lines {
            let Some(map) = &mut line.map else { continue };
            map.slyr = 4;
            map.clyr = [5].into_iter().collect();
        }
    });
    expect_operand("conv", "Q4033", "pe_conv", "staddr", 3 << 20);
}

/// Weights that were spread over the array for another split than that of the convolution.
#[test]
fn weights_are_split_as_the_convolution() {
    expect_operand("conv", "Q4032", "lw_mov", "y_cut", 3);
    expect_operand("conv", "Q4032", "pe_cfg_pm", "y_cut", 0);
}

/// A second load over a tensor that nothing has read yet; once it was read it may go.
#[test]
fn results_that_are_lost() {
    let lost = |program: Program| {
        problems(&[program]).into_iter().find(|problem| problem.code() == "Q4041")
    };
    let case = &case("reorder 0")[0];
    assert!(lost(case.clone()).is_none());
    let at = |mnemonic: &str| {
        case.lines.iter().position(|line| line.inst.mnemonic() == mnemonic).unwrap()
    };
    let mut twice = case.clone();
    let mut again = case.lines[at("lda_mov")].clone();
    again.inst = again.inst.with_tokens(Queues::NONE, Queues::NONE);
    twice.lines.insert(at("lda_mov"), {
        let mut first = again.clone();
        let (prev, _) = case.lines[at("lda_mov")].inst.tokens().unwrap();
        first.inst = first.inst.with_tokens(prev, Queues::NONE);
        first
    });
    let (_, next) = case.lines[at("lda_mov")].inst.tokens().unwrap();
    let second = &mut twice.lines[at("lda_mov") + 1];
    second.inst = second.inst.with_tokens(Queues::NONE, next);
    let problem = lost(twice.clone()).expect("the first load is lost");
    assert!(!problem.is_error());
    let line = at("lda_mov") + 1;
    let words =
        format!("line {} (lda_mov) overwrites everything that line {line} (lda_mov)", line + 1);
    assert!(problem.message().contains(&words), "{}", problem.message());
    // A part of it stays.
    set(&mut twice, "lda_mov", "tile_n", 2);
    let RawInst { row, mut values } = twice.lines[line].inst.to_raw();
    let (images, _) = twice.lines[line].inst.spec().operand("tile_n").unwrap();
    values[images] = 1;
    twice.lines[line].inst = Inst::from_raw(&RawInst { row, values }).unwrap();
    assert!(lost(twice).is_none());
}

#[test]
fn values_without_a_meaning() {
    for (name, mnemonic, operand, value) in [
        ("conv", "pe_cfg_fm", "sf", 3),
        ("conv", "pe_cfg_fm", "wf", 3),
        ("conv", "pe_cfg_fm", "df", 2),
        ("conv", "pe_cfg_fm", "padv", crate::common::num(0.5)),
        ("conv", "pe_cfg_fm", "padv", crate::common::num(200.0)),
        ("conv", "pe_cfg_pm", "actmd", 9),
        ("conv", "lda_cfg", "bas", 3),
        ("relu x, floor", "pe_cfg_pm", "actpm", crate::common::num(-1.0)),
        ("adden, ceil", "pe_cfg_dq", "dqc", 2),
        ("grouped", "pe_cfg_pm", "y_cut", 4),
        ("reorder 0", "dt_cal", "order", 6),
        ("requantise", "vp_cfg_iq", "iqcs", 1),
        ("requantise", "vp_cfg_gms", "sege", 1),
        ("requantise", "vp_cfg_tp", "t0f", 0),
        ("requantise", "vp_cfg_tp", "t1f", 7),
        ("requantise", "vp_cfg_tp", "kernel_h", 2),
        ("requantise", "vp_self", "cmpd", 1),
        ("requantise", "vp_self", "treed", 1),
        ("requantise", "vp_self", "accd", 1),
        ("requantise", "vp_self", "tm", 1),
        ("requantise", "vp_self", "swrs", 5),
        ("requantise", "vp_self", "gpmd", 12),
        ("requantise", "vp_self", "gpmd", 64),
        ("requantise", "vp_self", "lut", 17),
        ("requantise", "vp_self", "lut", 48),
        ("max pool", "vp_pool", "lut", 16),
        ("max pool", "vp_cfg_gcs", "cmpv", crate::common::num(1.0)),
        ("max pool", "vp_cfg_gcs", "cmpvs", 1),
        ("broadcast", "vp_self", "lut", 16),
        ("enlarge", "vp_upsm", "lut", 17),
        ("broadcast", "vp_cfg_tp", "t1f", 0),
    ] {
        expect_operand(name, "Q4034", mnemonic, operand, value);
    }
}

#[test]
fn shapes() {
    for (name, mnemonic, operand, value) in [
        ("conv", "lda_mov", "tile_n", 0),
        ("conv", "lda_mov", "tile_c", 12),
        ("conv", "sta_mov", "tile_h", 100),
        ("conv", "lw_mov", "size_c", 12),
        ("conv", "lw_mov", "size_k", 0),
        ("conv", "pe_cfg_tp", "tile_c", 12),
        ("conv", "pe_cfg_tp", "tile_k", 11),
        ("conv", "pe_cfg_pm", "stride_h", 0),
        ("grouped", "pe_cfg_de", "groups", 5),
        ("dense", "pe_fc", "sphi", -1),
        ("dilated", "pe_cfg_de", "dilate_h", 0),
        ("requantise", "vp_cfg_tp", "stride_h", 2),
        ("requantise", "vp_cfg_tp", "tile_c", 0),
        ("max pool", "vp_cfg_tp", "tile_c", 3),
        ("max pool", "vp_pool", "iph", -9),
        ("enlarge", "vp_cfg_tp", "tile_c", 3),
        ("reorder 1", "dt_cal", "tile_w", 3),
        ("two cores", "sopw_mov", "tile_c", 7),
    ] {
        expect_operand(name, "Q4035", mnemonic, operand, value);
    }
}

#[test]
fn lint() {
    let maps = |change: &dyn Fn(&mut Program)| {
        let mut program = parse(&fragment("f09_batch_vp_self_tokens"));
        change(&mut program);
        problems(&[program])
    };
    let tile = maps(&|program| program.lines[16].map.as_mut().unwrap().tile = Some(5));
    assert!(tile.iter().any(|problem| problem.code() == "Q4037" && !problem.is_error()));
    let back = maps(&|program| program.lines[18].map.as_mut().unwrap().wkl = 1);
    assert!(back.iter().any(|problem| problem.code() == "Q4037"));
    let again = maps(&|program| program.lines.insert(8, program.lines[7].clone()));
    assert!(again.iter().any(|problem| problem.code() == "Q4038" && !problem.is_error()));
    let shared = maps(&|program| {
        for index in 16..19 {
            let (prev, next) = program.lines[index].inst.tokens().unwrap();
            program.lines[index].inst = program.lines[15].inst.with_tokens(prev, next);
        }
    });
    let codes: Vec<_> = shared.iter().map(|problem| problem.code()).collect();
    assert!(codes.contains(&"Q4039") && codes.contains(&"Q4033"), "{shared:?}");
}

/// More conflicts than can be compared are an error, not a hang.
#[test]
fn the_number_of_comparisons_is_bounded() {
    let load = inst("lda_mov", &[("tile_n", 1), ("tile_c", 1), ("tile_h", 1), ("tile_w", 1)]);
    let one = [
        ("source_c", 1),
        ("source_h", 1),
        ("source_w", 1),
        ("dest_c", 1),
        ("dest_h", 1),
        ("dest_w", 1),
    ];
    let config: Vec<_> = one.into_iter().chain([("df", 1), ("sme", 1)]).collect();
    let mut insts = vec![inst("lda_cfg", &config)];
    for index in 0..40_000_i128 {
        let RawInst { row, mut values } = load.to_raw();
        let (place, _) = load.spec().operand("dtaddr").unwrap();
        values[place] = index * 8;
        insts.push(Inst::from_raw(&RawInst { row, values }).unwrap());
    }
    insts
        .extend([inst("sta_cfg", &config), inst("sta_mov", &[("staddr", 1 << 22), ("tile_n", 1)])]);
    let mut program = chain(insts, None);
    // One queue after the other: none of the lines can matter to a later one but the store.
    assert!(problems(&[program.clone()]).iter().all(|problem| problem.code() != "Q4048"));
    // A store that waits for nothing could conflict with every load.
    let store = program.lines.iter_mut().find(|line| line.inst.mnemonic() == "sta_mov").unwrap();
    store.inst = store.inst.with_tokens(Queues::NONE, only(Queue::Ct));
    let found = problems(&[program]);
    assert!(found.iter().any(|problem| problem.code() == "Q4048"));
}
