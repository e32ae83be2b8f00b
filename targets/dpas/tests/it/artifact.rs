//! Programs behind the `Program` trait: options, ports, runs, timing.

use quincunx_contract::{ArchSource, Engine, File, Log, Options, Program, Sample, Target};
use quincunx_dpas::TARGET;
use quincunx_dpas::precision::Precision;
use quincunx_dpas::simulate::real;
use quincunx_tensor::{Tensor, Tensors};

fn try_read(
    name: &str,
    bytes: &[u8],
    preset: &str,
    settings: &[(&str, &str)],
) -> Result<(Box<dyn Program>, Log), Vec<quincunx_diag::Diagnostic>> {
    let arch = TARGET.arch(&ArchSource::Preset(preset.to_owned())).unwrap();
    let given: Vec<(String, String)> =
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let options = Options::new(TARGET.info().options, &given).unwrap();
    let mut log = Log::default();
    let file = File::new(name, bytes.to_vec());
    assert!(TARGET.recognises(&file));
    let program = TARGET.read(&[file], None, &*arch, &options, &mut log)?;
    Ok((program, log))
}

fn read(text: &str, preset: &str, settings: &[(&str, &str)]) -> Box<dyn Program> {
    try_read("x", text.as_bytes(), preset, settings).unwrap_or_else(|found| panic!("{found:?}")).0
}

fn run(program: &dyn Program, inputs: &[(&str, Vec<f64>)]) -> Tensors {
    let mut tensors = Tensors::new();
    for (name, numbers) in inputs {
        let port = program.interface().inputs.iter().find(|port| port.name == *name).unwrap();
        let tensor = Tensor::from_vec(&port.shape, numbers.clone()).unwrap();
        tensors.insert((*name).to_owned(), tensor);
    }
    let found = program.load(Engine::Exec).unwrap().run(&tensors).unwrap();
    assert_eq!(program.load(Engine::Fast).unwrap().run(&tensors).unwrap(), found);
    found
}

const ONES: f64 = 0x0101_0101 as f64;

fn kernel(kinds: &str, n: u32, instruction: &str) -> String {
    let decl = |index| format!(".decl V{index} v_type=G type={kinds} num_elts={n} align=GRF\n");
    format!("{}{}{}{instruction}\nret (M1, 1)\n", decl(32), decl(33), decl(34))
}

#[test]
fn lanes_that_are_off_keep_dst() {
    let text = kernel("d", 64, "dpas.s8.s8.8.8 (M2, 8) V32.0 %null.0 V33.0 V34(0,0)");
    let program = read(&text, "xehpg", &[("dispatch-mask", "0x0f0")]);
    // What lanes that are off keep is an input.
    let old = (0..64).map(f64::from).collect();
    let inputs = [("V32", old), ("V33", vec![ONES; 64]), ("V34", vec![ONES; 64])];
    let result = run(&*program, &inputs);
    // M2 begins at bit 4 of the mask: lanes 0 to 3 are on.
    let rows = result["V32"].to_f64();
    assert_eq!(rows[..8], [32.0, 32.0, 32.0, 32.0, 4.0, 5.0, 6.0, 7.0]);
    assert_eq!(rows[56..], [32.0, 32.0, 32.0, 32.0, 60.0, 61.0, 62.0, 63.0]);
    let all = text.replace("M2,", "M2_NM,");
    let program = read(&all, "xehpg", &[("dispatch-mask", "0")]);
    let result = run(&*program, &[("V33", vec![ONES; 64]), ("V34", vec![ONES; 64])]);
    assert_eq!(result["V32"].to_f64(), vec![32.0; 64]);
}

