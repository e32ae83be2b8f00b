//! Files of kernels: those of the vendor's compiler, ours, and damaged ones.

use crate::common::{folder, target_of};
use quincunx_diag::Diagnostic;
use quincunx_dpas::arch::Platform;
use quincunx_dpas::files::zebin;
use quincunx_dpas::program::device::{
    Access, Argument, ArgumentKind, Environment, Implicit, Kernel,
};
use quincunx_testkit::{Random, damaged, exercise, python, within_seconds};
use std::process::Command;

fn foreign(platform: Platform) -> Vec<u8> {
    std::fs::read(folder().join(format!("files/ocl_{}.zebin", platform.name()))).unwrap()
}

fn kernels(bytes: &[u8], platform: Platform) -> Vec<Kernel> {
    let (kernels, warnings) = zebin::read(bytes, platform).unwrap_or_else(|e| panic!("{e:?}"));
    assert!(warnings.iter().all(|warning| warning.code() == "Q6035"), "{warnings:?}");
    kernels
}

fn argument(kind: ArgumentKind, offset: u32, size: u32) -> Argument {
    Argument { kind, offset, size }
}

/// The description of a compiled kernel, read by eye from the file.
#[test]
fn files_of_the_vendors_compiler() {
    let first = |platform| kernels(&foreign(platform), platform).remove(0);
    let kernel = first(Platform::XeHpc);
    assert_eq!(kernel.name, "scale_add");
    let environment =
        Environment { grfs: 128, simd: 32, slm: 0, barriers: 0, inline: 0, local_ids: 192 };
    assert_eq!(kernel.environment, environment);
    let pointer = |index, access| ArgumentKind::Pointer { index, access };
    let value = |index| ArgumentKind::Value { index, from: 0 };
    let surface = |index| ArgumentKind::Surface { index, entry: index };
    let expected = [
        argument(ArgumentKind::Implicit(Implicit::GlobalOffset), 0, 12),
        argument(ArgumentKind::Implicit(Implicit::LocalSize), 12, 12),
        argument(surface(0), 0, 0),
        argument(pointer(0, Access::Read), 32, 8),
        argument(surface(1), 0, 0),
        argument(pointer(1, Access::Both), 40, 8),
        argument(value(2), 48, 4),
        argument(value(3), 52, 4),
        argument(ArgumentKind::Implicit(Implicit::LocalSize), 64, 12),
        argument(ArgumentKind::Implicit(Implicit::EnqueuedLocalSize), 76, 12),
    ];
    assert_eq!(kernel.arguments, expected);
    assert_eq!((kernel.cross_bytes(), kernel.parameters()), (88, 4));
    for platform in [Platform::XeHpg, Platform::XeHpc] {
        let both = kernels(&foreign(platform), platform);
        let names: Vec<&str> = both.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names, ["scale_add", "fill"]);
        // The zeros behind the code, which the symbol leaves out, are not instructions.
        assert!(both.iter().all(|kernel| (10..60).contains(&kernel.listing.items.len())));
    }
    let (_, warnings) = zebin::read(&foreign(Platform::XeHpg), Platform::Xe2).unwrap();
    assert!(warnings.iter().any(|w| w.code() == "Q6106" && w.message().contains("xehpg")));
}

#[test]
fn what_is_written_is_read() {
    for platform in [Platform::XeHpg, Platform::XeHpc] {
        let read = kernels(&foreign(platform), platform);
        let written = zebin::write(&read, platform).unwrap();
        assert_eq!(kernels(&written, platform), read);
        assert_eq!(zebin::write(&kernels(&written, platform), platform).unwrap(), written);
        assert_eq!(written, zebin::write(&read, platform).unwrap());
    }
}

