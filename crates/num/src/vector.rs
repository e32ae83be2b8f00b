//! Loops that the compiler turns into vectors, for the instructions of the processor at hand.

use crate::gemm::Level;

/// A loop that is compiled once for every [`Level`]; see [`Level::run`].
pub trait Loop {
    /// What the loop computes.
    type Result;

    /// The loop. Must be `#[inline(always)]`, or it is compiled without the level's instructions.
    fn run(self) -> Self::Result;
}

impl Level {
    /// Runs a loop that was compiled for this level. The level does not change what is computed:
    /// the compiler keeps the order of f64 operations and fuses none.
    ///
    /// # Panics
    /// When the processor does not have the level ([`Level::is_available`]).
    #[inline]
    pub fn run<L: Loop>(self, work: L) -> L::Result {
        assert!(self.is_available(), "this processor lacks {self}");
        match self {
            Level::Scalar => work.run(),
            // SAFETY: The processor has the level, and with it the instructions.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { avx2(work) },
            // SAFETY: The processor has the level, and with it the instructions.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Vnni => unsafe { avx512(work) },
            #[cfg(not(target_arch = "x86_64"))]
            Level::Avx2 | Level::Avx512Vnni => unreachable!("is never available here"),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<L: Loop>(work: L) -> L::Result {
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f")]
fn avx512<L: Loop>(work: L) -> L::Result {
    work.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Poly<'a>(&'a mut [f64]);

    impl Loop for Poly<'_> {
        type Result = f64;

        #[inline(always)]
        fn run(self) -> f64 {
            let mut most = 0.0;
            for (index, x) in self.0.iter_mut().enumerate() {
                *x = *x * 1.1 + index as f64 / 3.0;
                most = if *x > most { *x } else { most };
            }
            most
        }
    }

    #[test]
    fn every_level_computes_the_same_bits() {
        let numbers: Vec<f64> = (0..1000).map(|i| (f64::from(i) * 0.37).sin()).collect();
        let run = |level: Level| {
            let mut numbers = numbers.clone();
            let most = level.run(Poly(&mut numbers));
            (most.to_bits(), numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
        };
        for level in Level::ALL.into_iter().filter(|level| level.is_available()) {
            assert_eq!(run(level), run(Level::Scalar), "{level}");
        }
    }
}
