//! A run's thread: prepares the run, holds it until its start, and delivers its results.
//!
//! Everything here may block, for as long as a disk takes.
//!
//! Shards learn of the start half a second before it: until then a run can be called off without a
//! trace. One that is stopped between start and epoch ends with an empty report, so that a
//! controller can collect every run that it started.

use std::iter;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use engine::load::replay::ReplayedLog;
use engine::load::share::Share;
use engine::plan::Plan;
use engine::plan::body::SharedBody;
use engine::record::counts::Counts;
use engine::record::samples::SampleFolder;
use engine::report::collected::{AgentRun, Collected, RunFacts};
use engine::report::environment::ControlCore;
use engine::report::{Samples, merge};
use engine::run::{Run, RunError, RunProgress};
use engine::samples::SampleFile;
use engine::sys::clock;
use engine::sys::units::CoreList;

use super::agent::Agent;
use super::attachments::{self, FileCache};
use super::event::Event;
use super::job::{Job, Over, STOPPED, Stage, Why};
use super::kept::{Files, NotKept, lose};
use super::outgoing::{Outgoing, RawFile};
use super::prepare::{Admitted, prepare};
use crate::admission::{AllowedTarget, FILES_MAX_DEFAULT};
use crate::message::{
    Attachment, HostFacts, KeptRun, Message, Origin, Prepare, Ready, Results, ShardState,
};
use crate::refusal::Refusal;
use crate::run_id::RunId;
use crate::versions::Versions;

/// How long before its epoch the shards learn of it, ns. Until then a run can be called off without
/// a trace; shards need a few milliseconds.
const BEGIN_AHEAD_NS: u64 = 500_000_000;
/// The epoch of a run that is stopped before it, ns from now: after the stop takes effect, so that
/// nothing is sent.
const STOPPED_AHEAD_NS: u64 = 300_000_000;

/// The most plans still in preparation although they were called off: a silent name server holds
/// each for half a minute.
const PREPARING_MAX: usize = 16;

/// Carries out a controller's order to its end, with the files that are already here. Returns how
/// the run ended, and the event to report once the agent is free.
pub(super) fn work(
    agent: &Agent,
    job: &Job,
    prepare: Prepare,
    cache: &mut FileCache,
) -> (Over, Option<Event>) {
    let (share, origin) = (prepare.share.clone(), prepare.origin.clone());
    let work = Work { agent, job, files: agent.files(), share, origin };
    match work.run(prepare, cache) {
        Ok((over, event)) => (over, Some(event)),
        Err(refusal) => {
            // Its session reports it.
            job.change(|state| state.stage = Stage::Refused(refusal));
            (Over::Refused, None)
        }
    }
}

/// What is left of a run whose results weren't collected.
struct Kept {
    /// The report's path, or why there is none.
    file: Result<PathBuf, String>,
    /// The run's name, by which a controller can collect it, or why none can.
    run: Result<RunId, String>,
}

/// What a report also has.
#[derive(Clone)]
struct Aside {
    /// The log that was sent again.
    replay: Option<ReplayedLog>,
    /// When the load began.
    began: SystemTime,
}

/// A run's thread.
struct Work<'a> {
    agent: &'a Agent,
    job: &'a Job,
    files: Files,
    share: Share,
    origin: Origin,
}