/// Two libraries of others read our files: ELF by pyelftools, the description by PyYAML.
#[test]
fn peers_read_what_is_written() {
    let Some(python) = python("elftools, yaml") else { return };
    let kernels = kernels(&foreign(Platform::XeHpc), Platform::XeHpc);
    let path = std::env::temp_dir().join(format!("quincunx-{}.zebin", std::process::id()));
    std::fs::write(&path, zebin::write(&kernels, Platform::XeHpc).unwrap()).unwrap();
    let script = r#"
import sys, yaml
from elftools.elf.elffile import ELFFile
elf = ELFFile(open(sys.argv[1], "rb"))
assert (elf.elfclass, elf.little_endian, elf["e_machine"]) == (64, True, "EM_INTEL205"), elf.header
info = yaml.safe_load(elf.get_section_by_name(".ze_info").data())
for kernel in info["kernels"]:
    name = kernel["name"]
    code = elf.get_section_by_name(".text." + name)
    symbol = elf.get_section_by_name(".symtab").get_symbol_by_name(name)[0]
    assert elf.get_section(symbol["st_shndx"]).name == code.name
    assert symbol["st_size"] == code.data_size and symbol["st_info"]["type"] == "STT_FUNC"
    environment = kernel["execution_env"]
    print(name, code.data_size, environment["grf_count"], environment["simd_size"])
    for argument in kernel["payload_arguments"]:
        print(argument["arg_type"], argument["offset"], argument["size"])
notes = list(elf.get_section_by_name(".note.intelgt.compat").iter_notes())
assert {note["n_name"] for note in notes} == {"IntelGT"}, notes
"#;
    let output = Command::new(python).args(["-c", script]).arg(&path).output().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut expected = String::new();
    for kernel in &kernels {
        let size = quincunx_dpas::binary::native::write(&kernel.listing, Platform::XeHpc).unwrap();
        let environment = kernel.environment;
        let (grfs, simd) = (environment.grfs, environment.simd);
        expected += &format!("{} {} {grfs} {simd}\n", kernel.name, size.len());
        for Argument { kind, offset, size } in &kernel.arguments {
            let word = match kind {
                ArgumentKind::Pointer { .. } | ArgumentKind::Surface { .. } => "arg_bypointer",
                ArgumentKind::Offset { .. } => "buffer_offset",
                ArgumentKind::Value { .. } => "arg_byvalue",
                ArgumentKind::Implicit(what) => what.name(),
                ArgumentKind::Other(word) => word,
            };
            expected += &format!("{word} {offset} {size}\n");
        }
    }
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

/// Our file with another description, which is not longer.
fn described(text: &str) -> Vec<u8> {
    let kernels = kernels(&foreign(Platform::XeHpc), Platform::XeHpc);
    let mut bytes = zebin::write(&kernels, Platform::XeHpc).unwrap();
    let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|w| w == what);
    let start = find(&bytes, b"---\nversion").unwrap();
    let end = start + find(&bytes[start..], b"...\n").unwrap() + 4;
    assert!(text.len() <= end - start);
    bytes[start..end].fill(b'\n');
    bytes[start..start + text.len()].copy_from_slice(text.as_bytes());
    bytes
}

fn problems(text: &str) -> Vec<Diagnostic> {
    zebin::read(&described(text), Platform::XeHpc).err().unwrap_or_default()
}

const HEAD: &str = "kernels:\n- name: fill\n  execution_env: {}\n";

#[test]
fn descriptions_in_other_spellings() {
    let text = "%YAML 1.2\n---\n# a comment\nversion: \"1.20\" # another\nunknown:\n  - [ 1, 2 ]\n  \
                - deep:\n      deeper: 'it''s # no comment'\nkernels:\n- 'name': 'fill'\n  \
                execution_env:\n    grf_count:    0x100\n    simd_size: 16\n    required: [8, 1]\n  \
                payload_arguments:\n  - arg_type: arg_byvalue\n    arg_index: 1\n    offset: 4\n    \
                size: 4\n    source_offset: 4\n  -\n    arg_type: group_count\n    offset: 8\n    \
                size: 12\n  source: |\n    any: text\n      - here\n...\nmore: x\n";
    let read = kernels(&described(text), Platform::XeHpc);
    assert_eq!(read.len(), 1);
    let environment = read[0].environment;
    assert_eq!((environment.grfs, environment.simd), (256, 16));
    let expected = [
        argument(ArgumentKind::Value { index: 1, from: 4 }, 4, 4),
        argument(ArgumentKind::Implicit(Implicit::GroupCount), 8, 12),
    ];
    assert_eq!(read[0].arguments, expected);
    assert!(kernels(&described("kernels:\n"), Platform::XeHpc).is_empty());
}

