//! The files of a plan, as its agents are sent them.

use std::sync::Arc;

use engine::plan::body::{self, Body, SharedBody};
use engine::plan::{Plan, PlanError};

use super::fault::Fault;
use crate::frame::Kind;
use crate::message::{ATTACHMENT_MAX, Attachment, PART_BYTES, Part, Wanted};

/// The files of one plan.
pub(super) struct Attachments(Vec<(Attachment, Arc<Body>)>);

impl Attachments {
    /// The files that a plan names, as `files` has them.
    ///
    /// # Errors
    /// One can't be read, or is larger than an agent takes.
    pub(super) fn of_plan(plan: &Plan, files: &SharedBody) -> Result<Attachments, PlanError> {
        let attached = plan.files().into_iter().map(|(flag, name)| {
            let file = files.file(flag, &name)?;
            let (length, sha256) = (file.length(), *file.sha256());
            if ATTACHMENT_MAX < length {
                let problem = format!(
                    "the file has {length} bytes; an agent takes {ATTACHMENT_MAX} ({} MiB)",
                    ATTACHMENT_MAX >> 20
                );
                let cure = "give a smaller one, or use `truetail run`";
                return Err(PlanError::new(flag, body::shown(flag, &name), problem, cure));
            }
            Ok((Attachment { name, length, sha256 }, file))
        });
        attached.collect::<Result<_, _>>().map(Attachments)
    }

    /// What an agent is asked whether it has.
    pub(super) fn announced(&self) -> Vec<Attachment> {
        self.0.iter().map(|(attachment, _)| attachment.clone()).collect()
    }

    /// The part that an agent asks for.
    ///
    /// # Errors
    /// There is no such part, or the file can't be read.
    pub(super) fn part(&self, wanted: Wanted) -> Result<Part, Fault> {
        let Wanted { number, offset } = wanted;
        let found = usize::try_from(number).ok().and_then(|at| self.0.get(at));
        let found = found.filter(|(attachment, _)| offset < attachment.length);
        let (Attachment { name, .. }, body) = found.ok_or(Fault::OutOfTurn(Kind::Wanted))?;
        let bytes = body.part(offset, PART_BYTES).map_err(|error| {
            Fault::File(format!("@{name}: can't be read again ({error}); leave it unchanged"))
        })?;
        Ok(Part { number, offset, bytes: bytes.into() })
    }
}
