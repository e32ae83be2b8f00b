//! `.npy` and `.npz`: numpy's files, our own, and damaged ones.

use proptest::prelude::*;
use quincunx_diag::Class;
use quincunx_tensor::npy::{read_file, read_npy, read_npz, write_as, write_npy, write_npz};
use quincunx_tensor::{DType, Tensor, Tensors, element_count};
use quincunx_testkit::python;
use std::path::{Path, PathBuf};
use std::process::Command;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn fixture_bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

fn read_one(name: &str) -> Tensor {
    read_file(&fixture(name)).unwrap().remove("").unwrap()
}

const TYPES: [DType; 11] = [
    DType::Bool,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::F32,
    DType::F64,
];

#[test]
fn numpy_files_of_every_type_and_order() {
    let counting: Vec<f64> = (0..24).map(f64::from).collect();
    let types = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"];
    let mut names: Vec<String> = types.iter().map(|t| format!("{t}_little")).collect();
    for kind in ["i2", "u4", "i8", "f4", "f8"] {
        names.extend([format!("{kind}_big"), format!("{kind}_columns")]);
    }
    names.extend(["u1_columns", "version2", "version3"].map(str::to_owned));
    for name in names {
        let tensor = read_one(&format!("{name}.npy"));
        assert_eq!(tensor.shape(), [2, 3, 4], "{name}");
        assert_eq!(tensor.to_f64(), counting, "{name}");
    }
}

#[test]
fn numpy_files_of_special_shapes() {
    let bools: Vec<i64> = (0..24).map(|i| i64::from(i % 3 == 0)).collect();
    assert_eq!(read_one("bool.npy").to_i64(), Some(bools));
    let scalar = read_one("scalar.npy");
    assert_eq!((scalar.shape(), scalar.to_f64()), (&[][..], vec![1.5]));
    let half = read_one("f2_little.npy");
    assert_eq!(half.dtype(), DType::F16);
    assert_eq!(half.to_f64(), (0..24).map(f64::from).collect::<Vec<f64>>());
    assert_eq!(read_one("empty.npy").shape(), [2, 0, 3]);
    assert_eq!(read_one("vector.npy").to_i64(), Some(vec![0, 1, 2, 3, 4]));
}

#[test]
fn numpy_archives() {
    for name in ["stored.npz", "deflated.npz", "zip64.npz"] {
        let tensors = read_file(&fixture(name)).unwrap();
        assert_eq!(tensors.keys().collect::<Vec<_>>(), ["labels", "x"], "{name}");
        assert_eq!(tensors["labels"].to_i64(), Some(vec![0, 1, 2]), "{name}");
        assert_eq!(tensors["x"].shape(), [2, 3, 4], "{name}");
    }
}

#[test]
fn unsupported_types_are_named() {
    for (name, word) in [
        ("bad_c8", "complex"),
        ("bad_text", "text"),
        ("bad_struct", "structured"),
        ("bad_object", "object"),
    ] {
        let problem = read_file(&fixture(&format!("{name}.npy"))).unwrap_err();
        assert_eq!((problem.code(), problem.class()), ("Q0205", Class::Unsupported), "{problem}");
        assert!(problem.message().contains(word), "{problem}");
    }
}

#[test]
fn element_count_must_match_exactly() {
    let file = fixture_bytes("f4_little.npy");
    for bytes in [file[..file.len() - 1].to_vec(), [&file[..], &[0]].concat()] {
        assert_eq!(read_npy(bytes).unwrap_err().code(), "Q0206");
    }
}

/// A file with this header text and no elements.
fn with_header(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], text.as_bytes()].concat()
}

#[test]
fn malformed_headers() {
    for (text, code) in [
        ("", "Q0204"),
        ("{", "Q0204"),
        ("{}", "Q0204"),
        ("{'descr': '<f4', 'fortran_order': False}", "Q0204"),
        ("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", "Q0204"),
        ("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", "Q0204"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "Q0204"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "Q0204"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}", "Q0204"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", "Q0204"),
        ("{'descr': '\\x3cf4', 'fortran_order': False, 'shape': ()}", "Q0204"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "Q0206"),
        ("{'descr': '<f4', 'fortran_order': True, 'shape': (1000000000000,)}", "Q0206"),
        ("{'descr': '<i3', 'fortran_order': False, 'shape': ()}", "Q0205"),
        ("{'descr': [('a', [('b', [('c', '<f4')])])], 'fortran_order': False}", "Q0205"),
    ] {
        assert_eq!(read_npy(with_header(text)).unwrap_err().code(), code, "{text}");
    }
    let axes =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({})}}", "1,".repeat(999));
    assert_eq!(read_npy(with_header(&axes)).unwrap_err().code(), "Q0204");
    let long = &b"\x93NUMPY\x02\x00\xff\xff\xff\xff"[..];
    assert_eq!(read_npy(long).unwrap_err().code(), "Q0204");
    let newer = &b"\x93NUMPY\x04\x00\x00\x00"[..];
    assert_eq!(read_npy(newer).unwrap_err().class(), Class::Unsupported);
}

#[test]
fn python_2_extents_and_free_layout() {
    let text = "{ \"shape\" : ( 0L , 3 ) ,'fortran_order':True,\n'descr':\"=f8\" }";
    assert_eq!(read_npy(with_header(text)).unwrap().shape(), [0, 3]);
}

