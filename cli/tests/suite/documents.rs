//! README and the pages of `docs` keep their promises: the binary can parse their command lines,
//! those that can run do, every name in them exists, links have targets, and no page is too long.
//!
//! The second word after a block's language decides how it is tested. ` ```sh run` is run in a
//! temporary folder. ` ```console run` is a command line after `$ ` with all of its output. A
//! file's name, as in ` ```toml plan.toml`, is where the block is written for those that run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use engine::plan::thresholds::Thresholds;
use engine::report::RULES;

use crate::support::{BINARY, NO_CACHE, Target, binary, bounded, said};

/// The length of loads here, shorter than in the documents.
const DURATION: &str = "400ms";
const SHORTENED: [(&str, &str); 7] = [
    ("TRUETAIL_DURATION", DURATION),
    ("TRUETAIL_WARMUP", "100ms"),
    ("TRUETAIL_SETTLE", "0s"),
    ("TRUETAIL_TIMEOUT", "1s"),
    ("TRUETAIL_WITHIN", "3s"),
    ("TRUETAIL_COOLDOWN", "0s"),
    ("TRUETAIL_SLICES", "5"),
];

/// The most requests of a load here.
const REQUESTS_MAX: u64 = 2_000;

/// Exit codes of a valid line that has run: the numbers of so short a run may be doubted, and its
/// objectives missed.
const HAS_RUN: [i32; 3] = [0, 3, 4];

/// The addresses of the servers that the documents load, which this test's servers replace.
const ADDRESSES: [&str; 2] = ["127.0.0.1:8080", "127.0.0.1:8081"];

/// The values of the shell's variables in the documents.
const VARIABLES: [(&str, &str); 5] = [
    ("$@", "http://127.0.0.1:8080/"),
    ("$OLD", "http://127.0.0.1:8080/"),
    ("$NEW", "http://127.0.0.1:8081/"),
    ("$seed", "1"),
    ("$duration", "60s"),
];

/// Environment variables that belong to no flag.
const OWN_VARIABLES: [&str; 2] = ["TRUETAIL_KEY", "TRUETAIL_AGENT_FLAGS"];

const SIZES: [(&str, usize); 2] = [("README.md", 10), ("ARCHITECTURE.md", 20)];
const PAGE_KB_MAX: usize = 12;

/// The project's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A document of the project.
struct Page {
    /// Its path in the project's folder.
    name: String,
    text: String,
}

/// A fenced block.
struct Block {
    language: String,
    /// The word after the language.
    word: String,
    text: String,
}

/// The document of this name.
fn page(name: &str) -> Page {
    let text = fs::read_to_string(root().join(name)).unwrap_or_else(|_| panic!("{name}"));
    Page { name: name.to_owned(), text }
}

/// README and the pages of `docs`.
fn pages() -> Vec<Page> {
    let entries = fs::read_dir(root().join("docs")).expect("docs");
    let files = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> =
        files.map(|name| format!("docs/{}", name.to_str().expect("a name"))).collect();
    names.sort();
    names.insert(0, "README.md".to_owned());
    names.iter().map(|name| page(name)).collect()
}

impl Page {
    fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut lines = self.text.lines();
        while let Some(line) = lines.next() {
            let Some(info) = line.trim_start().strip_prefix("```") else { continue };
            let indent = line.len() - line.trim_start().len();
            let inside = lines.by_ref().take_while(|line| line.trim() != "```");
            let text =
                inside.map(|line| format!("{}\n", line.get(indent..).unwrap_or(""))).collect();
            let (language, word) = info.split_once(' ').unwrap_or((info, ""));
            let (language, word) = (language.to_owned(), word.to_owned());
            blocks.push(Block { language, word, text });
        }
        blocks
    }

    /// The text outside of blocks.
    fn prose(&self) -> String {
        let mut is_inside = false;
        let lines = self.text.lines().filter(|line| {
            let is_fence = line.trim_start().starts_with("```");
            is_inside ^= is_fence;
            !is_inside && !is_fence
        });
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// The code in its prose.
    fn spans(&self) -> Vec<String> {
        let prose = self.prose();
        prose.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " ")).collect()
    }
}

/// The words of a command line as the shell splits them, up to the end of its first command.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (Some(open), _) if open == letter => quote = None,
            (None, '|' | '&' | ';' | '>' | '\n') => break,
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words.into_iter().map(with_variables).collect()
}

