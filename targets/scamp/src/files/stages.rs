//! What super-pixel files ask for around their kernels: analogue values in and out, biases, ReLU.
//!
//! The fields are those of `cain` (`docs/bibliography.md`); what they mean in detail is ours, and
//! stands in the README of this target.

#![allow(clippy::arithmetic_side_effects, reason = "numbers have up to 32 bits")]

use super::kernel::{Read, collect_names, missing, object, wrong};
use crate::isa::Reg;
use quincunx_diag::{Diagnostic, did_you_mean};
use quincunx_graph::{Param, Quantiser};
use quincunx_num::{Overflow, Rounding};
use serde_json::{Map, Value};

/// Bits of an analogue value: it is taken to be -128 to 127.
const ANALOGUE_BITS: usize = 8;

/// A channel of a converter: its bits stand for the highest of an analogue value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Converter {
    /// How many bits it has.
    pub(crate) bits: usize,
    /// The bit of the number, counted from 0, which its lowest one is.
    pub(crate) unit: usize,
    /// The analogue register.
    pub(crate) analogue: Reg,
    /// The number.
    pub(crate) number: String,
}

impl Converter {
    /// The position of its highest bit in the number.
    pub(crate) fn top(&self) -> usize {
        (self.unit + self.bits).saturating_sub(1)
    }

    /// What a number is for an analogue value of 1.
    pub(crate) fn gain(&self) -> f64 {
        2.0_f64.powi(self.unit as i32 + self.bits as i32 - ANALOGUE_BITS as i32)
    }
}

/// Constants that are added to results.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bias {
    /// Whole numbers.
    pub(crate) amounts: Vec<i64>,
    /// The register that holds the constants.
    pub(crate) register: Reg,
    /// The numbers they are added to.
    pub(crate) from: Vec<String>,
    /// Where the sums go.
    pub(crate) to: Vec<String>,
}

/// The stages that a file enables.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stages {
    /// Numbers from analogue values.
    pub(crate) adc: Vec<Converter>,
    /// What converts them.
    pub(crate) scratch: Option<Reg>,
    /// Biases.
    pub(crate) bias: Option<Bias>,
    /// Numbers that ReLU changes.
    pub(crate) relu: Vec<String>,
    /// Analogue values from numbers.
    pub(crate) dac: Vec<Converter>,
}

/// True for two names of one number: bank 0 need not be named.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let parts = |name| str::split_once(name, ':').map_or(("0", name), |(bank, name)| (bank, name));
    parts(one) == parts(other)
}

/// Refuses fields that are not known, which could ask for something.
fn check_fields(name: &str, fields: &Map<String, Value>, known: &[&'static str]) -> Read<()> {
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let problem = wrong(&format!("{name}.{key}"), "the field is unknown".to_owned());
            Err(problem.help_if(did_you_mean(key, known.iter().copied())))
        }
    }
}

fn is_enabled(name: &str, fields: &Map<String, Value>) -> Read<bool> {
    let enabled = fields.get("enabled").and_then(Value::as_bool);
    enabled.ok_or_else(|| missing(&format!("{name}.enabled"), "true or false"))
}

fn count(name: &str, fields: &Map<String, Value>, key: &str, most: usize) -> Read<usize> {
    let name = format!("{name}.{key}");
    let value = fields.get(key).and_then(Value::as_u64);
    let value = value.ok_or_else(|| missing(&name, "a whole number"))?;
    let count = usize::try_from(value).ok().filter(|count| (1..=most).contains(count));
    count.ok_or_else(|| wrong(&name, format!("{value}, expected 1 to {most}")))
}

fn register(name: &str, fields: &Map<String, Value>, key: &str) -> Read<Reg> {
    let name = format!("{name}.{key}");
    let text = fields.get(key).and_then(Value::as_str).ok_or_else(|| missing(&name, "a name"))?;
    Reg::new(text).ok_or_else(|| wrong(&name, format!("{text:?} is not the name of a register")))
}

fn names(name: &str, fields: &Map<String, Value>, key: &str) -> Read<Vec<String>> {
    let (mut list, name) = (Vec::new(), format!("{name}.{key}"));
    collect_names(fields.get(key).unwrap_or(&Value::Null), &name, None, &mut list)?;
    Ok(list)
}

impl Stages {
    /// Reads `adc`, `dac`, `bias` and `activation` of numbers of so many bits.
    pub(super) fn read(fields: &Map<String, Value>, bits: usize) -> Read<Stages> {
        let (adc, scratch) = converters(fields, "adc", bits)?;
        let (dac, _) = converters(fields, "dac", bits)?;
        if !adc.is_empty() && scratch.is_none() {
            return Err(missing("pairGen.adc.analogueScratchReg", "a name"));
        }
        let (bias, relu) = (bias(fields, bits)?, relu(fields)?);
        Ok(Stages { adc, scratch, bias, relu, dac })
    }

