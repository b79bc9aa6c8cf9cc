//! What may be a secret is never repeated on stderr.
