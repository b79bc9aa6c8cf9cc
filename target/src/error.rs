//! Errors of servers: a line that names the flag, its value, the problem and the cure, and whose
//! doing it is.

use thiserror::Error;

use crate::certificate::CertificateError;

/// Why a server couldn't start, or failed while it ran.
#[derive(Debug, Error)]
pub enum TargetError {
    /// A value is impossible.
    #[error("{0}")]
    Usage(String),
    /// The kernel refuses what every such server needs.
    #[error("{0}")]
    Refused(String),
    /// Anything else, such as an address that something else listens on.
    #[error("{0}")]
    Failed(String),
    /// The server has no certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// Cores in the notation of the flag.
pub(crate) fn list(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}
