//! From flags and plan file to the plan: each key of the file is read as the flag of its name, the flags given are laid over
//! the file's, and the engine's own type reads the result.
//!
//! So there is one vocabulary: what a flag takes, the file takes, and what is wrong with a value is said in the flag's words.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use engine::plan::Plan;
use toml::{Spanned, Table, Value};

use crate::args::{self, Command, PlanFlags, ResultArgs, RunArgs};
use crate::failure::Failure;

/// The plan that the flags say, over that of the file if one is named, and where the results go.
///
/// # Errors
/// A file that can't be read or is no plan, as a usage error.
pub(crate) fn plan(args: &RunArgs) -> Result<(Plan, ResultArgs), Failure> {
    let RunArgs { flags, plan: file, results } = args;
    let mut words = Table::new();
    let mut results = results.clone();
    if let Some(path) = file {
        let file = read(path)?;
        words = words_of(&file.flags);
        overrule(&mut words, flags);
        results = results.over(file.results);
    }
    let mut given = words_of(flags);
    // Each bound is overridden by itself: one flag leaves the file's other bounds as they are.
    if let Some(Value::Table(bounds)) = given.remove("thresholds") {
        let kept = words.entry("thresholds").or_insert(Value::Table(Table::new())).as_table_mut();
        kept.expect("bounds are a table").extend(bounds);
    }
    words.extend(given);
    if let Some(url) = &flags.url {
        words.insert("target".to_owned(), Value::String(url.clone()));
    }
    let plan: Plan = words.try_into().expect("the flags are of the plan's types");
    check_thresholds(&plan)?;
    Ok((plan, results))
}

/// Flags under the names of the plan's fields.
fn words_of(flags: &PlanFlags) -> Table {
    Table::try_from(flags).expect("every flag has a form in TOML")
}

/// Takes out of the file's words what can't go together with the flags given. Else the plan would be refused for a flag that
/// the user never gave.
fn overrule(words: &mut Table, given: &PlanFlags) {
    let model = match (given.model.as_deref(), given.rate, given.period) {
        (Some(model), _, _) => model,
        (None, Some(_), None) => "open",
        (None, None, Some(_)) => "closed",
        _ => "",
    };
    let of_the_model: &[&str] = match model {
        "open" => &["model", "period", "backfill"],
        "closed" => &["model", "rate", "overload", "queue_max", "prewarm"],
        _ => &[],
    };
    let is = |flag: &Option<String>, word: &str| flag.as_deref() == Some(word);
    let of_the_rest = [
        (is(&given.overload, "queue"), "queue_max"),
        (is(&given.keepalive, "off"), "requests_per_connection"),
        (given.requests_per_connection.is_some(), "keepalive"),
    ];
    for word in of_the_model {
        words.remove(*word);
    }
    for (_, word) in of_the_rest.iter().filter(|(overruled, _)| *overruled) {
        words.remove(*word);
    }
}

/// A bound that no figure can be held against would make every run pass, or none.
fn check_thresholds(plan: &Plan) -> Result<(), Failure> {
    let bounds = toml::Table::try_from(&plan.thresholds).expect("bounds can be written as TOML");
    let values =
        bounds.iter().map(|(name, value)| (name.as_str(), value.as_float().unwrap_or(f64::NAN)));
    let mut values = values;
    let unusable = values
        .find(|(_, value)| !value.is_finite() || *value < 0.0)
        .map(|(name, value)| (name, value, "give a number from 0 up"));
    match plan.thresholds.misfit().or(unusable) {
        None => Ok(()),
        Some((name, value, cure)) => {
            Err(Failure::Usage(format!("--threshold {name}={value}: is no bound; {cure}")))
        }
    }
}

