//! Makes the plan from a plan file and flags: flags override the file, which overrides the
//! defaults.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use engine::plan::data::{DataFile, End};
use engine::plan::scenario::Scenario;
use engine::plan::{Arrivals, DURATION_MAX, Plan, PlanError};
use engine::sys::units::Nanos;
use toml::Spanned;
use toml::de::DeTable;

use crate::args::{self, Flag, Given, ResultArgs, RunArgs, Settings, is_named};
use crate::failure::{Failure, tell};

/// The type of a posted body if no header names one, as in curl and wget.
const BODY_TYPE: &str = "application/x-www-form-urlencoded";

/// The plan of these commands, and the files of its results. The first command is the one that was
/// typed; a flag that any of them can't use is refused.
///
/// # Errors
/// A usage error: the plan file can't be read, it has a key or value that no flag takes, or a
/// command refuses a flag.
pub(crate) fn plan(commands: &[&str], args: &RunArgs) -> Result<(Plan, ResultArgs), Failure> {
    let plan = args::defaults(commands.first().copied().unwrap_or_default());
    let mut settings = Settings { plan, ..Settings::default() };
    let file = args.plan.as_deref().map(read).transpose()?.unwrap_or_default();
    let flags = &args.flags;
    for given in [&file, flags] {
        let authorizes = |line: &OsString| is_named(&line.to_string_lossy(), "Authorization");
        if given.has("user") && given.words("header").iter().any(authorizes) {
            let problem = "--user: --header sets Authorization too; give one of them";
            return Err(Failure::Usage(problem.to_owned()));
        }
        refuse_repeated_data(given.words("data"))?;
    }
    let is_given = |name| file.has(name) || flags.has(name);
    if is_given("requests") && !flags.has("stages") {
        // Their number ends the window, and the target gets no other requests.
        (settings.plan.duration, settings.plan.warmup) = (DURATION_MAX, Nanos(0));
    }
    file.lay_over(&mut settings);
    let mut alone = Settings::default();
    flags.lay_over(&mut alone);
    settings.plan.drop_conflicts(&alone.plan);
    flags.lay_over(&mut settings);
    if settings.plan.replay.is_some() {
        // A plan knows its arrivals, not whether they are a default, which a log replaces.
        let arrivals = settings.plan.arrivals;
        let is_own = flags.has("arrivals") || !flags.has("replay") && file.has("arrivals");
        if is_own && arrivals == Arrivals::Poisson {
            let problem = "the log sets when requests come";
            let error = PlanError::new("--arrivals", "poisson", problem, "omit it, or --replay");
            return Err(Failure::Usage(error.to_string()));
        }
        let is_own = flags.has("method") || !flags.has("replay") && file.has("method");
        if is_own {
            let method = &settings.plan.method;
            let problem = "the log of --replay has the methods";
            let error = PlanError::new("--method", method, problem, "omit one of the two");
            return Err(Failure::Usage(error.to_string()));
        }
        settings.plan.method = Plan::default().method;
        // The log has its own length, and nothing comes before its first request. Many runs take
        // only its start.
        let Plan { duration, warmup, .. } = &mut settings.plan;
        let is_cut = is_given("duration") || commands.contains(&"ab");
        *duration = if is_cut { *duration } else { DURATION_MAX };
        *warmup = if is_given("warmup") { *warmup } else { Nanos(0) };
    }
    if flags.has("duration") && !settings.plan.stage.is_empty() {
        let given = settings.plan.duration;
        let problem = "the stages of the plan file set the length of the window";
        return Err(Failure::Usage(format!("--duration {given}: {problem}; omit one of them")));
    }
    if settings.plan.takes_rows_once() {
        // The rows end the window, unless a length is given, and the target gets no others.
        if !is_given("warmup") {
            settings.plan.warmup = Nanos(0);
        }
        let stops = |data: &DataFile| data.end == End::Stop;
        let is_long = is_given("duration") || is_given("stages");
        if settings.plan.data.values().any(stops) && !is_long {
            settings.plan.duration = DURATION_MAX;
        }
    }
    for command in commands {
        flags.refuse(command, &settings)?;
        file.refuse(command, &settings)?;
    }
    let Settings { mut plan, mut results, targets } = settings;
    if let Some(targets) = targets {
        let said;
        (plan.scenario, said) = args::scenarios(&targets)?;
        plan.has_tables = said.is_none();
        said.iter().filter(|_| !results.quiet).for_each(|line| tell(line));
        // As on the command line, a body makes a request a POST.
        let without_method = plan.scenario.iter_mut().flat_map(|it| &mut it.step);
        for step in without_method.filter(|step| step.body.is_some() && !is_given("method")) {
            step.method.get_or_insert_with(|| "POST".to_owned());
        }
        let first = plan.scenario.first().and_then(|scenario| scenario.step[0].url.clone());
        let is_whole = |url: &String| !url.starts_with('/') && url.contains("://");
        match first.filter(|_| plan.target.is_empty()) {
            Some(url) if is_whole(&url) => plan.target = url,
            Some(url) if url.starts_with('/') => {
                let problem = format!("--targets: the first request has only a path, {url}");
                return Err(Failure::Usage(format!("{problem}; give the URL of its host too")));
            }
            _ => {}
        }
    }
    let has_objective = |scenario: &Scenario| scenario.step.iter().any(|it| it.slo.is_some());
    let slo = args::flag_of("slo").expect("it is in the table");
    if let Some(command) = commands.iter().find(|command| slo.refusal(command, &[]).is_some())
        && plan.scenario.iter().any(has_objective)
        && !results.quiet
    {
        tell(&format!("slo: `{command}` doesn't judge the objectives of single routes"));
    }
    if plan.body.is_some() && !is_given("method") {
        results.assumed = post(&mut plan);
    }
    Ok((plan, results))
}

