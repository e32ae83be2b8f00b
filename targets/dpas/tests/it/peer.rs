//! The vendor's assembler (`iga64` of Debian's libigc-tools) as a black box: random instructions both
//! ways, for the two platforms that it knows.

use crate::common::Random;
use crate::common::networks::{Net, compiled, digits};
use quincunx_contract::{Log, Program, compiler_of};
use quincunx_diag::SourceId;
use quincunx_dpas::arch::Platform;
use quincunx_dpas::binary;
use quincunx_dpas::isa::vector::{self, Op};
use quincunx_dpas::isa::{native, vector_layout};
use quincunx_dpas::program::{Listing, Statement};
use quincunx_dpas::text;
use quincunx_dpas::verify::{Allow, verify};
use quincunx_dpas::{DeviceArtifact, DpasArch, TARGET};
use quincunx_testkit::options;
use std::path::{Path, PathBuf};
use std::process::Command;

/// True if the tool is there; where it has to be, it is a failure if not.
fn has_tool() -> bool {
    let found = Command::new("iga64").arg("-h").output().is_ok();
    let required = std::env::var("QUINCUNX_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(found || !required, "iga64 is missing: apt-get install libigc-tools");
    found
}

/// An empty folder of a test.
fn folder(test: &str) -> PathBuf {
    let name = format!("quincunx-peer-{test}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn run(direction: &str, platform: Platform, from: &Path, to: &Path) -> Result<(), String> {
    let name = if platform == Platform::XeHpg { "12p71" } else { "12p72" };
    let output = Command::new("iga64")
        .args([direction, &format!("-p={name}"), "-q"])
        .arg(from)
        .arg("-o")
        .arg(to)
        .output()
        .unwrap();
    match output.status.success() && to.exists() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Instructions whose text the tool reads: legal ones, of formats that it encodes as documented.
fn instructions(random: &mut Random, platform: Platform, count: usize) -> Listing {
    let arch = crate::common::arch(platform);
    let mut listing = Listing::default();
    while listing.items.len() < count {
        let systolic = random.below(8) == 0;
        let statement = if systolic {
            let raw = crate::common::systolic(random, platform);
            Statement::Systolic(native::Inst::from_raw(&raw).unwrap())
        } else {
            let raw = vector::TABLE.random(&mut |n| random.below(n), vector_layout(platform));
            Statement::Vector(vector::Inst::from_raw(&raw).unwrap())
        };
        let one = Listing { items: vec![statement.into()] };
        let Ok(code) = binary::native::write(&one, platform) else { continue };
        let (one, _) = binary::native::read(&code, platform);
        let options = one.items[0].statement.options();
        let plain = options.0 >> 10 == 0;
        if let Statement::Vector(inst) = &one.items[0].statement {
            let terms = inst.terms();
            // Jumps need labels; the tool asks more of messages than we know.
            let known = !terms.op.jumps() && terms.op != Op::Send && terms.op != Op::Nop;
            if !known || !plain {
                continue;
            }
        } else if !plain {
            continue;
        }
        let program = quincunx_dpas::program::Program::Native(one.clone());
        let found = verify(&program, &arch, &Allow::default());
        if !found.is_empty() {
            continue;
        }
        listing.items.extend(one.items);
    }
    listing
}

#[test]
fn random_instructions_both_ways() {
    if !has_tool() {
        return;
    }
    let folder = folder("instructions");
    let (asm, bin, back) = (folder.join("a.asm"), folder.join("a.bin"), folder.join("b.asm"));
    let mut random = Random::new(71);
    let mut faults = Vec::new();
    let mut agreed = 0;
    for platform in [Platform::XeHpg, Platform::XeHpc] {
        let listing = instructions(&mut random, platform, 600);
        // What the tool refuses alone is left out: its rules on regions are its own.
        let mut accepted = Listing::default();
        let mut rest = vec![listing.items];
        while let Some(items) = rest.pop() {
            let part = Listing { items };
            std::fs::write(&asm, text::native::print(&part)).unwrap();
            let _ = std::fs::remove_file(&bin);
            match run("-a", platform, &asm, &bin) {
                Ok(()) => accepted.items.extend(part.items),
                Err(_) if part.items.len() == 1 => {}
                Err(_) => {
                    let mut items = part.items;
                    let tail = items.split_off(items.len() / 2);
                    rest.extend([tail, items]);
                }
            }
        }
        std::fs::write(&asm, text::native::print(&accepted)).unwrap();
        run("-a", platform, &asm, &bin).unwrap();
        let (theirs, ours) =
            (std::fs::read(&bin).unwrap(), binary::native::write(&accepted, platform).unwrap());
        run("-d", platform, &bin, &back).unwrap();
        let printed = std::fs::read_to_string(&back).unwrap();
        let again = text::native::read(&printed, platform, SourceId(0)).unwrap();
        let reread = binary::native::write(&again, platform).unwrap();
        for (at, item) in accepted.items.iter().enumerate() {
            let place = 16 * at..16 * at + 16;
            let own = &ours[place.clone()];
            if theirs.get(place.clone()) != Some(own) || reread.get(place) != Some(own) {
                let one = Listing { items: vec![item.clone()] };
                let hex = |bytes: &[u8]| text::to_hex(&bytes[16 * at..16 * at + 16]);
                let text = text::native::print(&one);
                faults.push(format!("{text} {} {} {}", hex(&ours), hex(&theirs), hex(&reread)));
            } else {
                agreed += 1;
            }
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    assert_eq!(faults, Vec::<String>::new());
    assert!(agreed > 300, "{agreed}");
}

/// Every kernel of the example network.
#[test]
fn compiled_kernels_both_ways() {
    let mut kernels = 0;
    for platform in [Platform::XeHpg, Platform::XeHpc] {
        let arch = crate::common::arch(platform);
        for graph in digits(&arch) {
            kernels += both_ways(&*compiled(&graph, &arch).program, platform, "digits");
        }
    }
    assert!(kernels >= 8 || !has_tool(), "{kernels}");
}

/// Those of attention, of floats and of codes, and of weights in fewer bits.
#[test]
fn kernels_of_attention_both_ways() {
    let mut kernels = 0;
    for platform in [Platform::XeHpg, Platform::XeHpc] {
        // Slow memory: weights lie there in few bits.
        let arch = DpasArch { memory_gbs: 0.5, ..crate::common::arch(platform) };
        for precision in ["bf16", "fp16", "int8"] {
            let mut net = Net::new(1);
            let x = crate::compiled_attention::input(&mut net, precision, &[1, 33, 64]);
            let y = crate::compiled_attention::products(&mut net, precision, x);
            net.graph.add_output(y);
            let compiler = compiler_of(&TARGET).unwrap();
            let options = options(&TARGET, &[("precision", precision)]);
            let compiled = compiler.compile(&net.graph, &arch, &options, &mut Log::default());
            let compiled = compiled.unwrap_or_else(|problem| panic!("{}", problem.first()));
            kernels += both_ways(&*compiled.program, platform, precision);
        }
    }
    assert!(kernels >= 20 || !has_tool(), "{kernels}");
}

/// The tool turns our bytes of all kernels into text that we turn back into them, and our text into our
/// bytes. How many kernels; 0 without the tool.
fn both_ways(program: &dyn Program, platform: Platform, name: &str) -> usize {
    if !has_tool() {
        return 0;
    }
    let folder = folder(&format!("kernels_{name}"));
    let (asm, bin) = (folder.join("a.asm"), folder.join("a.bin"));
    let artifact = program.as_any().downcast_ref::<DeviceArtifact>().unwrap();
    for kernel in &artifact.device().kernels {
        let at = format!("{} of {name} on {}", kernel.name, platform.name());
        let ours = binary::native::write(&kernel.listing, platform).unwrap();
        let text = text::native::print(&kernel.listing);
        std::fs::write(&asm, &text).unwrap();
        run("-a", platform, &asm, &bin).unwrap_or_else(|e| panic!("{at}: {e}\n{text}"));
        same_code(&std::fs::read(&bin).unwrap(), &ours, platform, &at);
        std::fs::write(&bin, &ours).unwrap();
        run("-d", platform, &bin, &asm).unwrap_or_else(|e| panic!("{at}: {e}"));
        let printed = std::fs::read_to_string(&asm).unwrap();
        let again = text::native::read(&printed, platform, SourceId(0))
            .unwrap_or_else(|found| panic!("{at}: {found:?}\n{printed}"));
        let reread = binary::native::write(&again, platform).unwrap();
        same_code(&reread, &ours, platform, &at);
    }
    let _ = std::fs::remove_dir_all(&folder);
    artifact.device().kernels.len()
}

/// The same instructions, one by one.
fn same_code(found: &[u8], expected: &[u8], platform: Platform, at: &str) {
    let pairs = found.chunks(16).zip(expected.chunks(16)).enumerate();
    for (index, (found, expected)) in pairs {
        let text = text::native::print(&binary::native::read(expected, platform).0);
        let [found, expected] = [found, expected].map(text::to_hex);
        assert_eq!(found, expected, "{at}, instruction {index}: {text}");
    }
    assert_eq!(found.len(), expected.len(), "{at}");
}
