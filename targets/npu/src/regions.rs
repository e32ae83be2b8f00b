//! The regions of L2. Facts: `gemini` (`docs/bibliography.md`).

#![deny(clippy::arithmetic_side_effects)]

use crate::arch::NpuArch;
use crate::work::Regions;

/// Regions that instructions can select.
pub const COUNT: usize = 4;

/// A ring of bytes in L2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte of L2.
    pub start: u64,
    /// Bytes; at least 1024.
    pub length: u64,
}

/// The region table. Unused regions are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionTable([Option<Region>; COUNT]);

/// A length that reaches below byte 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Length and last KiB as a region: `Ok(None)` when unused.
///
/// # Errors
/// When the length reaches below 0.
pub fn region(kib: u16, last: u16) -> Result<Option<Region>, TooLong> {
    let kib = match (kib, last) {
        (0, 0) => return Ok(None),
        (0, _) => 8192,
        (kib, _) => u64::from(kib),
    };
    let end = u64::from(last).saturating_add(1);
    let start = end.checked_sub(kib).ok_or(TooLong)?;
    let [start, length] = [start, kib].map(|kib| kib.saturating_mul(1024));
    Ok(Some(Region { start, length }))
}

impl RegionTable {
    /// Sets four regions; those that no instruction can select are dropped, malformed ones unused.
    pub fn set(&mut self, regions: &Regions) {
        let places = self.0.iter_mut().skip(regions.first.into());
        for (place, &(kib, last)) in places.zip(&regions.cuts) {
            *place = region(kib, last).unwrap_or(None);
        }
    }

    /// A region.
    pub fn get(&self, number: u8) -> Option<Region> {
        self.0.get(usize::from(number)).copied().flatten()
    }

    /// Every region with its number.
    pub fn iter(&self) -> impl Iterator<Item = (u8, Region)> {
        (0..).zip(self.0).filter_map(|(number, region)| Some((number, region?)))
    }
}

impl Region {
    /// The whole L2.
    pub fn whole(arch: &NpuArch) -> Region {
        Region { start: 0, length: arch.l2_bytes.into() }
    }

    /// One past the last byte.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }

    /// The byte of L2 of an address in the ring.
    pub fn byte(&self, address: i64) -> u64 {
        // Lengths are at most 8 MiB.
        self.start.saturating_add(address.rem_euclid(self.length as i64) as u64)
    }

    /// The bytes of L2 from `start` to `end` of the ring, in at most two pieces; everything when the
    /// ring is shorter.
    pub fn pieces(&self, start: i64, end: i64) -> [Option<(u64, u64)>; 2] {
        let length = end.saturating_sub(start).max(0) as u64;
        if length == 0 {
            return [None, None];
        }
        if length >= self.length {
            return [Some((self.start, self.end())), None];
        }
        let first = self.byte(start);
        let last = first.saturating_add(length);
        match last.checked_sub(self.end()) {
            None | Some(0) => [Some((first, last)), None],
            Some(rest) => {
                [Some((first, self.end())), Some((self.start, self.start.saturating_add(rest)))]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_of_real_files() {
        let full = region(0, 8191).unwrap().unwrap();
        assert_eq!(full, Region { start: 0, length: 8 << 20 });
        let low = region(5584, 5583).unwrap().unwrap();
        let high = region(2608, 8191).unwrap().unwrap();
        assert_eq!((low.start, high.start), (0, 5584 * 1024));
        assert_eq!(high.start + high.length, 8 << 20);
        assert_eq!(region(0, 0), Ok(None));
        assert_eq!(region(9, 7), Err(TooLong));
    }

    #[test]
    fn rings_wrap() {
        let ring = Region { start: 1024, length: 2048 };
        assert_eq!(ring.byte(-8), 1024 + 2040);
        assert_eq!(ring.pieces(2000, 2100), [Some((3024, 3072)), Some((1024, 1076))]);
        assert_eq!(ring.pieces(0, 4096), [Some((1024, 3072)), None]);
        assert_eq!(ring.pieces(8, 8), [None, None]);
    }
}
