//! Requests as header blocks, rendered before the run.
//!
//! A request has three renderings. The first block of a connection puts the fields that all
//! requests share into the peer's table; in every later block such a field is one byte, so a
//! request is constant bytes and costs the target what that of a real client costs. If the table of
//! the peer is too small for them, no block refers to it.
//!
//! A field that differs between requests (a path of several routes, a value made from a request's
//! number) is sent as text every time and never enters the table. So after the first block the
//! table is constant, the same on every connection, and nothing is kept for a connection but which
//! rendering comes next.

use std::fmt;

use crate::hpack::encoder::{self, Indexing, Mode};
use crate::hpack::section::FIELD_OVERHEAD;
use crate::hpack::static_table::DYNAMIC_FIRST;
use crate::settings::TABLE_BYTES;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The same in every request.
    Constant(&'a str),
    /// Given anew for each request.
    Varies,
    /// The same, and the field is left out if it is empty.
    Optional,
}

/// The parts of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestSpec<'a> {
    /// The method, for example `GET`; any token but CONNECT.
    pub method: &'a str,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// The host, and its port unless it is the scheme's default.
    pub authority: Value<'a>,
    /// The path in origin form, with its query: `/search?q=1`; `*` with OPTIONS.
    pub path: Value<'a>,
    /// The other fields, sent in this order. Names may have capitals, which HTTP/2 hasn't.
    pub headers: &'a [(&'a str, Value<'a>)],
}

/// Why a request can't be sent: the variant names the invalid part. The text doesn't repeat values,
/// which may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The method isn't a token.
    Method(String),
    /// CONNECT asks for a tunnel, which has no responses to measure.
    Connect,
    /// A header name isn't a token.
    HeaderName(String),
    /// A value holds a control character, or begins or ends with a blank.
    Value(String),
    /// The field is one of an HTTP/1.1 connection.
    ConnectionField(String),
    /// Host is the authority's place in HTTP/1.1 only.
    Host,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Method(_) => write!(f, "not a token (RFC 9110, section 9.1)"),
            RequestError::Connect => write!(f, "opens a tunnel, which can't be measured"),
            RequestError::HeaderName(_) => {
                write!(f, "the name isn't a token (RFC 9110, section 5.1)")
            }
            RequestError::Value(name) => write!(
                f,
                "the value of {name} holds a control character, or begins or ends with a blank \
                 (RFC 9113, section 8.2.1)"
            ),
            RequestError::ConnectionField(name) => {
                write!(f, "HTTP/2 has no {name} (RFC 9113, section 8.2.2)")
            }
            RequestError::Host => {
                write!(f, "HTTP/2 has :authority instead of Host (RFC 9113, section 8.3.1)")
            }
        }
    }
}

impl std::error::Error for RequestError {}

/// A field, its name in small letters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: String,
    /// `None` if it varies.
    value: Option<String>,
    /// True if it is left out without a value.
    is_optional: bool,
}

impl Field {
    /// Its size in the table, bytes.
    fn size(&self) -> u32 {
        let value = self.value.as_ref().map_or(0, String::len);
        u32::try_from(self.name.len() + value).map_or(u32::MAX, |length| length + FIELD_OVERHEAD)
    }

    /// True if both tables can hold it, and the static one doesn't.
    fn can_enter(&self) -> bool {
        let value = self.value.as_ref();
        value.is_some_and(|value| encoder::static_index(&self.name, value).is_none())
    }
}

/// A header block whose varying values are put in when it is sent.
#[derive(Clone, Debug, Default)]
struct Rendering {
    bytes: Vec<u8>,
    /// Where those values go, in their order.
    holes: Vec<Hole>,
}

/// The place of a value that varies.
#[derive(Clone, Copy, Debug)]
struct Hole {
    /// Where its field begins, if that is left out without a value; else where it goes itself.
    from: usize,
    /// Where it goes.
    at: usize,
}

