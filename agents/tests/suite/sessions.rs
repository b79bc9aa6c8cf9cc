//! Sessions over TCP: an agent that strangers try to disturb.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agents::channel::{Channel, ChannelError};
use agents::key::Key;
use agents::listener::{ListenError, Listener, STRANGERS_MAX, Stranger};
use agents::message::{Message, Ping, Pong};
use agents::refusal::Refusal;
use agents::session::{AUTHENTICATION_MAX, Session, SessionError};
use agents::versions::PROTOCOL;
use engine::sys::units::Nanos;
use glommio::timer::Timer;
use glommio::{ExecutorJoinHandle, LocalExecutorBuilder, Placement};

use crate::examples::{key, named_key};

/// How long a test waits for anything before it gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// An agent that answers pings until it is dropped.
struct Agent {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
    executor: Option<ExecutorJoinHandle<()>>,
    /// Why strangers got no session.
    refused: Arc<Mutex<Vec<String>>>,
}

impl Agent {
    fn start(key: Option<Key>) -> Agent {
        let (ready, address) = mpsc::channel();
        let stopped = Arc::new(AtomicBool::new(false));
        let refused = Arc::new(Mutex::new(Vec::new()));
        let (stop, refusals) = (Arc::clone(&stopped), Arc::clone(&refused));
        let executor = LocalExecutorBuilder::new(Placement::Unbound)
            .spawn(move || async move {
                let any = "127.0.0.1:0".parse().expect("an address");
                let listener = Listener::bind(any, key.as_ref()).expect("a free port");
                ready.send(listener.local_addr().expect("an address")).expect("a test");
                let accepting = glommio::spawn_local(listener.run(
                    move || key.clone(),
                    move |session| {
                        let refusals = Arc::clone(&refusals);
                        async move {
                            match session {
                                Ok(session) => answer_pings(session).await,
                                Err(Stranger { peer, error }) => {
                                    assert!(peer.is_none_or(|peer| peer.ip().is_loopback()));
                                    refusals.lock().expect("a list").push(error.to_string());
                                }
                            }
                        }
                    },
                ));
                while !stop.load(Ordering::Relaxed) {
                    Timer::new(Duration::from_millis(5)).await;
                }
                accepting.cancel().await;
            })
            .expect("an executor");
        let address = address.recv_timeout(PATIENCE).expect("an agent");
        Agent { address, stopped, executor: Some(executor), refused }
    }

    /// A connection to it without authentication.
    fn stranger(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    fn refused(&self) -> Vec<String> {
        self.refused.lock().expect("a list").clone()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let joined = self.executor.take().expect("an executor").join();
        assert!(joined.is_ok() || std::thread::panicking(), "it ends");
    }
}

async fn answer_pings(mut session: Session) {
    while let Ok(message) = session.receive().await {
        let answer = match message {
            Message::Ping(Ping { sent_ns }) => {
                Message::Pong(Pong { sent_ns, received_ns: 1, answered_ns: 2 })
            }
            _ => Message::Bye,
        };
        if session.send(&answer).await.is_err() {
            return;
        }
    }
}

/// A controller on a plain socket.
struct Controller {
    stream: TcpStream,
    channel: Channel,
}

impl Controller {
    /// Connects; waits until it is authenticated.
    fn connect(agent: &Agent, key: Option<Key>) -> Result<Controller, ChannelError> {
        let channel = Channel::controller(key.as_ref());
        let mut controller = Controller { stream: agent.stranger(), channel };
        while !controller.channel.is_open() {
            assert_eq!(controller.turn()?, None);
        }
        Ok(controller)
    }

    /// Sends pending bytes, and takes the next message.
    fn turn(&mut self) -> Result<Option<Message>, ChannelError> {
        // The agent may have closed the connection already, which the read shows.
        let _ = self.stream.write_all(&self.channel.take_outgoing());
        let mut bytes = [0; 4_096];
        match self.stream.read(&mut bytes).unwrap_or(0) {
            0 => self.channel.finish().map(|()| None),
            read => self.channel.receive(&mut &bytes[..read]),
        }
    }

