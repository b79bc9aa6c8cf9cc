//! A run over TLS: its counts and times, and how each failure is reported, before a run and during
//! it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::plan::{Plan, Switch, TlsSession};
use engine::record::outcome::Cause;
use engine::report::verdict::Code;
use engine::report::{Report, TlsPart};
use engine::run;
use engine::sys::units::Nanos;
use engine::verify::report_alone;
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use crate::support::{OK, open, run as run_to_its_end};
use crate::tls_server::{Authority, BOTH, Peer, always_ok, listen, serve, server_with};

fn tls(report: &Report) -> &TlsPart {
    report.whole.tls.as_ref().expect("a run over TLS")
}

fn assert_verified(report: &Report) {
    let findings = report_alone(report);
    let wrong: Vec<_> = findings.iter().filter(|finding| !finding.ok).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The refusal of a plan.
fn refused(plan: Plan) -> String {
    match run::prepare(plan) {
        Ok(_) => panic!("it is refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_run_over_each_version_reports_its_parameters_and_times() {
    let authority = Authority::new();
    for (version, name) in [(&TLS13, "TLS 1.3"), (&TLS12, "TLS 1.2")] {
        let address = serve(authority.server("127.0.0.1", &[version]), always_ok);
        for plan in [authority.plan(address), open(authority.plan(address), "1k")] {
            let report = run_to_its_end(plan).report;
            let counts = &report.whole.counts;
            assert!(100 < counts.answered, "{counts:?}");
            assert_eq!(counts.answered, counts.intended, "{counts:?}");
            assert_eq!(counts.stamped_by_kernel, counts.answered, "{counts:?}");
            let tls = tls(&report);
            assert_eq!((tls.version.as_str(), tls.group.as_str()), (name, "X25519"));
            assert!(tls.cipher.contains("AES_256_GCM") || tls.cipher.contains("AES_128_GCM"));
            assert_eq!((tls.full, tls.resumed, tls.truncated), (counts.connects, 0, 0));
            assert_eq!(tls.handshake_time.count, counts.connects_in_window);
            assert!(!tls.insecure);
            assert_verified(&report);
        }
    }
}

#[test]
fn without_keep_alive_each_request_has_a_handshake_and_sessions_are_resumed_if_asked() {
    let authority = Authority::new();
    for version in BOTH {
        let address = serve(authority.server("127.0.0.1", &[version]), always_ok);
        for session in [TlsSession::Full, TlsSession::Resume] {
            let plan = Plan {
                keepalive: Switch::Off,
                tls_session: session,
                ..open(authority.plan(address), "200")
            };
            let report = run_to_its_end(plan).report;
            let counts = &report.whole.counts;
            assert_eq!(counts.answered, counts.intended, "{counts:?}");
            let tls = tls(&report);
            assert!(50 < tls.handshake_time.count, "{tls:?}");
            assert_eq!(tls.handshake_time.count, counts.connects_in_window);
            assert_eq!(tls.full + tls.resumed, counts.connects);
            match session {
                TlsSession::Full => assert_eq!(tls.resumed, 0),
                // Connections that begin before the first has its ticket can't resume anything.
                TlsSession::Resume => assert!(tls.full * 2 < tls.resumed, "{tls:?}"),
            }
            assert!(0.0 < tls.handshake_work_s);
            assert_verified(&report);
        }
    }
}

#[test]
fn bodies_longer_than_a_record_go_both_ways_and_requests_share_connections() {
    const LENGTH: usize = 1 << 20;
    let authority = Authority::new();
    let mut upload = tempfile::NamedTempFile::new().expect("a file");
    upload.write_all(&vec![b'u'; 3 * LENGTH]).expect("written");
    for version in BOTH {
        let address = serve(authority.server("127.0.0.1", &[version]), |_, peer| {
            let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
            response.extend(std::iter::repeat_n('d', LENGTH));
            peer.send(response.as_bytes())
        });
        let pipelined = Plan { pipeline: 4, conns: Some(2), ..authority.plan(address) };
        let report = run_to_its_end(pipelined).report;
        let counts = &report.whole.counts;
        assert_eq!((counts.answered, counts.failed), (counts.intended, 0), "{counts:?}");
        assert!(0 < counts.shared_sends && 10 < counts.answered, "{counts:?}");

        let body = format!("@{}", upload.path().display());
        for body in [body, "x".repeat(40_000)] {
            let length = if body.starts_with('@') { 3 * LENGTH } else { body.len() };
            let address = serve(authority.server("127.0.0.1", &[version]), move |_, peer| {
                let mut left = length - peer.unread.len();
                peer.unread.clear();
                let mut bytes = vec![0; 65_536];
                while 0 < left {
                    let Peer { tls, socket, .. } = peer;
                    match rustls::Stream::new(tls, socket).read(&mut bytes) {
                        Ok(0) | Err(_) => return false,
                        Ok(length) => left -= length,
                    }
                }
                peer.send(OK)
            });
            let method = "POST".to_owned();
            let plan = Plan { method, body: Some(body), conns: Some(2), ..authority.plan(address) };
            let counts = run_to_its_end(plan).report.whole.counts;
            assert_eq!((counts.answered, counts.failed), (counts.intended, 0), "{counts:?}");
            assert!(5 < counts.answered && counts.incomplete_uploads == 0, "{counts:?}");
        }
    }
}

#[test]
fn a_response_arrives_with_the_segment_that_completes_its_last_record() {
    const BETWEEN: Duration = Duration::from_millis(15);
    let authority = Authority::new();
    for version in BOTH {
        let address = serve(authority.server("127.0.0.1", &[version]), |_, peer| {
            let bytes = peer.encrypted(OK);
            let (first, last) = bytes.split_at(bytes.len() - 1);
            let sent = peer.socket.write_all(first).is_ok();
            std::thread::sleep(BETWEEN);
            sent && peer.socket.write_all(last).is_ok()
        });
        let report = run_to_its_end(open(authority.plan(address), "100")).report;
        let counts = &report.whole.counts;
        assert_eq!((counts.answered, counts.stamped_by_kernel), (counts.intended, counts.intended));
        let least_us = report.whole.naive.min.expect("a latency");
        assert!(BETWEEN.as_micros() as f64 <= least_us, "{least_us} µs");
    }
}

#[test]
fn records_without_data_are_no_part_of_a_response() {
    let authority = Authority::new();
    let address = serve(authority.server("127.0.0.1", &[&TLS13]), |_, peer| {
        let answered = peer.send(OK);
        // The client responds with new keys of its own.
        peer.tls.refresh_traffic_keys().expect("keys");
        let bytes = peer.pending();
        answered && peer.socket.write_all(&bytes).is_ok()
    });
    for plan in [authority.plan(address), open(authority.plan(address), "500")] {
        let counts = run_to_its_end(plan).report.whole.counts;
        assert!(100 < counts.answered, "{counts:?}");
        assert_eq!((counts.answered, counts.unsolicited), (counts.intended, 0), "{counts:?}");
        assert_eq!((counts.trailing, counts.connection_errors.total()), (0, 0), "{counts:?}");
    }
}

/// The bytes behind a response, in the same write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    Farewell,
    Junk,
    BrokenRecord,
    AnotherResponse,
}

#[test]
fn bytes_with_a_response_end_its_connection_and_fail_no_other_request() {
    let authority = Authority::new();
    for (version, behind) in BOTH.iter().flat_map(|version| {
        let all = [Behind::Farewell, Behind::Junk, Behind::BrokenRecord, Behind::AnotherResponse];
        all.map(|behind| (version, behind))
    }) {
        let address = serve(authority.server("127.0.0.1", &[version]), move |_, peer| {
            let mut bytes = peer.encrypted(OK);
            let follows = match behind {
                Behind::Farewell => {
                    peer.tls.send_close_notify();
                    peer.pending()
                }
                Behind::Junk => b"no record of TLS".to_vec(),
                Behind::BrokenRecord => {
                    let mut record = peer.encrypted(OK);
                    *record.last_mut().expect("a record") ^= 1;
                    record
                }
                Behind::AnotherResponse => peer.encrypted(OK),
            };
            bytes.extend(follows);
            peer.socket.write_all(&bytes).is_ok()
        });
        for plan in [authority.plan(address), open(authority.plan(address), "200")] {
            let report = run_to_its_end(plan).report;
            let counts = &report.whole.counts;
            let message = format!("{version:?} {behind:?} {counts:?}");
            assert!(20 < counts.answered, "{message}");
            assert_eq!((counts.answered, counts.failed), (counts.intended, 0), "{message}");
            let broken = counts.connection_errors.of(Cause::TlsBroken);
            match behind {
                Behind::Farewell => {
                    assert_eq!((broken, counts.trailing), (0, 0), "{message}");
                    assert!(0 < tls(&report).ended_together, "{message}");
                }
                Behind::Junk | Behind::BrokenRecord => {
                    assert!(counts.answered <= broken, "{message}");
                }
                Behind::AnotherResponse => {
                    assert_eq!(counts.trailing, counts.answered, "{message}")
                }
            }
            assert_verified(&report);
        }
        // Each request in flight behind the response fails.
        let plan = Plan { pipeline: 4, ..authority.plan(address) };
        let counts = run_to_its_end(plan).report.whole.counts;
        assert_eq!(
            counts.answered + counts.failed,
            counts.sent,
            "{version:?} {behind:?} {counts:?}"
        );
        // Another response may answer the last of them.
        let fails = 0 < counts.failed || behind == Behind::AnotherResponse;
        assert!(0 < counts.answered && fails, "{version:?} {behind:?} {counts:?}");
    }
}

#[test]
fn more_handshakes_at_once_than_there_are_buffers_are_all_done() {
    let authority = Authority::new();
    let address = serve(authority.server("127.0.0.1", BOTH), always_ok);
    let plan = Plan { conns: Some(200), ..authority.plan(address) };
    let report = run_to_its_end(plan).report;
    assert_eq!((report.whole.counts.connects, tls(&report).full), (200, 200));
    assert_eq!(report.whole.counts.connection_errors.total(), 0);
}

#[test]
fn bytes_sent_as_the_handshake_ends_are_no_answer() {
    let authority = Authority::new();
    let mut config = authority.server("127.0.0.1", &[&TLS13]);
    config.send_half_rtt_data = true;
    let config = Arc::new(config);
    let address = listen(move |number, mut socket| {
        let mut tls = ServerConnection::new(config.clone()).expect("a configuration of a server");
        if 0 < number {
            tls.writer().write_all(OK).expect("there is room");
        }
        while tls.is_handshaking() && tls.complete_io(&mut socket).is_ok() {}
        // Until the client closes.
        let _ = socket.read(&mut [0; 64]);
    });
    let counts = run_to_its_end(authority.plan(address)).report.whole.counts;
    assert_eq!(counts.answered, 0, "{counts:?}");
    assert!(0 < counts.unsolicited, "{counts:?}");
}

#[test]
fn a_close_without_close_notify_cuts_the_response_short() {
    const ENDLESS: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nuntil the close";
    const LONGER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf of it";
    let authority = Authority::new();
    for version in BOTH {
        for (text, farewell, cause) in [
            (ENDLESS, true, None),
            (ENDLESS, false, Some(Cause::CutShort)),
            (LONGER, true, Some(Cause::CutShort)),
            (LONGER, false, Some(Cause::CutShort)),
            (b"".as_slice(), true, Some(Cause::ClosedBeforeResponse)),
            (b"".as_slice(), false, Some(Cause::ClosedBeforeResponse)),
        ] {
            let address = serve(authority.server("127.0.0.1", &[version]), move |_, peer| {
                peer.send(text);
                if farewell {
                    peer.close_notify();
                }
                false
            });
            let report = run_to_its_end(open(authority.plan(address), "200")).report;
            let counts = &report.whole.counts;
            let message = format!("{} {farewell} {counts:?}", String::from_utf8_lossy(text));
            match cause {
                None => assert_eq!(counts.answered, counts.intended, "{message}"),
                Some(cause) => assert_eq!(counts.errors.of(cause), counts.intended, "{message}"),
            }
            let truncated = tls(&report).truncated;
            assert_eq!(truncated == 0, farewell, "{message}: {truncated}");
        }
    }
}

#[test]
fn a_record_that_ends_in_its_middle_cuts_the_response_short() {
    let authority = Authority::new();
    let address = serve(authority.server("127.0.0.1", BOTH), |_, peer| {
        let first = peer.encrypted(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n");
        let second = peer.encrypted(b"x".repeat(20).as_slice());
        let bytes = [&first[..], &second[..second.len() / 2]].concat();
        let _ = peer.socket.write_all(&bytes);
        false
    });
    let report = run_to_its_end(open(authority.plan(address), "200")).report;
    let counts = &report.whole.counts;
    assert_eq!(counts.errors.of(Cause::CutShort), counts.intended, "{counts:?}");
    assert!(0 < tls(&report).truncated);
}

#[test]
fn a_tampered_record_breaks_the_connection() {
    let authority = Authority::new();
    for version in BOTH {
        let address = serve(authority.server("127.0.0.1", &[version]), |_, peer| {
            let mut bytes = peer.encrypted(OK);
            *bytes.last_mut().expect("a record") ^= 1;
            peer.socket.write_all(&bytes).is_ok()
        });
        let counts = run_to_its_end(open(authority.plan(address), "200")).report.whole.counts;
        assert_eq!(counts.errors.of(Cause::TlsBroken), counts.intended, "{counts:?}");
    }
}

/// The behaviour of a server whose handshakes all fail.
type Behaviour = fn(&Authority, TcpStream);

fn read_hello(socket: &mut TcpStream) {
    // As much of it as has arrived.
    let _ = socket.read(&mut [0; 4_096]);
}

/// Failing handshakes with the cause that they count under, and a part of the refusal's text.
fn failures() -> Vec<(Cause, &'static str, Behaviour)> {
    fn shake(config: ServerConfig, socket: TcpStream) {
        Peer::accept(&Arc::new(config), socket);
    }
    fn send(mut socket: TcpStream, bytes: &[u8]) {
        read_hello(&mut socket);
        let _ = socket.write_all(bytes);
        // Until the client closes.
        let _ = socket.read(&mut [0; 64]);
    }
    vec![
        (Cause::TlsUnknownIssuer, "issued by `CN=issuer ", |_, socket| {
            shake(Authority::new().server("127.0.0.1", BOTH), socket);
        }),
        (Cause::TlsWrongName, "--connect-to HOST:PORT", |authority, socket| {
            shake(authority.server("elsewhere.test", BOTH), socket);
        }),
        (Cause::TlsExpired, "expired", |authority, socket| {
            let (certificate, key) = authority.certificate("127.0.0.1", |params| {
                (params.not_before, params.not_after) =
                    (rcgen::date_time_ymd(2001, 1, 1), rcgen::date_time_ymd(2002, 1, 1));
            });
            shake(server_with(certificate, &key, BOTH), socket);
        }),
        (Cause::TlsCertificate, "check the clocks", |authority, socket| {
            let (certificate, key) = authority.certificate("127.0.0.1", |params| {
                (params.not_before, params.not_after) =
                    (rcgen::date_time_ymd(2901, 1, 1), rcgen::date_time_ymd(2902, 1, 1));
            });
            shake(server_with(certificate, &key, BOTH), socket);
        }),
        (Cause::TlsNoAgreement, "HTTP/1.1", |authority, socket| {
            let mut config = authority.server("127.0.0.1", BOTH);
            config.alpn_protocols = vec![b"h2".to_vec()];
            shake(config, socket);
        }),
        (Cause::TlsVersion, "neither TLS 1.3 nor TLS 1.2", |_, socket| {
            // The alert protocol_version in a TLS 1.1 record.
            send(socket, &[21, 3, 2, 0, 2, 2, 70]);
        }),
        (Cause::TlsAlert, "the server's log", |_, socket| send(socket, &[21, 3, 3, 0, 2, 2, 80])),
        (Cause::TlsNotTls, "give http://", |_, socket| {
            send(socket, b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }),
        (Cause::TlsNotTls, "give http://", |_, socket| send(socket, b"<html>")),
        // It has sent valid TLS, so it isn't plain HTTP.
        (Cause::TlsBroken, "the server's log", |authority, mut socket| {
            let config = Arc::new(authority.server("127.0.0.1", BOTH));
            let mut tls = ServerConnection::new(config).expect("a configuration of a server");
            tls.read_tls(&mut socket).expect("the client's first message");
            tls.process_new_packets().expect("as rustls sends it");
            let mut bytes = Vec::new();
            tls.write_tls(&mut bytes).expect("memory");
            let first = 5 + usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
            bytes.truncate(first);
            let _ = socket.write_all(&[&bytes[..], b"<html>"].concat());
            // Until the client closes.
            let _ = socket.read(&mut [0; 64]);
        }),
        (Cause::TlsClosed, "the server's log", |_, mut socket| read_hello(&mut socket)),
        // Closed with unread bytes, which is a reset.
        (Cause::TlsClosed, "the server's log", |_, socket| drop(socket)),
        // In the middle of the handshake: the beginning of a record.
        (Cause::TlsClosed, "the server's log", |_, mut socket| {
            read_hello(&mut socket);
            let _ = socket.write_all(&[22, 3, 3, 0, 90, 2, 0]);
        }),
    ]
}

#[test]
fn a_target_whose_handshake_fails_is_refused_with_cause_and_cure() {
    for (cause, words, behave) in failures() {
        let authority = Arc::new(Authority::new());
        let of_server = authority.clone();
        let address = listen(move |_, socket| behave(&of_server, socket));
        let text = refused(authority.plan(address));
        let start = format!("--target https://{address}/: ");
        assert!(text.starts_with(&start), "{text}");
        let name = format!("({})", cause.name());
        assert!(text.contains(&name) && text.contains(words), "{cause:?}: {text}");
    }
}

/// A certificate like one from `openssl req -x509 -nodes -subj /CN=localhost`, and its key: an
/// issuer's, self-signed, without any name that is checked.
fn like_openssls(change: impl Fn(&mut CertificateParams)) -> (Certificate, KeyPair) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "localhost");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    let key = KeyPair::generate().expect("a key");
    (params.self_signed(&key).expect("a certificate"), key)
}

#[test]
fn a_self_signed_certificate_is_trusted_if_the_users_file_has_that_very_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |certificate: &Certificate| {
        let path = folder.path().join("own.pem");
        fs::write(&path, certificate.pem()).expect("written");
        Some(path)
    };
    let at = |config: ServerConfig, cacert| {
        let address = serve(config, always_ok);
        let target = format!("https://{address}/");
        Plan { target, cacert, ..crate::support::plan(address) }
    };
    let server = |(certificate, key): &(Certificate, KeyPair)| {
        server_with(certificate.der().clone(), key, BOTH)
    };
    let (own, other) = (like_openssls(|_| {}), like_openssls(|_| {}));
    for version in BOTH {
        let config = server_with(own.0.der().clone(), &own.1, &[version]);
        let counts = run_to_its_end(at(config, file(&own.0))).report.whole.counts;
        assert!(100 < counts.answered && counts.answered == counts.intended, "{counts:?}");
    }
    // Without the file, with the file of another of the same name, and after its expiry.
    let expired = like_openssls(|params| {
        (params.not_before, params.not_after) =
            (rcgen::date_time_ymd(2001, 1, 1), rcgen::date_time_ymd(2002, 1, 1));
    });
    for (server, cacert, words) in [
        (server(&own), None, "trust that very certificate with --cacert FILE"),
        (server(&own), file(&other.0), "trust that very certificate with --cacert FILE"),
        (server(&expired), file(&expired.0), "(tls_expired)"),
    ] {
        let text = refused(at(server, cacert));
        assert!(text.contains(words), "{words}: {text}");
    }
    // A server with only the certificate doesn't have its key.
    let provider = ring::default_provider();
    let key = PrivateKeyDer::Pkcs8(other.1.serialize_der().into());
    let key = provider.key_provider.load_private_key(key).expect("a key");
    let stolen = CertifiedKey::new(vec![own.0.der().clone()], key);
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(BOTH)
        .expect("versions of the provider")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(stolen)));
    let text = refused(at(config, file(&own.0)));
    assert!(text.contains("(tls_certificate)"), "{text}");
}

