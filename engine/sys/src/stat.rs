//! The kernel's `stat` file of a process or a thread.

/// Length of the tick in which the kernel counts CPU time, ns: USER_HZ is 100 on every architecture
/// we support.
pub const TICK_NS: u64 = 10_000_000;

/// A process or a thread.
#[derive(Debug, PartialEq)]
pub struct Stat {
    /// Its name in the kernel, up to 15 characters.
    pub name: String,
    /// CPU time in user space so far, ticks.
    pub(crate) user_ticks: u64,
    /// CPU time in the kernel so far, ticks.
    pub system_ticks: u64,
    /// The core on which it was last seen.
    pub core: usize,
}

impl Stat {
    /// Parses the file: fields 2, 14, 15 and 39; the name is in parentheses and may contain blanks
    /// and parentheses.
    pub fn parse(text: &str) -> Option<Stat> {
        let (before, rest) = text.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let mut fields = rest.split_ascii_whitespace();
        // The first of the remaining fields is field 3.
        let user_ticks = fields.nth(14 - 3)?.parse().ok()?;
        let system_ticks = fields.next()?.parse().ok()?;
        let core = fields.nth(39 - 16)?.parse().ok()?;
        Some(Stat { name: name.to_owned(), user_ticks, system_ticks, core })
    }

    /// CPU time so far, ticks.
    pub fn ticks(&self) -> u64 {
        self.user_ticks + self.system_ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_stat_file_is_parsed() {
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
