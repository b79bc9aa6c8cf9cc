//! The rooms of the engine use each other in one direction, each only those above it in `lib.rs`;
//! and no files use each other in a circle.
//!
//! Sources are read as tokens, so a name counts wherever it stands, in a macro as well, and a
//! comment or a text never does. What could hide an edge from such a reading is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// A module or an item by its path from the crate's root: `stats`, `interval`, `Method`.
type Place = Vec<String>;

/// A path that a source names.
struct Name {
    /// The module that it stands in.
    module: Place,
    /// Its parts as written, a `use` group taken apart.
    parts: Vec<String>,
    /// Whether it is given another name.
    renamed: bool,
    /// Whether it only hands on what another module has: `pub use`.
    handed_on: bool,
}

/// A source file.
struct Source {
    /// Its path below the folder of sources.
    file: String,
    module: Place,
    names: Vec<Name>,
    /// Types, functions and constants that it defines.
    defined: BTreeSet<String>,
    /// Types that have an inherent `impl` here.
    extended: BTreeSet<String>,
    /// What hides edges from this test.
    hiding: Vec<&'static str>,
}

impl Source {
    fn new(file: &str, text: &str) -> Source {
        let mut module: Place =
            file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if ["mod", "lib", "main"].contains(&&*module[module.len() - 1]) {
            module.pop();
        }
        let mut source = Source {
            file: file.to_owned(),
            module: module.clone(),
            names: Vec::new(),
            defined: BTreeSet::new(),
            extended: BTreeSet::new(),
            hiding: Vec::new(),
        };
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{file}: {error}"));
        source.read(tokens, &module);
        source
    }

    fn read(&mut self, tokens: TokenStream, module: &Place) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let word = |at: usize| match tokens.get(at) {
            Some(TokenTree::Ident(ident)) => ident.to_string(),
            _ => String::new(),
        };
        let sign = |at: usize, sign: char| matches!(tokens.get(at), Some(TokenTree::Punct(found)) if found.as_char() == sign);
        let (mut at, mut handed_on) = (0, false);
        while let Some(token) = tokens.get(at) {
            match token {
                TokenTree::Group(group) => self.read(group.stream(), module),
                TokenTree::Punct(found) if found.as_char() == ';' => handed_on = false,
                TokenTree::Ident(_) => {
                    match (&*word(at), &*word(at + 1)) {
                        ("extern", "crate") => self.hiding.push("extern crate"),
                        ("path", _) if at == 0 && tokens.len() == 3 && sign(1, '=') => {
                            self.hiding.push("#[path]")
                        }
                        ("include", _) if sign(at + 1, '!') => self.hiding.push("include!"),
                        ("macro_use" | "macro_export", _) => self.hiding.push("an exported macro"),
                        ("use", _) => {
                            let before = &tokens[at.saturating_sub(2)..at];
                            handed_on = before.iter().any(|token| token.to_string() == "pub");
                        }
                        ("mod", name) if !name.is_empty() => {
                            if let Some(TokenTree::Group(body)) = tokens.get(at + 2) {
                                let inner = [&module[..], &[name.to_owned()]].concat();
                                self.read(body.stream(), &inner);
                                at += 1;
                            }
                            at += 2;
                            continue;
                        }
                        (
                            "struct" | "enum" | "trait" | "fn" | "const" | "static" | "type",
                            name,
                        ) => {
                            self.defined.insert(name.to_owned());
                        }
                        ("impl", _) if begins_item(&tokens[..at]) => {
                            self.extended.extend(extended(&tokens[at + 1..]));
                        }
                        _ => {}
                    }
                    let mut paths = Vec::new();
                    at = read_path(&tokens, at, &[], &mut paths);
                    self.names.extend(paths.into_iter().map(|(parts, renamed)| Name {
                        module: module.clone(),
                        parts,
                        renamed,
                        handed_on,
                    }));
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn is_test(&self, name: &Name) -> bool {
        self.module.len() < name.module.len() || self.module.ends_with(&["tests".to_owned()])
    }
}

/// Whether an item can begin after these tokens; an `impl` elsewhere is the type of an argument.
fn begins_item(before: &[TokenTree]) -> bool {
    match before.last() {
        None => true,
        Some(TokenTree::Group(group)) => group.delimiter() != Delimiter::Parenthesis,
        Some(TokenTree::Punct(sign)) => sign.as_char() == ';',
        Some(TokenTree::Ident(ident)) => *ident == "unsafe",
        Some(TokenTree::Literal(_)) => false,
    }
}

/// The type of an inherent `impl`, whose tokens follow that word; `None` for an `impl` of a trait.
fn extended(tokens: &[TokenTree]) -> Option<String> {
    let (mut depth, mut name) = (0_usize, None);
    for token in tokens {
        match token {
            TokenTree::Punct(sign) if sign.as_char() == '<' => depth += 1,
            TokenTree::Punct(sign) if sign.as_char() == '>' => depth = depth.saturating_sub(1),
            TokenTree::Ident(ident) if *ident == "for" && depth == 0 => return None,
            TokenTree::Ident(ident) if *ident == "where" && depth == 0 => return name,
            TokenTree::Ident(ident) if depth == 0 => name = Some(ident.to_string()),
            TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => return name,
            _ => {}
        }
    }
    // `impl Trait` as the type of an argument.
    None
}

/// Reads the path that begins at `at` and follows `prefix`, each branch of a group for itself;
/// gives where it ends.
fn read_path(
    tokens: &[TokenTree],
    mut at: usize,
    prefix: &[String],
    paths: &mut Vec<(Vec<String>, bool)>,
) -> usize {
    let mut parts = prefix.to_vec();
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(ident)) => parts.push(ident.to_string().replace("r#", "")),
            Some(TokenTree::Punct(sign)) if sign.as_char() == '*' => parts.push("*".to_owned()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                let is_comma = |token: &TokenTree| token.to_string() == ",";
                for branch in inside.split(is_comma).filter(|branch| !branch.is_empty()) {
                    read_path(branch, 0, &parts, paths);
                }
                return at + 1;
            }
            _ => break,
        }
        at += 1;
        match tokens.get(at..at + 2) {
            Some([TokenTree::Punct(one), TokenTree::Punct(two)])
                if (one.as_char(), one.spacing(), two.as_char()) == (':', Spacing::Joint, ':') =>
            {
                at += 2;
            }
            _ => break,
        }
    }
    let renamed = matches!(tokens.get(at), Some(TokenTree::Ident(ident)) if *ident == "as");
    paths.push((parts, renamed));
    at
}

