//! Names of schemes.

use quincunx_diag::{Diagnostic, Result, did_you_mean};
use quincunx_graph::passes::Scheme;

/// The schemes, with the fixed-point formats of machines.
const NAMES: [&str; 6] = [
    "affine-int8",
    "pow2",
    "uniform:FP8BP4",
    "uniform:FP16BP8",
    "uniform:FP18BP10",
    "uniform:FP32BP16",
];

/// The scheme of a name: `affine-int8`, `pow2`, or `uniform:FP16BP8` and other fixed-point formats,
/// of 2 to 32 bits with fewer below the binary point.
///
/// # Errors
/// `Q0642` for another name.
pub fn scheme_named(name: &str) -> Result<Scheme> {
    let unknown = || {
        let message = format!("there is no scheme \"{}\"", name.escape_debug());
        Diagnostic::usage("Q0642", message)
            .with_note("expected affine-int8, pow2, or uniform: with a format such as FP16BP8")
            .help_if(did_you_mean(name, NAMES))
    };
    match name {
        "affine-int8" => Ok(Scheme::AFFINE_INT8),
        "pow2" => Ok(Scheme::POWER_OF_TWO_8),
        _ => {
            let format = name.strip_prefix("uniform:").ok_or_else(unknown)?;
            let (width, point) = parse_format(format).ok_or_else(|| match format {
                "FLOAT32" => {
                    let message = "FLOAT32 has no grid: it computes float models as they are";
                    Diagnostic::usage("Q0642", message)
                }
                _ => unknown(),
            })?;
            Ok(Scheme::Uniform { width, point })
        }
    }
}

/// Bits, and those below the binary point, of `FP16BP8`; `FP32B16` is an older spelling.
fn parse_format(format: &str) -> Option<(u32, u32)> {
    let (width, rest) = format.strip_prefix("FP")?.split_once('B')?;
    let point = rest.strip_prefix('P').unwrap_or(rest);
    let number = |digits: &str| {
        let plain = digits.len() <= 2 && digits.bytes().all(|digit| digit.is_ascii_digit());
        digits.parse::<u32>().ok().filter(|_| plain)
    };
    let (width, point) = (number(width)?, number(point)?);
    ((2..=32).contains(&width) && point < width).then_some((width, point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_schemes() {
        let uniform = |width, point| Some(Scheme::Uniform { width, point });
        for (name, scheme) in [
            ("affine-int8", Some(Scheme::AFFINE_INT8)),
            ("pow2", Some(Scheme::POWER_OF_TWO_8)),
            ("uniform:FP8BP4", uniform(8, 4)),
            ("uniform:FP16BP8", uniform(16, 8)),
            ("uniform:FP18BP10", uniform(18, 10)),
            ("uniform:FP32B16", uniform(32, 16)),
            ("uniform:FP12BP0", uniform(12, 0)),
            ("uniform:FP33BP16", None),
            ("uniform:FP8BP8", None),
            ("uniform:FP+8BP4", None),
            ("uniform:FP16", None),
            ("uniform:FLOAT32", None),
            ("uniform", None),
            ("", None),
        ] {
            assert_eq!(scheme_named(name).ok(), scheme, "{name}");
        }
        let near = scheme_named("uniform:fp16bp8").unwrap_err();
        assert_eq!(near.code(), "Q0642");
        assert!(near.help_text().unwrap().contains("uniform:FP16BP8"));
    }
}
