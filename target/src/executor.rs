//! One executor: a pinned thread with its own listener, connections and counts.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_rustls::TlsAcceptor;
use glommio::net::{TcpListener, TcpStream};
use glommio::timer::Timer;

use crate::control::{CHECK_INTERVAL, Control};
use crate::counts::Counts;
use crate::executor_state::{ExecutorState, LedgerJob};
use crate::http1::Connection;
use crate::http2;
use crate::listener::BoundListener;
use crate::preface::{self, Protocol};
use crate::stream::Stream;
use crate::system;

/// The pause before accepting again when there are no descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_millis(10);
/// How many times connections are asked to end when the target stops.
const STOP_TURNS_MAX: usize = 100;
/// The time between two of these.
const STOP_TURN: Duration = Duration::from_millis(1);

/// Runs one executor: serves `listener` until the target stops, then returns the counts. `ready`
/// receives a message once it accepts connections.
pub(crate) async fn run(
    listener: BoundListener,
    tls: Option<TlsAcceptor>,
    control: Arc<Control>,
    index: usize,
    ledger_jobs: Sender<LedgerJob>,
    ready: Sender<()>,
) -> Counts {
    system::set_timer_slack();
    let state = Rc::new(ExecutorState::new(&control, index, tls, ledger_jobs));
    let open = OpenConnections::default();
    let listening = listener.handle();
    let listener = listener.into_listener();
    let accept = glommio::spawn_local(accept(Rc::clone(&state), Rc::clone(&open), listener));
    let waker = Rc::clone(&state);
    let holds = glommio::spawn_local(async move { waker.holds.run().await });
    // If the starting thread no longer waits, the target is being dropped and stops this executor.
    let _ = ready.send(());

    let mut published = 0;
    let heartbeat = &control.heartbeats()[index];
    while !control.stopped() {
        heartbeat.beat();
        Timer::new(CHECK_INTERVAL).await;
        control.publish(index, &mut published, &state.counts.borrow());
    }
    accept.cancel().await;
    if let Ok(listening) = listening {
        listening.stop();
    }
    holds.cancel().await;
    close_connections(&state, &open).await;
    heartbeat.end();
    state.counts.borrow().clone()
}

/// The wakers of the open connections' tasks, by connection number.
type OpenConnections = Rc<RefCell<HashMap<u64, Waker>>>;

async fn accept(state: Rc<ExecutorState>, open: OpenConnections, listener: TcpListener) {
    for id in 0.. {
        match listener.accept().await {
            Ok(stream) => serve(&state, &open, id, stream),
            Err(_) => {
                state.counts.borrow_mut().accept_errors += 1;
                Timer::new(ACCEPT_RETRY).await;
            }
        }
        // Thousands may connect at once, which mustn't delay responses that are due.
        glommio::executor().yield_task_queue_now().await;
    }
}

/// Serves a connection in a task of its own.
fn serve(state: &Rc<ExecutorState>, open: &OpenConnections, id: u64, stream: TcpStream) {
    state.counts.borrow_mut().accepted += 1;
    let (state, open) = (Rc::clone(state), Rc::clone(open));
    glommio::spawn_local(async move {
        let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        open.borrow_mut().insert(id, waker.clone());
        serve_stream(&state, stream, waker).await;
        open.borrow_mut().remove(&id);
        state.counts.borrow_mut().closed += 1;
    })
    .detach();
}

/// Serves a connection in the protocol that it speaks.
async fn serve_stream(state: &Rc<ExecutorState>, socket: TcpStream, waker: Waker) {
    let Some(mut stream) = Stream::open(state, socket).await else { return };
    let Some((protocol, beginning)) = preface::read(state, &mut stream).await else { return };
    let state = Rc::clone(state);
    match protocol {
        Protocol::Http1 => Connection::new(state, stream, beginning, waker).serve().await,
        Protocol::Http2 => http2::serve(state, stream, beginning).await,
    }
}

async fn close_connections(state: &ExecutorState, open: &OpenConnections) {
    state.stop();
    for _ in 0..STOP_TURNS_MAX {
        for waker in open.borrow().values() {
            waker.wake_by_ref();
        }
        Timer::new(STOP_TURN).await;
        if open.borrow().is_empty() {
            return;
        }
    }
}