#[test]
fn an_issuer_with_a_trusted_ones_name_is_not_trusted_and_the_cure_is_given() {
    let trusted = Authority::new();
    let other = Authority::named(&trusted.name);
    let address = serve(other.server("127.0.0.1", BOTH), always_ok);
    let text = refused(trusted.plan(address));
    let words = format!("was issued by `CN={}`, which isn't trusted here", trusted.name);
    assert!(text.contains(&words) && text.contains("(tls_unknown_issuer)"), "{text}");
    assert!(text.contains("--cacert FILE"), "{text}");
}

#[test]
fn a_handshake_that_fails_in_a_run_counts_like_a_refused_connection() {
    for (cause, _, behave) in failures() {
        let authority = Arc::new(Authority::new());
        let of_server = authority.clone();
        let good = Arc::new(authority.server("127.0.0.1", BOTH));
        let address = listen(move |number, socket| match number {
            // The handshake before the run.
            0 => drop(Peer::accept(&good, socket)),
            _ => behave(&of_server, socket),
        });
        let report = run_to_its_end(open(authority.plan(address), "200")).report;
        let counts = &report.whole.counts;
        assert!(50 < counts.intended, "{counts:?}");
        assert_eq!(counts.errors.of(cause), counts.intended, "{cause:?}: {counts:?}");
        assert_eq!(counts.unconnected, counts.intended, "{counts:?}");
        assert_eq!((counts.connects, tls(&report).full), (0, 0), "{counts:?}");
        assert_verified(&report);
    }
}

