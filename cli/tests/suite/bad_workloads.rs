//! Files and flags that describe no workload: exit code 2 with the flag, its value and the cure,
//! before the target gets a connection.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::Stdio;

use crate::support::{binary, said};

/// The files of these cases, by name.
const FILES: [(&str, &str); 18] = [
    ("prose", "hello world\nthis is no list\n"),
    ("bad_lines", "/a\nhttp://\nftp://h/\nhttp://h:x/\nq\n/ok\n/a b\n\nzz\n"),
    ("empty", "# nothing\n"),
    ("weightless", "{\"url\": \"/a\", \"weight\": 0}\n{\"url\": \"/b\", \"weight\": 0}\n"),
    ("misspelt", "/a\n/b?n={{sqe}}\n"),
    ("bad.json", "{\"url\": \"/a\", \"wieght\": 3}\n"),
    ("bounded.json", "{\"url\": \"/a\", \"name\": \"a\", \"slo\": \"p99<1s\"}\n"),
    ("users.csv", "id,name\n17,Ada\n"),
    ("ragged.csv", "id,name\n17\n"),
    ("headless.csv", "id,name\n"),
    ("unclosed.csv", "id,name\n17,Ada\n18,\"Grace\n19,Joan\n"),
    ("timeless.json", "{\"method\": \"GET\", \"path\": \"/\"}\n"),
    ("no_log", "a\nb\nc\nd\ne\nf\ng\n"),
    ("no_length.toml", "[[stage]]\nrate = 5\nduration = '0s'\n"),
    ("no_step.toml", "[[scenario]]\nname = 'a'\n"),
    (
        "header.toml",
        "[[scenario]]\n[[scenario.step]]\nurl = '/a'\n[[scenario]]\n[[scenario.step]]\nurl = '/b'\n\
         headers = ['a b: c']\n",
    ),
    ("misspelt.toml", "[[scenaro]]\n"),
    ("weightless.toml", "[[scenario]]\nweight = 0\n[[scenario.step]]\nurl = '/a'\n"),
];

/// The flags of each case, and what its error says.
const CASES: [(&[&str], &[&str]); 32] = [
    (&["--targets", "missing"], &["--targets missing: can't be read", "name a readable"]),
    (&["--targets", "prose"], &["--targets prose: 2 bad lines: line 1: neither", "JSON lines"]),
    (
        &["--targets", "bad_lines"],
        &["--targets bad_lines: 6 bad lines: line 2: invalid URL", "; and 1 more; give a URL"],
    ),
    (&["--targets", "empty"], &["--targets empty: has no request; give a URL"]),
    (&["--targets", "weightless"], &["--targets weight 0: no request has a weight", "give one"]),
    (
        &["--targets", "misspelt"],
        &["GET /b", "{{sqe}} isn't a field; the nearest known is {{seq}}"],
    ),
    (&["--body", "{{sq}}"], &["--body of the plan: {{sq}} isn't", "the nearest known is {{seq}}"]),
    (
        &["--header", "X: {{users.naem}}", "--data", "users=users.csv"],
        &["--header #1: {{users.naem}} isn't a field", "the nearest known is {{users.name}}"],
    ),
    (&["--targets", "bad.json"], &["--targets bad.json: line 1: unknown field `wieght`", "like {"]),
    (
        &["--targets", "bounded.json", "--slo", "a: p99<2s"],
        &["--slo a: p99 has two bounds, here and as its `slo` in --targets; keep one"],
    ),
    (&["--body", "{{foo}}"], &["{{foo}} isn't a field; choose from {{seq}}, {{rand 1 100}}"]),
    (&["--body", "{{seq}"], &["--body of the plan: {{ begins a field, and no }} ends", "@FILE"]),
    (
        &["--data", "users=users.csv"],
        &["--data users: no request takes a value from it; put a field such as {{users.id}}"],
    ),
    (
        &["--header", "X: {{users.id}}", "--data", "users=users.csv,randm"],
        &["--data users.csv,randm: can't read", "; did you mean `,random`?"],
    ),
    (&["--order", "round-robin"], &["--order round-robin: the plan has one request", "omit it"]),
    (&["--connect-to", "h:1:127.0.0.1:1"], &["--connect-to h:1:127.0.0.1:1: the URL is at"]),
    (&["--threshold", "errors=5"], &["--threshold errors=5: out of range; give a number from 0"]),
    (
        &["--plan", "header.toml"],
        &["[[scenario]] #2 (GET /b): its header #1: the name isn't a token"],
    ),
    (&["--plan", "misspelt.toml"], &["line 1: unknown key `scenaro`: did you mean `scenario`?"]),
    (&["--header", "X: {{users.id}}"], &["is a column, and there is no data", "--data users=FILE"]),
    (&["--data", "users=missing.csv"], &["--data missing.csv: can't read", "readable file"]),
    (
        &["--header", "X: {{users.id}}", "--data", "users=ragged.csv"],
        &["--data users: line 2: 1 value, but the header has 2", "correct that line"],
    ),
    (
        &["--header", "X: {{users.id}}", "--data", "users=headless.csv"],
        &["--data users: it has no row", "add one"],
    ),
    (
        &["--header", "X: {{users.id}}", "--data", "users=unclosed.csv"],
        &["--data users: a quote isn't closed", "line 3 is the first", "close it"],
    ),
    (&["--stages", "100:0s"], &["--stages 100:0s: stage 1 has no length; leave it out"]),
    (&["--stages", "100:"], &["--stages 100:: invalid stage: give RATE:DURATION"]),
    (&["--stages", "0:1s"], &["--stages 0:1s: no stage has a rate above 0; give one"]),
    (&["--plan", "no_length.toml"], &["--stages 5:0s: stage 1 has no length; leave it out"]),
    (&["--plan", "no_step.toml"], &["--plan no_step.toml: line 1", "missing field `step`"]),
    (
        &["--plan", "weightless.toml"],
        &["[[scenario]] weight 0: no request has a weight above 0", "give one"],
    ),
    (
        &["--replay", "timeless.json"],
        &["--replay timeless.json: has no readable line", "with time"],
    ),
    (
        &["--replay", "no_log"],
        &["--replay no_log: has no readable line", "; and 2 more); give a log"],
    ),
];

#[test]
fn each_is_refused_by_flag_value_and_cure_before_the_target_gets_a_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in FILES {
        fs::write(folder.path().join(name), text).expect(name);
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    for (flags, words) in CASES {
        let has_rate = ["--stages", "--plan", "--replay"].contains(&flags[0]);
        let rate = if has_rate { &[][..] } else { &["--rate", "5"] };
        let output = binary()
            .args([&["run", "--quiet", &url], rate, flags].concat())
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .output()
            .expect("the binary runs");
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{flags:?}: {text}");
        for word in words {
            assert!(text.contains(word), "{flags:?}: `{word}` is missing in: {text}");
        }
    }
    listener.set_nonblocking(true).expect("an option");
    let nobody = listener.accept().expect_err("no connection");
    assert_eq!(nobody.kind(), ErrorKind::WouldBlock);
}
