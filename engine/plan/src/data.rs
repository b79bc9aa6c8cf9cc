//! Files of data, whose rows requests take: the value of `--data`, and the table that is read from
//! its file.
//!
//! A table is kept in memory, not mapped: access to a mapping of a truncated file raises a signal.
//! It takes the bytes of all values, and four more for each.

use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::error::PlanError;
use super::similar::nearest;

/// A data file, and which of its rows a request takes. As text `FILE`, followed by those of
/// `,random`, `,zipf=S`, `,stop` and `,fail` that apply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct DataFile {
    /// The file.
    pub file: PathBuf,
    /// Which row a request takes.
    pub pick: Pick,
    /// What happens when all rows have been taken.
    pub end: End,
}

/// Which row a request takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pick {
    /// The one with its number.
    ByNumber,
    /// Any of them, each as likely as the others.
    AtRandom,
    /// Row `k` with a probability proportional to `k` to the power of minus this exponent.
    Zipf(f64),
}

/// What happens when requests have taken all rows by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// They are taken again, from the first on.
    Wrap,
    /// The run ends.
    Stop,
    /// The run isn't started, unless the rows suffice for all its requests.
    Fail,
}

/// The options after a file's name.
const OPTIONS: [&str; 4] = ["random", "zipf", "stop", "fail"];

/// A text that isn't a data file and its options.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidDataFile {
    /// It names no file.
    #[error("no file is named: give FILE.csv, and after it ,random or ,zipf=S or ,stop or ,fail")]
    NoFile,
    /// The exponent isn't a number.
    #[error("invalid exponent `{0}`: give a number from 0 to 10, e.g. zipf=1.1")]
    Exponent(String),
    /// Two of its options exclude each other.
    #[error("`{0}` and `{1}` exclude each other: keep one")]
    Both(String, String),
}

impl FromStr for DataFile {
    type Err = InvalidDataFile;

    fn from_str(text: &str) -> Result<DataFile, InvalidDataFile> {
        let (mut file, mut pick, mut end) = (text, None, None);
        let mut last = None;
        while let Some((before, option)) = file.rsplit_once(',') {
            match option {
                "random" => pick = Some(Pick::AtRandom),
                "stop" => end = Some(End::Stop),
                "fail" => end = Some(End::Fail),
                _ => match option.strip_prefix("zipf=") {
                    Some(exponent) => pick = Some(Pick::Zipf(parsed(exponent)?)),
                    None => break,
                },
            }
            // Each option excludes all others.
            if let Some(last) = last.replace(option) {
                return Err(InvalidDataFile::Both(option.to_owned(), last.to_owned()));
            }
            file = before;
        }
        if file.is_empty() {
            return Err(InvalidDataFile::NoFile);
        }
        Ok(DataFile {
            file: file.into(),
            pick: pick.unwrap_or(Pick::ByNumber),
            end: end.unwrap_or(End::Wrap),
        })
    }
}

impl DataFile {
    /// The cure if its file can't be read because an option is misspelt, and so taken for a part of
    /// the file's name.
    pub(super) fn cure(&self) -> Option<String> {
        let name = self.file.to_str()?;
        let (_, last) = name.rsplit_once(',').filter(|(_, last)| !last.contains('/'))?;
        let word = last.split('=').next().unwrap_or_default();
        match nearest(word, OPTIONS)? {
            "zipf" => Some("did you mean `,zipf=S`, e.g. ,zipf=1.1?".to_owned()),
            option => Some(format!("did you mean `,{option}`?")),
        }
    }
}

/// The exponent of a Zipf distribution.
pub(super) fn parsed(exponent: &str) -> Result<f64, InvalidDataFile> {
    let number = exponent.parse::<f64>().ok().filter(|number| (0.0..=10.0).contains(number));
    number.ok_or_else(|| InvalidDataFile::Exponent(exponent.to_owned()))
}

impl fmt::Display for DataFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        match self.pick {
            Pick::ByNumber => {}
            Pick::AtRandom => f.write_str(",random")?,
            Pick::Zipf(exponent) => write!(f, ",zipf={exponent}")?,
        }
        f.write_str(match self.end {
            End::Wrap => "",
            End::Stop => ",stop",
            End::Fail => ",fail",
        })
    }
}

impl From<DataFile> for String {
    fn from(data: DataFile) -> String {
        data.to_string()
    }
}

