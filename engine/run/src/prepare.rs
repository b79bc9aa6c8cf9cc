//! Before a run: completes the plan and checks everything that can be checked without load.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use host::Unreached;
use host::check::Check;
use host::stamping::{self, Stamping};
use http1::request::Request;
use load::replay::{Replay, ReplayedLog};
use load::requests;
use load::share::{self, Share};
use load::values::{Rendering, Site};
use plan::address::Address;
use plan::blocks::{Blocks, Head};
use plan::body::{self, Body, Content, SharedBody};
use plan::data::Data;
use plan::endpoint::Endpoint;
use plan::endpoints::{Endpoints, PlanEndpoint};
use plan::redact::Redacted;
use plan::request::render_request;
use plan::template::{Compiled, Part, Scope, Template};
use plan::{Http, Plan, PlanError, STAMP_SENDS_DEFAULT, StampSource};
use shard::{REQUEST_BLOCK_MAX, SEND_SILENT_MAX, Step, ending_max};
use sys::placement;
use sys::topology::{Attachment, Topology};
use tls::ClientSetup;
use units::{Nanos, OneIn};
use uring::Payload;

use super::speak;

/// A plan that has passed every check.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(super) plan: Plan,
    pub(super) redacted: Redacted,
    pub(super) endpoints: Endpoints,
    /// The address of each endpoint.
    pub(super) addresses: Vec<Address>,
    /// The TLS client setup of each endpoint, if it uses TLS.
    pub(super) tls: Vec<Option<ClientSetup>>,
    pub(super) steps: Vec<Step>,
    /// The requests as HTTP/2 sends them, if the run speaks it.
    pub(super) blocks: Option<Arc<Blocks>>,
    /// The share of the plan's load that this process offers.
    pub(super) share: Share,
    /// The log that it sends again.
    pub(super) replay: Option<Arc<Replay>>,
    /// Held until the run is over; `None` if the kernel doesn't stamp what arrives.
    pub(super) stamping: Option<Arc<Stamping>>,
    /// Why the plan got the program's stamps without asking for them.
    pub(super) unstamped: Option<String>,
}

/// Why a plan can't be run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PrepareError {
    /// The plan is wrong on any machine.
    #[error("{0}")]
    Plan(PlanError),
    /// This machine lacks something that the plan needs.
    #[error("{0}")]
    Host(Check),
    /// The target can't be reached.
    #[error("{0}")]
    Target(PlanError),
    /// This machine has no local port to reach the target from.
    #[error("{0}")]
    NoPort(PlanError),
    /// A file can't be written.
    #[error("{0}")]
    File(PlanError),
}

/// The addresses of a plan's endpoints that may be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Those that their names resolve to.
    Resolve,
    /// Only these of each endpoint: the names have been resolved elsewhere.
    Only(Vec<Vec<SocketAddr>>),
}

/// [`prepare_with`] a body that no other run sends, the whole load and any address of the target.
///
/// # Errors
/// Those of [`prepare_with`].
pub fn prepare(plan: Plan) -> Result<Prepared, PrepareError> {
    prepare_with(plan, &SharedBody::default(), Targets::Resolve, Share::whole())
}

/// What all agents of a run report alike.
#[derive(Clone, Debug)]
pub struct Common {
    /// Their plan without their own settings: completed as far as it alone determines that, on any
    /// machine.
    pub plan: Redacted,
    /// The log that they send again.
    pub replay: Option<ReplayedLog>,
}

/// What all agents of a plan's run report alike. `files` has its files, or reads them.
///
/// # Errors
/// The first problem that doesn't depend on the machine, with the cure.
pub fn common(plan: Plan, files: &SharedBody) -> Result<Common, PlanError> {
    // Every machine has a core; which ones it has isn't part of this plan.
    let Completed { plan, requests, replay, .. } = complete(plan, files, &[0])?;
    let plan = redacted(&plan, files, &requests)?;
    Ok(Common { plan, replay: replay.map(|replay| replay.log.clone()) })
}

