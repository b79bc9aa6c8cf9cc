//! A run in progress: starts a shard on each core, waits for all of them, merges their results.
//!
//! Shards set up independently; the last one to be ready sets the run's epoch. Nothing is printed
//! here; callers may show [`Run::progress`].

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use host::environment::environment;
use host::limits;
use host::watch::{Watch, Watched};
use plan::redact::Redacted;
use plan::{Plan, PlanError};
use record::shard_report::ShardReport;
use report::collected::{AgentRun, Collected, CollectedHead, LOCAL, RunFacts};
use report::environment::Environment;
use report::merge::{self, Measured};
use report::{Report, Samples};
use samples::{self, Header, Lane, SampleFile, SampleWriter, SamplesSummary, ShardEnd};
use shard::progress::{ShardProgress, SharedProgress};
use shard::{EPOCH_AHEAD_NS, Shard, ShardPlan};
use sys::control::{ByShards, Signals};
use sys::{clock, placement};

use super::health::{Health, known_until};
use super::prepare::Prepared;
use super::progress::{Phase, RunProgress};

/// Why a prepared run couldn't start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A shard couldn't be started.
    #[error("--cores {core}: no shard could be started there ({problem}); {cure}")]
    Core {
        /// Its core.
        core: usize,
        /// Why not.
        problem: String,
        /// What to do about it.
        cure: String,
    },
    /// The file for the raw samples can't be written.
    #[error("{0}")]
    File(PlanError),
    /// A thread other than a shard couldn't be started.
    #[error("threads: refused ({0}); {cure}", cure = limits::CURE_FOR_NO_THREAD)]
    Thread(io::Error),
}

/// The result of a run's setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetUp {
    /// True if the number of connections had settled, on all shards; `None` without setup load.
    pub settled: Option<bool>,
}

/// A run's report, and its distributions, which the report holds only encoded.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The report.
    pub report: Report,
    /// The merged distributions.
    pub measured: Measured,
    /// Time zero of the run's stamps, ns of CLOCK_MONOTONIC, to compare them with a target's
    /// ledger.
    pub epoch_ns: u64,
    /// The same by the wall clock, as it was set when the run started.
    pub began: SystemTime,
}

/// A run was to begin at a time that has passed, or is too near.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too late by {by_ns} ns to begin at that time")]
pub struct Passed {
    /// How late, ns.
    pub by_ns: u64,
}

/// A shard's thread, and its report unless the run was cancelled.
type ShardHandle = JoinHandle<Option<ShardReport>>;

/// A run in progress.
pub struct Run {
    prepared: Prepared,
    handles: Vec<ShardHandle>,
    shard_progress: Vec<Arc<SharedProgress>>,
    signals: Arc<Signals>,
    ring_features: Vec<String>,
    watch: Watch,
    samples: Option<SampleWriter>,
    began_ns: u64,
    /// The same by the wall clock, which may be set before the run ends.
    began: SystemTime,
}

/// A shard's message that it is ready, with its ring's features, or the reason it couldn't start.
type Ready = Result<Vec<String>, NotStarted>;

/// A shard that couldn't be started.
struct NotStarted {
    core: usize,
    error: io::Error,
}

impl NotStarted {
    /// The error as shown to the user.
    fn of(self, plan: &Plan) -> RunError {
        let cure = match self.error.raw_os_error() {
            Some(libc::ENOMEM) => limits::cure_for_no_memory(plan.conns(), plan.cores().len()),
            _ => "run `truetail doctor`".to_owned(),
        };
        RunError::Core { core: self.core, problem: self.error.to_string(), cure }
    }
}

impl Run {
    /// [`Run::start_with`] the file that the plan names for its raw samples, if any.
    ///
    /// # Errors
    /// Those of [`Run::start_with`], or the file can't be written.
    pub fn start(prepared: Prepared) -> Result<Run, RunError> {
        let shards = prepared.plan.cores().len();
        let file = prepared.plan.raw.as_ref().map(|file| SampleFile::create(file, shards));
        let file = file.transpose().map_err(RunError::File)?;
        Run::start_with(prepared, file)
    }

    /// Starts a shard on each core. They set up and start the load by themselves. Raw samples go to
    /// `file`.
    ///
    /// # Errors
    /// The core on which a shard couldn't be started, or the failure of another thread; nothing is
    /// left running then, and there is no file.
    pub fn start_with(prepared: Prepared, file: Option<SampleFile>) -> Result<Run, RunError> {
        Run::set_up(prepared, file, Signals::default())
    }

    /// Like [`Run::start_with`], but once set up, the shards wait for [`Run::begin_at`], and the
    /// run is [held until](Run::hold_until) `lease_ns`.
    ///
    /// # Errors
    /// Those of [`Run::start_with`].
    pub fn start_held(
        prepared: Prepared,
        file: Option<SampleFile>,
        lease_ns: u64,
    ) -> Result<Run, RunError> {
        let lease_ns = lease_ns.into();
        Run::set_up(prepared, file, Signals { held: true, lease_ns, ..Signals::default() })
    }