    fn ping(&mut self, sent_ns: u64) {
        self.channel.send(&Message::Ping(Ping { sent_ns })).expect("short");
        loop {
            if let Some(answer) = self.turn().expect("a session") {
                let pong = Pong { sent_ns, received_ns: 1, answered_ns: 2 };
                return assert_eq!(answer, Message::Pong(pong));
            }
        }
    }
}

/// The answer to a stranger that sent these bytes; `None` if the connection ends without one.
fn answered(agent: &Agent, bytes: &[u8]) -> Option<Refusal> {
    let mut stream = agent.stranger();
    stream.write_all(bytes).expect("sent");
    answer(&mut stream)
}

fn answer(stream: &mut TcpStream) -> Option<Refusal> {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    let mut channel = Channel::controller(None);
    match channel.receive(&mut answer.as_slice()) {
        Err(ChannelError::Refused(refusal)) => Some(refusal),
        other => {
            assert_eq!(other, Ok(None));
            assert!(answer.is_empty(), "{answer:?}");
            None
        }
    }
}

/// The start of a frame of this type and length.
fn header(kind: u8, length: u32) -> Vec<u8> {
    let mut bytes = [&b"TTAG"[..], &PROTOCOL.to_le_bytes()].concat();
    bytes.push(kind);
    bytes.extend(length.to_le_bytes());
    bytes
}

#[test]
fn a_controller_and_an_agent_talk_over_tcp() {
    let agent = Agent::start(key());
    let address = agent.address;
    let (done, said): (_, Receiver<Vec<Message>>) = mpsc::channel();
    let executor = LocalExecutorBuilder::new(Placement::Unbound)
        .spawn(move || async move {
            let mut session = Session::connect(address, key()).await.expect("a session");
            assert_eq!(session.peer().expect("a peer"), address);
            let mut said = Vec::new();
            for message in [Message::Ping(Ping { sent_ns: 7 }), Message::Bye] {
                session.send(&message).await.expect("sent");
                said.push(session.receive().await.expect("an answer"));
            }
            done.send(said).expect("a test");
            let wrong = named_key("fedcba9876543210fedcba9876543210");
            match Session::connect(address, wrong).await {
                Err(SessionError::Channel(ChannelError::Refused(Refusal::WrongKey))) => {}
                other => panic!("{other:?}"),
            }
        })
        .expect("an executor");
    let said = said.recv_timeout(PATIENCE).expect("a talk");
    let pong = Pong { sent_ns: 7, received_ns: 1, answered_ns: 2 };
    assert_eq!(said, [Message::Pong(pong), Message::Bye]);
    executor.join().expect("it ends");
}

#[test]
fn each_stranger_is_refused_for_its_own_reason_and_the_next_controller_is_served() {
    let agent = Agent::start(key());
    let mut honest = Controller::connect(&agent, key()).expect("a session");
    let mut controllers = 0;
    for (bytes, refusal) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), None),
        (vec![0xFF; 100_000], None),
        (header(0, u32::MAX), Some("protocol: open of 4294967295 bytes, at most 1013 are allowed")),
        (header(16, u32::MAX), Some("protocol: report before authentication")),
        (header(99, 1), Some("protocol: no message has type 99")),
        (
            [&header(0, u32::MAX)[..], &[7; 100_000]].concat(),
            Some("protocol: open of 4294967295 bytes, at most 1013 are allowed"),
        ),
    ] {
        let answered = answered(&agent, &bytes).map(|refusal| refusal.to_string());
        assert_eq!(answered.as_deref(), refusal);
        honest.ping(1);
        controllers += 1;
        Controller::connect(&agent, key()).expect("it is served").ping(controllers);
    }
    for (key, refusal) in [
        (named_key("fedcba9876543210fedcba9876543210"), Refusal::WrongKey),
        (None, Refusal::KeyNeeded),
    ] {
        let error = Controller::connect(&agent, key).err();
        assert_eq!(error, Some(ChannelError::Refused(refusal)));
        honest.ping(2);
    }
}

#[test]
fn a_thousand_strangers_change_nothing_for_a_session() {
    let agent = Agent::start(key());
    let mut honest = Controller::connect(&agent, key()).expect("a session");
    for number in 0..1_000_u64 {
        let mut stranger = agent.stranger();
        let garbage: Vec<u8> =
            (0..64).map(|at| (number * 31 + at * 7).to_le_bytes()[0] | 0x80).collect();
        // Its place may have gone to another already.
        let _ = stranger.write_all(&garbage);
        if number % 50 == 0 {
            honest.ping(number);
        }
    }
    honest.ping(1_001);
    Controller::connect(&agent, key()).expect("it is served").ping(1_002);
    let began = Instant::now();
    let foreign = |error: &String| error.contains("doesn't speak truetail's protocol");
    while !agent.refused().iter().any(foreign) {
        assert!(began.elapsed() < PATIENCE, "{:?}", agent.refused());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn waiting_strangers_keep_no_controller_out() {
    let agent = Agent::start(key());
    let mut silent: Vec<TcpStream> = (0..5 * STRANGERS_MAX).map(|_| agent.stranger()).collect();
    for number in 0..10 {
        Controller::connect(&agent, key()).expect("it is served").ping(number);
        silent.push(agent.stranger());
    }
    // The first was displaced, and the last has its full time.
    assert_eq!(answer(&mut silent[0]), Some(Refusal::Crowded(STRANGERS_MAX)));
    let limit = Nanos::from_secs(AUTHENTICATION_MAX.as_secs());
    let last = silent.last_mut().expect("strangers");
    assert_eq!(answer(last), Some(Refusal::TooSlow(limit)));
    Controller::connect(&agent, key()).expect("it is served").ping(11);
}

#[test]
fn an_address_that_is_taken_or_open_to_others_without_a_key_is_refused() {
    let agent = Agent::start(None);
    let taken = agent.address;
    let executor = LocalExecutorBuilder::new(Placement::Unbound)
        .spawn(move || async move {
            let error = Listener::bind(taken, None).expect_err("it is taken").to_string();
            assert!(error.starts_with(&format!("--listen {taken}: Address already in use")));
            let open = "0.0.0.0:0".parse().expect("an address");
            let error = Listener::bind(open, None);
            assert!(matches!(error, Err(ListenError::Key(_))), "{error:?}");
            assert!(Listener::bind(open, key().as_ref()).is_ok());
        })
        .expect("an executor");
    executor.join().expect("it ends");
    Controller::connect(&agent, None).expect("no key on either side").ping(1);
}

#[test]
fn silent_strangers_displace_no_controller_that_is_slow_to_prove_its_key() {
    let agent = Agent::start(key());
    let mut controller =
        Controller { stream: agent.stranger(), channel: Channel::controller(key().as_ref()) };
    // Its part of the handshake has arrived, but not yet its confirmation.
    assert_eq!(controller.turn().expect("the agent's answer"), None);
    // From the same machine as the controller.
    let silent: Vec<TcpStream> = (0..5 * STRANGERS_MAX).map(|_| agent.stranger()).collect();
    let begun = Instant::now();
    while agent.refused().len() < 3 * STRANGERS_MAX {
        assert!(begun.elapsed() < AUTHENTICATION_MAX, "{}", agent.refused().len());
        std::thread::sleep(Duration::from_millis(1));
    }
    controller.ping(1);
    drop(silent);
}