/// A word with the shell's variables replaced.
fn with_variables(word: String) -> String {
    VARIABLES.iter().fold(word, |word, (name, value)| word.replace(name, value))
}

/// The arguments of each command `truetail` in the text of a shell's block.
fn commands(script: &str) -> Vec<Vec<String>> {
    let script = script.replace("\\\n", " ");
    let starts = ["&& ", "| ", "; ", "'"];
    let mut found = Vec::new();
    for line in script.lines().map(str::trim) {
        let after = starts.iter().flat_map(|start| line.match_indices(start));
        let after = after.map(|(at, start)| at + start.len());
        for at in std::iter::once(0).chain(after) {
            let words = words(&line[at..]);
            let is_ours =
                |first: &String| Path::new(first).file_name() == Some("truetail".as_ref());
            if words.first().is_some_and(is_ours) {
                found.push(words[1..].to_vec());
            }
        }
    }
    found
}

/// Asserts that the binary can parse these arguments. If `--help` is last, it prints help once it
/// has parsed the others.
fn is_read(page: &str, args: &[String]) {
    let output = binary().args(args).arg("--help").stdin(Stdio::null()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{page}: {args:?}: {}", said(&output));
}

/// The help of a command, or of the binary.
fn help(of: &[&str]) -> String {
    let output = binary().args(of).arg("--help").output().expect("it runs");
    String::from_utf8(output.stdout).expect("text")
}

/// The names of commands, each of which has a man page.
static COMMANDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let output = binary().args(["man", "--out"]).arg(folder.path()).output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    let files = fs::read_dir(folder.path()).expect("the folder");
    let names = files.map(|file| file.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("text"));
    names
        .filter_map(|name| Some(name.strip_prefix("truetail-")?.split_once('.')?.0.to_owned()))
        .collect()
});

/// The flags of all commands, with their dashes.
static FLAGS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let all: Vec<String> = COMMANDS.iter().map(|name| help(&[name])).collect();
    let defined = |line: &str| {
        let line = line.trim_start();
        let line =
            line.split_once(", ").filter(|(short, _)| short.len() == 2).map_or(line, |two| two.1);
        line.starts_with("--").then(|| flags_in(line).into_iter().next()).flatten()
    };
    all.iter().flat_map(|help| help.lines()).filter_map(defined).collect()
});

/// Words in a text that look like flags.
fn flags_in(text: &str) -> Vec<String> {
    let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter == '-';
    let begins = text.match_indices("--").filter(|(at, _)| {
        !text[..*at].ends_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '-')
    });
    let names = begins.map(|(at, _)| {
        let rest = &text[at..];
        rest.split(|letter| !is_of_name(letter)).next().unwrap_or_default().to_owned()
    });
    names.filter(|name| name.len() > 3).collect()
}

/// Words in a text that look like codes and names in JSON.
fn names_in(text: &str) -> BTreeSet<String> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_of_name(letter));
    words.filter(|word| is_name(word)).map(str::to_owned).collect()
}

fn is_name(word: &str) -> bool {
    let fits =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    word.contains('_')
        && word.starts_with(|letter: char| letter.is_ascii_lowercase())
        && word.chars().all(fits)
}

/// The names in all sources of these folders.
fn names_below(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            names_below(&path, names);
        } else if path.extension() == Some("rs".as_ref()) {
            names.extend(names_in(&fs::read_to_string(&path).expect("text")));
        }
    }
}

#[test]
fn each_command_line_is_one_that_the_binary_reads() {
    let mut read = 0;
    for page in pages() {
        for block in page.blocks().iter().filter(|block| block.language == "sh") {
            for args in commands(&block.text) {
                is_read(&page.name, &args);
                read += 1;
            }
        }
        for span in page.spans() {
            let args = words(&span);
            let is_whole = !span.contains('…') && span.contains(" -");
            if is_whole && args.first().is_some_and(|first| first == "truetail") {
                is_read(&page.name, &args[1..]);
                read += 1;
            }
        }
    }
    assert!(50 < read, "only {read} lines were found");
}

