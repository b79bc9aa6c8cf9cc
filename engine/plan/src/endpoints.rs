//! The endpoints of a plan: each scheme, host and port that its requests go to, once.
//!
//! Sessions with connections of their own have an endpoint of their own, so that its connections,
//! and the requests that wait for one, aren't mixed with any others.

use std::collections::HashMap;

use super::endpoint::{Endpoint, origin, shown};
use super::error::PlanError;
use super::place::Places;
use super::plan::{Model, Plan};
use super::scenario::Scenario;

/// The most connections of one plan.
pub const CONNS_MAX: usize = 1_000_000;

/// One endpoint of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanEndpoint {
    /// Its host and port, and where to connect to. The path is `/`.
    pub endpoint: Endpoint,
    /// True if each of its connections is one session's.
    pub own: bool,
    /// The weights of its requests together.
    pub weight: u64,
    /// The flag that sets where to connect to.
    pub flag: &'static str,
    /// The part of that flag's value that an error may show.
    pub value: String,
}

impl PlanEndpoint {
    /// The endpoint of this URL, connected to where the plan has it; without requests yet.
    fn new(
        plan: &Plan,
        places: &Places,
        mut endpoint: Endpoint,
        url: &str,
    ) -> Result<PlanEndpoint, PlanError> {
        let place = match &plan.unix {
            Some(path) => Some(("--unix", path.display().to_string())),
            None => places.place(&mut endpoint)?,
        };
        let is_targets_own = origin(&plan.target) == origin(url);
        let own = if is_targets_own { "--target" } else { plan.scenario_key() };
        let (flag, value) = place.unwrap_or_else(|| (own, shown(url)));
        Ok(PlanEndpoint { endpoint, own: false, weight: 0, flag, value })
    }

    /// Its name in a report: `http://host:port`.
    pub fn name(&self) -> String {
        let origin = self.endpoint.origin();
        if self.own { format!("{origin} (own connections)") } else { origin }
    }

    /// An error about this endpoint, by the flag that sets where to connect to.
    pub fn error(&self, problem: impl Into<String>, cure: impl Into<String>) -> PlanError {
        PlanError::new(self.flag, &self.value, problem, cure)
    }
}

/// The endpoints of a plan's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    each: Vec<PlanEndpoint>,
    of_steps: Vec<u16>,
}

impl Endpoints {
    /// The endpoints of a plan, in the order of its requests.
    ///
    /// # Errors
    /// Those of [`Endpoint::parse`]; a malformed `connect_to` or `resolve`, or a `resolve` for none
    /// of them.
    pub fn of(plan: &Plan) -> Result<Endpoints, PlanError> {
        let places = Places::new(&plan.connect_to, &plan.resolve)?;
        let others = [("--connect-to", &plan.connect_to), ("--resolve", &plan.resolve)];
        let other = others.into_iter().find_map(|(flag, texts)| Some((flag, texts.first()?)));
        if let (Some(_), Some((flag, text))) = (&plan.unix, other) {
            let problem = "--unix already sets where to connect to";
            return Err(PlanError::new(flag, shown(text), problem, "omit one of them"));
        }
        let mut urls: Vec<(String, u16)> = Vec::new();
        let (mut each, mut of_steps): (Vec<PlanEndpoint>, Vec<u16>) = (Vec::new(), Vec::new());
        // Many requests, few origins: each text is parsed once.
        let mut by_text: HashMap<(String, bool), u16> = HashMap::new();
        let requests = plan.urls().into_iter().zip(plan.step_weights()).zip(own_connections(plan));
        for ((url, weight), own) in requests {
            let text = origin(&url);
            let at = match by_text.get(&(text.to_owned(), own)) {
                Some(at) => *at,
                None => {
                    let endpoint = Endpoint::parse(text)?;
                    let is_same =
                        |it: &PlanEndpoint| it.own == own && it.endpoint.is_same_host(&endpoint);
                    let known = each.iter().position(is_same);
                    let at = known.unwrap_or(each.len());
                    if known.is_none() {
                        urls.push((endpoint.host.clone(), endpoint.port));
                        let new = PlanEndpoint::new(plan, &places, endpoint, &url)?;
                        each.push(PlanEndpoint { own, ..new });
                    }
                    let at = u16::try_from(at).expect("no more endpoints than scenarios");
                    by_text.insert((text.to_owned(), own), at);
                    at
                }
            };
            each[usize::from(at)].weight += u64::from(weight);
            of_steps.push(at);
        }
        places.check_used(&urls)?;
        Ok(Endpoints { each, of_steps })
    }

