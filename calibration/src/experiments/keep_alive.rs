//! The experiment on keep-alive: connections that are kept against one for each request, in rate,
//! latency, CPU time and ports, plain and over TLS; ports between two network namespaces.

use engine::record::outcome::Cause;
use engine::report::{Report, TlsPart};
use serde::Serialize;

use crate::floor::CpuPerRequest;
use crate::lab::latencies::percentiles;
use crate::lab::network::Network;
use crate::lab::plot::{LATENCY, Line, by_percentile};
use crate::lab::{Extra, Lab, LabError, Measured, Plot};

/// How far the number of connections may be from that of the ports, as a share: the kernel looks at
/// a few ports only before it gives up on a nearly full range.
const OFF: f64 = 0.02;

/// The most connections of which no latency is stated.
const FEW: u64 = 100;

#[derive(Debug, Serialize)]
struct Figures {
    kept: Kind,
    close_header: Kind,
    one_request: Kind,
    at_most: AtMost,
    remote: Remote,
    tls: Tls,
}

/// What one way of using connections costs at a given rate.
#[derive(Debug, Serialize)]
struct Kind {
    sent_per_s: f64,
    answered: u64,
    connects: u64,
    connects_per_request: f64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    connect_p50_us: Option<f64>,
    connect_p99_us: Option<f64>,
    cpu_us: f64,
    /// The part of CPU time and of the median latency that isn't there with keep-alive, percent.
    setup_cpu_percent: Option<f64>,
    setup_latency_percent: Option<f64>,
    ports_in_use: Option<u64>,
    time_wait: Option<u64>,
}

/// Closed loops as fast as responses come.
#[derive(Debug, Serialize)]
struct AtMost {
    conns: usize,
    on_per_s: f64,
    off_per_s: f64,
    off_of_on_percent: f64,
    on_cpu_us: f64,
    off_cpu_us: f64,
    setup_cpu_percent: Option<f64>,
}

/// The same over TLS, where a connection of its own takes a TLS handshake too.
#[derive(Debug, Serialize)]
struct Tls {
    version: String,
    cipher: String,
    kept: OverTls,
    full: OverTls,
    resumed: OverTls,
    full_at_most: AtMost,
    resumed_at_most: AtMost,
}

/// What one way of using connections over TLS costs at a given rate.
#[derive(Debug, Serialize)]
struct OverTls {
    #[serde(flatten)]
    kind: Kind,
    handshake_p50_us: Option<f64>,
    handshake_p99_us: Option<f64>,
    resumed_percent: Option<f64>,
}

/// Between two network namespaces; `None` where they can't be made.
#[derive(Debug, Serialize)]
struct Remote {
    /// Why it wasn't measured.
    not_measured: Option<String>,
    tcp_tw_reuse: Option<f64>,
    ports: f64,
    /// The rate that so many ports bear for good.
    sustained_per_s: f64,
    runs_out_s: f64,
    connected_min: f64,
    connected_max: f64,
    kept: Ports,
    close_header: Ports,
    one_request: Ports,
}

/// What a run took of the client's ports.
#[derive(Debug, Default, Serialize)]
struct Ports {
    due: Option<u64>,
    connected: Option<u64>,
    without_a_port: Option<u64>,
    time_wait_client: Option<u64>,
    time_wait_server: Option<u64>,
    p99_ms: Option<f64>,
}

/// Makes its runs, and computes its figures.
pub(super) fn measure(lab: &mut Lab) -> Result<Measured, LabError> {
    let kept = run(lab, "null", "kept")?;
    let by_header = run(lab, "null", "close-header")?;
    let by_limit = run(lab, "null", "one-request")?;
    let at_most =
        AtMost::of(&run(lab, "null", "kept-at-most")?, &run(lab, "null", "close-header-at-most")?);
    let tls = Tls::measure(lab)?;
    let remote = match Network::new() {
        Ok(network) => remote(lab, &network)?,
        Err(why) => Remote::new(lab, Some(why))?,
    };
    let plots = vec![plot(&kept, &by_header, &by_limit)?];
    let figures = Figures {
        close_header: Kind::of(&by_header, Some(&kept)),
        one_request: Kind::of(&by_limit, Some(&kept)),
        kept: Kind::of(&kept, None),
        at_most,
        remote,
        tls,
    };
    Ok(Measured::new(&figures, plots))
}