#[test]
fn each_flag_command_and_variable_that_a_page_names_exists() {
    assert!(FLAGS.contains("--rate") && FLAGS.contains("--write-cacert"), "{FLAGS:?}");
    for page in pages() {
        let name = &page.name;
        let spans = page.spans();
        // The flags of other tools come after their names.
        let ours =
            spans.iter().filter(|span| span.starts_with("--") || span.starts_with("truetail "));
        let outside: String = page.prose().split('`').step_by(2).collect();
        for flag in ours.flat_map(|span| flags_in(span)).chain(flags_in(&outside)) {
            assert!(FLAGS.contains(&flag), "{name}: there is no {flag}");
        }
        for span in spans.iter().filter_map(|span| span.strip_prefix("truetail ")) {
            let word = span.split(' ').next().expect("a word");
            let is_command =
                word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
            if is_command && !word.starts_with('-') {
                assert!(COMMANDS.iter().any(|name| name == word), "{name}: truetail {word}");
            }
        }
        let variables = page.text.match_indices("TRUETAIL_").map(|(at, _)| &page.text[at..]);
        for text in variables {
            let end = |letter: char| !letter.is_ascii_uppercase() && letter != '_';
            let variable = text.split(end).next().expect("a name");
            let flag = variable.replacen("TRUETAIL", "-", 1).replace('_', "-").to_lowercase();
            let exists = OWN_VARIABLES.contains(&variable) || FLAGS.contains(&flag);
            assert!(exists, "{name}: {variable} sets nothing");
        }
    }
}

#[test]
fn each_code_and_field_that_a_page_names_exists() {
    let codes: BTreeSet<String> = RULES.iter().map(|rule| rule.code.to_string()).collect();
    let thresholds = Thresholds::default().entries().into_iter().map(|(name, _)| name);
    let mut known = names_in(&page("report.schema.json").text);
    for folder in ["agents", "calibration", "cli", "engine", "judge", "probe", "profile", "target"]
    {
        let mut names = BTreeSet::new();
        names_below(&root().join(folder), &mut names);
        known.extend(names);
    }
    known.extend(codes.iter().cloned().chain(thresholds));
    for page in pages() {
        // A path, an option of the kernel or a function isn't a name of ours.
        let spans = page.spans().into_iter().filter(|span| !span.contains(['/', ' ', '(']));
        for span in spans.filter(|span| !span.starts_with("kernel.")) {
            for name in names_in(&span) {
                assert!(known.contains(&name), "{}: there is no {name}", page.name);
            }
        }
        let printed = page.blocks().into_iter().filter(|block| block.language == "text");
        for line in
            printed.flat_map(|block| block.text.lines().map(str::to_owned).collect::<Vec<_>>())
        {
            let marks = ["suspect: ", "INVALID: ", "invalid: "];
            let listed = marks.iter().filter_map(|mark| Some(line.split_once(mark)?.1));
            for name in listed.flat_map(names_in) {
                assert!(codes.contains(&name), "{}: no reason is called {name}", page.name);
            }
        }
    }
}

#[test]
fn each_exit_code_that_a_page_names_exists() {
    let help = help(&[]);
    let (_, listed) = help.split_once("Exit codes:\n").expect("exit codes");
    let first = |line: &str| line.strip_prefix("  ")?.split(' ').next()?.parse::<u32>().ok();
    let known: Vec<u32> = listed.lines().filter_map(first).collect();
    assert!(known.contains(&0) && known.contains(&130), "{known:?}");
    for page in pages() {
        let prose = page.prose().replace('\n', " ");
        for mark in ["exit code ", "exit code is ", "exits with ", "exits "] {
            for (at, _) in prose.match_indices(mark) {
                let rest = &prose[at + mark.len()..];
                let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
                if let Ok(code) = rest[..end].parse::<u32>() {
                    assert!(known.contains(&code), "{}: no exit code is {code}", page.name);
                }
            }
        }
    }
}

