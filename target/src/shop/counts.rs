//! What one executor counts of the shop: requests and think times by step, errors by kind.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::STEPS;
use crate::distribution::Distribution;

/// The counts of one executor, or their sum over several.
#[derive(Clone, Debug)]
pub(crate) struct ShopCounts {
    /// Requests read in full, by step.
    pub(crate) requests: [u64; STEPS.len()],
    /// Of these, those that were refused, by kind.
    pub(crate) errors: ShopErrors,
    /// The times since the response before, by step.
    pub(crate) think: [Distribution; STEPS.len()],
}

/// What may be wrong with a request of the shop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    WrongToken,
    WrongCookie,
    WrongValue,
    OutOfOrder,
}

/// Requests that the shop refused, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShopErrors {
    /// Without a token of a session that is remembered: 401.
    pub wrong_token: u64,
    /// Without the cookie of the token's session: 403.
    pub wrong_cookie: u64,
    /// With an id or CSRF value that isn't of this session, or without a field that the step needs:
    /// 422.
    pub wrong_value: u64,
    /// Before a step that it needs, such as a payment without anything in the basket: 409.
    pub out_of_order: u64,
}

impl Fault {
    /// The status of the response, and the fault's name.
    pub(crate) fn status(self) -> (u16, &'static str) {
        match self {
            Fault::WrongToken => (401, "wrong_token"),
            Fault::WrongCookie => (403, "wrong_cookie"),
            Fault::WrongValue => (422, "wrong_value"),
            Fault::OutOfOrder => (409, "out_of_order"),
        }
    }
}

impl ShopErrors {
    /// Counts a request with this fault.
    pub(crate) fn count(&mut self, fault: Fault) {
        *match fault {
            Fault::WrongToken => &mut self.wrong_token,
            Fault::WrongCookie => &mut self.wrong_cookie,
            Fault::WrongValue => &mut self.wrong_value,
            Fault::OutOfOrder => &mut self.out_of_order,
        } += 1;
    }
}

impl ShopCounts {
    /// Zero counts. All memory is allocated here.
    pub(crate) fn new() -> ShopCounts {
        ShopCounts {
            requests: [0; STEPS.len()],
            errors: ShopErrors::default(),
            think: std::array::from_fn(|_| Distribution::new()),
        }
    }
}

impl AddAssign<&ShopCounts> for ShopCounts {
    fn add_assign(&mut self, other: &ShopCounts) {
        for (own, others) in self.requests.iter_mut().zip(other.requests) {
            *own += others;
        }
        for (own, others) in self.think.iter_mut().zip(&other.think) {
            *own += others;
        }
        self.errors.wrong_token += other.errors.wrong_token;
        self.errors.wrong_cookie += other.errors.wrong_cookie;
        self.errors.wrong_value += other.errors.wrong_value;
        self.errors.out_of_order += other.errors.out_of_order;
    }
}
