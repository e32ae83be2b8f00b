//! A machine with its options, ready to compile for.

use crate::Model;
use quincunx_contract::{Arch, ArchSource, Options, Target};
use quincunx_diag::Result;
use quincunx_report::Heading;

/// A target, one of its machines, and options.
pub struct Setup<'a> {
    /// The target.
    pub target: &'a dyn Target,
    /// The machine.
    pub arch: Box<dyn Arch>,
    /// Options of its compiler and readers.
    pub options: Options,
}

impl<'a> Setup<'a> {
    /// A setup from what the user says.
    ///
    /// # Errors
    /// An unknown machine or option, or a malformed architecture file.
    pub fn new(
        target: &'a dyn Target,
        arch: &ArchSource,
        options: &[(String, String)],
    ) -> Result<Self> {
        Ok(Setup {
            target,
            arch: target.arch(arch)?,
            options: Options::new(target.info().options, options)?,
        })
    }

    /// The setup for a model: options that its file gives count more than the defaults, those of
    /// the user more than these.
    ///
    /// # Errors
    /// As [`Setup::new`].
    pub fn for_model(
        target: &'a dyn Target,
        arch: &ArchSource,
        model: &Model,
        options: &[(String, String)],
    ) -> Result<Self> {
        let given = model.options.iter().filter(|(name, _)| *name == target.info().name);
        let given = given.flat_map(|(_, options)| options);
        let given = given.map(|(name, value)| ((*name).to_owned(), value.clone()));
        let all: Vec<_> = given.chain(options.iter().cloned()).collect();
        Self::new(target, arch, &all)
    }

    /// The target's first machine with default options.
    ///
    /// # Errors
    /// None for a sound target.
    pub fn default_for(target: &'a dyn Target) -> Result<Self> {
        Self::new(target, &ArchSource::Default, &[])
    }

    /// The heading of a page about this, for this machine.
    pub fn heading(&self, title: &str, subject: &str) -> Heading {
        Heading::new(title).of(subject).on(self.machine())
    }

    /// Names of the target and the machine.
    pub fn machine(&self) -> String {
        format!("{} {}", self.name(), self.arch.name())
    }

    /// Name of the target.
    pub fn name(&self) -> &'static str {
        self.target.info().name
    }
}
