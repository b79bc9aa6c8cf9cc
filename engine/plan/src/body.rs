//! The request's body: literal text, the content of a file, or bytes written as base64; and the
//! other files of a plan: data, and a log that is sent again.
//!
//! A large file isn't kept in memory: it is read once, for its hash, and mapped when it is sent.
//! Nothing is read twice, even for several runs: a pipe can't be reread, and a file may change.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};

use super::data::{Data, DataFile, Table};
use super::error::PlanError;
use super::plan::Plan;

/// The largest body, in bytes: that of a regular file.
pub const BODY_MAX: u64 = 1 << 30;
/// The largest body, in bytes, that isn't a regular file; it is kept in memory.
const COPIED_MAX: u64 = 256 << 20;
/// Files of at least this size, in bytes, are mapped instead of copied.
const MAPPED_MIN: u64 = 1 << 20;

/// A request's body.
#[derive(Debug)]
pub struct Body {
    content: Content,
    length: u64,
    sha256: [u8; 32],
}

/// Where a body is stored.
#[derive(Debug)]
pub enum Content {
    /// In memory.
    Bytes(Vec<u8>),
    /// At the start of a file.
    File(File),
}

/// What stands before the base64 of a body's bytes: as for a file, `@` and its place, which is a
/// `data` URL (RFC 2397).
pub const DATA: &str = "@data:;base64,";

/// The name of the file with a body, given the plan's text for it; `None` if it is in no file.
pub fn file_name(text: &str) -> Option<&str> {
    text.strip_prefix('@').filter(|_| !text.starts_with(DATA))
}

/// The text for a body of these bytes.
pub fn text_of(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) if !text.starts_with('@') => text,
        Ok(text) => format!("{DATA}{}", BASE64.encode(text)),
        Err(error) => format!("{DATA}{}", BASE64.encode(error.into_bytes())),
    }
}

fn of_base64(base64: &str) -> Result<Body, PlanError> {
    let bytes = BASE64.decode(base64).map_err(|error| {
        let problem = format!("the data isn't base64 ({error})");
        PlanError::new("--body", DATA, problem, "encode the bytes with padding, without breaks")
    })?;
    match bytes.len() as u64 {
        size if COPIED_MAX < size => {
            Err(too_large("--body", "of the plan", &size.to_string(), COPIED_MAX))
        }
        _ => Ok(Body::of_bytes(bytes)),
    }
}

impl Body {
    /// The body of a plan: its text, the contents of its file, or its bytes.
    ///
    /// # Errors
    /// The file can't be read, the bytes aren't base64, or the body is too large.
    pub fn read(plan: &Plan) -> Result<Body, PlanError> {
        let text = plan.body.as_deref().unwrap_or_default();
        if let Some(base64) = text.strip_prefix(DATA) {
            return of_base64(base64);
        }
        match file_name(text) {
            Some(name) => Body::read_file("--body", name),
            None => match text.len() as u64 {
                size if COPIED_MAX < size => {
                    Err(too_large("--body", "of the plan", &size.to_string(), COPIED_MAX))
                }
                _ => Ok(Body::of_bytes(text.as_bytes().to_vec())),
            },
        }
    }

    /// The contents of the file that `flag` names.
    fn read_file(flag: &'static str, name: &str) -> Result<Body, PlanError> {
        let text = &shown(flag, name);
        let read = || -> io::Result<Result<Body, PlanError>> {
            let file = File::open(name)?;
            let found = file.metadata()?;
            match found.len() {
                size if found.is_file() && BODY_MAX < size => {
                    Ok(Err(too_large(flag, text, &size.to_string(), BODY_MAX)))
                }
                size if found.is_file() && MAPPED_MIN <= size => Body::of_file(file, size).map(Ok),
                // A pipe has no known size, and a file may grow.
                _ => {
                    let mut bytes = Vec::new();
                    file.take(COPIED_MAX + 1).read_to_end(&mut bytes)?;
                    if COPIED_MAX < bytes.len() as u64 {
                        let size = format!("more than {COPIED_MAX}");
                        return Ok(Err(too_large(flag, text, &size, COPIED_MAX)));
                    }
                    Ok(Ok(Body::of_bytes(bytes)))
                }
            }
        };
        read().map_err(|error| {
            let problem = format!("can't read the file ({error})");
            PlanError::new(flag, text, problem, "give a readable file")
        })?
    }

    /// A body in memory.
    pub fn of_bytes(bytes: Vec<u8>) -> Body {
        Body {
            length: bytes.len() as u64,
            sha256: Sha256::digest(&bytes).into(),
            content: Content::Bytes(bytes),
        }
    }

    /// The first `length` bytes of a file. They are read, not mapped: if the file is truncated, a
    /// read returns an error, but access to a mapping raises a signal.
    fn of_file(mut file: File, length: u64) -> io::Result<Body> {
        let mut hasher = Hasher(Sha256::new());
        if io::copy(&mut (&mut file).take(length), &mut hasher)? < length {
            return Err(io::Error::other("it was truncated while it was read"));
        }
        Ok(Body { content: Content::File(file), length, sha256: hasher.0.finalize().into() })
    }

