//! The target through TLS: its behaviour stays the same, and its certificate is valid.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use target::{Handshakes, Ledger, Target, TargetConfig};

use crate::client::{Client, GET, config, now_ns, socket, start};
use crate::ledger::{assert_closes, ledger_when};

/// A TLS target, and the certificate of its issuer.
pub(crate) fn start_tls(config: TargetConfig) -> (Target, CertificateDer<'static>) {
    let target = start(TargetConfig { tls: true, ..config });
    let issuer = target.issuer().expect("it has one").as_bytes();
    let issuer = CertificateDer::from_pem_slice(issuer).expect("a certificate");
    (target, issuer)
}

/// A client of HTTP/1.1 that trusts this certificate and uses this version.
pub(crate) fn trusting(
    root: &CertificateDer<'static>,
    version: &'static SupportedProtocolVersion,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).expect("a certificate of an issuer");
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .expect("a version of the provider")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

/// A client session for a server of this name, before its handshake.
pub(crate) fn tls(config: &Arc<ClientConfig>, name: &'static str) -> ClientConnection {
    let name = name.try_into().expect("a name");
    ClientConnection::new(Arc::clone(config), name).expect("a connection")
}

fn handshakes(ledger: &Ledger) -> Handshakes {
    ledger.connections.handshakes.expect("a TLS target")
}

#[test]
fn both_versions_are_served_under_each_name_and_sessions_are_resumed() {
    for version in [&TLS13, &TLS12] {
        let (target, root) = start_tls(config());
        let trusting = trusting(&root, version);
        for name in ["localhost", "127.0.0.1", "localhost"] {
            let mut client = Client::connect_tls(target.local_addr(), tls(&trusting, name));
            for _ in 0..10 {
                assert_eq!(client.get().body.len(), 128);
            }
            client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            assert_eq!(client.receive().status(), "200");
            // The end is announced: otherwise reading it would be an error.
            client.assert_closed();
        }
        let ledger = target.stop().expect("a ledger");
        assert_closes(&ledger);
        assert_eq!((ledger.answered, ledger.config.tls), (33, true));
        let expected = Handshakes { full: 2, resumed: 1, failed: 0 };
        assert_eq!(handshakes(&ledger), expected, "{version:?}: a session belongs to one name");
    }
}

#[test]
fn the_client_decides_which_protocol_is_agreed_on() {
    let (target, root) = start_tls(config());
    let [http1, http2] = [b"http/1.1", b"h2".as_slice()];
    for (offered, agreed) in [
        (vec![http1], Some(http1)),
        (vec![http2], Some(http2)),
        (vec![http1, http2], Some(http2)),
        (vec![], None),
    ] {
        let mut client = ClientConfig::clone(&trusting(&root, &TLS13));
        client.alpn_protocols = offered.into_iter().map(<[u8]>::to_vec).collect();
        let mut tls = tls(&Arc::new(client), "localhost");
        let mut socket = socket(target.local_addr());
        tls.complete_io(&mut socket).expect("a handshake");
        assert_eq!(tls.alpn_protocol(), agreed);
    }
}

#[test]
fn holds_and_long_bodies_are_the_same_as_without_tls() {
    let hold = Duration::from_millis(20);
    let body_size = 3 << 20;
    let (target, root) = start_tls(TargetConfig { base_latency: hold, body_size, ..config() });
    let mut client =
        Client::connect_tls(target.local_addr(), tls(&trusting(&root, &TLS13), "localhost"));
    for _ in 0..3 {
        let sent_ns = now_ns();
        assert_eq!(client.get().body.len(), body_size);
        assert!(hold.as_nanos() <= u128::from(now_ns() - sent_ns));
    }
    client.send([GET, GET, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
    assert_eq!(
        [client.receive(), client.receive()].map(|answer| answer.body.len()),
        [body_size; 2]
    );
    assert_eq!(client.receive_head().content_length(), body_size);
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    assert_eq!(ledger.answered, 6);
    let least_us = ledger.held.min.expect("a hold time");
    assert!(hold.as_secs_f64() * 1e6 <= least_us, "{least_us}");
}

#[test]
fn a_peer_that_disconnects_is_not_answered_through_tls() {
    let (target, root) =
        start_tls(TargetConfig { base_latency: Duration::from_secs(2), ..config() });
    let mut client =
        Client::connect_tls(target.local_addr(), tls(&trusting(&root, &TLS13), "localhost"));
    client.send([GET, GET, GET].concat());
    ledger_when(&target, |ledger| ledger.received == 3);
    drop(client);
    let ledger = ledger_when(&target, |ledger| ledger.in_flight == 0);
    assert_closes(&ledger);
    assert_eq!((ledger.answered, ledger.closed_by_peer_unanswered), (0, 3));
}

#[test]
fn untrusting_and_plain_clients_fail_and_are_counted() {
    let (target, _) = start_tls(config());
    let (other, root) = start_tls(config());
    other.stop().expect("a ledger");
    let mut stranger = tls(&trusting(&root, &TLS13), "localhost");
    let error = stranger.complete_io(&mut socket(target.local_addr())).expect_err("a stranger");
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    ledger_when(&target, |ledger| handshakes(ledger).failed == 1);

    let mut alert = [0; 7];
    let mut socket = socket(target.local_addr());
    socket.write_all(GET.as_bytes()).expect("sent");
    socket.read_exact(&mut alert).expect("an alert");
    assert_eq!(alert[0], 21, "an alert, and nothing of HTTP");
    let ledger = ledger_when(&target, |ledger| handshakes(ledger).failed == 2);
    assert_eq!((ledger.received, ledger.rejected), (0, 0));
    assert_eq!(handshakes(&ledger).full, 0);
}

#[test]
fn a_client_that_never_resumes_has_only_full_handshakes() {
    let (target, root) = start_tls(config());
    let mut full = ClientConfig::clone(&trusting(&root, &TLS13));
    full.resumption = Resumption::disabled();
    let full = Arc::new(full);
    for _ in 0..3 {
        Client::connect_tls(target.local_addr(), tls(&full, "localhost")).get();
    }
    let ledger = target.stop().expect("a ledger");
    assert_eq!(handshakes(&ledger), Handshakes { full: 3, resumed: 0, failed: 0 });
}

#[test]
fn held_connections_end_with_a_close_notify_at_the_stop_and_open_handshakes_without() {
    let held = TargetConfig { base_latency: Duration::from_secs(600), ..config() };
    let (target, root) = start_tls(held);
    let mut client =
        Client::connect_tls(target.local_addr(), tls(&trusting(&root, &TLS13), "localhost"));
    client.send(GET);
    let mut silent = socket(target.local_addr());
    ledger_when(&target, |ledger| (ledger.in_flight, ledger.connections.open) == (1, 2));
    let ledger = target.stop().expect("a ledger");
    assert_eq!((ledger.in_flight, ledger.connections.open), (1, 0));
    client.assert_closed();
    assert_eq!(silent.read(&mut [0]).expect("an end"), 0);
}
