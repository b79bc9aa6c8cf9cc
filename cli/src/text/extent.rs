//! How much is printed: the answer, or everything.

/// How much of a result is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Extent {
    /// As much as fits on a screen: the answer, and its basis.
    Screen,
    /// Everything.
    Details,
}

impl Extent {
    /// Everything, if details are asked for.
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