#[test]
fn a_handshake_that_never_ends_times_out_as_a_handshake() {
    let authority = Authority::new();
    let good = Arc::new(authority.server("127.0.0.1", BOTH));
    let address = listen(move |number, mut socket| match number {
        0 => drop(Peer::accept(&good, socket)),
        _ => while socket.read(&mut [0; 4_096]).is_ok_and(|length| 0 < length) {},
    });
    let timeout = Nanos(100_000_000);
    let silent = listen(
        |_, mut socket| while socket.read(&mut [0; 4_096]).is_ok_and(|length| 0 < length) {},
    );
    let text = refused(Plan { timeout, ..authority.plan(silent) });
    assert!(text.contains("(tls_timed_out)") && text.contains("--timeout"), "{text}");
    let plan = Plan { timeout, ..open(authority.plan(address), "100") };
    let counts = run_to_its_end(plan).report.whole.counts;
    assert_eq!(counts.errors.of(Cause::TlsTimedOut), counts.failed, "{counts:?}");
    assert!(10 < counts.failed && counts.answered == 0, "{counts:?}");
}

#[test]
fn handshakes_that_never_end_are_the_targets_fault_and_counted_where_they_fail() {
    let authority = Authority::new();
    let good = Arc::new(authority.server("127.0.0.1", BOTH));
    let address = listen(move |number, mut socket| match number {
        0 => drop(Peer::accept(&good, socket)),
        _ => while socket.read(&mut [0; 4_096]).is_ok_and(|length| 0 < length) {},
    });
    let warm = Plan {
        warmup: Nanos(200_000_000),
        settle: Nanos(100_000_000),
        conns: Some(4),
        timeout: Nanos(600_000_000),
        ..authority.plan(address)
    };
    let report = run_to_its_end(open(warm, "300")).report;
    let counts = &report.whole.counts;
    assert_eq!(counts.setup.settled, Some(false), "{counts:?}");
    assert!(0 < counts.warmup.errors.of(Cause::TlsTimedOut), "{counts:?}");
    let reason = &report.verdict.reasons[0];
    assert_eq!(reason.code, Code::NothingSent, "{:?}", report.verdict);
    assert!(reason.evidence.contains("tls_timed_out: "), "{}", reason.evidence);
    assert!(!reason.cure.contains("--cores"), "{}", reason.cure);
    assert_verified(&report);
}

