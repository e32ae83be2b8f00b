//! Launch files: reading, writing, what is wrong with them, and what launches hand to threads.

use crate::common::{folder, target_of};
use quincunx_contract::{Engine, File, Grid, Log, Program, Sample, Target};
use quincunx_diag::{Diagnostic, any_error};
use quincunx_dpas::arch::Platform;
use quincunx_dpas::files::launch;
use quincunx_dpas::program::Element;
use quincunx_dpas::program::check::check;
use quincunx_dpas::program::device::{
    Access, Argument, ArgumentKind, Buffer, Device, Implicit, Kernel, Launch, Place, Role, Value,
};
use quincunx_dpas::program::payload::{local_ids, payload, placement};
use quincunx_dpas::{DeviceArtifact, TARGET};
use quincunx_tensor::npy::{read_npy, write_npy};
use quincunx_tensor::{Tensor, Tensors};
use quincunx_testkit::{Random, damaged_text, exercise, options, within_seconds};

fn golden(name: &str) -> File {
    File::new(name, std::fs::read(folder().join("files").join(name)).unwrap())
}

/// The launch file with its companions.
fn files(text: &str) -> Vec<File> {
    vec![File::new("gemm.toml", text.to_owned()), golden("gemm.xebin"), golden("gemm_b.npy")]
}

fn text() -> String {
    golden("gemm.toml").text().unwrap().to_owned()
}

fn program(files: &[File], preset: &str) -> Result<Box<dyn Program>, Vec<Diagnostic>> {
    let (arch, _) = target_of("x", Vec::new(), preset);
    TARGET.read(files, None, &*arch, &options(&TARGET, &[]), &mut Log::default())
}

fn device(files: &[File]) -> Device {
    let program = program(files, "xehpc").unwrap_or_else(|found| panic!("{found:?}"));
    let artifact = program.as_any().downcast_ref::<DeviceArtifact>().unwrap();
    artifact.device().clone()
}

#[test]
fn a_launch_file_names_its_companions() {
    let file = golden("gemm.toml");
    assert!(TARGET.recognises(&file));
    assert_eq!(TARGET.companions(&file), ["gemm.xebin", "gemm_b.npy"]);
    assert!(TARGET.companions(&File::new("x.toml", "dpas_launch = [")).is_empty());
    let device = device(&files(&text()));
    assert_eq!(check(&device), []);
    assert_eq!(device.buffers[1].data.as_ref().unwrap().len(), 64 * 64);
    assert_eq!(device.kernels[0].parameters(), 6);
    assert_eq!(device.launches[0].arguments[3], Value::Whole(16));
}

#[test]
fn ports_and_layers_follow_from_the_file() {
    let scaled = text().replace(
        "shape = [16, 64]\nrole = \"input\"",
        "shape = [16, 64]\nrole = \"input\"\nscale = 0.5\nzero_point = 3",
    );
    let program = program(&files(&scaled), "xehpc").unwrap();
    let interface = program.interface();
    assert_eq!((interface.inputs.len(), interface.outputs.len()), (1, 1));
    let Grid::Codes(quantiser) = &interface.inputs[0].grid else { panic!() };
    assert_eq!((quantiser.scale.as_uniform(), quantiser.zero.as_uniform()), (Some(0.5), Some(3)));
    assert_eq!(interface.outputs[0].shape, [16, 64]);
    assert_eq!((interface.layers[0].value.as_str(), interface.layers[0].after), ("fc_out", 0));
    assert_eq!((interface.sections[0].macs, interface.sections[0].first), (65536, 0));
    assert_eq!(program.sample(0), Sample::Fractions);
    let plain = self::program(&files(&text()), "xehpc").unwrap();
    assert_eq!(plain.sample(0), Sample::Words { keep: 0xff, set: 0 });
    // An interface of its own has the same ports; grids are its own.
    let (arch, _) = target_of("x", Vec::new(), "xehpc");
    let read = |interface| {
        let options = options(&TARGET, &[]);
        TARGET.read(&files(&text()), Some(interface), &*arch, &options, &mut Log::default())
    };
    assert!(read(interface.clone()).is_ok());
    for change in 0..4 {
        let mut other = interface.clone();
        match change {
            0 => other.inputs[0].shape = vec![64, 16],
            1 => other.outputs.clear(),
            2 => other.layers[0].place = "d".to_owned(),
            _ => other.layers[0].after = 1,
        }
        let found = read(other).err().unwrap();
        assert_eq!(found[0].code(), "Q6091");
    }
}

