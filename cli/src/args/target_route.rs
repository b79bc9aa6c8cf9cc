//! Reads `--route` of the command `target`: PATH:KEY=VALUE,...

use engine::sys::units::Nanos;
use target::{Route, Stall, TargetConfig};

use super::values::{COUNT_MAX, fraction, whole_number};

/// The route of `given`, which differs from the other paths in what it names.
///
/// # Errors
/// Something in it has no meaning; `target` checks the values themselves.
pub(crate) fn read(given: &str, others: &TargetConfig) -> Result<Route, String> {
    // A path may contain colons, the rest has none.
    let Some((path, settings)) = given.rsplit_once(':') else {
        return Err("no colon after the path; give e.g. /search:base=5ms".to_owned());
    };
    let mut route = others.route(path);
    let (mut stall_every, mut stall_for) = (None, None);
    for setting in settings.split(',') {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        let time = || match value.parse::<Nanos>() {
            Ok(time) => Ok(time.as_duration()),
            Err(error) => Err(format!("{key}: {error}")),
        };
        match (key, value) {
            ("base", _) => route.base_latency = time()?,
            ("tail", _) => route.tail_latency = time()?,
            ("tail-fraction", _) => route.tail_fraction = fraction(value)?,
            ("stall-every", _) => stall_every = Some(time()?),
            ("stall-for", _) => stall_for = Some(time()?),
            ("serial", "") => route.serial = true,
            ("body-size", _) => route.body_size = whole_number(0..=COUNT_MAX)(value)?,
            ("status", _) => route.status = whole_number(200..=599)(value)?,
            _ => {
                return Err(format!(
                    "`{setting}` is no setting of a route; give some of base=, tail=, \
                     tail-fraction=, stall-every=, stall-for=, serial, body-size=, status="
                ));
            }
        }
    }
    match (stall_every, stall_for) {
        (Some(every), Some(hold)) => route.stall = Some(Stall { every, hold }),
        (None, None) => {}
        _ => return Err("a stall needs both stall-every= and stall-for=".to_owned()),
    }
    Ok(route)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_route_names_what_differs() {
        let ms = Duration::from_millis;
        let base_latency = ms(5);
        let listen = "127.0.0.1:0".parse().expect("an address");
        let others = TargetConfig { base_latency, ..TargetConfig::new(listen) };
        let read = |given: &str| read(given, &others);
        let plain = others.route("/a");
        assert_eq!(
            read("/a:tail=50ms,tail-fraction=0.01,serial"),
            Ok(Route { tail_latency: ms(50), tail_fraction: 0.01, serial: true, ..plain.clone() })
        );
        let stall = Some(Stall { every: ms(2_000), hold: ms(200) });
        assert_eq!(
            read("/v1/a:b:base=1ms,stall-every=2s,stall-for=200ms,body-size=9,status=503"),
            Ok(Route {
                path: "/v1/a:b".to_owned(),
                base_latency: ms(1),
                stall,
                body_size: 9,
                status: 503,
                ..plain
            })
        );
        for (given, cure) in [
            ("/a", "give e.g. /search:base=5ms"),
            ("/a:", "give some of base="),
            ("/a:base=1ms,bass=2ms", "`bass=2ms` is no setting"),
            ("/a:serial=yes", "`serial=yes` is no setting"),
            ("/a:base=fast", "base: invalid duration `fast`"),
            ("/a:tail-fraction=half", "invalid fraction `half`"),
            ("/a:status=99", "from 200 to 599"),
            ("/a:stall-every=2s", "needs both"),
        ] {
            let problem = read(given).expect_err(given);
            assert!(problem.contains(cure), "{given}: {problem}");
        }
    }
}
