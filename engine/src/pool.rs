//! From a plan to its report: checks what can be checked, starts a shard on each core, merges what they did.
//!
//! Nothing is started before every check has passed. Shards set up, then meet: the last one to be ready sets the epoch of
//! the run. The pool prints nothing; it offers a summary to whoever wants to show progress.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use glommio::{ExecutorJoinHandle, LocalExecutorBuilder, Placement};

use crate::board::{Board, Summary};
use crate::clock;
use crate::endpoint::{self, Endpoint};
use crate::host::{self, Check, limits};
use crate::machine::{Watch, Watched};
use crate::merge::{self, Circumstances, Measured};
use crate::placement;
use crate::plan::{Model, Plan, PlanError, Switch};
use crate::recorder::Outlook;
use crate::redact::Redacted;
use crate::report::{Report, Samples};
use crate::samples::{self, Header, Lane, SampleFile, SampleWriter, SamplesSummary, ShardEnd};
use crate::shard::{Drive, Shard, ShardPlan, ShardReport, Signals};
use crate::units::Nanos;

/// A plan that has passed every check.
#[derive(Clone, Debug)]
pub struct Prepared {
    plan: Plan,
    redacted: Redacted,
    address: SocketAddr,
    request: Vec<u8>,
    head_request: bool,
}

/// Why a plan can't be run.
#[derive(Clone, Debug)]
pub enum PrepareError {
    /// A value of the plan is wrong wherever it runs.
    Plan(PlanError),
    /// This machine lacks something.
    Host(Check),
    /// The target can't be reached.
    Target(PlanError),
    /// A file can't be written.
    File(PlanError),
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrepareError::Plan(error) | PrepareError::Target(error) | PrepareError::File(error) => {
                error.fmt(f)
            }
            PrepareError::Host(check) => check.fmt(f),
        }
    }
}

impl std::error::Error for PrepareError {}

/// Completes a plan and checks all that can be checked without load: the URL, the request, the cores, the machine, and
/// with one connection that the target listens.
///
/// # Errors
/// The first problem, with its cure.
pub fn prepare(plan: Plan) -> Result<Prepared, PrepareError> {
    let endpoint = Endpoint::parse(&plan.target).map_err(PrepareError::Plan)?;
    let mut plan = plan.complete(&placement::allowed_cores()).map_err(PrepareError::Plan)?;
    // Read once: a pipe has its content only once, and a file may change.
    let body = endpoint::read_body(&plan).map_err(PrepareError::Plan)?;
    let request = endpoint::render_request(&plan, &endpoint, &body).map_err(PrepareError::Plan)?;
    if request.closes() {
        // RFC 9112, 9.6: who sends `Connection: close` sends no further request on that connection.
        plan.keepalive = Switch::Off;
        plan.requests_per_connection = None;
    }
    host::require(plan.conns(), plan.cores().len()).map_err(PrepareError::Host)?;
    if let Some(file) = &plan.raw {
        samples::check_writable(file).map_err(PrepareError::File)?;
    }
    check_sources(&plan.source_addresses).map_err(PrepareError::Plan)?;
    let address =
        endpoint.reach(&plan.target, &plan.source_addresses).map_err(PrepareError::Target)?;
    check_kinds(&plan.source_addresses, address).map_err(PrepareError::Plan)?;
    Ok(Prepared {
        redacted: Redacted::new(&plan, &body),
        plan,
        address,
        head_request: request.is_head(),
        request: request.bytes().to_vec(),
    })
}

/// Each source address has to be one of this machine.
fn check_sources(sources: &[IpAddr]) -> Result<(), PlanError> {
    for source in sources {
        if let Err(error) = TcpListener::bind((*source, 0)) {
            let problem = format!("is no address of this machine ({error})");
            return Err(wrong_source(*source, problem));
        }
    }
    Ok(())
}

/// Each source address has to be of the target's kind.
fn check_kinds(sources: &[IpAddr], target: SocketAddr) -> Result<(), PlanError> {
    match sources.iter().find(|source| source.is_ipv6() != target.is_ipv6()) {
        None => Ok(()),
        Some(source) => {
            let problem = format!("can't connect to {target}: one is IPv6, the other IPv4");
            Err(wrong_source(*source, problem))
        }
    }
}

