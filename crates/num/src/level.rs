//! Sets of vector instructions, and loops that the compiler turns into vectors of the processor at
//! hand.

use std::fmt;

/// The vector instructions in use. Results of integers do not depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// No particular instructions.
    Scalar,
    /// 256-bit vectors, and the fused additions of floats that such processors have.
    Avx2,
    /// 512-bit vectors with lanes of 8 to 64 bits and dot products (Cascade Lake, Zen 4 and later).
    Avx512,
}

impl Level {
    /// Every level, slowest first.
    pub const ALL: [Level; 3] = [Level::Scalar, Level::Avx2, Level::Avx512];

    /// Name used in options.
    pub fn name(self) -> &'static str {
        match self {
            Level::Scalar => "scalar",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }

    /// True when this processor has the instructions.
    pub fn is_available(self) -> bool {
        match self {
            Level::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
                    && Level::Avx2.is_available()
            }
            #[cfg(not(target_arch = "x86_64"))]
            Level::Avx2 | Level::Avx512 => false,
        }
    }

    /// The levels of this processor, slowest first.
    pub fn available() -> impl Iterator<Item = Level> {
        Level::ALL.into_iter().filter(|level| level.is_available())
    }

    /// The fastest level of this processor.
    pub fn best() -> Level {
        Level::available().last().unwrap_or(Level::Scalar)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

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
            Level::Avx512 => unsafe { avx512(work) },
            #[cfg(not(target_arch = "x86_64"))]
            Level::Avx2 | Level::Avx512 => unreachable!("is never available here"),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<L: Loop>(work: L) -> L::Result {
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
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
        for level in Level::available() {
            assert_eq!(run(level), run(Level::Scalar), "{level}");
        }
    }
}
