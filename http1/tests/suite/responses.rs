//! Responses and their transcripts: each whole, byte by byte and at every two-way split.

use crate::harness::{run, transcript};

/// Checks one stream in every split against its transcript; `harness` describes the form.
fn check_method(head_request: bool, stream: &[u8], expected: &str) {
    let shown = String::from_utf8_lossy(&stream[..stream.len().min(200)]);
    let whole = transcript(head_request, std::iter::once(stream));
    assert_eq!(whole, expected, "whole: {shown:?}");
    assert_eq!(transcript(head_request, stream.chunks(1)), expected, "byte by byte: {shown:?}");
    run(&[&[u8::from(head_request)], stream].concat());
    for cut in 1..stream.len() {
        let (left, right) = stream.split_at(cut);
        let split = transcript(head_request, [left, right].into_iter());
        assert_eq!(split, expected, "cut at {cut}: {shown:?}");
        // The transcript of the left part mustn't depend on its own split.
        let known = transcript(head_request, std::iter::once(left));
        assert_eq!(transcript(head_request, left.chunks(1)), known, "up to {cut}: {shown:?}");
    }
}

fn check(stream: impl AsRef<[u8]>, expected: &str) {
    check_method(false, stream.as_ref(), expected);
}

fn check_head(stream: impl AsRef<[u8]>, expected: &str) {
    check_method(true, stream.as_ref(), expected);
}

/// A 200 with the given header lines, each with its line end.
fn ok(lines: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{lines}\r\n{body}")
}

/// A chunked 200 with the given body.
fn chunked(body: &str) -> String {
    ok("Transfer-Encoding: chunked\r\n", body)
}

#[test]
fn content_length_ends_a_body() {
    check(ok("Content-Length: 0\r\n", ""), "200 keep 0 @38; idle");
    check(ok("content-LENGTH:7\r\n", "a\r\n\r\nbc"), "200 keep 7 @44; idle");
    check(ok("Content-Length: \t 3 \t\r\n", "abc"), "200 keep 3 @45; idle");
    check(ok("Content-Length: 003\r\n", "abc"), "200 keep 3 @43; idle");
    check(ok("Content-Length: 4\r\n", "abc"), "cut_short");
    check(ok("Content-Length: 1\r\n", ""), "cut_short");
    check(ok("Content-Length: 18446744073709551615\r\n", "abc"), "cut_short");
    check(ok("X-Content-Length: 3\r\nContent-Lengt: 2\r\n", "abc"), "by close 200 3");
}

#[test]
fn a_bad_content_length_is_refused() {
    let bad = ["", ",", "3,", ",3", "+3", "-3", "0x3", "3 3", "3;a", "3.0", "x", "\u{663}", "3,,3"];
    for value in bad {
        check(ok(&format!("Content-Length: {value}\r\n"), "abc"), "content_length");
    }
    check(ok("Content-Length: 18446744073709551616\r\n", "abc"), "content_length");
    check(ok("Content-Length: 3\r\nContent-Length:\r\n", "abc"), "content_length");
}

#[test]
fn repeated_content_lengths_must_be_identical() {
    check(ok("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"), "200 keep 3 @60; idle");
    check(ok("Content-Length: 3 ,\t3,3\r\n", "abc"), "200 keep 3 @47; idle");
    check(ok("Content-Length: 3, 4\r\n", "abc"), "content_lengths_differ");
    check(
        ok("Content-Length: 4\r\nA: b\r\nContent-Length: 3\r\n", "abc"),
        "content_lengths_differ",
    );
    check(ok("Content-Length: 3, 03\r\n", "abc"), "content_lengths_differ");
}

#[test]
fn some_responses_have_no_body() {
    for status in [204, 304] {
        for line in ["", "Content-Length: 9\r\n", "Transfer-Encoding: chunked\r\n"] {
            let stream = format!("HTTP/1.1 {status} x\r\n{line}\r\n");
            check(&stream, &format!("{status} keep 0 @{}; idle", stream.len()));
        }
    }
    for line in ["", "Content-Length: 9\r\n", "Transfer-Encoding: chunked\r\n"] {
        let stream = ok(line, "");
        check_head(&stream, &format!("200 keep 0 @{}; idle", stream.len()));
    }
    check("HTTP/1.1 205 Reset Content\r\nContent-Length: 1\r\n\r\nx", "205 keep 1 @50; idle");
    check_head(ok("Connection: close\r\n", ""), "200 close 0 @38; idle");
}