/// Written files say the same, and are written the same again.
#[test]
fn launch_files_have_one_form() {
    let mut device = device(&files(&text()));
    device.buffers.push(Buffer {
        strides: Some(vec![100, 1]),
        offset: 4,
        bytes: 4096,
        grid: Some((0.125, -3)),
        data: Some(vec![7; 4096].into()),
        ..Buffer::new("odd \"name\"", Element::Hf, &[2, 3], Role::Scratch)
    });
    device.buffers.push(Buffer {
        inside: Some(("odd \"name\"".to_owned(), 64)),
        ..Buffer::new("part", Element::F, &[], Role::Scratch)
    });
    device.launches[0].local_size = Some([4, 4, 1]);
    assert_eq!(check(&device), []);
    let write = |device: &Device| launch::write(device, Platform::XeHpc, "x").unwrap();
    let written = write(&device);
    let names: Vec<&str> = written.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["x.toml", "x.zebin", "x.bin"]);
    assert_eq!(TARGET.companions(&written[0]), names[1..]);
    let again = self::device(&written);
    assert_eq!(again, device);
    assert_eq!(write(&again), written);
    let program = program(&written, "xehpc").unwrap();
    for (kind, names) in [
        ("launch", vec!["y.toml", "y.zebin", "y.bin"]),
        ("zebin", vec!["y.zebin"]),
        ("asm", vec!["y.xeasm"]),
        ("bin", vec!["y.xebin"]),
    ] {
        let files = program.emit(kind, "y").unwrap();
        let found: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(found, names);
    }
    assert_eq!(program.emit("bin", "y").unwrap()[0].bytes, golden("gemm.xebin").bytes);
    assert_eq!(program.emit("stream", "y").unwrap_err().code(), "Q6093");
}

