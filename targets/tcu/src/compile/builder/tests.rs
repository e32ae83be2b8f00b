use super::*;
use crate::compile::interpret::interpret;

fn arch() -> TcuArch {
    let mut arch = TcuArch::preset("pynqz1").unwrap();
    arch.array_size = 4;
    arch
}

fn pending(name: &str, rows: u32, channels: u32, reals: &[f64]) -> Pending {
    Pending::new(name, rows, channels, reals.to_vec()).unwrap()
}

/// A convolution of two taps over four positions, with six channels and several weight objects,
/// built without a graph; then an addition, a leaky ReLU and a pooling.
#[test]
fn a_network_is_built_without_a_frontend() {
    let arch = arch();
    let mut builder = Builder::new(&arch);
    let x = builder.input("x", &[1, 6, 4]).unwrap();
    let y = builder.output("y", &[1, 1, 2]).unwrap();
    let upper = pending("upper", 4, 1, &[1.0, 0.0, 0.0, 0.0]);
    let lower = pending("lower", 2, 1, &[0.0, 2.0]);
    let [upper, lower] = [upper, lower].map(|weights| builder.consts(&weights).unwrap());
    let second = builder.consts(&pending("second", 6, 1, &[0.5; 6])).unwrap();
    let bias = builder.consts(&pending("bias", 1, 1, &[0.25])).unwrap();
    let slope = pending("slope", 1, 1, &[0.5]);
    builder.begin_layer("layer").unwrap();
    let sum = builder.temp("sum", 4, 1).unwrap();
    let all = [(Some(&x), &sum)];
    builder.emit_mat_mul(&[&upper, &lower], Some(&bias), &all).unwrap();
    // The second tap reads the position before; the first position has none.
    let (before, inside) = (x.at(0..3).unwrap(), sum.at(1..4).unwrap());
    let first = sum.at(0..1).unwrap();
    builder.emit_mat_mul(&[&second], None, &[(None, &first), (Some(&before), &inside)]).unwrap();
    let added = builder.temp("added", 4, 1).unwrap();
    builder.emit_add(&sum, &bias, &added).unwrap();
    let active = builder.temp("active", 4, 1).unwrap();
    let alpha = builder.parameter(&slope).unwrap();
    builder.emit_leaky_relu(&added, alpha, &active).unwrap();
    let pooled = builder.temp("pooled", 2, 1).unwrap();
    builder.emit_pool(Pool::Average(0.5), &active, &[vec![0, 1], vec![2, 3]], &pooled).unwrap();
    builder.emit_save(&pooled, &y).unwrap();
    builder.end_layer().unwrap();
    let fates = [
        ("upper", Fate::Const(ConstId(0))),
        ("lower", Fate::Const(ConstId(1))),
        ("second", Fate::Const(ConstId(2))),
        ("bias", Fate::Const(ConstId(3))),
        ("slope", Fate::Parameter("layer".to_owned())),
    ];
    let listed: Vec<(&str, Fate)> =
        builder.constants().iter().map(|used| (used.name.as_str(), used.fate.clone())).collect();
    assert_eq!(listed, fates);
    let network = builder.finish().unwrap();
    assert_eq!(network.layers[0].macs, 7 * 6);
    // Position p holds p in channel 0 and 1 in channel 5.
    let mut vectors = vec![0; 4 * 8];
    for p in 0..4 {
        vectors[p * 8] = 256 * p as i32;
        vectors[p * 8 + 5] = 256;
    }
    let memory = interpret(&network, &arch, &[("x".to_owned(), vectors)].into());
    // 2.5 + p, and half of p at the position before; then the mean of two.
    let real = |p: i32| 256 * 2 + 128 + 256 * p + if p > 0 { 128 * p } else { 0 };
    let output = &memory[network.outputs[0].var.0 as usize];
    assert_eq!(output[0], (real(0) + real(1)) / 2);
    assert_eq!(output[4], (real(2) + real(3)) / 2);
    assert_eq!(output[1..4], [0, 0, 0]);
}