/// Copies go element by element, all sources first; a planted fault in any part shows here.
#[test]
fn copies_move_elements() {
    let words: Vec<u32> = (0..256 * 8).map(|at| at * 0x0002_0003 + 0x0001_0000).collect();
    let copied = |line: &str, mask: &str| -> Vec<u32> {
        let program = read(line, "xehpg", &[("dispatch-mask", mask)]);
        let numbers = words.iter().map(|&word| f64::from(word)).collect();
        let result = run(&*program, &[("grf", numbers)])["grf"].to_f64();
        result.iter().map(|&word| word as u32).collect()
    };
    // r2.1, 8 dwords over two registers, from r3.2; lanes 1 and 3 are off.
    let mut expected = words.clone();
    for lane in [0, 2, 4, 5, 6, 7] {
        expected[17 + lane] = words[26 + lane];
    }
    assert_eq!(copied("mov (8|M0) r2.1<1>:d r3.2<1;1,0>:d", "0xf5"), expected);
    assert_eq!(copied("mov (8|M8) r2.1<1>:d r3.2<1;1,0>:d", "0xf5ff"), expected);
    // All lanes, whatever the mask; the operands overlap.
    expected = words.clone();
    expected[17..25].copy_from_slice(&words[18..26]);
    assert_eq!(copied("(W) mov (8|M0) r2.1<1>:f r2.2<1;1,0>:f", "0"), expected);
    // Halves: element 3 is the upper half of dword 1.
    expected = words.clone();
    expected[17] = words[17] & 0xffff | words[24] << 16;
    assert_eq!(copied("mov (1|M0) r2.3<1>:hf r3.0<1;1,0>:hf", "1"), expected);
    // Doubles.
    expected = words.clone();
    expected[20..24].copy_from_slice(&words[24..28]);
    assert_eq!(copied("mov (2|M0) r2.2<1>:df r3.0<1;1,0>:df", "3"), expected);
    assert_eq!(copied("sync.allwr null", "1"), words);
}

/// Numbers of 64 bits cross ports as pairs of dwords, so that none is rounded.
#[test]
fn long_variables_cross_as_dwords() {
    let text = kernel("d", 64, "dpas.s8.s8.8.8 (M1, 8) V32.0 %null.0 V33.0 V35(0,0)").replace(
        ".decl V34 v_type=G type=d num_elts=64 align=GRF",
        ".decl V34 v_type=G type=uq num_elts=32 align=GRF\n\
         .decl V35 v_type=G type=d num_elts=64 align=GRF alias=<V34, 0>",
    );
    let program = read(&text, "xehpg", &[]);
    // The highest bit of a row of A and the lowest: 127 and 1 at the ends of a quadword.
    let mut a = vec![0.0; 64];
    (a[0], a[1]) = (1.0, f64::from(0x7f00_0000u32));
    let result = run(&*program, &[("V33", vec![ONES; 64]), ("V34", a)]);
    assert_eq!(
        result["V32"].to_f64()[..9],
        [128.0; 8].iter().copied().chain([0.0]).collect::<Vec<_>>()[..]
    );
}

/// Made-up words are codes of the port, and finite numbers wherever a float factor may lie.
#[test]
fn made_up_words_fit_the_program() {
    let sample = |line: &str, preset: &str| match read(line, preset, &[]).sample(0) {
        Sample::Words { keep, set } => (keep, set),
        Sample::Fractions => panic!("{line}"),
    };
    let product = |kind: &str| format!("dpas.8x8 (16|M0) r16:f null:f r32:{kind} r48.0:{kind}\n");
    assert_eq!(sample("dpas.8x8 (16|M0) r16:d null:d r32:b r48.0:b", "xehpc"), (0xffff_ffff, 0));
    let bits = [0u64, u64::MAX, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];
    for kinds in [vec!["bf"], vec!["hf"], vec!["bf", "hf", "tf32"], vec!["bf8", "hf8", "bf"]] {
        let text: String = kinds.iter().map(|kind| product(kind)).collect();
        let (keep, set) = sample(&text, "xe3");
        for word in bits.map(|bits| (bits & keep | set) as u32) {
            let sizes = |value: f32| (1e-10..8.0).contains(&value.abs());
            for kind in &kinds {
                let precision = Precision::from_name(kind).unwrap();
                let low = u64::from(word) & ((1 << precision.bits()) - 1);
                assert!(sizes(real(precision, low)), "{kinds:?} {word:#x} as {kind}");
            }
        }
    }
}

