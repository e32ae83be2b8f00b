//! Arbitrary bytes as byte code of alkaid, as compressed JSON, and as the JSON in it; what is read
//! crosses to every dialect.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_dais::binary::{self, Dialect, ReadOptions, convert};
use quincunx_dais::files;
use quincunx_dais::program::Program;
use quincunx_diag::any_error;
use quincunx_fuzz::exercise_pipeline;

fn exercise(program: Program) {
    for dialect in Dialect::ALL {
        if let Ok(converted) = convert(&program, dialect) {
            let _ = binary::write(&converted.program, dialect);
        }
    }
    let _ = files::write_alir_json(&program);
    exercise_pipeline(&program.into());
}

fuzz_target!(|bytes: &[u8]| {
    let options = ReadOptions { dialect: Some(Dialect::A4), lenient: false };
    match binary::read(bytes, &options) {
        Ok(read) => exercise(read.program),
        Err(problems) => assert!(any_error(&problems)),
    }
    let texts = [files::decompress(bytes).ok(), std::str::from_utf8(bytes).ok().map(str::to_owned)];
    for text in texts.into_iter().flatten() {
        match files::read_json(&text, false) {
            Ok(read) => read.pipeline.stages.into_iter().for_each(exercise),
            Err(problems) => assert!(any_error(&problems)),
        }
    }
});