    fn set_up(
        prepared: Prepared,
        file: Option<SampleFile>,
        signals: Signals,
    ) -> Result<Run, RunError> {
        let plan = &prepared.plan;
        let cores = plan.cores().to_vec();
        let shards = cores.len();
        let signals = Arc::new(signals);
        let shard_progress: Vec<Arc<SharedProgress>> =
            cores.iter().map(|_| Arc::new(SharedProgress::default())).collect();
        let (began_ns, began) = (clock::now_ns(), SystemTime::now());
        let lanes: Vec<Option<Lane>> =
            (0..shards).map(|shard| file.as_ref().map(|file| file.lane(shard))).collect();
        let watched = Watched {
            cores: cores.clone(),
            window_ns: plan.warmup.0,
            end_ns: plan.end_ns(),
            target: prepared.addresses[0].ip(),
            sources: plan.source_addresses.clone(),
        };
        // The other threads come first: once all shards are ready, the run begins.
        let watch = Watch::begin(watched, signals.clone(), shards).map_err(RunError::Thread)?;
        let samples = file.map(|file| file.begin(sample_header(&prepared.redacted), &cores));
        let started = samples.transpose().map_err(RunError::Thread).and_then(|samples| {
            match start_shards(&prepared, lanes, &shard_progress, &signals) {
                Ok((handles, features)) => Ok((samples, handles, features)),
                Err(error) => {
                    samples.into_iter().for_each(SampleWriter::cancel);
                    Err(error.of(plan))
                }
            }
        });
        let (samples, handles, ring_features) = started.inspect_err(|_| signals.cancel())?;
        Ok(Run {
            prepared,
            handles,
            shard_progress,
            signals,
            ring_features,
            watch,
            samples,
            began_ns,
            began,
        })
    }

    /// True if all shards are set up.
    pub fn is_ready(&self) -> bool {
        self.signals.by_shards.ready.load(Ordering::Acquire) == self.handles.len()
    }

    /// The result of the setup; `None` before all shards are set up.
    pub fn set_up_as(&self) -> Option<SetUp> {
        let ByShards { settled, unsettled, .. } = &self.signals.by_shards;
        self.is_ready().then(|| SetUp {
            settled: match (settled.load(Ordering::Relaxed), unsettled.load(Ordering::Relaxed)) {
                (_, true) => Some(false),
                (true, false) => Some(true),
                (false, false) => None,
            },
        })
    }

    /// Sets when a held run that is ready begins, ns of CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// The time has passed, or is too near for all shards to see it.
    pub fn begin_at(&self, epoch_ns: u64) -> Result<(), Passed> {
        assert!(self.is_ready(), "a run begins once its shards are ready");
        let now_ns = clock::now_ns();
        if epoch_ns < now_ns + EPOCH_AHEAD_NS {
            return Err(Passed { by_ns: now_ns + EPOCH_AHEAD_NS - epoch_ns });
        }
        self.signals.begin_at(epoch_ns);
        Ok(())
    }

    /// Ends a held run that hasn't begun: nothing is left running, and there is no file.
    pub fn cancel(self) {
        self.signals.cancel();
        for handle in self.handles {
            handle.join().expect("a shard that is cancelled ends");
        }
        self.watch.finish();
        self.samples.into_iter().for_each(SampleWriter::cancel);
    }

    /// Ends the run early: nothing more is sent, and responses are awaited for at most two seconds.
    /// Requests that are due and still wait for a connection stay unsent.
    pub fn stop(&self) {
        self.signals.stop(clock::now_ns());
    }

    /// Ends the run by itself at this time, ns of CLOCK_MONOTONIC, unless it is extended before.
    /// Shards check the clock before each call that sends, so a process that was suspended in the
    /// meantime doesn't catch up on what was due. Suspended between the check and the call, which
    /// is a matter of microseconds, it makes this one call.
    pub fn hold_until(&self, lease_ns: u64) {
        self.signals.lease_ns.store(lease_ns, Ordering::Relaxed);
    }

    /// True if all shards have ended.
    pub fn is_finished(&self) -> bool {
        self.signals.by_shards.ended.load(Ordering::Relaxed) == self.handles.len()
    }

    /// The recorded window on CLOCK_MONOTONIC, ns, as far as it is known now: an interruption
    /// shortens it. `None` during setup.
    pub fn window(&self) -> Option<Range<u64>> {
        let epoch_ns = self.signals.epoch_ns.load(Ordering::Acquire);
        let stop_ns = self.signals.stop_ns.load(Ordering::Relaxed);
        let plan = &self.prepared.plan;
        (epoch_ns != 0).then(|| {
            let until_ns = epoch_ns + plan.end_ns();
            let until_ns = if stop_ns == 0 { until_ns } else { until_ns.min(stop_ns) };
            epoch_ns + plan.warmup.0..until_ns
        })
    }

