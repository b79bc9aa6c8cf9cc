//! Parses the output of other load generators.
//!
//! A figure that a program doesn't print stays `None`: none is derived.

use serde::Serialize;

/// A program's own figures of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Printed {
    /// Responses, of any status.
    pub(super) requests: Option<f64>,
    /// The same per second.
    pub(super) per_s: Option<f64>,
    /// The mean latency, ms.
    pub(super) mean_ms: Option<f64>,
    /// The median, ms.
    pub(super) p50_ms: Option<f64>,
    /// The 90th percentile, ms.
    pub(super) p90_ms: Option<f64>,
    /// The 99th percentile, ms.
    pub(super) p99_ms: Option<f64>,
    /// The longest, ms.
    pub(super) max_ms: Option<f64>,
}

/// Parses the output of `wrk --latency`.
pub(super) fn wrk(text: &str) -> Printed {
    let percentile = |percent: f64| share_line(text, percent).and_then(time_ms);
    let latency = words_after(text, "    Latency ");
    Printed {
        requests: line(text, " requests in ").and_then(|found| number(found.trim())),
        per_s: words_after(text, "Requests/sec:").and_then(number),
        mean_ms: latency.and_then(time_ms),
        p50_ms: percentile(50.0),
        p90_ms: percentile(90.0),
        p99_ms: percentile(99.0),
        max_ms: latency.and_then(|words| words.split_whitespace().nth(2)).and_then(time_ms),
    }
}

/// Parses the output of `h2load`. Later versions have more columns, so the line above names them.
pub(super) fn h2load(text: &str) -> Printed {
    let mut lines = text.lines();
    let names = lines.find(|line| {
        let mut words = line.split_whitespace();
        words.any(|word| word == "min") && words.any(|word| word == "max")
    });
    let row = lines.find_map(|line| line.trim_start().strip_prefix("time for request:"));
    let column = |name: &str| {
        let at = names?.split_whitespace().position(|word| word == name)?;
        time_ms(row?.split_whitespace().nth(at)?)
    };
    let finished = words_after(text, "finished in ");
    Printed {
        requests: words_after(text, "requests:").and_then(|words| {
            let words: Vec<&str> =
                words.split([' ', ',']).filter(|word| !word.is_empty()).collect();
            let at = words.iter().position(|word| *word == "succeeded")?;
            number(words.get(at.checked_sub(1)?)?)
        }),
        per_s: finished.and_then(|words| number(words.split(", ").nth(1)?)),
        mean_ms: column("mean"),
        p50_ms: column("median"),
        p90_ms: None,
        p99_ms: column("p99"),
        max_ms: column("max"),
    }
}

/// Parses the summary of `hey`, which `oha --no-tui` imitates: times with their unit, percentiles
/// as `99% in`.
pub(super) fn hey(text: &str) -> Printed {
    let time = |label| words_after(text, label).and_then(time_ms);
    let percentile = |percent: f64| {
        share_line(text, percent)
            .and_then(|rest| rest.trim_start().strip_prefix("in "))
            .and_then(time_ms)
    };
    let responses = |line: &str| number(line.split_once(']')?.1.trim());
    let by_status = text.lines().filter(|line| {
        let status = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once(']'));
        status.is_some_and(|(status, rest)| {
            status.len() == 3 && number(status).is_some() && rest.contains("responses")
        })
    });
    let counts: Option<Vec<f64>> = by_status.map(responses).collect();
    Printed {
        requests: counts.filter(|counts| !counts.is_empty()).map(|counts| counts.iter().sum()),
        per_s: words_after(text, "Requests/sec:").and_then(number),
        mean_ms: time("Average:"),
        p50_ms: percentile(50.0),
        p90_ms: percentile(90.0),
        p99_ms: percentile(99.0),
        max_ms: time("Slowest:"),
    }
}

/// Parses the output of `ab`: its percentiles are whole ms.
pub(super) fn ab(text: &str) -> Printed {
    let percentile = |percent: f64| share_line(text, percent).and_then(number);
    Printed {
        requests: words_after(text, "Complete requests:").and_then(number),
        per_s: words_after(text, "Requests per second:").and_then(number),
        // The second line of that name is the mean across all concurrent requests.
        mean_ms: words_after(text, "Time per request:").and_then(number),
        p50_ms: percentile(50.0),
        p90_ms: percentile(90.0),
        p99_ms: percentile(99.0),
        max_ms: percentile(100.0),
    }
}

/// The first line with this text.
fn line<'a>(text: &'a str, part: &str) -> Option<&'a str> {
    text.lines().find(|line| line.contains(part))
}

/// The words after this label in the first line that has it.
fn words_after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    line(text, label)?.split_once(label).map(|(_, rest)| rest.trim())
}

/// The words after `99%` in the line that begins with this percentage.
fn share_line(text: &str, percent: f64) -> Option<&str> {
    text.lines().find_map(|line| {
        let (share, rest) = line.trim_start().split_once('%')?;
        let is_it = share.parse::<f64>().ok()? == percent;
        is_it.then_some(rest.trim())
    })
}