fn wrong_source(source: IpAddr, problem: String) -> PlanError {
    let cure = "name addresses of this machine, such as 127.0.0.2";
    PlanError::new("--source-addresses", source, problem, cure)
}

impl Prepared {
    /// The completed plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    fn shard_plan(&self, shard: usize, samples: Option<Lane>) -> ShardPlan {
        let plan = &self.plan;
        let shards = plan.cores().len();
        let drive = match (plan.model(), plan.period) {
            (Model::Open, _) => Drive::Open {
                rate: plan.rate.expect("an open model has a rate"),
                arrivals: plan.arrivals,
                seed: plan.seed,
            },
            (Model::Closed, None) => Drive::Closed,
            (Model::Closed, Some(period)) => Drive::Paced { period_ns: period.0 },
        };
        // The first shards take what doesn't divide, so that no connection is lost.
        let own = |total: usize| total / shards + usize::from(shard < total % shards);
        let settles =
            plan.model() == Model::Open && 0 < plan.warmup.0 && plan.keepalive == Switch::On;
        let length_ns = |length: Option<Nanos>| length.map_or(u64::MAX, |length| length.0);
        ShardPlan {
            shard,
            shards,
            core: plan.cores()[shard],
            drive,
            conns: own(plan.conns()),
            conns_total: plan.conns(),
            prewarm: own(plan.prewarm.unwrap_or(0)),
            settle_ns: if settles { plan.settle.0 } else { 0 },
            outlook: Outlook::of_plan(plan),
            end_ns: plan.end_ns(),
            timeout_ns: plan.timeout.0,
            deadline_ns: length_ns(plan.deadline),
            queue_max_ns: length_ns(plan.queue_max),
            requests_per_connection: match plan.keepalive {
                Switch::Off => 1,
                Switch::On => plan.requests_per_connection.unwrap_or(u64::MAX),
            },
            wait: plan.wait,
            flush: plan.flush(),
            request: self.request.clone(),
            head_request: self.head_request,
            address: self.address.into(),
            sources: plan
                .source_addresses
                .iter()
                .map(|source| SocketAddr::new(*source, 0).into())
                .collect(),
            samples,
        }
    }
}

/// Why a run that was prepared could not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// No shard could be started on a core.
    Core {
        /// The core.
        core: usize,
        /// Why not.
        problem: String,
        /// What to do about it.
        cure: String,
    },
    /// The file for the raw samples can't be written.
    File(PlanError),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Core { core, problem, cure } => {
                write!(f, "--cores {core}: no shard could be started there ({problem}); {cure}")
            }
            RunError::File(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Connections are being opened.
    Setup,
    /// Load that is not recorded.
    Warmup,
    /// The recorded window.
    Steady,
    /// Nothing new is due; what is in flight is awaited.
    Drain,
    /// All shards have ended.
    Done,
}

/// A running run's progress, warm-up included.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Where it is.
    pub phase: Phase,
    /// Since the epoch, ns; during the set-up since its beginning.
    pub elapsed_ns: u64,
    /// Requests that were due.
    pub intended: u64,
    /// Requests with a whole response.
    pub answered: u64,
    /// Requests that failed or timed out.
    pub errors: u64,
    /// Requests whose response is awaited.
    pub in_flight: u64,
    /// Corrected median of the window so far, within 6.25 %.
    pub p50_ns: Option<u64>,
    /// Corrected 99th percentile of the window so far, within 6.25 %.
    pub p99_ns: Option<u64>,
}

/// A run's report, with what its document only holds encoded.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The document.
    pub report: Report,
    /// The merged distributions themselves.
    pub measured: Measured,
    /// The moment that all stamps of the run count from, ns of CLOCK_MONOTONIC: a witness's stamps can be laid beside them.
    pub epoch_ns: u64,
}

/// A run under way.
pub struct Run {
    prepared: Prepared,
    handles: Vec<ExecutorJoinHandle<Option<ShardReport>>>,
    boards: Vec<Arc<Board>>,
    signals: Arc<Signals>,
    ring_features: Vec<String>,
    watch: Watch,
    samples: Option<SampleWriter>,
    began_ns: u64,
}

