//! Where to connect to instead of a URL's own host and port: `--connect-to` and `--resolve`.

use std::net::IpAddr;

use http::uri::Authority;

use super::endpoint::{Endpoint, origin, shown};
use super::error::PlanError;
use super::plan::Plan;

/// A rule for where to connect to.
struct ConnectTo {
    /// The host and the port of the URLs that it is for; `None` for any.
    from: (Option<String>, Option<u16>),
    /// Where to connect to instead; `None` for the URL's own.
    to: (Option<String>, Option<u16>),
}

/// An address for a host and a port.
struct Resolve {
    host: String,
    port: u16,
    address: IpAddr,
}

/// The rules of a plan, in the order given: the first that is for a host and port decides.
pub(super) struct Places<'a> {
    connect_to: Vec<(&'a str, ConnectTo)>,
    resolve: Vec<(&'a str, Resolve)>,
}

impl Places<'_> {
    /// The rules with these texts.
    ///
    /// # Errors
    /// A text isn't a rule.
    pub(super) fn new<'a>(
        connect_to: &'a [String],
        resolve: &'a [String],
    ) -> Result<Places<'a>, PlanError> {
        let connect_to = connect_to.iter().map(|text| Ok((text.as_str(), parse_connect_to(text)?)));
        let resolve = resolve.iter().map(|text| Ok((text.as_str(), parse_resolve(text)?)));
        let connect_to: Result<Vec<(&str, ConnectTo)>, PlanError> = connect_to.collect();
        let resolve: Result<Vec<(&str, Resolve)>, PlanError> = resolve.collect();
        Ok(Places { connect_to: connect_to?, resolve: resolve? })
    }

    /// The flag that sets where this endpoint connects to, and its value; `None` if that is the
    /// URL's own host and port. The endpoint then has that host and port.
    ///
    /// # Errors
    /// Two flags are for it.
    pub(super) fn place(
        &self,
        endpoint: &mut Endpoint,
    ) -> Result<Option<(&'static str, String)>, PlanError> {
        let (host, port) = (endpoint.host.clone(), endpoint.port);
        let connect_to = self.connect_to.iter().find(|(_, rule)| rule.is_for(&host, port));
        let resolve = self.resolve.iter().find(|(_, rule)| rule.is_for(&host, port));
        match (connect_to, resolve) {
            (Some(_), Some((text, _))) => {
                let problem = "--connect-to already sets where to connect to";
                Err(PlanError::new("--resolve", shown(text), problem, "omit one of them"))
            }
            (Some((text, rule)), None) => {
                let (to_host, to_port) = &rule.to;
                endpoint.host = to_host.clone().unwrap_or(host);
                endpoint.port = to_port.unwrap_or(port);
                Ok(Some(("--connect-to", shown(text))))
            }
            (None, Some((text, rule))) => {
                endpoint.host = rule.address.to_string();
                Ok(Some(("--resolve", shown(text))))
            }
            (None, None) => Ok(None),
        }
    }

    /// Checks that each rule is for one of these hosts and ports.
    ///
    /// # Errors
    /// The first that isn't.
    pub(super) fn check_used(&self, urls: &[(String, u16)]) -> Result<(), PlanError> {
        let resolve = self.resolve.iter().find(|(_, rule)| !rule.is_for_any(urls));
        let connect_to = self.connect_to.iter().find(|(_, rule)| !rule.is_for_any(urls));
        let (flag, text, cure) = match (connect_to, resolve) {
            (Some((text, _)), _) => {
                let cure = "give the URL's own host and port before the second, or HOST2:PORT2 \
                            alone for all URLs";
                ("--connect-to", text, cure)
            }
            (None, Some((text, _))) => {
                ("--resolve", text, "give the URL's own host and port, or use --connect-to")
            }
            (None, None) => return Ok(()),
        };
        let problem = match urls {
            [(host, port)] => format!("the URL is at {host}:{port}"),
            _ => "no URL is at that host and port".to_owned(),
        };
        Err(PlanError::new(flag, shown(text), problem, cure))
    }
}

