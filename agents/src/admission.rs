//! Admission: what load a controller may have this agent send, and where to.
//!
//! The agent's operator decides, with flags that no controller can override. By default an agent
//! sends to loopback only; once targets are named, to these only. An agent trusts addresses, not
//! names, unless its operator allowed the name. The address that is checked is the one connected
//! to: the name is resolved once, so it can't point elsewhere later.
//!
//! A plan can also name resources of the machine that runs it: cores, local addresses, files for
//! certificates or results. These belong to the agent, so a plan that names them is refused. The
//! files that its requests need come with it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use engine::load::curve::Curve;
use engine::load::schedule::Schedule;
use engine::load::share::{self, Share};
use engine::plan::endpoint::Endpoint;
use engine::plan::endpoints::Endpoints;
use engine::plan::{Http, Plan, PlanError};
use engine::sys::units::{Nanos, Rate, SECOND_NS};
use ipnet::IpNet;

/// The limits that an agent's operator sets.
#[derive(Clone, Debug, Default)]
pub struct Admission {
    /// The targets: `--allow-target`. Empty for loopback only.
    pub targets: Vec<AllowedTarget>,
    /// The most requests per second of this agent: `--max-rate`.
    pub rate_max: Option<Rate>,
    /// The most connections of this agent: `--max-conns`.
    pub conns_max: Option<usize>,
    /// The longest load, setup included: `--max-duration`.
    pub duration_max: Option<Nanos>,
    /// The most bytes of controllers' files that are kept: `--max-files`.
    pub files_max: Option<u64>,
}

/// The most bytes of controllers' files that are kept, without `--max-files`.
pub const FILES_MAX_DEFAULT: u64 = 256 << 20;

/// A target, or a network of them: a value of `--allow-target`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedTarget {
    /// One host, by name or address, and its port.
    Host {
        /// Its name, in lower case, or its address.
        host: String,
        /// Its port.
        port: u16,
    },
    /// All ports of all addresses of a network.
    Network(IpNet),
}

/// Not a value of `--allow-target`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid target `{0}`: give HOST:PORT or a network, e.g. api.test:8080, [::1]:80 or 10.1.0.0/16"
)]
pub struct InvalidTarget(String);

