//! Clients take turns on a target, so that a drift of the machine affects all of them.
//!
//! Runs of the same round are compared: the ratio's median and spread are those of the pairs.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::bench::Bench;
use crate::peers::{Answered, Load, Peer};
use crate::process::Stderr;
use crate::servers::NullTarget;
use crate::summary::{Spread, or_dash, show};

/// Rounds of the peers that are included for orientation only.
const ROUNDS_BRIEF: usize = 2;

/// The destination of the load.
pub(crate) enum Target<'a> {
    /// A null target, a new one for each run, with room for these connections.
    Null { conns: usize, tls: bool },
    /// A server that is already running.
    Url(&'a str),
}

/// One run of one client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) requests_per_second: f64,
    pub(crate) cpu_us_per_request: f64,
    /// The part of it in user space.
    pub(crate) user_us_per_request: f64,
    /// The null target's CPU time per request.
    pub(crate) target_us_per_request: Option<f64>,
    /// Seconds that the program ran beyond its window.
    pub(crate) beyond_s: f64,
}

/// The runs of one client.
pub(crate) struct Runs {
    /// The client's name.
    pub(crate) name: &'static str,
    /// One for each round in which it took part.
    pub(crate) figures: Vec<Figures>,
    /// Why it has no figure in later rounds.
    pub(crate) problem: Option<String>,
}

/// The load of a contest; its URL is the target's.
pub(crate) struct Contest<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) peers: &'a [&'static Peer],
    pub(crate) target: Target<'a>,
    pub(crate) load: Load<'a>,
    pub(crate) rounds: usize,
}

/// The name of the first client of every contest.
const TRUETAIL: &str = "truetail";

impl Contest<'_> {
    /// Runs the contest; truetail's runs come first, then the peers' in their order.
    pub(crate) fn hold(&self) -> Result<Vec<Runs>> {
        let clients: Vec<Option<&Peer>> =
            std::iter::once(None).chain(self.peers.iter().copied().map(Some)).collect();
        let name = |client: &Option<&Peer>| client.map_or(TRUETAIL, |peer| peer.name);
        let runs = |client| Runs { name: name(client), figures: Vec::new(), problem: None };
        let mut all: Vec<Runs> = clients.iter().map(runs).collect();
        for round in 0..self.rounds {
            let mut order: Vec<usize> = (0..clients.len()).collect();
            // Every other round runs backwards, so that no client always follows the same one.
            if round % 2 == 1 {
                order.reverse();
            }
            for at in order {
                let (client, runs) = (clients[at], &mut all[at]);
                let is_out = ROUNDS_BRIEF <= round && client.is_some_and(|peer| peer.is_brief);
                if runs.problem.is_some() || is_out {
                    continue;
                }
                match self.run(client)? {
                    Ok(figures) => runs.figures.push(figures),
                    Err(problem) => runs.problem = Some(problem.to_string()),
                }
            }
        }
        Ok(all)
    }

    /// One run of a client. The inner error is the client's, the outer one the target's.
    fn run(&self, client: Option<&Peer>) -> Result<Result<Figures>> {
        match &self.target {
            Target::Url(url) => {
                Ok(self.run_on(client, url).map(|answered| self.figures(&answered)))
            }
            Target::Null { conns, tls } => {
                let target = NullTarget::start(self.bench, *conns, *tls)?;
                let answered = self.run_on(client, &target.url);
                let cost = target.stop()?;
                Ok(answered.and_then(|answered| {
                    ensure!(
                        answered.requests <= cost.requests,
                        "it counts {} requests, the target {}",
                        answered.requests,
                        cost.requests
                    );
                    let target_us_per_request = Some(cost.cpu_us / cost.requests);
                    Ok(Figures { target_us_per_request, ..self.figures(&answered) })
                }))
            }
        }
    }

    fn run_on(&self, client: Option<&Peer>, url: &str) -> Result<Answered> {
        let load = Load { url, ..self.load };
        let answered = match client {
            Some(peer) => peer.run(self.bench, &load)?,
            None => run_truetail(self.bench, &load)?,
        };
        let (requests, conns) = (answered.requests, load.conns);
        ensure!(
            conns as f64 <= requests,
            "{requests} requests are too few for {conns} connections"
        );
        Ok(answered)
    }

    fn figures(&self, answered: &Answered) -> Figures {
        let Answered { requests, requests_per_second, finished } = answered;
        Figures {
            requests_per_second: *requests_per_second,
            cpu_us_per_request: finished.cpu_us / requests,
            user_us_per_request: finished.user_us / requests,
            target_us_per_request: None,
            beyond_s: finished.wall.as_secs_f64() - self.load.seconds as f64,
        }
    }
}

