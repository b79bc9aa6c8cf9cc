//! The shipped tools' files read what the tools print, and a file that can't be used says why.

use std::fs;

use judge::suite::{Outcome, Setup, find, judge, named};
use judge::{Asked, Figures, Load, Mode, Percentile, ReadError, SHIPPED, Tool};

use crate::runner::folder;

const WRK: &str = "Running 2s test @ http://127.0.0.1:18999/
  2 threads and 4 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    47.42ms    5.23ms  53.19ms   96.43%
    Req/Sec    41.95      5.48    60.00     87.50%
  Latency Distribution
     50%   47.99ms
     75%   48.03ms
     90%   48.10ms
     99%    1.20s
  168 requests in 2.01s, 19.17KB read
  Socket errors: connect 1, read 2, write 0, timeout 4
  Non-2xx or 3xx responses: 12
Requests/sec:     83.44
Transfer/sec:      9.52KB
";
const WRK2: &str = "  Thread calibration: mean lat.: 1.034ms, rate sampling interval: 10ms
  Latency Distribution (HdrHistogram - Recorded Latency)
 50.000%    1.04ms
 90.000%    1.45ms
 99.000%    1.72ms
 99.900%    2.02s
100.000%    2.10s

  Detailed Percentile spectrum:
       Value   Percentile   TotalCount 1/(1-Percentile)

       0.112     0.000000            1         1.00
  29990 requests in 30.00s, 2.35MB read
";
const HEY: &str = "
Summary:
  Total:\t2.0426 secs
  Slowest:\t0.0560 secs
  Fastest:\t0.0075 secs
  Average:\t0.0478 secs
  Requests/sec:\t82.2481

Response time histogram:
  0.008 [1]\t|
  0.051 [129]\t|■■■■

Latency distribution:
  50% in 0.0480 secs
  99% in 0.0560 secs

Details (average, fastest, slowest):
  resp wait:\t0.0060 secs, 0.0054 secs, 0.0153 secs

Status code distribution:
  [200]\t152 responses
  [503]\t16 responses

Error distribution:
  [3]\tGet \"http://127.0.0.1:18999/\": EOF
";
const AB: &str = "Concurrency Level:      4
Time taken for tests:   2.000 seconds
Complete requests:      75361
Failed requests:        9
   (Connect: 1, Receive: 2, Length: 3, Exceptions: 3)
Non-2xx responses:      75361
Keep-Alive requests:    75361
Requests per second:    37675.28 [#/sec] (mean)
Time per request:       1.699 [ms] (mean)
Time per request:       0.027 [ms] (mean, across all concurrent requests)

Percentage of the requests served within a certain time (ms)
  50%      2
  99%      3
 100%     12 (longest request)
";
const OHA: &str = "Summary:
  Success rate:\t100.00%
  Slowest:\t10.7 ms
  Fastest:\t0.1 ms
  Average:\t1.4 ms
  Requests/sec:\t51234.5000

Response time distribution:
  50.00% in 1.3000 ms
  99.00% in 0.0041 sec
  99.90% in 9.9000 ms

Status code distribution:
  [200] 102469 responses
  [503] 31 responses

Error distribution:
  [64] aborted due to deadline
";
const H2LOAD: &str = "finished in 2.00s, 146110.00 req/s, 17.00MB/s
requests: 292220 total, 292284 started, 292220 done, 292219 succeeded, 1 failed, 2 errored, 3 timeout
status codes: 292219 2xx, 0 3xx, 0 4xx, 1 5xx
                     min         max         mean         sd        +/- sd
time for request:       98us      5.10ms       437us       120us    81.00%
time for connect:       60us      1.20ms       600us       300us    60.00%
";
const H2LOAD_NEW: &str = "finished in 2.00s, 1000.50 req/s, 17.00KB/s
requests: 2001 total, 2001 started, 2001 done, 2001 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 2001 2xx, 0 3xx, 0 4xx, 0 5xx
                     min         max      median         p95         p99        mean   sd  +/- sd
request     :       98us      1.50s      10.10ms     11.00ms     12.50ms   10.20ms  1us 99.00%
";
const AUTOCANNON: &str = r#"{"requests":{"sent":3717,"total":3714,"p50":1800},"non2xx":3713,"errors":2,
"latency":{"average":1.5,"p50":1,"p90":3,"p97_5":5,"p99":7,"p99_9":34,"max":40}}"#;
const SIEGE: &str = r#"{"transactions": 4710, "availability": 99.9, "response_time": 1.71,
"successful_transactions": 4702, "failed_transactions": 8, "longest_transaction": 90.0}"#;
const DRILL: &str = "
Concurrency level         4
Successful requests       1190
Failed requests           10
Median time per request   2415000ns
Sample standard deviation 3415000ns
99.0'th percentile        19967000ns
99.9'th percentile        23295000ns
";
const LOCUST: &str = "
GET      /         1234     4(0.32%) |      2       1      40      2 |  411.33    1.33
         Aggregated         1234     4(0.32%) |      2       1      40      2 |  411.33    1.33