impl FromStr for AllowedTarget {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<AllowedTarget, InvalidTarget> {
        let invalid = || InvalidTarget(text.to_owned());
        if let Ok(network) = text.parse::<IpNet>() {
            return Ok(AllowedTarget::Network(network.trunc()));
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            let host = address.ip().to_canonical().to_string();
            return match address.port() {
                0 => Err(invalid()),
                port => Ok(AllowedTarget::Host { host, port }),
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        match port.parse() {
            Ok(port) if port != 0 && !host.is_empty() && host.bytes().all(is_name) => {
                Ok(AllowedTarget::Host { host: host.to_ascii_lowercase(), port })
            }
            _ => Err(invalid()),
        }
    }
}

impl fmt::Display for AllowedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllowedTarget::Network(network) => write!(f, "{network}"),
            AllowedTarget::Host { host, port } if host.contains(':') => {
                write!(f, "[{host}]:{port}")
            }
            AllowedTarget::Host { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl AllowedTarget {
    /// True if it allows this address, to which a plan's host resolved. This machine itself must be
    /// named, by its address, a network of loopback addresses, or `localhost`. A name that resolves
    /// to it or a network that merely contains it isn't enough.
    fn allows(&self, endpoint: &Endpoint, address: SocketAddr) -> bool {
        let is_here = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
        let ip = address.ip().to_canonical();
        match self {
            AllowedTarget::Network(network) => {
                let names_it = network.network().is_loopback()
                    || network.prefix_len() == network.max_prefix_len();
                network.contains(&ip) && (names_it || !is_here(ip))
            }
            AllowedTarget::Host { host, port } => {
                let is_host = match host.parse::<IpAddr>() {
                    Ok(allowed) => allowed == ip,
                    Err(_) => {
                        let names_it = host.eq_ignore_ascii_case("localhost");
                        host.eq_ignore_ascii_case(&endpoint.host) && (names_it || !is_here(ip))
                    }
                };
                is_host && *port == address.port()
            }
        }
    }
}

/// The most that a plan demands of one agent.
pub(crate) struct Demand {
    /// Requests in any second, in millionths; `None` if nothing bounds them.
    rate_micro: Option<u64>,
    /// Connections: of a closed model's users, one to each endpoint.
    conns: usize,
    /// Users, if it is a closed model.
    users: usize,
    /// Length of the load, setup included, ns.
    length_ns: u64,
}

impl Demand {
    /// The demand of this share of a completed plan, which sends a log's requests at these times
    /// again. Rates are those of the arrivals that this agent itself will make out of plan and
    /// share, so neither can claim less than is sent.
    pub(crate) fn new(plan: &Plan, log: Option<Arc<[u64]>>, share: &Share) -> Demand {
        let users = share::connections(plan, share);
        // A plan whose URLs are wrong is refused when they are resolved.
        let conns = Endpoints::of(plan).map_or(users, |endpoints| endpoints.sockets(plan, users));
        let (until_ns, own) = (plan.end_ns(), share.clone());
        let schedule = match (log, Curve::of_plan(plan)) {
            (Some(due_ns), _) => Some(Schedule::of_log(due_ns, until_ns, own)),
            (None, Some(curve)) => {
                Some(Schedule::new(curve, plan.arrivals, plan.seed, until_ns, own))
            }
            (None, None) => None,
        };
        let per_period = |period: Nanos| {
            let micro = users as u128 * u128::from(SECOND_NS) * 1_000_000;
            u64::try_from(micro.div_ceil(u128::from(period.0.max(1)))).unwrap_or(u64::MAX)
        };
        let of_schedule = schedule.map(|schedule| schedule.most_per_second_micro());
        let started_micro = of_schedule.or(plan.period.map(per_period));
        // Each starts a session.
        let rate_micro = started_micro.map(|micro| micro.saturating_mul(plan.requests_max()));
        let run_ns = plan.warmup.0.saturating_add(plan.duration.0);
        Demand { rate_micro, conns, users, length_ns: plan.setup_ns().1.saturating_add(run_ns) }
    }
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Demand { rate_micro, conns, users, length_ns } = self;
        match rate_micro {
            Some(micro) => write!(f, "at most {} per second", *micro as f64 / 1e6)?,
            None => write!(f, "as fast as {users} users get answers")?,
        }
        let noun = if *conns == 1 { "connection" } else { "connections" };
        write!(f, " on {conns} {noun} for at most {}", Nanos(*length_ns))
    }
}

impl Admission {
    /// Checks the load that this share of a completed plan puts on the agent, but not its target.
    /// Returns the most that it demands. `log` has the times at which the requests are due of the
    /// log that the plan sends again.
    ///
    /// # Errors
    /// The first flag whose value isn't allowed here, with the cure.
    pub(crate) fn check_plan(
        &self,
        plan: &Plan,
        log: Option<Arc<[u64]>>,
        share: &Share,
    ) -> Result<Demand, PlanError> {
        let demand = Demand::new(plan, log, share);
        match (self.rate_max, demand.rate_micro) {
            (Some(max), Some(micro)) if max.micro_per_second() < micro => {
                let value = micro as f64 / 1e6;
                let above = format!("{value} per second, above its --max-rate {max}");
                let cure = "add agents, or start the agent with a higher --max-rate";
                if let Some(log) = &plan.replay {
                    return Err(PlanError::new(
                        "--replay",
                        log.display(),
                        format!("this agent's part of its busiest second is {above}"),
                        format!("lower --speed, {cure}"),
                    ));
                }
                return Err(match (plan.rate, plan.period) {
                    (None, Some(period)) => PlanError::new(
                        "--period",
                        period,
                        format!("this agent's {} users send {above}", demand.users),
                        format!("give a longer one, {cure}"),
                    ),
                    (None, None) => PlanError::new(
                        "--stages",
                        plan.stages_text(),
                        format!("this agent's part of the highest rate is {above}"),
                        format!("lower that rate, {cure}"),
                    ),
                    (Some(rate), _) => PlanError::new(
                        "--rate",
                        rate,
                        format!("this agent's part of it is {above}"),
                        format!("lower the rate, {cure}"),
                    ),
                });
            }
            (Some(max), None) => {
                return Err(PlanError::new(
                    "--model",
                    "closed",
                    format!("nothing bounds its rate, and this agent has --max-rate {max}"),
                    "add --period, give a --rate, or start the agent without --max-rate",
                ));
            }
            _ => {}
        }
        if let Some(max) = self.conns_max.filter(|max| *max < demand.conns) {
            let (flag, value, of) = match plan.stages_of_users() {
                None => ("--conns", plan.conns().to_string(), "them"),
                Some(_) => ("--stages", plan.stages_text(), "the most users"),
            };
            return Err(PlanError::new(
                flag,
                value,
                format!(
                    "this agent's part of {of} is {}, above its --max-conns {max}",
                    demand.conns
                ),
                format!(
                    "lower {}, add agents, or start the agent with a higher --max-conns",
                    if flag == "--conns" { flag } else { "their number" }
                ),
            ));
        }
        if let Some(max) = self.duration_max.filter(|max| max.0 < demand.length_ns) {
            let (flag, value) = match plan.stage.is_empty() {
                true => ("--duration", plan.duration.to_string()),
                false => ("--stages", plan.stages_text()),
            };
            return Err(PlanError::new(
                flag,
                value,
                format!(
                    "with setup and warm-up the load may take {}, above this agent's \
                     --max-duration {max}",
                    Nanos(demand.length_ns)
                ),
                "shorten it, or start the agent with a longer --max-duration",
            ));
        }
        Ok(demand)
    }

