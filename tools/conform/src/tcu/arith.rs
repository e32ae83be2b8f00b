//! Arithmetic and conversions of every data type.

use super::{Check, equal, hex, list};
use crate::report::Report;
use quincunx_tcu::arch::DataType;
use quincunx_tcu::simulate::{Arithmetic, Flow, fused, with_arithmetic};
use serde_json::Value;

pub(super) fn run(json: &Value, report: &mut Report) {
    for (name, cases) in json.as_object().into_iter().flatten() {
        let Some(data_type) = DataType::from_name(name) else {
            report.case(name, Err("unknown data type".to_owned()));
            continue;
        };
        for (index, row) in list(&cases["mac"]).enumerate() {
            report.case(&format!("{name}/mac/{index}"), operations(data_type, row));
        }
        for (index, row) in list(&cases["from_float"]).enumerate() {
            report.case(&format!("{name}/from_float/{index}"), conversion(data_type, row));
        }
    }
}

/// A row `[x, y, z, x*y+z, x+y, x-y, x*y, -x]` of raw scalars.
fn operations(data_type: DataType, row: &Value) -> Check {
    let row: Vec<i32> = serde_json::from_value(row.clone()).map_err(|error| error.to_string())?;
    let [x, y, z, expected @ ..] = &row[..] else { return Err("the row is too short".to_owned()) };
    let flow = &mut Flow::default();
    let mac = fused(data_type, *x, *y, *z, flow);
    let [sum, difference, product, negated] = with_arithmetic!(data_type, A => [
        A::add(*x, *y, flow),
        A::subtract(*x, *y, flow),
        A::multiply(*x, *y, flow),
        A::subtract(0, *x, flow),
    ]);
    equal("the row of results", &[mac, sum, difference, product, negated][..], expected)
}

/// A row `[binary32 bits, raw scalar, stored bytes, binary32 bits of the scalar]`.
fn conversion(data_type: DataType, row: &Value) -> Check {
    let bits = |index: usize| {
        let digits = row[index].as_str().unwrap_or_default();
        u32::from_str_radix(digits, 16).map_err(|error| error.to_string())
    };
    let expected = row[1].as_i64().ok_or("no raw scalar")?;
    let scalar = data_type.encode(f32::from_bits(bits(0)?).into());
    equal("the scalar", i64::from(scalar), expected)?;
    let (mut bytes, stored) = (Vec::new(), hex(&row[2])?);
    data_type.write(scalar, &mut bytes);
    equal("the stored form", &bytes, &stored)?;
    equal("the scalar of the stored form", data_type.read(&stored), scalar)?;
    equal("the real number", (data_type.decode(scalar) as f32).to_bits(), bits(3)?)
}
