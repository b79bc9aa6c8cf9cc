//! The crates import each other as the architecture allows, tests included.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Each crate by its folder, and those of ours that it may import. Those of the engine from `units`
/// to `report` import nothing that reads a clock, opens a socket or starts a thread.
const EDGES: [(&str, &[&str]); 25] = [
    ("http1", &[]),
    ("http2", &[]),
    ("engine/units", &[]),
    ("engine/plan", &["http1", "http2", "units"]),
    ("engine/load", &["units", "plan"]),
    ("engine/stats", &["units", "plan", "load"]),
    ("engine/record", &["http1", "http2", "units", "plan", "load", "stats"]),
    ("engine/report", &["units", "plan", "load", "stats", "record"]),
    ("engine/sys", &["units"]),
    ("engine/uring", &["units", "sys"]),
    ("engine/tls", &["plan", "record", "sys"]),
    ("engine/samples", &["http1", "units", "plan", "load", "record", "sys"]),
    ("engine/host", &["units", "plan", "stats", "report", "sys", "uring"]),
    (
        "engine/shard",
        &[
            "http1", "http2", "units", "plan", "load", "stats", "record", "sys", "uring", "tls",
            "samples",
        ],
    ),
    (
        "engine/run",
        &[
            "http1", "http2", "units", "plan", "load", "record", "report", "sys", "uring", "tls",
            "samples", "host", "shard",
        ],
    ),
    ("engine/verify", &["units", "plan", "load", "stats", "record", "report", "samples"]),
    (
        "engine",
        &[
            "units", "plan", "load", "stats", "record", "report", "sys", "uring", "samples",
            "host", "shard", "run", "verify",
        ],
    ),
    ("target", &[]),
    ("judge", &["target"]),
    ("calibration", &["engine", "target", "judge", "probe"]),
    ("profile", &["engine"]),
    ("probe", &["engine"]),
    ("agents", &["engine", "target"]),
    ("cli", &["http1", "engine", "target", "judge", "calibration", "profile", "probe", "agents"]),
    ("perf", &["http1", "engine", "judge", "agents"]),
];

/// The name of a crate in a folder.
fn name_of(folder: &str) -> &str {
    folder.rsplit('/').next().unwrap_or(folder)
}

/// Our crates that a manifest names, under any kind of dependency, for one platform only, under
/// another name, or inherited from the workspace.
fn imports(manifest: &toml::Table, workspace: &toml::Table) -> BTreeSet<String> {
    const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
    let platforms = manifest.get("target").and_then(toml::Value::as_table);
    let platforms = platforms.into_iter().flatten().filter_map(|(_, table)| table.as_table());
    std::iter::once(manifest)
        .chain(platforms)
        .flat_map(|table| KINDS.iter().filter_map(|kind| table.get(*kind)?.as_table()))
        .flatten()
        .flat_map(|(name, value)| {
            let inherited = value.get("workspace").and_then(toml::Value::as_bool) == Some(true);
            let value =
                if inherited { &workspace["workspace"]["dependencies"][name] } else { value };
            let text = |key| value.get(key).and_then(toml::Value::as_str);
            let folder = text("path").and_then(|path| Path::new(path).file_name()?.to_str());
            [Some(text("package").unwrap_or(name)), folder]
        })
        .flatten()
        .filter(|name| EDGES.iter().any(|(folder, _)| name_of(folder) == *name))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_crates_import_each_other_as_the_architecture_allows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let read = |path: &Path| -> toml::Table {
        let text =
            fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let workspace = read(&root.join("Cargo.toml"));
    let members = workspace["workspace"]["members"].as_array().expect("a list");
    let members: BTreeSet<&str> = members.iter().filter_map(toml::Value::as_str).collect();
    assert_eq!(
        members,
        EDGES.iter().map(|(folder, _)| *folder).collect(),
        "each member is in the table"
    );
    for (folder, allowed) in EDGES {
        let manifest = read(&root.join(folder).join("Cargo.toml"));
        let allowed: BTreeSet<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        let imports = imports(&manifest, &workspace);
        assert!(
            imports.is_subset(&allowed),
            "{folder} imports {imports:?}, and may import {allowed:?}"
        );
    }
}

#[test]
fn a_forbidden_edge_is_found() {
    let workspace: toml::Table =
        "[workspace.dependencies]\nserde = \"1\"\nengine = { path = \"engine\" }\n\
         sample = { package = \"target\", path = \"target\" }\nother = { path = \"calibration\" }\n"
            .parse()
            .expect("TOML");
    let check = |manifest: &str, seen: &[&str]| {
        let manifest: toml::Table = manifest.parse().expect("TOML");
        let seen = seen.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(imports(&manifest, &workspace), seen, "{manifest}");
    };
    check("[dependencies]\nserde.workspace = true\nlibc = \"0.2\"\n", &[]);
    check("[dev-dependencies]\nhttp1 = { path = \"../http1\" }\n", &["http1"]);
    check("[build-dependencies]\nother = { package = \"perf\", path = \"../perf\" }\n", &["perf"]);
    check("[target.'cfg(unix)'.dependencies]\nengine.workspace = true\n", &["engine"]);
    check("[dependencies]\nsample.workspace = true\n", &["target"]);
    check("[dependencies]\nother = { workspace = true, optional = true }\n", &["calibration"]);
    check("[dependencies]\nother = { path = \"../engine/load\" }\n", &["load"]);
}
