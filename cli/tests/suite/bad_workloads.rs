//! Files and flags that describe no workload: exit code 2 with the flag, its value and the cure,
//! before the target gets a connection.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::Stdio;

use crate::support::{binary, said};

/// The files of these cases, by name.
const FILES: [(&str, &str); 14] = [
    ("prose", "hello world\nthis is no list\n"),
    ("bad_lines", "/a\nhttp://\nftp://h/\nhttp://h:x/\nq\n/ok\n/a b\n\nzz\n"),
    ("empty", "# nothing\n"),
    ("weightless", "{\"url\": \"/a\", \"weight\": 0}\n{\"url\": \"/b\", \"weight\": 0}\n"),
    ("misspelt", "/a\n/b?n={{sqe}}\n"),
    ("users.csv", "id,name\n17,Ada\n"),
    ("ragged.csv", "id,name\n17\n"),
    ("headless.csv", "id,name\n"),
    ("unclosed.csv", "id,name\n17,Ada\n18,\"Grace\n19,Joan\n"),
    ("timeless.json", "{\"method\": \"GET\", \"path\": \"/\"}\n"),
    ("no_log", "a\nb\nc\nd\ne\nf\ng\n"),
    ("no_length.toml", "[[stage]]\nrate = 5\nduration = '0s'\n"),
    ("no_step.toml", "[[scenario]]\nname = 'a'\n"),
    ("weightless.toml", "[[scenario]]\nweight = 0\n[[scenario.step]]\nurl = '/a'\n"),
];

/// The flags of each case, and what its error says.
const CASES: [(&[&str], &[&str]); 21] = [
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
    (&["--plan", "weightless.toml"], &["no request has a weight above 0", "give one"]),
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
