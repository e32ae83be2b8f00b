//! A planted wrong result of any instruction, and of any SIMD operation, is noticed by the
//! comparison with the second machine; and the second machine agrees with the executor.

use crate::common::naive::Naive;
use crate::common::random::{image, program, rows, small};
use quincunx_isa::Coverage;
use quincunx_tcu::TcuArch;
use quincunx_tcu::arch::DataType;
use quincunx_tcu::isa::{Inst, Register, SimdOp, TABLE};
use quincunx_tcu::program::{Memory, Program, Step, written_registers};
use quincunx_tcu::simulate::Executor;
use quincunx_testkit::Random;
use std::collections::BTreeSet;

/// Both machines with the same memories.
fn loaded(arch: &TcuArch, seed: u64) -> (Executor, Naive) {
    let mut random = Random::new(seed);
    let (mut executor, mut naive) = (Executor::new(arch), Naive::new(arch));
    let lanes = arch.lanes();
    for memory in [Memory::Dram0, Memory::Dram1, Memory::Local, Memory::Acc] {
        let image = image(&mut random, arch, memory.depth(arch));
        executor.state.write(memory, 0, &image).unwrap();
        for (address, vector) in image.chunks(lanes).enumerate() {
            let vector: Vec<i128> = vector.iter().map(|&scalar| scalar.into()).collect();
            match memory {
                Memory::Dram0 => naive.write_dram(0, address as u64, &vector).unwrap(),
                Memory::Dram1 => naive.write_dram(1, address as u64, &vector).unwrap(),
                Memory::Local => naive.local[address] = vector,
                Memory::Acc => naive.acc[address] = vector,
            }
        }
    }
    (executor, naive)
}

/// The first difference between the machines, in everything that can be looked at.
fn difference(executor: &Executor, naive: &Naive) -> Option<String> {
    let arch = executor.state.arch();
    let lanes = arch.lanes();
    let mut vector = vec![0; lanes];
    for memory in [Memory::Dram0, Memory::Dram1, Memory::Local, Memory::Acc] {
        for address in 0..memory.depth(arch) {
            executor.state.read(memory, address, &mut vector).unwrap();
            let expected = match memory {
                Memory::Dram0 => naive.read_dram(0, address).unwrap(),
                Memory::Dram1 => naive.read_dram(1, address).unwrap(),
                Memory::Local => naive.local[address as usize].clone(),
                Memory::Acc => naive.acc[address as usize].clone(),
            };
            if !vector.iter().map(|&scalar| i128::from(scalar)).eq(expected) {
                return Some(format!("{}({address})", memory.name()));
            }
        }
    }
    for (number, expected) in (1..).zip(&naive.registers) {
        let found = executor.state.register(number).unwrap();
        if !found.iter().zip(expected).all(|(&a, &b)| i128::from(a) == b) {
            return Some(format!("R{number}"));
        }
    }
    for (row, expected) in naive.weights.iter().enumerate() {
        let found = executor.state.weight_row(row);
        if !found.iter().zip(expected).all(|(&a, &b)| i128::from(a) == b) {
            return Some(format!("weights {row}"));
        }
    }
    let registers = [
        Register::Dram0Offset,
        Register::Dram0Cache,
        Register::Dram1Offset,
        Register::Dram1Cache,
        Register::Timeout,
        Register::Tracepoint,
        Register::ProgramCounter,
        Register::SampleInterval,
    ];
    let differs = |register: &&Register| {
        u64::from(executor.state.configuration(**register))
            != naive.configuration[**register as usize]
    };
    registers.iter().find(differs).map(|register| register.name().to_owned())
}

fn compare(program: &Program, seed: u64) -> Option<String> {
    let (mut executor, mut naive) = loaded(&program.arch, seed);
    for step in &program.steps {
        executor.step(step).unwrap();
        naive.step(&step.inst).unwrap();
    }
    difference(&executor, &naive)
}