#[test]
fn archives_that_unpack_to_too_much_are_refused() {
    use std::io::Write;
    let size = 200 << 20;
    let zeros = Tensor::new(DType::U8, &[size], vec![0; size].into()).unwrap();
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let deflated = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated)
        .compression_level(Some(1));
    archive.start_file("a.npy", deflated).unwrap();
    archive.write_all(&write_npy(&zeros)).unwrap();
    let bomb = archive.finish().unwrap().into_inner();
    assert!(bomb.len() < 2 << 20);
    assert_eq!(read_npz(bomb).unwrap_err().code(), "Q0208");
}

#[test]
fn archives_are_deterministic() {
    let tensors = Tensors::from([("a".to_owned(), Tensor::scalar(1_i32))]);
    let bytes = write_npz(&tensors).unwrap();
    // Time and date of the first member: 1980-01-01, whatever the clock says.
    assert_eq!(bytes[10..14], [0, 0, 0x21, 0]);
    assert_eq!(write_npz(&tensors).unwrap(), bytes);
}

#[test]
fn the_name_of_a_file_says_its_form() {
    let folder = tempfile::tempdir().unwrap();
    let one =
        Tensors::from([("a".to_owned(), Tensor::from_vec(&[2], vec![1.0_f32, 2.0]).unwrap())]);
    let two =
        Tensors::from([("a", 1_u8), ("b", 2)].map(|(k, v)| (k.to_owned(), Tensor::scalar(v))));
    let written = |name: &str, tensors| {
        let path = folder.path().join(name);
        std::fs::write(&path, write_as(&path, tensors)?).unwrap();
        read_file(&path)
    };
    assert_eq!(written("x.npy", &one).unwrap()[""], one["a"]);
    assert_eq!(written("x.npy", &two).unwrap_err().class(), Class::Usage);
    assert_eq!(written("x.npz", &two).unwrap(), two);
    let problem = read_file(&folder.path().join("none.npy")).unwrap_err();
    assert_eq!((problem.code(), problem.class()), ("Q0209", Class::System));
}

#[test]
fn numpy_reads_what_we_write() {
    let Some(python) = python("numpy") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.npz");
    let mut tensors = Tensors::new();
    for dtype in TYPES {
        for shape in [&[][..], &[0], &[3], &[2, 3]] {
            let size = element_count(shape).unwrap() * dtype.size();
            let tensor = Tensor::new(dtype, shape, vec![1; size].into()).unwrap();
            tensors.insert(format!("{dtype}_{shape:?}"), tensor);
        }
    }
    std::fs::write(&path, write_as(&path, &tensors).unwrap()).unwrap();
    let script = "import sys, numpy as np\n\
        for k, v in sorted(np.load(sys.argv[1]).items()):\n \
        print(k, v.dtype.name, list(v.shape), v.tobytes().hex())";
    let output = Command::new(python).args(["-c", script]).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().count(), tensors.len());
    for (line, (name, tensor)) in lines.lines().zip(&tensors) {
        let hex: String = tensor.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let tail = format!("{:?} {hex}", tensor.shape());
        assert!(line.starts_with(name) && line.ends_with(&tail), "{line}");
    }
}

fn tensors() -> impl Strategy<Value = Tensor> {
    let shape = prop::collection::vec(0_usize..4, 0..4);
    (0..TYPES.len(), shape).prop_flat_map(|(index, shape)| {
        let dtype = TYPES[index];
        let size = element_count(&shape).unwrap() * dtype.size();
        let byte = if dtype == DType::Bool { 0..=1_u8 } else { 0..=255 };
        prop::collection::vec(byte, size)
            .prop_map(move |bytes| Tensor::new(dtype, &shape, bytes.into()).unwrap())
    })
}

/// Bytes of a valid file with some bytes changed, and often the end cut off.
fn mutated(file: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let length = file.len();
    let changes = prop::collection::vec((0..length, any::<u8>()), 0..6);
    (changes, 0..=length).prop_map(move |(changes, keep)| {
        let mut bytes = file.clone();
        changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
        bytes.truncate(if keep % 2 == 0 { length } else { keep });
        bytes
    })
}

/// A file is read or refused; a bug of ours is neither.
fn survives<T>(read: quincunx_diag::Result<T>) {
    if let Err(problem) = read {
        assert_ne!(problem.class(), Class::Bug, "{problem}");
    }
}

proptest! {
    #[test]
    fn npy_round_trips(tensor in tensors()) {
        let file = write_npy(&tensor);
        prop_assert_eq!((file.len() - tensor.bytes().len()) % 64, 0);
        prop_assert_eq!(read_npy(file).unwrap(), tensor);
    }

    #[test]
    fn npz_round_trips(tensors in prop::collection::btree_map("[a-z.é]{0,6}", tensors(), 0..4)) {
        prop_assert_eq!(read_npz(write_npz(&tensors).unwrap()).unwrap(), tensors);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        survives(read_npy(bytes.clone()));
        survives(read_npz(bytes.clone()));
        survives(read_npy([b"\x93NUMPY\x01\x00", &bytes[..]].concat()));
        survives(read_npz([b"PK\x03\x04", &bytes[..]].concat()));
    }

    #[test]
    fn arbitrary_headers_never_panic(text in "[{}()\\[\\]'\", :0-9TrueFalsLdcshp<>|=éf]{0,80}") {
        survives(read_npy(with_header(&text)));
    }

    #[test]
    fn damaged_npy_never_panics(bytes in mutated(fixture_bytes("f4_columns.npy"))) {
        survives(read_npy(bytes));
    }

    #[test]
    fn damaged_npz_never_panics(
        a in mutated(fixture_bytes("stored.npz")),
        b in mutated(fixture_bytes("deflated.npz")),
        c in mutated(fixture_bytes("zip64.npz")),
    ) {
        survives(read_npz(a));
        survives(read_npz(b));
        survives(read_npz(c));
    }
}