/// A plan as this machine would complete it, and the log that it sends again, if there is one.
/// Nothing else is checked.
///
/// # Errors
/// The first value that can't be run, with its flag and the cure.
pub fn completed(plan: Plan, files: &SharedBody) -> Result<(Plan, Option<Arc<Replay>>), PlanError> {
    let Completed { plan, replay, .. } = complete(plan, files, &placement::allowed_cores())?;
    Ok((plan, replay))
}

/// A plan completed as far as it determines that by itself.
struct Completed {
    plan: Plan,
    endpoints: Endpoints,
    data: Vec<Data>,
    requests: Vec<Prerendered>,
    /// The same as HTTP/2 sends them, if it may.
    blocks: Option<Blocks>,
    replay: Option<Arc<Replay>>,
}

fn complete(plan: Plan, body: &SharedBody, allowed: &[usize]) -> Result<Completed, PlanError> {
    Endpoint::parse(&plan.target)?;
    let mut plan = plan.complete(allowed)?;
    let replay = Replay::read(&plan, body)?.map(Arc::new);
    if let Some(replay) = &replay {
        replay.complete(&mut plan);
        plan = plan.complete(allowed)?;
    }
    let endpoints = Endpoints::of(&plan)?;
    endpoints.check_conns(&plan)?;
    let mut data = body.tables(&plan)?;
    data.extend(replay.iter().map(|replay| replay.data.clone()));
    requests::end_with_rows(&mut plan, &data)?;
    requests::end_window(&mut plan)?;
    let mut requests = Vec::new();
    for (at, (request, scope)) in plan.requests().iter().zip(plan.scopes()).enumerate() {
        let rendered = prerender(request, body, Scope { data: &data, ..scope });
        requests.push(rendered.map_err(|error| plan.error_of(at, error))?);
    }
    check_used(&plan, &data, &requests)?;
    let blocks = match plan.http {
        Http::V1 => None,
        Http::V2 | Http::Auto => Some(blocks(&plan, &requests)?),
    };
    if requests.iter().any(|of| of.request.closes()) {
        plan.close_each()?;
    }
    Ok(Completed { plan, endpoints, data, requests, blocks, replay })
}

/// Refuses data of which no request has a value. A log's own data come after the plan's.
fn check_used(plan: &Plan, data: &[Data], requests: &[Prerendered]) -> Result<(), PlanError> {
    let is_used = |at| {
        let mut templates = requests.iter().filter_map(|request| request.template.as_ref());
        templates.any(|template| template.takes_from(at))
    };
    let own = data.iter().take(plan.data.len()).enumerate();
    let Some((_, unused)) = own.into_iter().find(|(at, _)| !is_used(*at)) else { return Ok(()) };
    let column = unused.table.columns().first().map_or("", String::as_str);
    let cure = format!(
        "put a field such as {{{{{}.{column}}}}} into a URL, a header or a body (one of @FILE has \
         none), or omit it",
        unused.name
    );
    Err(unused.refuse("no request takes a value from it", cure))
}

/// The requests of a plan as HTTP/2 sends them.
fn blocks(plan: &Plan, requests: &[Prerendered]) -> Result<Blocks, PlanError> {
    let plans = plan.requests();
    let heads = plans.iter().zip(requests).map(|(plan, of)| {
        let secure = Endpoint::parse(&plan.target)?.secure;
        let (bytes, template) = (of.request.head_bytes(), of.template.as_ref());
        Ok(Head { plan, secure, bytes, template })
    });
    let heads: Vec<Head<'_>> = heads.collect::<Result<_, PlanError>>()?;
    let blocks = Blocks::new(&heads).map_err(|(at, error)| plan.error_of(at, error))?;
    for (at, (one, of)) in plans.iter().zip(requests).enumerate() {
        let bytes = match &of.template {
            None => blocks.requests.block_bytes_max(at, 0),
            // It takes little more than the same head of HTTP/1.1.
            Some(made) if made.parts().contains(&Part::BodyLength) => made.longest(),
            Some(made) => {
                let body_bytes = usize::try_from(of.body.length()).unwrap_or(usize::MAX);
                made.longest().saturating_sub(body_bytes)
            }
        };
        if REQUEST_BLOCK_MAX < bytes {
            let given = format!("given {} times", one.headers.len());
            let problem = format!(
                "a header block may have {bytes} bytes, and over HTTP/2 truetail sends up to \
                 {REQUEST_BLOCK_MAX}"
            );
            let error = PlanError::new("--header", given, problem, "shorten it, or --http 1.1");
            return Err(plan.error_of(at, error));
        }
    }
    Ok(blocks)
}

