//! A planted wrong result of any precision is noticed by the comparison with golden numbers.

use crate::common::{Numeric, numeric, product, same};
use quincunx_dpas::precision::{Acc, Precision};
use quincunx_dpas::simulate::{Operation, Rules};
use std::collections::BTreeMap;

type Fault = fn(&mut Operation);

/// The precision with the other sign, or another float of the same size.
fn sibling(precision: Precision) -> Precision {
    match precision {
        Precision::U1 => Precision::S1,
        Precision::S1 => Precision::U1,
        Precision::U2 => Precision::S2,
        Precision::S2 => Precision::U2,
        Precision::U4 => Precision::S4,
        Precision::S4 => Precision::U4,
        Precision::U8 => Precision::S8,
        Precision::S8 => Precision::U8,
        Precision::Bf => Precision::Hf,
        Precision::Hf => Precision::Bf,
        Precision::Bf8 => Precision::Hf8,
        Precision::Hf8 => Precision::Bf8,
        other => other,
    }
}

/// Faults in what the executor does with an operation.
const FAULTS: [(&str, Fault); 6] = [
    ("the other sign or format of B", |o| o.shape.weights = sibling(o.shape.weights)),
    ("the other sign or format of A", |o| o.shape.activations = sibling(o.shape.activations)),
    ("half the depth", |o| o.shape.depth /= 2),
    ("one lane less", |o| o.shape.lanes -= 1),
    ("B from the next byte", |o| o.src1 += 1),
    ("A from the next byte", |o| o.src2 += 1),
];

fn differs(case: &Numeric, plant: &dyn Fn(&mut Operation), after: &dyn Fn(&mut [u8])) -> bool {
    case.expected.iter().any(|(rules, expected)| {
        let src0 = case.src0.as_deref();
        let mut found = product(case.shape, src0, &case.src1, &case.src2, *rules, plant);
        after(&mut found);
        !same(&found, expected, case.shape.dst)
    })
}

fn by_path() -> BTreeMap<String, Vec<Numeric>> {
    let mut paths: BTreeMap<String, Vec<Numeric>> = BTreeMap::new();
    for case in numeric() {
        let shape = &case.shape;
        let (w, a) = (shape.weights.name(), shape.activations.name());
        let path = format!("{w}.{a} {}", shape.dst.bytes());
        paths.entry(path).or_default().push(case);
    }
    paths
}

#[test]
fn every_precision_has_a_golden_case() {
    let paths = by_path();
    let integers = Precision::ALL.into_iter().filter(|p| p.is_integer() && !p.is_one_bit());
    for w in integers.clone() {
        for a in integers.clone() {
            assert!(paths.contains_key(&format!("{} 4", [w.name(), a.name()].join("."))));
        }
    }
    for path in
        ["bf.bf 4", "bf.bf 2", "hf.hf 4", "hf.hf 2", "tf32.tf32 4", "bf8.hf8 4", "hf8.bf8 4"]
    {
        assert!(paths.contains_key(path), "{path}");
    }
}

#[test]
fn every_planted_fault_is_noticed() {
    for (path, cases) in by_path() {
        for (name, fault) in FAULTS {
            // tf32 has no sibling.
            if path.starts_with("tf32") && name.contains("format") {
                continue;
            }
            let noticed = cases.iter().any(|case| {
                let fits = |o: &mut Operation| {
                    fault(o);
                    // Floats change together: a mixture cannot be multiplied.
                    if quincunx_dpas::shape::ops(o.shape.weights, o.shape.activations).is_none() {
                        let other = sibling(case.shape.weights);
                        (o.shape.weights, o.shape.activations) = (other, other);
                    }
                };
                differs(case, &fits, &|_| {})
            });
            assert!(noticed, "{path}: {name} is not noticed");
        }
        for (name, flip) in [("low", 0usize), ("high", usize::MAX)] {
            let after = |bytes: &mut [u8]| {
                let at = flip.min(bytes.len() - 1);
                bytes[at] ^= 1;
            };
            // A bit of a NaN may go unnoticed, but not in all cases.
            let noticed = cases.iter().any(|case| differs(case, &|_| {}, &after));
            assert!(noticed, "{path}: a flipped {name} bit is not noticed");
        }
    }
}

#[test]
fn every_model_is_noticed() {
    let cases = numeric();
    for (right, wrong) in [("stage", "seq"), ("exact", "seq"), ("seq", "exact"), ("fma", "seq")] {
        let model = |name| quincunx_dpas::simulate::Model::from_name(name).unwrap();
        let noticed = cases.iter().any(|case| {
            case.expected.iter().filter(|(rules, _)| rules.model == model(right)).any(|(_, dst)| {
                let rules = Rules { model: model(wrong), ftz: false };
                let src0 = case.src0.as_deref();
                let found = product(case.shape, src0, &case.src1, &case.src2, rules, &|_| {});
                !case.shape.weights.is_integer() && !same(&found, dst, case.shape.dst)
            })
        });
        assert!(noticed, "{wrong} for {right} is not noticed");
    }
}

/// Not every path has a case with an addend that matters; every class of types does.
#[test]
fn a_lost_addend_is_noticed() {
    let cases = numeric();
    for class in [Acc::D, Acc::F, Acc::Hf, Acc::Bf] {
        let noticed = cases.iter().any(|case| {
            case.shape.src0 == class
                && case.src0.is_some()
                && differs(case, &|o| o.src0 = None, &|_| {})
        });
        assert!(noticed, "{class:?}");
    }
}