/// The flags that a plan file stands for.
fn read(path: &Path) -> Result<RunArgs, Failure> {
    let refuse = |problem: String| Failure::Usage(format!("--plan {}: {problem}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| {
        refuse(format!("can't be read ({error}); name a readable file of TOML"))
    })?;
    let line = |at: usize| 1 + text[..at].matches('\n').count();
    let file: BTreeMap<String, Spanned<Value>> = toml::from_str(&text).map_err(|error| {
        let place =
            error.span().map_or_else(String::new, |span| format!("line {}: ", line(span.start)));
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        refuse(format!("{place}{message}; write each line as KEY = VALUE, such as rate = \"20k\""))
    })?;
    let mut entries: Vec<(&String, &Spanned<Value>)> = file.iter().collect();
    entries.sort_by_key(|(_, value)| value.span().start);
    let mut flags = BTreeSet::new();
    let mut words = Vec::new();
    for (key, value) in entries {
        let refuse = |problem| refuse(format!("line {}: {problem}", line(value.span().start)));
        let flag = flag_of(key);
        if flag == "plan" || !args::is_flag_of_run(&flag) {
            let cure = "its keys are the names of flags; see `truetail run --help`";
            return Err(refuse(format!("`{key}` can't stand in a plan file; {cure}")));
        }
        let said = arguments(&flag, value.get_ref());
        // Alone, so that the line is known when it is refused.
        parse(&said).map_err(refuse)?;
        words.extend(said);
        if !flags.insert(flag) {
            return Err(refuse(format!("`{key}` stands there twice; leave one of them")));
        }
    }
    parse(&words).map_err(refuse)
}

/// The flag that a key of the file stands for: its name, with either line between words, or the plural of a list's.
fn flag_of(key: &str) -> String {
    match key {
        "headers" => "header".to_owned(),
        "thresholds" => "threshold".to_owned(),
        _ => key.replace('_', "-"),
    }
}

/// A key and its value as they are given on the command line.
fn arguments(flag: &str, value: &Value) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let with = |text: String| format!("--{flag}={text}");
    match value {
        Value::Array(values) => values.iter().map(text).map(with).collect(),
        Value::Table(values) => {
            values.iter().map(|(name, value)| with(format!("{name}={}", text(value)))).collect()
        }
        // A flag without a value is given, or it isn't.
        Value::Boolean(given) if ["quiet", "allow-invalid"].contains(&flag) => {
            if *given {
                vec![format!("--{flag}")]
            } else {
                Vec::new()
            }
        }
        value => vec![with(text(value))],
    }
}

/// Reads flags of `run` that a file stands for.
///
/// # Errors
/// What is wrong with them, in a line.
fn parse(words: &[String]) -> Result<RunArgs, String> {
    let line = ["truetail", "run"].into_iter().chain(words.iter().map(String::as_str));
    let line: Vec<OsString> = line.map(OsString::from).collect();
    match args::parse(&line) {
        Ok(cli) => match cli.command {
            Command::Run(args) => Ok(*args),
            _ => unreachable!("the command is run"),
        },
        Err(error) => Err(args::one_line(&error, &args::help_for(&line))),
    }
}

#[cfg(test)]
mod tests {
    use engine::sys::units::{CoreList, Nanos, Rate};

    use super::*;

