//! Reading JSON.

use super::alir::AlirForms;
use super::json::Json;
use super::{Pipeline, natural_pad};
use crate::binary::output_source;
use crate::isa::{self, Dialect, Fields, Inst};
use crate::program::{LookupTable, Operation, Output, Program, SlotType};
use quincunx_diag::{Diagnostic, Place, Problems, Result};

/// A pipeline has at most this many stages; the deepest real ones have some dozens.
const MAX_STAGES: usize = 4096;

/// What a JSON file holds.
#[derive(Clone, Debug)]
pub struct ReadJson {
    /// The stages; one for a file that is a single program.
    pub pipeline: Pipeline,
    /// [`Dialect::A4`] for a file of alkaid, [`Dialect::D1`] for one of da4ml.
    pub dialect: Dialect,
    /// What a lenient reading passed over.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a program (`[[inputs,outputs],…]`) or a pipeline (`[[program,…]]`) of da4ml, or a program
/// (`{"model":…,"meta":…,"spec_version":…}`) or a pipeline (with `"fsm":…`) of alkaid.
///
/// With `lenient`, unused operand fields that are not -1 are warnings.
///
/// # Errors
/// `Q1061` where the text is not JSON of this form, `Q1062` for lists of different lengths, `Q1055`
/// for an output index below -1, `Q1063` for a lookup whose operand lies too far from 0, `Q1064` for
/// too many stages, `Q1068` for signals of alkaid that are no pipeline, `Q1090` for an object that is
/// not a program of alkaid or of an unknown version, `Q1091` for an opcode that alkaid does not have,
/// `Q1092` for an instruction of alkaid with a wrong number of operands, and what the instruction
/// table says about malformed instructions.
pub fn read_json(text: &str, lenient: bool) -> std::result::Result<ReadJson, Vec<Diagnostic>> {
    let mut reader = Reader { lenient, problems: Problems::default(), alir: None };
    let mut json = Json::new(text);
    let stages = match json.peek() {
        Some(b'{') => reader.alir_file(&mut json),
        _ => reader.file(&mut json),
    };
    match stages {
        Ok(stages) => {
            let dialect = if reader.alir.is_some() { Dialect::A4 } else { Dialect::D1 };
            let pipeline = Pipeline { stages };
            Ok(ReadJson { pipeline, dialect, warnings: reader.problems.warnings()? })
        }
        Err(problem) => {
            reader.problems.push(problem);
            Err(reader.problems.finish())
        }
    }
}

/// True when a text begins as a program of da4ml or alkaid: its ports are well-formed, and operations
/// follow, which may have errors.
pub(crate) fn recognises(text: &str) -> bool {
    let mut reader = Reader { lenient: true, problems: Problems::default(), alir: None };
    let mut json = Json::new(text);
    if json.peek() == Some(b'{') {
        let is_named = |name: &&str| text.contains(*name);
        return ["\"ALIRModel\"", "\"DAISModel\"", "\"ALIRFSM\""].iter().any(is_named)
            || reader.begins_object(&mut json).is_ok();
    }
    reader.begins(&mut json).is_ok()
}

pub(super) struct Reader {
    pub(super) lenient: bool,
    pub(super) problems: Problems,
    /// What was seen of a file of alkaid.
    pub(super) alir: Option<AlirForms>,
}

impl Reader {
    /// Takes the beginning of a program or pipeline, up to its operations.
    fn begins(&mut self, json: &mut Json<'_>) -> Result<()> {
        json.expect(b'[')?;
        json.expect(b'[')?;
        if json.eat(b'[') {
            json.expect(b'[')?;
        }
        self.ports(json)?;
        json.expect(b'[')?;
        if json.eat(b']') { Ok(()) } else { json.expect(b'[') }
    }

    fn begins_object(&mut self, json: &mut Json<'_>) -> Result<()> {
        json.expect(b'{')?;
        if json.string()? != "model" {
            return Err(json.expected("a model"));
        }
        json.expect(b':')?;
        self.begins(json)
    }

    /// A program begins with an array of numbers, a pipeline with an array of arrays.
    fn file(&mut self, json: &mut Json<'_>) -> Result<Vec<Program>> {
        json.expect(b'[')?;
        json.expect(b'[')?;
        let mut stages = Vec::new();
        if json.peek() == Some(b'[') {
            loop {
                json.expect(b'[')?;
                json.expect(b'[')?;
                stages.push(self.program(json)?);
                stages_within_limit(json, stages.len())?;
                if !json.eat(b',') {
                    break;
                }
            }
            json.expect(b']')?;
            json.expect(b']')?;
        } else {
            stages.push(self.program(json)?);
        }
        json.end()?;
        Ok(stages)
    }

