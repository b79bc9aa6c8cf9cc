//! What the kernel's file `stat` says of a process or a thread.

/// Length of the tick in which the kernel counts processor time, ns: USER_HZ is 100 on every
/// architecture of ours.
pub const TICK_NS: u64 = 10_000_000;

/// A process or a thread.
#[derive(Debug, PartialEq)]
pub struct Stat {
    /// Its name as the kernel keeps it, up to 15 characters.
    pub name: String,
    /// Processor time in user space so far, ticks.
    pub(crate) user_ticks: u64,
    /// Processor time in the kernel so far, ticks.
    pub system_ticks: u64,
    /// The core on which it was last seen.
    pub core: usize,
}

impl Stat {
    /// Parses the file: fields 2, 14, 15 and 39; the name is in parentheses and may hold blanks and
    /// parentheses.
    pub fn parse(text: &str) -> Option<Stat> {
        let (before, rest) = text.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let mut fields = rest.split_ascii_whitespace();
        // The first of them is field 3.
        let user_ticks = fields.nth(14 - 3)?.parse().ok()?;
        let system_ticks = fields.next()?.parse().ok()?;
        let core = fields.nth(39 - 16)?.parse().ok()?;
        Some(Stat { name: name.to_owned(), user_ticks, system_ticks, core })
    }

    /// Processor time so far, ticks.
    pub fn ticks(&self) -> u64 {
        self.user_ticks + self.system_ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read() {
        let rest = (16..=38).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        let text = format!("7 (a b) c) R 1 7 7 0 -1 0 90 0 0 0 11 22 {rest} 3 0");
        let name = "a b) c".to_owned();
        assert_eq!(
            Stat::parse(&text),
            Some(Stat { name, user_ticks: 11, system_ticks: 22, core: 3 })
        );
        assert_eq!(Stat::parse("7 (a) R 1"), None);
    }
}