    fn read_both(args: &[&str], file: Option<&str>) -> Result<(Plan, ResultArgs), Failure> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plan.toml");
        if let Some(text) = file {
            fs::write(&path, text).expect("written");
        }
        let words: Vec<String> = args.iter().map(|word| (*word).to_owned()).collect();
        let flags = parse(&words).expect("arguments");
        plan(&RunArgs { plan: file.map(|_| path), ..flags })
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
    fn every_flag_reaches_the_plan() {
        let args = "http://x/ --model closed --rate 333.333333 --arrivals constant --seed 9 --conns 7 --period 1.5ms \
            --duration 1m30s --warmup 0s --timeout 250us --method PUT --body @f --cores 0-1 --wait spin --flush 3 \
            --overload drop --queue-max 3ms --deadline 2s --keepalive off --requests-per-connection 7 \
            --source-addresses 127.0.0.2,::1 --settle 2s --prewarm 5 --expect-status 2xx,404 --backfill on --raw r.bin \
            --threshold busy=0.5 --threshold errors=0";
        let mut args: Vec<&str> = args.split_whitespace().collect();
        args.extend(["--header", "A: b", "--header", "C: d"]);
        let plan = plan_of(&args, None).expect("a plan");
        let words = toml::Table::try_from(plan).expect("a plan can be written as TOML");
        let want = "target = 'http://x/'\nmodel = 'closed'\nrate = 333.333333\narrivals = 'constant'\nseed = 9\n\
            conns = 7\nperiod = '1.5ms'\nduration = '1m30s'\nwarmup = '0s'\ntimeout = '250us'\nmethod = 'PUT'\n\
            headers = ['A: b', 'C: d']\nbody = '@f'\ncores = '0-1'\nwait = 'spin'\nflush = 3\n\
            overload = 'drop'\nqueue_max = '3ms'\ndeadline = '2s'\nkeepalive = 'off'\nrequests_per_connection = 7\n\
            source_addresses = ['127.0.0.2', '::1']\nsettle = '2s'\nprewarm = 5\nexpect_status = '2xx,404'\n\
            backfill = 'on'\nraw = 'r.bin'\n";
        let want: toml::Table = want.parse().expect("TOML");
        for (key, value) in &want {
            assert_eq!(words[key], *value, "{key}");
        }
        let bounds = &words["thresholds"];
        assert_eq!(
            (bounds["busy"].as_float(), bounds["errors"].as_float()),
            (Some(0.5), Some(0.0))
        );
        // Nothing that a plan holds is missing above.
        let missing: Vec<_> = words.keys().filter(|key| !want.contains_key(*key)).collect();
        assert_eq!(missing, ["thresholds"]);
    }

    #[test]
    fn the_words_of_choices_are_those_of_the_plan() {
        for (flag, words) in [
            ("--model", &["open", "closed"][..]),
            ("--arrivals", &["poisson", "constant"]),
            ("--wait", &["sleep", "hybrid", "spin"]),
            ("--overload", &["queue", "drop"]),
            ("--keepalive", &["on", "off"]),
            ("--backfill", &["on", "off"]),
        ] {
            for word in words {
                plan_of(&["http://x/", flag, word], None).expect("a plan");
            }
        }
    }

    #[test]
    fn flags_override_the_file_and_leave_the_rest() {
        let file = "target = \"http://file/\"\nrate = \"5k\"\nseed = 4\nheaders = [\"A: b\"]\n";
        let plan = plan_of(&["--rate", "20k"], Some(file)).expect("a plan");
        assert_eq!(plan.rate.map(Rate::per_second), Some(20_000.0));
        assert_eq!((plan.target.as_str(), plan.seed), ("http://file/", 4));
        assert_eq!(plan.headers, ["A: b"]);
        let plan = plan_of(&["http://flag/", "--header", "C: d"], Some(file)).expect("a plan");
        assert_eq!((plan.target.as_str(), plan.headers), ("http://flag/", vec!["C: d".to_owned()]));
    }

