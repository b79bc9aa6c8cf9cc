//! Which names a mistyped one may stand for.

/// These names, the one most similar to `unknown` first.
pub(super) fn most_similar_first<T: AsRef<str>>(
    unknown: &str,
    names: impl IntoIterator<Item = T>,
) -> Vec<T> {
    let likeness = |name: &T| strsim::jaro_winkler(name.as_ref(), unknown);
    let mut names: Vec<T> = names.into_iter().collect();
    names.sort_by(|one, other| likeness(other).total_cmp(&likeness(one)));
    names
}
