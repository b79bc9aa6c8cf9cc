//! Reads `--route` of the command `target`: PATH:KEY=VALUE,...

use engine::sys::units::Nanos;
use target::{Fault, Route, Stall, TargetConfig};

use super::values::{COUNT_MAX, FAULT_KINDS, WHOLE_MAX, by_name, fraction, whole_number};

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
    let (mut fault_kind, mut fault_every) = (None, None);
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
            ("fault", _) => fault_kind = Some(by_name(value).map_err(|_| unknown_fault(value))?),
            ("fault-every", _) => fault_every = Some(whole_number(0..=WHOLE_MAX)(value)?),
            ("serial", "") => route.serial = true,
            ("body-size", _) => route.body_size = whole_number(0..=COUNT_MAX)(value)?,
            ("status", _) => route.status = whole_number(200..=599)(value)?,
            _ => {
                return Err(format!(
                    "`{setting}` is no setting of a route; give some of base=, tail=, \
                     tail-fraction=, stall-every=, stall-for=, fault=, fault-every=, serial, \
                     body-size=, status="
                ));
            }
        }
    }
    match (stall_every, stall_for) {
        (Some(every), Some(hold)) => route.stall = Some(Stall { every, hold }),
        (None, None) => {}
        _ => return Err("a stall needs both stall-every= and stall-for=".to_owned()),
    }
    match (fault_kind, fault_every) {
        (Some(kind), Some(every)) => route.fault = Some(Fault { kind, every }),
        (None, None) => {}
        _ => return Err("a fault needs both fault= and fault-every=".to_owned()),
    }
    Ok(route)
}

fn unknown_fault(name: &str) -> String {
    format!("invalid fault `{name}`: give one of {}", FAULT_KINDS.join(", "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use target::FaultKind;

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
                ..plain.clone()
            })
        );
        for (name, kind) in
            FAULT_KINDS.iter().zip([FaultKind::Reset, FaultKind::Short, FaultKind::Repeat])
        {
            let fault = Some(Fault { kind, every: 3 });
            let given = format!("/a:fault={name},fault-every=3");
            assert_eq!(read(&given), Ok(Route { fault, ..plain.clone() }));
        }
        for (given, cure) in [
            ("/a", "give e.g. /search:base=5ms"),
            ("/a:", "give some of base="),
            ("/a:base=1ms,bass=2ms", "`bass=2ms` is no setting"),
            ("/a:serial=yes", "`serial=yes` is no setting"),
            ("/a:base=fast", "base: invalid duration `fast`"),
            ("/a:tail-fraction=half", "invalid fraction `half`"),
            ("/a:status=99", "from 200 to 599"),
            ("/a:stall-every=2s", "needs both"),
            ("/a:fault=close,fault-every=3", "`close`: give one of reset, short, repeat"),
            ("/a:fault=reset", "needs both"),
        ] {
            let problem = read(given).expect_err(given);
            assert!(problem.contains(cure), "{given}: {problem}");
        }
    }
}