/// An interruption takes effect this much later, so that every shard has read it by then: twice the shards' yield.
const STOP_AHEAD_NS: u64 = 100_000_000;
/// Memory that glommio registers per executor, which our own ring doesn't use.
pub(crate) const EXECUTOR_IO_MEMORY: usize = 64 * 1024;

/// A shard's word that it is ready, with its ring's features, or why it is not.
type Ready = Result<Vec<String>, NotStarted>;

/// A core on which no shard could be started.
struct NotStarted {
    core: usize,
    error: io::Error,
}

impl NotStarted {
    /// The error of a run of this plan.
    fn of(self, plan: &Plan) -> RunError {
        let cure = match self.error.raw_os_error() {
            Some(libc::ENOMEM) => limits::cure_for_no_memory(plan.conns(), plan.cores().len()),
            _ => "run `truetail doctor`".to_owned(),
        };
        RunError::Core { core: self.core, problem: self.error.to_string(), cure }
    }
}

impl Run {
    /// Starts a shard on each core. They set up, meet, and begin by themselves.
    ///
    /// # Errors
    /// The core on which no shard could be started, or the file that can't be written; then nothing runs.
    pub fn start(prepared: Prepared) -> Result<Run, RunError> {
        let plan = &prepared.plan;
        let cores = plan.cores().to_vec();
        let shards = cores.len();
        let file = plan.raw.as_ref().map(|file| SampleFile::create(file, shards)).transpose();
        let file = file.map_err(RunError::File)?;
        let signals = Arc::new(Signals::default());
        let boards: Vec<Arc<Board>> = cores.iter().map(|_| Arc::new(Board::default())).collect();
        let (ready, all_ready) = mpsc::channel();
        let began_ns = clock::now_ns();
        let mut handles = Vec::new();
        let mut failure = None;
        for (shard, core) in cores.iter().enumerate() {
            let shard_plan = prepared.shard_plan(shard, file.as_ref().map(|file| file.lane(shard)));
            match start_shard(
                *core,
                shard_plan,
                boards[shard].clone(),
                signals.clone(),
                ready.clone(),
            ) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        drop(ready);
        let ring_features = match failure.map_or_else(|| await_all(&all_ready, shards), Err) {
            Ok(Some(features)) => features,
            other => {
                signals.epoch_ns.store(u64::MAX, Ordering::Release);
                let mut first = other.err();
                for (handle, core) in handles.into_iter().zip(&cores) {
                    if let Err(error) = handle.join() {
                        first.get_or_insert(NotStarted { core: *core, error: error.into() });
                    }
                }
                let first = first.expect("a shard that isn't ready says why");
                return Err(first.of(plan));
            }
        };
        let watched = Watched {
            cores: cores.clone(),
            window_ns: plan.warmup.0,
            end_ns: plan.end_ns(),
            target: prepared.address,
            sources: plan.source_addresses.clone(),
        };
        let watch = Watch::begin(watched, signals.clone(), shards);
        let samples = file.map(|file| file.begin(sample_header(&prepared.redacted), &cores));
        Ok(Run { prepared, handles, boards, signals, ring_features, watch, samples, began_ns })
    }

    /// Ends the run early: nothing more is issued, what is in flight is awaited for at most two seconds.
    pub fn stop(&self) {
        let stop_ns = clock::now_ns() + STOP_AHEAD_NS;
        // A second call doesn't move the first one's moment.
        let _ =
            self.signals.stop_ns.compare_exchange(0, stop_ns, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether all shards have ended.
    pub fn is_finished(&self) -> bool {
        self.signals.ended.load(Ordering::Relaxed) == self.handles.len()
    }

    /// How far the run is.
    pub fn progress(&self) -> Progress {
        let mut total = Summary::default();
        for board in &self.boards {
            board.add_to(&mut total);
        }
        let plan = &self.prepared.plan;
        let epoch_ns = self.signals.epoch_ns.load(Ordering::Acquire);
        let of_setup = epoch_ns == 0;
        let since_ns = if of_setup { self.began_ns } else { epoch_ns };
        let elapsed_ns = clock::now_ns().saturating_sub(since_ns);
        let phase = match elapsed_ns {
            _ if self.is_finished() => Phase::Done,
            _ if self.signals.stop_ns.load(Ordering::Relaxed) != 0 => Phase::Drain,
            _ if of_setup => Phase::Setup,
            elapsed_ns if elapsed_ns < plan.warmup.0 => Phase::Warmup,
            elapsed_ns if elapsed_ns < plan.end_ns() => Phase::Steady,
            _ => Phase::Drain,
        };
        Progress {
            phase,
            elapsed_ns,
            intended: total.intended,
            answered: total.answered,
            errors: total.errors,
            in_flight: total.in_flight,
            p50_ns: total.glance.quantile_ns(0.5),
            p99_ns: total.glance.quantile_ns(0.99),
        }
    }

    /// Waits for all shards and merges what they did.
    pub fn wait(self) -> Finished {
        let parts: Vec<ShardReport> = self
            .handles
            .into_iter()
            .map(|handle| {
                handle
                    .join()
                    .expect("a shard ends by itself")
                    .expect("a shard that was ready reports")
            })
            .collect();
        let plan = &self.prepared.plan;
        let stop_ns = self.signals.stop_ns.load(Ordering::Relaxed);
        let epoch_ns = self.signals.epoch_ns.load(Ordering::Acquire);
        let interrupted = stop_ns != 0;
        let until_ns = match interrupted {
            true => stop_ns.saturating_sub(epoch_ns).min(plan.end_ns()),
            false => plan.end_ns(),
        };
        let samples = self.samples.map(|writer| {
            let ends = parts.iter().map(|part| {
                let sampled = part.sampled.expect("each shard had a sampler");
                (sampled, ShardEnd::new(&part.recorder, part.digest))
            });
            samples_part(writer.finish(ends.collect(), until_ns, epoch_ns))
        });
        let circumstances = Circumstances {
            address: self.prepared.address,
            environment: host::environment(plan.cores(), self.ring_features, self.prepared.address),
            plan: self.prepared.redacted,
            machine: self.watch.finish(),
            interrupted,
            until_ns,
            samples,
        };
        let (report, measured) = merge::report(circumstances, &parts);
        Finished { report, measured, epoch_ns }
    }
}

/// The header of the raw samples. Its digest is that of the plan in the report, beside which the samples are verified.
fn sample_header(redacted: &Redacted) -> Header {
    let plan = redacted.plan();
    Header {
        shards: u32::try_from(plan.cores().len()).expect("a machine has fewer cores"),
        plan_digest: samples::plan_digest(plan),
        seed: plan.seed,
        window_start_ns: plan.warmup.0,
        window_end_ns: plan.end_ns(),
    }
}

fn samples_part(summary: SamplesSummary) -> Samples {
    Samples {
        file: summary.file.map(|file| file.display().to_string()),
        written: summary.written,
        lost: summary.lost,
        error: summary.error,
    }
}

/// The features of the shards' rings when so many shards are ready; `None` when one of them never came to its ring, which the end
/// of its executor explains.
fn await_all(
    all_ready: &Receiver<Ready>,
    shards: usize,
) -> Result<Option<Vec<String>>, NotStarted> {
    let mut features = Vec::new();
    for ready in all_ready {
        features.push(ready?);
    }
    Ok((features.len() == shards).then(|| features.pop().unwrap_or_default()))
}

fn start_shard(
    core: usize,
    plan: ShardPlan,
    board: Arc<Board>,
    signals: Arc<Signals>,
    ready: Sender<Ready>,
) -> Result<ExecutorJoinHandle<Option<ShardReport>>, NotStarted> {
    LocalExecutorBuilder::new(Placement::Fixed(core))
        .name("truetail-shard")
        .io_memory(EXECUTOR_IO_MEMORY)
        // The request loop never parks its executor; what little runs beside it needs no early wake-up.
        .preempt_timer(Duration::from_millis(100))
        .spawn(move || async move {
            match Shard::new(plan, board, signals) {
                Ok(shard) => {
                    let features = shard.ring_features();
                    // The pool stops listening only when it has called the run off.
                    let _ = ready.send(Ok(features));
                    drop(ready);
                    shard.run().await
                }
                Err(error) => {
                    let _ = ready.send(Err(NotStarted { core, error }));
                    None
                }
            }
        })
        .map_err(|error| NotStarted { core, error: error.into() })
}