/// The name by which GitHub links to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// The anchors of a document: those that it sets, and its headings; repeated ones get a number.
fn anchors(text: &str) -> BTreeSet<String> {
    let set = text.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut anchors: BTreeSet<String> = set.map(str::to_owned).collect();
    let prose = Page { name: String::new(), text: text.to_owned() }.prose();
    for line in prose.lines().filter(|line| line.starts_with('#')) {
        let name = anchor(line.trim_start_matches('#'));
        let numbered = (1..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        anchors.extend(names.find(|name| !anchors.contains(name)));
    }
    anchors
}

#[test]
fn each_link_has_a_target() {
    let mut all = pages();
    let others = ["ARCHITECTURE.md", "FINDINGS.md", "perf/README.md", "probe/README.md"];
    all.extend(others.map(page));
    for page in &all {
        let outside: String = page.prose().split('`').step_by(2).collect();
        for (at, _) in outside.match_indices("](") {
            let link = outside[at + 2..].split(')').next().expect("an end").replace('\n', " ");
            if link.contains("://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let folder = root().join(&page.name).parent().expect("a folder").to_owned();
            let path = if file.is_empty() { root().join(&page.name) } else { folder.join(file) };
            assert!(path.exists(), "{}: nothing is at {link}", page.name);
            if !heading.is_empty() {
                let text = fs::read_to_string(&path).expect("text");
                let is_there = anchors(&text).contains(heading);
                assert!(is_there, "{}: no heading for {link}", page.name);
            }
        }
    }
}

#[test]
fn each_page_and_command_is_listed_and_pages_are_short_enough_to_be_read() {
    for (name, kb_max) in SIZES {
        let bytes = page(name).text.len();
        assert!(bytes <= kb_max * 1024, "{name}: {bytes} bytes, of at most {kb_max} KB");
    }
    let (readme, list) = (page("README.md").text, page("docs/README.md").text);
    for command in COMMANDS.iter() {
        assert!(readme.contains(&format!("`truetail {command}")), "README.md lacks {command}");
    }
    for page in pages().iter().skip(1) {
        let bytes = page.text.len();
        assert!(bytes <= PAGE_KB_MAX * 1024, "{}: {bytes} bytes", page.name);
        let file = page.name.trim_start_matches("docs/");
        assert!(readme.contains(&format!("docs/{file}")), "README.md doesn't list {file}");
        let is_listed = file == "README.md" || list.contains(&format!("({file})"));
        assert!(is_listed, "docs/README.md doesn't list {file}");
    }
}

/// A line with the durations of its flags, and of its stages, shortened, and with fewer requests.
fn shortened(line: &str) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    for at in 0..words.len() {
        let (flag, next) = (words[at].clone(), at + 1);
        let is_number = |text: &str| text.parse::<u64>().is_ok_and(|count| REQUESTS_MAX < count);
        match flag.as_str() {
            "-n" if words.get(next).is_some_and(|number| is_number(number)) => {
                words[next] = REQUESTS_MAX.to_string();
            }
            flag if flag.strip_prefix("-d").is_some_and(|it| it.starts_with(char::is_numeric)) => {
                words[at] = format!("-d{DURATION}");
            }
            "-d" | "--duration" | "--warmup" | "--timeout" if next < words.len() => {
                words[next] = if flag == "--warmup" { "0s" } else { DURATION }.to_owned();
            }
            "--stages" if next < words.len() => {
                let stages = words[next].split(',').map(|stage| {
                    let rate = stage.split(':').next().unwrap_or_default();
                    format!("{rate}:{DURATION}")
                });
                words[next] = stages.collect::<Vec<String>>().join(",");
            }
            _ => {}
        }
    }
    words.join(" ")
}

/// A folder in which the blocks of a page run, with the servers that they load.
struct Sandbox {
    folder: tempfile::TempDir,
    /// The addresses in the document, and the servers that replace them.
    servers: Vec<(String, Target)>,
}

impl Sandbox {
    /// The sandbox of a page, with the files and the servers that its blocks need.
    fn of(page: &Page) -> Sandbox {
        let folder = tempfile::tempdir().expect("a folder");
        let servers = ADDRESSES
            .map(|address| (address.to_owned(), Target::start(&["--base-latency", "1ms"])));
        let sandbox = Sandbox { folder, servers: servers.into() };
        for block in page.blocks().iter().filter(|block| block.word.contains('.')) {
            let lines = block.text.lines().map(|line| match line.split_once(" = ") {
                Some(("duration", _)) => format!("duration = \"{DURATION}\"\n"),
                _ => format!("{line}\n"),
            });
            let text = sandbox.with_addresses(lines.collect());
            fs::write(sandbox.folder.path().join(&block.word), text).expect("written");
        }
        sandbox
    }

    /// A text with the addresses of the actual servers.
    fn with_addresses(&self, text: String) -> String {
        self.servers.iter().fold(text, |text, (address, server)| {
            let (_, own) = server.url.trim_end_matches('/').split_once("://").expect("a URL");
            text.replace(address, own)
        })
    }

    /// Starts the sample target that a line puts into the background. The null target, whose
    /// address already has a server, is left out.
    fn serve(&mut self, line: &str) {
        let mut args = words(line).split_off(1);
        if args.first().is_none_or(|name| name != "target") {
            return;
        }
        let listen = args.iter().position(|arg| arg == "--listen").expect("an address of its own");
        let address = args.drain(listen..listen + 2).nth(1).expect("an address");
        let args: Vec<&str> = args.iter().skip(1).map(String::as_str).collect();
        let mut command = binary();
        let server = Target::start_by(command.current_dir(self.folder.path()), &args);
        self.servers.push((address, server));
    }

    /// Runs a block of the shell.
    fn run(&mut self, page: &Page, block: &Block) {
        let text = block.text.replace("\\\n", " ");
        let (servers, lines): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.ends_with(" &"));
        servers.iter().for_each(|line| self.serve(line));
        let lines: String = lines.iter().map(|line| shortened(line) + "\n").collect();
        let codes = HAS_RUN.map(|code| code.to_string()).join(" | ");
        let script = format!(
            "truetail() {{ code=0; {BINARY} \"$@\" || code=$?; case $code in {codes}) ;; \
             *) exit $code ;; esac; }}\n{}",
            self.with_addresses(lines)
        );
        let mut shell = Command::new("sh");
        shell.args(["-ec", &script]).current_dir(self.folder.path());
        shell.envs(NO_CACHE).envs(SHORTENED).env("TRUETAIL_QUIET", "true");
        if text.contains(" --replay ") {
            // Nothing comes before a log's first request.
            shell.env_remove("TRUETAIL_WARMUP");
        }
        // To files, since the output may not fit into a pipe.
        let printed = self.folder.path().join("printed");
        let file = fs::File::create(&printed).expect("a file");
        shell.stderr(file.try_clone().expect("a file")).stdout(file).stdin(Stdio::null());
        let status = bounded(shell.spawn().expect("sh runs")).status;
        let printed = fs::read_to_string(printed).expect("text");
        assert!(status.success(), "{}, {status}: {script}\n{printed}", page.name);
    }

    /// Runs the command line of a block that shows it with its output.
    fn show(&self, page: &Page, block: &Block) {
        let (line, shown) = block.text.split_once('\n').expect("a command");
        let args = words(line.strip_prefix("$ ").expect("a prompt"));
        let child = binary()
            .args(&args[1..])
            .env("TRUETAIL_QUIET", "true")
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let output = bounded(child.expect("it runs"));
        assert_eq!(said(&output), shown, "{}: {line}", page.name);
    }
}

