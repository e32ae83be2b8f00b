//! Storage forms of tensors, external data and what is wrong with them.

use super::build::{Model, tensor_proto};
use crate::options::Options;
use crate::proto::{EXTERNAL, EntryProto, TensorProto};
use quincunx_diag::{Class, Diagnostic};
use quincunx_tensor::{DType, Tensor};

fn proto(data_type: i32, dims: &[i64]) -> TensorProto {
    TensorProto {
        dims: dims.to_vec(),
        data_type: Some(data_type),
        name: Some("w".into()),
        ..TensorProto::default()
    }
}

/// A model whose output is the tensor.
fn model(tensor: TensorProto) -> Model {
    let mut model = Model::empty(13).output("w");
    model.graph().initializer.push(tensor);
    model
}

fn read(tensor: TensorProto) -> Tensor {
    let graph = model(tensor).read().unwrap();
    graph[graph.outputs()[0]].constant.clone().unwrap().tensor
}

fn problem(tensor: TensorProto) -> Diagnostic {
    model(tensor).problem()
}

#[test]
fn typed_fields() {
    let float = TensorProto { float_data: vec![1.5, -2.0], ..proto(1, &[2]) };
    assert_eq!(read(float).to_f64(), [1.5, -2.0]);
    let double = TensorProto { double_data: vec![0.1], ..proto(11, &[]) };
    assert_eq!(read(double).to_f64(), [0.1]);
    for (code, dtype) in [
        (2, DType::U8),
        (3, DType::I8),
        (4, DType::U16),
        (5, DType::I16),
        (6, DType::I32),
        (9, DType::Bool),
    ] {
        let tensor = read(TensorProto { int32_data: vec![1, 0], ..proto(code, &[1, 2]) });
        assert_eq!((tensor.dtype(), tensor.to_i64()), (dtype, Some(vec![1, 0])));
    }
    let long = TensorProto { int64_data: vec![-7], ..proto(7, &[1]) };
    assert_eq!(read(long).to_i64(), Some(vec![-7]));
    for code in [12, 13] {
        let unsigned = TensorProto { uint64_data: vec![7], ..proto(code, &[1]) };
        assert_eq!(read(unsigned).to_i64(), Some(vec![7]));
    }
    assert_eq!(read(proto(1, &[0, 3])).shape(), [0, 3]);
}

#[test]
fn raw_data_shares_the_file() {
    let values: Vec<f32> = (0..1000).map(|v| v as f32).collect();
    let file = bytes::Bytes::from(
        model(tensor_proto("w", &Tensor::from_vec(&[1000], values).unwrap())).bytes(),
    );
    let graph = crate::read_onnx(file.clone(), &Options::default()).unwrap();
    let tensor = graph[graph.outputs()[0]].constant.clone().unwrap().tensor;
    assert!(file.as_ptr_range().contains(&tensor.bytes().as_ptr()));
}

#[test]
fn malformed_tensors() {
    let raw = |code, dims: &[i64], size| TensorProto {
        raw_data: Some(vec![9; size].into()),
        ..proto(code, dims)
    };
    for (tensor, word) in [
        (raw(1, &[2], 7), "needs 8 bytes, found 7"),
        (raw(1, &[-1], 4), "extent -1"),
        (raw(1, &[i64::MAX], 4), "extent 9223372036854775807"),
        (raw(1, &[1 << 40, 1 << 40], 4), "too large"),
        (raw(1, &[1 << 39, 4], 4), "too large"),
        (raw(1, &[1; 100], 4), "100 axes"),
        (raw(9, &[1], 1), "bool 9"),
        (raw(0, &[1], 1), "undefined"),
        (raw(99, &[1], 1), "unknown"),
        (TensorProto { float_data: vec![1.0], ..raw(1, &[1], 4) }, "twice"),
        (TensorProto { float_data: vec![1.0], ..proto(1, &[2]) }, "needs 2 elements, found 1"),
        (TensorProto { int32_data: vec![1], ..proto(1, &[1]) }, "needs 1 elements, found 0"),
        (
            TensorProto { int32_data: vec![256], ..proto(2, &[1]) },
            "element 256, which u8 cannot hold",
        ),
        (TensorProto { int32_data: vec![2], ..proto(9, &[1]) }, "element 2"),
        (raw(22, &[3], 3), "needs 2 bytes, found 3"),
        (raw(10, &[3], 5), "needs 6 bytes, found 5"),
        (TensorProto { int32_data: vec![65536], ..proto(10, &[1]) }, "element 65536"),
        (TensorProto { int32_data: vec![1; 2], ..proto(21, &[1]) }, "needs 1 elements"),
        (TensorProto { int32_data: vec![300], ..proto(17, &[1]) }, "that f8e4m3fn cannot hold"),
    ] {
        let problem = problem(tensor);
        assert_eq!((problem.code(), problem.class()), ("Q0411", Class::Invalid), "{problem}");
        assert!(
            problem.message().contains("\"w\"") && problem.message().contains(word),
            "{problem}"
        );
    }
}