Response time percentiles (approximated)
Type     Name     50%    66%    75%    80%    90%    95%    98%    99%  99.9% 99.99%   100% # reqs
GET      /         20     20     21     22     23     25     30    160   1200   1300   1300   1234
         Aggregated         20     20     21     22     23     25     30    160   1200   1300   1300   1234
";
const VEGETA: &str = r#"{"latencies":{"total":237119463,"mean":2371194,"50th":2854306,
"90th":3228223,"95th":3478629,"99th":3530000,"max":3660505,"min":1949582},
"bytes_in":{"total":606700,"mean":6067},"requests":102,"rate":100.5,"success":0.98,
"status_codes":{"0":1,"200":100,"503":1},"errors":["EOF"]}"#;
const K6: &str = "
     http_req_blocked...............: p(50)=1.5µs   p(90)=2µs      p(95)=2µs     p(99)=9µs
     http_req_duration..............: p(50)=1.17ms p(90)=1.5ms p(95)=2ms p(99)=1.01s p(99.9)=2s
       { expected_response:true }...: p(50)=1.18ms p(90)=1.5ms p(95)=2ms p(99)=1.01s p(99.9)=2s
     http_req_failed................: 0.02% 3 out of 15000
     http_reqs......................: 15000  499.98/s
";
const FORTIO: &str = r#"{
  "RunType": "HTTP",
  "ActualQPS": 38.44836361217263,
  "NumThreads": 2,
  "DurationHistogram": {
    "Count": 10,
    "Avg": 0.00058301175,
    "Percentiles": [
      { "Percentile": 50, "Value": 0.00049208 },
      { "Percentile": 90, "Value": 0.00084274 },
      { "Percentile": 95, "Value": 0.00088213 },
      { "Percentile": 99, "Value": 0.00092164 },
      { "Percentile": 99.9, "Value": 0.00092953 }
    ]
  },
  "RetCodes": {
    "-1": 2,
    "200": 4,
    "503": 3
  }
}"#;
const GCANNON: &str = r#"{"version": "0.5.3", "requests": 1975, "responses": 1970, "rps": 493.64,
"latency_us": {"avg": 86260, "p50": 5302, "p90": 5970, "p99": 2500300, "p999": 2501000,
"samples": 1970}, "status": {"2xx": 1960, "3xx": 0, "4xx": 3, "5xx": 7, "other": 0},
"errors": {"connect": 1, "read": 2, "timeout": 4}, "reconnects": 0}"#;
const ZRK: &str = r#"{"zrk_version": "1.4.2", "requests": 1500, "achieved_rate": 499.82,
"latency_us": {"min": 1139, "mean": 45216.2, "stdev": 112598.7, "max": 502015,
"p50": 1422, "p75": 1686, "p90": 216128, "p99": 471424, "p99_9": 500096, "p99_99": 501888},
"status_codes": {"1xx": 0, "2xx": 1490, "3xx": 0, "4xx": 8, "5xx": 2},
"errors": {"connect": 1, "read": 2, "write": 3, "timeout": 4, "deadline": 5, "non_2xx_3xx": 10}}"#;
const TRUETAIL: &str = r#"{"counts": {"sent": 214, "answered": 210, "timed_out": 1, "failed": 2,
"abandoned": 1, "unexpected_status": 5}, "corrected": {"unit": "us", "p50": 5226.495,
"p90": 8413.183, "p99": null}}"#;

