//! The requests that a plan makes: one, or one for each scenario's step.

use std::collections::HashSet;

use units::Nanos;

use super::body;
use super::check::{self, BODY_MAX_MAX, Checks};
use super::complete::DURATION_MAX;
use super::endpoint::{Endpoint, origin, short, shown};
use super::error::PlanError;
use super::plan::Plan;
use super::request::header_name;
use super::scenario::{REPEAT_MAX, SCENARIOS_MAX, Scenario, Step, WEIGHT_MAX};
use super::status::StatusSet;
use super::template::Scope;

impl Plan {
    /// The steps of all scenarios, in order, each with its scenario.
    fn steps(&self) -> impl Iterator<Item = (&Scenario, &Step)> {
        self.scenario.iter().flat_map(|scenario| scenario.step.iter().map(move |it| (scenario, it)))
    }

    /// The same, each with the name of its results: that of its scenario, or `shop/pay` for the
    /// step `pay` of a scenario `shop` with several.
    pub(super) fn named_steps(&self) -> impl Iterator<Item = (String, &Step)> {
        self.steps().map(|(scenario, step)| match scenario.step.len() {
            1 => (scenario.name.clone(), step),
            _ => (format!("{}/{}", scenario.name, step.name), step),
        })
    }

    /// The step with this number, among those of all scenarios.
    fn step(&self, step: usize) -> Option<&Step> {
        self.steps().nth(step).map(|(_, step)| step)
    }

    /// The first step of each scenario, and the number of its steps.
    pub fn scenario_steps(&self) -> Vec<(usize, usize)> {
        if self.scenario.is_empty() {
            return vec![(0, 1)];
        }
        let lengths = self.scenario.iter().map(|scenario| scenario.step.len());
        let firsts = lengths.scan(0, |next, length| {
            *next += length;
            Some((*next - length, length))
        });
        firsts.collect()
    }

    /// The first step of each scenario, if one has several; empty else.
    pub fn scenario_firsts(&self) -> Vec<u16> {
        if !self.has_sessions() {
            return Vec::new();
        }
        let first = |(first, _)| u16::try_from(first).expect("a step's number has 16 bits");
        self.scenario_steps().into_iter().map(first).collect()
    }

    /// The first step of this step's scenario.
    pub fn first_of(&self, step: u16) -> u16 {
        let firsts = self.scenario_steps();
        let before = firsts.partition_point(|(first, _)| *first <= usize::from(step));
        u16::try_from(firsts[before - 1].0).expect("a step's number has 16 bits")
    }

    /// The most requests of a session.
    pub fn requests_max(&self) -> u64 {
        self.scenario.iter().map(Scenario::requests_max).max().unwrap_or(1)
    }

    /// True if a scenario has several steps, so that arrivals start sessions.
    pub fn has_sessions(&self) -> bool {
        self.scenario.iter().any(Scenario::has_sessions)
    }