/// Renders the head of a plan that makes one request, and reads its body.
fn prerender(plan: &Plan, bodies: &SharedBody, scope: Scope<'_>) -> Result<Prerendered, PlanError> {
    let body = bodies.read(plan)?;
    let data = scope.data;
    let compiled = Compiled::new(plan, scope)?;
    let (plan, body_bytes) = match &compiled {
        None => (plan, body.length()),
        Some(compiled) => (&compiled.plan, compiled.body_bytes(body.length())),
    };
    let request = render_request(plan, &Endpoint::parse(&plan.target)?, body_bytes)?;
    let template = compiled.map(|compiled| {
        let Content::Bytes(bytes) = body.content() else { return Err(compiled.too_long()) };
        compiled.template(request.head_bytes(), bytes, data)
    });
    Ok(Prerendered { template: template.transpose()?, request, body })
}

/// The plan as a report may show it.
fn redacted(
    plan: &Plan,
    bodies: &SharedBody,
    requests: &[Prerendered],
) -> Result<Redacted, PlanError> {
    let of_steps: Vec<&Body> = requests.iter().map(|of| &*of.body).collect();
    Ok(Redacted::with_bodies(plan, &*bodies.read(plan)?, &of_steps))
}

/// A request as far as it is made before the run.
struct Prerendered {
    /// Its head, with stand-ins for its fields.
    request: Request,
    /// Its body.
    body: Arc<Body>,
    /// What it is made of, if it has fields.
    template: Option<Template>,
}

