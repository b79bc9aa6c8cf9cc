//! The versions of both sides: which must be equal, and which may differ.
//!
//! Two builds understand each other if they have the same protocol, schedule and report; the
//! program's own version may differ. A field that one of them doesn't know ends the session, see
//! `json.rs`, so that no part of a plan or of a result is lost in silence.

use serde::{Deserialize, Serialize};

use crate::bytes::text;

/// Version of the protocol.
pub const PROTOCOL: u16 = 6;

/// The versions of a side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Of truetail. It may differ.
    #[serde(deserialize_with = "text")]
    pub truetail: String,
    /// Of the protocol.
    pub protocol: u16,
    /// Of the schedule: with another one, the same plan means other arrivals.
    pub schedule: u32,
    /// Of the report: with another one, the same name may mean another count.
    pub report: u32,
}

/// The sides don't understand each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "versions differ: {} (truetail {} here, {} there); update the older side",
    self.words(),
    self.here.truetail,
    self.there.truetail
)]
pub struct VersionsDiffer {
    /// Those of the side that refuses.
    pub here: Versions,
    /// Those of the side that is refused.
    pub there: Versions,
}

impl Versions {
    /// The versions of this program.
    pub fn here() -> Versions {
        Versions {
            truetail: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            schedule: engine::load::schedule::VERSION,
            report: engine::report::SCHEMA,
        }
    }

    /// Those that must be equal on both sides.
    pub fn binding(&self) -> [(&'static str, u32); 3] {
        let Versions { truetail: _, protocol, schedule, report } = *self;
        [("protocol", protocol.into()), ("schedule", schedule), ("report", report)]
    }

    /// Checks that the peer understands this side.
    ///
    /// # Errors
    /// It has another version of the protocol, the schedule or the report.
    pub fn check(&self, theirs: &Versions) -> Result<(), VersionsDiffer> {
        if self.binding() == theirs.binding() {
            return Ok(());
        }
        Err(VersionsDiffer { here: self.clone(), there: theirs.clone() })
    }
}

impl VersionsDiffer {
    /// The versions that differ and mustn't.
    fn words(&self) -> String {
        let pairs = self.here.binding().into_iter().zip(self.there.binding());
        let differing = pairs.filter(|(here, there)| here != there);
        let words: Vec<String> = differing
            .map(|((what, here), (_, there))| format!("{what} {here} here, {there} there"))
            .collect();
        words.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_version_may_differ_and_no_other() {
        let here = Versions { truetail: "0.3.0".to_owned(), ..Versions::here() };
        assert_eq!(here.check(&here), Ok(()));
        let newer = Versions { truetail: "9.9.9".to_owned(), ..here.clone() };
        assert_eq!((here.check(&newer), newer.check(&here)), (Ok(()), Ok(())));
        let Versions { protocol, schedule, report, .. } = here;
        for (there, words) in [
            (
                Versions { protocol: protocol + 1, ..newer.clone() },
                format!("protocol {protocol} here, {} there", protocol + 1),
            ),
            (
                Versions { schedule: schedule + 1, ..newer.clone() },
                format!("schedule {schedule} here, {} there", schedule + 1),
            ),
            (
                Versions { schedule: schedule + 1, report: report - 1, ..newer },
                format!(
                    "schedule {schedule} here, {} there; report {report} here, {} there",
                    schedule + 1,
                    report - 1
                ),
            ),
        ] {
            let problem = here.check(&there).expect_err("they differ").to_string();
            let more = "(truetail 0.3.0 here, 9.9.9 there); update the older side";
            assert_eq!(problem, format!("versions differ: {words} {more}"));
            assert!(there.check(&here).is_err(), "each side refuses");
        }
    }
}
