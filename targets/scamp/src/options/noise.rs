//! The errors of the device.

use crate::arch::ScampArch;
use crate::files::read_noise;
use crate::simulate::Noise;
use quincunx_contract::Options;
use quincunx_diag::Result;

/// What the noise file says, if there is one, for an array of so many columns and rows.
pub(super) fn of_file(
    options: &Options,
    arch: &ScampArch,
    (width, height): (usize, usize),
) -> Result<Option<Noise>> {
    let path = options.get("noise");
    (!path.is_empty()).then(|| read_noise(path, arch, (height, width))).transpose()
}

/// The errors of the device: those of the noise file, where options do not say otherwise.
pub(super) fn noise(
    options: &Options,
    arch: &ScampArch,
    size: (usize, usize),
) -> Result<Option<Noise>> {
    let mut noise = of_file(options, arch, size)?.unwrap_or_default();
    for (name, write) in
        ["noise-bus", "noise-bus2", "noise-bus3"].into_iter().zip(&mut noise.writes)
    {
        write.sigma = options.real_or(name).unwrap_or(write.sigma);
    }
    noise.mismatch.sigma = options.real_or("mismatch").unwrap_or(noise.mismatch.sigma);
    noise.seed = options.whole_or("seed").unwrap_or(noise.seed);
    noise.scale(options.real("noise-scale"));
    Ok((!noise.is_none()).then_some(noise))
}