/// The renderings of one request.
#[derive(Clone, Debug)]
struct Renderings {
    first: Rendering,
    later: Rendering,
    plain: Rendering,
    is_head: bool,
    field_bytes: usize,
}

/// All requests of a connection.
#[derive(Clone, Debug)]
pub struct Requests {
    requests: Vec<Renderings>,
    /// What the shared fields take of the peer's table, bytes.
    table_bytes: u32,
}

impl Requests {
    /// Renders requests.
    ///
    /// # Errors
    /// The place of the first that can't be sent, and why.
    pub fn render(specs: &[RequestSpec]) -> Result<Requests, (usize, RequestError)> {
        let fields = |(place, spec)| fields(spec).map_err(|error| (place, error));
        let requests: Vec<Vec<Field>> =
            specs.iter().enumerate().map(fields).collect::<Result<_, _>>()?;
        let shared = shared(&requests);
        let renderings = |(fields, spec): (&Vec<Field>, &RequestSpec)| Renderings {
            first: Rendering::new(fields, &shared, Mode::First),
            later: Rendering::new(fields, &shared, Mode::Later),
            plain: Rendering::new(fields, &shared, Mode::Plain),
            is_head: spec.method == "HEAD",
            field_bytes: fields
                .iter()
                .map(|field| field.name.len() + field.value.as_ref().map_or(0, String::len))
                .sum(),
        };
        Ok(Requests {
            requests: requests.iter().zip(specs).map(renderings).collect(),
            table_bytes: shared.iter().map(Field::size).sum(),
        })
    }

    /// The length of a request's names and constant values, uncompressed, bytes.
    pub fn field_bytes(&self, request: usize) -> usize {
        self.requests[request].field_bytes
    }

    /// The longest header block of a request whose varying values have this length in all, bytes.
    pub fn block_bytes_max(&self, request: usize, values_bytes: usize) -> usize {
        // A length of up to five bytes for each value, and the table's limit before all.
        let Renderings { first, later, plain, .. } = &self.requests[request];
        let constant = [first, later, plain].map(|rendering| rendering.bytes.len());
        constant.into_iter().max().unwrap_or(0) + values_bytes + 5 * (first.holes.len() + 1)
    }

    /// What the shared fields take of the peer's table, bytes.
    #[inline]
    pub(crate) fn table_bytes(&self) -> u32 {
        self.table_bytes
    }

    /// True if the responses have no body because the method is HEAD.
    #[inline]
    pub(crate) fn is_head(&self, request: usize) -> bool {
        self.requests[request].is_head
    }

    /// Appends the block of a request, with its varying values in their order.
    #[inline]
    pub(crate) fn write(&self, request: usize, mode: Mode, values: &[&[u8]], out: &mut Vec<u8>) {
        let renderings = &self.requests[request];
        let Rendering { bytes, holes } = match mode {
            Mode::First => &renderings.first,
            Mode::Later => &renderings.later,
            Mode::Plain => &renderings.plain,
        };
        assert_eq!(values.len(), holes.len(), "each varying field is given a value");
        let mut from = 0;
        for (hole, value) in holes.iter().zip(values) {
            if value.is_empty() && hole.from < hole.at {
                out.extend_from_slice(&bytes[from..hole.from]);
            } else {
                out.extend_from_slice(&bytes[from..hole.at]);
                encoder::plain_text(value, out);
            }
            from = hole.at;
        }
        out.extend_from_slice(&bytes[from..]);
    }
}

