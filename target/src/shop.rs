//! The shop: what it answers to each step of a user, and whether the user brought along what the
//! steps before gave.
//!
//! No value is stored: each is computed from the number of its session, so that a value of one
//! session is none of another, and of an earlier target's is none at all.

mod counts;
mod request;
mod sessions;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

pub use counts::ShopErrors;
pub(crate) use counts::{Fault, ShopCounts};
pub(crate) use request::{Asked, STEPS, Step};

use request::form_value;
use sessions::{SESSIONS_MAX, Sessions};

/// The items that a search finds.
const ITEMS: usize = 3;

/// The shop that all executors of a target serve: a user's next step may come on any connection.
pub(crate) struct Shop {
    /// Makes the values of this target differ from those of others.
    secret: u64,
    sessions: Sessions,
    orders: AtomicU64,
}

/// A response of the shop.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The status.
    pub(crate) status: u16,
    /// The body's type.
    pub(crate) content_type: &'static str,
    /// A header field besides those of every response.
    pub(crate) field: Option<(&'static str, String)>,
    /// The body.
    pub(crate) body: String,
    /// The session that it belongs to, if the request showed one.
    pub(crate) session: Option<usize>,
}

/// What a value is for.
#[derive(Hash)]
enum Value {
    Token,
    Basket,
    /// The id of this item.
    Item(usize),
    /// What the form of this item carries.
    Csrf(usize),
}

const JSON: &str = "application/json";
const HTML: &str = "text/html";

impl Shop {
    /// A shop without sessions.
    pub(crate) fn new(secret: u64) -> Shop {
        Shop { secret, sessions: Sessions::new(SESSIONS_MAX), orders: AtomicU64::new(0) }
    }

    /// The sessions begun, and how many of them are on which path so far.
    pub(crate) fn paths(&self) -> (u64, BTreeMap<String, u64>) {
        self.sessions.paths()
    }

    /// The reply to a request whose first bytes arrived at `arrived_ns`.
    pub(crate) fn reply(&self, asked: &Asked, arrived_ns: u64, counts: &mut ShopCounts) -> Reply {
        counts.requests[asked.step as usize] += 1;
        if asked.step == Step::Login {
            return self.log_in(asked).unwrap_or_else(|fault| Reply::fault(fault, counts));
        }
        // The session may be one that is no longer remembered.
        let arrived = asked.token.and_then(|token| {
            let session = self.session(token)?;
            Some((session, self.sessions.arrive(session).ok()?))
        });
        let Some((session, answered_ns)) = arrived else {
            return Reply::fault(Fault::WrongToken, counts);
        };
        if let Some(answered_ns) = answered_ns {
            // A request may begin to arrive before the response to the one before it leaves.
            counts.think[asked.step as usize].record(arrived_ns.saturating_sub(answered_ns));
        }
        let reply = self.serve(asked, session);
        let reply = reply.unwrap_or_else(|fault| Reply::fault(fault, counts));
        Reply { session: Some(session), ..reply }
    }

    /// Notes that a reply is handed to the kernel now.
    pub(crate) fn hand_over(&self, reply: &Reply, handed_ns: u64) {
        if let Some(session) = reply.session {
            self.sessions.answer(session, handed_ns);
        }
    }

    fn log_in(&self, asked: &Asked) -> Result<Reply, Fault> {
        let user = form_value(&asked.body(), "user").ok_or(Fault::WrongValue)?;
        let session = self.sessions.begin();
        let token = format!("{:032x}", self.token(session));
        let body = json!({ "access_token": token, "user": user });
        let basket = self.value(session, &Value::Basket);
        let cookie = format!("basket={basket:016x}; Path=/");
        Ok(Reply {
            field: Some(("Set-Cookie", cookie)),
            session: Some(session),
            ..Reply::new(JSON, body.to_string())
        })
    }

    fn token(&self, session: usize) -> u128 {
        (session as u128) << 64 | u128::from(self.value(session, &Value::Token))
    }

    /// The session of a token, if a login of this target gave it.
    fn session(&self, token: u128) -> Option<usize> {
        let session = usize::try_from(token >> 64).ok()?;
        (token == self.token(session)).then_some(session)
    }

    /// The reply to a step of a session after its login.
    fn serve(&self, asked: &Asked, session: usize) -> Result<Reply, Fault> {
        let step = asked.step;
        let needs_basket = matches!(step, Step::Basket | Step::View | Step::Pay);
        if needs_basket && asked.basket != Some(self.value(session, &Value::Basket)) {
            return Err(Fault::WrongCookie);
        }
        let reply = match step {
            Step::Login => unreachable!("a login begins a session"),
            Step::Search => {
                form_value(&asked.detail, "q").ok_or(Fault::WrongValue)?;
                let items = (0..ITEMS).map(|item| {
                    let id = self.value(session, &Value::Item(item));
                    json!({ "id": format!("{id:016x}"), "name": format!("item {item}") })
                });
                Reply::new(JSON, json!({ "items": items.collect::<Vec<_>>() }).to_string())
            }
            Step::Items => {
                let item = self.item(session, &asked.detail)?;
                let csrf = self.value(session, &Value::Csrf(item));
                let id = &asked.detail;
                let form = format!(
                    "<!doctype html>\n<title>item {item}</title>\n\
                     <form method=\"post\" action=\"/basket\">\n\
                     <input type=\"hidden\" name=\"id\" value=\"{id}\">\n\
                     <input type=\"hidden\" name=\"csrf\" value=\"{csrf:016x}\">\n\
                     <button>Buy</button>\n</form>\n"
                );
                Reply::new(HTML, form)
            }
            Step::Basket => {
                let body = asked.body();
                let id = form_value(&body, "id").ok_or(Fault::WrongValue)?;
                let csrf = form_value(&body, "csrf").ok_or(Fault::WrongValue)?;
                let item = self.item(session, &id)?;
                if csrf != format!("{:016x}", self.value(session, &Value::Csrf(item))) {
                    return Err(Fault::WrongValue);
                }
                let field = Some(("Location", "/basket".to_owned()));
                Reply { status: 303, field, ..Reply::new(HTML, String::new()) }
            }
            Step::View => Reply::new(HTML, "<!doctype html>\n<title>basket</title>\n".to_owned()),
            Step::Pay => {
                self.sessions.step(session, step)?;
                let order = self.orders.fetch_add(1, Ordering::Relaxed) + 1;
                return Ok(Reply::new(JSON, json!({ "ok": true, "order": order }).to_string()));
            }
        };
        self.sessions.step(session, step)?;
        Ok(reply)
    }

    /// Which item of this session has this id.
    fn item(&self, session: usize, id: &str) -> Result<usize, Fault> {
        let is = |item: &usize| id == format!("{:016x}", self.value(session, &Value::Item(*item)));
        (0..ITEMS).find(is).ok_or(Fault::WrongValue)
    }

    fn value(&self, session: usize, of: &Value) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.secret, session, of).hash(&mut hasher);
        hasher.finish()
    }
}

impl Reply {
    fn new(content_type: &'static str, body: String) -> Reply {
        Reply { status: 200, content_type, field: None, body, session: None }
    }

    fn fault(fault: Fault, counts: &mut ShopCounts) -> Reply {
        counts.errors.count(fault);
        let (status, name) = fault.status();
        Reply { status, ..Reply::new(JSON, json!({ "error": name }).to_string()) }
    }
}