/// The remaining operations, with numbers computed by hand.
#[test]
fn operations_have_their_meaning() {
    let arch = arch();
    let mut builder = Builder::new(&arch);
    let x = builder.input("x", &[2, 4]).unwrap();
    let middle = builder.vars("middle", 2, 4).unwrap();
    let y = builder.output("y", &[1, 4]).unwrap();
    let scale = builder.consts(&pending("scale", 1, 4, &[2.0, 2.0, 2.0, -1.0])).unwrap();
    let offset = builder.consts(&pending("offset", 1, 4, &[0.5; 4])).unwrap();
    builder.begin_layer("first").unwrap();
    let temps: Vec<Object> =
        (0..6).map(|index| builder.temp(&format!("t{index}"), 2, 4).unwrap()).collect();
    builder.emit_load(&x, &temps[0]).unwrap();
    builder.emit_norm(&temps[0], &scale, &offset, &temps[1]).unwrap();
    builder.emit_sub(&temps[1], &temps[0], &temps[2]).unwrap();
    builder.emit_mul(&temps[2], &x, &temps[3]).unwrap();
    builder.emit_clip(&temps[3], [-1.0, 3.0], &temps[4]).unwrap();
    builder.emit_relu(&temps[4], &temps[5]).unwrap();
    builder.emit_save(&temps[5], &middle).unwrap();
    builder.end_layer().unwrap();
    builder.begin_layer("second").unwrap();
    let (a, b) = (builder.temp("a", 2, 4).unwrap(), builder.temp("b", 1, 4).unwrap());
    builder.emit_load(&middle, &a).unwrap();
    builder.emit_interpolate(&a, &[vec![(0, 0.5), (1, 0.25)]], &b).unwrap();
    builder.emit_save(&b, &y).unwrap();
    builder.end_layer().unwrap();
    let network = builder.finish().unwrap();
    let reals = [1.0, 2.0, -1.0, 1.0, 4.0, 0.0, 0.5, 2.0];
    let scalars: Vec<i32> = reals.iter().map(|&real| arch.data_type.encode(real)).collect();
    let memory = interpret(&network, &arch, &[("x".to_owned(), scalars)].into());
    let scale = [2.0, 2.0, 2.0, -1.0];
    let one = |at: usize| {
        let x: f64 = reals[at];
        ((x * scale[at % 4] + 0.5 - x) * x).clamp(-1.0, 3.0).max(0.0)
    };
    let expected: Vec<i32> =
        (0..4).map(|c| arch.data_type.encode(0.5 * one(c) + 0.25 * one(4 + c))).collect();
    assert_eq!(memory[network.outputs[0].var.0 as usize], expected);
}

#[test]
fn tags_dimensions_and_order_are_checked() {
    let mut builder = Builder::new(&arch());
    let x = builder.input("x", &[4, 6]).unwrap();
    let y = builder.output("y", &[4, 2]).unwrap();
    let weights = builder.consts(&pending("w", 6, 2, &[1.0; 12])).unwrap();
    let wide = builder.consts(&pending("wide", 6, 3, &[1.0; 18])).unwrap();
    let bias = builder.consts(&pending("b", 1, 2, &[1.0; 2])).unwrap();
    assert_eq!(builder.temp("early", 1, 1).unwrap_err().code(), "Q3092");
    builder.begin_layer("layer").unwrap();
    assert_eq!(builder.begin_layer("again").unwrap_err().code(), "Q3092");
    let sum = builder.temp("sum", 4, 2).unwrap();
    let other = builder.temp("other", 4, 2).unwrap();
    assert_eq!(builder.temp("narrow", 4, 1).unwrap_err().code(), "Q3089");
    let all = [(Some(&x), &sum)];
    let code = |result: Result<()>| result.unwrap_err().code();
    assert_eq!(code(builder.emit_mat_mul(&[&x], None, &all)), "Q3088");
    assert_eq!(code(builder.emit_mat_mul(&[&weights], Some(&x), &all)), "Q3088");
    assert_eq!(code(builder.emit_mat_mul(&[&weights], None, &[(Some(&other), &sum)])), "Q3088");
    assert_eq!(code(builder.emit_mat_mul(&[&weights], None, &[(Some(&x), &y)])), "Q3088");
    assert_eq!(code(builder.emit_mat_mul(&[&wide], None, &all)), "Q3089");
    assert_eq!(code(builder.emit_mat_mul(&[&weights, &bias], None, &all)), "Q3089");
    assert_eq!(code(builder.emit_mat_mul(&[&weights], Some(&weights), &all)), "Q3089");
    assert_eq!(code(builder.emit_mat_mul(&[&weights], None, &[])), "Q3089");
    assert_eq!(code(builder.emit_mat_mul(&[&weights], None, &[all[0], all[0]])), "Q3092");
    assert_eq!(code(builder.emit_relu(&sum, &other)), "Q3092");
    let (half, part) = (x.at(0..2).unwrap(), sum.at(0..2).unwrap());
    builder.emit_mat_mul(&[&weights], Some(&bias), &[(Some(&half), &part)]).unwrap();
    // Half of the temp is not named yet.
    assert_eq!(code(builder.emit_relu(&sum, &other)), "Q3092");
    assert_eq!(code(builder.emit_mat_mul(&[&weights], Some(&bias), &all)), "Q3092");
    builder.emit_mat_mul(&[&weights], None, &all).unwrap();
    assert_eq!(code(builder.emit_relu(&x, &other)), "Q3088");
    assert_eq!(code(builder.emit_save(&sum, &other)), "Q3088");
    assert_eq!(code(builder.emit_save(&sum, &x)), "Q3089");
    assert_eq!(code(builder.emit_load(&weights, &other)), "Q3088");
    assert_eq!(code(builder.end_layer()), "Q3092");
    builder.emit_relu(&sum, &other).unwrap();
    assert_eq!(code(builder.emit_relu(&sum, &other)), "Q3092");
    assert_eq!(code(builder.emit_mat_mul(&[&weights], None, &all)), "Q3092");
    builder.emit_save(&other, &y).unwrap();
    builder.end_layer().unwrap();
    builder.begin_layer("next").unwrap();
    let temp = builder.temp("temp", 4, 2).unwrap();
    assert_eq!(code(builder.emit_relu(&other, &temp)), "Q3092");
    assert_eq!(builder.finish().unwrap_err().code(), "Q3092");
}