    /// Each scenario's steps, by their places in it.
    fn places<'a>(&'a self) -> impl Iterator<Item = (&'a Scenario, usize)> {
        let of = |scenario: &'a Scenario| (0..scenario.step.len()).map(move |at| (scenario, at));
        self.scenario.iter().flat_map(of)
    }

    /// One plan per request that this plan makes, with that request's values.
    pub fn requests(&self) -> Vec<Plan> {
        if self.scenario.is_empty() {
            return vec![self.clone()];
        }
        let of_step = |(_, own): (&Scenario, &Step)| {
            let Step {
                name: _,
                think: _,
                repeat: _,
                when: _,
                capture: _,
                method,
                url,
                headers,
                body,
                expect_status,
                expect_header,
                expect_body,
                timeout,
                deadline: _,
                redirect: _,
                expect: _,
                slo: _,
            } = own.clone();
            let inherited = self.headers_besides(own).cloned();
            let all: Vec<String> = inherited.chain(headers).collect();
            Plan {
                target: self.url_of(url.as_deref()),
                method: method.unwrap_or_else(|| self.method.clone()),
                headers: all,
                body: body.or_else(|| self.body.clone()),
                expect_status: expect_status.unwrap_or_else(|| self.expect_status.clone()),
                expect_header: expect_header.unwrap_or_else(|| self.expect_header.clone()),
                expect_body: expect_body.unwrap_or_else(|| self.expect_body.clone()),
                timeout: timeout.unwrap_or(self.timeout),
                scenario: Vec::new(),
                ..self.clone()
            }
        };
        self.steps().map(of_step).collect()
    }

    /// The files that these requests need: each name once, with the flag that names it first.
    pub fn files(&self) -> Vec<(&'static str, String)> {
        let steps = self.scenario.iter().flat_map(|scenario| &scenario.step);
        let bodies = self.body.iter().chain(steps.filter_map(|step| step.body.as_ref()));
        let data = self.data.values().map(|data| ("--data", data.file.to_string_lossy().into()));
        let named = bodies.filter_map(|body| Some(("--body", body::file_name(body)?.to_owned())));
        let log = self.replay.iter().map(|log| ("--replay", log.to_string_lossy().into()));
        let named = named.chain(data).chain(log);
        let mut seen = HashSet::new();
        named.filter(|(_, name)| seen.insert(name.clone())).collect()
    }

    /// An error about the request of this step, by the place of the wrong text: the step itself, if
    /// a file of targets or of a plan has it, else the plan's flag.
    pub fn error_of(&self, step: usize, error: PlanError) -> PlanError {
        let Some((name, own)) = self.named_steps().nth(step) else {
            return error;
        };
        let PlanError { flag, value, problem, cure } = &error;
        let inherited = self.headers_besides(own).count();
        let header = value.strip_prefix('#').and_then(|number| number.parse::<usize>().ok());
        let place = match (*flag, header) {
            ("--target", _) if own.url.is_some() => format!("the URL {value}"),
            ("--method", _) if own.method.is_some() => format!("the method {value}"),
            ("--body", _) if own.body.is_some() && value.starts_with('@') => {
                format!("the body {value}")
            }
            ("--body", _) if own.body.is_some() => "the body".to_owned(),
            ("--expect-header", _) if own.expect_header.is_some() => {
                format!("expect.header {value}")
            }
            ("--expect-body", _) if own.expect_body.is_some() => format!("expect.body {value}"),
            ("capture" | "when", _) => format!("{flag} {value}"),
            ("--header", Some(number)) if inherited < number => {
                format!("its header #{}", number - inherited)
            }
            _ => return error.of_request(&short(&name)),
        };
        if self.replay.is_some() {
            return error.of_request(&short(&name));
        }
        let at = match name.as_str() {
            "" => format!("#{}", step + 1),
            name => format!("#{} ({})", step + 1, short(name)),
        };
        PlanError::new(self.scenario_key(), at, format!("{place}: {problem}"), cure)
    }

    /// What lists its scenarios, as errors name it.
    pub(super) fn scenario_key(&self) -> &'static str {
        if self.has_tables { "[[scenario]]" } else { "--targets" }
    }

    /// The plan's headers that a step doesn't replace.
    fn headers_besides<'a>(&'a self, step: &'a Step) -> impl Iterator<Item = &'a String> {
        let name = |line: &str| header_name(line).to_ascii_lowercase();
        let own: HashSet<String> = step.headers.iter().map(|line| name(line)).collect();
        self.headers.iter().filter(move |line| !own.contains(&name(line)))
    }

    /// The number of these requests.
    pub fn step_count(&self) -> usize {
        self.steps().count().max(1)
    }

    /// The weights of the scenarios.
    pub fn weights(&self) -> Vec<u32> {
        if self.scenario.is_empty() {
            return vec![1];
        }
        self.scenario.iter().map(|scenario| scenario.weight).collect()
    }

    /// The weight of each step: that of its scenario.
    pub fn step_weights(&self) -> Vec<u32> {
        if self.scenario.is_empty() {
            return vec![1];
        }
        self.steps().map(|(scenario, _)| scenario.weight).collect()
    }

    /// The status codes that count as success for the request of this step.
    pub fn expected_of(&self, step: usize) -> &StatusSet {
        let own = self.step(step).and_then(|step| step.expect_status.as_ref());
        own.unwrap_or(&self.expect_status)
    }

    /// The timeout of this step's request.
    pub fn timeout_of(&self, step: usize) -> Nanos {
        let own = self.step(step).and_then(|step| step.timeout);
        own.unwrap_or(self.timeout)
    }

    /// How long after it was due this step's request is given up, if it is.
    pub fn deadline_of(&self, step: usize) -> Option<Nanos> {
        let own = self.step(step).and_then(|step| step.deadline);
        own.or(self.deadline)
    }

    /// How long the user of this step's session waits for all of it, think times taken off.
    pub fn session_deadline_of(&self, step: usize) -> Option<Nanos> {
        self.steps().nth(step).and_then(|(scenario, _)| scenario.deadline)
    }

    /// The longest timeout of all requests.
    pub fn timeout_max(&self) -> Nanos {
        (0..self.step_count()).map(|step| self.timeout_of(step)).max().unwrap_or(self.timeout)
    }

    /// The names of these requests' results in a completed plan.
    pub fn step_names(&self) -> Vec<String> {
        if self.scenario.is_empty() {
            let endpoint = Endpoint::parse(&self.target).ok();
            let path = endpoint.map_or_else(String::new, |endpoint| endpoint.path);
            return vec![named_by(&self.method, &path)];
        }
        self.named_steps().map(|(name, _)| name).collect()
    }

    /// The URLs of these requests.
    pub(super) fn urls(&self) -> Vec<String> {
        if self.scenario.is_empty() {
            return vec![self.target.clone()];
        }
        self.steps().map(|(_, step)| self.url_of(step.url.as_deref())).collect()
    }

    /// The hosts of these URLs, each once; those that are no URLs are refused later.
    fn hosts(&self) -> Vec<Endpoint> {
        let mut hosts: Vec<Endpoint> = Vec::new();
        for it in self.urls().iter().filter_map(|url| Endpoint::parse(origin(url)).ok()) {
            if !hosts.iter().any(|host| host.is_same_host(&it)) {
                hosts.push(it);
            }
        }
        hosts
    }

    /// A step's URL: a complete URL, a path on the plan's host, or by default the plan's URL.
    fn url_of(&self, url: Option<&str>) -> String {
        match url {
            None => self.target.clone(),
            // A path may have a URL in its query.
            Some(url) if url.contains("://") && !url.starts_with('/') => url.to_owned(),
            Some(path) => format!("{}{path}", origin(&self.target)),
        }
    }

    /// Names the unnamed scenarios, and refuses those that can't run.
    pub(super) fn complete_scenarios(&mut self) -> Result<(), PlanError> {
        let key = self.scenario_key();
        let refuse = |at: usize, problem: String, cure: &str| {
            Err(PlanError::new(key, format!("#{}", at + 1), problem, cure))
        };
        if SCENARIOS_MAX < self.scenario.len() {
            let problem = format!("more than {SCENARIOS_MAX} scenarios");
            return refuse(SCENARIOS_MAX, problem, "leave out those with the smallest weights");
        }
        if self.scenario.is_empty() {
            return Ok(());
        }
        let own_authority = Endpoint::parse(&self.target)?.authority;
        let hosts = self.hosts();
        let mut number = 0;
        for at in 0..self.scenario.len() {
            let weight = self.scenario[at].weight;
            if WEIGHT_MAX < weight {
                let problem = format!("the weight {weight} is above {WEIGHT_MAX}");
                return refuse(at, problem, "divide all weights by the same number");
            }
            if self.scenario[at].name.chars().any(char::is_control) {
                let problem = "the name has a control character".to_owned();
                return refuse(at, problem, "leave it out");
            }
            for step in &mut self.scenario[at].step {
                if let Err(twice) = step.complete_expect() {
                    return refuse(at, format!("it has {twice} twice"), "write it once");
                }
            }
            let expected = self.expect_status.clone();
            let (scenario, target) = (&mut self.scenario[at], &self.target);
            if let Err(problem) = scenario.follow_redirects(&expected, target, &hosts) {
                return refuse(at, problem.to_owned(), "omit `repeat`");
            }
            self.scenario[at].split_repeated_start();
            let mut names = Vec::new();
            for of in 0..self.scenario[at].step.len() {
                let name = self.complete_step(at, of, number, &own_authority)?;
                let is_free = |name: &String| !names.contains(name);
                let free = numbered(&name).find(is_free).expect("there are more numbers");
                if free != name && !self.scenario[at].step[of].name.is_empty() {
                    let problem = format!("another of its steps is also called {name:?}");
                    return refuse(at, problem, "give each a name of its own, or none");
                }
                names.push(free);
                number += 1;
            }
            if let Err((of, error)) = self.scenario[at].check_captures() {
                return Err(self.error_of(number - self.scenario[at].step.len() + of, error));
            }
            let Scenario { name, think, cookies, step, .. } = &self.scenario[at];
            if *cookies == Some(true) && step.len() == 1 {
                let problem = "it has no second step to send cookies with".to_owned();
                return refuse(at, problem, "omit `cookies`");
            }
            let thinks = step.iter().map(|step| step.think).chain([*think]).flatten();
            if let Some(long) = thinks.into_iter().find(|one| DURATION_MAX < one.longest()) {
                let problem = format!("the think time {long} is above {DURATION_MAX}");
                return refuse(at, problem, "give a shorter one");
            }
            if let [only] = &step[..] {
                if let Some(think) = think.or(only.think) {
                    let problem = format!("the think time {think} has no step after it");
                    return refuse(at, problem, "omit it, or add a `[[scenario.step]]`");
                }
                if name.is_empty() {
                    self.scenario[at].name = self.unused_name(&names[0]);
                }
            } else if let Some(think) = step[0].think {
                let problem = format!("the think time {think} stands before its first step");
                return refuse(at, problem, "give it to the second, or to the scenario");
            } else {
                if name.is_empty() {
                    self.scenario[at].name = self.unused_name(&format!("scenario {}", at + 1));
                }
                for (step, name) in self.scenario[at].step.iter_mut().zip(names) {
                    step.name = name;
                }
            }
            let name = &self.scenario[at].name;
            if self.scenario[..at].iter().any(|other| other.name == *name) {
                let problem = format!("another scenario is also called {name:?}");
                return refuse(at, problem, "give each a name of its own, or none");
            }
        }
        if self.weights().iter().all(|weight| *weight == 0) {
            let problem = "no request has a weight above 0, so there is none to send";
            return Err(PlanError::new(key, "weight 0", problem, "give one a weight of 1"));
        }
        Ok(())
    }

    /// Completes a step, the one with this `number` of all, and refuses what can't run; returns its
    /// name, by its request if it has none.
    fn complete_step(
        &mut self,
        at: usize,
        of: usize,
        number: usize,
        own_authority: &str,
    ) -> Result<String, PlanError> {
        let key = self.scenario_key();
        let refuse = |problem: String, cure: &str| {
            Err(PlanError::new(key, format!("#{}", at + 1), problem, cure))
        };
        let step = &self.scenario[at].step[of];
        let own = self.url_of(step.url.as_deref());
        let is_neither = |url: &&String| !url.contains("://") && !url.starts_with('/');
        if let Some(url) = step.url.as_ref().filter(is_neither) {
            let problem = format!("{} isn't a URL and doesn't begin with /", shown(url));
            return refuse(problem, "give a URL, or path and query: /search?q=1");
        }
        let endpoint = Endpoint::parse(&own).map_err(|error| self.error_of(number, error))?;
        self.check_timeout(at, step.timeout)?;
        for deadline in [step.deadline, self.scenario[at].deadline].into_iter().flatten() {
            if !(Nanos(1)..=DURATION_MAX).contains(&deadline) {
                let problem =
                    format!("the deadline {deadline} isn't above 0 and up to {DURATION_MAX}");
                return refuse(problem, "give how long the user waits, or omit it");
            }
        }
        if let Some(repeat) = step.repeat.filter(|repeat| !(1..=REPEAT_MAX).contains(repeat)) {
            let problem = format!("repeat = {repeat} isn't from 1 to {REPEAT_MAX}");
            return refuse(problem, "give how often the step is sent");
        }
        if step.name.contains(char::is_control) {
            return refuse("a step's name has a control character".to_owned(), "leave it out");
        }
        if !step.name.is_empty() {
            return Ok(step.name.clone());
        }
        let method = step.method.as_ref().unwrap_or(&self.method);
        let is_own = endpoint.authority.eq_ignore_ascii_case(own_authority);
        let host = if is_own { "" } else { &endpoint.authority };
        Ok(named_by(method, &format!("{host}{}", endpoint.path)))
    }

    /// The checks and captures of each request's responses; `None` for one without.
    ///
    /// # Errors
    /// The first text that is neither.
    pub fn checks(&self) -> Result<Vec<Option<Checks>>, PlanError> {
        let requests = self.requests();
        if self.scenario.is_empty() {
            return Ok(vec![Checks::of_request(self, Vec::new(), false)?]);
        }
        let of_step = |(number, (scenario, at)): (usize, (&Scenario, usize))| {
            let request = &requests[number];
            let of_scenario = &requests[number - at..][..scenario.step.len()];
            let captures = scenario.captures_of(at, of_scenario);
            captures
                .and_then(|of| Checks::of_request(request, of, scenario.keeps_cookies()))
                .map_err(|error| self.error_of(number, error))
        };
        self.places().enumerate().map(of_step).collect()
    }

    /// What the fields of each request may take from its session.
    pub fn scopes(&self) -> Vec<Scope<'_>> {
        if self.scenario.is_empty() {
            return vec![Scope::default()];
        }
        let mut scopes = Vec::new();
        for (scenario, at) in self.places() {
            let (captured, cookies) = (scenario.captured_before(at), scenario.keeps_cookies());
            scopes.push(Scope { data: &[], captured, cookies });
        }
        scopes
    }

    /// The names of each request's checks in a completed plan; empty if none has any.
    pub fn check_names(&self) -> Vec<Vec<String>> {
        let of = |step: &Step, cookies| {
            let header = step.expect_header.as_ref().unwrap_or(&self.expect_header);
            let body = step.expect_body.as_ref().unwrap_or(&self.expect_body);
            check::names(header, body, &step.capture, cookies)
        };
        let mut all: Vec<Vec<String>> = match self.scenario.is_empty() {
            true => vec![of(&Step::default(), false)],
            false => {
                let each = self.steps();
                each.map(|(scenario, step)| of(step, scenario.keeps_cookies())).collect()
            }
        };
        if all.iter().all(Vec::is_empty) {
            all.clear();
        }
        all
    }

    /// Refuses checks that can't be made.
    pub(super) fn check_checks(&self) -> Result<(), PlanError> {
        let checks = self.checks()?;
        let bodies = checks.iter().flatten().any(|checks| 0 < checks.body_max());
        if let Some(most) = self.body_max.filter(|most| !(1..=BODY_MAX_MAX).contains(most)) {
            let problem = format!("must be from 1 to {BODY_MAX_MAX} bytes");
            return Err(PlanError::new("--body-max", most, problem, "give the longest body"));
        }
        let unused = [
            ("--body-max", self.body_max.map(|most| most.to_string())),
            ("--decompress", self.decompress.then(|| "true".to_owned())),
        ];
        for (flag, value) in unused {
            if let Some(value) = value.filter(|_| !bodies) {
                let problem = "no response's body is checked, so none is kept";
                return Err(PlanError::new(flag, value, problem, "omit it, or add --expect-body"));
            }
        }
        Ok(())
    }

    /// Refuses a step's own timeout that can't be kept.
    fn check_timeout(&self, at: usize, timeout: Option<Nanos>) -> Result<(), PlanError> {
        let Some(timeout) = timeout else { return Ok(()) };
        let refuse = |problem: String, cure| {
            let problem = format!("the timeout {timeout} {problem}");
            Err(PlanError::new(self.scenario_key(), format!("#{}", at + 1), problem, cure))
        };
        if timeout.0 == 0 || DURATION_MAX < timeout {
            let problem = format!("is not above 0 and at most {DURATION_MAX}");
            return refuse(problem, "give the longest its response may take");
        }
        if 1 < self.pipeline && timeout != self.timeout {
            let problem = "can't be kept with --pipeline, whose responses wait for each other";
            return refuse(problem.to_owned(), "omit one of the two");
        }
        Ok(())
    }

    /// This name, with a number appended if a scenario already has it.
    fn unused_name(&self, name: &str) -> String {
        let is_free = |name: &String| self.scenario.iter().all(|other| other.name != *name);
        numbered(name).find(is_free).expect("there are more numbers than scenarios")
    }
}

