//! The null target over real sockets, with plain blocking clients.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use calibration::null_target::{Counts, NullConfig, NullTarget, start};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

use crate::support::alone;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
pub(crate) const BODY: &[u8] = b"The quick brown fox jumps.\n";

pub(crate) fn config(conns_max: usize) -> NullConfig {
    let core = core_affinity::get_core_ids().expect("cores")[0].id;
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    NullConfig { listen, cores: vec![core], conns_max, tls: false }
}

pub(crate) fn null_target() -> NullTarget {
    start(config(64)).expect("the null target starts")
}

fn connect(target: &NullTarget) -> TcpStream {
    let stream = TcpStream::connect(target.local_addr()).expect("connects");
    // A broken target must fail the test, not hang it.
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream
}

/// Reads one response, with or without a body, and returns its head.
fn read_answer(stream: &mut impl Read, with_body: bool) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", BODY.len())), "{head}");
    if with_body {
        let mut body = vec![0; BODY.len()];
        stream.read_exact(&mut body).expect("a body");
        assert_eq!(body, BODY);
    }
    head
}

fn assert_closed(stream: &mut impl Read) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => assert!(rest.is_empty(), "nothing follows: {rest:?}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
}

#[test]
fn a_connection_is_kept_and_counted() {
    let _cores = alone();
    let target = null_target();
    let mut stream = connect(&target);
    for _ in 0..100 {
        stream.write_all(GET).expect("sends");
        read_answer(&mut stream, true);
    }
    assert_eq!(target.stop(), Counts { requests: 100, connections: 1 });
}

#[test]
fn a_pipeline_is_answered_in_full() {
    let _cores = alone();
    let target = null_target();
    let mut stream = connect(&target);
    stream.write_all(&GET.repeat(1_000)).expect("sends");
    for _ in 0..1_000 {
        read_answer(&mut stream, true);
    }
    assert_eq!(target.stop(), Counts { requests: 1_000, connections: 1 });
}

#[test]
fn a_client_that_reads_late_gets_every_answer() {
    let _cores = alone();
    // The responses exceed both socket buffers, so that a send stops in the middle of one.
    let requests = 100_000;
    let target = null_target();
    let mut reader = connect(&target);
    let mut writer = reader.try_clone().expect("a second handle");
    let (written, done) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        for _ in 0..requests / 1_000 {
            writer.write_all(&GET.repeat(1_000)).expect("sends");
        }
        writer.shutdown(Shutdown::Write).expect("ends");
        written.send(()).expect("the reader waits");
    });
    done.recv().expect("all requests are taken before one response is read");
    thread.join().expect("the writer ends");
    let mut answers = Vec::new();
    reader.read_to_end(&mut answers).expect("all answers, then the end");
    let one = answers.len() / requests;
    assert_eq!(answers, answers[..one].repeat(requests));
    assert!(answers.ends_with(BODY));
    assert_eq!(target.stop(), Counts { requests: requests as u64, connections: 1 });
}

#[test]
fn a_split_request_is_one_request() {
    let _cores = alone();
    let target = null_target();
    let mut stream = connect(&target);
    stream.set_nodelay(true).expect("no delay");
    for byte in GET.repeat(3) {
        stream.write_all(&[byte]).expect("sends");
    }
    for _ in 0..3 {
        read_answer(&mut stream, true);
    }
    assert_eq!(target.stop().requests, 3);
}

#[test]
fn close_and_old_versions_close() {
    let _cores = alone();
    let target = null_target();
    for request in ["GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"] {
        let mut stream = connect(&target);
        stream.write_all(request.as_bytes()).expect("sends");
        let head = read_answer(&mut stream, true);
        assert!(head.contains("Connection: close\r\n"), "{head}");
        assert_closed(&mut stream);
    }
    assert_eq!(target.stop(), Counts { requests: 2, connections: 2 });
}

#[test]
fn half_closed_clients_get_their_responses() {
    let _cores = alone();
    let target = null_target();
    let mut stream = connect(&target);
    stream.write_all(GET).expect("sends");
    stream.shutdown(Shutdown::Write).expect("ends");
    read_answer(&mut stream, true);
    assert_closed(&mut stream);
    assert_eq!(target.stop().requests, 1);
}

