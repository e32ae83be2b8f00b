//! A program with what belongs to it: its description and constants.

use crate::arch::TcuArch;
use crate::binary;
use crate::files::{Model, read_data};
use crate::isa::Inst;
use crate::program::Program;
use quincunx_diag::{Diagnostic, Result};

/// Constants with the file that holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstData {
    /// Name of the file.
    pub name: String,
    /// Address of the first vector in DRAM1.
    pub base: u64,
    /// Scalars of whole vectors.
    pub scalars: Vec<i32>,
}

/// A program, perhaps with a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// The program.
    pub program: Program,
    /// Its description; without one its ports are raw memory.
    pub model: Option<Model>,
    /// Its constants.
    pub consts: Vec<ConstData>,
}

impl From<Program> for Package {
    fn from(program: Program) -> Package {
        Package { program, model: None, consts: Vec::new() }
    }
}

impl Package {
    /// Puts the files of a description together; `files` are names without folders and contents.
    ///
    /// # Errors
    /// `Q3070` for a file that is missing, `Q3071` for one of another size than described; those of
    /// [`binary::read`] and [`read_data`].
    pub fn new<B: AsRef<[u8]>>(
        model: Model,
        files: &[(String, B)],
        lenient: bool,
    ) -> std::result::Result<(Package, Vec<Diagnostic>), Vec<Diagnostic>> {
        let find = |wanted: &str| {
            let file = files.iter().find(|(name, _)| name == wanted);
            file.map(|(_, bytes)| bytes.as_ref()).ok_or_else(|| {
                let message = format!("the file {wanted:?} is missing");
                Diagnostic::invalid("Q3070", message).help("put it beside the .tmodel file")
            })
        };
        let one = |problem: Diagnostic| vec![problem];
        let name = &model.prog.file_name;
        let bytes = find(name).map_err(one)?;
        let whole = check_size(bytes, model.prog.size, name).map_err(one);
        // Two-thread programs are longer than upstream says.
        if model.arch.number_of_threads == 1 {
            whole.clone()?;
        }
        let read = binary::read(bytes, &model.arch, lenient)
            .map_err(|problems| name_file(problems, name))?;
        if whole.is_err() && !is_size_without_waits(&read.program, bytes.len(), model.prog.size) {
            whole?;
        }
        let mut consts = Vec::new();
        for part in &model.consts {
            let bytes = find(&part.file_name).map_err(one)?;
            let size = part.size.saturating_mul(model.arch.vector_bytes() as u64);
            check_size(bytes, size, &part.file_name).map_err(one)?;
            let scalars = read_data(bytes, &model.arch)
                .map_err(|problem| one(problem.name_file(&part.file_name)))?;
            consts.push(ConstData { name: part.file_name.clone(), base: part.base, scalars });
        }
        let package = Package { program: read.program, model: Some(model), consts };
        Ok((package, read.warnings))
    }

    /// The machine.
    pub fn arch(&self) -> &TcuArch {
        &self.program.arch
    }
}

/// Upstream's compiler fills the shorter thread up with NoOps after it has taken the size.
fn is_size_without_waits(program: &Program, bytes: usize, size: u64) -> bool {
    let instruction = bytes.checked_div(program.steps.len()).unwrap_or(0);
    let waits = program.steps.iter().filter(|step| matches!(step.inst, Inst::NoOp { .. })).count();
    let rest = bytes.checked_sub(waits.saturating_mul(instruction));
    program.arch.number_of_threads > 1 && rest.is_some_and(|rest| rest as u64 == size)
}

fn check_size(bytes: &[u8], size: u64, name: &str) -> Result<()> {
    if bytes.len() as u64 == size {
        return Ok(());
    }
    let message = format!("the file has {} bytes, its description says {size}", bytes.len());
    Err(Diagnostic::invalid("Q3071", message).name_file(name))
}

fn name_file(problems: Vec<Diagnostic>, name: &str) -> Vec<Diagnostic> {
    problems.into_iter().map(|problem| problem.name_file(name)).collect()
}
