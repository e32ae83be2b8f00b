//! Arbitrary text as a scamp program in any dialect, and as a machine description.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_contract::{ArchSource, File};
use quincunx_diag::{SourceId, any_error};
use quincunx_fuzz::exercise_target;
use quincunx_scamp::ScampArch;
use quincunx_scamp::fix::fix;
use quincunx_scamp::program::Program;
use quincunx_scamp::simulate::{Executor, Settings};
use quincunx_scamp::symbolic::{Level, computed};
use quincunx_scamp::text::{self, Dialect, print};
use quincunx_scamp::verify::verify;

/// Rules, rewriting, writing and reading again, following, running.
fn exercise(program: &Program, arch: &ScampArch) {
    let problems = verify(program, arch);
    let _ = verify(&fix(program, arch).0, arch);
    for dialect in [Dialect::Cain, Dialect::Cpp("f".to_owned())] {
        let printed = print(program, &dialect).expect("these dialects have every instruction");
        let read = text::parse(&printed, SourceId(0)).expect("printed programs can be read");
        assert_eq!(&read, program, "{printed}");
    }
    let listing = print(program, &Dialect::Bus).expect("a listing has every instruction");
    assert_eq!(
        text::parse(&listing, SourceId(0)).expect("listings can be read"),
        program.expanded()
    );
    let _ = print(program, &Dialect::Csim);
    if let Ok(list) = computed(program, Level::Bus, arch) {
        list.iter().for_each(|computed| drop(computed.describe()));
    }
    if !any_error(&problems) && program.instructions.len() < 2000 {
        let executor = Executor::new(program, arch, 3, 3, Settings::default());
        let _ = executor.expect("legal programs are prepared").run(&[]);
    }
}

fuzz_target!(|source: &str| {
    let _ = text::recognises(source);
    let arch = ScampArch::preset("scamp5").expect("a preset");
    match text::parse(source, SourceId(0)) {
        Ok(program) => exercise(&program, &arch),
        Err(problems) => assert!(any_error(&problems)),
    }
    let file = File::new("x", source.as_bytes().to_vec());
    exercise_target(&quincunx_scamp::TARGET, &file, &[("size", "3x3"), ("max-work", "10")]);
    let _ = ScampArch::from_source(&ArchSource::Text { name: "x".into(), text: source.into() });
});
