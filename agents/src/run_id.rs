//! The name of a run, by which a controller asks for what agents have kept of it.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::str::FromStr;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// A run's name: 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunId(u64);

impl RunId {
    /// A name that hardly any other run has: 64 bits at random.
    pub fn new() -> RunId {
        // The only source of randomness in std; the time makes up for what it lacks.
        RunId(RandomState::new().hash_one(SystemTime::now()))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for RunId {
    type Err = String;

    fn from_str(text: &str) -> Result<RunId, String> {
        let is_name = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| is_name);
        number.map(RunId).ok_or_else(|| {
            format!("invalid run `{text}`: give the 16 digits that its controller printed")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_shown() {
        let run = RunId::new();
        assert_ne!(run, RunId::new());
        assert_eq!(run.to_string().parse(), Ok(run));
        assert_eq!("00000000000000ff".parse(), Ok(RunId(255)));
        for other in ["", "ff", "00000000000000fff", "00000000000000fg", "+0000000000000ff"] {
            assert!(other.parse::<RunId>().is_err(), "{other}");
        }
    }
}