    /// The addresses of an endpoint's host that this agent may send to, out of those its name
    /// resolved to. No others may be connected to.
    ///
    /// # Errors
    /// None of them is allowed.
    pub fn check_target(
        &self,
        endpoint: &Endpoint,
        addresses: &[SocketAddr],
    ) -> Result<Vec<SocketAddr>, PlanError> {
        let is_allowed = |address: &SocketAddr| match self.targets.as_slice() {
            [] => address.ip().to_canonical().is_loopback(),
            targets => targets.iter().any(|allowed| allowed.allows(endpoint, *address)),
        };
        let allowed: Vec<SocketAddr> = addresses.iter().copied().filter(is_allowed).collect();
        if !allowed.is_empty() {
            return Ok(allowed);
        }
        let stands_for = match addresses.first() {
            Some(address) => format!("it stands for {}, which", address.ip()),
            None => "it has no address and".to_owned(),
        };
        let targets: Vec<String> = self.targets.iter().map(ToString::to_string).collect();
        let allows = match targets.as_slice() {
            [] => "loopback alone".to_owned(),
            targets => format!("{} alone", targets.join(", ")),
        };
        let host = &endpoint.host;
        let named = AllowedTarget::Host { host: host.clone(), port: endpoint.port };
        Err(PlanError::new(
            "--target",
            &named,
            format!("{stands_for} this agent may not send to: it allows {allows}"),
            format!("start the agent with --allow-target {named}"),
        ))
    }
}

/// Checks that a plan from a controller names none of the agent's own resources: cores, local
/// addresses, files.
///
/// # Errors
/// The first flag that does, with the cure.
pub fn check_placement(plan: &Plan) -> Result<(), PlanError> {
    let own = "it is the agent's own";
    if let Some(cores) = &plan.cores {
        let cure = "omit it; start the agent with --cores";
        return Err(PlanError::new("--cores", cores, own, cure));
    }
    if let Some(address) = plan.source_addresses.first() {
        let cure = "omit it; start the agent with --source-addresses";
        return Err(PlanError::new("--source-addresses", address, own, cure));
    }
    if plan.http == Http::Auto {
        let problem = "each agent's target would choose, and a report is of one version";
        return Err(PlanError::new("--http", "auto", problem, "give --http 2 or --http 1.1"));
    }
    if let Some(path) = &plan.unix {
        let problem = "an agent connects to no socket that a controller names";
        let cure = "omit it; give the URL of a server that the agents reach";
        return Err(PlanError::new("--unix", path.display(), problem, cure));
    }
    if let Some(file) = &plan.raw {
        let cure = "give the controller --raw with a folder, which the agents' samples go to";
        return Err(PlanError::new("--raw", file.display(), own, cure));
    }
    let trust = "omit it; start the agents with SSL_CERT_FILE=FILE in their environment";
    let own_certificate = "omit it; a client certificate takes `truetail run` on one machine";
    for (flag, file, cure) in [
        ("--cacert", &plan.cacert, trust),
        ("--cert", &plan.cert, own_certificate),
        ("--key", &plan.key, own_certificate),
    ] {
        if let Some(file) = file {
            let problem = "an agent reads no file that a controller names";
            return Err(PlanError::new(flag, file.display(), problem, cure));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use engine::plan::scenario::{Scenario, Step};

    use super::*;

    fn admission(targets: &[&str]) -> Admission {
        let targets = targets.iter().map(|text| text.parse().expect("a target")).collect();
        Admission { targets, ..Admission::default() }
    }

    /// The addresses that may be used for `url` if its host resolves to `ips`.
    fn checked(
        admission: &Admission,
        url: &str,
        addresses: &[&str],
    ) -> Result<Vec<String>, PlanError> {
        let endpoint = Endpoint::parse(url).expect("a URL");
        let addresses: Vec<SocketAddr> = addresses
            .iter()
            .map(|ip| SocketAddr::new(ip.parse().expect("an address"), endpoint.port))
            .collect();
        let allowed = admission.check_target(&endpoint, &addresses)?;
        Ok(allowed.iter().map(|address| address.ip().to_string()).collect())
    }

    #[test]
    fn allowed_targets_parse_and_print() {
        for (text, shown) in [
            ("api.test:8080", "api.test:8080"),
            ("API.test:80", "api.test:80"),
            ("10.1.2.3:80", "10.1.2.3:80"),
            ("[2001:db8::1]:80", "[2001:db8::1]:80"),
            ("[::ffff:10.1.2.3]:80", "10.1.2.3:80"),
            ("10.1.2.3/16", "10.1.0.0/16"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            let target: AllowedTarget = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(target.to_string(), shown, "{text}");
            assert_eq!(shown.parse(), Ok(target), "{shown} comes back");
        }
        for text in [
            "",
            ":80",
            "host",
            "10.1.2.3",
            "host:0",
            "10.1.2.3:0",
            "host:x",
            "host:80/x",
            "http://host:80",
            "u@host:80",
            "10.0.0.0/33",
            "host/8",
            "host:80?x",
            "[::1]",
            "*:80",
            "a b:80",
        ] {
            let error = text.parse::<AllowedTarget>();
            assert_eq!(error, Err(InvalidTarget(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn only_loopback_is_allowed_by_default() {
        let agent = Admission::default();
        for ip in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(checked(&agent, "http://h/", &[ip]), Ok(vec![ip.to_owned()]));
        }
        for ip in ["10.0.0.1", "0.0.0.0", "::", "::ffff:10.0.0.1", "169.254.169.254", "fe80::1"] {
            let error = checked(&agent, "http://h:8080/", &[ip]).expect_err(ip);
            let shown: IpAddr = ip.parse().expect("an address");
            assert_eq!(
                error.to_string(),
                format!(
                    "--target h:8080: it stands for {shown}, which this agent may not send to: it \
                     allows loopback alone; start the agent with --allow-target h:8080"
                )
            );
        }
        assert!(checked(&agent, "http://h/", &[]).is_err());
    }

    #[test]
    fn the_address_decides_and_not_the_name() {
        let agent = admission(&["10.1.0.0/16", "api.test:8080", "192.0.2.7:80"]);
        for (url, ip, is_allowed) in [
            ("http://any.test/", "10.1.9.9", true),
            ("http://any.test/", "::ffff:10.1.9.9", true),
            ("http://any.test/", "10.2.0.1", false),
            // The operator trusts a name that is allowed, at this port only.
            ("http://api.test:8080/", "10.2.0.1", true),
            ("http://API.test:8080/", "10.2.0.1", true),
            ("http://api.test/", "10.2.0.1", false),
            ("http://xapi.test:8080/", "10.2.0.1", false),
            ("http://any.test/", "192.0.2.7", true),
            ("http://any.test:81/", "192.0.2.7", false),
            // A name that looks like an allowed address isn't one.
            ("http://192.0.2.7.test/", "10.2.0.1", false),
        ] {
            assert_eq!(checked(&agent, url, &[ip]).is_ok(), is_allowed, "{url} at {ip}");
        }
        let several = ["10.2.0.1", "10.1.0.1", "127.0.0.1"];
        let several = checked(&agent, "http://any.test/", &several);
        assert_eq!(several, Ok(vec!["10.1.0.1".to_owned()]), "the others are never connected to");
        let error = checked(&agent, "http://any.test/", &["10.2.0.1"]).expect_err("refused");
        assert!(error.problem.ends_with("allows 10.1.0.0/16, api.test:8080, 192.0.2.7:80 alone"));
    }

    #[test]
    fn with_other_targets_loopback_is_allowed_only_if_named() {
        let loopback = ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"];
        // A network that contains it doesn't name it, nor does a name that resolves to it.
        for other in ["10.1.0.0/16", "0.0.0.0/0", "::/0", "any.test:80"] {
            for ip in loopback.iter().chain(&["0.0.0.0", "::"]) {
                assert!(checked(&admission(&[other]), "http://any.test/", &[ip]).is_err(), "{ip}");
            }
        }
        for (named, url, ip) in [
            ("127.0.0.1:8080", "http://any.test:8080/", "127.0.0.1"),
            ("localhost:8080", "http://localhost:8080/", "::1"),
            ("127.0.0.0/8", "http://any.test/", "127.1.2.3"),
        ] {
            let agent = admission(&["10.1.0.0/16", named]);
            assert_eq!(checked(&agent, url, &[ip]), Ok(vec![ip.to_owned()]), "{named}");
            let refused =
                loopback.iter().filter(|ip| checked(&agent, "http://x:1/", &[ip]).is_err());
            assert_ne!(refused.count(), 0, "{named}");
        }
    }

    fn completed(plan: Plan) -> Plan {
        let target = "http://127.0.0.1/".to_owned();
        Plan { target, ..plan }.complete(&[0]).expect("a plan")
    }

    #[test]
    fn a_plan_above_a_cap_is_refused_with_flag_value_and_cure() {
        let caps = Admission {
            rate_max: Some("1k".parse().expect("a rate")),
            conns_max: Some(100),
            duration_max: Some(Nanos::from_secs(40)),
            ..Admission::default()
        };
        let third = Share::units(0..1, 3);
        let open = |rate: &str| Plan {
            rate: Some(rate.parse().expect("a rate")),
            conns: Some(300),
            ..Plan::default()
        };
        let closed = Plan { conns: Some(100), warmup: Nanos(0), ..Plan::default() };
        let paced = |conns, period_ms: u64| Plan {
            conns: Some(conns),
            period: Some(Nanos(period_ms * 1_000_000)),
            ..closed.clone()
        };
        let staged = |text: &str| {
            let stage = text.split(',').map(|stage| stage.parse().expect("a stage")).collect();
            Plan { stage, rate: None, ..open("1k") }
        };
        let whole = Share::whole();
        let text = |plan: Plan, share: &Share| {
            let plan = completed(plan);
            caps.check_plan(&plan, None, share).map(drop).map_err(|error| error.to_string())
        };
        // 5 s of warm-up, at most 5 s of setup load, and 30 s.
        assert_eq!(text(open("3k"), &third), Ok(()));
        assert_eq!(text(paced(100, 100), &whole), Ok(()));
        for (plan, share, refusal) in [
            (
                open("3001"),
                &third,
                "--rate 3001: this agent's part of it is 1000.333334 per second, above its \
                 --max-rate 1000; lower the rate, add agents, or start the agent with a higher \
                 --max-rate",
            ),
            (
                staged("100:20s,100..3001:10s"),
                &third,
                "--stages 100:20s,100..3001:10s: this agent's part of the highest rate is \
                 1000.333334 per second, above its --max-rate 1000; lower that rate, add agents, or \
                 start the agent with a higher --max-rate",
            ),
            (
                staged("100:20s,100..3000:11s"),
                &third,
                "--stages 100:20s,100..3000:11s: with setup and warm-up the load may take 41s, \
                 above this agent's --max-duration 40s; shorten it, or start the agent with a \
                 longer --max-duration",
            ),
            (
                paced(100, 99),
                &whole,
                "--period 99ms: this agent's 100 users send 1010.101011 per second, above its \
                 --max-rate 1000; give a longer one, add agents, or start the agent with a higher \
                 --max-rate",
            ),
            (
                closed.clone(),
                &whole,
                "--model closed: nothing bounds its rate, and this agent has --max-rate 1000; add \
                 --period, give a --rate, or start the agent without --max-rate",
            ),
            (
                Plan { conns: Some(301), ..open("1k") },
                &third,
                "--conns 301: this agent's part of them is 101, above its --max-conns 100; lower \
                 --conns, add agents, or start the agent with a higher --max-conns",
            ),
            (
                Plan { period: Some(Nanos::from_secs(1)), conns: None, ..staged("2..303:20s") },
                &third,
                "--stages 2..303:20s: this agent's part of the most users is 101, above its \
                 --max-conns 100; lower their number, add agents, or start the agent with a higher \
                 --max-conns",
            ),
            (
                Plan { duration: Nanos(30_000_000_001), ..open("1k") },
                &third,
                "--duration 30.000000001s: with setup and warm-up the load may take \
                 40.000000001s, above this agent's --max-duration 40s; shorten it, or start the \
                 agent with a longer --max-duration",
            ),
            (
                Plan { settle_min: Some(Nanos(1)), ..open("1k") },
                &third,
                "--duration 30s: with setup and warm-up the load may take 40.000000001s, above \
                 this agent's --max-duration 40s; shorten it, or start the agent with a longer \
                 --max-duration",
            ),
        ] {
            assert_eq!(text(plan, share), Err(refusal.to_owned()));
        }
        let free = Admission::default();
        assert_eq!(free.check_plan(&completed(closed), None, &whole).map(drop), Ok(()));
    }

    #[test]
    fn the_rate_of_sessions_is_that_of_all_their_steps() {
        let caps = Admission { rate_max: "400".parse().ok(), ..Admission::default() };
        let steps = vec![Step::default(), Step { repeat: Some(3), ..Step::default() }];
        let scenario = vec![Scenario { step: steps, ..named("shop".to_owned()) }];
        let open = |rate: &str| Plan { rate: rate.parse().ok(), ..Plan::default() };
        let paced = |conns| Plan {
            conns: Some(conns),
            period: Some(Nanos::from_secs(1)),
            ..Plan::default()
        };
        for (plan, is_allowed) in
            [(open("100"), true), (open("101"), false), (paced(100), true), (paced(101), false)]
        {
            let plan = completed(Plan { scenario: scenario.clone(), ..plan });
            assert_eq!(
                caps.check_plan(&plan, None, &Share::whole()).is_ok(),
                is_allowed,
                "{plan:?}"
            );
        }
    }

    #[test]
    fn the_rate_of_a_log_is_that_of_its_busiest_second() {
        let rate = |text: &str| text.parse::<Rate>().expect("a rate");
        let caps = Admission { rate_max: Some(rate("1k")), ..Admission::default() };
        let log = Plan {
            replay: Some("access.log".into()),
            // A mean of 10/s.
            requests: Some(300),
            scenario: vec!["GET /".to_owned()].into_iter().map(named).collect(),
            warmup: Nanos(0),
            ..Plan::default()
        };
        let (log, third) = (completed(log), Share::units(0..1, 3));
        // So many within a second, and a few after that.
        let times = |count: u64| {
            let due_ns = (0..count).map(|at| at * 300_000).chain([5_000_000_000, 6_000_000_000]);
            Some(due_ns.collect::<Arc<[u64]>>())
        };
        assert_eq!(caps.check_plan(&log, times(3_000), &third).map(drop), Ok(()));
        let error = caps.check_plan(&log, times(3_001), &third).map(drop).expect_err("too much");
        let words = "--replay access.log: this agent's part of its busiest second is 1001 per \
            second, above its --max-rate 1000; lower --speed, add agents";
        assert!(error.to_string().starts_with(words), "{error}");
    }

    fn named(name: String) -> Scenario {
        Scenario::of_one(name, 1, Step::default())
    }

    #[test]
    fn a_plan_may_not_name_the_agents_own_resources() {
        assert_eq!(check_placement(&Plan::default()), Ok(()));
        for (plan, flag, value) in [
            (
                Plan { cores: Some("1-2".parse().expect("cores")), ..Plan::default() },
                "--cores",
                "1-2",
            ),
            (
                Plan {
                    source_addresses: vec!["10.0.0.1".parse().expect("an address")],
                    ..Plan::default()
                },
                "--source-addresses",
                "10.0.0.1",
            ),
            (Plan { http: Http::Auto, ..Plan::default() }, "--http", "auto"),
            (Plan { unix: Some("/run/x".into()), ..Plan::default() }, "--unix", "/run/x"),
            (Plan { raw: Some("/etc/x".into()), ..Plan::default() }, "--raw", "/etc/x"),
            (Plan { cacert: Some("ca.pem".into()), ..Plan::default() }, "--cacert", "ca.pem"),
            (Plan { cert: Some("c.pem".into()), ..Plan::default() }, "--cert", "c.pem"),
            (Plan { key: Some("k.pem".into()), ..Plan::default() }, "--key", "k.pem"),
        ] {
            let error = check_placement(&plan).expect_err(flag);
            assert_eq!((error.flag, error.value.as_str()), (flag, value));
            assert!(!error.cure.is_empty());
        }
    }
}
