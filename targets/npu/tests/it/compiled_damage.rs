//! Damaged programs of compiled networks: each is refused by the reader or the checkers, or gives
//! the same outputs in every order that its tokens allow.

use crate::attention::{encoder, mixed, products};
use crate::common::corrupt::{CORRUPTIONS, corrupt, corrupt_operand, misdirect, unconfigure};
use crate::common::networks::{Network, Size, calibrated, network};
use crate::common::{Random, shuffled};
use crate::compiled::{compile, complaints, machines, several_cores};
use quincunx_contract::{Engine, File, Interface, Log, Target as _};
use quincunx_npu::binary::{self, Attached};
use quincunx_npu::isa::Inst;
use quincunx_npu::ports::Ports;
use quincunx_npu::program::Program;
use quincunx_npu::simulate::{Executor, Settings};
use quincunx_npu::{NpuArch, TARGET};
use quincunx_tensor::Tensors;
use quincunx_testkit::{Verdict, campaign, options};
use std::collections::BTreeMap;

/// A sound program in all its parts, and what it makes of a sample.
struct Sound {
    arch: NpuArch,
    /// Of every core.
    programs: Vec<Program>,
    /// What the file of the first core names.
    attached: Attached,
    data: Vec<File>,
    interface: Interface,
    sample: Tensors,
    outputs: Tensors,
}

const SIZE: Size = Size { channels: 40, extent: [4, 12], batch: 2, layers: [2, 5] };

/// Random networks, and those of tokens: products of two values and transpositions.
fn networks() -> Vec<Network> {
    let random = |case| network(&mut Random::new(case), SIZE);
    let block = |case: u64| {
        let random = &mut Random::new(case);
        let heads = 2 + case as usize % 2;
        let graph = encoder(random, [2, 5 + case as usize % 4, 8 * heads], heads, false);
        calibrated(graph, random)
    };
    let others = (3100..3106).flat_map(|case| {
        [block(case), products(&mut Random::new(case)), mixed(&mut Random::new(case))]
    });
    (3000..3016).map(random).chain(others).collect()
}

fn all() -> Vec<Sound> {
    let sound = |network: &Network, arch: NpuArch| {
        let compiled = compile(&network.graph, &arch)?.program;
        let files = compiled.emit("bin", "net").unwrap();
        let (code, data) = files.into_iter().partition(|file: &File| file.name.ends_with(".qnpu"));
        let (code, data): (Vec<File>, Vec<File>) = (code, data);
        let read = code.iter().map(|file| binary::read_with(&file.bytes, &arch).unwrap());
        let (programs, mut attached): (Vec<Program>, Vec<Attached>) = read.unzip();
        let attached = attached.remove(0);
        let sample = network.samples[0].clone();
        let outputs = compiled.load(Engine::Exec).unwrap().run(&sample).unwrap();
        let interface = compiled.interface().clone();
        Some(Sound { arch, programs, attached, data, interface, sample, outputs })
    };
    let several = |case: u64| several_cores(2 + case as u32 % 2);
    let machines = |case| machines().into_iter().chain([several(case)]);
    let networks = (0..).zip(networks());
    let of_all = |(case, network)| machines(case).filter_map(move |arch| sound(&network, arch));
    networks.flat_map(of_all).collect()
}

impl Sound {
    /// The programs with other lines behind the same files.
    fn opened(&self, programs: &[Program]) -> Option<Box<dyn quincunx_contract::Program>> {
        let mut files = Vec::new();
        for (core, program) in programs.iter().enumerate() {
            let tensors = if core == 0 { self.attached.tensors.clone() } else { Vec::new() };
            let attached = Attached { tensors, ..self.attached.clone() };
            let code = binary::write_with(program, &self.arch, Some(&attached)).ok()?;
            files.push(File::new(format!("net.{core}.qnpu"), code));
        }
        files.extend(self.data.iter().cloned());
        let options = options(&TARGET, &[]);
        let interface = Some(self.interface.clone());
        TARGET.read(&files, interface, &self.arch, &options, &mut Log::default()).ok()
    }

    /// Outputs when queues whose next line is ready go on at random.
    fn outputs(&self, programs: &[Program], random: &mut Random) -> Option<Tensors> {
        let order = shuffled(programs, random);
        let executor = Executor::new(programs.to_vec(), &self.arch, Settings::default()).ok()?;
        let mut state = executor.state();
        for ((base, _), file) in self.attached.data.iter().zip(&self.data) {
            state.dram[usize::from(*base)].write(0, &file.bytes).ok()?;
        }
        let ports = Ports::named(&self.attached.tensors, Some(self.interface.clone())).ok()?;
        ports.write(&self.sample, &mut state).ok()?;
        executor.run_in(&order, &mut state, &mut |_, _| ()).ok()?;
        ports.read(&state).ok()
    }

