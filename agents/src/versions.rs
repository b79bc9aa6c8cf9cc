//! The versions that must match on both sides.

use serde::{Deserialize, Serialize};

/// Version of the protocol.
pub const PROTOCOL: u16 = 5;

/// The versions that must match on both sides. Otherwise a plan could mean other arrivals, or the
/// same name another count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Of truetail.
    pub truetail: String,
    /// Of the protocol.
    pub protocol: u16,
    /// Of the schedule.
    pub schedule: u32,
    /// Of the report.
    pub report: u32,
}

/// The sides aren't of the same version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("versions differ: {}; install the same version of truetail on both", self.words())]
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

    /// Checks that the peer has the same versions.
    ///
    /// # Errors
    /// They differ.
    pub fn check(&self, theirs: &Versions) -> Result<(), VersionsDiffer> {
        if self == theirs {
            return Ok(());
        }
        Err(VersionsDiffer { here: self.clone(), there: theirs.clone() })
    }
}

impl VersionsDiffer {
    /// The versions that differ, in one line.
    fn words(&self) -> String {
        let VersionsDiffer { here, there } = self;
        let pairs = [
            ("truetail", here.truetail.clone(), there.truetail.clone()),
            ("protocol", here.protocol.to_string(), there.protocol.to_string()),
            ("schedule", here.schedule.to_string(), there.schedule.to_string()),
            ("report", here.report.to_string(), there.report.to_string()),
        ];
        let differing = pairs.iter().filter(|(_, here, there)| here != there);
        let lines: Vec<String> = differing
            .map(|(what, here, there)| format!("{what} {here} here, {there} there"))
            .collect();
        lines.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_differ_are_named_and_others_are_not() {
        let here = Versions::here();
        assert_eq!(here.check(&here), Ok(()));
        let there =
            Versions { truetail: "9.9.9".to_owned(), schedule: here.schedule + 1, ..here.clone() };
        let problem = here.check(&there).expect_err("they differ");
        let Versions { truetail, schedule, .. } = here;
        assert_eq!(
            problem.to_string(),
            format!(
                "versions differ: truetail {truetail} here, 9.9.9 there; schedule {schedule} here, \
                 {} there; install the same version of truetail on both",
                schedule + 1
            )
        );
    }
}