#[test]
fn double_precision_needs_its_option() {
    let text = kernel("df", 64, "dpas.df.df.8.8 (M1, 8) V32.0 %null.0 V33.0 V34(0,0)");
    let Err(found) = try_read("x", text.as_bytes(), "xehpc", &[]) else { panic!("it is read") };
    assert!(found.iter().all(|problem| problem.code() == "Q6048"));
    assert!(found[0].help_text().unwrap().contains("--df"));
    let program = read(&text, "xehpc", &[("df", "true")]);
    let numbers: Vec<f64> = (0..64).map(f64::from).collect();
    let result = run(&*program, &[("V33", numbers.clone()), ("V34", numbers.clone())]);
    // A plain product of 8 x 8 matrices, both stored row by row.
    let expected: Vec<f64> = (0..64)
        .map(|at| (0..8).map(|k| numbers[at / 8 * 8 + k] * numbers[k * 8 + at % 8]).sum())
        .collect();
    assert_eq!(result["V32"].to_f64(), expected);
    // In machine code such an instruction is kept as it is, with a warning.
    let native =
        read("dpas.8x8 (8|M0) r16:df null:df r32:df r64.0:df {$0}", "xehpc", &[("df", "true")]);
    let code = native.emit("bin", "x").unwrap().remove(0);
    let (raw, log) = try_read("x.xebin", &code.bytes, "xehpc", &[]).unwrap();
    assert_eq!(log.diagnostics[0].code(), "Q6048");
    assert_eq!(raw.emit("bin", "x").unwrap()[0].bytes, code.bytes);
}

#[test]
fn fused_threads_have_two_register_files() {
    let program = read("dpasw.8x8 (8|M0) r8:d null:d r16:b r32.0:b {$0}", "xehpg", &[]);
    assert_eq!(program.interface().inputs[0].shape, [2, 256, 8]);
    let mut grf = vec![0.0; 2 * 256 * 8];
    // B is all ones in both; rows 0 to 3 of A come from thread 0, 4 to 7 from thread 1.
    for thread in 0..2 {
        let base = thread * 256 * 8;
        grf[base + 16 * 8..base + 24 * 8].fill(ONES);
        grf[base + 32 * 8..base + 36 * 8].fill(ONES * (thread + 1) as f64);
    }
    let result = run(&*program, &[("grf", grf)])["grf"].to_f64();
    for thread in 0..2 {
        let at = |row: usize| result[(thread * 256 + 8 + row) * 8];
        let rows: Vec<f64> = (0..8).map(at).collect();
        assert_eq!(rows, [32.0, 32.0, 32.0, 32.0, 64.0, 64.0, 64.0, 64.0]);
    }
}

#[test]
fn float_models_are_named() {
    let text = kernel("f", 64, "dpas.bf.bf.8.8 (M1, 8) V32.0 V32.0 V33.0 V34(0,0)")
        .replace("V33 v_type=G type=f", "V33 v_type=G type=d")
        .replace("V34 v_type=G type=f", "V34 v_type=G type=d");
    let program = read(&text, "xehpg", &[("float-model", "stage"), ("ftz", "true")]);
    let mut machine = program.load(Engine::Exec).unwrap();
    let notes = machine.notes();
    assert!(notes[0].message().contains("stage") && notes[0].message().contains("flushed"));
    assert!(machine.notes().is_empty());
}

