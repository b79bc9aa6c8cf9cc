//! The files that controllers' plans name: which of them the agent has, and those on their way.
//!
//! A plan never makes an agent read its own files. Their contents come from the controller, and are
//! kept by their digests, so that the next run with the same files needn't send them again. They
//! are in memory, as many bytes as the agent's operator permits.

use std::sync::Arc;

use engine::plan::body::{Body, SharedBody};
use engine::sys::units::{Nanos, SECOND_NS};

use crate::message::{ATTACHMENT_MAX, Attachment, PART_BYTES, Part, Wanted};
use crate::refusal::Refusal;

/// The most files that are kept, and that a plan names.
const COUNT_MAX: usize = 4_096;
/// How long a part may take to come, ns.
const PART_MAX_NS: u64 = 10 * SECOND_NS;

/// An attachment that the agent lacks, with its number in the plan's list.
pub(super) type Missing = (u32, Attachment);

/// Checks the lengths that a controller announces against the operator's limit, in bytes.
///
/// # Errors
/// There are too many files, or they are too large.
pub(super) fn check(attachments: &[Attachment], files_max: u64) -> Result<(), Refusal> {
    let refused = |problem: String| Err(Refusal::Attachment(problem));
    if COUNT_MAX < attachments.len() {
        let count = attachments.len();
        return refused(format!(
            "the plan names {count} files, and an agent takes {COUNT_MAX}; leave some out"
        ));
    }
    if let Some(large) = attachments.iter().find(|it| ATTACHMENT_MAX < it.length) {
        let Attachment { name, length, .. } = large;
        return refused(format!(
            "the file {name:?} has {length} bytes, and an agent takes {ATTACHMENT_MAX} a file; \
             give a smaller one, or use `truetail run`"
        ));
    }
    let total: u64 = attachments.iter().map(|it| it.length).sum();
    if files_max < total {
        return refused(format!(
            "the plan's files have {total} bytes, above this agent's --max-files {} MiB; use \
             smaller ones, or start the agent with a higher --max-files",
            files_max >> 20
        ));
    }
    Ok(())
}

/// The files that an agent keeps; those that the last plan needed are at the end.
#[derive(Default)]
pub(super) struct FileCache(Vec<Arc<Body>>);

impl FileCache {
    /// Those of these attachments that aren't here, each once. Others that are kept make room for
    /// them, the oldest first.
    pub(super) fn missing(&mut self, attachments: &[Attachment], files_max: u64) -> Vec<Missing> {
        let is_needed = |body: &Arc<Body>| attachments.iter().any(|it| is_of(it, body));
        let (needed, mut kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.0).into_iter().partition(is_needed);
        kept.extend(needed);
        self.0 = kept;
        let mut missing: Vec<Missing> = Vec::new();
        for (number, attachment) in (0..).zip(attachments) {
            let is_listed = missing.iter().any(|(_, it)| it.sha256 == attachment.sha256);
            if !is_listed && self.find(attachment).is_none() {
                missing.push((number, attachment.clone()));
            }
        }
        let lengths = self.0.iter().map(|body| body.length());
        let mut total = lengths.chain(missing.iter().map(|(_, it)| it.length)).sum::<u64>();
        while files_max < total || COUNT_MAX < self.0.len() + missing.len() {
            total -= self.0.remove(0).length();
        }
        missing
    }

    fn find(&self, attachment: &Attachment) -> Option<&Arc<Body>> {
        self.0.iter().find(|body| is_of(attachment, body))
    }

    /// Keeps the bytes of an attachment.
    ///
    /// # Errors
    /// They don't have the announced digest.
    pub(super) fn add(&mut self, attachment: &Attachment, bytes: Vec<u8>) -> Result<(), Refusal> {
        let body = Arc::new(Body::of_bytes(bytes));
        if !is_of(attachment, &body) {
            return Err(Refusal::Attachment(format!(
                "the file {:?} doesn't have the announced SHA-256; leave it unchanged during a \
                 run, and run again",
                attachment.name
            )));
        }
        self.0.push(body);
        Ok(())
    }

    /// The files of a plan with these attachments, by name: nothing else is read.
    ///
    /// # Panics
    /// One of them is missing.
    pub(super) fn of_plan(&self, attachments: &[Attachment]) -> SharedBody {
        let file = |it: &Attachment| {
            let body = self.find(it).expect("what was missing has been added");
            (it.name.clone(), Arc::clone(body))
        };
        SharedBody::of_files(attachments.iter().map(file))
    }
}

fn is_of(attachment: &Attachment, body: &Body) -> bool {
    (attachment.sha256, attachment.length) == (*body.sha256(), body.length())
}

/// Attachments on their way from a controller: the agent asks for one part after the other, and
/// takes nothing else.
pub(super) struct Incoming {
    missing: Vec<Missing>,
    /// The bytes that have come of each, up to the one on its way.
    arrived: Vec<Vec<u8>>,
    /// When the last part was asked for, ns.
    asked_ns: u64,
}