/// The number at the start of the word.
fn number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// The time at the start of the word, ms: the unit follows the number, with a space or without.
fn time_ms(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let value: f64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim_start().split(|c: char| !(c.is_alphabetic())).next();
    let factor = match unit.unwrap_or_default() {
        "us" | "µs" => 1e-3,
        "ms" => 1.0,
        "s" | "sec" | "secs" => 1e3,
        "m" | "min" => 60e3,
        _ => return None,
    };
    Some(value * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRK: &str = "Running 5s test @ http://127.0.0.1:8080/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   550.00us   99.00us   5.00ms   90.00%
    Req/Sec   112.20k     2.30k  115.00k    80.00%
  Latency Distribution
     50%  540.00us
     75%  580.00us
     90%  650.00us
     99%    1.20ms
  559012 requests in 5.00s, 70.00MB read
Requests/sec: 111799.69
Transfer/sec:     14.00MB
";
    const H2LOAD: &str = "starting benchmark...
finished in 2.00s, 146110.00 req/s, 17.00MB/s
requests: 292220 total, 292284 started, 292220 done, 292219 succeeded, 1 failed, 0 errored
status codes: 292220 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 34.00MB (35000000) total, 24.00MB (25000000) headers (space savings 0.00%)
                     min         max         mean         sd        +/- sd
time for request:       98us      5.10ms       437us       120us    81.00%
time for connect:       60us      1.20ms       600us       300us    60.00%
req/s           :    2282.90     2283.10     2283.00       0.10    70.00%
";
    const H2LOAD_NEW: &str = "finished in 2.00s, 1000.50 req/s, 17.00KB/s
requests: 2001 total, 2001 started, 2001 done, 2001 succeeded, 0 failed, 0 errored, 0 timeout
                     min         max      median         p95         p99        mean   sd  +/- sd
request     :       98us      1.50s      10.10ms
time for request:       98us      1.50s      10.10ms     11.00ms     12.50ms   10.20ms  1us 99.00%
";
    const HEY: &str = "
Summary:
  Total:\t2.0009 secs
  Slowest:\t0.0107 secs
  Fastest:\t0.0001 secs
  Average:\t0.0014 secs
  Requests/sec:\t46204.3842

Response time histogram:
  0.000 [1]\t|
  0.001 [500]\t|■■■

Latency distribution:
  10% in 0.0006 secs
  50% in 0.0013 secs
  90% in 0.0022 secs
  99% in 0.0041 secs

Status code distribution:
  [200]\t92451 responses
  [503]\t3 responses
";
    const OHA: &str = "Summary:
  Success rate:\t100.00%
  Total:\t2.0001 sec
  Slowest:\t10.7 ms
  Fastest:\t0.1 ms
  Average:\t1.4 ms
  Requests/sec:\t51234.5000

Response time distribution:
  50.00% in 1.3000 ms
  90.00% in 2.2000 ms
  99.00% in 0.0041 sec
  99.90% in 9.9000 ms

Status code distribution:
  [200] 102469 responses
";
    const AB: &str = "Concurrency Level:      64
Time taken for tests:   2.000 seconds
Complete requests:      75361
Failed requests:        0
Requests per second:    37675.28 [#/sec] (mean)
Time per request:       1.699 [ms] (mean)
Time per request:       0.027 [ms] (mean, across all concurrent requests)

Percentage of the requests served within a certain time (ms)
  50%      2
  90%      2
  99%      3
 100%     12 (longest request)
";

    /// Requests, requests per second, mean, p50, p90, p99 and maximum.
    fn all(printed: &Printed) -> [Option<f64>; 7] {
        let Printed { requests, per_s, mean_ms, p50_ms, p90_ms, p99_ms, max_ms } = *printed;
        [requests, per_s, mean_ms, p50_ms, p90_ms, p99_ms, max_ms]
    }

    fn check(printed: &Printed, expected: [f64; 7]) {
        for (found, expected) in all(printed).iter().zip(expected) {
            let is_it = found.is_some_and(|found| (found - expected).abs() < 1e-9 * expected);
            assert!(is_it || (found.is_none() && expected == 0.0), "{expected}: {printed:?}");
        }
    }

    #[test]
    fn every_summary_is_read() {
        // 0 stands for a figure that is not printed.
        check(&wrk(WRK), [559_012.0, 111_799.69, 0.55, 0.54, 0.65, 1.2, 5.0]);
        check(&h2load(H2LOAD), [292_219.0, 146_110.0, 0.437, 0.0, 0.0, 0.0, 5.1]);
        check(&h2load(H2LOAD_NEW), [2_001.0, 1_000.5, 10.2, 10.1, 0.0, 12.5, 1_500.0]);
        check(&hey(HEY), [92_454.0, 46_204.384_2, 1.4, 1.3, 2.2, 4.1, 10.7]);
        check(&hey(OHA), [102_469.0, 51_234.5, 1.4, 1.3, 2.2, 4.1, 10.7]);
        check(&ab(AB), [75_361.0, 37_675.28, 1.699, 2.0, 2.0, 3.0, 12.0]);
    }

    #[test]
    fn truncated_or_other_output_has_no_figures() {
        type Read = fn(&str) -> Printed;
        let read: [(Read, &str); 5] =
            [(wrk, WRK), (h2load, H2LOAD), (hey, HEY), (hey, OHA), (ab, AB)];
        for (read, text) in read {
            assert_eq!(
                read("unable to connect to 127.0.0.1:8080 Connection refused\n"),
                Printed::default()
            );
            for (end, _) in text.char_indices() {
                let (whole, part) = (all(&read(text)), all(&read(&text[..end])));
                // Only a number that has lost its last digits may differ.
                let others = whole
                    .iter()
                    .zip(part)
                    .filter(|(whole, part)| part.is_some() && **whole != *part);
                assert!(others.count() <= 1, "{}", &text[..end]);
            }
        }
    }
}