    #[test]
    fn a_bound_of_the_verdict_leaves_the_files_others() {
        let file = "[thresholds]\nbusy = 0.5\nerrors = 0.25\n";
        let plan = plan_of(&["--threshold", "errors=0.5"], Some(file)).expect("a plan");
        assert_eq!((plan.thresholds.busy, plan.thresholds.errors), (0.5, 0.5));
        assert_eq!(plan.thresholds.unsent, Plan::default().thresholds.unsent);
        for bound in ["percentile=1", "schedule_p=0", "drift_p99=0.5", "busy=nan", "errors=-1"] {
            let failure = plan_of(&["http://x/", "--threshold", bound], None).expect_err(bound);
            assert!(failure.to_string().contains("is no bound"), "{failure}");
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
    fn a_file_says_where_the_results_go_and_flags_override() {
        let file = "out = \"a\"\nhdr = \"b\"\ncsv = \"c\"\nraw = \"d\"\nquiet = true\nallow_invalid = true\n";
        let (plan, results) = read_both(&["--out", "e"], Some(file)).expect("a plan");
        let ResultArgs { out, hdr, csv, allow_invalid, quiet } = results;
        assert_eq!((out, hdr, csv), (Some("e".into()), Some("b".into()), Some("c".into())));
        assert_eq!((plan.raw, allow_invalid, quiet), (Some("d".into()), true, true));
        let (_, results) = read_both(&["--quiet"], Some("quiet = false\n")).expect("a plan");
        assert_eq!((results.quiet, results.allow_invalid), (true, false));
    }

    #[test]
    fn a_flag_drops_what_the_file_says_against_it() {
        let open = "rate = \"5k\"\nmodel = \"open\"\noverload = \"drop\"\nqueue_max = \"5ms\"\nprewarm = 3\n";
        let closed = "model = \"closed\"\nperiod = \"5ms\"\nbackfill = \"on\"\n";
        let closing = "keepalive = \"off\"\n";
        let reusing = "requests-per-connection = 7\n";
        for (flags, file) in [
            (["--model", "closed"], open),
            (["--period", "5ms"], open),
            (["--overload", "queue"], open),
            (["--rate", "20k"], closed),
            (["--keepalive", "off"], reusing),
            (["--requests-per-connection", "7"], closing),
        ] {
            let plan = plan_of(&flags, Some(file)).expect("a plan");
            plan.complete(&[0]).unwrap_or_else(|error| panic!("{flags:?}: {error}"));
        }
        // What contradicts itself by flags alone, or in the file alone, stays refused.
        let plan = plan_of(&["--model", "closed", "--rate", "5"], None).expect("a plan");
        assert_eq!(plan.complete(&[0]).expect_err("refused").flag, "--rate");
        let file = "rate = 5\nperiod = \"1ms\"\n";
        let plan = plan_of(&["--seed", "2"], Some(file)).expect("a plan");
        assert_eq!(plan.complete(&[0]).expect_err("refused").flag, "--period");
    }

    #[test]
    fn a_wrong_file_is_told_with_its_line() {
        let headers = "header = \"A: b\"\nheaders = [\"C: d\"]";
        for (file, words) in [
            (
                "target = \"http://x/\"\nrats = 5\n",
                "line 2: `rats` can't stand in a plan file; its keys",
            ),
            ("plan = \"other.toml\"", "line 1: `plan` can't stand in a plan file"),
            ("\n\nduration = 5\n", "line 3: --duration 5: is no duration; write a number with"),
            ("rate = 0", "line 1: --rate 0: is not above zero; give"),
            ("rate = true", "line 1: --rate true: is no rate; give requests per second"),
            ("rate = [1, 2]", "line 1: the argument '--rate <PER_SECOND>' cannot be used multiple"),
            ("seed = 1\nconns = -5", "line 2: --conns -5: is no whole number; give one from 0"),
            ("cores = \"a\"", "line 1: --cores a: is no list of cores; write"),
            ("keepalive = true", "line 1: --keepalive true: is unknown; choose from on, off"),
            ("quiet = 5", "line 1: unexpected value '5' for '--quiet'"),
            ("[thresholds]\nspeed = 1", "line 1: --threshold speed=1: is unknown; the names are"),
            ("[thresholds]\nbusy = \"x\"", "--threshold busy=x: has no number"),
            (headers, "line 2: `headers` stands there twice; leave one"),
            ("rate = ", "line 1: "),
        ] {
            let failure = plan_of(&[], Some(file)).expect_err(words);
            assert!(matches!(failure, Failure::Usage(_)));
            let text = failure.to_string();
            assert!(text.starts_with("--plan ") && text.contains(words), "{text}");
            assert!(!text.contains('\n'), "{text}");
        }
    }
}
