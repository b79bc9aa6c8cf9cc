//! Which route serves a path.

use crate::TargetConfig;

/// The paths of a target's routes, the longest first.
#[derive(Debug)]
pub(crate) struct Router {
    /// Each path with its number, from 1.
    paths: Vec<(String, usize)>,
}

impl Router {
    /// The routes of this configuration.
    pub(crate) fn new(config: &TargetConfig) -> Router {
        let paths = config.routes.iter().map(|route| route.path.clone());
        let mut paths: Vec<(String, usize)> = paths.zip(1..).collect();
        paths.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Router { paths }
    }

    /// The number of the route that serves this path, from 1 in the order of the configuration; 0
    /// if none does.
    pub(crate) fn find(&self, path: &str) -> usize {
        let is_below = |route: &str| {
            path.strip_prefix(route).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || route.ends_with('/')
            })
        };
        self.paths.iter().find(|(route, _)| is_below(route)).map_or(0, |(_, number)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_path_that_contains_the_request_serves_it() {
        let mut config = TargetConfig::new("127.0.0.1:0".parse().expect("an address"));
        let router = |paths: &[&str], config: &mut TargetConfig| {
            config.routes = paths.iter().map(|path| config.route(path)).collect();
            Router::new(config)
        };
        let some = router(&["/users", "/users/7/orders", "/static/"], &mut config);
        for (path, number) in [
            ("/users", 1),
            ("/users/", 1),
            ("/users/7", 1),
            ("/users/7/orders", 2),
            ("/users/7/orders/9", 2),
            ("/users/7/orders9", 1),
            ("/users2", 0),
            ("/static/", 3),
            ("/static/logo.png", 3),
            ("/static", 0),
            ("/Users", 0),
            ("/", 0),
            ("", 0),
        ] {
            assert_eq!(some.find(path), number, "{path}");
        }
        let all = router(&["/", "/users"], &mut config);
        assert_eq!((all.find("/users/7"), all.find("/other"), all.find("*")), (2, 1, 0));
        assert_eq!(router(&[], &mut config).find("/users"), 0);
    }
}
