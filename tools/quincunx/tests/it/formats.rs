//! Rows of decimals and pictures: odd files, and arbitrary bytes.

use proptest::prelude::*;
use quincunx::formats::{Format, Kind};
use quincunx::tensor::{DType, Tensor, Tensors};
use quincunx::{Dataset, InputFile, InputSpec};

const PNG: Format = Format::Picture(Kind::Png);
const PGM: Format = Format::Picture(Kind::Pgm);

/// A valid PNG of two pixels with one bit each.
const ONE_BIT: &[u8] =
    b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x02\x00\x00\
    \x00\x01\x01\x00\x00\x00\x00\xdc\x59\x42\x27\x00\x00\x00\x0a\x49\x44\x41\x54\x78\x9c\x63\
    \x70\x00\x00\x00\x42\x00\x41\x29\x37\xf4\xef\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\
    \x82";

/// A PNG that says it has 60000 by 60000 pixels.
const HUGE: &[u8] =
    b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\xea\x60\x00\x00\
    \xea\x60\x08\x00\x00\x00\x00\xa5\xb9\x2a\x9e\x00\x00\x00\x0b\x49\x44\x41\x54\x78\x9c\x63\
    \x60\x40\x05\x00\x00\x10\x00\x01\x39\xbd\x8f\x65\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\
    \x60\x82";

fn csv(text: &str, dtype: DType) -> Result<(Vec<usize>, Vec<f64>), String> {
    let array = Format::Csv.read(text.as_bytes(), dtype);
    array.map(|a| (a.shape().to_vec(), a.to_f64())).map_err(|problem| problem.to_string())
}

/// What is wrong with a picture.
fn refused(format: Format, bytes: &[u8]) -> String {
    let problem = format.read(bytes, DType::F64).unwrap_err();
    assert_eq!(problem.code(), "Q0644");
    problem.to_string()
}

/// An array in this format.
fn written(format: Format, shape: &[usize], values: Vec<f64>) -> Vec<u8> {
    let array = Tensor::from_vec(shape, values).unwrap();
    format.write(&Tensors::from([("y".to_owned(), array)])).unwrap().bytes
}

#[test]
fn decimals_as_other_programs_write_them() {
    for text in [
        "1,2\n3,4.5\n",
        "\u{feff}1,2\n3,4.5",
        "1,2\r\n3,4.5\r\n",
        "\"1\",\"2\"\n\"3\",\"4.5\"\n",
        " 1 ,\t2\n+3,45e-1\n",
        "\n1,2\n\n3,4.5\n\n",
    ] {
        assert_eq!(
            csv(text, DType::F64).unwrap(),
            (vec![2, 2], vec![1.0, 2.0, 3.0, 4.5]),
            "{text}"
        );
    }
    assert_eq!(csv("", DType::F64).unwrap(), (vec![0, 0], vec![]));
    assert!(csv("x,y\n1,2\n", DType::F32).unwrap_err().contains("line 1, column 1"));
    assert!(csv("1\n\n1e39\n", DType::F32).unwrap_err().contains("line 3, column 1"));
    assert!(csv("1,2\r\n\r\n3,4\r\nx,1\r\n", DType::F32).unwrap_err().contains("line 4, column 1"));
    assert!(csv("1,2\r\n\r\n3\r\n", DType::F32).unwrap_err().contains("line 3 has 1"));
    assert!(csv("inf", DType::F64).is_err() && csv("\u{fffd}", DType::F64).is_err());
    // An open quote takes the rest of the file, which is not text for a message.
    let open = csv(&format!("\"{}", "1,2\n".repeat(100_000)), DType::F64).unwrap_err();
    assert!(open.len() < 1000, "{} bytes", open.len());
}

#[test]
fn whole_numbers_stay_themselves() {
    assert_eq!(csv("9007199254740992,-3", DType::I64).unwrap().1, [9007199254740992.0, -3.0]);
    assert!(csv("9007199254740993", DType::I64).unwrap_err().contains("9007199254740993"));
}

