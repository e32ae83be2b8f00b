//! What was worked out once and holds for equal operands elsewhere in the network.

use super::expr::Expr;
use super::linear::{Problem, Solved, Template};
use super::number::{Affine, Form};
use super::plan::{Plan, Question};
use quincunx_diag::Diagnostic;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// The memory of one compilation.
#[derive(Default)]
pub(super) struct Memory {
    affine: FxHashMap<Affine, Rc<Form>>,
    functions: FxHashMap<Rc<Expr>, Rc<Form>>,
    pub(super) plans: FxHashMap<Question, Result<Rc<Plan>, Diagnostic>>,
    pub(super) templates: FxHashMap<Problem, Rc<Template>>,
    /// Adder graphs by matrix.
    pub(super) solved: FxHashMap<usize, Vec<Rc<Solved>>>,
    /// How many matrices there were so far.
    pub(super) matrices: usize,
}

impl Memory {
    /// The shared form of `unit * x + offset`.
    pub(super) fn affine(&mut self, affine: Affine) -> Rc<Form> {
        let form = self.affine.entry(affine);
        let new = |affine: &Affine| Rc::new(Form::Affine(affine.clone()));
        form.or_insert_with_key(new).clone()
    }

    /// The shared form of a function.
    pub(super) fn function(&mut self, function: Expr) -> Rc<Form> {
        let form = self.functions.entry(Rc::new(function));
        let new = |function: &Rc<Expr>| Rc::new(Form::Function(Rc::clone(function)));
        form.or_insert_with_key(new).clone()
    }
}
