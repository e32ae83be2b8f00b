//! Arbitrary bytes as `.npy` and `.npz`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx_tensor::npy;

fuzz_target!(|bytes: &[u8]| {
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