    /// Where its bytes are stored.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Its bytes from `offset`, at most `most` of them.
    ///
    /// # Errors
    /// They are in a file that can't be read any more.
    ///
    /// # Panics
    /// It ends before `offset`.
    pub fn part(&self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let rest = usize::try_from(self.length - offset).unwrap_or(usize::MAX);
        let mut bytes = vec![0; rest.min(most)];
        match &self.content {
            Content::Bytes(all) => {
                let from = all.len() - rest;
                let part = &all[from..][..bytes.len()];
                bytes.copy_from_slice(part);
            }
            Content::File(file) => file.read_exact_at(&mut bytes, offset)?,
        }
        Ok(bytes)
    }

    /// Reads its bytes from the start.
    pub fn reader(&self) -> impl io::Read + '_ {
        Reader { body: self, offset: 0 }
    }

    /// Its length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Its SHA-256, computed when it was read.
    pub fn sha256(&self) -> &[u8; 32] {
        &self.sha256
    }
}

/// The bodies and files of one plan, or of several plans with the same ones, each read on first
/// use. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct SharedBody(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    /// By a plan's body: text, or `@` and the name of a file.
    known: BTreeMap<Option<String>, Arc<Body>>,
    /// True if there are no other files, whatever is on disk.
    is_all: bool,
    /// The files with data.
    tables: BTreeMap<PathBuf, Arc<Table>>,
}

impl SharedBody {
    /// These files by name, and no others: nothing is read from disk.
    pub fn of_files(files: impl IntoIterator<Item = (String, Arc<Body>)>) -> SharedBody {
        let known = files.into_iter().map(|(name, file)| (Some(format!("@{name}")), file));
        SharedBody(Arc::new(Mutex::new(Contents {
            known: known.collect(),
            is_all: true,
            ..Contents::default()
        })))
    }

    /// This plan's body, read unless it has been read before.
    ///
    /// # Errors
    /// Those of [`Body::read`], and a file that isn't among those of
    /// [`SharedBody::of_files`]; the next call tries again.
    pub fn read(&self, plan: &Plan) -> Result<Arc<Body>, PlanError> {
        match plan.body.as_deref().and_then(file_name) {
            Some(name) => self.file("--body", name),
            None => self.known(plan.body.clone(), || Body::read(plan)),
        }
    }

    /// The tables of this plan's data, in order of their names, each read unless it has been read
    /// before.
    ///
    /// # Errors
    /// Those of [`SharedBody::file`] and [`Table::read`]; the next call tries again.
    pub fn tables(&self, plan: &Plan) -> Result<Vec<Data>, PlanError> {
        let table = |(name, of): (&String, &DataFile)| {
            let known = self.contents().tables.get(&of.file).cloned();
            let table = match known {
                Some(table) => table,
                None => {
                    let contents =
                        self.file("--data", &of.file.to_string_lossy()).map_err(|error| {
                            let cure = of.cure().unwrap_or_else(|| error.cure.clone());
                            PlanError { cure, ..error }
                        })?;
                    let table = Arc::new(Table::read(name, contents.reader())?);
                    self.contents().tables.insert(of.file.clone(), table.clone());
                    table
                }
            };
            Ok(Data { name: name.clone(), of: of.clone(), table, is_encoded: false })
        };
        plan.data.iter().map(table).collect()
    }

    /// The contents of the file of this name, which `flag` names.
    ///
    /// # Errors
    /// As for [`SharedBody::read`].
    pub fn file(&self, flag: &'static str, name: &str) -> Result<Arc<Body>, PlanError> {
        let is_all = self.contents().is_all;
        self.known(Some(format!("@{name}")), || match is_all {
            true => {
                let problem = "this file didn't come with the plan, and no other is read";
                Err(PlanError::new(flag, shown(flag, name), problem, "send it with the plan"))
            }
            false => Body::read_file(flag, name),
        })
    }

    fn known(
        &self,
        key: Option<String>,
        read: impl FnOnce() -> Result<Body, PlanError>,
    ) -> Result<Arc<Body>, PlanError> {
        let mut contents = self.contents();
        if let Some(body) = contents.known.get(&key) {
            return Ok(body.clone());
        }
        let body = Arc::new(read()?);
        contents.known.insert(key, body.clone());
        Ok(body)
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Reader<'a> {
    body: &'a Body,
    offset: u64,
}

impl io::Read for Reader<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let part = self.body.part(self.offset, room.len())?;
        room[..part.len()].copy_from_slice(&part);
        self.offset += part.len() as u64;
        Ok(part.len())
    }
}

/// Hashes what is written to it.
struct Hasher(Sha256);

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file's name as the value of its flag.
pub fn shown(flag: &str, name: &str) -> String {
    let at = if flag == "--body" { "@" } else { "" };
    format!("{at}{name}")
}

