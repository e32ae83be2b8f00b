//! The description of a compiled program, `.tmodel` (`tensil` in `docs/bibliography.md`).

use super::Packing;
use crate::arch::TcuArch;
use crate::arch::json::{json_error, number, unknown_key, unknown_keys};
use quincunx_diag::{Diagnostic, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A `.tmodel` file. Bases and sizes count vectors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// Name of the model.
    pub name: String,
    /// The program.
    pub prog: Prog,
    /// Constants, in DRAM1, or in local memory with `load_consts_to_local`.
    pub consts: Vec<Consts>,
    /// Inputs in DRAM0. An input in several pieces has several entries of one name.
    pub inputs: Vec<Vectors>,
    /// Outputs in DRAM0.
    pub outputs: Vec<Vectors>,
    /// The machine.
    pub arch: TcuArch,
    /// The driver moves the constants from DRAM1 to local memory before the program runs.
    #[serde(default)]
    pub load_consts_to_local: bool,
    /// Inputs that the host packs (ours; upstream knows none). Their vectors hold what is packed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packed: BTreeMap<String, Packing>,
    /// Keys of the file that mean nothing here, each behind those that lead to it; upstream ignores
    /// them as well. Not written.
    #[serde(skip)]
    pub unknown: Vec<String>,
}

/// The file of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prog {
    /// Name without folders.
    pub file_name: String,
    /// Bytes.
    #[serde(deserialize_with = "number")]
    pub size: u64,
}

/// A file of constants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consts {
    /// Name without folders.
    pub file_name: String,
    /// Address of the first vector.
    #[serde(deserialize_with = "number")]
    pub base: u64,
    /// Vectors.
    #[serde(deserialize_with = "number")]
    pub size: u64,
}

/// A piece of an input or output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vectors {
    /// Name of the tensor.
    pub name: String,
    /// Address of the first vector in DRAM0.
    #[serde(deserialize_with = "number")]
    pub base: u64,
    /// Vectors.
    #[serde(deserialize_with = "number")]
    pub size: u64,
}

impl Model {
    /// Reads a description. `name` is for the name of the machine, which the file does not hold.
    ///
    /// # Errors
    /// `Q3030` for other text, `Q3031` for a file name with folders in it, `Q3032` for a piece that
    /// is not in its memory, `Q3033` when the constants do not fit local memory; those of
    /// [`TcuArch::validate`].
    pub fn parse(text: &str) -> Result<Model> {
        let mut model: Model =
            serde_json::from_str(text).map_err(|error| json_error("Q3030", text, &error))?;
        model.arch.name = format!("arch of {}", model.name);
        model.validate()?;
        model.unknown = unknown_keys(text, &model);
        Ok(model)
    }

    /// A warning (`Q3004`) for every key of the file that means nothing here.
    pub fn warnings(&self) -> Vec<Diagnostic> {
        self.unknown.iter().map(|key| unknown_key(key)).collect()
    }

    /// Writes the description as upstream does, on one line.
    pub fn print(&self) -> String {
        serde_json::to_string(self).expect("numbers and text have a JSON form")
    }

    /// The names of its other files.
    pub fn file_names(&self) -> Vec<String> {
        let consts = self.consts.iter().map(|consts| consts.file_name.clone());
        std::iter::once(self.prog.file_name.clone()).chain(consts).collect()
    }

    fn validate(&self) -> Result<()> {
        self.arch.validate()?;
        for name in self.file_names() {
            let plain = !name.is_empty()
                && name != "."
                && name != ".."
                && !name.contains(['/', '\\', '\0']);
            if !plain {
                let message = format!("\"{}\" is not a plain file name", name.escape_debug());
                return Err(Diagnostic::invalid("Q3031", message));
            }
        }
        for consts in &self.consts {
            let what = format!("constants {:?}", consts.file_name);
            within(&what, consts.base, consts.size, self.arch.dram1_depth, "DRAM1")?;
        }
        for piece in self.inputs.iter().chain(&self.outputs) {
            let what = format!("{:?}", piece.name);
            within(&what, piece.base, piece.size, self.arch.dram0_depth, "DRAM0")?;
        }
        self.validate_packed()?;
        self.validate_local()
    }

    /// What is packed fills the vectors of its input.
    fn validate_packed(&self) -> Result<()> {
        let lanes = self.arch.lanes();
        for (name, packing) in &self.packed {
            let [n, channels, h, w] = packing.packed_shape()?;
            let extents = [n, h, w, channels.div_ceil(lanes)];
            let vectors = extents.iter().fold(1_u64, |all, &e| all.saturating_mul(e as u64));
            let pieces = self.inputs.iter().filter(|piece| piece.name == *name);
            let size = pieces.map(|piece| piece.size).fold(0, u64::saturating_add);
            if vectors != size {
                let message = format!("the packed input {name:?} is {vectors} vectors, not {size}");
                return Err(Diagnostic::invalid("Q3117", message));
            }
        }
        Ok(())
    }

    /// Constants that the driver moves to local memory lie there as in DRAM1.
    fn validate_local(&self) -> Result<()> {
        let local = self.arch.local_depth;
        let end = self.consts.iter().map(|consts| consts.base.saturating_add(consts.size)).max();
        match end.filter(|&end| self.load_consts_to_local && end > local) {
            None => Ok(()),
            Some(end) => Err(Diagnostic::invalid(
                "Q3033",
                format!("{end} vectors of constants do not fit local memory of {local} vectors"),
            )),
        }
    }
}

fn within(what: &str, base: u64, size: u64, depth: u64, memory: &str) -> Result<()> {
    match base.checked_add(size) {
        Some(end) if end <= depth => Ok(()),
        _ => Err(Diagnostic::invalid(
            "Q3032",
            format!("{what}: {size} vectors at {base} are not in {memory} of {depth} vectors"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong is said in words of ours where the text is not JSON at all.
    #[test]
    fn broken_text_is_named() {
        for (text, message) in [
            ("{\"name\": \"x", "the JSON text ends too early"),
            ("{name: 1}", "this is not JSON: key must be a string"),
            ("{\"name\": 1}", "invalid type: integer `1`, expected a string"),
        ] {
            let problem = Model::parse(text).unwrap_err();
            assert_eq!((problem.code(), problem.message()), ("Q3030", message));
        }
    }

    /// As upstream does; newer and older files have keys of their own.
    #[test]
    fn unknown_keys_are_ignored_and_named() {
        let arch = TcuArch::preset("pynqz1").unwrap();
        let inputs = vec![Vectors { name: "x".to_owned(), base: 0, size: 3 }];
        let model = Model {
            name: "m".to_owned(),
            prog: Prog { file_name: "m.tprog".to_owned(), size: 8 },
            consts: Vec::new(),
            outputs: inputs.clone(),
            inputs,
            arch: TcuArch { name: "arch of m".to_owned(), ..arch },
            load_consts_to_local: false,
            packed: BTreeMap::new(),
            unknown: Vec::new(),
        };
        let text = model.print();
        let more = text
            .replacen("\"base\":0", "\"base\":0,\"dims\":[1]", 1)
            .replacen("\"array_size\"", "\"axi\":true,\"array_size\"", 1)
            .replacen("\"prog\":{", "\"version\":2,\"prog\":{\"size_hint\":1,", 1);
        let read = Model::parse(&more).unwrap();
        assert_eq!(read.unknown, ["arch.axi", "inputs.0.dims", "prog.size_hint", "version"]);
        assert!(read.warnings().iter().all(|warning| warning.code() == "Q3004"));
        assert_eq!(read.print(), text);
        assert_eq!(Model::parse(&text).unwrap(), model);
    }
}
