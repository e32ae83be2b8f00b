//! Arbitrary bytes as `.npy`, alone and in an archive, and as `.npz`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_tensor::npy;

fuzz_target!(|bytes: &[u8]| {
    // Behind the checksum of an archive.
    let archive = quincunx_testkit::zip(&[("x.npy".to_owned(), bytes.to_vec())]);
    assert_eq!(npy::read_npz(archive).is_ok(), npy::read_npy(bytes.to_vec()).is_ok());
    if let Ok(tensor) = npy::read_npy(bytes.to_vec()) {
        let again = npy::read_npy(npy::write_npy(&tensor)).expect("what was written is read");
        assert_eq!((again.dtype(), again.shape()), (tensor.dtype(), tensor.shape()));
        assert_eq!(again.bytes(), tensor.bytes());
    }
    if let Ok(tensors) = npy::read_npz(bytes.to_vec()) {
        let written = npy::write_npz(&tensors).expect("what was read is written");
        let again = npy::read_npz(written).expect("what was written is read");
        assert_eq!(again.len(), tensors.len());
    }
});