#[test]
fn a_slow_handshake_is_connection_wait_and_not_generator_lateness() {
    const HELD: Duration = Duration::from_millis(200);
    let authority = Authority::new();
    let config = Arc::new(authority.server("127.0.0.1", BOTH));
    let address = listen(move |number, socket| {
        // Except in the handshake before the run.
        if 0 < number {
            std::thread::sleep(HELD);
        }
        let Some(mut peer) = Peer::accept(&config, socket) else { return };
        while peer.request() && peer.send(OK) {}
    });
    let plan = Plan { conns: Some(400), ..open(authority.plan(address), "400") };
    let report = run_to_its_end(plan).report;
    let whole = &report.whole;
    let held_us = HELD.as_micros() as f64;
    assert!(whole.connection_wait.max.is_some_and(|us| held_us <= us), "{:?}", whole.counts);
    // A request that falls due while the shard doesn't look is noticed when it looks again.
    let gaps_us = report.generator.shards.iter().map(|shard| shard.longest_gap_us);
    let gap_us = gaps_us.fold(0.0, f64::max);
    let late_us = whole.pacer_lateness.max.expect("requests");
    assert!(late_us < gap_us + held_us / 2.0, "{late_us} µs late, at most {gap_us} µs away");
}

#[test]
fn any_certificate_is_accepted_if_asked_and_the_report_shows_it() {
    let (authority, other) = (Authority::new(), Authority::new());
    let address = serve(other.server("elsewhere.test", BOTH), always_ok);
    let plan = Plan { insecure: true, cacert: None, ..authority.plan(address) };
    let report = run_to_its_end(plan).report;
    let counts = &report.whole.counts;
    assert!(100 < counts.answered && counts.answered == counts.intended, "{counts:?}");
    assert!(tls(&report).insecure && report.config.plan.insecure);
}