fn run_truetail(bench: &Bench, load: &Load) -> Result<Answered> {
    let depth = load.depth.to_string();
    let mut more = Vec::new();
    if load.http2 {
        more.extend(["--http", "2", "--streams", &depth]);
    } else if 1 < load.depth {
        more.extend(["--pipeline", &depth]);
    }
    if load.url.starts_with("https:") {
        // The peers accept any certificate.
        more.push("--insecure");
    }
    let length = Duration::from_secs(load.seconds);
    let (report, finished) = bench.run_closed(load.url, load.conns, &more, length, Stderr::File)?;
    Ok(Answered {
        requests: report.whole.counts.answered as f64,
        requests_per_second: report.whole.rate.answered,
        finished,
    })
}

impl Runs {
    /// The spread of a figure, if there are any.
    pub(crate) fn spread(&self, figure: fn(&Figures) -> f64) -> Option<Spread> {
        Spread::of(self.figures.iter().map(figure))
    }

    /// The spread, over the rounds, of this client's figure as a multiple of the other's.
    pub(crate) fn ratio(&self, other: &Runs, figure: fn(&Figures) -> f64) -> Option<Spread> {
        let pairs = self.figures.iter().zip(&other.figures);
        Spread::of(pairs.map(|(ours, theirs)| figure(ours) / figure(theirs)))
    }

    /// The median of a figure, or a dash.
    pub(crate) fn median(&self, figure: fn(&Figures) -> f64, digits: usize) -> String {
        or_dash(self.spread(figure).map(|spread| show(spread.median, digits)))
    }
}

/// A row of one figure: truetail's with its spread, then for each peer its median and truetail's
/// figure as a multiple of it.
pub(crate) fn cells(all: &[Runs], figure: fn(&Figures) -> f64, digits: usize) -> Vec<String> {
    let Some((ours, theirs)) = all.split_first() else { return Vec::new() };
    let cell = |runs: &Runs| {
        let ratio = ours.ratio(runs, figure).map(|ratio| format!("; {}", ratio.show(2)));
        runs.median(figure, digits) + &ratio.unwrap_or_default()
    };
    let first = or_dash(ours.spread(figure).map(|spread| spread.show(digits)));
    std::iter::once(first).chain(theirs.iter().map(cell)).collect()
}

/// Prints the reasons for dashes.
pub(crate) fn print_problems(what: &str, all: &[Runs]) {
    for runs in all {
        if let Some(problem) = &runs.problem {
            println!("No figure of {}, {what}: {problem}\n", runs.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(cpu: &[f64]) -> Runs {
        let figures = |&cpu_us_per_request| Figures { cpu_us_per_request, ..Figures::default() };
        Runs { name: "client", figures: cpu.iter().map(figures).collect(), problem: None }
    }

    #[test]
    fn ratios_are_those_of_the_rounds() {
        let all = [runs(&[1.0, 4.0, 9.0]), runs(&[2.0, 4.0, 10.0]), runs(&[5.0]), runs(&[])];
        assert_eq!(
            cells(&all, |figures| figures.cpu_us_per_request, 1),
            ["4.0 (1.0–9.0)", "4.0; 0.90 (0.50–1.00)", "5.0; 0.20 (0.20–0.20)", "–"]
        );
    }
}