/// The sources of a crate, by module.
struct Sources(BTreeMap<Place, Source>);

impl Sources {
    fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Sources {
        let sources = files.into_iter().map(|(file, text)| Source::new(file, text));
        Sources(sources.map(|source| (source.module.clone(), source)).collect())
    }

    fn of_folder(folder: &Path) -> Sources {
        let mut paths = Vec::new();
        list(folder, &mut paths);
        let files: Vec<(String, String)> = paths
            .iter()
            .map(|path| {
                let file = path.strip_prefix(folder).expect("below the folder").display();
                (file.to_string(), fs::read_to_string(path).expect("a source"))
            })
            .collect();
        Sources::new(files.iter().map(|(file, text)| (&**file, &**text)))
    }

    /// Where a name leads, if within the crate.
    fn place(&self, name: &Name) -> Option<Place> {
        let (first, rest) = name.parts.split_first()?;
        // A visibility, such as `pub(crate)`.
        if rest.is_empty() && !name.renamed {
            return None;
        }
        let mut place = name.module.clone();
        match &**first {
            "crate" => place.clear(),
            "self" => {}
            "super" => drop(place.pop()),
            child => {
                place.push(child.to_owned());
                self.0.get(&place)?;
            }
        }
        for part in rest {
            match &**part {
                "self" => {}
                "super" => drop(place.pop()),
                _ => place.push(part.clone()),
            }
        }
        Some(place)
    }

