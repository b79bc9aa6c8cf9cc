//! The user data of a ring operation: its kind, its connection's slot and that slot's generation.
//!
//! The generation tells a slot's successive sockets apart: a completion of an earlier one only
//! returns its buffer.

/// The number of bits that tell the generations of a slot apart.
pub const GENERATION_BITS: u32 = 24;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Connects a socket.
    Connect,
    /// Receives from a socket, multishot.
    Receive,
    /// Sends a request.
    Send,
}

/// A decoded token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The operation's kind.
    pub kind: Op,
    /// The slot's generation when it began.
    pub generation: u32,
    /// The slot of its connection.
    pub slot: u32,
}

const SLOT_BITS: u32 = 32;
const KIND_SHIFT: u32 = SLOT_BITS + GENERATION_BITS;

impl Token {
    /// The user data for the ring.
    #[inline]
    pub fn encode(self) -> u64 {
        let kind = match self.kind {
            Op::Connect => 1,
            Op::Receive => 2,
            Op::Send => 3,
        };
        kind << KIND_SHIFT | u64::from(self.generation) << SLOT_BITS | u64::from(self.slot)
    }

    /// Decodes user data made by [`Token::encode`].
    #[inline]
    pub fn decode(word: u64) -> Token {
        let kind = match word >> KIND_SHIFT {
            1 => Op::Connect,
            2 => Op::Receive,
            3 => Op::Send,
            other => unreachable!("no operation of kind {other} was started"),
        };
        let field = |shift: u32, bits: u32| {
            u32::try_from(word >> shift & ((1 << bits) - 1)).expect("the field has at most 32 bits")
        };
        Token { kind, generation: field(SLOT_BITS, GENERATION_BITS), slot: field(0, SLOT_BITS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        for kind in [Op::Connect, Op::Receive, Op::Send] {
            for (generation, slot) in [(0, 0), (1, u32::MAX), ((1 << GENERATION_BITS) - 1, 7)] {
                let token = Token { kind, generation, slot };
                assert_eq!(Token::decode(token.encode()), token);
                assert_ne!(token.encode(), crate::TOKEN_NONE);
            }
        }
    }
}
