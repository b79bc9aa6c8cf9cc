//! Rendered requests, and refused ones.

use http1::request::{Request, RequestError, RequestSpec};

/// A plain GET, which each test varies.
const GET: RequestSpec = RequestSpec {
    method: "GET",
    authority: "example.org:8080",
    path: "/search?q=1",
    headers: &[],
    body_bytes: 0,
    user_agent: "truetail/0",
    close: false,
};

fn fields(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn render(spec: &RequestSpec) -> String {
    String::from_utf8(Request::render(spec).expect("a good request").head_bytes().to_vec())
        .expect("only UTF-8 was given")
}

fn refusal(spec: &RequestSpec) -> RequestError {
    Request::render(spec).expect_err("a bad request")
}

#[test]
fn supplies_host_and_user_agent() {
    assert_eq!(
        render(&GET),
        "GET /search?q=1 HTTP/1.1\r\nHost: example.org:8080\r\nUser-Agent: truetail/0\r\n\r\n"
    );
}

#[test]
fn supplies_the_length_of_a_body_and_of_an_expected_one() {
    for method in ["POST", "PUT", "PATCH"] {
        let spec = RequestSpec { method, user_agent: "", ..GET };
        assert_eq!(
            render(&spec),
            format!(
                "{method} /search?q=1 HTTP/1.1\r\nHost: example.org:8080\r\n\
                 Content-Length: 0\r\n\r\n"
            )
        );
    }
    for method in ["GET", "DELETE", "POST"] {
        let spec = RequestSpec { method, user_agent: "", body_bytes: 5, ..GET };
        assert_eq!(
            render(&spec),
            format!(
                "{method} /search?q=1 HTTP/1.1\r\nHost: example.org:8080\r\n\
                 Content-Length: 5\r\n\r\n"
            )
        );
    }
}

#[test]
fn keeps_the_users_headers_in_order() {
    let headers = fields(&[
        ("x-b", " \tpadded\t "),
        ("host", "other"),
        ("user-agent", "mine"),
        ("X-A", "ä"),
        ("content-length", "2"),
        ("X-A", ""),
    ]);
    let spec = RequestSpec { method: "POST", headers: &headers, body_bytes: 2, ..GET };
    assert_eq!(
        render(&spec),
        "POST /search?q=1 HTTP/1.1\r\nx-b: padded\r\nhost: other\r\nuser-agent: mine\r\n\
         X-A: ä\r\ncontent-length: 2\r\nX-A: \r\n\r\n"
    );
}

#[test]
fn reports_whether_it_closes_and_whether_it_is_head() {
    let kept = Request::render(&GET).expect("a good request");
    assert!(!kept.closes() && !kept.is_head());

    let closing = RequestSpec { method: "HEAD", close: true, ..GET };
    let closed = Request::render(&closing).expect("a good request");
    assert!(closed.closes() && closed.is_head());
    assert!(closed.head_bytes().ends_with(b"\r\nConnection: close\r\n\r\n"));

    let headers = fields(&[("connection", "x-hop , CLOSE")]);
    let own = Request::render(&RequestSpec { headers: &headers, close: true, ..GET })
        .expect("a good request");
    assert!(own.closes());
    assert_eq!(String::from_utf8_lossy(own.head_bytes()).matches("onnection").count(), 1);

    // Methods are case-sensitive (RFC 9110, section 9.1), so this is not HEAD.
    let lower = RequestSpec { method: "head", ..GET };
    assert!(!Request::render(&lower).expect("a token is a method").is_head());
}

#[test]
fn refuses_a_bad_method() {
    for method in ["", "GE T", "GET\r\n", "G(T", "GÉT"] {
        let spec = RequestSpec { method, ..GET };
        assert_eq!(refusal(&spec), RequestError::Method(method.to_owned()));
    }
    assert_eq!(refusal(&RequestSpec { method: "CONNECT", ..GET }), RequestError::Connect);
    let trace = RequestSpec { method: "TRACE", body_bytes: 1, ..GET };
    assert_eq!(refusal(&trace), RequestError::TraceBody);
}

#[test]
fn refuses_a_bad_path_or_host() {
    for path in ["", "x", "*", "/a b", "/a\r\nX: y", "/a#b", "/ä", "/\0", "http://h/"] {
        let spec = RequestSpec { path, ..GET };
        assert_eq!(refusal(&spec), RequestError::Path(path.to_owned()));
    }
    for authority in ["", "a b", "a/b", "user@host", "a\r\nX: y", "hö"] {
        let spec = RequestSpec { authority, ..GET };
        assert_eq!(refusal(&spec), RequestError::Authority(authority.to_owned()));
    }
    for authority in ["[::1]:80", "127.0.0.1", "a-b.example:65535"] {
        assert!(render(&RequestSpec { authority, ..GET }).contains(authority));
    }
    let options = RequestSpec { method: "OPTIONS", path: "*", ..GET };
    assert!(render(&options).starts_with("OPTIONS * HTTP/1.1\r\n"));
}

#[test]
fn refuses_a_bad_header() {
    for name in ["", "a b", "a:", "a\r\n", "ä", "a(b)"] {
        let spec = RequestSpec { headers: &fields(&[("X-Good", "1"), (name, "v")]), ..GET };
        assert_eq!(refusal(&spec), RequestError::HeaderName(name.to_owned()));
    }
    for value in ["a\rb", "a\nb", "a\0b", "a\r\n b", "\u{7f}", "\u{1}"] {
        let spec = RequestSpec { headers: &fields(&[("X-Bad", value)]), ..GET };
        assert_eq!(refusal(&spec), RequestError::HeaderValue("X-Bad".to_owned()));
        assert!(!refusal(&spec).to_string().contains(value), "a value may be a secret");
        let agent = RequestSpec { user_agent: value, ..GET };
        assert_eq!(refusal(&agent), RequestError::HeaderValue("User-Agent".to_owned()));
    }
    for name in ["Host", "Content-Length"] {
        let spec = RequestSpec { headers: &fields(&[(name, "0"), (name, "0")]), ..GET };
        assert_eq!(refusal(&spec), RequestError::Repeated(name.to_owned()));
    }
    let coded = fields(&[("transfer-encoding", "chunked")]);
    let spec = RequestSpec { headers: &coded, ..GET };
    assert_eq!(refusal(&spec), RequestError::TransferEncoding);
}

#[test]
fn refuses_a_length_that_contradicts_the_body() {
    for given in ["4", "6", "", "five", "+5", "5,5", "99999999999999999999999"] {
        let spec = RequestSpec {
            method: "POST",
            headers: &fields(&[("Content-Length", given)]),
            body_bytes: 5,
            ..GET
        };
        let expected = RequestError::ContentLength { given: given.to_owned(), body_bytes: 5 };
        assert_eq!(refusal(&spec), expected);
    }
}