    /// Maps and superfluous configurations do not count as problems.
    fn judge(&self, programs: &[Program], random: &mut Random, what: &str) -> Verdict {
        let Some(opened) = self.opened(programs) else { return Verdict::Rejected };
        let mut problems = complaints(opened.verify());
        problems.retain(|problem| problem.code() != "Q4037");
        if !problems.is_empty() {
            return Verdict::Rejected;
        }
        let mut same = || self.outputs(programs, random).as_ref() == Some(&self.outputs);
        if (0..4).all(|_| same()) {
            return Verdict::Harmless;
        }
        let lines = |programs: &[Program]| -> Vec<Inst> {
            programs.iter().flat_map(|program| &program.lines).map(|line| line.inst).collect()
        };
        let (new, old) = (lines(programs), lines(&self.programs));
        let line = (0..new.len()).find(|&line| new[line] != old[line]);
        let shown = line.map(|line| (old[line], new[line]));
        Verdict::Missed(format!("{what} at line {line:?} on {}: {shown:?}", self.arch.name))
    }
}

#[test]
fn sound_programs_are_judged_harmless() {
    for sound in all() {
        let verdict = sound.judge(&sound.programs, &mut Random::new(1), "nothing");
        assert!(matches!(verdict, Verdict::Harmless), "{verdict:?}");
    }
}

#[test]
fn damaged_tokens_are_refused_or_harmless() {
    let programs = all();
    let [refused, harmless] = campaign(|random| {
        let sound = &programs[random.below(programs.len())];
        let mut programs = sound.programs.clone();
        let core = random.below(programs.len());
        let what = corrupt(&mut programs[core], random);
        (programs != sound.programs).then(|| sound.judge(&programs, random, &what))
    });
    assert!(refused > 500, "{refused} refused, {harmless} harmless");
}

#[test]
fn damaged_fields_are_refused_or_harmless() {
    let programs = all();
    let mut kinds: BTreeMap<&'static str, [usize; 2]> = BTreeMap::new();
    let [refused, harmless] = campaign(|random| {
        let sound = &programs[random.below(programs.len())];
        let mut programs = sound.programs.clone();
        let core = random.below(programs.len());
        let kind = match random.below(6) {
            0 => unconfigure(&mut programs[core], random),
            _ => corrupt_operand(&mut programs[core], random),
        }?;
        let verdict = sound.judge(&programs, random, kind);
        let is_harmless = matches!(verdict, Verdict::Harmless);
        kinds.entry(kind).or_default()[usize::from(is_harmless)] += 1;
        Some(verdict)
    });
    assert!(refused > 600, "{refused} refused, {harmless} harmless");
    // Every kind that these programs have room for was refused somewhere.
    assert!(kinds.len() >= CORRUPTIONS.len(), "{kinds:?}");
    assert!(kinds.values().all(|[refused, _]| *refused > 0), "{kinds:?}");
}

#[test]
fn misdirected_lines_are_refused_or_harmless() {
    let programs = all();
    let mut kinds: BTreeMap<&'static str, usize> = BTreeMap::new();
    let [refused, harmless] = campaign(|random| {
        let sound = &programs[random.below(programs.len())];
        let mut programs = sound.programs.clone();
        let core = random.below(programs.len());
        let kind = misdirect(&mut programs[core], random)?;
        *kinds.entry(kind).or_default() += 1;
        Some(sound.judge(&programs, random, kind))
    });
    assert!(refused > 800, "{refused} refused, {harmless} harmless");
    assert!(kinds.len() == 2 && kinds.values().all(|&count| count > 10), "{kinds:?}");
}

/// Lines that no longer do what the interface says: results that lie elsewhere, operands of which
/// another part is read, stores of other bytes.
#[test]
fn values_in_wrong_places_are_found() {
    let programs = all();
    for (mnemonic, operand) in
        [("pe_conv", "dtaddr"), ("pe_conv", "staddr"), ("sta_mov", "staddr"), ("lda_mov", "dtaddr")]
    {
        let mut found = 0;
        for sound in &programs {
            for line in 0..sound.programs[0].lines.len() {
                let mut programs = sound.programs.clone();
                let inst = programs[0].lines[line].inst;
                let mut raw = inst.to_raw();
                let mut operands = inst.spec().operands.iter();
                let index = operands.position(|spec| spec.name == operand);
                let Some(index) = index.filter(|_| inst.mnemonic() == mnemonic) else { continue };
                raw.values[index] += 8;
                programs[0].lines[line].inst = Inst::from_raw(&raw).unwrap();
                let problems = sound.opened(&programs).map_or_else(Vec::new, |p| p.verify());
                found += usize::from(problems.iter().any(|problem| problem.code() == "Q4043"));
            }
        }
        assert!(found > 0, "{mnemonic}, {operand}");
    }
}