    /// The names of those that are enabled.
    pub(crate) fn enabled(&self) -> impl Iterator<Item = &'static str> + use<> {
        let all = [
            ("adc", !self.adc.is_empty()),
            ("dac", !self.dac.is_empty()),
            ("bias", self.bias.is_some()),
            ("activation", !self.relu.is_empty()),
        ];
        all.into_iter().filter(|(_, is_enabled)| *is_enabled).map(|(name, _)| name)
    }
}

/// The enabled channels of a converter, and its scratch register.
fn converters(
    fields: &Map<String, Value>,
    key: &str,
    bits: usize,
) -> Read<(Vec<Converter>, Option<Reg>)> {
    if !fields.contains_key(key) {
        return Ok((Vec::new(), None));
    }
    let (fields, name) = (object(fields, key)?, format!("pairGen.{key}"));
    check_fields(&name, fields, &["analogueScratchReg", "channels"])?;
    let scratch = "analogueScratchReg";
    let scratch = fields.get(scratch).map(|_| register(&name, fields, scratch)).transpose()?;
    let name = format!("{name}.channels");
    let channels = fields.get("channels").and_then(Value::as_array);
    let mut list = Vec::new();
    for channel in channels.ok_or_else(|| missing(&name, "a list of objects"))? {
        let channel = channel.as_object().ok_or_else(|| missing(&name, "a list of objects"))?;
        let known = ["enabled", "bitDepth", "unitBit", "analogueReg", "digitalReg"];
        check_fields(&name, channel, &known)?;
        if !is_enabled(&name, channel)? {
            continue;
        }
        let number = channel.get("digitalReg").and_then(Value::as_str);
        let converter = Converter {
            bits: count(&name, channel, "bitDepth", ANALOGUE_BITS)?,
            unit: count(&name, channel, "unitBit", bits)? - 1,
            analogue: register(&name, channel, "analogueReg")?,
            number: number.ok_or_else(|| missing(&name, "the name `digitalReg`"))?.to_owned(),
        };
        if converter.top() >= bits {
            let what = format!("bits {} to {}", converter.unit + 1, converter.top() + 1);
            return Err(wrong(&name, format!("{what} of numbers that have {bits}")));
        }
        list.push(converter);
    }
    Ok((list, scratch))
}

/// The biases, where they are enabled.
fn bias(fields: &Map<String, Value>, bits: usize) -> Read<Option<Bias>> {
    if !fields.contains_key("bias") {
        return Ok(None);
    }
    let (fields, name) = (object(fields, "bias")?, "pairGen.bias");
    let known = ["enabled", "unitBit", "weights", "biasReg", "inRegisters", "outRegisters"];
    check_fields(name, fields, &known)?;
    if !is_enabled(name, fields)? {
        return Ok(None);
    }
    let unit = count(name, fields, "unitBit", bits)? - 1;
    let weights = fields.get("weights").and_then(Value::as_array);
    let amount = |weight: &Value| {
        let amount = (weight.as_f64()? * 2.0_f64.powi(unit as i32)).trunc();
        (amount.abs() < 2.0_f64.powi(bits as i32)).then_some(amount as i64)
    };
    let amounts = weights.and_then(|list| list.iter().map(amount).collect::<Option<Vec<_>>>());
    let amounts = amounts
        .ok_or_else(|| missing("pairGen.bias.weights", &format!("numbers of {bits} bits")))?;
    let (from, to) = (names(name, fields, "inRegisters")?, names(name, fields, "outRegisters")?);
    if from.len() != amounts.len() || to.len() != amounts.len() {
        let what = format!("{} registers, {} weights", from.len().max(to.len()), amounts.len());
        return Err(wrong(name, what));
    }
    Ok(Some(Bias { amounts, register: register(name, fields, "biasReg")?, from, to }))
}

/// The numbers that ReLU changes.
fn relu(fields: &Map<String, Value>) -> Read<Vec<String>> {
    if !fields.contains_key("activation") {
        return Ok(Vec::new());
    }
    let (fields, name) = (object(fields, "activation")?, "pairGen.activation");
    check_fields(name, fields, &["name", "registers", "enabled"])?;
    if !is_enabled(name, fields)? {
        return Ok(Vec::new());
    }
    match fields.get("name").and_then(Value::as_str) {
        Some(word) if word.eq_ignore_ascii_case("relu") => names(name, fields, "registers"),
        _ => Err(wrong("pairGen.activation.name", "expected relu".to_owned())),
    }
}

/// What the stages make of the channels of a network.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Around {
    /// The converter of every input; none where numbers enter.
    pub(crate) adc: Vec<Converter>,
    /// Where every result is when its bias was added.
    pub(crate) outputs: Vec<String>,
    /// The bias of every result; `None` without.
    pub(crate) bias: Option<Vec<i64>>,
    /// Results that ReLU changes.
    pub(crate) relu: Vec<bool>,
    /// The converters of the results that leave as analogue values.
    pub(crate) dac: Vec<Option<Converter>>,
}

