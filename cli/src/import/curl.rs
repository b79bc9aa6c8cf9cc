//! The plan of a curl line. Its words are split as a shell would, and its flags mean what they mean
//! to curl; those that concern only curl's output are skipped.

use clap::error::{ContextKind, ErrorKind};
use clap::{ArgAction, ArgMatches, CommandFactory as _, FromArgMatches as _, Parser};
use engine::plan::endpoint::Endpoint;
use engine::plan::literal;
use engine::plan::scenario::Step;
use engine::sys::units::Nanos;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::PlanFile;
use crate::args::{is_named, unsendable, url};

/// The type of a body that no header names, as in curl.
const BODY_TYPE: &str = "Content-Type: application/x-www-form-urlencoded";

/// The flags that give a part of the body.
const PARTS: [&str; 5] = ["data", "data_raw", "data_binary", "data_urlencode", "json"];
/// What `--data-urlencode` encodes.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The plan of a curl line, and what it doesn't do that curl does.
#[derive(Debug)]
pub(crate) struct OfCurl {
    /// The plan.
    pub(crate) plan: PlanFile,
    /// What differs from curl.
    pub(crate) notes: Vec<&'static str>,
    /// The plan's headers that may hold a secret, and the name and password, by name.
    pub(crate) secrets: Vec<String>,
}

/// A curl line.
#[derive(Debug, Parser)]
#[command(disable_help_flag = true, disable_version_flag = true, args_override_self = true)]
struct Curl {
    urls: Vec<String>,
    #[arg(long)]
    url: Vec<String>,
    #[arg(short = 'X', long)]
    request: Option<String>,
    #[arg(short = 'H', long = "header", allow_hyphen_values = true)]
    headers: Vec<String>,
    #[arg(short, long, visible_alias = "data-ascii", allow_hyphen_values = true)]
    data: Vec<String>,
    #[arg(long, allow_hyphen_values = true)]
    data_raw: Vec<String>,
    #[arg(long, allow_hyphen_values = true)]
    data_binary: Vec<String>,
    #[arg(long, allow_hyphen_values = true)]
    data_urlencode: Vec<String>,
    #[arg(
        long,
        allow_hyphen_values = true,
        conflicts_with_all = ["data", "data_raw", "data_binary", "data_urlencode"]
    )]
    json: Vec<String>,
    #[arg(short, long)]
    user: Option<String>,
    #[arg(short = 'k', long)]
    insecure: bool,
    #[arg(short = 'G', long)]
    get: bool,
    #[arg(short = 'I', long)]
    head: bool,
    #[arg(short = 'A', long)]
    user_agent: Option<String>,
    #[arg(short = 'e', long)]
    referer: Option<String>,
    #[arg(short = 'b', long = "cookie")]
    cookies: Vec<String>,
    #[arg(long)]
    compressed: bool,
    #[arg(short = 'g', long)]
    globoff: bool,
    #[arg(short = 'm', long)]
    max_time: Option<Nanos>,
    #[arg(short = 'L', long)]
    location: bool,
    /// Flags without effect on the request.
    #[command(flatten)]
    _output: Output,
}

/// Flags that concern only what curl prints.
#[derive(Debug, clap::Args)]
struct Output {
    #[arg(short, long, action = ArgAction::Count)]
    silent: u8,
    #[arg(short = 'S', long, action = ArgAction::Count)]
    show_error: u8,
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    #[arg(short, long, action = ArgAction::Count)]
    include: u8,
    #[arg(short, long, action = ArgAction::Count)]
    fail: u8,
    #[arg(short, long)]
    output: Option<String>,
    #[arg(short, long)]
    write_out: Option<String>,
}

/// The plan of a line.
///
/// # Errors
/// The problem and its cure, without the line's values, which may be secrets.
pub(crate) fn read(line: &str) -> Result<OfCurl, String> {
    if line.contains("$'") {
        let cure =
            "copy the line with plain quotes, or put the body in a file: --data-binary @FILE";
        return Err(format!("$'…' is only for some shells; {cure}"));
    }
    // The crate makes an empty word of a line's continuation.
    let line = line.replace("\\\n", " ");
    let words = shlex::split(&line).ok_or("a quote isn't closed; put the line in single quotes")?;
    if words.first().map(String::as_str) != Some("curl") {
        return Err("doesn't begin with `curl`; give the whole line, in quotes".to_owned());
    }
    let read = Curl::command().try_get_matches_from(&words).map_err(|error| refusal(&error))?;
    let curl = Curl::from_arg_matches(&read).map_err(|error| refusal(&error))?;
    of_flags(curl, &parts(&read))
}

