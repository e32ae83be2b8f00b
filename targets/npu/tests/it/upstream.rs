//! Files of the original tool, which have no licence and are not part of this project: read in
//! place from `$QUINCUNX_SHARED`, or `../shared` beside the workspace, and skipped where that is
//! absent.

use crate::common::{arch, parse, problems};
use flate2::read::GzDecoder;
use quincunx_npu::replay::replay;
use quincunx_npu::text;
use quincunx_npu::verify::{Subject, clobbered, hazard_statistics, mislabelled};
use quincunx_npu::work::{Resolved, advance_images, resolve};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The folder, unless it is absent.
pub(crate) fn folder() -> Option<PathBuf> {
    let shared = std::env::var_os("QUINCUNX_SHARED").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = shared.unwrap_or(beside).join("golden/npu/upstream");
    if folder.is_dir() {
        return Some(folder);
    }
    let _ = writeln!(std::io::stderr(), "skipped: {} is not here", folder.display());
    None
}

fn read(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn traces_replay_exactly() {
    let Some(folder) = folder() else { return };
    for network in ["resnet34_b4", "resnet50_b1", "resnet50_b4"] {
        let bytes = read(&folder.join(format!("{network}.trace.txt.gz")));
        let program = parse(&bytes);
        assert_eq!(text::print(&program), bytes, "{network}");
        let times: Vec<(u64, u64)> = program.lines.iter().map(|line| line.time.unwrap()).collect();
        let work = [resolve(&program)];
        let replay = replay(&[&program], &work, &|node| times[node.line].1 - times[node.line].0);
        assert_eq!(replay.times[0], times, "{network}");
        assert_eq!((replay.leftovers.len(), replay.blocked.len()), (0, 0));
    }
}

/// The checkers find what is wrong with these files, and nothing else.
#[test]
fn weights_and_hazards() {
    let Some(folder) = folder() else { return };
    for (network, lines) in
        [("resnet34_b4", vec![]), ("resnet50_b1", vec![]), ("resnet50_b4", vec![230])]
    {
        let program = parse(&read(&folder.join(format!("{network}.asm.txt.gz"))));
        let work = [resolve(&program)];
        let arch = arch();
        let subject = Subject { programs: &[&program], work: &work, arch: &arch };
        let found: Vec<usize> = clobbered(&subject).iter().map(|(node, _)| node.line + 1).collect();
        assert_eq!(found, lines, "{network}");
        let hazards = hazard_statistics(&subject);
        assert_eq!(hazards.unordered, 0, "{network}");
        assert!(hazards.pairs > 500, "{network}: {hazards:?}");
        let own = problems(std::slice::from_ref(&program));
        assert!(own.iter().all(|problem| problem.code() != "Q4040"), "{network}: {own:?}");
    }
}

/// Workloads are boxes with the largest tile first. Images of a batch share addresses, which is one
/// warning and not two, and none where the machine advances them.
#[test]
fn workloads_are_boxes_and_images() {
    let Some(folder) = folder() else { return };
    for (network, batches) in [("resnet34_b4", 32), ("resnet50_b1", 0), ("resnet50_b4", 25)] {
        let program = parse(&read(&folder.join(format!("{network}.asm.txt.gz"))));
        let arch = arch();
        let list = |work: &[Vec<Resolved>]| {
            mislabelled(&Subject { programs: &[&program], work, arch: &arch })
        };
        let mut work = [resolve(&program)];
        let found = list(&work);
        assert_eq!(found.len(), batches, "{network}");
        assert!(found.iter().all(|(_, what)| what.contains("works on the image of")), "{found:?}");
        advance_images(&program, &mut work[0]);
        assert_eq!(list(&work), [], "{network}");
        let warned: Vec<&str> =
            problems(std::slice::from_ref(&program)).iter().map(|problem| problem.code()).collect();
        assert!(!warned.contains(&"Q4042"));
        assert_eq!(warned.contains(&"Q4039"), batches > 0, "{network}");
    }
}