impl Incoming {
    /// None of these has come yet.
    pub(super) fn new(missing: Vec<Missing>) -> Incoming {
        Incoming { missing, arrived: vec![Vec::new()], asked_ns: 0 }
    }

    /// The part to ask for next; `None` once all are here.
    pub(super) fn next(&mut self, now_ns: u64) -> Option<Wanted> {
        loop {
            let at = self.arrived.len() - 1;
            let (number, attachment) = self.missing.get(at)?;
            let offset = self.arrived[at].len() as u64;
            if offset < attachment.length {
                self.asked_ns = now_ns;
                return Some(Wanted { number: *number, offset });
            }
            self.arrived.push(Vec::new());
        }
    }

    /// Takes the part that was asked for.
    ///
    /// # Errors
    /// It is another part, or not as long as that one.
    pub(super) fn take(&mut self, part: Part) -> Result<(), Refusal> {
        let at = self.arrived.len() - 1;
        let (number, attachment) = &self.missing[at];
        let offset = self.arrived[at].len() as u64;
        let name = &attachment.name;
        let refused = |problem: String| Err(Refusal::Attachment(problem));
        if (part.number, part.offset) != (*number, offset) {
            return refused(format!(
                "of file {}, bytes from {} came, and those of {name:?} from {offset} were asked \
                 for; the sides are different builds of truetail, update the older one",
                part.number, part.offset
            ));
        }
        let due = attachment.length - offset;
        let due = usize::try_from(due).map_or(PART_BYTES, |due| due.min(PART_BYTES));
        let came = part.bytes.as_slice().len();
        if came != due {
            return refused(format!(
                "{came} bytes of the file {name:?} came, and {due} were due: it has {} in all; \
                 leave it unchanged during a run, and run again",
                attachment.length
            ));
        }
        self.arrived[at].extend_from_slice(part.bytes.as_slice());
        Ok(())
    }

    /// Checks that the part that was asked for isn't overdue.
    ///
    /// # Errors
    /// It is.
    pub(super) fn check(&self, now_ns: u64) -> Result<(), Refusal> {
        if now_ns.saturating_sub(self.asked_ns) <= PART_MAX_NS {
            return Ok(());
        }
        let (_, Attachment { name, length, .. }) = &self.missing[self.arrived.len() - 1];
        let here = self.arrived.last().map_or(0, Vec::len);
        Err(Refusal::Attachment(format!(
            "nothing of the file {name:?} came for {}, after {here} of {length} bytes; check the \
             network between the two machines",
            Nanos(PART_MAX_NS)
        )))
    }

