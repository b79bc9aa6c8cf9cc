//! A name whose address changes while an agent works with it, as in DNS rebinding: the run goes to
//! the address that was permitted, and to no other.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::network::Network;
use super::processes::{Agent, LONGEST, Place, Target, controller};

/// The name server on a machine. It has a new answer for each question: for the first that one, and
/// for all that follow another.
const SERVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 53);
/// The type of a question for an IPv4 address, behind the name in a query.
const OF_IPV4: [u8; 2] = [0, 1];

/// Starts the name server; returns how often it was asked for an IPv4 address.
fn serve(network: &Network, machine: usize, answers: [Ipv4Addr; 2]) -> Arc<AtomicUsize> {
    let socket = network.within(machine, || UdpSocket::bind((SERVER, 53))).expect("a free port");
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    thread::spawn(move || {
        let mut query = [0; 512];
        // It ends with the test.
        while let Ok((length, from)) = socket.recv_from(&mut query) {
            // After the header: the name, its type, its class; then what this server ignores.
            let name = query[12..length].iter().position(|byte| *byte == 0).expect("a name ends");
            let question = 12..12 + name + 5;
            let is_of_ipv4 = query[question.end - 4..question.end - 2] == OF_IPV4;
            let mut answer = query[..question.end].to_vec();
            // A response without error, to one question, with as many answers.
            answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, is_of_ipv4.into(), 0, 0, 0, 0]);
            if is_of_ipv4 {
                let at = counted.fetch_add(1, Ordering::Relaxed).min(1);
                // The question's name, type and class, for 0 s, 4 bytes.
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
                answer.extend(answers[at].octets());
            }
            socket.send_to(&answer, from).expect("it is sent");
        }
    });
    asked
}

#[test]
fn a_run_stays_with_the_address_that_was_permitted_however_often_it_connects() {
    let Some(network) = Network::new(3) else { return };
    let (agents, permitted, other) =
        (Place::On(&network, 0), Place::On(&network, 1), Place::On(&network, 2));
    network.ask(0, IpAddr::V4(SERVER));
    let target = Target::start(permitted);
    let port = target.address.port();
    let elsewhere = other.within(|| TcpListener::bind((network.address(2), port)));
    let elsewhere = elsewhere.expect("a free port");
    elsewhere.set_nonblocking(true).expect("a socket");
    let asked = serve(&network, 0, [1, 2].map(|machine| network.address(machine)));
    let by_address = format!("{}/32", network.address(1));
    let agent = Agent::start_at(
        &mut agents.binary(),
        "127.0.0.1:0",
        &["--allow-target", by_address.as_str()],
    );
    let (url, at) = (format!("http://rebound.test:{port}/"), agent.address.to_string());
    let args = ["--agents", &at, &url, "--rate", "200", "--duration", "1s", "--warmup", "0s"];
    let run = || {
        let each_connects = ["--keepalive", "off", "--allow-invalid", "-q"];
        controller(agents, &[&args[..], &each_connects].concat()).ends_within(LONGEST)
    };
    let ended = run();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 1, "the name is resolved once");
    let received = target.received();
    assert!(100 < received, "{received}");

    let refused = run();
    let why = format!("it stands for {}, which this agent may not send to", network.address(2));
    assert!(refused.code == Some(5) && refused.stderr.contains(&why), "{refused:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    assert_eq!(target.received(), received);
    let error = elsewhere.accept().expect_err("nothing came there");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}
