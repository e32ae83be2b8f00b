//! The map of a line: `{'slyr': 0, 'clyr': [1], 's_flyr': 0, 'c_flyr': [0], 'wkl': 0, 'tile': -1}`.

use super::scan::Scanner;
use crate::program::{Indices, Map};
use quincunx_diag::Result;

/// The text of a map that is left out.
pub(super) const ELIDED: &[u8] = b"{...}";

pub(super) fn read(scanner: &mut Scanner<'_>) -> Result<Map> {
    scanner.expect(b"{'slyr': ")?;
    let slyr = scanner.index()?;
    scanner.expect(b", 'clyr': ")?;
    let clyr = indices(scanner)?;
    scanner.expect(b", 's_flyr': ")?;
    let s_flyr = scanner.index()?;
    scanner.expect(b", 'c_flyr': ")?;
    let c_flyr = indices(scanner)?;
    scanner.expect(b", 'wkl': ")?;
    let wkl = scanner.index()?;
    let tile = if scanner.eat(b"}") {
        None
    } else {
        scanner.expect(b", 'tile': ")?;
        let tile = scanner.index()?;
        scanner.expect(b"}")?;
        Some(tile)
    };
    Ok(Map { slyr, clyr, s_flyr, c_flyr, wkl, tile })
}

fn indices(scanner: &mut Scanner<'_>) -> Result<Indices> {
    let mut list = Indices::new();
    scanner.expect(b"[")?;
    while !scanner.eat(b"]") {
        if !list.is_empty() {
            scanner.expect(b", ")?;
        }
        list.push(scanner.index()?);
    }
    Ok(list)
}

pub(super) fn print(map: Option<&Map>, out: &mut Vec<u8>) {
    let Some(map) = map else { return out.extend_from_slice(ELIDED) };
    let mut number = itoa::Buffer::new();
    out.extend_from_slice(b"{'slyr': ");
    out.extend_from_slice(number.format(map.slyr).as_bytes());
    out.extend_from_slice(b", 'clyr': ");
    print_indices(&map.clyr, out);
    out.extend_from_slice(b", 's_flyr': ");
    out.extend_from_slice(number.format(map.s_flyr).as_bytes());
    out.extend_from_slice(b", 'c_flyr': ");
    print_indices(&map.c_flyr, out);
    out.extend_from_slice(b", 'wkl': ");
    out.extend_from_slice(number.format(map.wkl).as_bytes());
    if let Some(tile) = map.tile {
        out.extend_from_slice(b", 'tile': ");
        out.extend_from_slice(number.format(tile).as_bytes());
    }
    out.push(b'}');
}

fn print_indices(list: &[i32], out: &mut Vec<u8>) {
    let mut number = itoa::Buffer::new();
    out.push(b'[');
    for (position, &index) in list.iter().enumerate() {
        if position > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(number.format(index).as_bytes());
    }
    out.push(b']');
}