    /// Each endpoint.
    pub fn each(&self) -> &[PlanEndpoint] {
        &self.each
    }

    /// The endpoint of each of the plan's requests.
    pub fn of_steps(&self) -> &[u16] {
        &self.of_steps
    }

    /// The most connections that `conns` of a completed plan's may become: closed users keep one
    /// to each endpoint.
    pub fn sockets(&self, plan: &Plan, conns: usize) -> usize {
        match plan.model() {
            Model::Open => conns,
            Model::Closed => conns.saturating_mul(self.each.len()),
        }
    }

    /// Divides so many connections, to be opened in advance, among the endpoints, by their weights.
    /// Sessions open their own.
    pub fn divide(&self, count: usize) -> Vec<usize> {
        let weight_of = |of: &PlanEndpoint| if of.own { 0 } else { of.weight };
        let total: u64 = self.each.iter().map(weight_of).sum();
        let mut weight = 0;
        let up_to = |weight: u64| {
            let part = count as u128 * u128::from(weight) / u128::from(total.max(1));
            usize::try_from(part).expect("a part is at most the whole")
        };
        let each = self.each.iter().map(|endpoint| {
            let before = up_to(weight);
            weight += weight_of(endpoint);
            up_to(weight) - before
        });
        each.collect()
    }

    /// Checks that a completed plan's users don't need more connections than a run may have.
    ///
    /// # Errors
    /// They do.
    pub fn check_conns(&self, plan: &Plan) -> Result<(), PlanError> {
        let sockets = self.sockets(plan, plan.conns());
        if sockets <= CONNS_MAX {
            return Ok(());
        }
        let problem = format!(
            "each closed user has a connection to each of {} hosts, {sockets} in all, above \
             {CONNS_MAX}",
            self.each.len()
        );
        Err(PlanError::new("--conns", plan.conns(), problem, "lower it, or load fewer hosts"))
    }
}