#[test]
fn unsupported_element_types_are_named() {
    for (code, name) in [(8, "string"), (14, "complex64"), (27, "float6e2m3")] {
        let problem = problem(proto(code, &[1]));
        assert_eq!((problem.code(), problem.class()), ("Q0412", Class::Unsupported));
        assert!(problem.message().contains(name), "{problem}");
    }
}

#[test]
fn unused_tensors_are_not_looked_at() {
    let mut model = Model::new(13, &[2]).node("Relu", &["x"], "y", vec![]);
    model.graph().initializer.push(proto(8, &[-1]));
    assert!(model.read().unwrap().value_named("w").is_none());
}

fn external(location: &str, entries: &[(&str, &str)]) -> TensorProto {
    let entry =
        |key: &str, value: &str| EntryProto { key: Some(key.into()), value: Some(value.into()) };
    let mut external_data = vec![entry("location", location)];
    external_data.extend(entries.iter().map(|(key, value)| entry(key, value)));
    TensorProto { external_data, data_location: Some(EXTERNAL), ..proto(1, &[2]) }
}

#[test]
fn external_data_inside_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let values = Tensor::from_vec(&[3], vec![1.0_f32, 2.0, 3.0]).unwrap();
    std::fs::write(folder.path().join("sub/w.bin"), values.bytes()).unwrap();
    let options = Options::beside(&folder.path().join("model.onnx"));
    let read = |tensor: TensorProto| {
        let graph = model(tensor).read_with(&options).map_err(|mut problems| problems.remove(0))?;
        Ok::<_, Diagnostic>(graph[graph.outputs()[0]].constant.clone().unwrap().tensor.to_f64())
    };
    let part = external("sub/w.bin", &[("offset", "4"), ("length", "8"), ("checksum", "?")]);
    assert_eq!(read(part), Ok(vec![2.0, 3.0]));
    assert_eq!(read(external("./sub/w.bin", &[])), Ok(vec![1.0, 2.0]));
    for (tensor, word) in [
        (external("sub/w.bin", &[("offset", "8")]), "needs 8 bytes from byte 8"),
        (external("sub/w.bin", &[("offset", "18446744073709551615")]), "needs 8 bytes"),
        (external("sub/w.bin", &[("offset", "-1")]), "offset \"-1\""),
        (external("sub/none.bin", &[]), "none.bin"),
        (external("sub", &[]), "not a regular file"),
        (external("", &[]), "is at \"\""),
        (TensorProto { external_data: vec![], ..external("", &[]) }, "no location"),
    ] {
        let problem = read(tensor).unwrap_err();
        assert_eq!((problem.code(), problem.class()), ("Q0413", Class::Invalid));
        assert!(problem.message().contains(word), "{problem}");
    }
    let short = external("sub/w.bin", &[("length", "4")]);
    assert_eq!(read(short).unwrap_err().code(), "Q0411");
}

#[test]
fn external_data_never_leaves_the_folder() {
    let outer = tempfile::tempdir().unwrap();
    let inner = outer.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let secret = outer.path().join("secret");
    std::fs::write(&secret, [0; 8]).unwrap();
    let options = Options::beside(&inner.join("model.onnx"));
    let mut locations =
        vec!["../secret", "a/../../secret", "/etc/passwd", "..\\secret", secret.to_str().unwrap()];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&secret, inner.join("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", inner.join("zero")).unwrap();
        locations.extend(["link", "zero"]);
    }
    for location in locations {
        let problems = model(external(location, &[])).read_with(&options).unwrap_err();
        assert_eq!(problems[0].code(), "Q0413", "{location}");
    }
    let problem = model(external("w.bin", &[])).problem();
    assert!(problem.help_text().unwrap().contains("without a folder"));
}