    /// A program, after its first two brackets.
    pub(super) fn program(&mut self, json: &mut Json<'_>) -> Result<Program> {
        let mut program = self.ports(json)?;
        program.operations = match self.alir {
            Some(_) => self.alir_operations(json, &mut program.outputs)?,
            None => self.operations(json)?,
        };
        json.expect(b',')?;
        program.carry_size = json.int32()?;
        json.expect(b',')?;
        program.adder_size = json.int32()?;
        // Older files have no tables.
        if json.eat(b',') && !json.null() {
            json.array(|json| {
                program.tables.push(table(json)?);
                Ok(())
            })?;
        }
        json.expect(b']')?;
        self.place_lookups(&mut program);
        Ok(program)
    }

    /// What comes before the operations: inputs and outputs.
    fn ports(&mut self, json: &mut Json<'_>) -> Result<Program> {
        let mut program = Program::default();
        let inputs = json.integer(0, u32::MAX.into())?;
        json.expect(b',')?;
        let outputs = json.integer(0, u32::MAX.into())?;
        json.expect(b']')?;
        json.expect(b',')?;
        program.input_shifts = int32_list(json)?;
        same_length(json, "input shifts", program.input_shifts.len(), inputs)?;
        json.expect(b',')?;
        program.outputs = self.outputs(json, outputs)?;
        json.expect(b',')?;
        Ok(program)
    }

    fn outputs(&mut self, json: &mut Json<'_>, count: i128) -> Result<Vec<Output>> {
        let mut outputs = Vec::new();
        json.array(|json| {
            let offset = json.offset();
            let index = json.integer(i64::MIN.into(), i64::MAX.into())?;
            let source = output_source(outputs.len(), index).map_err(|p| p.at_byte(offset))?;
            outputs.push(Output { source, shift: 0, negate: false });
            Ok(())
        })?;
        same_length(json, "output indices", outputs.len(), count)?;
        json.expect(b',')?;
        let shifts = int32_list(json)?;
        same_length(json, "output shifts", shifts.len(), count)?;
        json.expect(b',')?;
        let mut signs = Vec::new();
        json.array(|json| {
            signs.push(json.boolean()?);
            Ok(())
        })?;
        same_length(json, "output signs", signs.len(), count)?;
        for ((output, shift), negate) in outputs.iter_mut().zip(shifts).zip(signs) {
            *output = Output { source: output.source, shift, negate };
        }
        Ok(outputs)
    }

    fn operations(&mut self, json: &mut Json<'_>) -> Result<Vec<Operation>> {
        let mut operations = Vec::new();
        let mut indices = 0_usize..;
        json.array(|json| {
            let index = indices.next().expect("a file has fewer operations");
            let place = |problem: Diagnostic| problem.at(Place::Instruction(index));
            let draft = Draft::read(json)?;
            match isa::decode(&draft.fields.to_word(), self.lenient).map_err(place) {
                Ok((inst, warnings)) => {
                    operations.push(draft.operation(inst));
                    self.problems.extend(warnings.into_iter().map(place));
                }
                Err(problem) => self.problems.push(problem),
            }
            Ok(())
        })?;
        Ok(operations)
    }

