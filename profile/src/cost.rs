//! What a request costs, stack by stack: a profile in figures that don't depend on how long the run
//! was or how many requests it had. Two such profiles can be compared.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::{fs, str};

use engine::report::profile::Profile;

use crate::Stacks;
use crate::format::Format;
use crate::pprof_file;
use crate::stacks::by_function;

/// The processor time of each stack, in picoseconds per request, which is also microseconds per
/// million requests: fine enough that a stack seen once isn't rounded away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost(BTreeMap<String, u64>);

/// Why a file is no profile that can be compared.
#[derive(Debug, thiserror::Error)]
pub enum NotAProfile {
    /// Its name has another ending.
    #[error("not a profile by its name; name a .folded or .pb.gz file of `run --flamegraph`")]
    Ending,
    /// It can't be read.
    #[error("can't be read ({0}); name a file written by `run --flamegraph`")]
    Unreadable(io::Error),
    /// Its contents are something else.
    #[error("{0}; name a file written by `run --flamegraph`")]
    Contents(String),
}

impl Cost {
    /// The cost of sampled stacks, whose shares of the profile's time are those of their samples.
    /// If no request was answered it is the time itself, in microseconds.
    pub fn new(stacks: &Stacks, profile: &Profile) -> Cost {
        let whole = match profile.cpu_us_per_request {
            Some(us) => us * 1e6,
            None => profile.sampling.cpu_s * 1e6,
        };
        let all = stacks.samples() as f64;
        let cost = |samples: u64| rounded(whole * samples as f64 / all);
        Cost(stacks.iter().map(|(stack, samples)| (stack.to_owned(), cost(samples))).collect())
    }

    /// Reads a file that was written as [`Format::Folded`] or [`Format::Pprof`].
    ///
    /// # Errors
    /// Why it isn't one.
    pub fn read(path: &Path) -> Result<Cost, NotAProfile> {
        let format = Format::of(path).filter(|format| *format != Format::Svg);
        let format = format.ok_or(NotAProfile::Ending)?;
        let bytes = fs::read(path).map_err(NotAProfile::Unreadable)?;
        let cost = match format {
            Format::Pprof => pprof_file::read(&bytes).map_err(NotAProfile::Contents)?,
            Format::Folded | Format::Svg => {
                let text = str::from_utf8(&bytes);
                Cost::of_folded(text.map_err(|error| NotAProfile::Contents(error.to_string()))?)?
            }
        };
        match cost.whole() {
            0 => Err(NotAProfile::Contents("it holds no stacks".to_owned())),
            _ => Ok(cost),
        }
    }

    /// The cost that folded stacks say.
    fn of_folded(text: &str) -> Result<Cost, NotAProfile> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
        let mut cost = Cost::default();
        for (at, line) in lines {
            let entry = line.rsplit_once(' ');
            let entry = entry.and_then(|(stack, cost)| Some((stack, cost.parse::<u64>().ok()?)));
            let Some((stack, ps)) = entry else {
                let problem = format!("line {} is not `stack;stack number`", at + 1);
                return Err(NotAProfile::Contents(problem));
            };
            cost.add(stack.to_owned(), ps);
        }
        Ok(cost)
    }

    /// Adds the cost of a stack, ps per request.
    pub(crate) fn add(&mut self, stack: String, ps: u64) {
        let cost = self.0.entry(stack).or_default();
        *cost = cost.saturating_add(ps);
    }

    /// All of it, ps per request.
    pub fn whole(&self) -> u64 {
        self.0.values().fold(0, |sum, ps| sum.saturating_add(*ps))
    }

    /// Each stack with its cost, ps per request.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(stack, ps)| (stack.as_str(), *ps))
    }

    /// What each function costs by itself, by its name and whether it is the kernel's.
    pub(crate) fn own(&self) -> BTreeMap<(String, bool), u64> {
        by_function(self.iter())
    }

    /// The cost that one sample stood for: that of the least stack, which was seen once in any
    /// profile of some length.
    pub(crate) fn of_one_sample(&self) -> u64 {
        self.0.values().copied().filter(|ps| 0 < *ps).min().unwrap_or(0)
    }

    /// Writes folded stacks, for the tools that draw them.
    pub(crate) fn write_folded(&self, mut writer: impl Write) -> io::Result<()> {
        self.iter().try_for_each(|(stack, ps)| writeln!(writer, "{stack} {ps}"))
    }
}

/// A weight as the whole number that folded stacks have.
#[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
fn rounded(weight: f64) -> u64 {
    weight.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiler::tests::recording;

    #[test]
    fn a_stack_costs_its_share_of_what_a_request_costs() {
        let recording = recording();
        // 2 s of processor time for 10,000 requests: 200 µs each, in ten samples.
        let profile = recording.profile(5_000.0);
        let cost = Cost::new(&recording.stacks, &profile);
        let costs: Vec<_> = cost.iter().collect();
        assert_eq!(
            costs,
            [
                ("truetail-shard;turn;enter;send_[k]", 120_000_000),
                ("truetail-shard;turn;parse_[i]", 80_000_000)
            ]
        );
        assert_eq!((cost.whole(), cost.of_one_sample()), (200_000_000, 80_000_000));
        // Without a request, it is the time itself.
        let nothing = Cost::new(&recording.stacks, &recording.profile(0.0));
        assert_eq!(nothing.whole(), 2_000_000);
    }

    #[test]
    fn a_file_says_what_is_wrong_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |name: &str, contents: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, contents).expect("written");
            Cost::read(&path)
        };
        let said = |name: &str, contents: &[u8]| {
            let error = read(name, contents).expect_err(name).to_string();
            assert!(error.contains("`run --flamegraph`"), "{error}");
            error
        };
        assert!(said("a.svg", b"<svg/>").contains("name a .folded or .pb.gz file"));
        assert!(said("a.json", b"{}").contains("by its name"));
        assert!(said("a.folded", b"").contains("no stacks"));
        assert!(said("a.folded", b"a;b 0\n").contains("no stacks"));
        assert!(said("a.folded", b"a;b 1\n\na;c\n").contains("line 3"));
        assert!(said("a.folded", b"a;b -1\n").contains("line 1"));
        assert!(said("a.folded", b"\xff 1\n").contains("utf-8"));
        assert!(said("a.pb.gz", b"no").contains("gzip"));
        let missing = Cost::read(&folder.path().join("none.folded")).expect_err("missing");
        assert!(missing.to_string().contains("can't be read"), "{missing}");
        assert_eq!(read("a.folded", b"a b;c 1\na b;c 2\n").expect("a profile").whole(), 3);
        let most = format!("a {0}\nb {0}\n", u64::MAX);
        assert_eq!(read("a.folded", most.as_bytes()).expect("a profile").whole(), u64::MAX);
    }
}
