//! Damaged programs of compiled networks: each is refused by the reader or the checkers, or gives
//! the same outputs in every order that its tokens allow.

use crate::common::corrupt::{CORRUPTIONS, corrupt, corrupt_operand, unconfigure};
use crate::common::networks::{Size, network};
use crate::common::{Random, shuffled};
use crate::compiled::{compile, complaints, machines};
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
    program: Program,
    attached: Attached,
    data: Vec<File>,
    interface: Interface,
    sample: Tensors,
    outputs: Tensors,
}

const SIZE: Size = Size { channels: 40, extent: [4, 12], batch: 2, layers: [2, 5] };

fn all() -> Vec<Sound> {
    let sound = |case: u64, arch: NpuArch| {
        let network = network(&mut Random::new(case), SIZE);
        let compiled = compile(&network.graph, &arch)?.program;
        let mut files = compiled.emit("bin", "net").unwrap();
        let code = files.remove(0);
        let (program, attached) = binary::read_with(&code.bytes, &arch).unwrap();
        let sample = network.samples[0].clone();
        let outputs = compiled.load(Engine::Exec).unwrap().run(&sample).unwrap();
        let interface = compiled.interface().clone();
        Some(Sound { arch, program, attached, data: files, interface, sample, outputs })
    };
    let cases = (3000..3016).flat_map(|case| machines().map(|arch| (case, arch)));
    cases.filter_map(|(case, arch)| sound(case, arch)).collect()
}

impl Sound {
    /// The program with other lines behind the same files.
    fn opened(&self, program: &Program) -> Option<Box<dyn quincunx_contract::Program>> {
        let code = binary::write_with(program, &self.arch, Some(&self.attached)).ok()?;
        let code = std::iter::once(File::new("net.qnpu", code));
        let files: Vec<File> = code.chain(self.data.iter().cloned()).collect();
        let options = options(&TARGET, &[]);
        let interface = Some(self.interface.clone());
        TARGET.read(&files, interface, &self.arch, &options, &mut Log::default()).ok()
    }

    /// Outputs when queues whose next line is ready go on at random.
    fn outputs(&self, program: &Program, random: &mut Random) -> Option<Tensors> {
        let programs = vec![program.clone()];
        let order = shuffled(&programs, random);
        let executor = Executor::new(programs, &self.arch, Settings::default()).ok()?;
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
    fn judge(&self, program: &Program, random: &mut Random, what: &str) -> Verdict {
        let Some(opened) = self.opened(program) else { return Verdict::Rejected };
        let mut problems = complaints(opened.verify());
        problems.retain(|problem| problem.code() != "Q4037");
        if !problems.is_empty() {
            return Verdict::Rejected;
        }
        let mut same = || self.outputs(program, random).as_ref() == Some(&self.outputs);
        if (0..4).all(|_| same()) {
            return Verdict::Harmless;
        }
        let changed = program.lines.iter().zip(&self.program.lines);
        let line = changed.into_iter().position(|(new, old)| new.inst != old.inst);
        let shown = line.map(|line| (self.program.lines[line].inst, program.lines[line].inst));
        Verdict::Missed(format!("{what} at line {line:?} on {}: {shown:?}", self.arch.name))
    }
}

#[test]
fn sound_programs_are_judged_harmless() {
    for sound in all() {
        let verdict = sound.judge(&sound.program, &mut Random::new(1), "nothing");
        assert!(matches!(verdict, Verdict::Harmless), "{verdict:?}");
    }
}

#[test]
fn damaged_tokens_are_refused_or_harmless() {
    let programs = all();
    let [refused, harmless] = campaign(|random| {
        let sound = &programs[random.below(programs.len())];
        let mut program = sound.program.clone();
        let what = corrupt(&mut program, random);
        (program != sound.program).then(|| sound.judge(&program, random, &what))
    });
    assert!(refused > 500, "{refused} refused, {harmless} harmless");
}

#[test]
fn damaged_fields_are_refused_or_harmless() {
    let programs = all();
    let mut kinds: BTreeMap<&'static str, [usize; 2]> = BTreeMap::new();
    let [refused, harmless] = campaign(|random| {
        let sound = &programs[random.below(programs.len())];
        let mut program = sound.program.clone();
        let kind = match random.below(6) {
            0 => unconfigure(&mut program, random),
            _ => corrupt_operand(&mut program, random),
        }?;
        let verdict = sound.judge(&program, random, kind);
        let is_harmless = matches!(verdict, Verdict::Harmless);
        kinds.entry(kind).or_default()[usize::from(is_harmless)] += 1;
        Some(verdict)
    });
    assert!(refused > 600, "{refused} refused, {harmless} harmless");
    // Every kind that these programs have room for was refused somewhere.
    assert!(kinds.len() >= CORRUPTIONS.len(), "{kinds:?}");
    assert!(kinds.values().all(|[refused, _]| *refused > 0), "{kinds:?}");
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
            for line in 0..sound.program.lines.len() {
                let mut program = sound.program.clone();
                let inst = program.lines[line].inst;
                let mut raw = inst.to_raw();
                let mut operands = inst.spec().operands.iter();
                let index = operands.position(|spec| spec.name == operand);
                let Some(index) = index.filter(|_| inst.mnemonic() == mnemonic) else { continue };
                raw.values[index] += 8;
                program.lines[line].inst = Inst::from_raw(&raw).unwrap();
                let problems = sound.opened(&program).map_or_else(Vec::new, |p| p.verify());
                found += usize::from(problems.iter().any(|problem| problem.code() == "Q4043"));
            }
        }
        assert!(found > 0, "{mnemonic}, {operand}");
    }
}
