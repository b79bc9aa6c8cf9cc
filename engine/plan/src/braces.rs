//! Texts with `{{fields}}`: where the fields are, and the text without them.

use std::borrow::Cow;

/// A text with fields, cut up.
pub(super) enum Piece<'a> {
    /// What stands as it is.
    Text(&'a str),
    /// What is between the braces.
    Field(&'a str),
}

/// The pieces of a text, in order.
pub(super) fn pieces(mut text: &str) -> impl Iterator<Item = Piece<'_>> {
    std::iter::from_fn(move || {
        let field = text.find("{{").and_then(|from| {
            let inner = from + 2;
            Some((from, inner..inner + text[inner..].find("}}")?))
        });
        match field {
            Some((0, inner)) => {
                let piece = Piece::Field(&text[inner.clone()]);
                text = &text[inner.end + 2..];
                Some(piece)
            }
            _ => {
                let (piece, rest) = text.split_at(field.map_or(text.len(), |(from, _)| from));
                text = rest;
                (!piece.is_empty()).then_some(Piece::Text(piece))
            }
        }
    })
}

/// How a captured value is written into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As text; in a URL percent-encoded.
    Text,
    /// As part of a JSON string: `{{json:NAME}}`.
    Json,
    /// In a URL as part of it: `{{raw:NAME}}`.
    Raw,
}

/// The form of a field, and the name behind it.
pub(super) fn form(inner: &str) -> (Form, &str) {
    let forms = [("json:", Form::Json), ("raw:", Form::Raw)];
    let found = forms
        .into_iter()
        .find_map(|(prefix, form)| inner.strip_prefix(prefix).map(|name| (form, name.trim())));
    found.unwrap_or((Form::Text, inner))
}

/// The text with as many `x` in place of each field, so that what it may contain elsewhere can be
/// checked.
pub(super) fn masked(text: &str) -> Cow<'_, str> {
    if !has_fields(text) {
        return text.into();
    }
    let masked = pieces(text).map(|piece| match piece {
        Piece::Text(text) => text.to_owned(),
        Piece::Field(inner) => "x".repeat(inner.len() + 4),
    });
    masked.collect::<String>().into()
}

/// True if a text has a field, known or unknown, or the braces that begin one.
pub(super) fn has_fields(text: &str) -> bool {
    text.contains("{{")
}