#[test]
fn a_certificate_of_the_clients_is_shown_to_a_target_that_asks_for_it() {
    let authority = Authority::new();
    let key = KeyPair::generate().expect("a key");
    let file = |name: &str, text: String| {
        let path = authority.folder.path().join(name);
        fs::write(&path, text).expect("written");
        Some(path)
    };
    let params = CertificateParams::new(["client.test".to_owned()]).expect("a name");
    let issued = params.signed_by(&key, &authority.issuer).expect("a certificate");
    let (cert, key) = (file("cert.pem", issued.pem()), file("key.pem", key.serialize_pem()));
    for version in BOTH {
        let mut roots = RootCertStore::empty();
        roots.add(authority.issuer.der().clone()).expect("an issuer");
        let provider = Arc::new(ring::default_provider());
        let asks = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let (certificate, own) = authority.certificate("127.0.0.1", |_| {});
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .expect("a version of the provider")
            .with_client_cert_verifier(asks.build().expect("roots"))
            .with_single_cert(vec![certificate], PrivateKeyDer::Pkcs8(own.serialize_der().into()))
            .expect("a certificate with its key");
        let address = serve(config, always_ok);
        let with = Plan { cert: cert.clone(), key: key.clone(), ..authority.plan(address) };
        let counts = run_to_its_end(with).report.whole.counts;
        assert!(100 < counts.answered && counts.answered == counts.intended, "{counts:?}");
        // TLS 1.3 refuses a client without one only after the client's side of the handshake.
        let without = open(authority.plan(address), "100");
        let refusal = Cause::TlsClientCertificate;
        if **version == TLS12 {
            let text = refused(without);
            assert!(text.contains("(tls_client_certificate)") && text.contains("--cert"), "{text}");
        } else {
            let counts = run_to_its_end(without).report.whole.counts;
            assert!(counts.answered == 0 && 0 < counts.failed, "{counts:?}");
            assert_eq!(counts.errors.of(refusal), counts.failed, "{counts:?}");
        }
    }
}

