//! Which names a mistyped one may stand for.

use strsim::{damerau_levenshtein, jaro_winkler};

/// From this likeness on, one name is near another.
const LIKENESS_MIN: f64 = 0.85;

/// These names, the one most similar to `unknown` first.
pub(super) fn most_similar_first<T: AsRef<str>>(
    unknown: &str,
    names: impl IntoIterator<Item = T>,
) -> Vec<T> {
    let likeness = |name: &T| jaro_winkler(name.as_ref(), unknown);
    let mut names: Vec<T> = names.into_iter().collect();
    names.sort_by(|one, other| likeness(other).total_cmp(&likeness(one)));
    names
}

/// The name that `unknown` was probably meant to be; `None` if it is far from all of them.
pub fn nearest<T: AsRef<str>>(unknown: &str, names: impl IntoIterator<Item = T>) -> Option<T> {
    // A letter in three may be wrong; two that changed places count as one.
    let wrong_max = (unknown.chars().count() / 3).max(1);
    let is_near = |name: &T| {
        let name = name.as_ref();
        damerau_levenshtein(name, unknown) <= wrong_max
            || LIKENESS_MIN <= jaro_winkler(name, unknown)
    };
    most_similar_first(unknown, names).into_iter().find(is_near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_near_name_is_named() {
        for (unknown, name) in [
            ("sqe", Some("seq")),
            ("sequence", Some("seq")),
            ("random", Some("rand")),
            ("rad", Some("rand")),
            ("users.nmae", Some("users.name")),
            ("foo", None),
            ("id", None),
            ("password", None),
            ("", None),
        ] {
            assert_eq!(nearest(unknown, ["seq", "rand", "uuid", "users.name"]), name, "{unknown}");
        }
    }
}