/// Completes a plan, with this process's share of the load, and checks everything that can be
/// checked without load: the URLs, the requests, the cores, the machine and, with one connection
/// each, that all endpoints are listening. The plan's body is read unless `body` was read for an
/// earlier run.
///
/// # Errors
/// The first problem, with its cure.
pub fn prepare_with(
    plan: Plan,
    body: &SharedBody,
    targets: Targets,
    share: Share,
) -> Result<Prepared, PrepareError> {
    let (allowed, topology) = (placement::allowed_cores(), Topology::here());
    let names_cores = plan.cores.is_some();
    let names_stamps = plan.stamps.is_some();
    let Completed { mut plan, endpoints, data, requests, blocks, replay } =
        complete(plan, body, &allowed).map_err(PrepareError::Plan)?;
    let mut tls = client_setups(&plan, &endpoints).map_err(PrepareError::Plan)?;
    let conns = connections(&plan, &share).map_err(PrepareError::Plan)?;
    let cores = match names_cores {
        true => plan.cores().to_vec(),
        false => topology.default_cores(&allowed, &Attachment::default()),
    };
    plan.place(&cores, conns);
    let sockets = endpoints.sockets(&plan, conns);
    let shards = plan.cores().len();
    // A connection that its target ends, as HTTP/2 can, is replaced before it has ended.
    let spare = blocks.as_ref().map_or(0, |_| ending_max(sockets, shards));
    host::require(sockets, spare, shards).map_err(PrepareError::Host)?;
    if let Some(file) = &plan.raw {
        samples::check_writable(file).map_err(PrepareError::File)?;
    }
    check_sources(&plan.source_addresses).map_err(PrepareError::Plan)?;
    let reached = reach_all(&endpoints, &plan, targets, &tls)?;
    let addresses: Vec<Address> = reached.iter().map(|it| it.address.clone()).collect();
    let blocks = blocks.filter(|_| agree(&mut plan, &reached)).map(Arc::new);
    tls = tls.into_iter().map(|setup| setup.map(|it| it.speaking(plan.http))).collect();
    let checks = plan.checks().map_err(PrepareError::Plan)?;
    let checks: Vec<_> = checks.into_iter().map(|checks| checks.map(Arc::new)).collect();
    let length_ns = |length: Option<Nanos>| length.map_or(u64::MAX, |length| length.0);
    let step = |(at, one): (usize, &Prerendered)| {
        let Prerendered { request, body, template } = one;
        let payload = match template {
            None => payload(&plan, request, body)?,
            Some(template) => Payload::made(template.longest())?,
        };
        let endpoint = endpoints.of_steps()[at];
        let of = &endpoints.each()[usize::from(endpoint)].endpoint;
        let site =
            || Site { host: of.name.clone(), secure: of.secure, keeps_lines: blocks.is_some() };
        let values =
            template.as_ref().map(|template| Rendering::new(template, &data, plan.trace, site()));
        let (head_request, timeout_ns) = (request.is_head(), plan.timeout_of(at).0);
        Ok(Step {
            request: payload,
            endpoint,
            values: values.map(Arc::new),
            head_request,
            timeout_ns,
            deadline_ns: length_ns(plan.deadline_of(at)),
            session_deadline_ns: length_ns(plan.session_deadline_of(at)),
            checks: checks[at].clone(),
        })
    };
    let steps: io::Result<Vec<Step>> = requests.iter().enumerate().map(step).collect();
    let steps = steps.map_err(|error| PrepareError::Plan(unplaced(&plan, &error)))?;
    if !names_cores {
        // The interface is known only now. The cores may change with it, but not grow in number.
        let attachment = addresses[0].ip().map(host::attachment_towards).unwrap_or_default();
        plan.place(&topology.default_cores(&allowed, &attachment), conns);
    }
    let mut unstamped = None;
    let stamping = match (plan.stamps(), plan.unix.is_none().then(Stamping::on)) {
        // Nothing that passes a Unix-domain socket is stamped, not even as a control.
        (_, None) => None,
        (_, Some(Ok(stamping))) => Some(Arc::new(stamping)),
        (StampSource::Kernel, Some(Err(check))) if names_stamps => {
            return Err(PrepareError::Host(check));
        }
        (StampSource::Kernel, Some(Err(check))) => {
            plan.stamps = Some(StampSource::User);
            unstamped = Some(check.found);
            None
        }
        // Only a few connections would be stamped, as a control, and a run can do without.
        (StampSource::User, Some(Err(_))) => None,
    };
    complete_sample(&mut plan, &steps)?;
    Ok(Prepared {
        stamping,
        unstamped,
        redacted: redacted(&plan, body, &requests).map_err(PrepareError::Plan)?,
        steps,
        blocks,
        plan,
        endpoints,
        addresses,
        tls,
        share,
        replay,
    })
}

/// The TLS client setup of each endpoint that uses TLS.
fn client_setups(
    plan: &Plan,
    endpoints: &Endpoints,
) -> Result<Vec<Option<ClientSetup>>, PlanError> {
    // Files and trusted issuers are read once.
    let mut first: Option<ClientSetup> = None;
    let mut each = Vec::new();
    for PlanEndpoint { endpoint, .. } in endpoints.each() {
        let setup = match (endpoint.secure, &first) {
            (false, _) => None,
            (true, None) => Some(ClientSetup::new(plan, &endpoint.name)?),
            (true, Some(first)) => Some(first.named(&endpoint.name)?),
        };
        first = first.or_else(|| setup.clone());
        each.push(setup);
    }
    Ok(each)
}

/// An endpoint that was reached.
struct Reached {
    address: Address,
    /// How many streams it takes on a connection, `None` for any number; `None` for the whole if it
    /// wasn't asked, or speaks HTTP/1.1.
    streams: Option<Option<u32>>,
}

