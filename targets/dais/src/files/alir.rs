//! Reading and writing JSON of alkaid: `{"model":…,"meta":"ALIRModel","spec_version":4}`, where the
//! model is an array as da4ml's, with operations of another form.
//! Facts: `alkaid` (`docs/bibliography.md`).
//!
//! Versions 2 and 3 are read as well: the operations of version 2 are words as da4ml's, except that
//! opcode -2 negates and a constant to be added has a scale; a quantiser of version 3 has no shift.

use super::json::Json;
use super::read::{Outcome, Reader, words};
use crate::binary::{Expander, not_in_dialect};
use crate::isa::alir::Lists;
use crate::isa::{self, Dialect, Fields, Inst};
use crate::program::{Operation, Output, Program, Slot};
use quincunx_diag::{Diagnostic, Place, Result};

/// Which forms of operations a file has; each belongs to some of the versions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AlirForms {
    /// Operations in words: version 2.
    words: bool,
    /// Operations in lists: versions 3 and 4.
    lists: bool,
    /// Quantisers without a shift: version 3.
    bare_quantisers: bool,
}

/// Versions that can be read.
const VERSIONS: std::ops::RangeInclusive<i128> = 2..=4;

impl Reader {
    /// A file of alkaid; its version may come after the model.
    pub(super) fn alir_file(&mut self, json: &mut Json<'_>) -> Result<Vec<Program>> {
        self.alir = Some(AlirForms::default());
        let (mut program, mut fsm, mut version, mut meta) = (None, None, None, None);
        json.object(|json, key| {
            match key {
                "model" => {
                    json.expect(b'[')?;
                    json.expect(b'[')?;
                    program = Some(self.program(json)?);
                }
                "meta" => {
                    let offset = json.offset();
                    let name = json.string()?;
                    meta = match name.as_str() {
                        "ALIRModel" | "DAISModel" => Some("model"),
                        "ALIRFSM" => Some("fsm"),
                        _ => None,
                    };
                    if meta.is_none() {
                        let shown: String = name.chars().take(40).collect();
                        let message = format!("the file is a \"{}\"", shown.escape_debug());
                        return Err(Diagnostic::invalid("Q1090", message).at_byte(offset).help(
                            "expected an ALIRModel, a DAISModel (older versions) or an ALIRFSM",
                        ));
                    }
                }
                "fsm" => fsm = Some(self.fsm(json)?),
                "spec_version" => {
                    let offset = json.offset();
                    version = Some(known_version(json).map_err(|p| p.at_byte(offset))?);
                }
                _ => json.skip()?,
            }
            Ok(())
        })?;
        json.end()?;
        let missing = |what: &str| {
            Diagnostic::invalid("Q1090", format!("the object has no \"{what}\""))
                .at_byte(0)
                .help("files of alkaid have \"model\" or \"fsm\", \"meta\" and \"spec_version\"")
        };
        let of = if fsm.is_some() { "fsm" } else { "model" };
        let kind = meta.unwrap_or(of);
        let stages = match (program, fsm) {
            (Some(program), _) if kind == "model" => vec![program],
            (_, Some(fsm)) if kind == "fsm" => {
                let (stages, warnings) = fsm.stages()?;
                self.problems.extend(warnings);
                stages
            }
            _ => return Err(missing(kind)),
        };
        let version = version.ok_or_else(|| missing("spec_version"))?;
        if meta.is_none() {
            return Err(missing("meta"));
        }
        self.alir.unwrap_or_default().check(version)?;
        Ok(stages)
    }

    /// The operations; sums may move slots, and the outputs with them.
    pub(super) fn alir_operations(
        &mut self,
        json: &mut Json<'_>,
        outputs: &mut [Output],
    ) -> Result<Vec<Operation>> {
        let mut expander = Expander::default();
        json.array(|json| {
            let place = Place::Instruction(expander.len());
            json.expect(b'[')?;
            if let Err(problem) = self.alir_operation(json, &mut expander)? {
                self.problems.push(problem.at(place));
                expander.skip();
            }
            Ok(())
        })?;
        for output in outputs {
            output.source = output.source.map(|slot| expander.place(slot));
        }
        Ok(expander.finish())
    }