#[test]
fn greys_are_never_stretched() {
    let two = |format: Format, bytes: &[u8]| format.read(bytes, DType::F64).unwrap().to_f64();
    assert_eq!(two(PGM, b"P2\n# made by hand\n2 1\n255\n7 255\n"), [7.0, 255.0]);
    assert_eq!(two(PGM, b"P5 2 1 255\n\x07\xff"), [7.0, 255.0]);
    assert!(refused(PGM, b"P5 2 1 100\n\x07\x64").contains("is 100, expected 255"));
    assert!(refused(PGM, b"P2 2 1 1\n0 1").contains("is 1, expected 255"));
    assert!(refused(PGM, b"P5 1 1 65535\n\x00\x07").contains("is 65535"));
    assert!(refused(PNG, ONE_BIT).contains("of 1 bits per pixel"));
    let mut bytes = Vec::new();
    let mut deep = png::Encoder::new(&mut bytes, 2, 1);
    deep.set_depth(png::BitDepth::Sixteen);
    deep.write_header().unwrap().write_image_data(&[0; 4]).unwrap();
    assert!(refused(PNG, &bytes).contains("grey, 16 bits per channel"));
}

#[test]
fn sizes_in_pictures_are_not_trusted() {
    refused(PNG, HUGE);
    for text in [
        "P5 60000 60000 255\n",
        "P2 4294967295 4294967295 255\n1",
        "P5 0 5 255\n",
        "P5 2 2 255\n123",
    ] {
        let _ = refused(PGM, text.as_bytes());
    }
    let whole = written(PNG, &[2, 2], vec![0.0, 1.0, 2.0, 3.0]);
    (0..whole.len() - 16).for_each(|length| drop(refused(PNG, &whole[..length])));
}

/// A picture of other extents, or rows of another width, would put numbers into wrong places.
#[test]
fn data_keeps_its_rows() {
    let fits = |name: &str, bytes: &[u8], shape: &[usize]| {
        let file = InputFile { name: name.to_owned(), path: None, bytes: bytes.to_vec().into() };
        let spec = InputSpec {
            name: "x".to_owned(),
            dtype: DType::F32,
            shape: shape.to_vec(),
            sample: Default::default(),
        };
        Dataset::read(&file, &[spec]).map(|data| data.images.len()).map_err(|p| p.code())
    };
    let picture = written(PNG, &[2, 8], vec![0.0; 16]);
    for shape in [&[2, 8][..], &[1, 1, 2, 8], &[1, 2, 8, 1], &[16], &[1, 16]] {
        assert_eq!(fits("x.png", &picture, shape), Ok(1), "{shape:?}");
    }
    for shape in [&[8, 2][..], &[4, 4], &[1, 8], &[2, 4]] {
        let is_refused = if shape == [1, 8] { Ok(2) } else { Err("Q0605") };
        assert_eq!(fits("x.png", &picture, shape), is_refused, "{shape:?}");
    }
    let rows = written(Format::Csv, &[2, 8], vec![0.0; 16]);
    for (shape, images) in [(&[8][..], 2), (&[1, 2, 8], 1), (&[2, 4], 2), (&[1, 1, 4, 2], 2)] {
        assert_eq!(fits("x.csv", &rows, shape), Ok(images), "{shape:?}");
    }
    assert_eq!(fits("x.csv", &rows, &[4, 4]), Err("Q0605"));
    assert_eq!(fits("x.csv", b"", &[8]), Err("Q0605"));
}

/// Reads bytes in every form; what is read is written and read again as the same numbers.
fn exercise(bytes: &[u8]) {
    for dtype in [DType::F32, DType::F64, DType::I64] {
        for format in [Format::Csv, PNG, PGM] {
            let Ok(array) = format.read(bytes, dtype) else { continue };
            let again = format.write(&Tensors::from([("y".to_owned(), array.clone())]));
            // A file without pixels or numbers has nothing to write.
            let Ok(again) = again else { continue };
            let again = format.read(&again.bytes, dtype).unwrap();
            assert_eq!(again.to_f64(), array.to_f64());
        }
    }
}

/// A valid file with some bytes replaced.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let files = vec![
        written(PNG, &[5, 7], (0..35).map(f64::from).collect()),
        written(PGM, &[5, 7], (0..35).map(f64::from).collect()),
        b"P2 2 2 255\n1 2\n3 4\n".to_vec(),
        b"0.5,-1e9,\"3\"\r\n4,5,6\n".to_vec(),
        ONE_BIT.to_vec(),
    ];
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (prop::sample::select(files), damage).prop_map(|(mut bytes, damage)| {
        damage.into_iter().for_each(|(at, byte)| *at.get_mut(&mut bytes) = byte);
        bytes
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        exercise(&bytes);
    }

    #[test]
    fn arbitrary_rows(text in "[-+0-9.,eE\" \r\n]{0,60}") {
        exercise(text.as_bytes());
    }

    #[test]
    fn damaged_files(bytes in damaged()) {
        exercise(&bytes);
    }
}