/// What is wrong with a flag, and the cure, without its value.
fn refusal(error: &clap::Error) -> String {
    let name = |kind| {
        let flag = error.get(kind).map(ToString::to_string);
        let flag = flag.filter(|flag| flag.starts_with('-')).unwrap_or("a word".to_owned());
        flag.split([' ', '=']).next().unwrap_or_default().to_owned()
    };
    let flag = name(ContextKind::InvalidArg);
    match error.kind() {
        ErrorKind::ArgumentConflict => {
            format!("{flag} doesn't go with {}; leave one of them out", name(ContextKind::PriorArg))
        }
        ErrorKind::InvalidValue => format!("{flag} lacks its value; give it, or leave {flag} out"),
        ErrorKind::ValueValidation => {
            format!("the value of {flag} isn't a number of seconds; correct it, or leave it out")
        }
        _ => format!("{flag} isn't known here; leave it out"),
    }
}

/// The parts of the body in the order of the line, each with its flag.
fn parts(read: &ArgMatches) -> Vec<(&'static str, String)> {
    let of_flag = |flag: &'static str| {
        let places = read.indices_of(flag).into_iter().flatten();
        let values = read.get_many::<String>(flag).into_iter().flatten();
        places.zip(values).map(move |(place, value)| (place, flag, value.clone()))
    };
    let mut all: Vec<_> = PARTS.into_iter().flat_map(of_flag).collect();
    all.sort_by_key(|(place, ..)| *place);
    all.into_iter().map(|(_, flag, value)| (flag, value)).collect()
}

/// A part of `--data-urlencode`: its content encoded, after its name and `=` if it has a name.
///
/// # Errors
/// It is read from a file.
fn encoded(part: &str) -> Result<String, String> {
    let encode = |content| utf8_percent_encode(content, ENCODED).to_string();
    match part.split_once('=') {
        Some(("", content)) => Ok(encode(content)),
        Some((name, content)) => Ok(format!("{name}={}", encode(content))),
        None if part.contains('@') => Err("--data-urlencode encodes a file, which isn't possible \
            here; put the encoded body in a file: --data-binary @FILE"
            .to_owned()),
        None => Ok(encode(part)),
    }
}

/// The headers of `-H`: one that ends with a semicolon is empty, and one without a value is taken
/// away.
///
/// # Errors
/// One is a file's name.
fn headers_of(lines: Vec<String>) -> Result<Vec<String>, String> {
    if lines.iter().any(|line| line.starts_with('@')) {
        let cure = "give each header with a -H of its own";
        return Err(format!("--header names a file, which isn't read here; {cure}"));
    }
    let header = |line: String| match line.split_once(':') {
        Some((_, value)) if value.trim().is_empty() => None,
        None if line.ends_with(';') => Some(format!("{}:", line.trim_end_matches(';'))),
        _ => Some(line),
    };
    Ok(lines.into_iter().filter_map(header).collect())
}

/// True if curl makes several URLs of this one; the brackets of an address don't count.
fn is_glob(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.find('/').map_or("", |at| &rest[at..]);
    path.contains(['[', '{'])
}