    /// One operation. The outer error is one of the text, the inner one of the operation.
    fn alir_operation(
        &mut self,
        json: &mut Json<'_>,
        expander: &mut Expander,
    ) -> Result<Result<()>> {
        let mut forms = self.alir.unwrap_or_default();
        let is_list = json.peek() == Some(b'[');
        forms.lists |= is_list;
        forms.words |= !is_list;
        let read = if is_list {
            let lists = read_lists(json, &mut forms)?;
            let Outcome { slot_type, latency, cost } = Outcome::read(json)?;
            expander.push(lists, slot_type, latency, cost)
        } else {
            let fields = words(json)?;
            let Outcome { slot_type, latency, cost } = Outcome::read(json)?;
            let decoded = self.word_inst(fields, slot_type.kif().fraction);
            decoded.map(|inst| expander.push_inst(inst, slot_type, latency, cost))
        };
        self.alir = Some(forms);
        Ok(read)
    }

    /// An instruction of version 2.
    fn word_inst(&mut self, fields: Fields, fraction: i32) -> Result<Inst> {
        let Fields { opcode, id0, .. } = fields;
        let x = u32::try_from(id0).map(Slot);
        match (opcode, x) {
            (-2, Ok(x)) => {
                // The unused words are checked as those of a relu.
                self.decode(Fields { opcode: 2, ..fields })?;
                Ok(Inst::Negate { x })
            }
            (4, Ok(x)) => {
                self.decode(Fields { data: 0, ..fields })?;
                let (value, scale) = (fields.data as i32, fields.data >> 32);
                let data = vec![value.into(), scale];
                Lists { opcode, addr: vec![x], data }.to_inst(fraction)
            }
            _ => self.decode(fields),
        }
    }

    fn decode(&mut self, fields: Fields) -> Result<Inst> {
        let (inst, warnings) = isa::decode(&fields.to_word(), self.lenient)?;
        self.problems.extend(warnings);
        if Dialect::A4.has(inst) { Ok(inst) } else { Err(not_in_dialect(inst, Dialect::A4)) }
    }
}

/// `[slots],opcode,[numbers],`.
fn read_lists(json: &mut Json<'_>, forms: &mut AlirForms) -> Result<Lists> {
    let slot = |slot| Slot(u32::try_from(slot).expect("a number in the range"));
    let addr = json.integers(0, u32::MAX.into(), slot)?;
    json.expect(b',')?;
    let opcode = json.int32()?;
    json.expect(b',')?;
    let number = |number| i64::try_from(number).expect("a number in the range");
    let mut data = json.integers(i64::MIN.into(), i64::MAX.into(), number)?;
    json.expect(b',')?;
    if opcode == 3 && data.is_empty() {
        forms.bare_quantisers = true;
        data.push(0);
    }
    if opcode == 8 {
        // The pad, which follows from the operand; see `place_lookups`.
        data.push(0);
    }
    Ok(Lists { opcode, addr, data })
}

fn known_version(json: &mut Json<'_>) -> Result<i128> {
    let version = json.integer(i64::MIN.into(), i64::MAX.into())?;
    if VERSIONS.contains(&version) {
        return Ok(version);
    }
    let message = format!("version {version} of alkaid's format, expected 2, 3 or 4");
    Err(Diagnostic::unsupported("Q1090", message))
}

impl AlirForms {
    /// Error: `Q1090` when the file has operations of another version than its own.
    fn check(self, version: i128) -> Result<()> {
        let problem = match version {
            2 if self.lists => "lists",
            3 | 4 if self.words => "words",
            4 if self.bare_quantisers => "quantisers without a shift",
            _ => return Ok(()),
        };
        let message =
            format!("version {version} of alkaid's format has no operations as {problem}");
        Err(Diagnostic::invalid("Q1090", message).at_byte(0))
    }
}