fn too_large(flag: &'static str, shown: &str, size: &str, most: u64) -> PlanError {
    let mebibytes = most >> 20;
    let problem = format!("it has {size} bytes; the most is {most} ({mebibytes} MiB)");
    let cure = match most {
        COPIED_MAX => "give a smaller one, or a regular file of up to 1024 MiB",
        _ => "give a smaller one",
    };
    PlanError::new(flag, shown, problem, cure)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_body_is_read_up_to_its_bound_and_no_further() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let body = Some(format!("@{}", file.path().display()));
        let plan = Plan { body, ..Plan::default() };
        for (size, fits) in [
            (0, true),
            (MAPPED_MIN - 1, true),
            (MAPPED_MIN, true),
            (BODY_MAX, true),
            (BODY_MAX + 1, false),
            (1 << 42, false),
        ] {
            file.as_file().set_len(size).expect("a hole takes no room");
            let read = Body::read(&plan);
            assert_eq!(read.as_ref().map(Body::length).ok(), fits.then_some(size));
            if let Ok(read) = &read {
                let is_mapped = matches!(read.content, Content::File(_));
                assert_eq!(is_mapped, MAPPED_MIN <= size, "{size}");
            }
            let message = read.err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(message.contains(&format!("it has {size} bytes")), !fits, "{message}");
        }
        // This file has no end.
        let plan = Plan { body: Some("@/dev/zero".to_owned()), ..Plan::default() };
        let error = Body::read(&plan).expect_err("refused");
        assert_eq!((error.flag, error.value.as_str()), ("--body", "@/dev/zero"));
        assert!(error.to_string().contains("more than 268435456 bytes"), "{error}");
    }

    #[test]
    fn bytes_that_are_no_text_are_written_as_base64() {
        for (bytes, text) in [
            (&b"Punch!"[..], "Punch!"),
            (b"", ""),
            (b"@file", "@data:;base64,QGZpbGU="),
            (&[0xff, 0], "@data:;base64,/wA="),
        ] {
            assert_eq!(text_of(bytes.to_vec()), text);
            let plan = Plan { body: Some(text.to_owned()), ..Plan::default() };
            let Content::Bytes(read) = Body::read(&plan).expect("a body").content else {
                panic!("in memory")
            };
            assert_eq!(read, bytes);
        }
        let plan = Plan { body: Some(format!("{DATA}pa55!")), ..Plan::default() };
        let error = Body::read(&plan).expect_err("refused").to_string();
        assert!(error.starts_with("--body @data:;base64,: the data isn't base64"), "{error}");
        assert!(!error.contains("pa55"), "{error}");
        assert_eq!([file_name("@a"), file_name("a"), file_name(DATA)], [Some("a"), None, None]);
    }

    #[test]
    fn a_file_has_the_hash_of_its_bytes() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let bytes: Vec<u8> = (0..3 * MAPPED_MIN / 2).map(|at| at.to_le_bytes()[1]).collect();
        file.write_all(&bytes).expect("written");
        let plan = Plan { body: Some(format!("@{}", file.path().display())), ..Plan::default() };
        let read = Body::read(&plan).expect("a body");
        assert!(matches!(read.content, Content::File(_)));
        assert_eq!(read.sha256, Body::of_bytes(bytes).sha256);
    }

    #[test]
    fn a_part_is_the_same_bytes_in_memory_and_in_a_file() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let bytes: Vec<u8> = (0..MAPPED_MIN + 5).map(|at| at.to_le_bytes()[0]).collect();
        file.write_all(&bytes).expect("written");
        let mapped = Body::read_file("--body", &file.path().display().to_string()).expect("a file");
        for body in [Body::of_bytes(bytes.clone()), mapped] {
            for (offset, most, length) in
                [(0, 10, 10), (MAPPED_MIN, 9, 5), (MAPPED_MIN + 5, 9, 0), (7, 0, 0)]
            {
                let from = usize::try_from(offset).expect("short");
                let part = body.part(offset, most).expect("it is there");
                assert_eq!(part, bytes[from..from + length], "{offset}, {most}");
            }
        }
    }

    #[test]
    fn given_files_are_all_there_are() {
        let file = Arc::new(Body::of_bytes(b"given".to_vec()));
        let files = SharedBody::of_files([("a".to_owned(), file)]);
        let plan = |body: &str| Plan { body: Some(body.to_owned()), ..Plan::default() };
        let length = |body: &str| files.read(&plan(body)).map(|body| body.length());
        assert_eq!((length("@a"), length("text")), (Ok(5), Ok(4)));
        assert_eq!(files.read(&Plan::default()).expect("none").length(), 0);
        for name in ["/etc/passwd", "/dev/zero", "", "./a"] {
            let error = length(&format!("@{name}")).expect_err("refused");
            assert_eq!((error.flag, error.value), ("--body", format!("@{name}")));
            assert!(error.problem.starts_with("this file didn't come with the plan"));
            assert!(files.file("--data", name).is_err());
        }
    }
}