fn of_flags(curl: Curl, parts: &[(&str, String)]) -> Result<OfCurl, String> {
    let urls: Vec<String> = curl.urls.into_iter().chain(curl.url).collect();
    let [target] = urls.as_slice() else {
        return Err(format!("has {} URLs; give a line with one", urls.len()));
    };
    let mut notes = Vec::new();
    let mut target = literal::url(url(target));
    if !curl.globoff && is_glob(&target) {
        notes.push(
            "the brackets and braces of the URL are sent as they are: curl would make \
            several URLs of them",
        );
    }
    let mut headers = headers_of(curl.headers)?;
    let is_cookie = |text: &String| text.is_empty() || text.contains('=');
    if !curl.cookies.iter().all(is_cookie) {
        return Err(
            "--cookie names a file, which isn't read here; give the cookies themselves, as \
            in NAME=VALUE"
                .to_owned(),
        );
    }
    if curl.user.as_ref().is_some_and(|user| !user.contains(':')) {
        return Err(
            "--user has no password, which curl would ask for; give NAME:PASSWORD".to_owned()
        );
    }
    let cookies = curl.cookies.iter().filter(|it| !it.is_empty()).cloned().collect::<Vec<String>>();
    let add = |headers: &mut Vec<String>, line: String| {
        let name = line.split(':').next().unwrap_or_default().to_owned();
        if !headers.iter().any(|given| is_named(given, &name)) {
            headers.push(line);
        }
    };
    let values = [
        ("User-Agent", curl.user_agent),
        ("Referer", curl.referer),
        ("Cookie", Some(cookies.join(";"))),
        ("Accept-Encoding", curl.compressed.then(|| "gzip, deflate, br".to_owned())),
    ];
    for (name, value) in values {
        // An empty one takes the header away.
        let value = value.filter(|value| !value.is_empty());
        value.into_iter().for_each(|value| add(&mut headers, format!("{name}: {value}")));
    }
    let is_text = |(flag, _): &(&str, String)| ["data_raw", "data_urlencode"].contains(flag);
    let json = !curl.json.is_empty();
    let piece = |(flag, value): &(&str, String)| match *flag {
        "data_urlencode" => encoded(value),
        _ => Ok(value.clone()),
    };
    let pieces = parts.iter().map(piece).collect::<Result<Vec<String>, String>>()?;
    let names_file = pieces.iter().any(|piece| piece.starts_with('@'));
    if names_file && (parts.iter().any(is_text) || curl.get || 1 < pieces.len()) {
        return Err("a body of several parts, a query or --data-raw begins with @, which names a \
            file here; put the whole body in one file: --data-binary @FILE"
            .to_owned());
    }
    let mut body = (!pieces.is_empty()).then(|| pieces.join(if json { "" } else { "&" }));
    if curl.get
        && let Some(query) = body.take()
    {
        target.push(if target.contains('?') { '&' } else { '?' });
        target.push_str(&literal::url(query));
    }
    if !names_file {
        body = body.map(literal::body);
    }
    if let Some(line) = headers.iter().find(|line| !literal::is_literal(line)) {
        let name = line.split_once(':').map_or("", |(name, _)| name);
        let problem = "has double braces, which a plan takes for a field";
        return Err(format!("the header {name:?} {problem}; leave it out"));
    }
    if json {
        add(&mut headers, "Content-Type: application/json".to_owned());
        add(&mut headers, "Accept: application/json".to_owned());
    } else if body.is_some() {
        add(&mut headers, BODY_TYPE.to_owned());
    }
    if pieces.iter().zip(parts).any(|(piece, (flag, _))| *flag == "data" && piece.starts_with('@'))
    {
        notes.push("curl -d leaves out a file's line breaks; here the file is sent as it is");
    }
    if curl.location {
        notes.push("redirects aren't followed (-L): give the URL that they lead to");
    }
    let endpoint = Endpoint::parse(&target).map_err(|error| error.to_string())?;
    let default = if curl.head {
        "HEAD"
    } else if body.is_some() {
        "POST"
    } else {
        "GET"
    };
    let plan = PlanFile {
        target: Some(target),
        method: Some(curl.request.unwrap_or_else(|| default.to_owned())),
        headers,
        user: curl.user,
        body,
        // Without a limit in curl, the default's applies.
        timeout: curl.max_time.filter(|time| 0 < time.0).map(|time| time.to_string()),
        // Without TLS it changes nothing, to curl either.
        insecure: curl.insecure && endpoint.secure,
        ..PlanFile::default()
    };
    let step = Step {
        method: plan.method.clone(),
        url: plan.target.clone(),
        headers: plan.headers.clone(),
        ..Step::default()
    };
    if let Some(problem) = unsendable(&step) {
        return Err(format!("can't be sent from here: {problem}"));
    }
    let mut secrets = super::secrets(&plan.headers);
    secrets.extend(plan.user.is_some().then(|| "-u".to_owned()));
    Ok(OfCurl { plan, notes, secrets })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> String {
        let of = read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        toml::to_string(&of.plan).expect("TOML")
    }

    #[test]
    fn the_usual_flags_mean_what_they_mean_to_curl() {
        for (line, want) in [
            ("curl localhost:8080", "target = \"http://localhost:8080\"\nmethod = \"GET\"\n"),
            ("curl -sS -X PUT 'http://h/a b' -o /dev/null", ""),
            (
                r#"curl -sS -X DELETE --url http://h/a -H 'A: b' -H "C: d" -u me:pa55 -k -m 2.5 -w x"#,
                "target = \"http://h/a\"\nmethod = \"DELETE\"\nheaders = [\"A: b\", \"C: d\"]\n\
                    user = \"me:pa55\"\ntimeout = \"2.5s\"\n",
            ),
            (
                "curl -k https://h/ -m 0 -A '' -H 'A;' -H 'User-Agent:' -b a=1 -b '' -b 'c=2; d=3'",
                "target = \"https://h/\"\nmethod = \"GET\"\nheaders = [\"A:\", \"Cookie: \
                    a=1;c=2; d=3\"]\ninsecure = true\n",
            ),
            (
                "curl -d a=b -d c=d http://h/",
                "target = \"http://h/\"\nmethod = \"POST\"\nheaders = \
                    [\"Content-Type: application/x-www-form-urlencoded\"]\nbody = \"a=b&c=d\"\n",
            ),
            (
                "curl 'http://h/o' \\\n  -H 'content-type: application/json' \\\n  \
                    --data-raw '{\"a\":\"it'\\''s\"}' --compressed",
                "target = \"http://h/o\"\nmethod = \"POST\"\nheaders = [\"content-type: \
                    application/json\", \"Accept-Encoding: gzip, deflate, br\"]\n\
                    body = \"\"\"{\"a\":\"it's\"}\"\"\"\n",
            ),
            (
                "curl -G http://h/?a=b -d c=d -A me -b e=f -I",
                "target = \"http://h/?a=b&c=d\"\nmethod = \"HEAD\"\nheaders = [\"User-Agent: me\", \
                    \"Cookie: e=f\"]\n",
            ),
            (
                "curl -X PUT --data-binary @f.json http://h/",
                "target = \"http://h/\"\nmethod = \"PUT\"\nheaders = \
                    [\"Content-Type: application/x-www-form-urlencoded\"]\nbody = \"@f.json\"\n",
            ),
            (
                "curl 'http://h/{{a}}?b={c}' -d '{{uuid}}'",
                "target = \"http://h/%7B%7Ba%7D%7D?b={c}\"\nmethod = \"POST\"\nheaders = \
                    [\"Content-Type: application/x-www-form-urlencoded\"]\n\
                    body = \"@data:;base64,e3t1dWlkfX0=\"\n",
            ),
            (
                "curl --data-urlencode 'q=a b&c' -d d=e --data-urlencode =@f http://h/",
                "target = \"http://h/\"\nmethod = \"POST\"\nheaders = \
                    [\"Content-Type: application/x-www-form-urlencoded\"]\n\
                    body = \"q=a%20b%26c&d=e&%40f\"\n",
            ),
            (
                "curl -G http://h/ --data-urlencode q=é",
                "target = \"http://h/?q=%C3%A9\"\nmethod = \"GET\"\n",
            ),
            (
                "curl --json '{}' http://h/",
                "target = \"http://h/\"\nmethod = \"POST\"\nheaders = [\"Content-Type: \
                    application/json\", \"Accept: application/json\"]\nbody = \"{}\"\n",
            ),
        ] {
            if want.is_empty() {
                assert!(read(line).is_err(), "{line}");
            } else {
                assert_eq!(plan(line), want, "{line}");
            }
        }
        let notes = read("curl -L -d @f http://h/").expect("a plan").notes;
        assert!(notes[0].contains("line breaks") && notes[1].contains("redirects"), "{notes:?}");
        let notes = |line| read(line).expect("a plan").notes.len();
        assert_eq!(notes("curl --data-binary @f http://h/"), 0);
        assert_eq!((notes("curl http://[::1]/[1-3]"), notes("curl -g http://[::1]/[1-3]")), (1, 0));
        assert_eq!(notes("curl http://[::1]/"), 0);
    }

    #[test]
    fn what_cannot_be_a_plan_is_refused_without_its_values() {
        for (line, problem) in [
            ("wget http://h/", "doesn't begin with `curl`"),
            ("curl 'http://h/", "a quote isn't closed"),
            ("curl", "has 0 URLs"),
            ("curl http://h/ http://g/?pa55", "has 2 URLs"),
            ("curl -F a=pa55 http://h/", "-F isn't known here; leave it out"),
            ("curl --form a=pa55 http://h/", "--form isn't known here"),
            ("curl -d a=pa55 --json c http://h/", "--data doesn't go with --json; leave one"),
            ("curl http://h/pa55 -d", "--data lacks its value; give it"),
            ("curl --data-urlencode a@pa55 http://h/", "--data-urlencode encodes a file"),
            ("curl --data-raw @pa55 http://h/", "begins with @"),
            ("curl -d @a -d @b http://h/", "begins with @"),
            ("curl http://h/ --data-raw $'pa55\\n'", "$'…' is only for some shells"),
            ("curl http://h/ -H @pa55", "--header names a file"),
            ("curl http://h/ -b pa55", "--cookie names a file"),
            ("curl http://h/ -u pa55", "--user has no password"),
            ("curl http://h/é", "can't be sent from here: the path holds an invalid character"),
            ("curl ftp://h/?pa55", "neither http nor https"),
            ("curl http://h/ -m pa55", "the value of --max-time isn't a number of seconds"),
            ("curl http://h/ -H 'X-Key: {{pa55}}'", "the header \"X-Key\" has double braces"),
        ] {
            let error = read(line).expect_err(line);
            assert!(error.contains(problem) && !error.contains("pa55"), "{line}: {error}");
        }
    }
}
