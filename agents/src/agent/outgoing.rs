//! The results of a run on their way to a controller: messages one after another, and then the raw
//! samples, part by part as the controller asks for them.

use std::fs::File;
use std::io;
use std::iter;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use engine::samples::segment_files;

use crate::frame::Kind;
use crate::message::{Message, PART_BYTES, Part, Wanted};
use crate::refusal::Refusal;

/// The results of a run.
pub(super) struct Outgoing {
    messages: std::vec::IntoIter<Message>,
    samples: Option<RawFile>,
    /// Bytes of the samples that were sent.
    sent: u64,
}

impl Outgoing {
    /// All of a run's results; no `samples` if the controller wants none, or if they are lost.
    pub(super) fn new(messages: Vec<Message>, samples: Option<RawFile>) -> Outgoing {
        Outgoing { messages: messages.into_iter(), samples, sent: 0 }
    }

    /// The next message; `None` once all were taken.
    pub(super) fn next(&mut self) -> Option<Message> {
        self.messages.next()
    }

    /// True if all messages were taken, so that the controller is next to speak.
    pub(super) fn is_out(&self) -> bool {
        self.messages.len() == 0
    }

    /// True if the controller has the raw samples, or wants none.
    pub(super) fn has_sent_samples(&self) -> bool {
        self.samples.as_ref().is_none_or(|samples| self.sent == samples.length)
    }

    /// The part of the raw samples that the controller asks for, which must be the next one.
    ///
    /// # Errors
    /// It isn't, or the file can't be read.
    pub(super) fn part(&mut self, wanted: Wanted) -> Result<Part, Refusal> {
        let Wanted { number, offset } = wanted;
        let samples = self.samples.as_ref().filter(|samples| {
            self.is_out() && (number, offset) == (0, self.sent) && offset < samples.length
        });
        let samples = samples.ok_or_else(|| Refusal::OutOfTurn(Kind::Wanted.to_string()))?;
        let rest = samples.length - offset;
        let length = usize::try_from(rest).map_or(PART_BYTES, |rest| rest.min(PART_BYTES));
        let mut bytes = vec![0; length];
        samples
            .read_at(&mut bytes, offset)
            .map_err(|error| Refusal::Run(format!("its raw samples can't be read ({error})")))?;
        self.sent += length as u64;
        Ok(Part { number, offset, bytes: bytes.into() })
    }
}

/// The segments of raw samples, read as if they were one file.
pub(super) struct RawFile {
    segments: Vec<File>,
    /// Their length together, bytes.
    pub(super) length: u64,
}

impl RawFile {
    /// Opens the segments of this file.
    ///
    /// # Errors
    /// The disk's refusal, or there are none.
    pub(super) fn open(file: &Path) -> io::Result<RawFile> {
        let first = File::open(file)?;
        let later = segment_files(file).into_iter().skip(1).map(File::open);
        let segments: Vec<File> = iter::once(Ok(first)).chain(later).collect::<io::Result<_>>()?;
        let lengths = segments.iter().map(|segment| Ok(segment.metadata()?.len()));
        let length = lengths.sum::<io::Result<u64>>()?;
        Ok(RawFile { segments, length })
    }

    /// Fills `bytes` from `offset`.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let (mut filled, mut begins) = (0, 0);
        for segment in &self.segments {
            let ends = begins + segment.metadata()?.len();
            while filled < bytes.len() && offset + (filled as u64) < ends {
                match segment.read_at(&mut bytes[filled..], offset + filled as u64 - begins)? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    read => filled += read,
                }
            }
            begins = ends;
        }
        if filled < bytes.len() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}
