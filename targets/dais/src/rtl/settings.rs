//! Options of the generated files: `--clock` and `--set rtl-…=…`.

use super::names::module_name;
use quincunx_contract::{OptionInfo, Options, Use};
use quincunx_diag::{Diagnostic, Result};

/// Most vectors of a testbench.
pub(super) const MAX_VECTORS: usize = 1 << 20;

/// The options, for the target's list.
pub(crate) const OPTIONS: [OptionInfo; 10] = [
    OptionInfo::real(
        "clock",
        "clock period in ns, for times and in generated constraints",
        "5",
        0.01..=1e6,
    ).used_by(&[Use::Time, Use::Summary, Use::Write, Use::Show]),
    OptionInfo::text(
        "rtl-name",
        "name of the generated module; auto takes that of the files",
        "auto",
    ).used_by(&[Use::Write]),
    OptionInfo::whole(
        "rtl-registers",
        "registers behind the input and every stage of generated logic, 0 for none; auto is 1 for a \
         pipeline and 0 for a single program",
        "auto",
        0..=16,
    )
    .or("auto").used_by(&[Use::Time, Use::Write]),
    OptionInfo::whole(
        "rtl-vectors",
        "random vectors of a generated testbench",
        "64",
        1..=MAX_VECTORS as i128,
    ).used_by(&[Use::Write]),
    OptionInfo::text(
        "rtl-inputs",
        "inputs for the testbench instead of random ones: an .npy or .npz file, samples first",
        "none",
    ).used_by(&[Use::Write]),
    OptionInfo::text("rtl-part", "part in the generated Vivado script", "xcvu13p-flga2577-2-e").used_by(&[Use::Write]),
    OptionInfo::text("rtl-device", "device in the generated Quartus script", "10AX115S2F45I1SG").used_by(&[Use::Write]),
    OptionInfo::real(
        "rtl-uncertainty",
        "clock uncertainty as a share of the period",
        "0.1",
        0.0..=0.999,
    ).used_by(&[Use::Write]),
    OptionInfo::text(
        "rtl-io-delay",
        "shortest and longest delay outside the ports, in ns",
        "0.2,0.4",
    ).used_by(&[Use::Write]),
    OptionInfo::real(
        "level-delay",
        "ns that an adder level is assumed to take on the part, with the way to the next one, to \
         judge whether a program meets the clock",
        "0.8",
        1e-6..=1e6,
    ).used_by(&[Use::Summary]),
];

/// What the options say.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of the module; that of the files if absent.
    pub name: Option<String>,
    /// Registers at every boundary; absent for the default.
    pub registers: Option<u32>,
    /// Random vectors of the testbench.
    pub vectors: usize,
    /// A file with inputs for the testbench.
    pub inputs: Option<String>,
    /// Part for Vivado.
    pub part: String,
    /// Device for Quartus.
    pub device: String,
    /// Clock period in ns, of times as well.
    pub clock: f64,
    /// Share of the period that is uncertain.
    pub uncertainty: f64,
    /// Shortest and longest delay outside the ports in ns.
    pub io_delay: (f64, f64),
    /// What a unit of latency is assumed to take, in ns.
    pub level_delay: f64,
}

impl Settings {
    /// Reads the options.
    ///
    /// # Errors
    /// `Q1182` for a value that an option cannot have.
    pub(crate) fn new(options: &Options) -> Result<Settings> {
        let (first, second) = options
            .get("rtl-io-delay")
            .split_once(',')
            .ok_or_else(|| bad("rtl-io-delay", options))?;
        let delay = |text: &str| number(text).filter(|delay| (0.0..=1e6).contains(delay));
        let io_delay = delay(first).zip(delay(second)).filter(|(short, long)| short <= long);
        Ok(Settings {
            name: unless(options.get("rtl-name"), "auto").map(module_name),
            registers: options.whole_or("rtl-registers"),
            vectors: options.whole("rtl-vectors"),
            inputs: unless(options.get("rtl-inputs"), "none").map(str::to_owned),
            part: part("rtl-part", options)?,
            device: part("rtl-device", options)?,
            clock: options.real("clock"),
            uncertainty: options.real("rtl-uncertainty"),
            io_delay: io_delay.ok_or_else(|| bad("rtl-io-delay", options))?,
            level_delay: options.real("level-delay"),
        })
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            name: None,
            registers: None,
            vectors: 64,
            inputs: None,
            part: "xcvu13p-flga2577-2-e".to_owned(),
            device: "10AX115S2F45I1SG".to_owned(),
            clock: 5.0,
            uncertainty: 0.1,
            io_delay: (0.2, 0.4),
            level_delay: 0.8,
        }
    }
}

fn unless<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    (text != word).then_some(text)
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|value: &f64| value.is_finite())
}

/// Parts are letters, digits and a few signs; they go into scripts as they are.
fn part(name: &str, options: &Options) -> Result<String> {
    let text = options.get(name);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(bad(name, options)),
    }
}

fn bad(name: &str, options: &Options) -> Diagnostic {
    let expected = match name {
        "rtl-io-delay" => "two numbers of nanoseconds such as 0.2,0.4, the shorter one first",
        _ => "letters, digits, -, _ and . only",
    };
    let message = format!("option {name} is {:?}, expected {expected}", options.get(name));
    Diagnostic::usage("Q1182", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(name: &str, value: &str) -> Result<Settings> {
        Settings::new(&Options::new(&OPTIONS, &[(name.to_owned(), value.to_owned())]).unwrap())
    }

    #[test]
    fn values_are_checked() {
        assert_eq!(
            Settings::new(&Options::new(&OPTIONS, &[]).unwrap()).unwrap(),
            Settings::default()
        );
        for (name, value) in [
            ("rtl-io-delay", "0.4,0.2"),
            ("rtl-io-delay", "1"),
            ("rtl-part", "a; exec rm"),
            ("rtl-device", ""),
        ] {
            assert_eq!(settings(name, value).unwrap_err().code(), "Q1182", "{name} {value}");
        }
        assert_eq!(settings("clock", "2.5").unwrap().clock, 2.5);
        assert_eq!(settings("rtl-registers", "2").unwrap().registers, Some(2));
        assert_eq!(settings("rtl-name", "my net").unwrap().name.as_deref(), Some("my_net"));
    }
}