impl Rendering {
    fn new(fields: &[Field], shared: &[Field], mode: Mode) -> Rendering {
        let mut rendering = Rendering::default();
        // A field that occurs twice in a request enters the table once.
        let mut entered = 0;
        for field in fields {
            let bytes = &mut rendering.bytes;
            let Some(value) = &field.value else {
                let before = bytes.len();
                encoder::literal(&field.name, Indexing::Without, bytes);
                let at = bytes.len();
                let from = if field.is_optional { before } else { at };
                rendering.holes.push(Hole { from, at });
                continue;
            };
            let is_next = shared.get(entered) == Some(field);
            entered += usize::from(is_next);
            let place = shared.iter().position(|shared| shared == field);
            match (encoder::static_index(&field.name, value), place, mode) {
                (Some(index), _, _) => encoder::indexed(index, bytes),
                // The newest field of the table has the lowest index.
                (None, Some(place), Mode::Later) => {
                    let newer = u32::try_from(shared.len() - 1 - place).expect("a small table");
                    encoder::indexed(DYNAMIC_FIRST + newer, bytes);
                }
                (None, Some(_), Mode::First) if is_next => {
                    encoder::literal(&field.name, Indexing::Incremental, bytes);
                    encoder::text(value.as_bytes(), bytes);
                }
                _ => {
                    encoder::literal(&field.name, Indexing::Without, bytes);
                    encoder::text(value.as_bytes(), bytes);
                }
            }
        }
        rendering
    }
}

/// The fields that all requests have, in an order that is that of each, as far as they fit into a
/// table of 4 KiB.
fn shared(requests: &[Vec<Field>]) -> Vec<Field> {
    let Some((first, others)) = requests.split_first() else { return Vec::new() };
    let mut shared: Vec<Field> = Vec::new();
    let mut size = 0;
    // Behind the last shared field, in each of the others.
    let mut from = vec![0; others.len()];
    for field in first.iter().filter(|field| field.can_enter()) {
        let place = |(fields, from): (&Vec<Field>, &usize)| {
            // Its first occurrence, since that is where it enters the table.
            let place = fields.iter().position(|other| other == field)?;
            (*from <= place).then_some(place + 1)
        };
        let behind: Option<Vec<usize>> = others.iter().zip(&from).map(place).collect();
        let fits = size + field.size().min(TABLE_BYTES) <= TABLE_BYTES
            && field.size() <= TABLE_BYTES
            && !shared.contains(field);
        if let Some(behind) = behind.filter(|_| fits) {
            size += field.size();
            from = behind;
            shared.push(field.clone());
        }
    }
    shared
}

/// The fields of a request, pseudo-fields first.
fn fields(spec: &RequestSpec) -> Result<Vec<Field>, RequestError> {
    if !is_token(spec.method) {
        return Err(RequestError::Method(spec.method.to_owned()));
    }
    if spec.method == "CONNECT" {
        return Err(RequestError::Connect);
    }
    let pseudo = [
        (":method", Value::Constant(spec.method)),
        (":scheme", Value::Constant(spec.scheme)),
        (":authority", spec.authority),
        (":path", spec.path),
    ];
    spec.headers.iter().try_for_each(|&(name, value)| check_header(name, value))?;
    let all = pseudo.iter().chain(spec.headers);
    all.map(|&(name, value)| field(name, value)).collect()
}

/// Checks a field that isn't a pseudo-field.
fn check_header(name: &str, value: Value) -> Result<(), RequestError> {
    const OF_CONNECTION: [&str; 5] =
        ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    if !is_token(name) {
        return Err(RequestError::HeaderName(name.to_owned()));
    }
    if is("host") {
        return Err(RequestError::Host);
    }
    let other_te = is("te") && value != Value::Constant("trailers");
    if other_te || OF_CONNECTION.iter().any(|other| is(other)) {
        return Err(RequestError::ConnectionField(name.to_owned()));
    }
    Ok(())
}

/// A field with a valid value.
fn field(name: &str, given: Value) -> Result<Field, RequestError> {
    let value = match given {
        Value::Varies | Value::Optional => None,
        Value::Constant(value) => {
            let control = value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t');
            if control || value.trim_matches([' ', '\t']) != value {
                return Err(RequestError::Value(name.to_owned()));
            }
            Some(value.to_owned())
        }
    };
    let is_optional = matches!(given, Value::Optional);
    Ok(Field { name: name.to_ascii_lowercase(), value, is_optional })
}

/// True for a token (RFC 9110, section 5.6.2).
fn is_token(text: &str) -> bool {
    let in_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(in_token)
}
