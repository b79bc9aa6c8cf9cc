//! The routes of a log: which of its requests have results together.
//!
//! A route is a method and a path with its ids folded, as for `truetail import`. The most frequent
//! ones have results of their own, and all others of a method have them together: an access log has
//! as many paths as a scanner tries.

use std::collections::HashMap;

use plan::route::folded;

/// The most routes with results of their own. A shard keeps up to 0.8 MB for each, and more than
/// fifty lines are no overview.
pub const ROUTES_MAX: usize = 50;

/// Requests that have results together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its name, as no other route has it.
    pub name: String,
    /// The method of all.
    pub method: String,
    /// Whether the log has their bodies.
    pub has_body: bool,
}

/// The routes of a log's lines, as they are read.
#[derive(Debug, Default)]
pub struct Routes {
    /// By method and path, and whether there is a body.
    known: HashMap<(String, bool), usize>,
    /// The requests of each.
    counts: Vec<u64>,
}

impl Routes {
    /// Adds a request, and returns the position of its route among those that were found.
    ///
    /// # Panics
    /// There are 2³² of them, which take more than a GiB of log.
    pub fn add(&mut self, method: &str, path: &str, has_body: bool) -> u32 {
        let next = self.counts.len();
        let key = (format!("{method} {}", folded(path)), has_body);
        let route = *self.known.entry(key).or_insert(next);
        if route == next {
            self.counts.push(0);
        }
        self.counts[route] += 1;
        u32::try_from(route).expect("a line has more than a byte")
    }

    /// The number of routes that were found.
    pub fn found(&self) -> usize {
        self.counts.len()
    }

    /// The routes with results, the most frequent first and then the rest of each method; and for
    /// each route that was found, the position of the one that has its results.
    pub fn into_results(self) -> (Vec<Route>, Vec<usize>) {
        let mut found: Vec<((String, bool), usize)> = self.known.into_iter().collect();
        let count = |at: &usize| self.counts[*at];
        found.sort_by(|(one, a), (other, b)| count(b).cmp(&count(a)).then_with(|| one.cmp(other)));
        let mut routes: Vec<Route> = Vec::new();
        let mut results = vec![0; self.counts.len()];
        let mut named: HashMap<(String, bool), usize> = HashMap::new();
        for (rank, ((name, has_body), at)) in found.into_iter().enumerate() {
            let method = name.split(' ').next().unwrap_or_default().to_owned();
            let is_alone = rank < ROUTES_MAX;
            let name = if is_alone { name } else { format!("other {method} routes") };
            // Some requests of a route may have a body in the log, and some not.
            let other = named.contains_key(&(name.clone(), !has_body));
            results[at] = *named.entry((name.clone(), has_body)).or_insert_with(|| {
                let what = if has_body { "with" } else { "without" };
                let name = if other { format!("{name}, {what} a logged body") } else { name };
                routes.push(Route { name, method, has_body });
                routes.len() - 1
            });
        }
        (routes, results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(routes: &[Route]) -> Vec<&str> {
        routes.iter().map(|route| route.name.as_str()).collect()
    }

    #[test]
    fn the_most_frequent_routes_have_results_of_their_own() {
        let mut routes = Routes::default();
        let mut added = Vec::new();
        for route in 0..ROUTES_MAX + 3 {
            let method = if route % 2 == 0 { "GET" } else { "HEAD" };
            // The later, the more frequent.
            for id in 0..=route {
                added.push((route, routes.add(method, &format!("/r-{route}/{id}?q={id}"), false)));
            }
        }
        assert_eq!(routes.found(), ROUTES_MAX + 3);
        let (routes, results) = routes.into_results();
        assert_eq!(routes.len(), ROUTES_MAX + 2);
        assert_eq!(names(&routes[..2]), ["GET /r-52/{id}", "HEAD /r-51/{id}"]);
        assert_eq!(names(&routes[ROUTES_MAX..]), ["other GET routes", "other HEAD routes"]);
        for (route, at) in added {
            let result = &routes[results[usize::try_from(at).expect("few")]];
            let name = match route {
                0 | 2 => "other GET routes".to_owned(),
                1 => "other HEAD routes".to_owned(),
                _ => format!("{} /r-{route}/{{id}}", if route % 2 == 0 { "GET" } else { "HEAD" }),
            };
            assert_eq!((result.name.as_str(), result.has_body), (name.as_str(), false));
        }
    }

    #[test]
    fn a_route_whose_bodies_the_log_has_only_sometimes_is_two() {
        let mut routes = Routes::default();
        for (has_body, times) in [(false, 2), (true, 3)] {
            (0..times).for_each(|_| _ = routes.add("POST", "/orders/7", has_body));
        }
        let (routes, results) = routes.into_results();
        assert_eq!(
            names(&routes),
            ["POST /orders/{id}", "POST /orders/{id}, without a logged body"]
        );
        assert_eq!((routes[0].has_body, results), (true, vec![1, 0]));
    }
}