/// One change of the good file, the code of its problem and, in the message or the help, a word.
#[test]
fn wrong_files_are_named_with_their_place() {
    let big = "shape = [16, 64]\nrole = \"output\"";
    for (from, to, code, word) in [
        ("dpas_launch = 1", "dpas_launch = 2", "Q6113", "expected 1"),
        ("platform = \"xehpc\"", "platform = \"xehpg\"", "Q6115", "--arch xehpg"),
        ("platform = \"xehpc\"", "platform = \"xehpd\"", "Q6113", "did you mean"),
        ("grf_count", "grf_cuont", "Q6110", "grf_count"),
        ("threads = 1", "threads = [", "Q6110", ""),
        ("gemm.xebin", "gem.xebin", "Q6111", "did you mean \"gemm.xebin\""),
        ("grf_count = 256", "grf_count = 100", "Q6104", "128 or 256"),
        ("simd_size = 16", "simd_size = 12", "Q6104", "1, 8, 16 or 32"),
        ("size = 64\n", "size = 48\n", "Q6104", "0, 32 or 64"),
        ("grf_count", "slm_size = 1000000\ngrf_count", "Q6104", "at most"),
        ("grf_count", "local_ids = 100\ngrf_count", "Q6104", "local ids"),
        ("offset = 28", "offset = 26", "Q6105", "share byte 26"),
        ("offset = 32", "offset = 5000", "Q6105", "4096"),
        ("offset = 16,", "offset = 16, size = 4,", "Q6105", "expected 8"),
        ("{ value = 3, offset", "{ offset", "Q6113", "expected one of"),
        ("\"writeonly\"", "\"writeonyl\"", "Q6113", "did you mean"),
        ("element = \"d\"", "element = \"dd\"", "Q6113", "did you mean"),
        ("role = \"output\"", "role = \"out\"", "Q6113", "roles are"),
        ("role = \"output\"", "role = \"constant\"", "Q6113", "no data"),
        (big, "shape = [16, 64]\nrole = \"output\"\nscale = -1.0", "Q6113", "positive"),
        (big, "shape = [16, 64]\nrole = \"output\"\nbytes = 100", "Q6117", "4096"),
        (big, "shape = [16, 64]\nrole = \"output\"\nstrides = [1]", "Q6113", "strides"),
        (big, "shape = [1048576, 1048576]\nrole = \"output\"", "Q6118", "at most"),
        (big, "shape = [4294967296, 4294967296]\nrole = \"output\"", "Q6117", "2^64"),
        (big, "shape = [16, 64]\nrole = \"output\"\ninside = \"bb\"", "Q6111", ""),
        (big, "shape = [16, 64]\nrole = \"output\"\ninside = \"a\"", "Q6117", "1024"),
        ("shape = [64, 64]", "shape = [64, 32]", "Q6114", "64"),
        ("element = \"b\"\nshape = [64", "element = \"w\"\nshape = [64", "Q6114", "i16"),
        ("name = \"b\"", "name = \"a\"", "Q6112", "two buffers"),
        ("name = \"a\"", "name = \"\"", "Q6113", "no name"),
        ("kernel = \"gemm\"", "kernel = \"gem\"", "Q6111", "did you mean \"gemm\""),
        ("layer = \"fc\"", "layer = \"fd\"", "Q6111", "did you mean"),
        ("fc_out = \"c\"", "fc_out = \"cc\"", "Q6111", ""),
        ("layer = \"fc\"\n", "", "Q6120", "no launches"),
        ("groups = [2, 1, 1]", "groups = [2, 0, 1]", "Q6119", "at least 1"),
        ("groups = [2, 1, 1]", "groups = [4000000000, 4000000000, 1]", "Q6119", "more than"),
        ("threads = 1", "threads = 0", "Q6119", "1 to 128"),
        ("threads = 1", "threads = 1\nlocal_size = [17, 1, 1]", "Q6119", "2 threads"),
        ("16, 64, 64]", "16, 64]", "Q6116", "5 are given"),
        ("16, 64, 64]", "16, 64, 64, 64]", "Q6116", "7 are given"),
        ("16, 64, 64]", "16, 64, 4294967296]", "Q6116", "does not fit"),
        ("16, 64, 64]", "16, 64, \"a\"]", "Q6116", "\"a\" is given"),
        ("16, 64, 64]", "16, 64, true]", "Q6113", "or a number"),
        ("[\"a\", \"b\"", "[\"a\", 3", "Q6116", "is a buffer"),
        ("[\"a\", \"b\"", "[\"aa\", \"b\"", "Q6111", ""),
    ] {
        let changed = text().replacen(from, to, 1);
        assert_ne!(changed, text(), "{from}");
        let found = match program(&files(&changed), "xehpc") {
            Ok(program) => program.verify(),
            Err(found) => found,
        };
        let first = found.iter().find(|problem| problem.is_error());
        let first = first.unwrap_or_else(|| panic!("{to} is accepted"));
        assert_eq!(first.code(), code, "{to}: {found:?}");
        let said = format!("{} {}", first.message(), first.help_text().unwrap_or_default());
        assert!(said.contains(word), "{to}: {found:?}");
        // All but the sum of all buffers has a place in the text.
        let placed = first.labels().first().is_some_and(|(span, _)| span.end > span.start);
        assert!(placed || first.place().is_some() || code == "Q6118", "{to}: {first:?}");
    }
}

#[test]
fn layers_are_in_the_order_of_their_launches() {
    let mut device = device(&files(&text()));
    let layer = device.layers[0].clone();
    device.layers.push(quincunx_dpas::program::device::Layer {
        name: "second".to_owned(),
        values: Default::default(),
        ..layer
    });
    let first = device.launches[0].clone();
    let second = Launch { layer: Some("second".to_owned()), ..first.clone() };
    let codes = |launches: &[&Launch]| -> Vec<&str> {
        let launches = launches.iter().map(|launch| (*launch).clone()).collect();
        let device = Device { launches, ..device.clone() };
        check(&device).iter().map(Diagnostic::code).collect()
    };
    assert!(codes(&[&first, &first, &second]).is_empty());
    assert_eq!(codes(&[&second, &first]), ["Q6120"]);
    assert_eq!(codes(&[&first, &second, &first]), ["Q6120"]);
}

