//! Automatic dependencies: the peer's listing and ours both pass the checker.

use super::{Check, arch, first, listing, platform, reason, squeeze};
use quincunx_dpas::program::Listing;
use quincunx_dpas::shape::RowStride;
use quincunx_dpas::swsb;
use quincunx_dpas::text::native::print;
use serde_json::Value;

fn lines(case: &Value, key: &str) -> Check<String> {
    let list = case.get(key).and_then(Value::as_array);
    let list = list.ok_or_else(|| format!("the case has no {key}"))?;
    Ok(list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n"))
}

/// Our listing for the input, and the peer's.
fn both(case: &Value) -> Check<(Listing, Listing)> {
    let platform = platform(case)?;
    let input = listing(&lines(case, "input")?, platform)?;
    let ours = swsb::assign(&input, &arch(platform)?, RowStride::Full).map_err(reason)?;
    Ok((ours, listing(&lines(case, "output")?, platform)?))
}

pub(super) fn check(case: &Value) -> Check {
    let arch = arch(platform(case)?)?;
    let (ours, peer) = both(case)?;
    for (whose, listing) in [("our", &ours), ("the peer's", &peer)] {
        let found = swsb::check(listing, &arch, RowStride::Full);
        if !found.is_empty() {
            return Err(format!("{whose} listing: {}", first(&found)));
        }
    }
    Ok(())
}

/// How many of our listings are the peer's to the letter.
pub(super) fn share(cases: &[Value]) -> String {
    let same = |case: &&Value| {
        both(case).is_ok_and(|(ours, peer)| squeeze(&print(&ours)) == squeeze(&print(&peer)))
    };
    format!("{} of {} listings equal the peer's", cases.iter().filter(same).count(), cases.len())
}