    /// The bytes of each attachment, in the order in which they were missing.
    pub(super) fn into_files(mut self) -> Vec<Vec<u8>> {
        self.arrived.truncate(self.missing.len());
        self.arrived
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn attachment(name: &str, bytes: &[u8]) -> Attachment {
        let sha256 = *Body::of_bytes(bytes.to_vec()).sha256();
        Attachment { name: name.to_owned(), length: bytes.len() as u64, sha256 }
    }

    fn file(byte: u8, length: usize) -> (Attachment, Vec<u8>) {
        let bytes = vec![byte; length];
        (attachment(&byte.to_string(), &bytes), bytes)
    }

    /// Keeps all that is missing of these files; returns the numbers of those that were.
    fn run(cache: &mut FileCache, files: &[(Attachment, Vec<u8>)], max: u64) -> Vec<u32> {
        let attachments: Vec<Attachment> = files.iter().map(|(it, _)| it.clone()).collect();
        check(&attachments, max).expect("they fit");
        let missing = cache.missing(&attachments, max);
        for (number, attachment) in &missing {
            let (_, bytes) = &files[*number as usize];
            cache.add(attachment, bytes.clone()).expect("its digest");
        }
        cache.of_plan(&attachments);
        let held: u64 = cache.0.iter().map(|body| body.length()).sum();
        assert!(held <= max, "{held} bytes are kept");
        missing.into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn a_file_is_asked_for_once_and_the_oldest_makes_room() {
        let mut cache = FileCache::default();
        let [one, two, three] = [1, 2, 3].map(|byte| file(byte, 400));
        let mut same = one.clone();
        same.0.name = "another name".to_owned();
        assert_eq!(run(&mut cache, &[one.clone(), two.clone(), same], 1_200), [0, 1]);
        assert!(run(&mut cache, &[two.clone(), one.clone()], 1_000).is_empty());
        // The first was needed last, by the run before; the limit leaves room for two.
        assert_eq!(run(&mut cache, from_ref(&three), 1_000), [0]);
        assert!(run(&mut cache, from_ref(&two), 1_000).is_empty());
        assert_eq!(run(&mut cache, from_ref(&one), 1_000), [0]);
        // The same digest with another length is another file.
        let mut longer = one.clone();
        longer.0.length += 1;
        assert_eq!(cache.missing(&[longer.0], 1_000).len(), 1);
        assert_eq!(run(&mut cache, &[file(9, 0), file(8, 1_000)], 1_000), [0, 1]);
        assert_eq!(run(&mut cache, &[two], 1_000), [0], "all others had to go");
    }

    #[test]
    fn many_empty_files_are_not_kept_without_end() {
        let mut cache = FileCache::default();
        for round in 0..5_u32 {
            let files: Vec<(Attachment, Vec<u8>)> = (0..1_000_u32)
                .map(|n| {
                    let bytes = (round * 1_000 + n).to_le_bytes().to_vec();
                    (attachment(&n.to_string(), &bytes), bytes)
                })
                .collect();
            assert_eq!(run(&mut cache, &files, MIB).len(), 1_000);
            assert!(cache.0.len() <= COUNT_MAX);
        }
    }

    #[test]
    fn files_above_a_limit_are_refused_before_they_are_sent() {
        let of_length = |length| Attachment { length, ..attachment("f", b"") };
        let refusal = |attachments: &[Attachment], max| {
            check(attachments, max).expect_err("too large").to_string()
        };
        assert_eq!(check(&[of_length(ATTACHMENT_MAX)], ATTACHMENT_MAX), Ok(()));
        assert_eq!(
            refusal(&[of_length(ATTACHMENT_MAX + 1)], 1 << 40),
            "the file \"f\" has 67108865 bytes, and an agent takes 67108864 a file; give a \
             smaller one, or use `truetail run`"
        );
        assert_eq!(
            refusal(&[of_length(MIB), of_length(1)], MIB),
            "the plan's files have 1048577 bytes, above this agent's --max-files 1 MiB; use \
             smaller ones, or start the agent with a higher --max-files"
        );
        let many = vec![of_length(0); COUNT_MAX + 1];
        assert!(refusal(&many, MIB).starts_with("the plan names 4097 files, and an agent takes"));
    }

    /// Two files on their way: one of two parts, and one of 3 bytes.
    fn incoming() -> (Incoming, Vec<u8>) {
        let bytes = vec![7; PART_BYTES + 10];
        let missing = vec![
            (0, attachment("first", &bytes)),
            (1, attachment("none", b"")),
            (4, attachment("last", b"abc")),
        ];
        (Incoming::new(missing), bytes)
    }

    fn part(number: u32, offset: usize, bytes: &[u8]) -> Part {
        Part { number, offset: offset as u64, bytes: bytes.to_vec().into() }
    }

    #[test]
    fn parts_come_in_the_order_in_which_they_are_asked_for() {
        let (mut incoming, bytes) = incoming();
        let mut wanted = Vec::new();
        while let Some(Wanted { number, offset }) = incoming.next(5) {
            let of_file: &[u8] = if number == 0 { &bytes } else { b"abc" };
            let from = usize::try_from(offset).expect("short");
            let to = of_file.len().min(from + PART_BYTES);
            incoming.take(part(number, from, &of_file[from..to])).expect("as asked");
            wanted.push((number, from));
        }
        assert_eq!(wanted, [(0, 0), (0, PART_BYTES), (4, 0)]);
        assert_eq!(incoming.into_files(), [bytes, vec![], b"abc".to_vec()]);
    }

    #[test]
    fn another_part_than_the_one_asked_for_is_refused() {
        let full = vec![7; PART_BYTES];
        for (bad, words) in [
            (part(1, 0, &full), "of file 1, bytes from 0 came, and those of \"first\" from 0"),
            (part(0, 1, &full), "of file 0, bytes from 1 came"),
            (part(0, 0, &full[1..]), "196607 bytes of the file \"first\" came, and 196608 were"),
            (part(0, 0, &[full.clone(), vec![7]].concat()), "196609 bytes of the file"),
        ] {
            let (mut incoming, _) = incoming();
            incoming.next(5).expect("a part");
            let refusal = incoming.take(bad).expect_err(words).to_string();
            assert!(refusal.starts_with(words), "{refusal}");
        }
        // More than was announced.
        let (mut incoming, _) = incoming();
        incoming.next(5);
        incoming.take(part(0, 0, &full)).expect("as asked");
        incoming.next(6);
        let refusal = incoming.take(part(0, PART_BYTES, &[7; 11])).expect_err("too many");
        assert_eq!(
            refusal.to_string(),
            "11 bytes of the file \"first\" came, and 10 were due: it has 196618 in all; leave it \
             unchanged during a run, and run again"
        );
    }

    #[test]
    fn a_part_that_never_comes_is_refused_and_so_is_a_wrong_digest() {
        let (mut incoming, _) = incoming();
        incoming.next(5);
        assert_eq!(incoming.check(5 + PART_MAX_NS), Ok(()));
        assert_eq!(
            incoming.check(6 + PART_MAX_NS).expect_err("overdue").to_string(),
            "nothing of the file \"first\" came for 10s, after 0 of 196618 bytes; check the \
             network between the two machines"
        );
        let mut cache = FileCache::default();
        let other = cache.add(&attachment("f", b"abc"), b"abd".to_vec()).expect_err("another");
        assert!(other.to_string().starts_with("the file \"f\" doesn't have the announced SHA-256"));
        assert!(cache.0.is_empty());
    }
}
