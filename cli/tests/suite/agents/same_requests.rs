//! Three agents of unequal weight send what one machine would: each number with the same route and
//! the same values, in every stage.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::processes::{Agent, Place, addresses};
use crate::noting_server::{Got, server, sorted};
use crate::support::{binary, document, said};

/// Weighted routes whose URLs begin with the number and have values of each kind, at a rate that
/// rises and falls.
const PLAN: &str = r#"
seed = 5
warmup = "0s"
wait = "sleep"
headers = ["X-Id: {{uuid}}"]

[data]
users = "users.csv"
items = "items.csv,zipf=1.1"

[[stage]]
rate = 100
duration = "400ms"
[[stage]]
from = 100
to = 700
duration = "800ms"
[[stage]]
rate = 250
duration = "400ms"

[[scenario]]
name = "home"
weight = 6
[[scenario.step]]
url = "/{{seq}}/home"

[[scenario]]
name = "user"
weight = 3
[[scenario.step]]
url = "/{{seq}}/users/{{users.id}}?hot={{zipf 1.1 100}}&item={{items.name}}"

[[scenario]]
name = "order"
weight = 1
[[scenario.step]]
url = "/{{seq}}/orders?shop={{rand 1 1000000}}"
method = "POST"
body = '{"name": "{{json:users.name}}", "number": {{seq}}}'
"#;

/// The requests of a run of this command, in order of their bytes, and its report.
fn requests(folder: &Path, got: &Got, args: &[&str]) -> (Vec<String>, Value) {
    let output = binary()
        .args(args)
        .args(["--plan", "plan.toml", "--allow-invalid", "--quiet", "--out", "report.json"])
        .current_dir(folder)
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", said(&output));
    let requests = sorted(got);
    got.lock().expect("notes").clear();
    (requests, document(&folder.join("report.json")))
}

#[test]
fn three_agents_send_each_number_with_the_route_and_the_values_of_one_machine() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect(name);
    write("plan.toml", PLAN);
    let users = (0..50).map(|row| format!("u{row},\"Ann \"\"{row}\"\"\"\n"));
    write("users.csv", &format!("id,name\n{}", users.collect::<String>()));
    write("items.csv", "name\nred shoes\nblå\nx\n");
    let (url, got) = server();
    let agents: Vec<Agent> = (0..3).map(|_| Agent::start(Place::Here, &[])).collect();
    let all = addresses(&agents);
    let mut runs = Vec::new();
    for arrivals in ["poisson", "constant"] {
        let run = ["run", &url, "--arrivals", arrivals];
        let (alone, report) = requests(folder.path(), &got, &run);
        let intended = report["counts"]["intended"].as_u64().expect("a count");
        assert_eq!((alone.len() as u64, &report["counts"]["sent"]), (intended, &intended.into()));
        let number = |request: &String| {
            let path = request.split_once(" /").expect("a request line").1;
            path.split('/').next().expect("a number").parse::<u64>().expect("a number")
        };
        let numbers: BTreeSet<u64> = alone.iter().map(number).collect();
        assert!(numbers.iter().copied().eq(0..intended), "each number once");
        for route in ["/home", "/users/u", "/orders?shop="] {
            assert!(alone.iter().any(|request| request.contains(route)), "{route}: {alone:?}");
        }

        let controller =
            ["controller", &url, "--agents", &all, "--weights", "5,1,3", "--arrivals", arrivals];
        let (together, of_agents) = requests(folder.path(), &got, &controller);
        assert!(together == alone, "{arrivals}: {} and {}", together.len(), alone.len());
        let shares: Vec<u64> = of_agents["per_agent"]
            .as_array()
            .expect("agents")
            .iter()
            .map(|agent| agent["counts"]["sent"].as_u64().expect("a count"))
            .collect();
        assert!(shares.iter().all(|sent| 0 < *sent), "{shares:?}");
        assert!(shares[1] < shares[2] && shares[2] < shares[0], "{shares:?}");
        runs.push(alone);
    }
    assert!(runs[0] != runs[1], "the two kinds of arrivals differ");
}