fn kernel(arguments: Vec<Argument>, inline: u32) -> Kernel {
    let mut kernel = Kernel::of_listing("k", Default::default(), 128, 16);
    kernel.arguments = arguments;
    kernel.environment.inline = inline;
    kernel
}

fn launch(arguments: Vec<Value>) -> Launch {
    Launch {
        kernel: "k".to_owned(),
        groups: [5, 6, 7],
        threads: 2,
        local_size: Some([8, 4, 1]),
        arguments,
        layer: None,
        place: Place::default(),
    }
}

/// Bytes written out by hand.
#[test]
fn arguments_are_packed() {
    let argument = |kind, offset, size| Argument { kind, offset, size };
    let value = |index, from| ArgumentKind::Value { index, from };
    let kernel = kernel(
        vec![
            argument(ArgumentKind::Pointer { index: 1, access: Access::Read }, 8, 8),
            argument(value(0, 0), 0, 4),
            argument(value(2, 0), 4, 2),
            argument(value(3, 4), 16, 4),
            argument(value(3, 0), 20, 4),
            argument(ArgumentKind::Implicit(Implicit::GroupCount), 24, 12),
            argument(ArgumentKind::Implicit(Implicit::LocalSize), 36, 12),
            argument(ArgumentKind::Implicit(Implicit::GlobalSize), 48, 12),
            argument(ArgumentKind::Implicit(Implicit::Dimensions), 60, 4),
            argument(ArgumentKind::Other("x".to_owned()), 64, 4),
        ],
        32,
    );
    let values =
        vec![Value::Real(1.5), Value::Buffer("b".into()), Value::Real(-2.0), Value::Whole(-2)];
    let launch = launch(values);
    let address = |name: &str| (name == "b").then_some(0x0123_4567_89ab_cdef);
    let bytes = payload(&kernel, &launch, &address).unwrap();
    let dword = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    // 32 bytes for r1, then 36 in whole units of 32.
    assert_eq!(bytes.len(), 32 + 64);
    let head = [0x3fc0_0000, 0xc000, 0x89ab_cdef, 0x0123_4567, u32::MAX, u32::MAX - 1];
    assert_eq!((0..6).map(|at| dword(4 * at)).collect::<Vec<_>>(), head);
    let tail: Vec<u32> = (6..16).map(|at| dword(4 * at)).collect();
    assert_eq!(tail, [5, 6, 7, 8, 4, 1, 40, 24, 7, 3]);
    assert!(bytes[64..].iter().all(|&byte| byte == 0));
    for (at, wrong) in [
        (0, Value::Buffer("b".into())),
        (1, Value::Whole(3)),
        (1, Value::Buffer("c".into())),
        (2, Value::Whole(0x1_0000)),
        (2, Value::Whole(-0x8001)),
    ] {
        let mut launch = launch.clone();
        launch.arguments[at] = wrong;
        assert_eq!(payload(&kernel, &launch, &address).unwrap_err().code(), "Q6116");
    }
}

#[test]
fn local_ids_count_lanes_first() {
    let mut kernel = kernel(Vec::new(), 0);
    kernel.environment.local_ids = 96;
    let launch = launch(Vec::new());
    let words = |thread| -> Vec<u16> {
        let bytes = local_ids(&kernel, &launch, thread);
        bytes.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
    };
    // 8 x 4 work-items on 16 lanes: the second thread has rows 2 and 3.
    let x: Vec<u16> = (0..16).map(|lane| lane % 8).collect();
    let y: Vec<u16> = (0..16).map(|lane| 2 + lane / 8).collect();
    assert_eq!(words(1), [x, y, vec![0; 16]].concat());
    kernel.environment.local_ids = 6;
    kernel.environment.simd = 1;
    assert_eq!(local_ids(&kernel, &launch, 13), [5, 0, 1, 0, 0, 0]);
}

