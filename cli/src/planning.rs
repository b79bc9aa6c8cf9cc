//! From flags and plan file to the plan: the flags given are laid over the file, and the engine's own type reads the result.

use std::fs;
use std::path::Path;

use engine::plan::Plan;

use crate::args::PlanFlags;
use crate::failure::Failure;

/// The plan that the flags say, over that of the file if one is named.
///
/// # Errors
/// A file that can't be read or is no plan, as a usage error.
pub(crate) fn plan(flags: &PlanFlags, file: Option<&Path>) -> Result<Plan, Failure> {
    let mut words = match file {
        None => toml::Table::new(),
        Some(path) => read(path)?,
    };
    let mut given = toml::Table::try_from(flags).expect("every flag has a form in TOML");
    // Each bound is overridden by itself: one flag leaves the file's other bounds as they are.
    if let Some(toml::Value::Table(bounds)) = given.remove("thresholds") {
        let table = toml::Value::Table(toml::Table::new());
        let kept = words.entry("thresholds").or_insert(table).as_table_mut();
        kept.expect("the file is a plan").extend(bounds);
    }
    words.extend(given);
    if let Some(url) = &flags.url {
        words.insert("target".to_owned(), toml::Value::String(url.clone()));
    }
    let plan: Plan =
        words.try_into().expect("the file is a plan and the flags are of the plan's types");
    check_thresholds(&plan)?;
    Ok(plan)
}

/// A bound that no figure can be held against would make every run pass, or none.
fn check_thresholds(plan: &Plan) -> Result<(), Failure> {
    let bounds = toml::Table::try_from(&plan.thresholds).expect("bounds can be written as TOML");
    for (name, value) in &bounds {
        let value = value.as_float().expect("bounds are numbers");
        let (usable, cure) = match name.as_str() {
            "percentile" => (0.0 < value && value < 1.0, "give a number between 0 and 1"),
            _ => (value.is_finite() && 0.0 <= value, "give a number from 0 up"),
        };
        if !usable {
            return Err(Failure::Usage(format!("--threshold {name}={value}: is no bound; {cure}")));
        }
    }
    Ok(())
}

/// The words of a plan file that is a plan by itself.
fn read(path: &Path) -> Result<toml::Table, Failure> {
    let refuse = |problem: String, cure: &str| {
        Failure::Usage(format!("--plan {}: {problem}; {cure}", path.display()))
    };
    let text = fs::read_to_string(path).map_err(|error| {
        refuse(format!("can't be read ({error})"), "name a readable file of TOML")
    })?;
    let wrong = |error: toml::de::Error| {
        let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
        let place = line.map_or_else(String::new, |line| format!("line {line}: "));
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        refuse(format!("{place}{message}"), "its keys are the names of the flags of `truetail run`")
    };
    toml::from_str::<Plan>(&text).map_err(wrong)?;
    toml::from_str(&text).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use engine::units::Rate;

    use super::*;
    use crate::args::{Cli, Command};

    fn plan_of(args: &[&str], file: Option<&str>) -> Result<Plan, Failure> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plan.toml");
        if let Some(text) = file {
            fs::write(&path, text).expect("written");
        }
        let args = ["truetail", "run"].iter().chain(args);
        let Command::Run(args) = Cli::try_parse_from(args).expect("arguments").command else {
            unreachable!("the command was run")
        };
        plan(&args.flags, file.map(|_| path.as_path()))
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
        for bound in ["percentile=1", "busy=nan", "errors=-1"] {
            let failure = plan_of(&["http://x/", "--threshold", bound], None).expect_err(bound);
            assert!(failure.to_string().contains("is no bound"), "{failure}");
        }
    }

    #[test]
    fn a_wrong_file_is_told_with_its_line() {
        for (file, words) in [
            ("target = \"http://x/\"\nrats = 5\n", "line 2: unknown field `rats`"),
            ("\n\nduration = 5\n", "line 3: invalid type"),
            ("rate = 0", "line 1: `0` is not above zero"),
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
