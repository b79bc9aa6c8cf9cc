//! The table of the verdict's rules. Each row has its reason's code, origin, effect, topics, unit
//! and thresholds, the meaning, the cure, and its checks.
//!
//! A new reason takes a variant of `Code`, a row here, and the check that the row names. Tests
//! compare the rows with the codes, and the table of reasons in the user documentation with the
//! rows.

use super::rule::{Effect, Follows, More, NO_MORE, Of, Rule};
use super::{agents, calibration, client, connections, generator, load, machine, numbers};
use crate::verdict::Topic::{Arrivals, Latency, Samples, Throughput};
use crate::verdict::{Code, Origin, Unit};

/// The rules, in the order in which reasons of one level, and notes, are listed.
pub static RULES: &[Rule] = &[
    Rule {
        code: Code::AgentLost,
        looks_at: "agents that were lost, with their share of the load",
        limit: "any is invalid",
        of: Of::Whole,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Throughput, Latency, Arrivals],
        unit: Unit::Share,
        meaning: "the target saw less load from about then on, and no number holds what a lost \
                  agent sent and measured; nothing is scaled up for it",
        cure: "see why the agent or its connection ended, and run again; what it measured may be \
               in its --state-dir, for --resume with all agents",
        checks: &[agents::agent_lost],
        more: NO_MORE,
    },
    Rule {
        code: Code::NothingSent,
        looks_at: "requests of the window that were sent",
        limit: "none is invalid",
        of: Of::Both,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Throughput, Latency, Arrivals],
        unit: Unit::Count,
        meaning: "the run shows nothing about the target",
        cure: "see the errors by cause and the other reasons for what prevented them",
        checks: &[load::nothing_sent],
        more: More { follows: Follows::Notes, ..NO_MORE },
    },
    Rule {
        code: Code::RateMissed,
        looks_at: "requests not sent in the window (in a closed loop: never sent; in a paced one \
                   also those sent after its end); offered rate against the plan's",
        limit: "not sent: 0.1 % is invalid; sent after the end: 2 %; rate: 2 %, or what chance \
                explains if that is more, is invalid",
        of: Of::Both,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Throughput, Latency, Arrivals],
        unit: Unit::Share,
        meaning: "the target saw less load than planned: these latencies belong to a lower rate",
        cure: "see the other reasons for what delayed the sends; lower --rate, raise --conns, or \
               add --cores",
        checks: &[load::not_sent, load::behind_their_pace, load::off_the_rate],
        more: More { thresholds: &["unsent"], follows: Follows::Notes, ..NO_MORE },
    },
    Rule {
        code: Code::GeneratorLate,
        looks_at: "time for which a shard stalled, or didn't observe the window",
        limit: "1 %; 10 % is invalid",
        of: Of::Agent,
        origin: Origin::ShortOfTime,
        effect: Effect::Always,
        touches: &[Throughput, Latency],
        unit: Unit::Share,
        meaning: "during a stall responses were seen late and nothing was sent: latency and \
                  throughput include the generator's own stalls",
        cure: OWN_CORES,
        checks: &[generator::stopped, generator::unobserved],
        more: More {
            follows: Follows::NotesAnd(Code::CpuStolen),
            excuse: Some("the generator was late"),
            plain: Some("the generator stalled for {figure} of the time (limit {limit})"),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::ReceiveLate,
        looks_at: "if over 1 % of the responses have the program's stamp: receive lateness of the \
                   others against naive latency, at p50 and p99",
        limit: "5 %",
        of: Of::Agent,
        origin: Origin::Generator,
        effect: Effect::Always,
        touches: &[Latency],
        unit: Unit::Share,
        meaning: "latencies contain the time that responses waited for the generator",
        cure: "use --stamps kernel",
        checks: &[client::receive_late],
        more: More {
            thresholds: &["client_share"],
            follows: Follows::Notes,
            plain: Some("{figure} of the latency was a wait for the generator (limit {limit})"),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::ClientShare,
        looks_at: "what the generator added to the requests at corrected p50, p90, p99 and p99.9: \
                   lateness before the send, and opening connections that a warm pool would have \
                   had; the share of time in flight that responses waited for the generator while \
                   requests waited for their connection, in a paced loop, or at `--conns` if it is \
                   over half; the program's stamps, which hide all of this",
        limit: "5 % of the percentile, above p50 also 20 µs; below half of the percentile also its \
                distance from the lower end of its 95 % interval by ranks, which is chance; half \
                of p50, p90 or p99 is invalid; program's stamps: half of the responses",
        of: Of::AgentFirst,
        origin: Origin::Generator,
        effect: Effect::Always,
        touches: &[Latency],
        unit: Unit::Share,
        meaning: "corrected latency at these percentiles contains the generator's own delay; at \
                  the others that is little",
        cure: "give the generator cores of its own, or more of them (--cores), use --wait hybrid or \
               spin, or a smaller --flush",
        checks: &[client::added, client::held_connections, client::unstamped],
        more: More {
            thresholds: &["lateness_floor_us", "client_share"],
            follows: Follows::Notes,
            ..NO_MORE
        },
    },
    Rule {
        code: Code::ClockStepped,
        looks_at: "how often the wall clock, which the kernel's stamps follow, was set during the \
                   run",
        limit: "never",
        of: Of::Agent,
        origin: Origin::Generator,
        effect: Effect::Always,
        touches: &[Latency],
        unit: Unit::Count,
        meaning: "for a second after each step, latencies contain the time that responses waited \
                  for the generator",
        cure: "stop what sets the clock (a time service that steps instead of slewing)",
        checks: &[client::clock_stepped],
        more: NO_MORE,
    },
    Rule {
        code: Code::StampsClamped,
        looks_at: "responses whose stamp lies before their request was sent, or after they were \
                   handled",
        limit: "1 %",
        of: Of::Agent,
        origin: Origin::Generator,
        effect: Effect::Always,
        touches: &[Latency],
        unit: Unit::Share,
        meaning: "the clock of the stamps and the program's differ by an unknown amount, and so \
                  do the latencies from the truth",
        cure: "see whether the cores' clocks agree (dmesg about tsc, the clocksource in \
               /sys/devices/system/clocksource), or use --stamps user",
        checks: &[client::stamps_clamped],
        more: More {
            plain: Some(
                "{figure} of the responses have stamps that can't be right (limit {limit})",
            ),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::CoreSaturated,
        looks_at: "busy share of a shard, without polling; a note, unless it held down the \
                   throughput of a closed loop (beyond the limit of `generator_bound`) or its \
                   effect isn't measured: with the program's stamps, or responses above 64 KiB \
                   that arrive as fast as they are read",
        limit: "95 %; 60 % if an open load falls behind and would need over 95 % for its planned \
                rate, not counting arrivals that waited because the target kept all \
                connections busy",
        of: Of::Agent,
        origin: Origin::ShortOfTime,
        effect: Effect::Where(generator::has_effect),
        touches: &[Throughput, Latency],
        unit: Unit::Share,
        meaning: "the run measured its own generator: the target may be faster than these numbers",
        cure: "add --cores, or lower the load",
        checks: &[generator::core_saturated],
        more: More {
            thresholds: &["unsent", "busy"],
            follows: Follows::Notes,
            excuse: Some("the generator's core was full"),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::NearCeiling,
        looks_at: "with a calibration of this machine: requests sent per second against its \
                   capacity, without `--pipeline`, if a core was over 70 % busy; a note, unless \
                   its effect isn't measured",
        limit: "80 %",
        of: Of::Whole,
        origin: Origin::Generator,
        effect: Effect::Where(client::is_unmeasured),
        touches: &[Latency],
        unit: Unit::Share,
        meaning: "the generator had little room left: latencies contain waits for its own core",
        cure: "add --cores, or lower the load; calibrate again if the machine has changed",
        checks: &[calibration::near_ceiling],
        more: NO_MORE,
    },
    Rule {
        code: Code::BelowFloor,
        looks_at: "with a calibration: the latency of a target that costs nothing, against \
                   corrected p50",
        limit: "80 %",
        of: Of::Whole,
        origin: Origin::Generator,
        effect: Effect::Always,
        touches: &[Latency],
        unit: Unit::Share,
        meaning: "the median is mostly that of the path and the generator, and shows little about \
                  the target",
        cure: "take what exceeds the floor for the target's part, or measure a request that costs \
               the target more",
        checks: &[calibration::below_floor],
        more: More {
            plain: Some(
                "{figure} of the median is the generator and the path themselves (limit {limit})",
            ),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::GeneratorBound,
        looks_at: "in a closed loop without `--period`: the share of their time that users waited \
                   for the generator, from a response's arrival until their next request was sent",
        limit: "10 %; for throughput only",
        of: Of::Agent,
        origin: Origin::Generator,
        effect: Effect::Always,
        touches: &[Throughput],
        unit: Unit::Share,
        meaning: "without these waits the target would have answered more",
        cure: OWN_CORES,
        checks: &[generator::generator_bound],
        more: More {
            follows: Follows::NotesAnd(Code::CpuStolen),
            plain: Some("users waited for the generator {figure} of their time (limit {limit})"),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::CapReached,
        looks_at: "arrivals that waited because `--conns` were busy, unless responses waited for \
                   the generator most of that time",
        limit: "0.1 %",
        of: Of::Both,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Latency, Arrivals],
        unit: Unit::Share,
        meaning: "naive latency omits that wait; corrected latency includes it, and it depends on \
                  the cap",
        cure: "raise --conns, unless the cap is what you want to measure",
        checks: &[load::cap_reached],
        more: More {
            needs_answers: true,
            plain: Some(
                "{figure} of the requests waited because all connections were busy (limit {limit})",
            ),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::Starved,
        looks_at: "connections that waited for at least half of the window, in all, for answers \
                   that didn't come, in an open loop only if requests got no answer as well; not \
                   if a few routes went unanswered while the others were answered on the same \
                   connections",
        limit: "1 %; 10 % is invalid, unless all responses are slow",
        of: Of::Both,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Throughput, Latency],
        unit: Unit::Share,
        meaning: "their waits ended in no answer, or in one that came after the window or to a \
                  request from before it: the percentiles hold little of that time",
        cure: "see why the target serves some connections and not others: its limit of \
               connections, its workers, its accept queue",
        checks: &[connections::starved],
        more: More {
            plain: Some(
                "{figure} of the connections were blocked for half of the window or more \
                 (limit {limit})",
            ),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::ClosedLoop,
        looks_at: "in a closed loop without `--period`: requests not sent while its users waited",
        limit: "always, for latency only",
        of: Of::Whole,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Latency],
        unit: Unit::Count,
        meaning: "had the target stalled, these latencies would leave out the requests that met \
                  it (coordinated omission); the throughput holds for this number of connections",
        cure: "measure latency with --rate; add --period if your users do wait for a response",
        checks: &[numbers::closed_loop],
        more: More {
            plain: Some(
                "users wait for a response before the next request, which hides what a stall delays",
            ),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::NotSettled,
        looks_at: "a setup that ended before the pool of connections had settled",
        limit: "any",
        of: Of::Both,
        origin: Origin::Elsewhere,
        // The cost of opening connections in the window is part of what the generator added.
        effect: Effect::Never,
        touches: &[Latency],
        unit: Unit::Share,
        meaning: "the window began before the load had found its number of connections",
        cure: client::OPEN_AHEAD,
        checks: &[connections::not_settled],
        more: More {
            plain: Some("the pool of connections was still growing when the measurement began"),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::PoolGrew,
        looks_at: "connections added during the window, as a share of requests",
        limit: "0.1 %, and at least one per shard",
        of: Of::Both,
        origin: Origin::Elsewhere,
        effect: Effect::Never,
        touches: &[Latency],
        unit: Unit::Share,
        meaning: "each was opened because a request was waiting for one, as they do where the \
                  target or the generator stalls, or where the setup found too few",
        cure: "see whether the target or the generator stalled; if neither did, open connections \
               in advance with --prewarm, or leave some idle with --spare",
        checks: &[connections::pool_grew],
        more: NO_MORE,
    },
    Rule {
        code: Code::Unsolicited,
        looks_at: "bytes that no request asked for, bytes after a response, responses before their \
                   request",
        limit: "any; invalid if bytes follow 1 % of the responses, or with `--pipeline`, where only \
                their order pairs them, 0.1 %",
        of: Of::Both,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Throughput, Latency],
        unit: Unit::Count,
        meaning: "responses can't be told apart for certain: some may have been counted for a \
                  request that they don't answer",
        cure: "see what the target, or a proxy before it, sends without being asked",
        checks: &[connections::unsolicited],
        more: NO_MORE,
    },
    Rule {
        code: Code::Mispaired,
        looks_at: "with `--pipeline`: answers on a connection that ended in a timeout or with a \
                   surplus response, counted since it was last idle",
        limit: "0.1 %; half of them is invalid",
        of: Of::Both,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Latency],
        unit: Unit::Share,
        meaning: "a response that the target leaves out, or sends twice, shifts all that follow \
                  it on its connection: these answers may have the latency of another request",
        cure: "repeat the run without --pipeline, where a missing response is a timeout and \
               nothing else",
        checks: &[connections::mispaired],
        more: More {
            plain: Some(
                "{figure} of the pipelined answers may be for another request (limit {limit})",
            ),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::Requeued,
        looks_at: "with HTTP/2: how often a request had to go to another stream, since the target \
                   ended its connection before it processed it, or refused its stream",
        limit: "10 %",
        of: Of::Whole,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Latency],
        unit: Unit::Share,
        meaning: "the target takes few requests on a connection, and latencies contain the time \
                  until another one carried the rest",
        cure: "raise the target's requests per connection (nginx: keepalive_requests) or its \
               limit of streams, or use fewer --streams",
        checks: &[connections::requeued],
        more: More {
            plain: Some("resends on another stream were {figure} of the requests (limit {limit})"),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::BuffersExhausted,
        looks_at: "receives per response that found no free buffer when none could be added; a \
                   note, unless its effect isn't measured",
        limit: "0.1 %",
        of: Of::Agent,
        origin: Origin::Generator,
        // Responses are stamped before they need a buffer.
        effect: Effect::Where(client::is_unmeasured),
        touches: &[Throughput, Latency],
        unit: Unit::Ratio,
        meaning: "responses waited in the kernel for the generator to take them",
        cure: "add --cores, since each shard has buffers of its own, or lower the load",
        checks: &[connections::buffers_exhausted],
        more: NO_MORE,
    },
    Rule {
        code: Code::MixNotAsPlanned,
        looks_at: "with several routes: the requests of each against its weight, by χ²",
        limit: "p below 10⁻⁶ is invalid: one honest run in a million has that",
        of: Of::Whole,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Throughput, Latency, Arrivals],
        unit: Unit::Share,
        meaning: "the target saw another mix of requests than planned, and the figures of the \
                  whole run are of that mix",
        cure: "this is a bug in truetail: keep the report and file an issue",
        checks: &[load::mix_not_as_planned],
        more: NO_MORE,
    },
    Rule {
        code: Code::ScheduleNotAsPlanned,
        looks_at: "dispersion of the sends, in windows of 1, 10 and 100 ms, against that of the \
                   same requests as they were due; requests sent against intended",
        limit: "5 % of a Poisson process's dispersion, beyond what 20 µs of lateness explain; 0.1 \
                % of the requests",
        of: Of::Both,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Latency, Arrivals],
        unit: Unit::Count,
        meaning: "the target saw a different arrival pattern than planned, with different bursts",
        cure: "lower the rate per core, or use --wait spin",
        checks: &[load::schedule_not_as_planned],
        more: More {
            thresholds: &["unsent", "lateness_floor_us"],
            follows: Follows::NotesAnd(Code::CpuStolen),
            needs_answers: true,
            plain: Some("requests left in bursts that were not planned"),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::LittlesLaw,
        looks_at: "requests in flight, integrated over the window, against throughput times \
                   latency",
        limit: "1 % is invalid",
        of: Of::Both,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Throughput, Latency],
        unit: Unit::Share,
        meaning: "requests were lost or counted twice, or were sent and handled at other times \
                  than recorded",
        cure: "this is a bug in truetail: keep the report and file an issue",
        checks: &[numbers::littles_law],
        more: More {
            plain: Some("in flight isn't throughput times latency: {figure} off (limit {limit})"),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::NotStationary,
        looks_at: "first against last quarter of the window, or of each stage of one rate, unless \
                   both recur within the window, as with periodic stalls: the share of latencies \
                   that moved by more than 5 %, and p99",
        limit: "moved: 10 % beyond chance; p99: 1.5 times",
        of: Of::Whole,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Throughput, Latency],
        unit: Unit::KsDistance,
        meaning: "percentiles over the whole window mix two states and describe neither",
        cure: "use a longer --warmup, or find what changed in the series (--csv)",
        checks: &[numbers::not_stationary],
        more: More {
            thresholds: &["drift"],
            needs_answers: true,
            plain: Some("latency changed between the first quarter of the run and the last"),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::TooFewSamples,
        looks_at: "samples for p99",
        limit: "563",
        of: Of::Whole,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Latency],
        unit: Unit::Count,
        meaning: "percentiles marked n/a are unknown",
        cure: "use a longer --duration or a higher --rate",
        checks: &[numbers::too_few_samples],
        more: More { thresholds: &["percentile"], ..NO_MORE },
    },
    Rule {
        code: Code::LocalResource,
        looks_at: "connections that failed for lack of ports, files or memory on this machine",
        limit: "any; 0.1 % of the requests is invalid",
        of: Of::Agent,
        origin: Origin::Generator,
        effect: Effect::Always,
        touches: &[Throughput, Latency],
        unit: Unit::Count,
        meaning: "the generator's machine hit a limit, not the target",
        cure: "raise that limit, or spread the load",
        checks: &[machine::local_resource],
        more: NO_MORE,
    },
    Rule {
        code: Code::CpuStolen,
        looks_at: "time that the hypervisor took from the shards' cores",
        limit: "1 %; 10 % is invalid",
        of: Of::Agent,
        origin: Origin::Others,
        // The kernel's stamps come as late as the generator does.
        effect: Effect::Always,
        touches: &[Throughput, Latency, Arrivals],
        unit: Unit::Share,
        meaning: NO_CORE,
        cure: "use a dedicated machine, or one whose processors aren't shared",
        checks: &[machine::cpu_stolen],
        more: More {
            thresholds: &["stolen"],
            excuse: Some("the hypervisor took the generator's cores"),
            plain: Some("the hypervisor took {figure} of the cores' time (limit {limit})"),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::CpuContended,
        looks_at: "time that a shard waited for its core beyond what throttling explains, with the \
                   processes that used it",
        limit: "1 %",
        of: Of::Agent,
        origin: Origin::Others,
        effect: Effect::Never,
        touches: &[Throughput, Latency, Arrivals],
        unit: Unit::Share,
        meaning: NO_CORE,
        cure: "keep other processes, including a local target, off the generator's cores (--cores)",
        checks: &[machine::cpu_contended],
        more: More {
            thresholds: &["stolen"],
            excuse: Some("other processes used the generator's cores"),
            plain: Some(
                "other processes had the generator's core {figure} of the time (limit {limit})",
            ),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::CoreShared,
        looks_at: "busy share of a hardware sibling of a shard's core, even if another shard runs \
                   there; share of its time that a shard's core spends on interrupts, if it serves \
                   the interface",
        limit: "sibling: 10 %; interrupts: 1 %",
        of: Of::Agent,
        origin: Origin::Others,
        effect: Effect::Never,
        touches: &[Throughput, Latency],
        unit: Unit::Share,
        meaning: "two hardware threads of one physical core slow each other down: the shard took \
                  longer to send and to receive",
        cure: "name one hardware thread per physical core with --cores, and keep other processes, \
               including a local target, off its siblings",
        checks: &[machine::busy_sibling, machine::interrupted_core],
        more: More { thresholds: &["stolen"], ..NO_MORE },
    },
    Rule {
        code: Code::CpuThrottled,
        looks_at: "time held back by the quota of the control group or of a group above it",
        limit: "0.1 %",
        of: Of::Agent,
        origin: Origin::Others,
        effect: Effect::Never,
        touches: &[Throughput, Latency, Arrivals],
        unit: Unit::Share,
        meaning: "the generator stopped whenever it had used up its CPU quota",
        cure: "raise the container's CPU quota, or run without one",
        checks: &[machine::cpu_throttled],
        more: More {
            excuse: Some("a quota held the generator back"),
            plain: Some("the CPU quota stopped the generator {figure} of the time (limit {limit})"),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::RawSamplesLost,
        looks_at: "missing raw samples",
        limit: "any",
        of: Of::Agent,
        origin: Origin::Generator,
        effect: Effect::Always,
        touches: &[Samples],
        unit: Unit::Count,
        meaning: "the report is complete, but the samples aren't and can't verify it",
        cure: "write --raw to a faster disk, or lower the load",
        checks: &[numbers::raw_samples_lost],
        more: NO_MORE,
    },
    Rule {
        code: Code::Profiled,
        looks_at: "a run with `--flamegraph`, whose samples cost CPU",
        limit: "always",
        of: Of::Whole,
        origin: Origin::Generator,
        effect: Effect::Always,
        touches: &[Throughput, Latency],
        unit: Unit::Count,
        meaning: "each sample stops a thread for microseconds: requests cost more, and some are \
                  late",
        cure: "take the numbers from a run without --flamegraph, the profile from this one",
        checks: &[numbers::profiled],
        more: NO_MORE,
    },
    Rule {
        code: Code::Interrupted,
        looks_at: "a run that ended early",
        limit: "always",
        of: Of::Whole,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Throughput, Latency],
        unit: Unit::S,
        meaning: "the numbers cover only the part that ran",
        cure: "let the run finish",
        checks: &[numbers::interrupted],
        more: NO_MORE,
    },
    Rule {
        code: Code::Errors,
        looks_at: "requests without a good answer",
        limit: "1 %; 50 % is invalid",
        of: Of::Both,
        origin: Origin::Answers,
        effect: Effect::Always,
        touches: &[Throughput, Latency],
        unit: Unit::Share,
        meaning: "failed requests have no latency: the percentiles cover only the others",
        cure: "look at the errors by cause; list the statuses you expect with --expect-status",
        checks: &[numbers::errors],
        more: More {
            thresholds: &["errors"],
            plain: Some("{figure} of the requests had no good answer (limit {limit})"),
            ..NO_MORE
        },
    },
    Rule {
        code: Code::AgentsDiffer,
        looks_at: "corrected p99 of each agent against the lowest of them",
        limit: "1.2 times, unless their confidence intervals overlap (at 5 % divided by the number \
                of agents; those of p90 or p50 if p99 has none)",
        of: Of::Whole,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Latency],
        unit: Unit::Ratio,
        meaning: "the agents saw different targets, or a difference of their own: the merged \
                  percentiles are those of all requests, and describe neither",
        cure: "compare the agents' paths to the target, their machines and their verdicts",
        checks: &[agents::agents_differ],
        more: NO_MORE,
    },
    Rule {
        code: Code::StartSkew,
        looks_at: "how late an agent's first request was, plus how far its clock may have been off \
                   from the controller's",
        limit: "125 ms together",
        of: Of::Whole,
        origin: Origin::Elsewhere,
        effect: Effect::Always,
        touches: &[Arrivals],
        unit: Unit::Us,
        meaning: "the agents' loads lay apart in time: the run over time puts together what \
                  wasn't at the same time",
        cure: "see the agent's verdict if it sent late; bring the controller closer to its agents \
               if their clocks are the cause",
        checks: &[agents::start_skew],
        more: NO_MORE,
    },
];

const OWN_CORES: &str =
    "give the generator cores of its own (--cores), use --wait spin, or stop what else runs there";
const NO_CORE: &str = "the generator could not run while others did: it sent and received late";

impl Code {
    /// The row of this code.
    pub fn rule(self) -> &'static Rule {
        RULES.iter().find(|rule| rule.code == self).expect("each code has a row")
    }

    /// True if the generator or its machine caused it.
    pub fn is_of_generator(self) -> bool {
        match self.rule().origin {
            Origin::Others | Origin::ShortOfTime | Origin::Generator => true,
            Origin::Answers | Origin::Elsewhere => false,
        }
    }

    /// True if CPU time was missing, which the same plan may have on a quiet machine.
    pub fn is_disturbance(self) -> bool {
        matches!(self.rule().origin, Origin::Others | Origin::ShortOfTime)
    }
}

/// The reasons that a threshold of the plan decides.
pub fn decided_by(threshold: &str) -> Vec<Code> {
    let those = RULES.iter().filter(|rule| rule.more.thresholds.contains(&threshold));
    those.map(|rule| rule.code).collect()
}