/// Completes the version of HTTP: HTTP/2 if all endpoints speak it, with no more streams than they
/// take. Returns true for HTTP/2.
fn agree(plan: &mut Plan, reached: &[Reached]) -> bool {
    if plan.http == Http::Auto {
        let all = reached.iter().all(|endpoint| endpoint.streams.is_some());
        plan.http = if all { Http::V2 } else { Http::V1 };
    }
    if plan.http.is_1() {
        plan.streams = None;
        return false;
    }
    let limits = reached.iter().filter_map(|endpoint| endpoint.streams.flatten());
    let limit = limits.min().map_or(usize::MAX, |limit| limit.max(1) as usize);
    plan.streams = plan.streams.map(|streams| streams.min(limit));
    true
}

/// The address of each endpoint: the first that accepts a connection and agrees to what comes
/// before the first request: TLS, HTTP/2.
fn reach_all(
    endpoints: &Endpoints,
    plan: &Plan,
    targets: Targets,
    tls: &[Option<ClientSetup>],
) -> Result<Vec<Reached>, PrepareError> {
    let each = endpoints.each();
    if let Some(path) = &plan.unix {
        let reached = each.iter().map(|endpoint| {
            let address = host::reach_unix(endpoint, path)?;
            let streams = match plan.http {
                Http::V1 => None,
                Http::V2 | Http::Auto => Some(speak_unix(endpoint, path, plan)?),
            };
            Ok(Reached { address, streams })
        });
        return reached.collect::<Result<_, PlanError>>().map_err(PrepareError::Target);
    }
    let permitted = match targets {
        Targets::Resolve => {
            let resolved = each.iter().map(host::resolve);
            resolved.collect::<Result<Vec<_>, PlanError>>().map_err(PrepareError::Target)?
        }
        Targets::Only(permitted) => permitted,
    };
    assert_eq!(permitted.len(), each.len(), "addresses for each endpoint");
    let each = each.iter().zip(permitted).zip(tls);
    let reached =
        each.map(|((endpoint, permitted), tls)| reach(endpoint, plan, permitted, tls.as_ref()));
    reached.collect()
}

/// Begins HTTP/2 on a connection to the Unix-domain socket of this path, which stands for an
/// endpoint; returns how many streams it takes.
fn speak_unix(endpoint: &PlanEndpoint, path: &Path, plan: &Plan) -> Result<Option<u32>, PlanError> {
    let connected = UnixStream::connect(path).and_then(|stream| {
        stream.set_read_timeout(Some(Duration::from_nanos(plan.timeout.0)))?;
        Ok(stream)
    });
    let refuse = |error: io::Error| {
        endpoint.error(format!("accepts no connection ({error})"), "look into the server's log")
    };
    speak::settings(&mut connected.map_err(refuse)?, endpoint)
}

/// The first of these addresses of an endpoint that accepts a connection and agrees to what comes
/// before the first request: TLS, HTTP/2.
fn reach(
    endpoint: &PlanEndpoint,
    plan: &Plan,
    addresses: Vec<SocketAddr>,
    tls: Option<&ClientSetup>,
) -> Result<Reached, PrepareError> {
    if addresses.is_empty() {
        let problem = "none of its addresses may be connected to";
        let cure = "name a target that is permitted here";
        return Err(PrepareError::Target(endpoint.error(problem, cure)));
    }
    let addresses = of_version(addresses, &plan.source_addresses).map_err(PrepareError::Plan)?;
    let source = plan.source_addresses.first().copied();
    let (address, mut stream) =
        host::reach(endpoint, &addresses, source).map_err(|unreached| match unreached {
            Unreached::NoPort(error) => PrepareError::NoPort(error),
            Unreached::Refused(error) => PrepareError::Target(error),
        })?;
    let longest = Duration::from_nanos(plan.timeout.0);
    let streams = match (tls, plan.http) {
        (Some(tls), _) => tls.probe(&stream, endpoint, plan, |tls| speak::settings(tls, endpoint)),
        (None, Http::V1) => Ok(None),
        (None, Http::V2 | Http::Auto) => stream
            .set_read_timeout(Some(longest))
            .map_err(|error| endpoint.error(error.to_string(), "give a longer --timeout"))
            .and_then(|()| speak::settings(&mut stream, endpoint).map(Some)),
    };
    Ok(Reached { address: address.into(), streams: streams.map_err(PrepareError::Target)? })
}