#[test]
fn wrong_descriptions_are_named_with_their_line() {
    let env = "kernels:\n- name: fill\n  execution_env:\n    grf_count: 128\n    simd_size: 16\n";
    let part = "  payload_arguments:\n  - arg_type: arg_byvalue\n    offset: 0\n";
    for (text, code, line) in [
        (HEAD.to_owned(), "Q6104", "line 3"),
        ("a: 1\n".to_owned(), "Q6104", "line 1"),
        ("kernels: 3\n".to_owned(), "Q6104", "line 1"),
        (format!("{env}{part}"), "Q6104", "line 7"),
        (format!("{env}{part}    size: -1\n"), "Q6104", "line 9"),
        (env.replace("128", "4294967296"), "Q6104", "line 4"),
        ("a: 1\na: 2\n".to_owned(), "Q6103", "line 2"),
        ("a: 1\n   b: 2\n".to_owned(), "Q6103", "line 2"),
        ("a: 1\nb\n".to_owned(), "Q6103", "line 2"),
        ("a:\n\t- 2\n".to_owned(), "Q6103", "line 2"),
        ("a: 'no end\n".to_owned(), "Q6103", "line 1"),
        (format!("a: {}", "- ".repeat(40)), "", ""),
        (format!("a:\n {}1\n", "- ".repeat(40)), "Q6103", "line 2"),
        (format!("{env}{}", &env[9..]), "Q6105", ""),
        (env.replace("fill", "full"), "Q6102", ""),
    ] {
        let found = problems(&text);
        let first = found.iter().find(|problem| problem.is_error());
        let Some(first) = first.filter(|_| !code.is_empty()) else { continue };
        assert_eq!(first.code(), code, "{text}: {found:?}");
        assert!(first.message().contains(line), "{text}: {found:?}");
        assert!(first.place().is_some(), "{text}");
    }
    // What is not known is a warning.
    let text = format!("{env}{part}    size: 4\n").replace("arg_byvalue", "moon_phase");
    let (_, warnings) = zebin::read(&described(&text), Platform::XeHpc).unwrap();
    let of_description = warnings.iter().filter(|warning| warning.code() == "Q6106");
    assert_eq!(of_description.count(), 1);
}

#[test]
fn damaged_tables_are_named_with_their_byte() {
    let good = zebin::write(&kernels(&foreign(Platform::XeHpc), Platform::XeHpc), Platform::XeHpc);
    let good = good.unwrap();
    let with = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        zebin::read(&file, Platform::XeHpc).err().unwrap_or_default()
    };
    let table = u64::from_le_bytes(good[40..48].try_into().unwrap()) as usize;
    let header = |index: usize, field: usize| table + 64 * index + field;
    for (at, bytes, code) in [
        (4, &[1][..], "Q6100"),
        (18, &[62, 0], "Q6100"),
        (40, &[0xff; 8], "Q6100"),
        (58, &[40, 0], "Q6100"),
        (60, &[0xff, 0xff], "Q6100"),
        (62, &[0xff, 0xff], "Q6100"),
        // The first section is the code of a kernel: where it is, its size, name and type.
        (header(1, 24), &[0xff; 8], "Q6100"),
        (header(1, 32), &[0xff; 8], "Q6100"),
        (header(1, 0), &[0xff; 4], "Q6100"),
        (header(1, 4), &[8, 0, 0, 0], "Q6105"),
        (header(1, 32), &[1, 0, 0, 0, 0, 0, 0, 0], "Q6105"),
        (header(1, 0), &[0, 0, 0, 0], "Q6102"),
        // The description.
        (header(3, 4), &[1, 0, 0, 0], "Q6105"),
        (header(3, 0), &[0, 0, 0, 0], "Q6102"),
        // The symbols have no names.
        (header(5, 40), &[0, 0, 0, 0], "Q6100"),
    ] {
        let found = with(at, bytes);
        let first = found.iter().find(|problem| problem.is_error());
        assert_eq!(first.map(Diagnostic::code), Some(code), "byte {at}: {found:?}");
    }
    for length in 0..good.len() {
        assert!(zebin::read(&good[..length], Platform::XeHpc).is_err());
    }
}

#[test]
fn damaged_files_are_read_or_refused() {
    within_seconds(120, || {
        for case in 0..400 {
            let mut random = Random::new(case);
            let platform = random.pick(&[Platform::XeHpg, Platform::XeHpc]);
            let mut bytes = foreign(platform);
            if random.coin() {
                bytes = zebin::write(&kernels(&bytes, platform), platform).unwrap();
            }
            let bytes = damaged(&bytes, b"\0\xff\x7f: -'\n\x11", &mut random);
            let (arch, file) = target_of("x.zebin", bytes, platform.name());
            exercise(&quincunx_dpas::TARGET, &*arch, &[], &[file], &|_| true);
        }
    });
}