#[test]
fn a_constant_is_a_parameter_or_an_object() {
    let mut builder = Builder::new(&arch());
    builder.begin_layer("layer").unwrap();
    let (a, b) = (pending("a", 1, 1, &[0.5]), pending("b", 1, 1, &[0.5]));
    assert_eq!(builder.parameter(&a).unwrap(), 0.5);
    assert_eq!(builder.consts(&a).unwrap_err().code(), "Q3093");
    builder.consts(&b).unwrap();
    assert_eq!(builder.parameter(&b).unwrap_err().code(), "Q3093");
    assert_eq!(builder.network().consts.len(), 1);
    assert_eq!(builder.constants().len(), 2);
    let row = pending("row", 1, 2, &[0.0; 2]);
    assert_eq!(builder.parameter(&row).unwrap_err().code(), "Q3089");
    assert_eq!(Pending::new("c", 1, 2, vec![0.0]).unwrap_err().code(), "Q3089");
    assert_eq!(Pending::new("c", 1, 1, vec![f64::NAN]).unwrap_err().code(), "Q3093");
}

/// A product may have zeros alone as its inputs: every result is the bias, or zero without one. The
/// machine and the interpreter agree.
#[test]
fn a_product_of_zeros_is_its_bias() {
    use quincunx_contract::{Engine, Options, Program, Target};
    use quincunx_tensor::{Tensor, Tensors};
    let arch = arch();
    let mut builder = Builder::new(&arch);
    let x = builder.input("x", &[1, 6, 4]).unwrap();
    let outputs = ["with", "without", "part"].map(|name| builder.output(name, &[1, 6, 4]).unwrap());
    let weights = builder.consts(&pending("w", 6, 6, &[1.0; 36])).unwrap();
    let bias = builder.consts(&pending("b", 1, 6, &[0.5; 6])).unwrap();
    for (name, output) in ["with", "without", "part"].iter().zip(&outputs) {
        builder.begin_layer(name).unwrap();
        let sum = builder.temp("sum", 4, 6).unwrap();
        let (first, rest) = (sum.at(0..1).unwrap(), sum.at(1..4).unwrap());
        let last = x.at(1..4).unwrap();
        let bias = (*name == "with").then_some(&bias);
        let there = if *name == "part" { Some(&last) } else { None };
        builder.emit_mat_mul(&[&weights], bias, &[(None, &first), (there, &rest)]).unwrap();
        builder.emit_save(&sum, output).unwrap();
        builder.end_layer().unwrap();
    }
    let network = builder.finish().unwrap();
    let options = Options::new(crate::TARGET.info().options, &[]).unwrap();
    let program = crate::Artifact::of_layers(&network, "zeros", &arch, &options).unwrap();
    assert!(!quincunx_diag::any_error(&program.verify()));
    let ones = Tensor::from_vec(&[1, 6, 4], vec![1.0_f64; 24]).unwrap();
    let inputs = Tensors::from([("x".to_owned(), ones)]);
    let found = program.load(Engine::Exec).unwrap().run(&inputs).unwrap();
    assert_eq!(found["with"].to_f64(), [0.5; 24]);
    assert_eq!(found["without"].to_f64(), [0.0; 24]);
    let part: Vec<f64> = (0..24).map(|at| if at % 4 == 0 { 0.0 } else { 6.0 }).collect();
    assert_eq!(found["part"].to_f64(), part);
    let mut vectors = vec![256; 4 * 8];
    (0..4).for_each(|p| vectors[p * 8 + 6..p * 8 + 8].fill(0));
    let memory = interpret(&network, &arch, &[("x".to_owned(), vectors)].into());
    let of = |at: usize| &memory[network.outputs[at].var.0 as usize][..6];
    assert_eq!((of(0), of(1), of(2)), (&[128; 6][..], &[0; 6][..], &[0; 6][..]));
}