impl TryFrom<String> for DataFile {
    type Error = InvalidDataFile;

    fn try_from(text: String) -> Result<DataFile, InvalidDataFile> {
        text.parse()
    }
}

/// A plan's data, read from its file.
#[derive(Clone, Debug)]
pub struct Data {
    /// Its name in fields.
    pub name: String,
    /// Its file, and which row a request takes.
    pub of: DataFile,
    /// Its values.
    pub table: Arc<Table>,
    /// True if its values stand in URLs as they are: a log's paths are encoded already.
    pub is_encoded: bool,
}

impl Data {
    /// An error about it.
    pub fn refuse(&self, problem: impl Into<String>, cure: impl Into<String>) -> PlanError {
        PlanError::new("--data", &self.name, problem, cure)
    }
}

/// A data file's columns and rows.
#[derive(Debug)]
pub struct Table {
    columns: Vec<String>,
    /// All values, row by row.
    text: String,
    /// Where each of them ends.
    ends: Vec<u32>,
    /// The length of each column's longest value, in bytes.
    longest: Vec<usize>,
}

impl Table {
    /// A table of these columns, without a row.
    pub fn new(columns: Vec<String>) -> Table {
        let longest = vec![0; columns.len()];
        Table { columns, text: String::new(), ends: Vec::new(), longest }
    }

    /// Adds a row: a value for each column.
    ///
    /// # Panics
    /// The values have 4 GiB or more: a file that is read has at most one.
    pub fn push<'a>(&mut self, row: impl IntoIterator<Item = &'a str>) {
        for (value, longest) in row.into_iter().zip(&mut self.longest) {
            self.text.push_str(value);
            self.ends.push(u32::try_from(self.text.len()).expect("a file of at most a GiB"));
            *longest = value.len().max(*longest);
        }
    }

    /// Reads the data called `name` from the contents of its file.
    ///
    /// # Errors
    /// It can't be read, isn't CSV with a header line, has a quote that isn't closed, or no row.
    pub fn read(name: &str, contents: impl Read) -> Result<Table, PlanError> {
        let refuse = |problem: String, cure: &str| PlanError::new("--data", name, problem, cure);
        let not_csv = |error: csv::Error| {
            // The crate's own text may show a value.
            let line = error.position().map_or(String::new(), |at| format!("line {}: ", at.line()));
            let problem = match error.kind() {
                csv::ErrorKind::Io(error) => {
                    return refuse(format!("can't read the file ({error})"), "give a readable one");
                }
                csv::ErrorKind::Utf8 { .. } => "not UTF-8".to_owned(),
                csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                    let plural = if *len == 1 { "" } else { "s" };
                    format!("{len} value{plural}, but the header has {expected_len}")
                }
                _ => "not CSV".to_owned(),
            };
            refuse(format!("{line}{problem}"), "correct that line")
        };
        let mut reader = csv::Reader::from_reader(Quotes::of(contents));
        let columns: Vec<String> =
            reader.headers().map_err(not_csv)?.iter().map(str::to_owned).collect();
        if let Some(twice) = columns
            .iter()
            .enumerate()
            .find_map(|(at, column)| columns[..at].contains(column).then_some(column))
        {
            return Err(refuse(format!("two columns are called {twice:?}"), "rename one of them"));
        }
        let mut table = Table::new(columns);
        let mut record = csv::StringRecord::new();
        while reader.read_record(&mut record).map_err(not_csv)? {
            table.push(&record);
        }
        if let Some(line) = reader.get_ref().odd_line() {
            let problem = format!(
                "a quote isn't closed: the file has an odd number of quotes, and line {line} is \
                 the first line with an odd number"
            );
            let cure = r#"close it; one that is part of a value is written as "" between quotes"#;
            return Err(refuse(problem, cure));
        }
        if table.ends.is_empty() {
            return Err(refuse("it has no row below its header line".to_owned(), "add one"));
        }
        Ok(table)
    }

    /// The number of rows, at least one.
    pub fn rows(&self) -> u64 {
        (self.ends.len() / self.columns.len()) as u64
    }

    /// The names of its columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// A value, by its row and the position of its column.
    #[inline]
    pub fn value(&self, row: u64, column: usize) -> &str {
        let row = usize::try_from(row).expect("an address has 64 bits");
        let at = row * self.columns.len() + column;
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[from as usize..self.ends[at] as usize]
    }

    /// The length of a column's longest value, in bytes.
    pub fn longest(&self, column: usize) -> usize {
        self.longest[column]
    }

    /// The values of a column, in order of its rows.
    pub fn values(&self, column: usize) -> impl Iterator<Item = &str> {
        (0..self.rows()).map(move |row| self.value(row, column))
    }

    #[cfg(test)]
    pub(super) fn of_text(text: &str) -> Result<Table, PlanError> {
        Table::read("users", text.as_bytes())
    }
}

