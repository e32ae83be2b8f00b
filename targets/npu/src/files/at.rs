//! Values of a file with the path that leads to them.

use super::Json;
use crate::isa::Number;
use quincunx_diag::{Diagnostic, Result};
use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// A value and where it stands: `$.0[3].tile_info.tile_num_0`.
#[derive(Clone, Debug)]
pub(crate) struct At<'a> {
    value: &'a Json,
    /// How it is reached from the value around it; `None` for a whole file.
    step: Option<(Rc<At<'a>>, Step<'a>)>,
}

/// From a value to one in it.
#[derive(Clone, Debug)]
enum Step<'a> {
    Member(Cow<'a, str>),
    Element(usize),
}

impl<'a> At<'a> {
    /// The value of a file.
    pub(crate) fn root(value: &'a Json) -> At<'a> {
        At { value, step: None }
    }

    /// The path, which is only written down for messages.
    fn path(&self) -> String {
        match &self.step {
            None => "$".to_owned(),
            Some((up, Step::Member(key))) => format!("{}.{key}", up.path()),
            Some((up, Step::Element(index))) => format!("{}[{index}]", up.path()),
        }
    }

    /// A problem with the value.
    pub(crate) fn wrong(&self, code: &'static str, message: impl std::fmt::Display) -> Diagnostic {
        Diagnostic::invalid(code, format!("{}: {message}", self.path()))
    }

    fn expected(&self, what: &str) -> Diagnostic {
        self.wrong("Q4072", format_args!("expected {what}"))
    }

    /// A member that may be missing; `null` counts as missing.
    pub(crate) fn get(&self, key: &str) -> Option<At<'a>> {
        let value = self.value.get(key).filter(|value| **value != Json::Null)?;
        let step = Step::Member(Cow::Owned(key.to_owned()));
        Some(At { value, step: Some((Rc::new(self.clone()), step)) })
    }

    /// A member.
    ///
    /// # Errors
    /// `Q4072` when it is missing.
    pub(crate) fn need(&self, key: &str) -> Result<At<'a>> {
        self.get(key).ok_or_else(|| self.expected(&format!("a member {key:?}")))
    }

    /// The elements of a list.
    ///
    /// # Errors
    /// `Q4072` for what is no list.
    pub(crate) fn list(&self) -> Result<Vec<At<'a>>> {
        let list = self.value.list().ok_or_else(|| self.expected("a list"))?;
        let up = Rc::new(self.clone());
        let at = |(index, value)| At { value, step: Some((Rc::clone(&up), Step::Element(index))) };
        Ok(list.iter().enumerate().map(at).collect())
    }

    /// The elements of a member that is a list, none where it is missing.
    ///
    /// # Errors
    /// As [`At::list`].
    pub(crate) fn items(&self, key: &str) -> Result<Vec<At<'a>>> {
        self.get(key).map_or_else(|| Ok(Vec::new()), |list| list.list())
    }

    /// The members of an object with their keys.
    ///
    /// # Errors
    /// `Q4072` for what is no object.
    pub(crate) fn members(&self) -> Result<Vec<(&'a str, At<'a>)>> {
        let members = self.value.members().ok_or_else(|| self.expected("an object"))?;
        let up = Rc::new(self.clone());
        let at = |(key, value): &'a (String, Json)| {
            let step = Step::Member(Cow::Borrowed(key));
            (key.as_str(), At { value, step: Some((Rc::clone(&up), step)) })
        };
        Ok(members.iter().map(at).collect())
    }

    /// A whole number of a range.
    ///
    /// # Errors
    /// `Q4072` for anything else.
    pub(crate) fn whole(&self, range: RangeInclusive<i64>) -> Result<i64> {
        let found = self.value.whole().filter(|value| range.contains(value));
        found.ok_or_else(|| {
            let (low, high) = range.into_inner();
            self.expected(&format!("a whole number from {low} to {high}"))
        })
    }

    /// So many whole numbers of a range.
    ///
    /// # Errors
    /// `Q4072` for anything else.
    pub(crate) fn wholes<const N: usize>(&self, range: RangeInclusive<i64>) -> Result<[i64; N]> {
        let list = self.list()?;
        let numbers: Result<Vec<i64>> = list.iter().map(|at| at.whole(range.clone())).collect();
        numbers?.try_into().map_err(|_| self.expected(&format!("{N} numbers")))
    }

    /// A text.
    ///
    /// # Errors
    /// `Q4072` for anything else.
    pub(crate) fn text(&self) -> Result<&'a str> {
        self.value.text().ok_or_else(|| self.expected("a text"))
    }

    /// The texts of a list.
    ///
    /// # Errors
    /// `Q4072` for anything else.
    pub(crate) fn texts(&self) -> Result<Vec<&'a str>> {
        self.list()?.iter().map(At::text).collect()
    }

    /// True for `true`.
    pub(crate) fn is_true(&self) -> bool {
        *self.value == Json::Bool(true)
    }

    /// A number with its digits as assembly text prints them.
    ///
    /// # Errors
    /// `Q4072` for anything else.
    pub(crate) fn number(&self) -> Result<Number> {
        let digits = if let Json::Number(digits) = self.value { Some(digits) } else { None };
        let number = digits.and_then(|digits| {
            Number::parse(digits.as_bytes()).or_else(|| Number::real(digits.parse().ok()?))
        });
        number.ok_or_else(|| self.expected("a number"))
    }
}
