//! Arbitrary bytes as rows of decimals and as pictures.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quincunx::formats::{Format, Kind};
use quincunx_tensor::{DType, Tensors};

fuzz_target!(|bytes: &[u8]| {
    let png = Format::Picture(Kind::Png);
    // Behind the checksums of a picture.
    let mended = quincunx_testkit::mended_png(bytes);
    let csv = (Format::Csv, bytes);
    for (format, bytes) in [csv, (png, bytes), (png, &mended), (Format::Picture(Kind::Pgm), bytes)]
    {
        let Ok(array) = format.read(bytes, DType::F64) else { continue };
        let values = array.to_f64();
        // Without numbers there is nothing to write.
        let Ok(written) = format.write(&Tensors::from([(String::new(), array)])) else { continue };
        let again = format.read(&written.bytes, DType::F64).expect("what was written is read");
        assert_eq!(again.to_f64(), values);
    }
});
