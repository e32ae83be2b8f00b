//! Compiled programs survive every form: machine code with its data, program folders, text.

use crate::common::Random;
use crate::common::networks::{Network, Size, network};
use crate::compiled::{compile, golden, machines, several_cores};
use quincunx_contract::folder::{
    ArchRecord, Folder, MachineRecord, SegmentFiles, ValueRecord, option_values,
};
use quincunx_contract::plan::Place;
use quincunx_contract::{
    Arch as _, Compiled, Engine, File, Interface, Log, Numerics, Port, Program, Target as _,
};
use quincunx_diag::Diagnostic;
use quincunx_graph::ValueId;
use quincunx_npu::isa::Inst;
use quincunx_npu::{Artifact, NpuArch, TARGET};
use quincunx_tensor::Tensors;
use quincunx_testkit::{options, same};

/// Programs with the networks they are of.
fn programs() -> impl Iterator<Item = (Network, NpuArch, Compiled)> {
    (2000..2012).flat_map(|case| {
        machines().into_iter().filter_map(move |arch| {
            let network = network(&mut Random::new(case), Size::SMALL);
            let compiled = compile(&network.graph, &arch)?;
            Some((network, arch, compiled))
        })
    })
}

type Read = Result<Box<dyn Program>, Vec<Diagnostic>>;

fn read(files: &[File], interface: Option<Interface>, arch: &NpuArch) -> Read {
    TARGET.read(files, interface, arch, &options(&TARGET, &[]), &mut Log::default())
}

fn lines(program: &dyn Program) -> &[quincunx_npu::program::Program] {
    program.as_any().downcast_ref::<Artifact>().unwrap().programs()
}

/// A program gives what the golden model says, at every layer.
fn check(program: &dyn Program, network: &Network, golden: &[Tensors]) {
    let layers = program.interface().layers.len();
    assert!(layers > 0);
    let mut machine = program.load(Engine::Fast).unwrap();
    for (sample, golden) in network.samples.iter().zip(golden) {
        let traced = machine.run_traced(sample).unwrap();
        assert!(traced.len() >= layers);
        traced.iter().for_each(|(name, found)| same(found, &golden[name], name));
    }
}

/// Energy is told of machines whose files say what an access costs.
#[test]
fn energy_is_that_of_the_machine_file() {
    let plain = NpuArch::preset("gemini").unwrap();
    let network = network(&mut Random::new(2000), Size::SMALL);
    let figure = |arch: &NpuArch, name: &str| {
        let stats = compile(&network.graph, arch).unwrap().program.stats();
        let found = stats.figures.iter().find(|(figure, _)| *figure == name);
        found.map(|(_, value)| value.parse::<f64>().unwrap())
    };
    assert_eq!(figure(&plain, "energy in pJ"), None);
    let products = NpuArch { mac_pj: Some(2.0), ..plain.clone() };
    let energy = figure(&products, "energy in pJ").unwrap();
    assert_eq!(Some(energy), figure(&plain, "multiplications").map(|count| 2.0 * count));
    let more = NpuArch { l2_pj_per_byte: Some(1.0), ..products };
    assert!(figure(&more, "energy in pJ").unwrap() > energy);
}

/// Loads of weights from DRAM.
fn weight_loads(program: &quincunx_npu::program::Program) -> Vec<u32> {
    let (mut base, mut loads) = (0, Vec::new());
    for line in &program.lines {
        match line.inst {
            Inst::LwCfg { bas, .. } => base = bas,
            Inst::LdwMov { staddr, .. } => loads.push(staddr),
            Inst::LwMov { ss: 1, staddr, .. } if base == 1 => loads.push(staddr),
            _ => {}
        }
    }
    loads
}

/// A file for each core and one with the weights, which are read from DRAM once; a core has an image
/// at least.
#[test]
fn cores_share_weights() {
    let mut seen = [0; 4];
    for case in 2000..2036 {
        let arch = several_cores(2 + case as u32 % 3);
        let network = network(&mut Random::new(case), Size::SMALL);
        let compiled = compile(&network.graph, &arch).unwrap();
        let images = network.graph[network.graph.inputs()[0]].shape[0];
        let cores = images.min(arch.cores());
        seen[cores - 1] += 1;
        assert_eq!(lines(&*compiled.program).len(), cores);
        if images <= cores {
            let mut loads: Vec<u32> =
                lines(&*compiled.program).iter().flat_map(weight_loads).collect();
            let count = loads.len();
            loads.sort_unstable();
            loads.dedup();
            assert_eq!(loads.len(), count, "weights are read twice");
        }
        let files = compiled.program.emit("bin", "net").unwrap();
        let interface = Some(compiled.program.interface().clone());
        let program = read(&files, interface, &arch).unwrap();
        assert_eq!(program.emit("bin", "net").unwrap(), files);
        check(&*program, &network, &golden(&network, &compiled, &arch));
    }
    assert!(seen.iter().all(|&count| count > 1), "{seen:?}");
}