#[test]
fn chunks_end_with_the_last_one() {
    check(chunked("0\r\n\r\n"), "200 keep 0 @52; idle");
    check(chunked("3\r\nabc\r\n0\r\n\r\n"), "200 keep 3 @60; idle");
    check(chunked("000A\r\n0123456789\r\n1\r\n\n\r\n00\r\n\r\n"), "200 keep 11 @77; idle");
    check(chunked("a\r\n\r\n0\r\n\r\n12\n\r\n0\r\n\r\n"), "200 keep 10 @67; idle");
    for stream in ["", "3", "3\r", "3\r\n", "3\r\nab", "3\r\nabc", "3\r\nabc\r", "3\r\nabc\r\n"] {
        check(chunked(stream), "cut_short");
    }
    for stream in ["0\r\n", "0\r\n\r", "0\r\nA: b\r\n", "0\r\nA: b", "0\r\nno-colon"] {
        check(chunked(stream), "cut_short");
    }
    check(chunked("ffffffffffffffff\r\nabc"), "cut_short");
}

#[test]
fn bad_chunks_are_refused() {
    for size in
        ["", " 3", "0x3", "-3", "+3", "g", "3g", "3 3", "3,", "3\u{b}", "\u{663}", ";a", "\""]
    {
        check(chunked(&format!("{size}\r\nabc\r\n0\r\n\r\n")), "chunk_size");
    }
    check(chunked("10000000000000000\r\nabc"), "chunk_size_overflow");
    check(chunked("3\r\nabcd\r\n0\r\n\r\n"), "chunk_end");
    check(chunked("3\r\nabcd\n0\r\n\r\n"), "chunk_end");
    check(chunked("3\r\nabc\n0\r\n\r\n"), "chunk_end");
    check(chunked("3\r\nabc\rx"), "chunk_end");
    check(chunked("3\nabc\r\n0\r\n\r\n"), "chunk_end");
    check(chunked("3\rabc\r\n0\r\n\r\n"), "chunk_end");
    check(chunked("3\r\nabc\r\n\r\n0\r\n\r\n"), "chunk_size");
}

#[test]
fn chunk_extensions_are_ignored() {
    for extension in
        [";a", " ; a = b", "\t;a=\"x;y, \\\"\"", ";a;b;c=1", ";\u{e4}", ";a=\"\t\"", " "]
    {
        let stream = chunked(&format!("3{extension}\r\nabc\r\n0{extension}\r\n\r\n"));
        check(&stream, &format!("200 keep 3 @{}; idle", stream.len()));
    }
    check(chunked("3;a\nabc\r\n0\r\n\r\n"), "chunk_end");
    check(chunked("3;a\rb\r\nabc\r\n0\r\n\r\n"), "chunk_end");
    check(chunked("3;a\0\r\nabc\r\n0\r\n\r\n"), "chunk_extension");
}

#[test]
fn trailers_are_fields() {
    check(chunked("1\r\nx\r\n0\r\nA: b\r\nC:\r\n\r\n"), "200 keep 1 @68; idle");
    check(chunked("0\r\nA: b\n c\n\n"), "200 keep 0 @59; idle");
    check(chunked("0\r\nContent-Length: x\r\nConnection: close\r\n\r\n"), "200 keep 0 @90; idle");
    for lines in
        ["no colon\r\n", " A: b\r\n", "A : b\r\n", "A: b\0\r\n", ": b\r\n", "A: b\rC: d\r\n"]
    {
        check(chunked(&format!("0\r\n{lines}\r\n")), "trailer");
    }
    check(chunked("0\r\nno colon"), "trailer");
}