/// A run before a target of its own, so that none finds the ports that another left in TIME_WAIT.
fn run(lab: &mut Lab, target: &str, name: &str) -> Result<Report, LabError> {
    let target = lab.target(target)?;
    let report = lab.run(name, &target.url, &Extra::default())?;
    target.stop()?;
    Ok(report)
}

/// Latencies of each way of using connections, at one rate.
fn plot(kept: &Report, by_header: &Report, by_limit: &Report) -> Result<Plot, LabError> {
    let line = |name, dashed, report: &Report| {
        let points = percentiles(&report.whole.corrected)?;
        Ok::<Line, LabError>(Line { name, points, dashed })
    };
    let of_lines = [
        line("kept", false, kept)?,
        line("one a request, by header", true, by_header)?,
        line("one a request, closed by the client", false, by_limit)?,
    ];
    let title = "connections that are kept, and one for each request";
    by_percentile("connections.svg", title, LATENCY, &of_lines)
}

impl Kind {
    /// Of a run, with what it costs beyond that of another.
    fn of(report: &Report, kept: Option<&Report>) -> Kind {
        let whole = &report.whole;
        let counts = &whole.counts;
        let cpu_us = CpuPerRequest::new(report).total_us();
        let p50_us = whole.corrected.quantile_us(0.5);
        let ports = report.generator.ports();
        // The few connections that a pool opens late say nothing of what connecting takes.
        let connect_time = Some(&whole.connect_time).filter(|_| FEW < counts.connects_in_window);
        Kind {
            sent_per_s: whole.rate.sent,
            answered: counts.answered,
            connects: counts.connects_in_window,
            connects_per_request: counts.connects_in_window as f64 / counts.sent.max(1) as f64,
            p50_us,
            p99_us: whole.corrected.quantile_us(0.99),
            connect_p50_us: connect_time.and_then(|time| time.quantile_us(0.5)),
            connect_p99_us: connect_time.and_then(|time| time.quantile_us(0.99)),
            cpu_us,
            setup_cpu_percent: kept
                .and_then(|kept| beyond_percent(CpuPerRequest::new(kept).total_us(), cpu_us)),
            setup_latency_percent: kept
                .and_then(|kept| beyond_percent(kept.whole.corrected.quantile_us(0.5)?, p50_us?)),
            ports_in_use: ports.map(|ports| ports.in_use_max),
            time_wait: ports.map(|ports| ports.time_wait_max),
        }
    }
}

/// The part of `whole` that isn't in `part`, percent.
fn beyond_percent(part: f64, whole: f64) -> Option<f64> {
    (0.0 < whole).then(|| (1.0 - part / whole) * 100.0)
}

impl AtMost {
    fn of(on: &Report, off: &Report) -> AtMost {
        let (on_per_s, off_per_s) = (on.whole.rate.answered, off.whole.rate.answered);
        let [on_cpu_us, off_cpu_us] = [on, off].map(|one| CpuPerRequest::new(one).total_us());
        AtMost {
            conns: on.config.plan.conns(),
            on_per_s,
            off_per_s,
            off_of_on_percent: 100.0 * off_per_s / on_per_s.max(f64::MIN_POSITIVE),
            on_cpu_us,
            off_cpu_us,
            setup_cpu_percent: beyond_percent(on_cpu_us, off_cpu_us),
        }
    }
}

impl Tls {
    fn measure(lab: &mut Lab) -> Result<Tls, LabError> {
        let kept = run(lab, "null-tls", "tls-kept")?;
        let full = run(lab, "null-tls", "tls-full")?;
        let resumed = run(lab, "null-tls", "tls-resumed")?;
        let kept_at_most = run(lab, "null-tls", "tls-kept-at-most")?;
        let full_at_most = run(lab, "null-tls", "tls-full-at-most")?;
        let resumed_at_most = run(lab, "null-tls", "tls-resumed-at-most")?;
        let part = part(&full)?;
        Ok(Tls {
            version: part.version.clone(),
            cipher: part.cipher.clone(),
            full_at_most: AtMost::of(&kept_at_most, &full_at_most),
            resumed_at_most: AtMost::of(&kept_at_most, &resumed_at_most),
            full: OverTls::of(&full, Some(&kept))?,
            resumed: OverTls::of(&resumed, Some(&kept))?,
            kept: OverTls::of(&kept, None)?,
        })
    }
}

