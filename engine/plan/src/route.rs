//! Routes: paths that differ only in their ids are one.

/// The shortest text of hexadecimal digits that is taken for an id.
const HEX_ID_MIN: usize = 16;
/// What stands for an id in a route.
const ID: &str = "{id}";

/// The route of a path: without its query, and with `{id}` for its ids.
pub fn folded(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    let mut route = String::with_capacity(path.len());
    for (at, segment) in path.split('/').enumerate() {
        if 0 < at {
            route.push('/');
        }
        let (stem, ending) = segment.split_at(segment.find('.').unwrap_or(segment.len()));
        route.push_str(if is_id(stem) { ID } else { stem });
        route.push_str(ending);
    }
    route
}

/// True for a number, a UUID or a long hexadecimal number.
fn is_id(text: &str) -> bool {
    let is_hex = |byte: u8| byte == b'-' || byte.is_ascii_hexdigit();
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    has_digit && (is_number || HEX_ID_MIN <= text.len() && text.bytes().all(is_hex))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_folded() {
        for (path, route) in [
            ("/", "/"),
            ("/users/17/orders/9?x=1", "/users/{id}/orders/{id}"),
            ("/a/3f2504e0-4f89-11d3-9a0c-0305e82c3301", "/a/{id}"),
            ("/a/507f1f77bcf86cd799439011.json", "/a/{id}.json"),
            ("/img/42.tar.gz", "/img/{id}.tar.gz"),
            ("/v1/feedbeef/deadbeefdeadbeef/cafe1", "/v1/feedbeef/deadbeefdeadbeef/cafe1"),
            ("/2024-01-15/x", "/2024-01-15/x"),
        ] {
            assert_eq!(folded(path), route);
        }
    }
}
