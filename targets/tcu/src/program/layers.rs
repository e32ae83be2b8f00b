//! Which instructions belong to which layer.

use crate::program::Program;
use quincunx_contract::Section;
use quincunx_diag::{Diagnostic, Result};
use std::ops::Range;

/// The instructions of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    /// Its name.
    pub(crate) name: String,
    /// Its instructions.
    pub(crate) steps: Range<usize>,
    /// Multiplications that the network asks for; unknown for programs of others.
    pub(crate) macs: Option<u64>,
}

/// The layers of a program; one that holds everything where nothing is known of layers.
pub(crate) fn layers(program: &Program, sections: &[Section]) -> Vec<Layer> {
    let end = program.steps.len();
    if sections.is_empty() {
        return vec![Layer { name: "program".to_owned(), steps: 0..end, macs: None }];
    }
    let ends = sections.iter().skip(1).map(|section| section.first).chain([end]);
    let layer = |(section, end): (&Section, usize)| Layer {
        name: section.name.clone(),
        steps: section.first..end,
        macs: Some(section.macs),
    };
    sections.iter().zip(ends).map(layer).collect()
}

/// Sections from a file must divide the program.
///
/// # Errors
/// `Q3073` when they do not.
pub(crate) fn check(sections: &[Section], instructions: usize) -> Result<()> {
    let starts = || sections.iter().map(|section| section.first);
    let ascends = starts().is_sorted() && starts().all(|first| first <= instructions);
    let ends = starts().skip(1).chain([instructions]);
    let within = sections.iter().zip(ends).all(|(section, end)| {
        let mut pieces = section.pieces.iter();
        section.pieces.is_sorted() && pieces.all(|piece| (section.first..=end).contains(piece))
    });
    if ascends && within && starts().next().is_none_or(|first| first == 0) {
        return Ok(());
    }
    let message = format!("layers do not divide the program of {instructions} instructions");
    Err(Diagnostic::invalid("Q3073", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_divide_a_program() {
        let section = |first| Section { first, ..Section::default() };
        let ok = |firsts: &[usize]| {
            check(&firsts.iter().map(|&first| section(first)).collect::<Vec<_>>(), 5).is_ok()
        };
        assert!(ok(&[]) && ok(&[0]) && ok(&[0, 2, 2, 5]));
        let cut = |pieces: &[usize]| {
            let first = Section { pieces: pieces.to_vec(), ..section(0) };
            check(&[first, section(3)], 5).is_ok()
        };
        assert!(cut(&[1, 3]) && !cut(&[1, 4]) && !cut(&[2, 1]));
        assert!(!ok(&[1]) && !ok(&[0, 3, 2]) && !ok(&[0, 6]));
    }
}