    /// The run's progress so far.
    pub fn progress(&self) -> RunProgress {
        let mut total = ShardProgress::default();
        for shared in &self.shard_progress {
            shared.add_to(&mut total);
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
        let ShardProgress { intended, answered, errors, in_flight, counts, latency, .. } = total;
        RunProgress { phase, elapsed_ns, intended, answered, errors, in_flight, counts, latency }
    }

    /// The generator's health so far.
    pub fn health(&self) -> Health {
        let mut total = ShardProgress::default();
        self.shard_progress.iter().for_each(|shared| shared.add_to(&mut total));
        let plan = &self.prepared.plan;
        let loaded_ns = self.window().map(|window| clock::now_ns().min(window.end));
        // A shard that has sent its part of the requests stops publishing.
        let loaded_ns = loaded_ns.filter(|_| !plan.ends_by_count());
        let times = self.shard_progress.iter().map(|shared| known_until(shared.time(), loaded_ns));
        let shards = plan.cores().iter().copied().zip(times).collect();
        Health { lateness: total.lateness, shards }
    }

    /// Waits for all shards and makes the report from their results.
    pub fn wait(self) -> Finished {
        let share = self.prepared.share.clone();
        let replay = self.prepared.replay.as_ref().map(|replay| replay.log.clone());
        let (start_ns, start) = (self.began_ns, self.began);
        let collected = self.collect();
        let epoch_ns = collected.head.epoch_ns;
        let began = start + Duration::from_nanos(epoch_ns.saturating_sub(start_ns));
        let agent = AgentRun::of(LOCAL, share, collected);
        let facts = RunFacts { began: Some(began), replay, ..RunFacts::default() };
        let (report, measured) = merge::report([agent], &facts);
        Finished { report, measured, epoch_ns, began }
    }

    /// Waits for all shards and returns their measurements, from which the report is made.
    pub fn collect(self) -> Collected {
        let shards: Vec<ShardReport> = self
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
            // All shards have ended, and with each its window.
            false => self.signals.by_shards.end_ns.load(Ordering::Relaxed),
        };
        let samples = self.samples.map(|writer| {
            let ends = shards.iter().map(|shard| {
                let sampled = shard.sampled.expect("each shard had a sampler");
                (sampled, ShardEnd::new(&shard.recorder, shard.digest))
            });
            samples_part(writer.finish(ends.collect(), until_ns, epoch_ns))
        });
        let target = self.prepared.addresses[0].ip();
        let head = CollectedHead {
            addresses: self.prepared.addresses,
            environment: Environment {
                unstamped: self.prepared.unstamped,
                ..environment(plan.cores(), self.ring_features, target)
            },
            plan: self.prepared.redacted,
            machine: self.watch.finish(),
            interrupted,
            until_ns,
            epoch_ns,
            samples,
        };
        Collected { head, shards }
    }
}

/// The header of the raw samples. Its digest is that of the report's plan, so that `verify` can
/// check that the two belong together.
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

/// Starts a shard on each core and waits until all are ready; returns them with the features of
/// their rings.
///
/// # Errors
/// The first core on which that failed; then no shard is left.
fn start_shards(
    prepared: &Prepared,
    lanes: Vec<Option<Lane>>,
    shard_progress: &[Arc<SharedProgress>],
    signals: &Arc<Signals>,
) -> Result<(Vec<ShardHandle>, Vec<String>), NotStarted> {
    let cores = prepared.plan.cores();
    let (ready, all_ready) = mpsc::channel();
    let mut handles = Vec::new();
    let mut failure = None;
    for (shard, lane) in lanes.into_iter().enumerate() {
        let plan = prepared.shard_plan(shard, lane);
        let shared = shard_progress[shard].clone();
        match start_shard(cores[shard], plan, shared, signals.clone(), ready.clone()) {
            Ok(handle) => handles.push(handle),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    drop(ready);
    let all = match failure {
        None => all_ready.iter().collect::<Result<Vec<_>, _>>(),
        Some(failure) => Err(failure),
    };
    match all {
        Ok(mut features) => {
            assert_eq!(features.len(), cores.len(), "each shard reports whether it is ready");
            Ok((handles, features.pop().unwrap_or_default()))
        }
        Err(error) => {
            signals.cancel();
            for handle in handles {
                handle.join().expect("a shard that is cancelled ends");
            }
            Err(error)
        }
    }
}

fn start_shard(
    core: usize,
    plan: ShardPlan,
    shared: Arc<SharedProgress>,
    signals: Arc<Signals>,
    ready: Sender<Ready>,
) -> Result<ShardHandle, NotStarted> {
    let life = move || {
        // Memory belongs to the node of the core that touches it first.
        let shard = placement::move_to([core]).and_then(|()| Shard::new(plan, shared, signals));
        match shard {
            Ok(shard) => {
                let features = shard.ring_features();
                // Sending fails only if the run was cancelled.
                let _ = ready.send(Ok(features));
                drop(ready);
                shard.run()
            }
            Err(error) => {
                let _ = ready.send(Err(NotStarted { core, error }));
                None
            }
        }
    };
    let thread = thread::Builder::new().name("truetail-shard".to_owned());
    thread.spawn(life).map_err(|error| NotStarted { core, error })
}