impl Plan {
    /// Drops the rules for where to connect to that are for URLs of `other` and for none of its
    /// own: two sides of a comparison are given the same rules.
    pub fn drop_places_of(&mut self, other: &Plan) {
        let place = |url: String| Endpoint::parse(origin(&url)).ok().map(|it| (it.host, it.port));
        let places = |plan: &Plan| plan.urls().into_iter().filter_map(place).collect::<Vec<_>>();
        let (own, others) = (places(self), places(other));
        // What isn't a rule is refused later.
        self.connect_to.retain(|text| {
            let is_others = |it: ConnectTo| !it.is_for_any(&own) && it.is_for_any(&others);
            !parse_connect_to(text).is_ok_and(is_others)
        });
        self.resolve.retain(|text| {
            let is_others = |it: Resolve| !it.is_for_any(&own) && it.is_for_any(&others);
            !parse_resolve(text).is_ok_and(is_others)
        });
    }
}

impl ConnectTo {
    fn is_for(&self, host: &str, port: u16) -> bool {
        let (from_host, from_port) = &self.from;
        from_host.as_ref().is_none_or(|from| from.eq_ignore_ascii_case(host))
            && from_port.is_none_or(|from| from == port)
    }

    fn is_for_any(&self, urls: &[(String, u16)]) -> bool {
        urls.iter().any(|(host, port)| self.is_for(host, *port))
    }
}

impl Resolve {
    fn is_for_any(&self, urls: &[(String, u16)]) -> bool {
        urls.iter().any(|(host, port)| self.is_for(host, *port))
    }

    fn is_for(&self, host: &str, port: u16) -> bool {
        port == self.port && host.eq_ignore_ascii_case(&self.host)
    }
}

/// Parses `host:port`, for any URL, or `host:port:host:port`, in which each part may be empty.
fn parse_connect_to(text: &str) -> Result<ConnectTo, PlanError> {
    let rule = match parts(text)[..] {
        [_, _] => parse_place(text)
            .map(|(host, port)| ConnectTo { from: (None, None), to: (Some(host), Some(port)) }),
        [from_host, from_port, to_host, to_port] => {
            let from = host_of(from_host).zip(port_of(from_port));
            from.zip(host_of(to_host).zip(port_of(to_port)))
                .map(|(from, to)| ConnectTo { from, to })
        }
        _ => None,
    };
    rule.ok_or_else(|| {
        let problem = "not a host and a port";
        let cure = "give HOST:PORT, e.g. 10.0.0.2:8080 or [::1]:8080, or HOST1:PORT1:HOST2:PORT2 \
                    for the URLs of one host";
        PlanError::new("--connect-to", shown(text), problem, cure)
    })
}

/// The parts of a text between colons; those within brackets don't part it.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let is_between = |found: char| {
        match found {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        found == ':' && depth == 0
    };
    text.split(is_between).collect()
}

/// A host without its brackets, `Some(None)` for an empty one; `None` for what can't be one.
fn host_of(text: &str) -> Option<Option<String>> {
    if text.is_empty() {
        return Some(None);
    }
    let (host, _) = parse_place(&format!("{text}:1"))?;
    Some(Some(host))
}

/// A port, `Some(None)` for an empty one; `None` for what can't be one.
fn port_of(text: &str) -> Option<Option<u16>> {
    match text.parse() {
        Ok(0) => None,
        Ok(port) => Some(Some(port)),
        Err(_) => text.is_empty().then_some(None),
    }
}

/// Parses `host:port:address`.
fn parse_resolve(text: &str) -> Result<Resolve, PlanError> {
    // An IPv6 address has colons, and so may the host.
    let parts = text.match_indices(':').find_map(|(at, _)| {
        let address = text[at + 1..].trim_start_matches('[').trim_end_matches(']');
        Some((parse_place(&text[..at])?, address.parse::<IpAddr>().ok()?))
    });
    let Some(((host, port), address)) = parts else {
        let problem = "not a host, a port and an IP address";
        let cure = "give HOST:PORT:ADDRESS, e.g. api.test:80:10.0.0.2";
        return Err(PlanError::new("--resolve", shown(text), problem, cure));
    };
    Ok(Resolve { host, port, address })
}

/// Parses a host and its port; the host loses its brackets.
fn parse_place(text: &str) -> Option<(String, u16)> {
    let authority: Authority = text.parse().ok()?;
    let port = authority.port_u16().filter(|port| *port != 0)?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let is_place = !host.is_empty() && !text.contains('@');
    is_place.then(|| (host.to_owned(), port))
}