/// Passes a file on and counts its quotes: the parser takes all that follows a quote without an end
/// for one value, so rows would be lost.
struct Quotes<R> {
    inner: R,
    /// The line that is being read.
    line: u64,
    /// True if the lines before it, or it so far, have an odd number.
    is_odd: [bool; 2],
    /// The first line with an odd number.
    first_odd: Option<u64>,
}

impl<R> Quotes<R> {
    fn of(inner: R) -> Quotes<R> {
        Quotes { inner, line: 1, is_odd: [false; 2], first_odd: None }
    }

    /// The first line with an odd number of quotes, if the whole file has an odd number.
    fn odd_line(&self) -> Option<u64> {
        let [before, last] = self.is_odd;
        (before != last).then(|| self.first_odd.unwrap_or(self.line))
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(room)?;
        for byte in &room[..length] {
            match byte {
                b'"' => self.is_odd[1] = !self.is_odd[1],
                b'\n' => {
                    let [before, line] = self.is_odd;
                    if line && self.first_odd.is_none() {
                        self.first_odd = Some(self.line);
                    }
                    self.is_odd = [before != line, false];
                    self.line += 1;
                }
                _ => {}
            }
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_follow_the_file() {
        let read = |text: &str| text.parse::<DataFile>();
        for (text, file, pick, end) in [
            ("users.csv", "users.csv", Pick::ByNumber, End::Wrap),
            ("a,b.csv", "a,b.csv", Pick::ByNumber, End::Wrap),
            ("users.csv,random", "users.csv", Pick::AtRandom, End::Wrap),
            ("a,b,zipf=1.1", "a,b", Pick::Zipf(1.1), End::Wrap),
            ("users.csv,stop", "users.csv", Pick::ByNumber, End::Stop),
            ("users.csv,fail", "users.csv", Pick::ByNumber, End::Fail),
        ] {
            let data = DataFile { file: file.into(), pick, end };
            assert_eq!(read(text), Ok(data.clone()), "{text}");
            assert_eq!(data.to_string(), text);
        }
        for (text, problem) in [
            ("", "no file is named"),
            (",random", "no file is named"),
            ("a,zipf=x", "invalid exponent `x`"),
            ("a,zipf=-1", "invalid exponent `-1`"),
            ("a,random,stop", "`random` and `stop` exclude each other"),
            ("a,zipf=1,random", "`zipf=1` and `random` exclude"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn values_are_quoted_as_in_rfc_4180() {
        let text = "\u{feff}id,name\r\n1,\"a, \"\"b\"\"\nc\"\r\n2,\r\n";
        let table = Table::of_text(text).expect("a table");
        assert_eq!((table.rows(), table.columns()), (2, &["id".to_owned(), "name".to_owned()][..]));
        assert_eq!(table.values(0).collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(table.values(1).collect::<Vec<_>>(), ["a, \"b\"\nc", ""]);
    }

    #[test]
    fn a_file_that_is_no_table_is_refused_without_its_values() {
        for (text, problem) in [
            ("", "no row"),
            ("id\n", "no row"),
            ("id,id\n1,2\n", "two columns are called \"id\""),
            ("id,name\n1,2\npa55\n", "line 3: 1 value, but the header has 2"),
            ("id,name\n1,2\n3,4,5\n", "line 3: 3 values, but the header has 2"),
            (
                "id,name\n1,a\n2,\"pa55\n3,c\n",
                "a quote isn't closed: the file has an odd number of quotes, and line 3 is",
            ),
            ("id,name\n1,\"a\n\"\n2,5\" pipe\n", "a quote isn't closed"),
            ("id,name\n1,\"pa55", "and line 2 is the first"),
        ] {
            let error = Table::of_text(text).expect_err(problem);
            assert_eq!(error.flag, "--data");
            assert!(error.to_string().contains(problem), "{error}");
            assert!(!error.to_string().contains("pa55"), "{error}");
        }
    }
}
