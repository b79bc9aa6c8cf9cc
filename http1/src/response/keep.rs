//! What a caller keeps of a response beside its status.

/// Takes a response's bytes as they are parsed. The unit type keeps nothing, at no cost.
pub trait Keep {
    /// A head is complete, the final one or an interim one: whatever was kept before is of an
    /// earlier head.
    fn head(&mut self, bytes: &[u8]);

    /// The next bytes of the body, without the chunked framing.
    fn body(&mut self, bytes: &[u8]);
}

impl Keep for () {
    #[inline(always)]
    fn head(&mut self, _: &[u8]) {}

    #[inline(always)]
    fn body(&mut self, _: &[u8]) {}
}