impl Work<'_> {
    fn run(&self, prepare: Prepare, cache: &mut FileCache) -> Result<(Over, Event), Refusal> {
        let job = self.job;
        let wants_samples = prepare.samples;
        let Some(files) = self.files(&prepare.attachments, cache)? else {
            return Ok(self.called_off());
        };
        let Some(admitted) = self.prepare(*prepare.plan, files)? else {
            return Ok(self.called_off());
        };
        let Admitted { prepared, targets, demand, replay } = admitted;
        let cores = CoreList::new(prepared.plan().cores().to_vec());
        let shards = cores.len();
        self.agent.report(Event::Accepted {
            holder: job.holder.clone(),
            address: job.address.clone(),
            run: job.run,
            percent: percent(&self.share),
            demand: demand.to_string(),
            target: names(&targets),
            cores,
        });
        let file = wants_samples.then(|| SampleFile::create(&self.files.samples(), shards));
        let file = file.transpose().map_err(|error| Refusal::Run(error.to_string()))?;
        let lease_ns = job.lock().held_until_ns;
        let run = Run::start_held(prepared, file, lease_ns).map_err(|error| not_started(&error))?;
        job.change(|state| {
            // It may have been called off while the shards were started.
            if state.is_called_off() {
                run.stop();
            }
            run.hold_until(state.held_until_ns);
            state.run = Some(run);
        });
        let set_up = job.wait(|state| match &state.run {
            Some(run) if !state.is_called_off() => run.set_up_as().map(Some),
            _ => Some(None),
        });
        let Some(set_up) = set_up else { return Ok(self.called_off()) };
        let ready = Ready { settled: set_up.settled };
        job.change(|state| state.stage = Stage::Ready(ready));
        let start_ns = job.wait(|state| match state.start_ns {
            None => state.is_called_off().then_some(None),
            Some(start_ns) => Some(Some(start_ns)),
        });
        let Some(start_ns) = start_ns else { return Ok(self.called_off()) };
        let Some(epoch_ns) = self.begin(start_ns)? else { return Ok(self.called_off()) };
        let has_begun = job.wait(|state| match () {
            () if epoch_ns <= clock::now_ns() => Some(true),
            () => state.is_called_off().then_some(false),
        });
        if has_begun {
            self.agent.report(Event::Begun { holder: job.holder.clone() });
        }
        // Later, the wall clock may have been set.
        let began = clock::wall_time(epoch_ns);
        let run = job.take_ended();
        Ok(self.bring(run.collect(), Aside { replay, began }))
    }

    /// The plan's files, of which those that aren't here come from its controller; `None` if it is
    /// called off meanwhile.
    fn files(
        &self,
        attachments: &[Attachment],
        cache: &mut FileCache,
    ) -> Result<Option<SharedBody>, Refusal> {
        let files_max = self.agent.config.admission.files_max.unwrap_or(FILES_MAX_DEFAULT);
        attachments::check(attachments, files_max)?;
        let missing = cache.missing(attachments, files_max);
        if !missing.is_empty() {
            self.job.change(|state| state.stage = Stage::Lacks(missing.clone()));
            let arrived = self.job.wait(|state| match state.is_called_off() {
                true => Some(None),
                false => state.arrived.take().map(Some),
            });
            let Some(arrived) = arrived else { return Ok(None) };
            for ((_, attachment), bytes) in missing.iter().zip(arrived) {
                cache.add(attachment, bytes)?;
            }
        }
        Ok(Some(cache.of_plan(attachments)))
    }

    /// The share of the plan to run; `None` if it is called off meanwhile.
    fn prepare(&self, plan: Plan, files: SharedBody) -> Result<Option<Admitted>, Refusal> {
        // The agent itself holds one.
        if PREPARING_MAX < Arc::strong_count(&self.agent.preparing) {
            return Err(Refusal::Run(format!(
                "{PREPARING_MAX} plans that were called off still wait for a name or a target; \
                 check the name server, and try again"
            )));
        }
        let turn = Arc::clone(&self.agent.preparing);
        let (config, share) = (self.agent.config.clone(), self.share.clone());
        let prepared = self.job.unless_called_off("truetail-prepare", move || {
            let _turn = turn;
            prepare(&config, plan, &files, share)
        });
        let prepared = prepared.map_err(|error| not_started(&RunError::Thread(error)))?;
        prepared.transpose()
    }

    /// Tells the shards when to begin, and returns that time; `None` if the run was called off
    /// before.
    fn begin(&self, start_ns: u64) -> Result<Option<u64>, Refusal> {
        let epoch_ns = self.job.wait(|state| {
            let now_ns = clock::now_ns();
            match () {
                () if state.lost.is_some() => Some(None),
                () if state.is_stopped => Some(Some(now_ns + STOPPED_AHEAD_NS)),
                () if start_ns <= now_ns + BEGIN_AHEAD_NS => Some(Some(start_ns)),
                () => None,
            }
        });
        let Some(epoch_ns) = epoch_ns else { return Ok(None) };
        let begun = match &self.job.lock().run {
            Some(run) => run.begin_at(epoch_ns),
            None => unreachable!("a run that is ready is here until it ends"),
        };
        match begun {
            Ok(()) => Ok(Some(epoch_ns)),
            Err(passed) => {
                self.cancel();
                let cure = "start the run again; this machine is too busy if it recurs";
                Err(Refusal::Start(format!("{passed}; {cure}")))
            }
        }
    }

    /// Ends a run that has not begun.
    fn called_off(&self) -> (Over, Event) {
        let sent = self.cancel();
        let lost = self.job.lost();
        let why = lost.map_or_else(|| STOPPED.to_owned(), Why::words);
        (Over::CalledOff, Event::CalledOff { holder: self.job.holder.clone(), sent, why })
    }

    /// Returns how many requests of its setup are known to have been sent.
    fn cancel(&self) -> u64 {
        let mut run = None;
        self.job.change(|state| run = state.run.take());
        let Some(run) = run else { return 0 };
        // It ends setup early, which cancelling awaits.
        run.stop();
        let RunProgress { answered, errors, in_flight, .. } = run.progress();
        run.cancel();
        answered + errors + in_flight
    }

    /// Offers the results to the controller until it has them, or else keeps them.
    fn bring(&self, mut collected: Collected, aside: Aside) -> (Over, Event) {
        let job = self.job;
        let environment = &mut collected.head.environment;
        let core = self.agent.core;
        let shared = environment.cores_used.contains(&core);
        environment.control_core = Some(ControlCore { core, shared });
        let samples = collected.head.samples.as_mut().and_then(|part| self.samples(part));
        let samples_bytes = samples.as_ref().map_or(0, |samples| samples.length);
        let outgoing = Outgoing::new(results(&collected, samples_bytes).collect(), samples);
        job.change(|state| {
            state.outgoing = Some(outgoing);
            state.stage = Stage::Ended;
        });
        let lost = job.wait(|state| match state.lost {
            Some(why) => Some(Some(why)),
            None => state.is_collected.then_some(None),
        });
        let holder = job.holder.clone();
        let counts = || collected.shards.iter().map(|shard| &shard.recorder.counts);
        let sent = counts().map(Counts::sent_ever).sum();
        let Some(why) = lost else {
            self.files.forget();
            let answered = counts().map(Counts::answered_ever).sum();
            return (Over::Collected, Event::Collected { holder, sent, answered });
        };
        if collected.head.until_ns == 0 {
            // It was stopped before its epoch: there is nothing to keep.
            self.files.forget();
            return self.called_off();
        }
        let why = why.words();
        let event = match self.keep(collected, aside, &why, samples_bytes) {
            Ok(Kept { file, run }) => Event::Kept { holder, sent, why, file, run },
            Err(error) => Event::NotKept { holder, sent, why, problem: error.to_string() },
        };
        (Over::Kept, event)
    }

    /// The raw samples to send; `part` then describes their state in this agent's folder.
    fn samples(&self, part: &mut Samples) -> Option<RawFile> {
        if let Some(error) = &mut part.error {
            error.folder = SampleFolder::StateDir;
        }
        part.file.as_ref()?;
        let file = self.files.samples();
        match RawFile::open(&file) {
            Ok(opened) => Some(opened),
            Err(error) => {
                lose(part, format!("opening {}: {error}", file.display()));
                None
            }
        }
    }

    /// Writes the results to disk; an error if there is neither a report nor what a controller can
    /// collect.
    fn keep(
        &self,
        mut collected: Collected,
        aside: Aside,
        why: &str,
        mut samples_bytes: u64,
    ) -> Result<Kept, NotKept> {
        let (report_file, samples_file) = self.files.names();
        // The user also wanted samples that were lost.
        let raw = collected.head.samples.is_some().then(|| samples_file.clone());
        if let Some(part) = collected.head.samples.as_mut().filter(|part| part.file.is_some()) {
            match self.files.keep_samples(&samples_file) {
                Ok(()) => part.file = Some(samples_file.display().to_string()),
                Err(error) => {
                    samples_bytes = 0;
                    lose(part, format!("renaming {}: {error}", self.files.samples().display()));
                }
            }
        }
        let name = format!("agent on {}", HostFacts::here().name);
        let resumed = self.keep_results(&collected, aside.clone(), samples_bytes);
        let Aside { replay, began } = aside;
        let mut run = AgentRun::of(&name, self.share.clone(), collected);
        run.findings = self.agent.findings().map(str::to_owned).collect();
        let facts = RunFacts { began: Some(began), replay, ..RunFacts::default() };
        let (mut report, _) = merge::report([run], &facts);
        report.uncollected = Some(why.to_owned());
        report.config.plan.raw = raw;
        let kept = Files::keep(&report_file, &report);
        let resumed = resumed.map(|()| self.origin.run).map_err(|error| error.to_string());
        match kept {
            Err(error) if resumed.is_err() => Err(error),
            kept => {
                let file = kept.map(|()| report_file).map_err(|error| error.to_string());
                Ok(Kept { file, run: resumed })
            }
        }
    }

    /// Keeps the results for a controller that resumes the run.
    fn keep_results(
        &self,
        collected: &Collected,
        Aside { replay, began }: Aside,
        samples_bytes: u64,
    ) -> Result<(), NotKept> {
        let since = began.duration_since(UNIX_EPOCH).unwrap_or_default();
        let kept = KeptRun {
            versions: Versions::here(),
            origin: self.origin.clone(),
            share: self.share.clone(),
            began_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
            replay,
        };
        let messages = iter::once(Message::Kept(kept)).chain(results(collected, samples_bytes));
        self.files.keep_results(self.origin.run, messages)
    }
}

/// The results as messages, in the order in which a controller takes them.
fn results(collected: &Collected, samples_bytes: u64) -> impl Iterator<Item = Message> {
    let number = u32::try_from(collected.shards.len()).expect("shards are few");
    let head = Box::new(collected.head.clone());
    let shards = collected.shards.iter().map(|shard| Message::Shard(ShardState::new(shard)));
    shards.chain([Message::Report(Results { head, shards: number, samples_bytes })])
}

/// How much of the load a share is, in percent.
fn percent(share: &Share) -> String {
    let percent = format!("{:.2}", share.fraction() * 100.0);
    percent.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Why its shards didn't start.
fn not_started(error: &RunError) -> Refusal {
    Refusal::Run(error.to_string())
}

/// Targets as one text.
fn names(targets: &[AllowedTarget]) -> String {
    targets.iter().map(ToString::to_string).collect::<Vec<String>>().join(", ")
}
