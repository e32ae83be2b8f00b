//! Arbitrary texts, divided by zero bytes, as scheduler IR, frontend IR and perhaps quantisation
//! scales, from which a program is derived in both manners.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_contract::{ArchSource, File, Log, Options, Target as _};
use quincunx_diag::any_error;
use quincunx_npu::{Artifact, TARGET};

fuzz_target!(|bytes: &[u8]| {
    let files: Vec<File> = bytes
        .split(|&byte| byte == 0)
        .take(4)
        .enumerate()
        .map(|(index, text)| File::new(format!("{index}.json"), text.to_vec()))
        .collect();
    let Ok(arch) = TARGET.arch(&ArchSource::Default) else { return };
    for manner in ["ours", "compat"] {
        let given = ("derive".to_owned(), manner.to_owned());
        let Ok(options) = Options::new(TARGET.info().options, &[given]) else { return };
        match TARGET.read(&files, None, &*arch, &options, &mut Log::default()) {
            Ok(program) => {
                let Some(artifact) = program.as_any().downcast_ref::<Artifact>() else { return };
                artifact.programs().iter().for_each(quincunx_fuzz::exercise_npu);
                let _ = (program.verify(), program.stats());
            }
            Err(problems) => assert!(any_error(&problems)),
        }
    }
});
