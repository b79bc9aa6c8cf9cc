//! The crates import each other as the architecture says and no other way, in their tests too.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Each crate and those of ours that it may import.
const EDGES: [(&str, &[&str]); 6] = [
    ("http1", &[]),
    ("engine", &["http1"]),
    ("target", &[]),
    ("calibration", &["engine", "target"]),
    ("cli", &["http1", "engine", "target", "calibration"]),
    ("perf", &["http1", "engine"]),
];

/// The crates of ours that a manifest names, under any kind of dependency, for one platform only or under another name.
fn imports(manifest: &toml::Table) -> BTreeSet<String> {
    const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
    let platforms = manifest.get("target").and_then(toml::Value::as_table);
    let platforms = platforms.into_iter().flatten().filter_map(|(_, table)| table.as_table());
    std::iter::once(manifest)
        .chain(platforms)
        .flat_map(|table| KINDS.iter().filter_map(|kind| table.get(*kind)?.as_table()))
        .flatten()
        .map(|(name, value)| value.get("package").and_then(toml::Value::as_str).unwrap_or(name))
        .filter(|name| EDGES.iter().any(|(known, _)| known == name))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_crates_import_each_other_as_the_architecture_says() {
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
        EDGES.iter().map(|(name, _)| *name).collect(),
        "each member stands in the table"
    );
    for (name, allowed) in EDGES {
        let manifest = read(&root.join(name).join("Cargo.toml"));
        let allowed: BTreeSet<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        let imports = imports(&manifest);
        assert!(
            imports.is_subset(&allowed),
            "{name} imports {imports:?}, and may import {allowed:?}"
        );
    }
}

#[test]
fn an_edge_that_is_not_allowed_is_seen() {
    let manifest: toml::Table =
        "[dependencies]\nserde = \"1\"\n[dev-dependencies]\ntarget = { path = \"../target\" }\n\
         [build-dependencies]\nother = { package = \"perf\", path = \"../perf\" }\n\
         [target.'cfg(unix)'.dependencies]\nengine.workspace = true\n"
            .parse()
            .expect("TOML");
    let seen = ["engine", "perf", "target"].map(str::to_owned);
    assert_eq!(imports(&manifest), BTreeSet::from(seen));
}