/// Sent, answered, bad, errors and open; then percentiles with their last digits, in ms.
type Expected = ([Option<f64>; 5], &'static [(f64, f64, f64)]);

fn check(name: &str, output: &str, (counts, percentiles): Expected) {
    let figures = Figures::read(&Tool::find(name).expect("shipped"), output).expect("figures");
    let Figures { sent, answered, bad, errors, open, .. } = figures;
    assert_eq!([sent, answered, bad, errors, open], counts, "{name}: {figures:?}");
    let near = |found: f64, expected: f64| (found - expected).abs() <= 1e-9 * expected;
    assert_eq!(figures.percentiles.len(), percentiles.len(), "{name}: {figures:?}");
    for (found, (percent, ms, digit_ms)) in figures.percentiles.iter().zip(percentiles) {
        let Percentile { percent: of, ms: is_ms, digit_ms: is_digit_ms, .. } = found.clone();
        let same = of == *percent && near(is_ms, *ms) && near(is_digit_ms, *digit_ms);
        assert!(same, "{name}: {found:?}, not {ms} ms and {digit_ms} ms");
    }
}

#[test]
fn each_shipped_tool_is_read() {
    let (none, some) = (None, |count| Some(count));
    let expected: [(&str, &str, Expected); 18] = [
        (
            "wrk",
            WRK,
            (
                [none, some(168.0), some(12.0), some(7.0), none],
                &[
                    (50.0, 47.99, 0.01),
                    (75.0, 48.03, 0.01),
                    (90.0, 48.1, 0.01),
                    (99.0, 1_200.0, 10.0),
                    (100.0, 53.19, 0.01),
                ],
            ),
        ),
        (
            "wrk2",
            WRK2,
            (
                [none, some(29_990.0), some(0.0), some(0.0), none],
                &[
                    (50.0, 1.04, 0.01),
                    (90.0, 1.45, 0.01),
                    (99.0, 1.72, 0.01),
                    (99.9, 2_020.0, 10.0),
                    (100.0, 2_100.0, 10.0),
                ],
            ),
        ),
        (
            "hey",
            HEY,
            (
                [none, some(168.0), some(16.0), some(3.0), none],
                &[(50.0, 48.0, 0.1), (99.0, 56.0, 0.1), (100.0, 56.0, 0.1)],
            ),
        ),
        (
            "ab",
            AB,
            (
                [none, some(75_361.0), some(75_364.0), some(6.0), none],
                &[(50.0, 2.0, 1.0), (99.0, 3.0, 1.0), (100.0, 12.0, 1.0)],
            ),
        ),
        (
            "oha",
            OHA,
            (
                [none, some(102_500.0), some(31.0), some(0.0), some(64.0)],
                &[(50.0, 1.3, 1e-4), (99.0, 4.1, 0.1), (99.9, 9.9, 1e-4), (100.0, 10.7, 0.1)],
            ),
        ),
        (
            "h2load",
            H2LOAD,
            ([some(292_284.0), some(292_220.0), some(1.0), some(5.0), none], &[(100.0, 5.1, 0.01)]),
        ),
        (
            "h2load",
            H2LOAD_NEW,
            (
                [some(2_001.0), some(2_001.0), some(0.0), some(0.0), none],
                &[
                    (50.0, 10.1, 0.01),
                    (95.0, 11.0, 0.01),
                    (99.0, 12.5, 0.01),
                    (100.0, 1_500.0, 10.0),
                ],
            ),
        ),
        (
            "autocannon",
            AUTOCANNON,
            (
                [some(3_717.0), some(3_714.0), some(3_713.0), some(2.0), none],
                &[(50.0, 1.0, 1.0), (90.0, 3.0, 1.0), (99.0, 7.0, 1.0), (99.9, 34.0, 1.0)],
            ),
        ),
        (
            "fortio",
            FORTIO,
            (
                [none, some(7.0), some(3.0), some(2.0), none],
                &[
                    (50.0, 0.492_08, 1e-5),
                    (90.0, 0.842_74, 1e-5),
                    (95.0, 0.882_13, 1e-5),
                    (99.0, 0.921_64, 1e-5),
                    (99.9, 0.929_53, 1e-5),
                ],
            ),
        ),
        (
            "gcannon",
            GCANNON,
            (
                [some(1_975.0), some(1_970.0), some(10.0), some(7.0), none],
                &[
                    (50.0, 5.302, 1e-3),
                    (90.0, 5.970, 1e-3),
                    (99.0, 2_500.3, 1e-3),
                    (99.9, 2_501.0, 1e-3),
                ],
            ),
        ),
        (
            "zrk",
            ZRK,
            (
                [none, some(1_500.0), some(10.0), some(15.0), none],
                &[
                    (50.0, 1.422, 1e-3),
                    (90.0, 216.128, 1e-3),
                    (99.0, 471.424, 1e-3),
                    (99.9, 500.096, 1e-3),
                    (100.0, 502.015, 1e-3),
                ],
            ),
        ),
        ("siege", SIEGE, ([none, some(4_702.0), none, some(8.0), none], &[])),
        (
            "drill",
            DRILL,
            (
                [none, some(1_190.0), none, some(10.0), none],
                &[(50.0, 2.415, 1e-6), (99.0, 19.967, 1e-6), (99.9, 23.295, 1e-6)],
            ),
        ),
        (
            "locust",
            LOCUST,
            (
                [none, some(1_234.0), some(4.0), none, none],
                &[
                    (50.0, 20.0, 1.0),
                    (90.0, 23.0, 1.0),
                    (95.0, 25.0, 1.0),
                    (99.0, 160.0, 10.0),
                    (99.9, 1_200.0, 100.0),
                ],
            ),
        ),
        (
            "vegeta",
            VEGETA,
            (
                [some(102.0), some(101.0), some(1.0), some(1.0), none],
                &[
                    (50.0, 2.854_306, 1e-6),
                    (90.0, 3.228_223, 1e-6),
                    (95.0, 3.478_629, 1e-6),
                    (99.0, 3.53, 1e-6),
                ],
            ),
        ),
        (
            "k6",
            K6,
            (
                [none, some(15_000.0), some(3.0), none, none],
                &[(50.0, 1.17, 0.01), (90.0, 1.5, 0.1), (95.0, 2.0, 1.0), (99.0, 1_010.0, 10.0)],
            ),
        ),
        (
            "truetail",
            TRUETAIL,
            (
                [some(214.0), some(210.0), some(5.0), some(3.0), some(1.0)],
                &[(50.0, 5.226_495, 1e-6), (90.0, 8.413_183, 1e-6)],
            ),
        ),
        (
            // A count without a match is zero only if the tool printed something else.
            "wrk",
            "  1 requests in 2.01s, 19.17KB read",
            ([none, some(1.0), some(0.0), some(0.0), none], &[]),
        ),
    ];
    for (name, output, expected) in expected {
        check(name, output, expected);
    }
}

#[test]
fn rates_and_means_are_read() {
    for (name, output, per_s, mean_ms) in [
        ("wrk", WRK, 83.44, 47.42),
        ("h2load", H2LOAD, 146_110.0, 0.437),
        ("h2load", H2LOAD_NEW, 1_000.5, 10.2),
        ("hey", HEY, 82.2481, 47.8),
        ("ab", AB, 37_675.28, 1.699),
        ("oha", OHA, 51_234.5, 1.4),
    ] {
        let figures = Figures::read(&Tool::find(name).expect("shipped"), output).expect("figures");
        assert_eq!(figures.per_s, Some(per_s), "{name}");
        let found_ms = figures.mean_ms.expect(name);
        assert!((found_ms - mean_ms).abs() < 1e-9, "{name}: {found_ms}");
    }
}

#[test]
fn other_output_has_no_figures() {
    for (name, _) in SHIPPED {
        let tool = Tool::find(name).expect("shipped");
        for output in ["", "unable to connect to 127.0.0.1:8080\n", "{}", "\u{fffd}\u{fffd}\n"] {
            assert_eq!(Figures::read(&tool, output), Err(ReadError::Nothing), "{name}");
        }
    }
}

#[test]
fn a_command_gets_the_load() {
    let load = Load { rate: 437.5, rate_to: 875.0, connections: 10, seconds: 6 };
    let asked = Asked { log: "/tmp/a b.log", ..Asked::of(load, "http://127.0.0.1:80/") };
    let check = |name: &str, mode: Mode, asked: &Asked, expected: Option<&str>| {
        let tool = Tool::find(name).expect("shipped");
        let line = tool.command(mode, asked).map(|(words, _)| words.join(" "));
        assert_eq!(line.as_deref(), expected, "{name}");
    };
    let wrk = "wrk -t 2 -c 10 -d 6s --latency http://127.0.0.1:80/";
    check("wrk", Mode::Closed, &asked, Some(wrk));
    check("wrk", Mode::Open, &asked, None);
    let flags = Asked { flags: "--timeout 5s", ..asked };
    let wrk = "wrk --timeout 5s -t 2 -c 10 -d 6s --latency http://127.0.0.1:80/";
    check("wrk", Mode::Closed, &flags, Some(wrk));
    let hey = "hey -c 10 -z 6s -q 43.75 http://127.0.0.1:80/";
    check("hey", Mode::Open, &asked, Some(hey));
    let truetail = Tool::find("truetail").expect("shipped");
    let (words, _) = truetail.command(Mode::Replay, &asked).expect("it replays");
    assert!(words.contains(&"/tmp/a b.log".to_owned()), "{words:?}");
    let (words, _) = truetail.command(Mode::Ramp, &asked).expect("it ramps");
    assert!(words.contains(&"437.5..875:6s".to_owned()), "{words:?}");
    let vegeta = Tool::find("vegeta").expect("shipped");
    let (words, stdin) = vegeta.command(Mode::Open, &asked).expect("open");
    assert_eq!((words.len(), stdin.as_str()), (3, "GET http://127.0.0.1:80/"));
    assert!(words[2].contains("-rate=26250/1m "), "{}", words[2]);
}

#[test]
fn a_tool_that_takes_no_connections_is_not_asked_for_them() {
    let text = "closed = 'x {url}'\n[read]\nanswered = '(\\d+)'\n";
    let tool = Tool::parse("x", text).expect("a tool");
    let cases = named(&["files".to_owned()]).expect("a case");
    let folder = folder("no-connections");
    let mut setup = Setup { folder: &folder, quick: true, asked: &|| false, tell: &mut |_| () };
    let suite = judge(&tool, &cases, &mut setup).expect("a result");
    assert_eq!(suite.cases[0].outcome, Outcome::NotClaimed, "{suite:#?}");
}

#[test]
fn every_shipped_file_is_short() {
    for (name, text) in SHIPPED {
        let (lines, keys) = (text.lines().count(), text.lines().filter(|line| line.contains('=')));
        assert!(lines <= 30 && keys.count() <= 30, "{name}: {lines} lines");
    }
}

#[test]
fn a_file_that_can_not_be_used_says_why() {
    let check = |text: &str, says: &str| {
        let error = Tool::parse("x", text).expect_err(text).to_string();
        assert!(error.starts_with("x.toml: ") && error.contains(says), "{error}");
    };
    let read = "[read]\nanswered = '(\\d+) requests'\n";
    let open = "open = \"x {rate} {url}\"\n";
    check(read, "neither `closed` nor `open`");
    check(&format!("open = \"x\"\n{read}"), "write {url} where the URL belongs");
    check(&format!("open = \"x {{rate}} {{url}} http://a/\"\n{read}"), "names a URL");
    check(&format!("open = \"x {{rate}} {{url}} 'a\"\n{read}"), "close its quotes");
    check(&format!("open = \"x {{url}}\"\n{read}"), "has no {rate}; write it where it belongs");
    check(&format!("{open}closed = \"x {{urls}} {{url}}\"\n{read}"), "{urls} is no placeholder");
    check(&format!("{open}replay = \"x {{url}}\"\n{read}"), "has no {log}");
    check(&format!("{open}ramp = \"x {{url}} {{rate}}\"\n{read}"), "has no {rate_to}");
    check(&format!("{open}version = \"x '\"\n{read}"), "version = \"x '\": not a command line");
    check(&format!("{open}version = \"\"\n{read}"), "not a command line");
    check(&format!("{open}version = \"x http://a/\"\n{read}"), "names a URL");
    check(&format!("{open}significant = 0\n{read}"), "give 1 or more");
    check(&format!("{open}[read]\npercentiles = '/latencies'\n"), "a JSON pointer finds one value");
    check(&format!("{open}unit = \"h\"\n{read}"), "unit = \"h\": unknown");
    check(&format!("{open}arrivals = \"sometimes\"\n{read}"), "sometimes");
    check(&format!("{open}opne = 1\n{read}"), "opne");
    check(&format!("{open}warns = '('\n{read}"), "correct the regular expression");
    check(&format!("{open}{read}[also]\nslow = '-t 5'\n"), "write {flags} where they belong");
    let flags = "open = \"x {flags} {rate} {url}\"\n";
    check(&format!("{flags}{read}[also]\nslow = \"-t '5\"\n"), "close its quotes");
    let quoted = "closed = \"sh -c 'x {flags} {url}'\"\n";
    check(&format!("{quoted}{read}[also]\nslow = \"'\"\n"), "close its quotes");
    check(&format!("{open}[read]\np101 = 'x'\n"), "read.p101: no such figure");
    check(&format!("{open}[read]\nanswered = '(\\d+'\n"), "correct the regular expression");
    check(&format!("{open}[read]\nanswered = '\\d+'\n"), "no group; put ( ) around the figure");
    check(&format!("{open}[read]\npercentiles = '(\\d+)%'\n"), "the percentage and its time");
    let also = folder("also").join("x.toml");
    let text = format!("open = \"x {{flags}} {{rate}} {{url}}\"\n{read}[also]\nslwo = '-t 5'\n");
    fs::write(&also, text).expect("a file");
    let unknown = find(&also.to_string_lossy()).expect_err("no such case").to_string();
    assert!(
        unknown.starts_with("x.toml: also.slwo: no such case; give one of rate, "),
        "{unknown}"
    );
    let unknown = Tool::find("wkr").expect_err("no tool").to_string();
    assert!(unknown.starts_with("wkr: not a known tool; give one of ab, "), "{unknown}");
    let missing = Tool::find("/no/such.toml").expect_err("no file").to_string();
    assert!(missing.starts_with("/no/such.toml: can't be read"), "{missing}");
}

#[test]
fn a_percentage_is_read_once_and_one_that_is_none_is_left_out() {
    let text = "closed = 'x {url}'\n[read]\npercentiles = '^(?:p(\\d+)|max) +([\\d.]+)'\n";
    let tool = Tool::parse("x", text).expect("a tool");
    let figures = Figures::read(&tool, "p50 1.5\nmax 12\np50 9\np101 3\n").expect("figures");
    let found: Vec<(f64, f64)> =
        figures.percentiles.iter().map(|one| (one.percent, one.ms)).collect();
    assert_eq!(found, [(50.0, 1.5)]);
}

#[test]
fn the_last_digit_of_a_number_with_an_exponent_is_known() {
    let text = "closed = 'x {url}'\nunit = 's'\n[read]\np50 = '/p50'\n";
    let tool = Tool::parse("x", text).expect("a tool");
    let figures = Figures::read(&tool, "{\"p50\": 0.000012}").expect("figures");
    let [one] = &figures.percentiles[..] else { panic!("{figures:?}") };
    assert!((one.digit_ms - 1e-3).abs() < 1e-9, "{one:?}");
}