#[test]
fn each_command_that_can_run_does() {
    let mut ran = 0;
    for page in pages() {
        let blocks = page.blocks();
        let mut blocks = blocks.iter().filter(|block| block.word == "run").peekable();
        if blocks.peek().is_none() {
            continue;
        }
        let mut sandbox = Sandbox::of(&page);
        for block in blocks {
            match block.language.as_str() {
                "console" => sandbox.show(&page, block),
                _ => sandbox.run(&page, block),
            }
            ran += 1;
        }
    }
    assert!(10 < ran, "only {ran} blocks were found");
}

#[test]
fn each_line_for_users_of_other_tools_runs() {
    let page = page("docs/coming-from.md");
    let mut sandbox = Sandbox::of(&page);
    let urls = ["a", "b"].map(|path| format!("http://127.0.0.1:8080/{path}\n")).concat();
    fs::write(sandbox.folder.path().join("FILE"), sandbox.with_addresses(urls)).expect("written");
    let rows = page.text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").nth(2));
    let lines: Vec<String> = rows
        .filter_map(|ours| ours.split('`').find(|span| span.starts_with("truetail -")))
        .map(|line| line.replace("URL", "http://127.0.0.1:8080/") + "\n")
        .collect();
    assert!(15 < lines.len(), "{lines:?}");
    let (language, word) = ("sh".to_owned(), "run".to_owned());
    sandbox.run(&page, &Block { language, word, text: lines.concat() });
}