/// The number of a completed plan's connections that the holder of this share opens.
///
/// # Errors
/// None: they are too few.
pub fn connections(plan: &Plan, share: &Share) -> Result<usize, PlanError> {
    match share::connections(plan, share) {
        0 => {
            let (units, of) = (share.range().len(), share.of());
            let problem = format!("leaves an agent that has {units} of {of} parts without one");
            let cure = "raise it, or use fewer agents";
            let (flag, value) = match plan.stages_of_users() {
                None => ("--conns", plan.conns().to_string()),
                Some(_) => ("--stages", plan.stages_text()),
            };
            Err(PlanError::new(flag, value, problem, cure))
        }
        conns => Ok(conns),
    }
}

/// Checks that the kernel can stamp the last byte of each send of these requests, if asked to; by
/// default, a few are stamped if that is possible.
fn complete_sample(plan: &mut Plan, steps: &[Step]) -> Result<(), PrepareError> {
    if plan.stamp_sends == Some(OneIn::OFF) {
        return Ok(());
    }
    let longest = steps.iter().map(|step| step.request.len()).max().unwrap_or(0);
    let length = longest.saturating_mul(plan.pipeline);
    let fits = length <= SEND_SILENT_MAX;
    let is_made = steps.iter().any(|step| step.values.is_some());
    let is_gathered = is_made || 1 < plan.pipeline && 1 < plan.step_count();
    let Some(one_in) = plan.stamp_sends else {
        let is_stamped = plan.stamps() != StampSource::User
            && plan.http.is_1()
            && fits
            && !is_gathered
            && !plan.is_https()
            && stamping::require_send_stamps().is_ok();
        plan.stamp_sends = Some(if is_stamped { STAMP_SENDS_DEFAULT } else { OneIn::OFF });
        return Ok(());
    };
    if plan.is_https() {
        let problem = "what leaves through TLS isn't the request's own bytes";
        let error = PlanError::new("--stamp-sends", one_in, problem, "omit it");
        return Err(PrepareError::Plan(error));
    }
    if !plan.http.is_1() {
        let problem = "requests over HTTP/2 leave in sends that aren't stamped";
        let error = PlanError::new("--stamp-sends", one_in, problem, "omit it, or --http 2");
        return Err(PrepareError::Plan(error));
    }
    if is_made {
        let problem = "requests with fields leave in sends that aren't stamped";
        let error = PlanError::new("--stamp-sends", one_in, problem, "omit it");
        return Err(PrepareError::Plan(error));
    }
    if !fits {
        let problem = format!(
            "a send of {length} bytes may leave in parts, and the kernel would stamp the first"
        );
        let cure = format!("omit it, or send at most {SEND_SILENT_MAX} bytes at once");
        let error = PlanError::new("--stamp-sends", one_in, problem, cure);
        return Err(PrepareError::Plan(error));
    }
    if is_gathered {
        let problem = "pipelined requests of several scenarios leave in sends that aren't stamped";
        let error = PlanError::new("--stamp-sends", one_in, problem, "omit it or --pipeline");
        return Err(PrepareError::Plan(error));
    }
    stamping::require_send_stamps().map_err(PrepareError::Host)
}

/// The bytes of the request: a file's are mapped, and all shards send the same. If a connection's
/// pipeline leaves in one send, they are repeated up to the pipeline's size.
fn payload(plan: &Plan, request: &Request, body: &Body) -> io::Result<Payload> {
    // HTTP/2 puts its own heads between parts of the body.
    let head = if plan.http.is_1() { request.head_bytes() } else { &[] };
    match body.content() {
        Content::Bytes(bytes) => {
            let pipelined = plan.pipeline * (head.len() + bytes.len());
            let copies = if pipelined <= SEND_SILENT_MAX { plan.pipeline } else { 1 };
            Payload::copied(head, bytes, copies)
        }
        Content::File(file) => {
            let length = usize::try_from(body.length()).map_err(io::Error::other)?;
            match plan.is_https() || !plan.http.is_1() {
                // It is encrypted or cut into frames here, and reading a mapping could raise a
                // signal.
                true => Payload::loaded(head, file, length),
                false => Payload::mapped(head, file, length),
            }
        }
    }
}

