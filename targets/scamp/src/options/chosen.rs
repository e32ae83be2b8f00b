//! What a reader keeps with a program.

use super::noise::noise;
use super::{edge, readout, size, wrong};
use crate::arch::ScampArch;
use crate::readout::Readout;
use crate::simulate::{Settings, WorkLimit};
use crate::time::Model;
use quincunx_contract::Options;
use quincunx_diag::Result;

/// The values of the options.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) fix: bool,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) settings: Settings,
    pub(crate) model: Model,
    pub(crate) readout: Readout,
    pub(crate) half: bool,
    pub(crate) simulator: String,
    pub(crate) function: String,
    /// Programs are written for a simulator unless another kind is asked for.
    pub(crate) jss: bool,
}

fn word(options: &Options, name: &str) -> Result<String> {
    let text = options.get(name);
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_word.then(|| text.to_owned()).ok_or_else(|| wrong(name, text, "a name"))
}

impl Chosen {
    /// # Errors
    /// `Q5013` for a value that means nothing, `Q5055` for options that contradict each other.
    pub(crate) fn new(options: &Options, arch: &ScampArch) -> Result<Chosen> {
        let (width, height) = size(options.get("size"), arch)?;
        let settings = Settings {
            edge: edge(options),
            noise: noise(options, arch, (width, height))?,
            saturation: options.flag("saturate").then_some(arch.saturation),
            work: WorkLimit(1_000_000 * options.whole::<u64>("max-work")),
        };
        Ok(Chosen {
            fix: options.flag("fix"),
            width,
            height,
            settings,
            model: Model::from_name(options.get("cost-model")),
            readout: readout(options, width.saturating_mul(height))?,
            half: options.get("input-range") == "half",
            simulator: word(options, "simulator-name")?,
            function: word(options, "function")?,
            jss: options.get("text-format") == "jss",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::OPTIONS;
    use quincunx_contract::ArchSource;

    #[test]
    fn the_default_limit_is_the_one_of_the_library() {
        let options = Options::new(OPTIONS, &[]).unwrap();
        let chosen = Chosen::new(&options, &ScampArch::from_source(&ArchSource::Default).unwrap());
        assert_eq!(chosen.unwrap().settings.work, WorkLimit::default());
    }
}
