//! The random numbers of numpy, by which golden cases state their inputs.

/// `numpy.random.PCG64`: a linear congruential generator of 128 bits that is stepped before every
/// word, whose halves are joined and rotated.
pub(super) struct Pcg64 {
    state: u128,
    increment: u128,
}

impl Pcg64 {
    const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

    /// The generator of a seed.
    pub(super) fn new(seed: u32) -> Pcg64 {
        let [a, b, c, d] = spread(seed).map(u128::from);
        let mut generator = Pcg64 { state: 0, increment: (c << 64 | d) << 1 | 1 };
        generator.step();
        generator.state = generator.state.wrapping_add(a << 64 | b);
        generator.step();
        generator
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(Self::MULTIPLIER).wrapping_add(self.increment);
    }

    /// The next word.
    pub(super) fn word(&mut self) -> u64 {
        self.step();
        let joined = (self.state >> 64) as u64 ^ self.state as u64;
        joined.rotate_right((self.state >> 122) as u32)
    }

    /// The next number of `uniform(low, high)`.
    pub(super) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.word() >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

/// Four words of `numpy.random.SeedSequence` for a seed.
fn spread(seed: u32) -> [u64; 4] {
    let mut constant = 0x43b0_d7e5_u32;
    let mut hash = |word: u32| {
        let mixed = word ^ constant;
        constant = constant.wrapping_mul(0x931e_8875);
        let mixed = mixed.wrapping_mul(constant);
        mixed ^ mixed >> 16
    };
    let mut pool = [seed, 0, 0, 0].map(&mut hash);
    for from in 0..4 {
        for to in (0..4).filter(|&to| to != from) {
            let left = 0xca01_f9dd_u32.wrapping_mul(pool[to]);
            let mixed = left.wrapping_sub(0x4973_f715_u32.wrapping_mul(hash(pool[from])));
            pool[to] = mixed ^ mixed >> 16;
        }
    }
    let mut constant = 0x8b51_f9dd_u32;
    let mut half = |word: u32| {
        let mixed = word ^ constant;
        constant = constant.wrapping_mul(0x58f3_8ded);
        let mixed = mixed.wrapping_mul(constant);
        u64::from(mixed ^ mixed >> 16)
    };
    [0, 2, 0, 2].map(|at| half(pool[at]) | half(pool[at + 1]) << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_numpy() {
        let mut generator = Pcg64::new(2020);
        let words = [0x77e3_00cf_0a11_2a96, 0x83ab_eeb5_b8a0_28b7, 0xdd2e_5604_afa8_9c75];
        assert_eq!(words.map(|_| generator.word()), words);
        let mut generator = Pcg64::new(2020);
        let numbers = [0, 1, 2].map(|_| (generator.uniform(-1.0, 1.0) * 256.0).round());
        assert_eq!(numbers, [-16.0, 7.0, 186.0]);
    }
}