/// The error for a body that couldn't be placed behind its head.
fn unplaced(plan: &Plan, error: &io::Error) -> PlanError {
    let file = plan.body.as_deref().filter(|body| body::file_name(body).is_some());
    let shown = file.unwrap_or("of the plan");
    let problem = format!("no room for the body, or its file can't be mapped ({error})");
    PlanError::new("--body", shown, problem, "give a smaller one, or a file on a local disk")
}

/// Checks that each source address is one of this machine's.
///
/// # Errors
/// The first one that isn't.
pub fn check_sources(sources: &[IpAddr]) -> Result<(), PlanError> {
    for source in sources {
        if let Err(error) = TcpListener::bind((*source, 0)) {
            let problem = format!("not an address of this machine ({error})");
            let cure = "name addresses of this machine, such as 127.0.0.2";
            return Err(PlanError::new("--source-addresses", source, problem, cure));
        }
    }
    Ok(())
}

/// The target's addresses that the sources can connect to: IPv4 or IPv6, like the sources.
fn of_version(
    mut addresses: Vec<SocketAddr>,
    sources: &[IpAddr],
) -> Result<Vec<SocketAddr>, PlanError> {
    let Some(first) = sources.first() else { return Ok(addresses) };
    let version = |is_ipv6: bool| if is_ipv6 { "IPv6" } else { "IPv4" };
    let refuse = |source: &IpAddr, problem: String, cure: String| {
        Err(PlanError::new("--source-addresses", source, problem, cure))
    };
    if let Some(other) = sources.iter().find(|source| source.is_ipv6() != first.is_ipv6()) {
        let (one, two) = (version(first.is_ipv6()), version(other.is_ipv6()));
        let problem = format!("{two}, while {first} is {one}");
        return refuse(other, problem, format!("name only {one} or only {two} addresses"));
    }
    let found = addresses.first().copied();
    addresses.retain(|address| address.is_ipv6() == first.is_ipv6());
    match found {
        Some(target) if addresses.is_empty() => {
            let problem = format!("can't connect to {target}: one is IPv6, the other IPv4");
            let cure = format!("name {} addresses of this machine", version(target.is_ipv6()));
            refuse(first, problem, cure)
        }
        _ => Ok(addresses),
    }
}

impl Prepared {
    /// The completed plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The address of each endpoint that accepted a connection.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_select_the_names_addresses_of_their_ip_version() {
        let both: Vec<SocketAddr> =
            ["[::1]:80", "127.0.0.1:80"].map(|text| text.parse().expect("an address")).to_vec();
        let ips = |texts: &[&str]| -> Vec<IpAddr> {
            texts.iter().map(|text| text.parse().expect("an address")).collect()
        };
        for (sources, chosen) in [
            (&[][..], &both[..]),
            (&["127.0.0.2", "127.0.0.3"], &both[1..]),
            (&["::1"], &both[..1]),
        ] {
            assert_eq!(of_version(both.clone(), &ips(sources)).as_deref(), Ok(chosen));
        }
        let refused = |addresses: &[SocketAddr], sources: &[&str]| {
            of_version(addresses.to_vec(), &ips(sources)).expect_err("refused").to_string()
        };
        assert_eq!(
            refused(&both[..1], &["127.0.0.2"]),
            "--source-addresses 127.0.0.2: can't connect to [::1]:80: one is IPv6, the other IPv4; \
             name IPv6 addresses of this machine"
        );
        assert_eq!(
            refused(&both, &["127.0.0.2", "::1"]),
            "--source-addresses ::1: IPv6, while 127.0.0.2 is IPv4; name only IPv4 or only IPv6 \
             addresses"
        );
    }
}
