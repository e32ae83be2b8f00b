//! Did-you-mean suggestions by edit distance.

/// The candidate nearest to `name`, if it is near enough to be a likely typing error: at most one
/// edit per three characters (at least one), ties to the first candidate.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Distances on names of unbounded length cost quadratic time; no real name is this long.
    if name.len() > 256 {
        return None;
    }
    let limit = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= 256)
        .map(|candidate| (edit_distance(name, candidate), candidate))
        .filter(|&(distance, _)| distance <= limit)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// `did you mean "…"?` for the nearest candidate, if one is near.
pub fn did_you_mean<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(name, candidates).map(|candidate| format!("did you mean \"{candidate}\"?"))
}

/// `did you mean "…"?` when a candidate is near, else all of them: `KINDS are: a, b`.
pub fn suggestion<'a>(
    name: &str,
    kinds: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    did_you_mean(name, candidates.clone()).unwrap_or_else(|| {
        let all: Vec<&str> = candidates.into_iter().collect();
        if all.is_empty() {
            format!("there are no {kinds}")
        } else {
            format!("{kinds} are: {}", all.join(", "))
        }
    })
}

/// Levenshtein distance over characters, case folded so that a wrong case is one near match.
fn edit_distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().flat_map(char::to_lowercase).collect();
    let b: Vec<char> = b.chars().flat_map(char::to_lowercase).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_typing_error() {
        assert_eq!(nearest("realu", ["relu", "add"]), Some("relu"));
        assert_eq!(nearest("RELU", ["add", "relu"]), Some("relu"));
        assert_eq!(did_you_mean("ad", ["add"]).as_deref(), Some("did you mean \"add\"?"));
    }

    #[test]
    fn stays_silent_when_nothing_is_near() {
        assert_eq!(nearest("quantise", ["add", "mul"]), None);
        assert_eq!(nearest(&"a".repeat(10_000), ["aaa"]), None);
    }

    #[test]
    fn lists_what_is_known_when_nothing_is_near() {
        assert_eq!(suggestion("ad", "opcodes", ["add", "mul"]), "did you mean \"add\"?");
        assert_eq!(suggestion("x", "opcodes", ["add", "mul"]), "opcodes are: add, mul");
        assert_eq!(suggestion("x", "opcodes", []), "there are no opcodes");
    }

    #[test]
    fn distance_matches_hand_counts() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("abc", "abc"), 0);
    }
}
