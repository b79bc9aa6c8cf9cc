//! TLS in the report: agreements by name.

use plan::Plan;
use record::tls::{Agreed, TlsCounts};
use rustls::{CipherSuite, NamedGroup, ProtocolVersion};
use units::SECOND_NS;

use crate::{DistributionPart, TlsPart};

/// TLS on the connections of a plan.
pub(super) fn part(counts: &TlsCounts, plan: &Plan, handshake_time: DistributionPart) -> TlsPart {
    let mut agreed: Vec<Agreed> = counts.agreed.iter().map(|(agreed, _)| agreed).collect();
    agreed.sort_unstable();
    TlsPart {
        version: names(&agreed, |agreed| version(agreed.version)),
        cipher: names(&agreed, |agreed| text(&CipherSuite::from(agreed.cipher))),
        group: names(&agreed, |agreed| match agreed.group {
            0 => String::new(),
            group => text(&NamedGroup::from(group)),
        }),
        insecure: plan.insecure,
        session: plan.tls_session,
        full: counts.full,
        resumed: counts.resumed,
        truncated: counts.truncated,
        ended_together: counts.ended_together,
        handshake_work_s: counts.handshake_work_ns as f64 / SECOND_NS as f64,
        handshake_time,
    }
}

/// The values that handshakes agreed on, each once.
fn names(agreed: &[Agreed], name: impl Fn(&Agreed) -> String) -> String {
    let mut names: Vec<String> = Vec::new();
    for name in agreed.iter().map(name) {
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

fn version(number: u16) -> String {
    match ProtocolVersion::from(number) {
        ProtocolVersion::TLSv1_3 => "TLS 1.3".to_owned(),
        ProtocolVersion::TLSv1_2 => "TLS 1.2".to_owned(),
        other => text(&other),
    }
}

/// IANA's name, which is also rustls's, except for TLS 1.3 ciphers, which rustls prefixes with
/// `TLS13_`.
fn text(named: &impl std::fmt::Debug) -> String {
    format!("{named:?}").replacen("TLS13_", "TLS_", 1)
}

#[cfg(test)]
mod tests {
    use stats::distribution::Distribution;

    use super::*;

    #[test]
    fn each_agreement_is_named_once() {
        let mut counts = TlsCounts::default();
        for (version, cipher, group, times) in
            [(0x0304, 0x1302, 0x001d, 3), (0x0304, 0x1301, 0x001d, 1), (0x0303, 0xc02f, 0, 1)]
        {
            counts.agreed.add_n(Agreed { version, cipher, group }, times);
        }
        let time = DistributionPart::alone(&Distribution::new(), None);
        let part = part(&counts, &Plan::default(), time);
        assert_eq!(part.version, "TLS 1.2, TLS 1.3");
        assert_eq!(
            part.cipher,
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256, \
             TLS_AES_256_GCM_SHA384"
        );
        assert_eq!(part.group, "X25519");
    }
}