    /// Fills in the pads, which JSON files leave to the interval of the operand.
    fn place_lookups(&mut self, program: &mut Program) {
        for index in 0..program.operations.len() {
            let Inst::Lookup { x, table, .. } = program.operations[index].inst else { continue };
            let operand = program.operations.get(x.0 as usize).filter(|_| (x.0 as usize) < index);
            // An operand that is not causal is the business of `verify`.
            let Some(operand) = operand else { continue };
            match natural_pad(operand.slot_type) {
                Some(pad) => program.operations[index].inst = Inst::Lookup { x, table, pad },
                None => {
                    let message = "the operand of the lookup lies too far from 0";
                    let problem = Diagnostic::unsupported("Q1063", message);
                    self.problems.push(problem.at(Place::Instruction(index)));
                    return;
                }
            }
        }
    }
}

/// An operation before its instruction is decoded.
struct Draft {
    fields: Fields,
    result: Outcome,
}

/// What a file says about the result of an operation.
pub(super) struct Outcome {
    pub(super) slot_type: SlotType,
    pub(super) latency: f64,
    pub(super) cost: f64,
}

impl Outcome {
    /// `[min,max,step],latency,cost]`.
    pub(super) fn read(json: &mut Json<'_>) -> Result<Outcome> {
        json.expect(b'[')?;
        let (min, max, step) = (json.float()?, next_float(json)?, next_float(json)?);
        json.expect(b']')?;
        let (latency, cost) = (next_float(json)?, next_float(json)?);
        json.expect(b']')?;
        Ok(Outcome { slot_type: SlotType::Interval { min, max, step }, latency, cost })
    }
}

impl Draft {
    /// `[id0,id1,opcode,data,[min,max,step],latency,cost]`.
    fn read(json: &mut Json<'_>) -> Result<Draft> {
        json.expect(b'[')?;
        let fields = words(json)?;
        Ok(Draft { fields, result: Outcome::read(json)? })
    }

    fn operation(&self, inst: Inst) -> Operation {
        let Outcome { slot_type, latency, cost } = self.result;
        Operation { inst, slot_type, latency, cost }
    }
}

/// `id0,id1,opcode,data,`.
pub(super) fn words(json: &mut Json<'_>) -> Result<Fields> {
    let mut words = [0; 3];
    for word in &mut words {
        *word = json.int32()?;
        json.expect(b',')?;
    }
    let [id0, id1, opcode] = words;
    let data = json.integer(i64::MIN.into(), u64::MAX.into())?;
    json.expect(b',')?;
    // Modulo 2^64: pipelined mux operations are written without a sign.
    Ok(Fields { opcode, id0, id1, data: data as i64 })
}

/// Error: `Q1064` for a pipeline of too many stages.
pub(super) fn stages_within_limit(json: &Json<'_>, stages: usize) -> Result<()> {
    if stages < MAX_STAGES {
        return Ok(());
    }
    let message = format!("a pipeline has at most {MAX_STAGES} stages");
    Err(Diagnostic::unsupported("Q1064", message).at_byte(json.offset()))
}

fn next_float(json: &mut Json<'_>) -> Result<f64> {
    json.expect(b',')?;
    json.float()
}

fn int32_list(json: &mut Json<'_>) -> Result<Vec<i32>> {
    let mut list = Vec::new();
    json.array(|json| {
        list.push(json.int32()?);
        Ok(())
    })?;
    Ok(list)
}

fn same_length(json: &Json<'_>, what: &str, found: usize, expected: i128) -> Result<()> {
    if i128::try_from(found) == Ok(expected) {
        return Ok(());
    }
    let message = format!("there are {found} {what}, the shape announces {expected}");
    Err(Diagnostic::invalid("Q1062", message).at_byte(json.offset()))
}

/// `{"spec":{"hash":…,"out_qint":{"min":…,"max":…,"step":…},"inp_width":…},"table":[…]}`.
fn table(json: &mut Json<'_>) -> Result<LookupTable> {
    let mut table =
        LookupTable { values: Vec::new(), range: None, operand_width: None, hash: None };
    let mut has_values = false;
    json.object(|json, key| match key {
        "table" => {
            table.values = int32_list(json)?;
            has_values = true;
            Ok(())
        }
        "spec" => table_origin(json, &mut table),
        _ => json.skip(),
    })?;
    if has_values { Ok(table) } else { Err(json.expected("a table with the key \"table\"")) }
}

fn table_origin(json: &mut Json<'_>, table: &mut LookupTable) -> Result<()> {
    json.object(|json, key| {
        match key {
            "hash" => table.hash = Some(json.string()?),
            "inp_width" => {
                let width = json.integer(0, u32::MAX.into())?;
                table.operand_width = u32::try_from(width).ok();
            }
            "out_qint" => {
                let mut range = (0.0, 0.0, 1.0);
                json.object(|json, key| {
                    match key {
                        "min" => range.0 = json.float()?,
                        "max" => range.1 = json.float()?,
                        "step" => range.2 = json.float()?,
                        _ => json.skip()?,
                    }
                    Ok(())
                })?;
                table.range = Some(range);
            }
            _ => json.skip()?,
        }
        Ok(())
    })
}
