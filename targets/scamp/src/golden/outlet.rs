//! How results reach the host.

use super::rounded;
use quincunx_num::{Dyadic, Int};

/// How outputs reach the host.
#[derive(Clone, Copy)]
pub(super) enum Outlet {
    /// As they are.
    Plain,
    /// Numbers as codes of 8 bits.
    Codes,
    /// Bits as a list of so many ones.
    Ones(usize),
}

impl Outlet {
    pub(super) fn named(name: &str) -> Option<Outlet> {
        match name {
            "analogue" | "1bit" => Some(Outlet::Plain),
            "8bit" => Some(Outlet::Codes),
            _ => name.strip_prefix("events:")?.parse().ok().map(Outlet::Ones),
        }
    }

    /// What reaches the host of pixels in rows of some length, `plane` of them in a channel.
    pub(super) fn through(
        self,
        pixels: &[Dyadic],
        width: usize,
        plane: usize,
        scale: i32,
    ) -> Vec<Dyadic> {
        match self {
            Outlet::Plain => pixels.to_vec(),
            Outlet::Codes => {
                let [least, most] = [-128, 127].map(|code| Dyadic::new(Int::from(code), -scale));
                let code = |pixel| rounded(pixel, scale).max(least.clone()).min(most.clone());
                pixels.iter().map(code).collect()
            }
            Outlet::Ones(most) => {
                let mut kept = vec![Dyadic::ZERO; pixels.len()];
                for (from, to) in pixels.chunks(plane).zip(kept.chunks_mut(plane)) {
                    // Rows from the north, in each the columns from the east.
                    let places = (0..plane).map(|at| at / width * width + width - 1 - at % width);
                    let ones = places.filter(|&at| !from[at].is_zero()).take(most);
                    ones.for_each(|at| to[at] = from[at].clone());
                }
                kept
            }
        }
    }
}