#[test]
fn head_has_no_body() {
    let _cores = alone();
    let target = null_target();
    let mut stream = connect(&target);
    stream.write_all(b"HEAD / HTTP/1.1\r\n\r\nHEAD / HTTP/1.1\r\n\r\n").expect("sends");
    stream.write_all(GET).expect("sends");
    read_answer(&mut stream, false);
    read_answer(&mut stream, false);
    read_answer(&mut stream, true);
    assert_eq!(target.stop().requests, 3);
}

#[test]
fn bodies_are_skipped() {
    let _cores = alone();
    let target = null_target();
    let mut stream = connect(&target);
    let body = vec![b'x'; 1_000_000];
    for _ in 0..2 {
        stream.write_all(b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n").expect("sends");
        stream.write_all(&body).expect("sends");
        read_answer(&mut stream, true);
    }
    assert_eq!(target.stop().requests, 2);
}

#[test]
fn malformed_requests_close_the_connection() {
    let _cores = alone();
    let target = null_target();
    let mut stream = connect(&target);
    stream.write_all(b"nonsense\r\n\r\n").expect("sends");
    assert_closed(&mut stream);
    assert_eq!(target.stop(), Counts { requests: 0, connections: 1 });
}

#[test]
fn connections_beyond_the_limit_are_closed_and_slots_reused() {
    let _cores = alone();
    let target = start(config(2)).expect("starts");
    let ask = |stream: &mut TcpStream| {
        stream.write_all(GET).expect("sends");
        read_answer(stream, true);
    };
    let mut first = connect(&target);
    ask(&mut first);
    let mut second = connect(&target);
    ask(&mut second);
    assert_closed(&mut connect(&target));
    // Closing a connection makes room for another.
    first.write_all(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").expect("sends");
    read_answer(&mut first, true);
    assert_closed(&mut first);
    let mut third = connect(&target);
    ask(&mut third);
    ask(&mut second);
    assert_eq!(target.stop(), Counts { requests: 5, connections: 3 });
}

#[test]
fn many_connections_are_held_at_once() {
    let _cores = alone();
    let target = start(config(1_000)).expect("starts");
    let mut streams: Vec<TcpStream> = (0..400).map(|_| connect(&target)).collect();
    for _ in 0..3 {
        for stream in &mut streams {
            stream.write_all(GET).expect("sends");
        }
        for stream in &mut streams {
            read_answer(stream, true);
        }
    }
    assert_eq!(target.stop(), Counts { requests: 1_200, connections: 400 });
}

#[test]
fn stopping_closes_connections_and_frees_the_port() {
    let _cores = alone();
    let target = null_target();
    let address = target.local_addr();
    let mut stream = connect(&target);
    stream.write_all(GET).expect("sends");
    read_answer(&mut stream, true);
    target.stop();
    assert_closed(&mut stream);
    assert!(TcpStream::connect(address).is_err());
    let again = start(NullConfig { listen: address, ..config(64) }).expect("the port is free");
    assert_eq!(again.local_addr(), address);
}

#[test]
fn the_port_is_shared_with_no_other_null_target() {
    let _cores = alone();
    let cores: Vec<usize> =
        core_affinity::get_core_ids().expect("cores").into_iter().map(|core| core.id).collect();
    for first in [&cores[..1], &cores] {
        let target = start(NullConfig { cores: first.to_vec(), ..config(8) }).expect("it starts");
        let listen = target.local_addr();
        for second in [&cores[..1], &cores] {
            let again = NullConfig { listen, cores: second.to_vec(), ..config(8) };
            let error = start(again).expect_err("the port is taken").to_string();
            assert!(error.starts_with(&format!("--listen {listen}: ")), "{error}");
        }
        let mut stream = connect(&target);
        stream.write_all(GET).expect("sends");
        read_answer(&mut stream, true);
        assert_eq!(target.stop(), Counts { requests: 1, connections: 1 }, "the first still serves");
    }
}

/// A null target with TLS, and the configuration of a client that trusts it.
pub(crate) fn null_target_tls(config: NullConfig) -> (NullTarget, Arc<ClientConfig>) {
    let target = start(NullConfig { tls: true, ..config }).expect("the null target starts");
    let issuer = target.issuer().expect("it has one").as_bytes();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(issuer).expect("a certificate")).expect("an issuer's");
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider's versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    (target, Arc::new(client))
}

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

fn connect_tls(target: &NullTarget, config: &Arc<ClientConfig>) -> TlsStream {
    let name = "localhost".try_into().expect("a name");
    let session = ClientConnection::new(Arc::clone(config), name).expect("a client");
    StreamOwned::new(session, connect(target))
}

#[test]
fn it_is_the_same_through_tls() {
    let _cores = alone();
    let (target, client) = null_target_tls(config(64));
    let mut stream = connect_tls(&target, &client);
    for _ in 0..100 {
        stream.write_all(GET).expect("sends");
        read_answer(&mut stream, true);
    }
    stream.write_all(&GET.repeat(1_000)).expect("sends");
    for _ in 0..1_000 {
        read_answer(&mut stream, true);
    }
    let body = vec![b'x'; 100_000];
    stream.write_all(b"POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n").expect("sends");
    stream.write_all(&body).expect("sends");
    read_answer(&mut stream, true);
    stream.write_all(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").expect("sends");
    read_answer(&mut stream, true);
    // The end is announced: without that, this read would fail.
    assert_eq!(stream.read_to_end(&mut Vec::new()).expect("an orderly end"), 0);
    assert_eq!(target.stop(), Counts { requests: 1_102, connections: 1 });
}

#[test]
fn sessions_are_resumed_and_slots_reused() {
    let _cores = alone();
    let (target, client) = null_target_tls(config(4));
    for number in 0..10 {
        let mut stream = connect_tls(&target, &client);
        stream.write_all(GET).expect("sends");
        read_answer(&mut stream, true);
        let kind = stream.conn.handshake_kind().expect("it is over");
        assert_eq!(kind == HandshakeKind::Resumed, 0 < number, "connection {number}: {kind:?}");
        stream.conn.send_close_notify();
        stream.flush().expect("sends");
        assert_eq!(stream.read_to_end(&mut Vec::new()).expect("an orderly end"), 0);
    }
    assert_eq!(target.stop(), Counts { requests: 10, connections: 10 });
}

#[test]
fn many_connections_are_held_at_once_through_tls() {
    let _cores = alone();
    let (target, client) = null_target_tls(config(300));
    let mut streams: Vec<TlsStream> = (0..200).map(|_| connect_tls(&target, &client)).collect();
    for _ in 0..3 {
        for stream in &mut streams {
            stream.write_all(GET).expect("sends");
        }
        for stream in &mut streams {
            read_answer(stream, true);
        }
    }
    assert_eq!(target.stop(), Counts { requests: 600, connections: 200 });
}

#[test]
fn a_client_without_tls_gets_an_alert_and_no_answer() {
    let _cores = alone();
    let (target, _) = null_target_tls(config(64));
    let mut stream = connect(&target);
    stream.write_all(GET).expect("sends");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an end");
    assert_eq!((answer.first(), answer.len()), (Some(&21), 7), "{answer:?}");
    assert_eq!(target.stop(), Counts { requests: 0, connections: 1 });
}

#[test]
fn errors_name_flag_value_and_cure() {
    let _cores = alone();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let listen = taken.local_addr().expect("an address");
    let cases = [
        (NullConfig { listen, ..config(1) }, format!("--listen {listen}: ")),
        (NullConfig { cores: vec![], ..config(1) }, "--cores: ".to_owned()),
        (NullConfig { cores: vec![9_999], ..config(1) }, "--cores 9999: ".to_owned()),
        (config(0), "--conns 0: ".to_owned()),
        (config(10_000_000), "--conns 10000000: ".to_owned()),
    ];
    for (config, beginning) in cases {
        let text = start(config).expect_err(&beginning).to_string();
        assert!(text.starts_with(&beginning) && text.contains("; "), "{text}");
    }
}
