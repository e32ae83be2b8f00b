//! Errors of the device: noise of every write, and the mismatch of registers that share charge.

/// Standard deviations, in the unit of the values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Of a write by a bus instruction with one receiver, two, and three or more.
    pub sigma: [f64; 3],
    /// Of the share that a register takes too much when several receive; fixed for each register of
    /// each element, and the shares of a step sum up to the whole.
    pub mismatch: f64,
    /// Which device and which run.
    pub seed: u64,
}

impl Noise {
    /// Noise of the write number `step` of an element into its receiver number `receiver`.
    pub(super) fn write(
        &self,
        receivers: usize,
        step: usize,
        element: usize,
        receiver: usize,
    ) -> f64 {
        let sigma = self.sigma[receivers.clamp(1, 3) - 1];
        if sigma == 0.0 {
            return 0.0;
        }
        sigma * gaussian(self.seed, [step as u64, element as u64, receiver as u64, 1])
    }

    /// What each receiver gets too much, for a step into these registers of an element.
    pub(super) fn shares(&self, registers: &[usize], element: usize, shares: &mut [f64]) {
        let excess = |register: usize| gaussian(self.seed, [register as u64, element as u64, 0, 2]);
        let mut sum = 0.0;
        for (share, &register) in shares.iter_mut().zip(registers) {
            *share = excess(register);
            sum += *share;
        }
        let mean = sum / registers.len() as f64;
        for share in &mut shares[..registers.len()] {
            *share = self.mismatch * (*share - mean);
        }
    }
}

fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A normally distributed number that the key determines (Box and Muller).
fn gaussian(seed: u64, key: [u64; 4]) -> f64 {
    let hash = key.iter().fold(mix(seed), |hash, &part| mix(hash ^ part));
    let unit = |bits: u64| ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    let (radius, angle) = (unit(hash), unit(mix(hash)));
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation() {
        let noise = Noise { sigma: [0.5, 1.0, 2.0], mismatch: 0.25, seed: 3 };
        for (receivers, sigma) in [(1, 0.5), (2, 1.0), (3, 2.0), (6, 2.0)] {
            let draws: Vec<f64> = (0..20_000).map(|e| noise.write(receivers, 4, e, 0)).collect();
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            let square = draws.iter().map(|d| (d - mean) * (d - mean)).sum::<f64>();
            let deviation = (square / draws.len() as f64).sqrt();
            assert!(mean.abs() < 0.05 * sigma && (deviation / sigma - 1.0).abs() < 0.03);
        }
    }

    #[test]
    fn shares_are_fixed_and_sum_up() {
        let noise = Noise { mismatch: 0.25, seed: 9, ..Noise::default() };
        let mut shares = [0.0; 3];
        noise.shares(&[4, 1, 2], 77, &mut shares);
        assert!(shares.iter().sum::<f64>().abs() < 1e-12 && shares[0] != 0.0);
        let (mut two, mut again) = ([0.0; 2], [0.0; 2]);
        noise.shares(&[1, 2], 5, &mut two);
        noise.shares(&[2, 1], 5, &mut again);
        assert_eq!(two, [again[1], again[0]]);
    }
}