/// For each of a plan's requests, whether it is one of a session with a connection of its own.
fn own_connections(plan: &Plan) -> impl Iterator<Item = bool> {
    let of = |scenario: &Scenario| {
        std::iter::repeat_n(scenario.has_own_connections(), scenario.step.len())
    };
    // A plan without scenarios makes one request.
    plan.scenario.iter().flat_map(of).chain(std::iter::once(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{ConnectionOf, Step};

    fn scenario((url, weight): (&str, u32)) -> Scenario {
        let step = Step { url: Some(url.to_owned()), ..Step::default() };
        Scenario::of_one(String::new(), weight, step)
    }

    fn plan(scenarios: &[(&str, u32)]) -> Plan {
        let scenario = scenarios.iter().copied().map(scenario).collect();
        Plan { target: "http://a.test/x".to_owned(), scenario, ..Plan::default() }
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn each_host_and_port_is_one_endpoint() {
        let plan = plan(&[
            ("/1", 1),
            ("http://b.test:8080/2?q", 2),
            ("http://A.test:80", 3),
            ("https://a.test/", 4),
            ("http://B.test:8080?{{seq}}", 5),
        ]);
        let endpoints = Endpoints::of(&plan).expect("URLs");
        let found: Vec<(String, u64)> =
            endpoints.each().iter().map(|it| (it.endpoint.origin(), it.weight)).collect();
        let want = [("http://a.test", 4), ("http://b.test:8080", 7), ("https://a.test", 4)];
        assert_eq!(found, want.map(|(origin, weight)| (origin.to_owned(), weight)));
        assert_eq!(endpoints.of_steps(), [0, 1, 0, 2, 1]);
        let flags: Vec<&str> = endpoints.each().iter().map(|it| it.flag).collect();
        assert_eq!(flags, ["--target", "--targets", "--targets"]);
    }

    #[test]
    fn sessions_with_connections_of_their_own_have_an_endpoint_of_their_own() {
        let mut plan = plan(&[("/1", 1), ("/2", 2), ("http://b.test/", 1), ("/3", 4)]);
        for at in [1, 3] {
            plan.scenario[at].connection = Some(ConnectionOf::Own);
            let again = plan.scenario[at].step[0].clone();
            plan.scenario[at].step.push(again);
        }
        let endpoints = Endpoints::of(&plan).expect("URLs");
        assert_eq!(endpoints.of_steps(), [0, 1, 1, 2, 1, 1]);
        let names: Vec<String> = endpoints.each().iter().map(PlanEndpoint::name).collect();
        let own = "http://a.test (own connections)";
        assert_eq!(names, ["http://a.test", own, "http://b.test"]);
        assert_eq!(endpoints.divide(8), [4, 0, 4], "only connections that all may use");
    }

    #[test]
    fn a_plan_may_connect_elsewhere_and_still_requests_its_url() {
        let of = |connect_to: Option<&str>, resolve: Option<&str>| {
            let texts = |text: Option<&str>| text.into_iter().map(str::to_owned).collect();
            let endpoints = Endpoints::of(&Plan {
                target: "http://api.test:81/x".to_owned(),
                connect_to: texts(connect_to),
                resolve: texts(resolve),
                ..Plan::default()
            });
            endpoints.map(|found| found.each()[0].endpoint.clone())
        };
        for (connect_to, resolve, host, port) in [
            (None, None, "api.test", 81),
            (Some("10.0.0.2:8080"), None, "10.0.0.2", 8080),
            (Some("[::1]:8080"), None, "::1", 8080),
            (Some("other.test:80"), None, "other.test", 80),
            (None, Some("api.test:81:10.0.0.2"), "10.0.0.2", 81),
            (None, Some("API.test:81:[::1]"), "::1", 81),
            (None, Some("api.test:81:::1"), "::1", 81),
        ] {
            let endpoint = of(connect_to, resolve).expect("a place");
            assert_eq!((endpoint.host.as_str(), endpoint.port), (host, port));
            let Endpoint { authority, name, .. } = endpoint;
            assert_eq!([authority, name], ["api.test:81", "api.test"]);
        }
        for (connect_to, resolve, start) in [
            (Some("10.0.0.2"), None, "--connect-to 10.0.0.2: not a host and a port"),
            (Some("a:b@h:80"), None, "--connect-to …@h:80: not a host"),
            (Some("h:0"), None, "--connect-to h:0: "),
            (
                Some("api.test:80:h:1"),
                None,
                "--connect-to api.test:80:h:1: the URL is at api.test:81; give the URL's own host",
            ),
            (None, Some("api.test:81"), "--resolve api.test:81: not a host, a port and an IP"),
            (None, Some("api.test:80:10.0.0.2"), "--resolve api.test:80:10.0.0.2: the URL is at"),
            (None, Some("h:81:10.0.0.2"), "--resolve h:81:10.0.0.2: the URL is at api.test:81"),
            (Some("h:80"), Some("api.test:81:10.0.0.2"), "--resolve api.test:81:10.0.0.2: --conn"),
        ] {
            let error = of(connect_to, resolve).expect_err(start).to_string();
            assert!(error.starts_with(start), "{error}");
        }
    }

    #[test]
    fn each_endpoint_may_connect_elsewhere() {
        let hosts = [("http://a.test/", 1), ("http://b.test:8080/", 1), ("https://b.test/", 1)];
        let of = |connect_to: &[&str], resolve: &[&str]| {
            let (connect_to, resolve) = (texts(connect_to), texts(resolve));
            let endpoints = Endpoints::of(&Plan { connect_to, resolve, ..plan(&hosts) });
            let place = |it: &PlanEndpoint| format!("{}:{}", it.endpoint.host, it.endpoint.port);
            endpoints.map(|found| found.each().iter().map(place).collect::<Vec<String>>())
        };
        for (connect_to, resolve, places) in [
            (&[][..], &[][..], ["a.test:80", "b.test:8080", "b.test:443"]),
            (&["10.0.0.2:1"], &[], ["10.0.0.2:1"; 3]),
            (&["b.test::[::1]:9", "::h:"], &[], ["h:80", "::1:9", "::1:9"]),
            (&["b.test:443::9"], &[], ["a.test:80", "b.test:8080", "b.test:9"]),
            (&["A.test:80:h:1"], &["b.test:443:10.0.0.3"], ["h:1", "b.test:8080", "10.0.0.3:443"]),
            (
                &[],
                &["a.test:80:10.0.0.2", "b.test:8080:::1"],
                ["10.0.0.2:80", "::1:8080", "b.test:443"],
            ),
        ] {
            assert_eq!(of(connect_to, resolve).expect("places"), places, "{connect_to:?}");
        }
        for (connect_to, resolve, start) in [
            (&["a:1:b"][..], &[][..], "--connect-to a:1:b: not a host and a port"),
            (&["a:1:b:0"], &[], "--connect-to a:1:b:0: not a host and a port"),
            (&["b.test::h:", "c.test::h:"], &[], "--connect-to c.test::h:: no URL is at that"),
            (&[], &["c.test:80:10.0.0.2"], "--resolve c.test:80:10.0.0.2: no URL is at that"),
            (&["b.test::h:"], &["b.test:443:::1"], "--resolve b.test:443:::1: --connect-to alre"),
        ] {
            let error = of(connect_to, resolve).expect_err(start).to_string();
            assert!(error.starts_with(start), "{error}");
        }
    }

    #[test]
    fn each_side_of_a_comparison_keeps_the_rules_for_its_own_urls() {
        let side = |target: &str| Plan {
            target: target.to_owned(),
            connect_to: texts(&["a.test::h:1", "b.test::h:2", "c.test::h:3", "no"]),
            resolve: texts(&["a.test:80:10.0.0.1", "b.test:80:10.0.0.2"]),
            ..Plan::default()
        };
        let (mut a, b) = (side("http://a.test/"), side("http://b.test/x"));
        a.drop_places_of(&b);
        assert_eq!(a.connect_to, ["a.test::h:1", "c.test::h:3", "no"]);
        assert_eq!(a.resolve, ["a.test:80:10.0.0.1"]);
    }

    #[test]
    fn closed_users_keep_a_connection_to_each_endpoint() {
        let two = plan(&[("/", 1), ("http://b.test/", 1)]);
        let two = two.complete(&[0]).expect("it runs");
        let endpoints = Endpoints::of(&two).expect("URLs");
        assert_eq!(endpoints.sockets(&two, 5), 10);
        let open = Plan { model: Some(Model::Open), ..two.clone() };
        assert_eq!(endpoints.sockets(&open, 5), 5);
        assert_eq!((endpoints.divide(5), endpoints.divide(0)), (vec![2, 3], vec![0, 0]));
        let many = Plan { conns: Some(CONNS_MAX), ..two };
        let error = endpoints.check_conns(&many).expect_err("too many").to_string();
        assert!(error.starts_with("--conns") && error.contains("each of 2 hosts"), "{error}");
    }
}
