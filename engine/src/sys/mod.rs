//! Units, the clock, cores, and the words that threads of a run share.

pub mod clock;
pub(crate) mod control;
pub(crate) mod leaves;
pub mod placement;
pub mod seal;
pub mod units;