    /// The file that has what stands at a place, through those that hand it on.
    fn owner(&self, place: &Place) -> Option<&Source> {
        let mut place = place.clone();
        // As many steps as no chain of re-exports has.
        for _ in 0..8 {
            let inside =
                (0..=place.len()).rev().find(|length| self.0.contains_key(&place[..*length]))?;
            let source = &self.0[&place[..inside]];
            let Some(item) = place.get(inside).filter(|item| !source.defined.contains(*item))
            else {
                return Some(source);
            };
            let handed_on = source.names.iter().filter(|name| name.handed_on);
            let next = handed_on.filter_map(|name| self.place(name)).find_map(|from| {
                let (last, module) = from.split_last()?;
                let named = last == item;
                let globbed = last == "*" && self.0.get(module)?.defined.contains(item);
                (named || globbed).then(|| [module, std::slice::from_ref(item)].concat())
            });
            match next {
                Some(next) => place = next,
                None => return Some(source),
            }
        }
        panic!("{place:?} is handed on in a circle");
    }

    /// The edges between files that lie on a circle, those of tests aside.
    fn circles(&self) -> Vec<String> {
        let mut edges: BTreeSet<(&str, &str)> = BTreeSet::new();
        for source in self.0.values() {
            for name in source.names.iter().filter(|name| !name.handed_on && !source.is_test(name))
            {
                let owner = self.place(name).and_then(|place| self.owner(&place));
                edges.extend(owner.map(|owner| (&*source.file, &*owner.file)));
            }
        }
        edges.retain(|(from, to)| from != to);
        // An edge to a file that uses nothing, or from one that nobody uses, is on no circle.
        loop {
            let from: BTreeSet<&str> = edges.iter().map(|(from, _)| *from).collect();
            let to: BTreeSet<&str> = edges.iter().map(|(_, to)| *to).collect();
            let before = edges.len();
            edges.retain(|edge| to.contains(edge.0) && from.contains(edge.1));
            if edges.len() == before {
                return edges.iter().map(|(from, to)| format!("{from} uses {to}")).collect();
            }
        }
    }

    /// What is against the order of the rooms, each line naming both ends.
    fn against(&self, rooms: &[String]) -> Vec<String> {
        let mut wrong = Vec::new();
        let root = &self.0[&Place::new()];
        wrong.extend(
            root.names
                .iter()
                .filter(|name| name.parts == ["use"])
                .map(|_| format!("{}: it may only list the rooms", root.file)),
        );
        for source in self.0.values() {
            let file = &source.file;
            wrong.extend(source.hiding.iter().map(|what| format!("{file}: {what} hides edges")));
            let Some(room) = source.module.first() else { continue };
            let rank = |room: &String| rooms.iter().position(|known| known == room);
            let own = rank(room).unwrap_or_else(|| panic!("{file} lies in no room"));
            for place in source.names.iter().filter_map(|name| self.place(name)) {
                match place.first() {
                    None => wrong.push(format!("{file}: {room} renames the whole crate")),
                    Some(used) if rank(used).is_none_or(|used| own < used) => {
                        wrong.push(format!("{file}: {room} uses {used}, which is not above it"));
                    }
                    Some(_) => {}
                }
            }
            // Whoever may call a method of a type needs no path to it.
            for extended in &source.extended {
                let is_own = |other: &Source| {
                    other.module.first() == Some(room) && other.defined.contains(extended)
                };
                if !self.0.values().any(is_own) {
                    wrong.push(format!("{file}: {room} adds methods to another room's {extended}"));
                }
            }
        }
        wrong.dedup();
        wrong
    }

    /// The rooms in the order in which the crate's root lists them.
    fn rooms(text: &str) -> Vec<String> {
        let module =
            |line: &str| Some(line.strip_prefix("pub mod ")?.strip_suffix(';')?.to_owned());
        text.lines().filter_map(module).collect()
    }
}