#[test]
fn buffers_lie_apart() {
    let buffer =
        |name: &str, bytes| Buffer { bytes, ..Buffer::new(name, Element::Ub, &[1], Role::Scratch) };
    let inner = Buffer { inside: Some(("b".to_owned(), 64)), ..buffer("c", 8) };
    let buffers = [buffer("a", 1), inner, buffer("b", 4097), buffer("d", 1)];
    let places = placement(&buffers);
    assert_eq!(places, [0x10_0000, 0x10_2040, 0x10_2000, 0x10_5000]);
}

#[test]
fn arrays_are_spread_over_strides() {
    let array = write_npy(&Tensor::from_vec(&[64, 64], vec![1i8; 64 * 64]).unwrap());
    let text =
        text().replace("shape = [64, 64]", "shape = [64, 64]\nstrides = [70, 1]\noffset = 2");
    let mut files = files(&text);
    files[2] = File::new("gemm_b.npy", array);
    let device = device(&files);
    let data = device.buffers[1].data.as_ref().unwrap();
    assert_eq!(data.len(), 2 + 63 * 70 + 64);
    assert_eq!(data.iter().map(|&byte| u32::from(byte)).sum::<u32>(), 64 * 64);
    assert_eq!((data[1], data[2], data[65], data[66], data[72]), (0, 1, 1, 0, 1));
}

#[test]
fn kernels_of_other_tools_are_named() {
    let text = "dpas_launch = 1\nplatform = \"xehpc\"\n[[kernel]]\nname = \"k\"\nentry = \"fill\"\nfile = \"ocl_xehpc.zebin\"\n";
    let read = |text: &str| {
        let files = vec![File::new("x.toml", text.to_owned()), golden("ocl_xehpc.zebin")];
        program(&files, "xehpc")
    };
    let read_kernel = |text: &str| {
        let found = read(text).err().unwrap();
        found.into_iter().find(Diagnostic::is_error).unwrap()
    };
    assert_eq!(device_of(&*read(text).unwrap()).kernels[0].name, "k");
    let found = read_kernel(&text.replace("\"fill\"", "\"fil\""));
    assert_eq!((found.code(), found.help_text()), ("Q6111", Some("did you mean \"fill\"?")));
    let found = read_kernel(&format!("{text}grf_count = 128\n"));
    assert_eq!(found.code(), "Q6113");
}

/// What the vendor's compiler made of `out[i] = a[i] * factor + local_size`, as its prologue expects it.
#[test]
fn kernels_of_the_vendor_run() {
    let files = ["ocl.toml", "ocl_xehpc.zebin"].map(golden);
    let program = program(&files, "xehpc").unwrap();
    assert_eq!(program.verify(), []);
    let a: Vec<i32> = (0..128).map(|at| 1000 * at - 64_000).collect();
    let inputs =
        Tensors::from_iter([("a".to_owned(), Tensor::from_vec(&[128], a.clone()).unwrap())]);
    for engine in [Engine::Exec, Engine::Fast] {
        let found = program.load(engine).unwrap().run(&inputs).unwrap();
        // Two threads of 32 lanes.
        let expected: Vec<f64> = a.iter().map(|x| f64::from(3 * x + 64)).collect();
        assert_eq!(found["out"].to_f64(), expected);
    }
}

fn device_of(program: &dyn Program) -> &Device {
    program.as_any().downcast_ref::<DeviceArtifact>().unwrap().device()
}

#[test]
fn damaged_launch_files_are_read_or_refused() {
    let (arch, _) = target_of("x", Vec::new(), "xehpc");
    within_seconds(120, || {
        let mut accepted = 0;
        for case in 0..500 {
            let changed = damaged_text(&text(), "\"[]={}\n0123456789-.ab", &mut Random::new(case));
            let read =
                exercise(&TARGET, &*arch, &[("swsb", "ignore")], &files(&changed), &|_| false);
            accepted += usize::from(read.is_some_and(|program| !any_error(&program.verify())));
        }
        assert!((10..490).contains(&accepted), "{accepted}");
    });
}