#[test]
fn transfer_codings_are_known_or_refused() {
    let with = |value: &str| ok(&format!("Transfer-Encoding: {value}\r\n"), "0\r\n\r\n");
    for value in ["chunked", "CHUNKED", ", chunked ,", "gzip, chunked", "gzip,\tdeflate,chunked"] {
        let stream = with(value);
        check(&stream, &format!("200 keep 0 @{}; idle", stream.len()));
    }
    let split = ok("Transfer-Encoding: gzip\r\ntransfer-encoding: chunked\r\n", "0\r\n\r\n");
    check(&split, &format!("200 keep 0 @{}; idle", split.len()));
    for value in ["gzip", "x-gzip", "compress, x-compress", "chunked, gzip", ""] {
        check(with(value), "by close 200 5");
    }
    for value in ["identity", "chunkedx", "x, chunked", "chunked;a=b", "\"chunked\"", "chun ked"] {
        check(with(value), "transfer_coding");
    }
    check(with("chunked, chunked"), "chunked_twice");
    check(with("chunked, gzip, chunked"), "chunked_twice");
    check(ok("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), "two_framings");
    check(ok("Content-Length: 5\r\nTransfer-Encoding: gzip\r\n", "0\r\n\r\n"), "two_framings");
}

#[test]
fn the_close_ends_a_body_without_a_length() {
    check("HTTP/1.1 200 OK\r\n\r\n", "by close 200 0");
    check("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "by close 200 19");
    check("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nabc", "by close 200 3");
    check("HTTP/1.1 500\r\n\r\nabc", "by close 500 3");
}

#[test]
fn connections_persist_as_announced() {
    let with = |version: &str, lines: &str| {
        format!("HTTP/{version} 200 OK\r\n{lines}Content-Length: 0\r\n\r\n")
    };
    for (version, lines, persistence) in [
        ("1.1", "", "keep"),
        ("1.1", "Connection: keep-alive\r\n", "keep"),
        ("1.1", "Connection: upgrade\r\n", "keep"),
        ("1.1", "Connection: closed\r\nProxy-Connection: close\r\n", "keep"),
        ("1.1", "Connection: close\r\n", "close"),
        ("1.1", "connection:a,\t CLOSE ,b\r\n", "close"),
        ("1.1", "Connection: keep-alive\r\nConnection: close\r\n", "close"),
        ("1.1", "Connection: a,\r\n close\r\n", "close"),
        ("1.0", "", "close"),
        ("1.0", "Connection: Keep-Alive\r\n", "keep"),
        ("1.0", "Connection: keep-alive, close\r\n", "close"),
        ("1.2", "", "keep"),
        ("1.9", "Connection: close\r\n", "close"),
    ] {
        let stream = with(version, lines);
        check(&stream, &format!("200 {persistence} 0 @{}; idle", stream.len()));
    }
    // The framing of a chunked HTTP/1.0 message is faulty: close after it (RFC 9112, section 6.1).
    let faulty =
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    check(faulty, &format!("200 close 0 @{}; idle", faulty.len()));
}

#[test]
fn pipelined_responses_follow_each_other() {
    let first = ok("Content-Length: 3\r\n", "abc");
    check(first.repeat(2), "200 keep 3 @41; 200 keep 3 @82; idle");
    let mixed = format!(
        "{}{first}HTTP/1.1 304 x\r\n\r\n{}",
        chunked("1\r\nx\r\n0\r\nA: b\r\n\r\n"),
        ok("", "x")
    );
    check(mixed, "200 keep 1 @64; 200 keep 3 @105; 304 keep 0 @123; by close 200 1");
    check(format!("{first}\r\n{first}"), "200 keep 3 @41; not_http");
    check(format!("{first}HTTP"), "200 keep 3 @41; cut_short");
    check_head(ok("Content-Length: 3\r\n", "").repeat(2), "200 keep 0 @38; 200 keep 0 @76; idle");
}

#[test]
fn interim_responses_are_skipped() {
    let last = ok("Content-Length: 1\r\n", "x");
    check(format!("HTTP/1.1 100 Continue\r\n\r\n{last}"), "200 keep 1 @64; idle");
    let noisy = "HTTP/1.1 103 x\r\nContent-Length: 7\r\nTransfer-Encoding: what\r\n\
        Connection: close\r\n\r\n";
    check(format!("{noisy}{last}"), &format!("200 keep 1 @{}; idle", noisy.len() + last.len()));
    check("HTTP/1.1 100 Continue\r\n\r\n", "cut_short");
    check("HTTP/1.1 100 Continue\r\n\r\n\r\nHTTP/1.1 204 x\r\n\r\n", "not_http");
    check("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", "upgrade");
    let interim = "HTTP/1.1 199 \r\n\r\n";
    check(format!("{}{last}", interim.repeat(16)), "200 keep 1 @311; idle");
    check(format!("{}{last}", interim.repeat(17)), "too_many_interim");
}

#[test]
fn status_lines_are_exact() {
    for line in ["HTTP/1.1 200 OK", "HTTP/1.1 200 ", "HTTP/1.1 200", "HTTP/1.1 200  \tO: K\u{e4} "]
    {
        let stream = format!("{line}\r\nContent-Length: 0\r\n\r\n");
        check(&stream, &format!("200 keep 0 @{}; idle", stream.len()));
    }
    check("HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n", "999 keep 0 @37; idle");
    check("HTTP/1.1 600 x\r\nContent-Length: 0\r\n\r\n", "600 keep 0 @37; idle");
    for start in [
        "x",
        "\r\nHTTP/1.1 200 OK",
        " HTTP/1.1 200 OK",
        "http/1.1 200 OK",
        "HTTPS/1.1 200 OK",
        "SSH-2.0-x",
        "\0",
        "\u{16}\u{3}\u{1}",
    ] {
        check(format!("{start}\r\n\r\n"), "not_http");
    }
    for start in [
        "HTTP/2 200 OK",
        "HTTP/2.0 200 OK",
        "HTTP/0.9 200 OK",
        "HTTP/11.1 200 OK",
        "HTTP/1,1 200 OK",
        "HTTP/1.x 200 OK",
        "HTTP/ 1.1 200 OK",
    ] {
        check(format!("{start}\r\n\r\n"), "version");
    }
    for start in [
        "HTTP/1.1  200 OK",
        "HTTP/1.1\t200 OK",
        "HTTP/1.10 200 OK",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 -20 OK",
        "HTTP/1.1 042 x",
        "HTTP/1.1 000 x",
        "HTTP/1.0 099 x",
        "HTTP/1.1 042 x\r\nA\0",
        "HTTP/1.1 200\tOK",
        "HTTP/1.1 200 O\0K",
        "HTTP/1.1 200 O\rK",
        "HTTP/1.1 200\rOK",
        "HTTP/1.1",
        "HTTP/1.1 200 O\u{7f}K",
    ] {
        check(format!("{start}\r\n\r\n"), "status_line");
    }
}

#[test]
fn header_lines_are_exact() {
    for lines in [
        "A:b\r\n",
        "A: \r\n",
        "A:\t b c \r\n",
        "!#$%&'*+-.^_`|~09: x\r\n",
        "A: \u{e4}:\r\n",
        "A::b\r\n",
    ] {
        let stream = ok(&format!("{lines}Content-Length: 0\r\n"), "");
        check(&stream, &format!("200 keep 0 @{}; idle", stream.len()));
    }
    for lines in [
        " A: b\r\n",
        "\tA: b\r\n",
        "A : b\r\n",
        "A\t: b\r\n",
        ": b\r\n",
        "A\r\n",
        "A b: c\r\n",
        "A\0: b\r\n",
        "\u{e4}: b\r\n",
        "A(: b\r\n",
        "A\r: b\r\n",
    ] {
        check(ok(&format!("{lines}Content-Length: 0\r\n"), ""), "header_name");
    }
    for lines in
        ["A: b\0\r\n", "A: b\rc\r\n", "A:\rb\r\n", "A: \u{1}\r\n", "A: \u{7f}\r\n", "A: b\r\r\n"]
    {
        check(ok(&format!("{lines}Content-Length: 0\r\n"), ""), "header_value");
    }
    check("HTTP/1.1 200 OK\r\n\rA: b\r\n\r\n", "line_end");
}

#[test]
fn single_line_feeds_end_lines_of_the_head() {
    check("HTTP/1.1 200 OK\nContent-Length: 1\n\nx", "200 keep 1 @36; idle");
    check("HTTP/1.1 200 OK\r\nContent-Length: 1\n\r\nx", "200 keep 1 @38; idle");
    check("HTTP/1.1 200\n\n\n", "by close 200 1");
}

#[test]
fn folded_lines_are_blanks() {
    check(ok("A: b\r\n c\r\n\td\r\nContent-Length: 0\r\n", ""), "200 keep 0 @52; idle");
    check(ok("Content-Length:\r\n 1\r\n \r\n", "x"), "200 keep 1 @44; idle");
    check(ok("Content-Length: 1,\n\t1\r\n", "x"), "200 keep 1 @43; idle");
    check(ok("Content-Length: 1\r\n 1\r\n", "x"), "content_length");
    check(ok("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), "200 keep 0 @54; idle");
    check(ok("A: b\r\n \0\r\n", ""), "header_value");
}

#[test]
fn streams_that_end_early_are_cut_short() {
    check("", "idle");
    let stream = ok("Content-Length: 3\r\n", "abc");
    for length in 1..stream.len() {
        check(&stream[..length], "cut_short");
    }
}

/// A peer that breaks a rule and keeps the connection open must not be mistaken for a slow one.
#[test]
fn a_broken_byte_is_refused_before_anything_follows_it() {
    for (start, broken) in [
        ("HTTP/1.1 20", "HTTP/1.1 20x"),
        ("HTTP/1.1 200", "HTTP/1.1 200O"),
        ("HTTP/1.1 200 O", "HTTP/1.1 200 O\0"),
        ("HTTP/1.1 200 OK\r", "HTTP/1.1 200 OK\rA"),
    ] {
        check(start, "cut_short");
        check(broken, "status_line");
    }
    for (lines, last, expected) in [
        ("", " ", "header_name"),
        ("", "\0", "header_name"),
        ("A", "\0", "header_name"),
        ("A", " ", "header_name"),
        ("A", "\n", "header_name"),
        ("A:", "\0", "header_value"),
        ("A: \r", "b", "header_value"),
        ("A: b", "\u{7f}", "header_value"),
        ("A: b\r\n c", "\0", "header_value"),
        ("A: b\r\n \r\n\tc\r", "\t", "header_value"),
        ("A: b\r\n", "(", "header_name"),
        ("A: b\r\n\r", "\r", "line_end"),
    ] {
        let start = format!("HTTP/1.1 200 OK\r\n{lines}");
        check(&start, "cut_short");
        check(start + last, expected);
        let start = chunked(&format!("0\r\n{lines}"));
        check(&start, "cut_short");
        check(start + last, "trailer");
    }
}

#[test]
fn limits_are_refused() {
    let value =
        |bytes: usize| ok(&format!("A: {}\r\nContent-Length: 0\r\n", "a".repeat(bytes)), "");
    let around = value(0).len();
    let largest = value(64 * 1024 - around);
    let too_large = value(64 * 1024 - around + 1);
    let fields = |count: usize| ok(&"A: b\r\n".repeat(count), "");
    let line = |bytes: usize| chunked(&format!("1;{}\r\nx\r\n0\r\n\r\n", "a".repeat(bytes - 4)));
    let trailer = |bytes: usize| chunked(&format!("0\r\nA: {}\r\n\r\n", "a".repeat(bytes - 7)));
    let trailers = |count: usize| chunked(&format!("0\r\n{}\r\n", "A: b\r\n".repeat(count)));
    // A field is complete only when the next byte doesn't fold it.
    let beyond = fields(129);
    let end = beyond.len() - 2;
    for (stream, expected) in [
        (beyond[..end].to_owned(), "cut_short"),
        (format!("{}A", &beyond[..end]), "too_many_fields"),
        (largest, "200 keep 0 @65536; idle"),
        (too_large, "head_too_large"),
        (fields(128), "by close 200 0"),
        (fields(129), "too_many_fields"),
        (line(16 * 1024), "200 keep 1 @16439; idle"),
        (line(16 * 1024 + 1), "chunk_line_too_long"),
        (trailer(16 * 1024), "200 keep 0 @16434; idle"),
        (trailer(16 * 1024 + 1), "trailers_too_large"),
        (trailers(128), "200 keep 0 @820; idle"),
        (trailers(129), "too_many_fields"),
    ] {
        // Every split of these would take minutes; the cuts that matter are at the end.
        assert_eq!(transcript(false, std::iter::once(stream.as_bytes())), expected);
        assert_eq!(transcript(false, stream.as_bytes().chunks(1)), expected);
        for cut in stream.len() - 40..stream.len() {
            let (left, right) = stream.as_bytes().split_at(cut);
            assert_eq!(transcript(false, [left, right].into_iter()), expected, "cut at {cut}");
        }
    }
}