/// What TLS did in a run.
fn part(report: &Report) -> Result<&TlsPart, LabError> {
    let missing = || LabError::figures("a run over TLS says nothing of TLS");
    report.whole.tls.as_ref().ok_or_else(missing)
}

impl OverTls {
    fn of(report: &Report, kept: Option<&Report>) -> Result<OverTls, LabError> {
        let tls = part(report)?;
        let kind = Kind::of(report, kept);
        let time = Some(&tls.handshake_time).filter(|_| FEW < kind.connects);
        let resumed = tls.resumed as f64 / (tls.full + tls.resumed).max(1) as f64;
        Ok(OverTls {
            handshake_p50_us: time.and_then(|time| time.quantile_us(0.5)),
            handshake_p99_us: time.and_then(|time| time.quantile_us(0.99)),
            resumed_percent: (FEW < kind.connects).then_some(100.0 * resumed),
            kind,
        })
    }
}

/// The three kinds between two machines, each before a target of its own: a port is taken only
/// towards the target's port.
fn remote(lab: &mut Lab, network: &Network) -> Result<Remote, LabError> {
    let problem = |why: String| LabError::figures(format!("the network of two machines: {why}"));
    let reuse = network.set_on_client("tcp_tw_reuse", "0").map_err(problem)?;
    let mut remote = Remote::new(lab, None)?;
    remote.tcp_tw_reuse = reuse.parse().ok();
    let listen = Extra::flags([("listen", format!("{}:0", network.server_address()))]);
    let first = lab.setting("port_first")?;
    let range = format!("{first:.0} {:.0}", first + remote.ports - 1.0);
    network.set_on_client("ip_local_port_range", &range).map_err(problem)?;
    let ports = |lab: &mut Lab, name: &str| {
        let here = listen.clone().named(name).at(&network.server());
        let target = lab.target_with("remote", &here)?;
        let before = network.time_wait_on_server().map_err(problem)?;
        let report = lab.run(name, &target.url, &Extra::default().at(&network.client()))?;
        let waiting = network.time_wait_on_server().map_err(problem)?;
        target.stop()?;
        Ok::<Ports, LabError>(Ports::of(&report, waiting.saturating_sub(before)))
    };
    remote.kept = ports(lab, "remote-kept")?;
    remote.close_header = ports(lab, "remote-close-header")?;
    remote.one_request = ports(lab, "remote-one-request")?;
    Ok(remote)
}

impl Remote {
    /// Nothing measured yet, and why nothing will be, if so.
    fn new(lab: &Lab, not_measured: Option<String>) -> Result<Remote, LabError> {
        let ports = lab.setting(if lab.quick() { "ports_quick" } else { "ports" })?;
        let rate = lab.setting("rate")?;
        Ok(Remote {
            not_measured,
            tcp_tw_reuse: None,
            ports,
            sustained_per_s: ports / lab.setting("time_wait_s")?,
            runs_out_s: ports / rate,
            connected_min: ports * (1.0 - OFF),
            connected_max: ports,
            kept: Ports::default(),
            close_header: Ports::default(),
            one_request: Ports::default(),
        })
    }
}

impl Ports {
    fn of(report: &Report, time_wait_server: u64) -> Ports {
        let whole = &report.whole;
        let counts = &whole.counts;
        let ports = report.generator.ports();
        Ports {
            due: Some(counts.intended),
            connected: Some(counts.sent - counts.unconnected),
            without_a_port: Some(counts.errors.of(Cause::NoLocalPort)),
            time_wait_client: ports.map(|ports| ports.time_wait_max),
            time_wait_server: Some(time_wait_server),
            p99_ms: whole.corrected.quantile_us(0.99).map(|us| us / 1e3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_is_a_share_of_the_whole() {
        assert_eq!(beyond_percent(5.0, 20.0), Some(75.0));
        assert_eq!(beyond_percent(20.0, 20.0), Some(0.0));
        assert_eq!(beyond_percent(20.0, 0.0), None);
    }
}