/// Refuses two files of one name. Each word was read before, so it has a name.
fn refuse_repeated_data(words: &[OsString]) -> Result<(), Failure> {
    let words = words.iter().map(|word| word.to_string_lossy());
    let mut names: Vec<String> = Vec::new();
    for word in words {
        let name = word.split('=').next().unwrap_or_default().to_owned();
        if names.contains(&name) {
            let problem = "two files have this name; give each its own";
            return Err(Failure::Usage(format!("--data {name}: {problem}")));
        }
        names.push(name);
    }
    Ok(())
}

/// Makes the request a POST, unless a log has the methods, of the usual type unless a header names
/// another; returns a note on it.
fn post(plan: &mut Plan) -> Option<String> {
    let mut assumed = Vec::new();
    if plan.replay.is_none() {
        plan.method = "POST".to_owned();
        assumed.push("the method is POST (--method)".to_owned());
    }
    if !plan.headers.iter().any(|line| is_named(line, "Content-Type")) {
        plan.headers.push(format!("Content-Type: {BODY_TYPE}"));
        assumed.push(format!("the type is {BODY_TYPE} (--header 'Content-Type: …')"));
    }
    (!assumed.is_empty()).then(|| format!("--body: {}", assumed.join(", ")))
}

/// The flags in a plan file.
fn read(path: &Path) -> Result<Given, Failure> {
    let refuse = |problem: String| Failure::Usage(format!("--plan {}: {problem}", path.display()));
    let text = fs::read_to_string(path)
        .map_err(|error| refuse(format!("can't be read ({error}); give a readable TOML file")))?;
    let line = |at: usize| 1 + text[..at].matches('\n').count();
    let table = DeTable::parse(&text).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        let problem = error.message().lines().collect::<Vec<_>>().join(", ");
        let cure = "write each line as KEY = VALUE, e.g. rate = \"20k\"";
        refuse(format!("line {}: {problem}; {cure}", line(at)))
    })?;
    // In the file's order, so that the error about a repeated key names the second line.
    let place = |key: &Spanned<_>, value: &Spanned<_>| key.span().start.min(value.span().start);
    let mut entries: Vec<_> = table.into_inner().into_iter().collect();
    entries.sort_by_key(|(key, value)| place(key, value));
    let mut given = Given::default();
    let mut seen: Vec<(&Flag, usize)> = Vec::new();
    for (key, value) in entries {
        let at = line(place(&key, &value));
        let key = key.get_ref();
        let wrong = |problem| refuse(format!("line {at}: {problem}; see `truetail run --help`"));
        let Some(flag) = args::flag_of(key) else {
            // A header used as a key may be a secret.
            if !args::is_bare(key) {
                return Err(wrong("unknown key: keys are the names of flags".to_owned()));
            }
            let problem = match args::key_like(key) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "keys are the names of flags".to_owned(),
            };
            return Err(wrong(format!("unknown key `{key}`: {problem}")));
        };
        let typed = flag.typed();
        if seen.iter().any(|(other, _)| other.name() == flag.name()) {
            return Err(refuse(format!("line {at}: `{key}` repeats {typed}; keep one")));
        }
        seen.push((flag, at));
        let named = if flag.has_tables(key) { format!("[[{key}]]") } else { typed.clone() };
        if let Some(words) =
            flag.read(value).map_err(|problem| wrong(format!("{named}: {problem}")))?
        {
            given.add(flag, words);
        }
    }
    for (flag, at) in seen.iter().filter(|(flag, _)| given.has(flag.name())) {
        if let Some(other) = flag.excluded().iter().find(|other| given.has(other)) {
            let problem = format!("`{}` contradicts `{other}`; keep one", flag.name());
            return Err(refuse(format!("line {at}: {problem}")));
        }
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use engine::plan::endpoint::Endpoint;
    use engine::sys::units::{CoreList, Nanos, Rate};

    use super::*;
    use crate::args::Command;
    use crate::gate::FailOn;
    use crate::progress::Progress;

    fn read_both(args: &[&str], file: Option<&str>) -> Result<(Plan, ResultArgs), Failure> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plan.toml");
        if let Some(text) = file {
            fs::write(&path, text).expect("written");
        }
        let line = ["truetail", "run"].iter().chain(args).map(OsString::from);
        let Command::Run(args) = args::parse(&line.collect::<Vec<_>>()).expect("arguments").command
        else {
            panic!("the command is run");
        };
        plan(&["run"], &RunArgs { plan: file.map(|_| path), ..*args })
    }

    fn plan_of(args: &[&str], file: Option<&str>) -> Result<Plan, Failure> {
        read_both(args, file).map(|(plan, _)| plan)
    }

    #[test]
    fn no_flags_are_the_plans_defaults() {
        let want = Plan { target: "http://x/".to_owned(), ..Plan::default() };
        assert_eq!(plan_of(&["http://x/"], None).expect("a plan"), want);
        assert_eq!(plan_of(&["--target", "http://x/"], None).expect("a plan"), want);
    }

    #[test]
    fn a_url_without_a_scheme_is_http() {
        for (given, url) in [
            ("localhost:8080", "http://localhost:8080"),
            ("example.test/a?b=c://d", "http://example.test/a?b=c://d"),
            ("localhost", "http://localhost"),
            ("[::1]:8080/x", "http://[::1]:8080/x"),
            ("::1", "http://[::1]"),
            ("fe80::1/x", "http://[fe80::1]/x"),
            ("127.0.0.1:80?q", "http://127.0.0.1:80?q"),
            ("HTTPS://h/", "HTTPS://h/"),
            ("ftp://h/", "ftp://h/"),
        ] {
            assert_eq!(plan_of(&[given], None).expect(given).target, url);
            let file = format!("target = '{given}'\n");
            assert_eq!(plan_of(&[], Some(&file)).expect(given).target, url);
        }
        let error = Endpoint::parse("ftp://h/").expect_err("refused").to_string();
        assert!(error.starts_with("--target ftp://h/: the scheme is neither http nor https; give"));
    }

    #[test]
    fn counts_may_be_written_like_rates() {
        for (given, conns) in [("10k", 10_000), ("1e3", 1_000), ("1.5k", 1_500), ("7", 7)] {
            assert_eq!(plan_of(&["http://x/", "-c", given], None).expect(given).conns, Some(conns));
            let file = format!("conns = '{given}'\n");
            assert_eq!(plan_of(&[], Some(&file)).expect(given).conns, Some(conns));
        }
        let plan = plan_of(&["http://x/", "-n", "2M"], None).expect("a plan");
        assert_eq!(plan.requests, Some(2_000_000));
        for given in ["1.5", "0.0001k", "2M", "k", "-1k"] {
            let file = format!("conns = '{given}'\n");
            let failure = plan_of(&[], Some(&file)).expect_err(given).to_string();
            assert!(failure.contains("give a whole number from 1 to 1000000"), "{failure}");
        }
    }

    #[test]
    fn rows_that_are_taken_once_leave_no_warm_up_and_may_end_the_run() {
        for (args, [warmup_s, duration_s]) in [
            (&["--data", "a=a.csv"][..], [5, 30]),
            (&["--data", "a=a.csv,stop"], [0, DURATION_MAX.0 / 1_000_000_000]),
            (&["--data", "a=a.csv,stop", "-d", "7"], [0, 7]),
            (&["--data", "a=a.csv,fail"], [0, 30]),
            (&["--data", "a=a.csv,fail", "--warmup", "3s"], [3, 30]),
        ] {
            let plan = plan_of(&[&["http://x/"], args].concat(), None).expect("a plan");
            let lengths = [plan.warmup, plan.duration];
            assert_eq!(lengths, [warmup_s, duration_s].map(Nanos::from_secs), "{args:?}");
        }
        let file = "target = 'http://x/'\n[data]\nusers = 'users.csv,random'\n";
        let by_flag = plan_of(&["http://x/", "--data", "users=users.csv,random"], None);
        assert_eq!(plan_of(&[], Some(file)).expect("a plan"), by_flag.expect("a plan"));
    }

    #[test]
    fn a_name_of_data_has_one_file() {
        let flags = ["http://x/", "--data", "a=a.csv", "--data", "b=b.csv", "--data", "a=c.csv"];
        let problem = "--data a: two files have this name; give each its own";
        assert_eq!(plan_of(&flags, None).expect_err("refused").to_string(), problem);
        assert_eq!(plan_of(&flags[..5], None).expect("a plan").data.len(), 2);
        let file = "target = 'http://x/'\ndata = ['a=a.csv', 'a=b.csv']\n";
        assert_eq!(plan_of(&[], Some(file)).expect_err("refused").to_string(), problem);
    }

    #[test]
    fn requests_in_a_plan_file_are_known_as_such() {
        let file = "target = 'http://x/'\n[[scenario]]\n[[scenario.step]]\nurl = 'a b'\n";
        let plan = plan_of(&[], Some(file)).expect("a plan");
        let error = plan.complete(&[0]).expect_err("refused").to_string();
        assert!(error.starts_with("[[scenario]] #1: a b isn't a URL and"), "{error}");
    }

    #[test]
    fn a_log_has_the_methods() {
        let file = "target = 'http://x/'\nmethod = 'PUT'\n";
        let log = ["--replay", "a.log"];
        let plan = plan_of(&log, Some(file)).expect("the flag overrides the file");
        assert_eq!(plan.method, "GET");
        let with_log = format!("{file}replay = 'a.log'\n");
        let without = "target = 'http://x/'\nreplay = 'a.log'\n";
        for (args, file) in [
            (&["http://x/", "--replay", "a.log", "-m", "PUT"][..], None),
            (&[], Some(with_log.as_str())),
            (&["-m", "put"], Some(without)),
        ] {
            let error = plan_of(args, file).expect_err("two methods").to_string();
            let want = "--method PUT: the log of --replay has the methods; omit one of the two";
            assert_eq!(error, want, "{args:?}");
        }
        let posted = ["http://x/", "--replay", "a.log", "-b", "x"];
        let (plan, results) = read_both(&posted, None).expect("a plan");
        assert_eq!((plan.method.as_str(), plan.headers.len()), ("GET", 1));
        let assumed = results.assumed.expect("a type");
        assert!(assumed.starts_with("--body: the type is ") && !assumed.contains("POST"));
    }

    #[test]
    fn each_run_has_a_trace_number_of_its_own() {
        let trace =
            |args: &[&str]| plan_of(&[&["http://x/"], args].concat(), None).expect("a plan").trace;
        assert_eq!((trace(&[]), trace(&["--trace=7"])), (None, Some(7)));
        assert_ne!(trace(&["--trace"]), trace(&["--trace"]));
        let plan = plan_of(&["--trace", "http://y/"], Some("trace = false\n")).expect("a plan");
        assert!(plan.trace.is_some() && plan.target == "http://y/", "{plan:?}");
    }

    #[test]
    fn every_flag_reaches_the_plan() {
        let args = "http://x/ --model closed --rate 333.333333 --arrivals constant --seed 9 \
            --conns 7 --duration 1m30s --warmup 0s --timeout 250us --method PUT \
            --body @f --cores 0-1 --wait spin --stamps user --stamp-sends 1/50 --flush 3 \
            --pipeline 4 --http 2 --streams 6 --overload drop --queue-max 3ms --deadline 2s --keepalive off \
            --requests-per-connection 7 --connection-lifetime 30s --source-addresses 127.0.0.2,::1 --settle 2s \
            --settle-min 1s --prewarm 5 --spare 3 --expect-status 2xx,404 \
            --slo p99<20ms,errors<0.1% \
            --raw r.bin --threshold busy=0.5 --threshold errors=0 --requests 8 \
            --connect-to h:1 --resolve x:80:127.0.0.1 --unix s --cacert c --cert d --key e \
            --insecure --tls-session resume --order round-robin --data a=b.csv,random --trace=5 \
            --slowest 3 --sessions-max 7 --expect-header X-Id --body-max 9 --decompress";
        let mut args: Vec<&str> = args.split_whitespace().collect();
        args.extend(["--header", "A: b", "--header", "C: d", "--expect-body", "contains ok"]);
        let plan = plan_of(&args, None).expect("a plan");
        let words = toml::Table::try_from(plan).expect("a plan can be written as TOML");
        let want = "target = 'http://x/'\nmodel = 'closed'\nrate = 333.333333\n\
            arrivals = 'constant'\nseed = 9\nconns = 7\nduration = '1m30s'\n\
            warmup = '0s'\ntimeout = '250us'\nmethod = 'PUT'\nheaders = ['A: b', 'C: d']\n\
            body = '@f'\ncores = '0-1'\nwait = 'spin'\nstamps = 'user'\n\
            stamp_sends = '1/50'\nflush = 3\npipeline = 4\nhttp = '2'\nstreams = 6\noverload = 'drop'\n\
            queue_max = '3ms'\ndeadline = '2s'\nkeepalive = 'off'\n\
            requests_per_connection = 7\nconnection_lifetime = '30s'\nsource_addresses = ['127.0.0.2', '::1']\n\
            settle = '2s'\nsettle_min = '1s'\nprewarm = 5\nspare = 3\n\
            expect_status = '2xx,404'\nslo = 'p99<20ms,errors<0.1%'\n\
            raw = 'r.bin'\nrequests = 8\nconnect_to = ['h:1']\nresolve = ['x:80:127.0.0.1']\n\
            unix = 's'\ncacert = 'c'\ncert = 'd'\nkey = 'e'\ninsecure = true\n\
            tls_session = 'resume'\norder = 'round-robin'\n\
            data = { a = 'b.csv,random' }\ntrace = 5\nslowest = 3\n\
            sessions_max = 7\nexpect_header = ['X-Id']\nexpect_body = ['contains ok']\nbody_max = 9\n\
            decompress = true\n";
        let want: toml::Table = want.parse().expect("TOML");
        for (key, value) in &want {
            assert_eq!(words[key], *value, "{key}");
        }
        let bounds = &words["thresholds"];
        assert_eq!(
            (bounds["busy"].as_float(), bounds["errors"].as_float()),
            (Some(0.5), Some(0.0))
        );
        // Only these fields are set by a table or contradict the others.
        let schema = schemars::schema_for!(Plan);
        let fields = schema.as_value()["properties"].as_object().expect("fields").keys();
        let missing: BTreeSet<_> = fields.filter(|field| !want.contains_key(*field)).collect();
        let others = ["period", "replay", "scenario", "speed", "spread", "stage", "thresholds"];
        assert!(missing.into_iter().eq(others));
    }

    #[test]
    fn flags_override_the_file_and_keep_the_rest() {
        let file = "target = \"http://file/\"\nrate = \"5k\"\nseed = 4\nheaders = [\"A: b\"]\n";
        let plan = plan_of(&["--rate", "20k"], Some(file)).expect("a plan");
        assert_eq!(plan.rate.map(Rate::per_second), Some(20_000.0));
        assert_eq!((plan.target.as_str(), plan.seed), ("http://file/", 4));
        assert_eq!(plan.headers, ["A: b"]);
        let plan = plan_of(&["http://flag/", "--header", "C: d"], Some(file)).expect("a plan");
        assert_eq!((plan.target.as_str(), plan.headers), ("http://flag/", vec!["C: d".to_owned()]));
    }

    #[test]
    fn a_threshold_by_flag_keeps_the_files_other_thresholds() {
        let file = "[thresholds]\nbusy = 0.5\nerrors = 0.25\n";
        let plan = plan_of(&["--threshold", "errors=0.5"], Some(file)).expect("a plan");
        assert_eq!((plan.thresholds.busy, plan.thresholds.errors), (0.5, 0.5));
        assert_eq!(plan.thresholds.unsent, Plan::default().thresholds.unsent);
        for bound in ["percentile=1", "errors=-1"] {
            let plan = plan_of(&["http://x/", "--threshold", bound], None).expect("a plan");
            let error = plan.complete(&[0]).expect_err(bound);
            assert_eq!((error.flag, error.value.as_str()), ("--threshold", bound));
        }
    }

    #[test]
    fn a_plan_of_the_engine_is_a_plan_file() {
        let plan = Plan {
            target: "http://x/".to_owned(),
            rate: Some("333.333333".parse().expect("a rate")),
            headers: vec!["A: b".to_owned(), "C: d=e".to_owned()],
            cores: Some(CoreList::new(vec![0, 1, 3])),
            queue_max: Some(Nanos(1_500)),
            source_addresses: vec!["::1".parse().expect("an address")],
            raw: Some("r.bin".into()),
            ..Plan::default()
        };
        let text = toml::to_string(&plan).expect("text");
        assert_eq!(plan_of(&[], Some(&text)).expect("a plan"), plan);
    }

    #[test]
    fn keys_are_the_names_of_flags() {
        for (one, other) in [
            ("header = \"A: b\"", "headers = [\"A: b\"]"),
            ("queue-max = \"5ms\"", "queue_max = \"5ms\""),
            ("cores = 0", "cores = \"0\""),
            ("rate = 5_000", "rate = \"5k\""),
            ("source-addresses = \"127.0.0.2,::1\"", "source_addresses = [\"127.0.0.2\", \"::1\"]"),
            ("threshold = [\"busy=0.5\", \"errors=0\"]", "[thresholds]\nbusy = 0.5\nerrors = 0"),
        ] {
            let plans = [one, other].map(|text| plan_of(&[], Some(text)).expect(text));
            assert_eq!(plans[0], plans[1], "{one}");
            assert_ne!(plans[0], Plan::default(), "{one}");
        }
    }

    #[test]
    fn a_file_sets_where_the_results_go_and_flags_override_it() {
        let files = [
            ("csv", "c"),
            ("flamegraph", "f.svg"),
            ("hdr", "b"),
            ("junit", "j"),
            ("ndjson", "n"),
            ("out", "a"),
            ("prom", "p.prom"),
        ];
        let keys = files.map(|(flag, path)| format!("{flag} = '{path}'\n")).concat();
        let file = "calibration = 'k'\nraw = 'd'\nquiet = true\nallow_invalid = true\n\
            fail-on = ['undecided', 'suspect']\nlabel = 'nightly'\n\
            tags = ['commit=1a2b3c', 'by=me=you']\n";
        let (_, results) = read_both(&[], Some(&keys)).expect("a plan");
        let named = results.files.iter().map(|(flag, path)| (&**flag, path.to_str()));
        assert!(named.eq(files.map(|(flag, path)| (flag, Some(path)))), "{results:?}");
        let both = format!("{keys}{file}");
        let (plan, results) = read_both(&["--out", "e"], Some(&both)).expect("a plan");
        assert_eq!(results.files["out"], Path::new("e"));
        assert_eq!((results.progress, results.live), (None, false));
        assert_eq!(results.fail_on, [FailOn::Undecided, FailOn::Suspect]);
        assert_eq!(results.label.as_deref(), Some("nightly"));
        let tags: Vec<_> = results.tags.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(tags, [("by", "me=you"), ("commit", "1a2b3c")]);
        assert_eq!(results.calibration, Some("k".into()));
        assert_eq!(plan.raw, Some("d".into()));
        assert_eq!((results.allow_invalid, results.quiet), (true, true));
        let (_, results) =
            read_both(&["--progress", "lines"], Some("quiet = true\n")).expect("a plan");
        assert_eq!((results.progress, results.quiet), (Some(Progress::Lines), false));
        let (_, results) = read_both(&["--quiet"], Some("progress = 'bar'\n")).expect("a plan");
        assert_eq!((results.progress, results.quiet), (None, true));
        let (_, results) = read_both(&["--quiet"], Some("live = true\n")).expect("a plan");
        assert_eq!((results.live, results.quiet), (false, true));
        let (_, results) = read_both(&["--live"], Some("quiet = true\n")).expect("a plan");
        assert_eq!((results.live, results.quiet), (true, false));
        let file = "live = true\nprogress = 'lines'\n";
        let (_, results) = read_both(&["--progress", "off"], Some(file)).expect("a plan");
        assert_eq!((results.live, results.progress), (true, Some(Progress::Off)));
        for args in [["-q", "--progress", "off"].as_slice(), &["--progress=off", "--quiet"]] {
            let (_, results) = read_both(args, None).expect("both mean the same");
            assert_eq!((results.progress, results.quiet), (None, true));
        }
        let both = ["truetail", "run", "-q", "--progress", "bar"].map(OsString::from);
        assert!(args::parse(&both).is_err(), "a bar isn't quiet");
        let (_, results) = read_both(&["--quiet"], Some("quiet = false\n")).expect("a plan");
        assert_eq!((results.quiet, results.allow_invalid), (true, false));
    }

    #[test]
    fn a_flag_drops_the_keys_that_contradict_it() {
        let open = "rate = '5k'\nmodel = 'open'\noverload = 'drop'\nqueue_max = '5ms'\n\
            prewarm = 3\n";
        let closed = "model = \"closed\"\nperiod = \"5ms\"\n";
        let closing = "keepalive = \"off\"\n";
        let reusing = "requests-per-connection = 7\n";
        let pipelined = "pipeline = 4\n";
        for (flags, file) in [
            (["--model", "closed"], open),
            (["--period", "5ms"], open),
            (["--overload", "queue"], open),
            (["--rate", "20k"], closed),
            (["--keepalive", "off"], reusing),
            (["--requests-per-connection", "7"], closing),
            (["--keepalive", "off"], pipelined),
            (["--requests-per-connection", "2"], pipelined),
            (["--pipeline", "4"], closing),
            (["--pipeline", "8"], reusing),
            (["--pipeline", "4"], closed),
        ] {
            let plan = plan_of(&flags, Some(file)).expect("a plan");
            plan.complete(&[0]).unwrap_or_else(|error| panic!("{flags:?}: {error}"));
        }
        // Contradictions among flags alone, or within the file, are still refused.
        let plan = plan_of(&["--model", "closed", "--rate", "5"], None).expect("a plan");
        assert_eq!(plan.complete(&[0]).expect_err("refused").flag, "--rate");
        let file = "rate = 5\nperiod = \"1ms\"\n";
        let error = plan_of(&["--seed", "2"], Some(file)).expect_err("refused").to_string();
        assert!(error.contains("`period` contradicts `rate`; keep one"), "{error}");
    }

    #[test]
    fn an_error_in_a_file_is_reported_with_its_line() {
        let headers = "header = \"A: b\"\nheaders = [\"C: d\"]";
        for (file, words) in [
            (
                "target = \"http://x/\"\ncolour = 5\n",
                "line 2: unknown key `colour`: keys are the names of flags; see",
            ),
            ("rat = 5", "line 1: unknown key `rat`: did you mean `rate`?; see `truetail run"),
            ("seed = 1\n[[scenaro]]\n", "line 2: unknown key `scenaro`: did you mean `scenario`?"),
            ("queue_mx = 1", "unknown key `queue_mx`: did you mean `queue_max`?"),
            ("header = ['A: b']\n[treshold]\n", "`treshold`: did you mean `threshold`?"),
            (
                "seed = 1\n[stage]\nrate = 5\nduration = '1s'",
                "line 2: [[stage]]: one table, not a list of them: write [[stage]] above each; see",
            ),
            (
                "[scenario]\n[[scenario.step]]",
                "[[scenario]]: one table, not a list of them: write [[scenario]] above",
            ),
            ("plan = \"other.toml\"", "line 1: unknown key `plan`"),
            ("url = \"http://x/\"", "line 1: unknown key `url`"),
            (
                "\n\nduration = '5x'\n",
                "line 3: --duration: invalid duration `5x`: give seconds, or",
            ),
            ("rate = 0", "line 1: --rate: invalid rate `0`: must be above 0"),
            ("rate = true", "line 1: --rate: invalid rate `true`: give requests per second"),
            ("rate = [1, 2]", "line 1: --rate: invalid value: give one text or number"),
            ("seed = 1\nconns = -5", "line 2: --conns: invalid number `-5`: give a whole number"),
            ("cores = \"a\"", "line 1: --cores: invalid core list `a`: give"),
            ("keepalive = true", "--keepalive: unknown variant `true`, expected `on` or `off`"),
            ("source-addresses = \"::1,here\"", "--source-addresses: invalid address `here`: give"),
            (
                "slo = \"p99<20\"",
                "line 1: --slo: invalid objectives `p99<20`: invalid time `20`; give",
            ),
            ("raw = \"-x\"", "--raw: invalid file name `-x`: looks like a flag, write ./-x"),
            (
                "flamegraph = \"a.png\"",
                "line 1: --flamegraph: invalid file name `a.png`: it must end in .svg, .folded or",
            ),
            ("quiet = 5", "line 1: --quiet: invalid type: integer `5`, expected a boolean"),
            ("progress = 'ba'", "line 1: --progress: unknown variant `ba`, expected one of"),
            ("progress = 'off'\nquiet = true", "line 2: `quiet` contradicts `progress`; keep one"),
            ("live = true\nquiet = true", "line 2: `quiet` contradicts `live`; keep one"),
            (
                "seed = 1\n[thresholds]\nspeed = 1",
                "--threshold: unknown threshold `speed=1`: choose",
            ),
            (
                "seed = 1\n[thresholds]\nbusy = \"x\"",
                "--threshold: invalid threshold `busy=…`: give",
            ),
            (
                "seed = 1\n[[scenario]]\n[[scenario.step]]\n[[scenario]]\nname = 'a'\n\
                    [[scenario.step]]\nurl = '/a'\n[[scenario.step]]\nthink = 'long'",
                "line 2: [[scenario]]: scenario #2: invalid think time `long`: give `1s`",
            ),
            (
                "[[scenario]]\nstep = []",
                "line 1: [[scenario]]: scenario #1: a scenario without steps",
            ),
            ("[[scenario]]\n[[scenario.step]]\nuri = '/'", "scenario #1: unknown field `uri`"),
            (
                "[[scenario]]\n[[scenario.step]]\nheaders = 'X-Key: pa55'",
                "scenario #1: invalid type: string, expected a sequence",
            ),
            (headers, "line 2: `headers` repeats --header; keep one"),
            (
                "queue_max = \"1ms\"\n\nqueue-max = \"1ms\"",
                "line 3: `queue-max` repeats --queue-max",
            ),
            ("seed = 1\nseed = 2", "line 2: duplicate key"),
            ("seed = 1\nrate = ", "line 2: "),
            ("seed = 1\nrate", "line 2: "),
        ] {
            let failure = plan_of(&[], Some(file)).expect_err(words);
            assert!(matches!(failure, Failure::Usage(_)));
            let text = failure.to_string();
            assert!(text.starts_with("--plan ") && text.contains(words), "{text}");
            assert!(
                !text.contains('\n') && text.contains(": line ") && text.contains("; "),
                "{text}"
            );
        }
    }

    #[test]
    fn an_empty_value_is_refused() {
        for file in [
            "rate = []",
            "rate = \"\"",
            "duration = \"\"",
            "conns = \"\"",
            "conns = []",
            "cores = \"\"",
            "cores = []",
            "model = \"\"",
            "expect_status = \"\"",
            "slo = \"\"",
            "headers = []",
            "headers = [\"\"]",
            "headers = [\"A: b\", \"\"]",
            "header = \"\"",
            "source_addresses = []",
            "source_addresses = \"\"",
            "source_addresses = [\"::1\", \"\"]",
            "threshold = []",
            "threshold = \"\"",
            "[thresholds]",
            "[thresholds]\nbusy = \"\"",
            "body = []",
            "raw = \"\"",
            "out = \"\"",
            "out = []",
            "stage = []",
            "scenario = []",
            "quiet = []",
            "quiet = \"\"",
        ] {
            let failure = plan_of(&["http://x/"], Some(file)).expect_err(file).to_string();
            assert!(failure.contains(": line "), "{file}: {failure}");
        }
        // Target and method are refused later, with the request; an empty body is a body.
        let plan = plan_of(&[], Some("target = \"\"\nmethod = \"\"\nbody = \"\"")).expect("a plan");
        assert_eq!((plan.target.as_str(), plan.method.as_str()), ("", ""));
        assert_eq!(plan.body.as_deref(), Some(""));
    }

    #[test]
    fn no_error_shows_a_possible_secret() {
        for file in [
            "headers = { Authorization = \"pa55\" }",
            "headers = [[\"pa55\"]]",
            "headers = [\"A: pa55\", []]",
            "headers = [\"A: pa55\"]\nheader = \"B: pa55\"",
            "headers = [\"A: pa55\"",
            "headers = \"A: pa55",
            "headers = pa55",
            "target = [\"http://h/?token=pa55\"]",
            "target = { url = \"http://h/?token=pa55\" }",
            "target = http://h/?token=pa55",
            "target = \"http://h/?token=pa55",
            "body = [\"pa55\"]",
            "body = \"pa55",
        ] {
            let failure = plan_of(&[], Some(file)).expect_err(file).to_string();
            assert!(failure.contains(": line 1: ") || failure.contains(": line 2: "), "{failure}");
            assert!(!failure.contains("pa55"), "{failure}");
        }
    }
}