fn run(files: &[File], given: &[(&str, &str)], traced: bool) -> Result<Tensors, Diagnostic> {
    let (arch, _) = target_of("x", Vec::new(), "xehpc");
    let options = options(&TARGET, given);
    let program = TARGET.read(files, None, &*arch, &options, &mut Log::default()).unwrap();
    let a = read_npy(golden("gemm_a.npy").bytes).unwrap();
    let inputs = Tensors::from([("a".to_owned(), a)]);
    let mut machine = program.load(Engine::Exec)?;
    let first = machine.run(&inputs)?;
    // Nothing of a run is left in the next one.
    let again = if traced { machine.run_traced(&inputs)? } else { machine.run(&inputs)? };
    assert_eq!(again["c"].to_f64(), first["c"].to_f64());
    Ok(again)
}

/// What numpy makes of the same matrices.
#[test]
fn launches_run() {
    let expected = read_npy(golden("gemm_c.npy").bytes).unwrap().to_f64();
    let results = run(&files(&text()), &[], true).unwrap();
    assert_eq!(results["c"].to_f64(), expected);
    assert_eq!(results["fc_out"].to_f64(), expected);
    // Two launches, one group each, whose results lie in one arena and have a scale.
    let arena = text()
        .replace(
            "role = \"output\"",
            "role = \"output\"\nscale = 0.5\nzero_point = 2\ninside = \"arena\"\ninside_offset = 128\n\n\
             [[buffer]]\nname = \"arena\"\nelement = \"ub\"\nshape = [8192]\nrole = \"scratch\"",
        );
    let results = run(&files(&arena), &[], false).unwrap();
    let scaled: Vec<f64> = expected.iter().map(|sum| (sum - 2.0) * 0.5).collect();
    assert_eq!(results["c"].to_f64(), scaled);
    // A written program computes the same.
    let written = launch::write(&device(&files(&text())), Platform::XeHpc, "x").unwrap();
    assert_eq!(run(&written, &[], false).unwrap()["c"].to_f64(), expected);
}

#[test]
fn faults_name_launch_kernel_group_and_thread() {
    let text = text()
        .replace("groups = [2, 1, 1]", "groups = [2, 2, 1]")
        .replace("16, 64, 64]", "32, 64, 64]");
    let fault = run(&files(&text), &[], false).unwrap_err();
    let notes = fault.notes().join("; ");
    for part in ["launch 0, layer fc", "kernel gemm", "group 0 1 0", "thread 0"] {
        assert!(notes.contains(part), "{fault}: {notes}");
    }
    let fault = run(&files(&self::text()), &[("step-limit", "100")], false).unwrap_err();
    assert_eq!(fault.code(), "Q6155");
    let bare = File::new("x.zebin", golden("ocl_xehpc.zebin").bytes);
    let (arch, _) = target_of("x", Vec::new(), "xehpc");
    let given = options(&TARGET, &[]);
    let program = TARGET.read(&[bare], None, &*arch, &given, &mut Log::default()).unwrap();
    let problem = program.load(Engine::Exec).err().unwrap();
    assert!(["Q6072", "Q6123"].contains(&problem.code()), "{problem}");
}

/// Registers that neither the launch nor an instruction writes.
#[test]
fn reads_of_unwritten_registers_are_warned_of() {
    let mut device = device(&files(&text()));
    let verify = |device: &Device| {
        let arch = crate::common::arch(Platform::XeHpc);
        let settings = quincunx_dpas::Settings::default();
        let artifact = DeviceArtifact::new(device.clone(), None, arch, settings).unwrap();
        let found = artifact.verify().into_iter().map(|one| one.message().to_owned());
        found.filter(|message| message.contains("nothing writes")).collect::<Vec<_>>()
    };
    assert_eq!(verify(&device), Vec::<String>::new());
    let line = "(W) mov (16|M0) r200.0<1>:f r201.0<1;1,0>:f";
    let item = crate::common::listing(line, Platform::XeHpc).items.remove(0);
    device.kernels[0].listing.items.insert(0, item);
    assert_eq!(verify(&device), ["instruction 0 reads r201, which nothing writes"]);
}