/// All sources in a folder and those within.
fn list(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            list(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn sources_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src")
}

#[test]
fn each_room_uses_only_those_above_it() {
    let folder = sources_of("engine");
    let rooms = Sources::rooms(&fs::read_to_string(folder.join("lib.rs")).expect("the root"));
    assert!(10 < rooms.len(), "{rooms:?}");
    let wrong = Sources::of_folder(&folder).against(&rooms);
    assert!(wrong.is_empty(), "edges against the order:\n{}", wrong.join("\n"));
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let mut circles = Vec::new();
    for name in ["http1", "engine", "target", "perf"] {
        let found = Sources::of_folder(&sources_of(name)).circles();
        circles.extend(found.into_iter().map(|edge| format!("{name}: {edge}")));
    }
    assert!(circles.is_empty(), "edges in circles:\n{}", circles.join("\n"));
}

#[test]
fn an_edge_against_the_order_is_named_with_both_ends() {
    const ROOT: &str = "pub mod sys;\n\npub mod plan;\n\npub mod run;\n";
    let check = |file: &str, source: &str, expected: &[&str]| {
        let modules = [("lib.rs", ROOT), ("run/mod.rs", "pub struct Run;"), (file, source)];
        let wrong = Sources::new(modules).against(&Sources::rooms(ROOT));
        assert_eq!(wrong, expected, "{source}");
    };
    let upward = ["plan/a.rs: plan uses run, which is not above it"];
    check("run/a.rs", "use crate::plan::Plan;\nuse super::Run;\nuse crate::run::Run;", &[]);
    for source in [
        "use crate::run::Run;",
        "use crate::{sys::clock, run::{self, Run}};",
        "use super::super::run::Run;",
        "use super::super::{sys, run::Run};",
        "fn f() { assert!(crate::run::is_over()); }",
        "mod tests { use super::super::super::run::Run; }",
        "pub(crate) use crate::run as later;",
        "/* not */ type Later = Vec<crate::run::Run>;",
    ] {
        check("plan/a.rs", source, &upward);
    }
    check("plan/a.rs", "// crate::run\n/// [`crate::run`]\nconst A: &str = \"crate::run\";", &[]);
    let whole = ["plan/a.rs: plan renames the whole crate"];
    check("plan/a.rs", "use crate as everything;", &whole);
    check("plan/a.rs", "use crate::{self as everything};", &whole);
    check("plan/a.rs", "use super::super as everything;", &whole);
    check("plan/a.rs", "use crate::*;", &["plan/a.rs: plan uses *, which is not above it"]);
    check("plan/a.rs", "use crate::Run;", &["plan/a.rs: plan uses Run, which is not above it"]);
    check("lib.rs", "pub use run::Run;", &["lib.rs: it may only list the rooms"]);
    check("plan/a.rs", "extern crate self as e;", &["plan/a.rs: extern crate hides edges"]);
    check("plan/a.rs", "#[path = \"../run/mod.rs\"] mod b;", &["plan/a.rs: #[path] hides edges"]);
    check("plan/a.rs", "include!(\"b.rs\");", &["plan/a.rs: include! hides edges"]);
    check("sys/a.rs", "impl Clock { fn f() {} }\nstruct Clock;\nimpl Copy for Run {}", &[]);
    check("sys/a.rs", "fn f(to: impl Fn()) -> impl Iterator<Item = u8> {}", &[]);
    check(
        "plan/a.rs",
        "impl<T> Run<T> { fn f() {} }",
        &["plan/a.rs: plan adds methods to another room's Run"],
    );
}

#[test]
fn a_circle_is_named_with_its_edges() {
    let check = |files: &[(&str, &str)], expected: &[&str]| {
        assert_eq!(Sources::new(files.iter().copied()).circles(), expected, "{files:?}");
    };
    let (a, b) = (("r/a.rs", "use super::b::B;\npub struct A;"), "r/b.rs");
    let circle = ["r/a.rs uses r/b.rs", "r/b.rs uses r/a.rs"];
    check(&[a, (b, "pub struct B;")], &[]);
    check(&[a, (b, "use super::a::A;\npub struct B;")], &circle);
    check(&[a, (b, "fn f() -> crate::r::a::A {}")], &circle);
    check(&[a, (b, "#[cfg(test)]\nmod tests { use super::super::a::A; }")], &[]);
    // What the folder's own file hands on is where it came from.
    let door = ("r/mod.rs", "mod a;\nmod b;\npub use a::A;\npub(crate) use b::*;");
    check(&[door, a, (b, "use super::A;\npub struct B;")], &circle);
    check(&[door, ("r/a.rs", "use super::B;\npub struct A;"), (b, "pub struct B;")], &[]);
    check(
        &[("r/mod.rs", "use a::A;\npub struct Shared;"), ("r/a.rs", "use super::Shared;")],
        &["r/a.rs uses r/mod.rs", "r/mod.rs uses r/a.rs"],
    );
}
