//! How much is printed: what was asked for first, or all that is known.

/// How much of a result is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Extent {
    /// What fits on a screen: the answer, and what it rests on.
    Screen,
    /// All that is known.
    Details,
}

impl Extent {
    /// All, where details are asked for.
    pub(crate) fn of(details: bool) -> Extent {
        if details { Extent::Details } else { Extent::Screen }
    }

    /// A section of the details; empty on a screen.
    pub(super) fn details(self, section: impl FnOnce() -> String) -> String {
        match self {
            Extent::Screen => String::new(),
            Extent::Details => section(),
        }
    }
}
