//! Renders the head of a plan's request.
//!
//! Errors don't show potential secrets: they give a header's position, and a URL without
//! credentials and query.

use http1::request::{Request, RequestError, RequestSpec};

use super::endpoint::{Endpoint, shown};
use super::error::PlanError;
use super::plan::Plan;

/// Renders the head of the plan's request; the body has `body_bytes` bytes.
///
/// # Errors
/// The flag whose value can't be sent; for a header, its position.
pub fn render_request(
    plan: &Plan,
    endpoint: &Endpoint,
    body_bytes: u64,
) -> Result<Request, PlanError> {
    let bad_header = |position: usize, problem: String, cure: &str| {
        PlanError::new("--header", format!("#{position}"), problem, cure)
    };
    let mut headers = Vec::new();
    for (at, line) in plan.headers.iter().enumerate() {
        let Some((name, value)) = line.split_once(':') else {
            let problem = "no colon after the name".to_owned();
            return Err(bad_header(at + 1, problem, "write it as 'Name: value'"));
        };
        headers.push((name.trim_end().to_owned(), value.trim().to_owned()));
    }
    let render = |headers: &[(String, String)]| {
        Request::render(&RequestSpec {
            method: &plan.method,
            authority: &endpoint.authority,
            path: &endpoint.path,
            headers,
            body_bytes,
            user_agent: concat!("truetail/", env!("CARGO_PKG_VERSION")),
            close: plan.keepalive.is_off(),
        })
    };
    render(&headers).map_err(|error| {
        let bad_method =
            |cure: &str| PlanError::new("--method", &plan.method, error.to_string(), cure);
        match &error {
            RequestError::Method(_) | RequestError::Connect => bad_method("use e.g. GET or POST"),
            RequestError::TraceBody => bad_method("omit --body"),
            RequestError::Path(_) | RequestError::Authority(_) => {
                let cure = "percent-encode the characters that a URL can't hold";
                PlanError::new("--target", shown(&plan.target), error.to_string(), cure)
            }
            RequestError::HeaderName(_)
            | RequestError::HeaderValue(_)
            | RequestError::Repeated(_)
            | RequestError::ContentLength { .. }
            | RequestError::TransferEncoding => {
                let mut positions = 1..headers.len();
                let position = positions.find(|&count| render(&headers[..count]).is_err());
                let position = position.unwrap_or(headers.len());
                bad_header(position, error.to_string(), "correct or omit it")
            }
        }
    })
}

/// The name of a header, given as a line.
pub(crate) fn header_name(line: &str) -> &str {
    line.split(':').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Endpoint {
        Endpoint::parse("http://h/").expect("a URL")
    }

    #[test]
    fn a_bad_path_is_reported_without_its_query() {
        // The URL parser lets non-ASCII paths pass.
        let endpoint = Endpoint { path: "/é?pa55".to_owned(), ..endpoint() };
        let plan = Plan { target: "http://h/é?pa55".to_owned(), ..Plan::default() };
        let error = render_request(&plan, &endpoint, 0).expect_err("a bad path").to_string();
        assert!(error.starts_with("--target http://h/é?…: the path"), "{error}");
    }

    #[test]
    fn a_bad_header_is_reported_by_its_position_alone() {
        for (headers, position, problem) in [
            (vec!["pa55"], "#1", "no colon"),
            (vec![""], "#1", "no colon"),
            (vec!["A: pa55", "Authorization Bearer pa55"], "#2", "no colon"),
            (vec!["pa55 word: x"], "#1", "the name isn't a token"),
            (vec!["A: b", "C: pa55\nd", "E: f"], "#2", "a control character"),
            (vec!["Host: a", "B: c", "Host: pa55"], "#3", "Host is given more than once"),
            (
                vec!["Authorization: a", "authorization: pa55"],
                "#2",
                "authorization is given more than once",
            ),
            (vec!["A: b", "Content-Length: pa55"], "#2", "the body of 0 bytes"),
            (vec!["Transfer-Encoding: pa55"], "#1", "isn't supported"),
        ] {
            let headers = headers.into_iter().map(str::to_owned).collect();
            let plan = Plan { headers, ..Plan::default() };
            let error = render_request(&plan, &endpoint(), 0).expect_err(problem);
            assert_eq!((error.flag, error.value.as_str()), ("--header", position));
            let text = error.to_string();
            assert!(text.contains(problem) && !text.contains("pa55"), "{text}");
        }
    }

    #[test]
    fn a_bad_method_is_reported() {
        for (method, body_bytes, shown) in [
            ("CONNECT", 0, "CONNECT"),
            ("TRACE", 1, "TRACE"),
            ("NO TOKEN", 0, "NO TOKEN"),
            ("", 0, "''"),
        ] {
            let plan = Plan { method: method.to_owned(), ..Plan::default() };
            let error = render_request(&plan, &endpoint(), body_bytes).expect_err(method);
            assert_eq!((error.flag, error.value.as_str()), ("--method", shown));
        }
    }
}