#[test]
fn files_of_the_wrong_kind_are_refused_with_flag_value_and_cure() {
    let authority = Authority::new();
    let address = listen(|_, _| {});
    let plan = || authority.plan(address);
    let junk = authority.folder.path().join("junk.pem");
    fs::write(&junk, "junk").expect("written");
    let key = KeyPair::generate().expect("a key");
    let other = authority.folder.path().join("key.pem");
    fs::write(&other, key.serialize_pem()).expect("written");
    let missing = PathBuf::from("/none/ca.pem");
    let root = Some(authority.file());
    let http = format!("http://{address}/");
    for (plan, start, words) in [
        (Plan { cacert: Some(missing), ..plan() }, "--cacert /none/ca.pem: ", "can't read it"),
        (Plan { cacert: Some(junk), ..plan() }, "--cacert ", "no certificate is in it"),
        (Plan { cert: root.clone(), ..plan() }, "--cert ", "add --key"),
        (Plan { key: root.clone(), ..plan() }, "--key ", "add --cert"),
        (Plan { cert: root.clone(), key: root.clone(), ..plan() }, "--key ", "give the PEM files"),
        (Plan { cert: root, key: Some(other), ..plan() }, "--key ", "give the PEM files"),
        (Plan { insecure: true, ..plan() }, "--cacert ", "omit one of the two"),
        (Plan { target: http.clone(), ..plan() }, "--cacert ", "https URL"),
        (
            Plan { target: http, cacert: None, insecure: true, ..plan() },
            "--insecure on: ",
            "https URL",
        ),
    ] {
        let text = refused(plan);
        assert!(text.starts_with(start) && text.contains(words), "{start} {words}: {text}");
    }
    let address = serve(authority.server("127.0.0.1", BOTH), always_ok);
    let stamp_sends = Some("1/5".parse().expect("a sample"));
    let text = refused(Plan { stamp_sends, ..authority.plan(address) });
    assert!(text.starts_with("--stamp-sends 1/5: what leaves through TLS"), "{text}");
}