impl Around {
    /// The stages on inputs and results of these names.
    ///
    /// # Errors
    /// `Q5052` for stages on numbers that are none of them, `Q5127` where some inputs are converted and
    /// others not.
    pub(crate) fn new(stages: &Stages, inputs: &[String], outputs: &[String]) -> Read<Around> {
        let mut around = Around {
            adc: Vec::new(),
            outputs: outputs.to_vec(),
            bias: None,
            relu: vec![false; outputs.len()],
            dac: vec![None; outputs.len()],
        };
        let adc = found("adc.channels", &stages.adc, inputs)?;
        if !adc.is_empty() && adc.len() < inputs.len() {
            let message = format!("{} of {} inputs are converted", adc.len(), inputs.len());
            let problem = Diagnostic::unsupported("Q5127", format!("`pairGen.adc`: {message}"));
            return Err(problem.help("convert all of them, or none"));
        }
        around.adc = adc.into_iter().map(|(converter, _)| converter).collect();
        if let Some(bias) = &stages.bias {
            let mut amounts = vec![0; outputs.len()];
            let twice = bias
                .from
                .iter()
                .enumerate()
                .find(|(at, name)| bias.from[..*at].iter().any(|other| is_same(name, other)));
            if let Some((_, name)) = twice {
                let what = format!("{name:?} has two biases");
                return Err(wrong("pairGen.bias.inRegisters", what));
            }
            for ((from, to), &amount) in bias.from.iter().zip(&bias.to).zip(&bias.amounts) {
                let at = index("bias.inRegisters", from, outputs)?;
                (amounts[at], around.outputs[at]) = (amount, to.clone());
            }
            around.bias = Some(amounts);
        }
        for name in &stages.relu {
            around.relu[index("activation.registers", name, &around.outputs)?] = true;
        }
        for (converter, at) in found("dac.channels", &stages.dac, &around.outputs)? {
            around.dac[at] = Some(converter);
        }
        Ok(around)
    }

    /// How numbers become those that enter: factors, where they are not 1, and a grid.
    pub(crate) fn enter(&self, grid: Quantiser) -> (Option<Vec<f64>>, Quantiser) {
        match self.adc.is_empty() {
            true => (None, grid),
            false => {
                let gains = self.adc.iter().map(Converter::gain).collect();
                (factors(gains), self.grid(self.adc.iter().map(|c| (c.bits, c.unit)).collect()))
            }
        }
    }

    /// How results become analogue values: a grid, and factors where they are not 1. Other results
    /// have `bits` bits.
    pub(crate) fn leave(&self, bits: usize) -> Option<(Quantiser, Option<Vec<f64>>)> {
        self.dac.iter().any(Option::is_some).then(|| {
            let steps =
                |of: &Option<Converter>| of.as_ref().map_or((bits, 0), |c| (c.bits, c.unit));
            let gain = |of: &Option<Converter>| of.as_ref().map_or(1.0, |c| 1.0 / c.gain());
            let grid = self.grid(self.dac.iter().map(steps).collect());
            (grid, factors(self.dac.iter().map(gain).collect()))
        })
    }

    /// The grid of channels with so many bits from a unit on, which stop at their ends.
    fn grid(&self, channels: Vec<(usize, usize)>) -> Quantiser {
        let shape = [channels.len(), 1, 1];
        let widths = channels.iter().map(|(bits, _)| *bits as u32).collect();
        let scales = channels.iter().map(|(_, unit)| 2.0_f64.powi(*unit as i32)).collect();
        let one = Quantiser::symmetric(true, 1, 1.0);
        Quantiser {
            width: Param::new(&shape, widths).expect(EACH),
            scale: Param::new(&shape, scales).expect(EACH),
            rounding: Param::uniform(Rounding::Floor),
            overflow: Param::uniform(Overflow::Saturate),
            signed: one.signed,
            zero: one.zero,
        }
    }
}

const EACH: &str = "one for each channel";

fn factors(list: Vec<f64>) -> Option<Vec<f64>> {
    list.iter().any(|&factor| factor != 1.0).then_some(list)
}

fn index(field: &str, name: &str, names: &[String]) -> Read<usize> {
    let at = names.iter().position(|other| is_same(name, other));
    at.ok_or_else(|| {
        let what = format!("{name:?} is none of {}", names.join(", "));
        wrong(&format!("pairGen.{field}"), what)
    })
}

/// The converters in the order of the channels they are for, one for each at most.
fn found(field: &str, list: &[Converter], names: &[String]) -> Read<Vec<(Converter, usize)>> {
    let place = |c: &Converter| Ok((c.clone(), index(field, &c.number, names)?));
    let mut all = list.iter().map(place).collect::<Read<Vec<_>>>()?;
    all.sort_by_key(|(_, at)| *at);
    match all.windows(2).find(|pair| pair[0].1 == pair[1].1) {
        Some(pair) => {
            let what = format!("{:?} is in two channels", pair[0].0.number);
            Err(wrong(&format!("pairGen.{field}"), what))
        }
        None => Ok(all),
    }
}
