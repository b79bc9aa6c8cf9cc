//! Facts about this process that perf can't know: the names of its threads, and which functions
//! were inlined where.
//!
//! perf doesn't see threads that begin before it takes samples, so their names are read from
//! `/proc` when the window ends. It can name inlined functions, but with the binutils' `addr2line`,
//! which it may not find, and which gives the innermost function the name of the one that all were
//! inlined into. So they are looked up here, in the profiled process.

use std::collections::HashMap;
use std::fs;
use std::ptr;

use crate::names::simplified;

/// The code mapped by this process.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    maps: Vec<Map>,
    /// The threads' names, by their numbers.
    threads: HashMap<u32, String>,
    /// Earlier lookups, by address.
    known: HashMap<usize, Vec<String>>,
}

/// A part of a file mapped as code.
#[derive(Debug, PartialEq, Eq)]
struct Map {
    start: usize,
    length: usize,
    /// Its offset in the file.
    offset: usize,
    file: String,
}

impl Map {
    /// Parses a line of `/proc/self/maps`; `None` unless it is code of a file.
    fn of_line(line: &str) -> Option<Map> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let hex = |text| usize::from_str_radix(text, 16).ok();
        let (start, end) = (hex(start)?, hex(end)?);
        let is_code = words.next()?.contains('x');
        let offset = hex(words.next()?)?;
        let file = words.nth(2)?.trim_start().to_owned();
        is_code.then(|| Map { start, length: end.saturating_sub(start), offset, file })
    }

    /// The address of this place of the file in memory.
    fn address(&self, file: &str, offset: usize) -> Option<usize> {
        let place = offset.checked_sub(self.offset)?;
        (self.file == file && place < self.length).then_some(self.start + place)
    }
}

impl Symbols {
    /// The symbols of this process now: threads that have ended are unknown.
    pub(crate) fn of_this_process() -> Symbols {
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let threads = tasks.filter_map(|task| {
            let name = fs::read_to_string(task.path().join("comm")).ok()?;
            Some((task.file_name().to_str()?.parse().ok()?, name.trim_end().to_owned()))
        });
        Symbols {
            maps: maps.lines().filter_map(Map::of_line).collect(),
            threads: threads.collect(),
            known: HashMap::new(),
        }
    }

    /// The name of a thread.
    pub(crate) fn thread(&self, number: u32) -> Option<&str> {
        self.threads.get(&number).map(String::as_str)
    }

    /// The functions that were inlined at a place of a mapped file, the innermost first.
    pub(crate) fn inlined_at(&mut self, file: &str, offset: usize) -> &[String] {
        let address = self.maps.iter().find_map(|map| map.address(file, offset));
        let Some(address) = address else { return &[] };
        self.known.entry(address).or_insert_with(|| {
            let mut names = Vec::new();
            // The lookup expects a return address, which is after the call.
            let behind = ptr::without_provenance_mut(address + 1);
            backtrace::resolve(behind, |symbol| {
                names.extend(symbol.name().map(|name| simplified(&format!("{name:#}"))));
            });
            // The last is the function that contains them.
            names.pop();
            names
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_files_is_found_by_its_place_in_them() {
        let line = "7f00-7f80 r-xp 00001000 fe:00 17             /a dir/b.so";
        let map = Map::of_line(line).expect("code");
        assert_eq!(
            map,
            Map { start: 0x7f00, length: 0x80, offset: 0x1000, file: "/a dir/b.so".to_owned() }
        );
        assert_eq!(map.address("/a dir/b.so", 0x1010), Some(0x7f10));
        assert_eq!(map.address("/a dir/b.so", 0x1080), None);
        assert_eq!(map.address("/a dir/b.so", 0xfff), None);
        assert_eq!(map.address("/other", 0x1010), None);
        for line in ["", "7f00-7f80 r--p 00001000 fe:00 17 /b.so", "7f00-7f80 r-xp 0 00:00 0"] {
            assert_eq!(Map::of_line(line), None, "{line}");
        }
    }

    #[inline(always)]
    fn inlined() -> usize {
        let mut here = 0;
        backtrace::trace(|frame| {
            here = frame.ip().addr();
            // The first frames may be those of the trace itself.
            let mut names = Vec::new();
            backtrace::resolve_frame(frame, |symbol| {
                names.extend(symbol.name().map(|name| name.to_string()));
            });
            !names.iter().any(|name| name.contains("this_programs_code"))
        });
        here
    }

    #[test]
    fn functions_inlined_into_this_programs_code_are_known() {
        let mut symbols = Symbols::of_this_process();
        let here = inlined();
        let map = symbols.maps.iter().find(|map| map.start < here && here - map.start < map.length);
        let map = map.expect("code is mapped");
        let (file, offset) = (map.file.clone(), here - map.start + map.offset);
        // The return address is after the call.
        let names = symbols.inlined_at(&file, offset - 1);
        assert!(names.iter().any(|name| name.ends_with("inlined")), "{names:?}");
        assert_eq!(symbols.inlined_at("/nowhere", offset), [""; 0]);
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let name = std::thread::current().name().map(|name| name[..15].to_owned());
        assert_eq!(symbols.thread(own), name.as_deref());
    }
}
