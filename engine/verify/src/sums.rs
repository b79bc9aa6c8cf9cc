//! Checks the outcome counts of the whole, of an agent and of a step against each other.

use plan::status::StatusSet;
use record::counts::Counts;

use super::finding::Finding;

/// Every request was sent or not, every sent one ended, and each total is the sum of its breakdown.
/// `success` has the statuses that are successes; `None` if steps differ in that.
pub(super) fn outcomes(counts: &Counts, success: Option<&StatusSet>) -> Vec<Finding> {
    let Counts { intended, sent, unsent, answered, timed_out, failed, abandoned, .. } = *counts;
    let unexpected = success.map(|success| counts.unexpected(success));
    vec![
        Finding::equal("intended = sent + unsent", sent + unsent, intended),
        Finding::equal(
            "sent = answered + timed_out + failed + abandoned",
            answered + timed_out + failed + abandoned,
            sent,
        ),
        Finding::equal("answered = sum of statuses", counts.status.total(), answered),
        Finding::equal(
            "timed_out + failed = sum of errors",
            counts.errors.total(),
            timed_out + failed,
        ),
        Finding::equal("unsent = sum of reasons", counts.unsent_reasons.total(), unsent),
        match unexpected {
            Some(unexpected) => {
                Finding::equal("unexpected_status", unexpected, counts.unexpected_status)
            }
            None => {
                Finding::at_most("unexpected_status", counts.answered, counts.unexpected_status)
            }
        },
    ]
}
