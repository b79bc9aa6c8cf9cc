//! The start raises the soft limit on open files to the hard limit. The test has a process of its
//! own because a limit applies to all threads.

#![forbid(unsafe_code)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use target::TargetConfig;

#[test]
fn more_connections_than_the_soft_limit_are_served() {
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: hard })
        .expect("lowering needs no privilege");
    let config = TargetConfig::new("127.0.0.1:0".parse().expect("an address"));
    let target = target::start(config).expect("the target starts");
    assert_eq!(getrlimit(Resource::Nofile).current, hard);

    let connect = |_| TcpStream::connect(target.local_addr()).expect("the target listens");
    let mut clients: Vec<TcpStream> = (0..100).map(connect).collect();
    for client in &mut clients {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("the target reads");
        client.read_exact(&mut [0]).expect("an answer");
    }
    let ledger = target.stop().expect("a ledger");
    assert_eq!((ledger.answered, ledger.connections.accept_errors), (100, 0));
}
