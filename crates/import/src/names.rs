//! Names that do not collide.

use rustc_hash::{FxHashMap, FxHashSet};

/// Hands out names that nobody has.
#[derive(Default)]
pub(crate) struct Names {
    taken: FxHashSet<String>,
    /// Next number per base, so that many requests for one base stay linear.
    next: FxHashMap<String, u64>,
}

impl Names {
    /// Reserves a name; false when it was taken.
    pub(crate) fn reserve(&mut self, name: &str) -> bool {
        !self.taken.contains(name) && self.taken.insert(name.to_owned())
    }

    /// Reserves many names, some of which may be taken.
    pub(crate) fn reserve_all<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) {
        for name in names {
            self.reserve(name);
        }
    }

    /// `base`, or `base` with a number.
    pub(crate) fn fresh(&mut self, base: &str) -> String {
        // Long names are cut, so that a long chain under one huge name stays small.
        let base: String = base.chars().take(80).collect();
        if self.reserve(&base) {
            return base;
        }
        let next = self.next.entry(base.clone()).or_insert(1);
        loop {
            let name = format!("{base}_{next}");
            *next += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_names_never_repeat() {
        let mut names = Names::default();
        assert!(names.reserve("a_1"));
        assert!(!names.reserve("a_1"));
        assert_eq!(names.fresh("a"), "a");
        assert_eq!(names.fresh("a"), "a_2");
        assert_eq!(names.fresh("a"), "a_3");
    }
}