/// This name, then the same with a number appended.
fn numbered(name: &str) -> impl Iterator<Item = String> {
    let more = (2..).map(move |number| format!("{name} #{number}"));
    std::iter::once(name.to_owned()).chain(more)
}

/// The name for an unnamed request: its method and its path without the query.
fn named_by(method: &str, path: &str) -> String {
    format!("{method} {}", path.split('?').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(weight: u32, step: Step) -> Scenario {
        Scenario::of_one(String::new(), weight, step)
    }

    fn step(path: &str) -> Step {
        Step { url: Some(path.to_owned()), ..Step::default() }
    }

    #[test]
    fn a_step_overrides_the_plan_and_takes_the_rest_from_it() {
        let search = Step {
            method: Some("POST".to_owned()),
            headers: vec!["a: 2".to_owned(), "a: 3".to_owned()],
            body: Some("x".to_owned()),
            expect_status: "404".parse().ok(),
            timeout: Some(Nanos(7)),
            ..step("/search?q=1")
        };
        let plan = Plan {
            target: "http://h:1/base?b".to_owned(),
            headers: vec!["A: 1".to_owned(), "B: 1".to_owned()],
            scenario: vec![scenario(1, search), scenario(1, Step::default())],
            ..Plan::default()
        };
        let [search, base] = &plan.requests()[..] else { panic!("two") };
        assert_eq!((&*search.target, &*search.method), ("http://h:1/search?q=1", "POST"));
        assert_eq!(search.headers, ["B: 1", "a: 2", "a: 3"]);
        assert_eq!(search.body.as_deref(), Some("x"));
        assert_eq!((&search.expect_status, search.timeout), (plan.expected_of(0), Nanos(7)));
        assert_eq!(plan.expected_of(0).to_string(), "404");
        assert_eq!(plan.expected_of(1), &plan.expect_status);
        assert_eq!([0, 1].map(|step| plan.timeout_of(step)), [Nanos(7), plan.timeout]);
        assert_eq!((plan.timeout_max(), base.timeout), (plan.timeout, plan.timeout));
        assert_eq!(*base, Plan { scenario: Vec::new(), ..plan.clone() });
        let bare = Plan { target: "http://h".to_owned(), ..plan };
        assert_eq!(bare.requests()[0].target, "http://h/search?q=1");
    }

    #[test]
    fn a_plan_lists_each_of_its_files_once() {
        let body = |text: &str| Step { body: Some(text.to_owned()), ..Step::default() };
        let bodies = ["@b", "text", "@a", "@b", "a@c", "@"];
        let mut plan = Plan {
            scenario: bodies.map(|text| scenario(1, body(text))).to_vec(),
            ..Plan::default()
        };
        let names = |plan: &Plan| -> Vec<String> {
            plan.files().into_iter().map(|(_, name)| name).collect()
        };
        assert_eq!(names(&plan), ["b", "a", ""]);
        plan.body = Some("@a".to_owned());
        assert_eq!(names(&plan), ["a", "b", ""]);
        assert_eq!(plan.files()[0].0, "--body");
        plan.replay = Some("access.log".into());
        assert_eq!(plan.files()[3], ("--replay", "access.log".to_owned()));
    }

    #[test]
    fn scenarios_without_a_name_are_named_after_their_request() {
        let mut plan = Plan {
            target: "http://h/".to_owned(),
            scenario: vec![
                scenario(1, step("/a?token=1")),
                scenario(1, step("/a?token=2")),
                scenario(1, Step::default()),
                scenario(1, step("http://g/a?token=1")),
            ],
            ..Plan::default()
        };
        plan.complete_scenarios().expect("they are fine");
        let names: Vec<&str> = plan.scenario.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["GET /a", "GET /a #2", "GET /", "GET g/a"]);
        let completed = plan.clone();
        plan.complete_scenarios().expect("the plan of a report is the same plan");
        assert_eq!(plan, completed);
    }

    #[test]
    fn a_path_with_a_url_in_its_query_is_on_the_plans_host() {
        let scenario = vec![scenario(1, step("/login?next=http://g/"))];
        let mut plan = Plan { target: "http://h:1/x".to_owned(), scenario, ..Plan::default() };
        plan.complete_scenarios().expect("it is fine");
        assert_eq!(plan.requests()[0].target, "http://h:1/login?next=http://g/");
    }

    #[test]
    fn an_error_of_a_request_names_the_place_of_the_wrong_text() {
        let own = Step {
            method: Some("PUT".to_owned()),
            headers: vec!["A: 2".to_owned(), "C: 3".to_owned()],
            body: Some("x".to_owned()),
            ..step("/a")
        };
        let plan = Plan {
            headers: vec!["A: 1".to_owned(), "B: 1".to_owned()],
            scenario: vec![
                Scenario { name: "home".to_owned(), ..scenario(1, Step::default()) },
                Scenario { name: "search".to_owned(), ..scenario(1, own) },
            ],
            ..Plan::default()
        };
        for (step, flag, value, text) in [
            (0, "--target", "http://h/", "--target http://h/: in home: bad; mend it"),
            (0, "--header", "#2", "--header #2: in home: bad; mend it"),
            (1, "--header", "#1", "--header #1: in search: bad; mend it"),
            (1, "--header", "#3", "--targets #2 (search): its header #2: bad; mend it"),
            (
                1,
                "--target",
                "http://h/a",
                "--targets #2 (search): the URL http://h/a: bad; mend it",
            ),
            (1, "--method", "PUT", "--targets #2 (search): the method PUT: bad; mend it"),
            (1, "--body", "of the plan", "--targets #2 (search): the body: bad; mend it"),
            (1, "--body", "@file", "--targets #2 (search): the body @file: bad; mend it"),
            (1, "--data", "users", "--data users: in search: bad; mend it"),
            (2, "--body", "@file", "--body @file: bad; mend it"),
        ] {
            let error = plan.error_of(step, PlanError::new(flag, value, "bad", "mend it"));
            assert_eq!(error.to_string(), text);
        }
        let tables = Plan { has_tables: true, ..plan.clone() };
        let error = tables.error_of(1, PlanError::new("--header", "#3", "bad", "mend it"));
        assert_eq!(error.to_string(), "[[scenario]] #2 (search): its header #2: bad; mend it");
        // A log's requests are in no file of targets.
        let replay = Plan { replay: Some("access.log".into()), ..plan };
        let error = replay.error_of(1, PlanError::new("--body", "of the plan", "bad", "mend it"));
        assert_eq!(error.to_string(), "--body of the plan: in search: bad; mend it");
    }

    #[test]
    fn a_wrong_scenario_is_refused_with_its_position() {
        let named = |name: &str| Scenario { name: name.to_owned(), ..scenario(1, step("/")) };
        let timed = |ns| scenario(1, Step { timeout: Some(Nanos(ns)), ..step("/") });
        for (scenarios, place, problem) in [
            (vec![scenario(0, step("/"))], "weight 0", "no request has a weight"),
            (vec![scenario(1, step("/")), scenario(1, step("a"))], "#2", "doesn't begin with /"),
            (vec![scenario(1, step("/a b"))], "#1", "the URL http://h/a b: invalid URL"),
            (vec![named("a"), scenario(1, step("ftp://h/"))], "#2", "the URL ftp://h/: the scheme"),
            (vec![named("a"), named("b"), named("a")], "#3", "also called \"a\""),
            (vec![named("a\nb")], "#1", "a control character"),
            (vec![scenario(WEIGHT_MAX + 1, step("/"))], "#1", "above 1000000"),
            (vec![timed(0)], "#1", "the timeout 0s is not above 0"),
            (vec![timed(7)], "#1", "the timeout 7ns can't be kept with --pipeline"),
        ] {
            let mut plan = Plan {
                target: "http://h/".to_owned(),
                scenario: scenarios,
                pipeline: 2,
                ..Plan::default()
            };
            for (has_tables, key) in [(false, "--targets"), (true, "[[scenario]]")] {
                plan.has_tables = has_tables;
                let error = plan.complete_scenarios().expect_err(problem);
                assert_eq!((error.flag, error.value.as_str()), (key, place));
                assert!(error.to_string().contains(problem), "{error}");
            }
        }
    }
}