#[test]
fn machine_code_with_its_data() {
    for (network, arch, compiled) in programs() {
        let golden = golden(&network, &compiled, &arch);
        let interface = compiled.program.interface();
        let files = compiled.program.emit("bin", "net").unwrap();
        let [code, data @ ..] = &files[..] else { panic!("no files") };
        assert!(files.iter().all(|file| TARGET.recognises(file)));
        let names: Vec<String> = data.iter().map(|file| file.name.clone()).collect();
        assert_eq!(TARGET.companions(code), names);
        let program = read(&files, Some(interface.clone()), &arch).unwrap();
        assert_eq!(program.interface(), interface);
        assert_eq!(program.emit("bin", "net").unwrap(), files);
        assert_eq!(lines(&*program), lines(&*compiled.program));
        assert_eq!(program.verify(), compiled.program.verify());
        check(&*program, &network, &golden);
        // The code names inputs and outputs itself, but not what their codes mean.
        let alone = read(&files, None, &arch).unwrap();
        let names = |ports: &[Port]| ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&alone.interface().inputs), names(&interface.inputs));
        assert_eq!(names(&alone.interface().outputs), names(&interface.outputs));
        let without = read(&files[..1], Some(interface.clone()), &arch);
        assert_eq!(without.is_err(), !data.is_empty());
    }
}

#[test]
fn program_folders() {
    for (network, arch, compiled) in programs().step_by(3) {
        let graph = &network.graph;
        let names = |ids: &[ValueId]| ids.iter().map(|&id| graph[id].name.clone()).collect();
        let records = |ids: &[ValueId]| ids.iter().map(|&id| ValueRecord::of(graph, id)).collect();
        let folder = Folder {
            machines: vec![MachineRecord {
                target: TARGET.info().name.to_owned(),
                arch: ArchRecord::of(&arch),
                options: option_values(&options(&TARGET, &[])),
                preparation: serde_json::Value::Null,
                nodes: Vec::new(),
            }],
            plan: Vec::new(),
            inputs: records(graph.inputs()),
            outputs: records(graph.outputs()),
            segments: vec![SegmentFiles {
                name: "npu0".to_owned(),
                place: Place::Device,
                inputs: names(graph.inputs()),
                outputs: names(graph.outputs()),
                files: compiled.program.emit(TARGET.info().folder_kind, "program").unwrap(),
                interface: Some(compiled.program.interface().clone()),
                numerics: compiled.numerics.clone(),
                machine: 0,
            }],
            constants: None,
        };
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out");
        folder.write(&path).unwrap();
        let opened = Folder::read(&path).unwrap();
        assert_eq!(opened, folder);
        let arch = NpuArch::parse(&opened.machines[0].arch.file).unwrap();
        assert_eq!(arch.name(), opened.machines[0].arch.name);
        let [segment] = &opened.segments[..] else { panic!("one segment") };
        let program = read(&segment.files, segment.interface.clone(), &arch).unwrap();
        let numerics: &Numerics = &segment.numerics;
        let again = Compiled { program, numerics: numerics.clone() };
        let golden = golden(&network, &again, &arch);
        check(&*again.program, &network, &golden);
    }
}

#[test]
fn text_and_traces() {
    for (_, arch, compiled) in programs() {
        let text = compiled.program.emit("asm", "net").unwrap();
        let program = read(&text, None, &arch).unwrap();
        assert_eq!(lines(&*program), lines(&*compiled.program));
        assert_eq!(program.emit("asm", "net").unwrap(), text);
        let trace = compiled.program.emit("trace", "net").unwrap();
        let traced = read(&trace, None, &arch).unwrap();
        assert_eq!(traced.emit("trace", "net").unwrap(), trace);
        assert_eq!(traced.emit("asm", "net").unwrap(), text);
        // Cycles are those with which it was compiled.
        assert_eq!(traced.stats().cycles, compiled.program.stats().cycles);
    }
}

/// What else is compiled at the same time does not matter.
#[test]
fn compilations_are_deterministic() {
    let networks: Vec<Network> =
        (2000..2006).map(|case| network(&mut Random::new(case), Size::SMALL)).collect();
    for arch in machines() {
        let files = |network: &Network| {
            let program = compile(&network.graph, &arch)?;
            let interface = serde_json::to_string(program.program.interface()).unwrap();
            Some((program.program.emit("bin", "net").unwrap(), interface, program.numerics))
        };
        let alone: Vec<_> = networks.iter().map(files).collect();
        std::thread::scope(|scope| {
            let all = || networks.iter().map(files).collect::<Vec<_>>();
            let both = [scope.spawn(all), scope.spawn(all)];
            both.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), alone));
        });
    }
}