#[test]
fn timing_follows_the_tables() {
    let line =
        |dst: u32, src0: &str| format!("dpas.8x8 (16|M0) r{dst}:d {src0}:d r64:b r80.0:b {{$0}}\n");
    let time =
        |text: &str, preset: &str| read(text, preset, &[("swsb", "auto")]).time().unwrap().total();
    assert_eq!(time(&line(8, "null"), "xehpc"), 28);
    assert_eq!(time(&line(8, "null"), "xe2"), 33);
    // Another accumulator waits for the array, the same one for the result.
    assert_eq!(time(&(line(8, "null") + &line(16, "null")), "xehpc"), 8 + 28);
    assert_eq!(time(&(line(8, "null") + &line(8, "r8")), "xehpc"), 28 + 28);
    assert_eq!(time(&(line(8, "null") + &line(16, "null")), "xe2"), 16 + 33);
}

/// Waits count, needed or not: for results, for sources, for a distance, for all tokens, for a
/// macro; `--swsb ignore` leaves them out.
#[test]
fn timing_follows_dependencies() {
    let first = "dpas.8x8 (16|M0) r8:d null:d r64:b r80.0:b {$3}\n";
    let mov = "mov (16|M0) r100.0<1>:f r101.0<1;1,0>:f";
    let time =
        |text: String, swsb: &str| read(&text, "xehpc", &[("swsb", swsb)]).time().unwrap().total();
    // The copy takes 10 cycles from its start on; the product ends at 28.
    assert_eq!(time(format!("{first}{mov}"), "check"), 28);
    assert_eq!(time(format!("{first}{mov} {{$3.dst}}"), "check"), 28 + 10);
    assert_eq!(time(format!("{first}{mov} {{$3.dst}}"), "ignore"), 28);
    assert_eq!(time(format!("{first}{mov} {{$4.dst}}"), "check"), 28);
    let two = format!("mov (16|M0) r90.0<1>:f r91.0<1;1,0>:f {{$3.src}}\n{mov} {{F@1}}");
    assert_eq!(time(format!("{first}{two}"), "check"), 8 + 10 + 10);
    assert_eq!(time(format!("{first}{two}\n{mov} {{F@2}}"), "check"), 8 + 10 + 10 + 1 + 10 - 1);
    assert_eq!(time(format!("{first}sync.allwr null\n{mov}"), "check"), 28 + 10);
    assert_eq!(time(format!("{first}sync.allrd null\n{mov}"), "check"), 28);
    assert_eq!(time(format!("{first}sync.nop null {{$3.dst}}\n{mov}"), "check"), 28 + 10);
    // The token of a macro stands for its members: the longest of them ends at 28.
    let group = "dpas.8x8 (16|M0) r8:d null:d r64:b r80.0:b {Atomic}\n\
                 dpas.8x1 (16|M0) r16:d null:d r64:b r80.0:b {$3}\n";
    assert_eq!(time(format!("{group}{mov} {{$3.dst}}"), "check"), 8 + 21 + 10);
}

#[test]
fn bad_input_is_refused() {
    let code = |settings: &[(&str, &str)]| match try_read("x", b".raw 00", "xehpc", settings) {
        Err(found) => found[0].code(),
        Ok((program, _)) => program.load(Engine::Exec).err().unwrap().code(),
    };
    assert_eq!(code(&[("dispatch-mask", "all")]), "Q6003");
    // No product is there.
    assert_eq!(code(&[("layout", "0")]), "Q6003");
    assert_eq!(code(&[("layout", "1")]), "Q6003");
    assert_eq!(code(&[("swsb", "auto")]), "Q6089");
    assert_eq!(code(&[]), "Q6072");
    let program = read(".raw 00", "xehpc", &[]);
    assert_eq!(program.time().unwrap_err().code(), "Q6072");
    assert_eq!(program.emit("stream", "x").unwrap_err().code(), "Q6093");
    let text = kernel("d", 64, "dpas.s8.s8.8.8 (M1, 8) V32.0 %null.0 V33.0 V34(0,0)");
    let program = read(&text, "xehpg", &[]);
    let mut machine = program.load(Engine::Exec).unwrap();
    assert_eq!(machine.run(&Tensors::new()).unwrap_err().code(), "Q0310");
}