#[test]
fn the_executor_agrees_with_the_second_machine() {
    let mut coverage = Coverage::new(&TABLE);
    let mut operations = BTreeSet::new();
    for seed in 0..60 {
        for data_type in DataType::ALL {
            let arch = small(data_type, 1);
            let program = program(&mut Random::new(seed), &arch, 60);
            assert_eq!(compare(&program, seed), None, "{data_type:?}, seed {seed}");
            for step in &program.steps {
                coverage.mark(step.inst.row());
                if let Inst::Simd { compute, .. } = step.inst {
                    operations.insert(compute.op);
                }
            }
        }
    }
    assert_eq!(coverage.missing(), Vec::<&str>::new());
    assert_eq!(operations.len(), SimdOp::NAMES.len());
}

/// A wrong result of an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// It does nothing.
    Skipped,
    /// The low bit of the last thing it wrote is flipped.
    Flipped,
    /// It also changes an accumulator that it should not.
    Stray,
}

fn plant(executor: &mut Executor, step: &Step, fault: Fault) {
    let arch = executor.state.arch().clone();
    if fault == Fault::Skipped {
        executor.step(&Step { inst: Inst::NoOp { thread: 0 }, ..*step }).unwrap();
        return;
    }
    executor.step(step).unwrap();
    let effects = step.inst.effects(&arch);
    let written = match (fault, step.inst) {
        (Fault::Stray, _) => Some((Memory::Acc, arch.accumulator_depth - 1)),
        _ => effects.writes.last().map(|span| (span.memory, span.last())),
    };
    if let Some((memory, address)) = written {
        let mut vector = vec![0; arch.lanes()];
        executor.state.read(memory, address, &mut vector).unwrap();
        vector[0] ^= 1;
        executor.state.write(memory, address, &vector).unwrap();
        return;
    }
    match step.inst {
        Inst::Simd { destination, compute, .. } => {
            for register in written_registers(&arch, compute.op, destination) {
                executor.state.register_mut(register).unwrap()[0] ^= 1;
            }
        }
        Inst::LoadWeights { .. } | Inst::LoadWeightsZeroes { .. } => {
            executor.state.push_weights().fill(1);
        }
        Inst::Configure { register, value } => executor.state.configure(register, value ^ 1),
        Inst::LoadLut { local, stride, table } => {
            // Another table received it.
            let inst = Inst::LoadLut { local, stride, table: (table + 1) % 3 };
            executor.step(&Step { inst, ..*step }).unwrap();
        }
        _ => {}
    }
}

/// True if a fault in the instructions that are chosen changes what a program leaves behind.
fn is_noticed(program: &Program, seed: u64, fault: Fault, chosen: &dyn Fn(&Inst) -> bool) -> bool {
    let (mut executor, mut naive) = loaded(&program.arch, seed);
    for step in &program.steps {
        naive.step(&step.inst).unwrap();
        match chosen(&step.inst) {
            true => plant(&mut executor, step, fault),
            false => executor.step(step).unwrap(),
        }
    }
    difference(&executor, &naive).is_some()
}

#[test]
fn every_planted_fault_is_noticed() {
    let arch = small(DataType::FP16BP8, 1);
    let programs: Vec<Program> =
        (0..200).map(|seed| program(&mut Random::new(seed), &arch, 80)).collect();
    let noticed = |fault, chosen: &dyn Fn(&Inst) -> bool| {
        (0..).zip(&programs).any(|(seed, program)| is_noticed(program, seed, fault, chosen))
    };
    let [skipped, flipped] = [("skipped", Fault::Skipped), ("flipped", Fault::Flipped)];
    let faults = [skipped, flipped, ("stray", Fault::Stray)];
    quincunx_testkit::plant(&TABLE, rows(&arch), &faults, |row, fault| {
        // An instruction without a result cannot be skipped or give a wrong one.
        let is_nothing = TABLE.rows[row].name == "NoOp" && fault != Fault::Stray;
        is_nothing || noticed(fault, &|inst| inst.row() == row)
    });
    for &(name, number) in SimdOp::NAMES {
        for (_, fault) in [skipped, flipped] {
            let chosen = |inst: &Inst| matches!(inst, Inst::Simd { compute, .. } if compute.op as i128 == number);
            assert!(noticed(fault, &chosen), "{name}: {fault:?} is not noticed");
        }
    }
}
