//! One executor: a pinned thread with its listener, its connections and its tally, and nothing of another's.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use glommio::net::{TcpListener, TcpStream};
use glommio::timer::Timer;

use crate::connection::Connection;
use crate::holds::Holds;
use crate::listener::Bound;
use crate::publication::{LOOK_INTERVAL, Publication};
use crate::replies::Replies;
use crate::service::Service;
use crate::system;
use crate::tally::Tally;

/// How long to wait before accepting again when there are no descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_millis(10);
/// How often, and how long apart, connections are told to end when the target stops.
const STOP_TURNS_MAX: usize = 100;
const STOP_TURN: Duration = Duration::from_millis(1);

/// A ledger asked for over HTTP: where the thread that takes it leaves the document, or the reason why there is none.
pub(crate) type LedgerJob = Arc<Mutex<Option<Result<String, String>>>>;

/// What the tasks of one executor share.
pub(crate) struct Executor {
    /// The responses.
    pub(crate) replies: Replies,
    /// What has been seen.
    pub(crate) tally: RefCell<Tally>,
    /// When requests are due.
    pub(crate) service: RefCell<Service>,
    /// Those that wait.
    pub(crate) holds: Holds,
    stopping: Cell<bool>,
    connections: RefCell<HashMap<u64, Waker>>,
    ledger_jobs: Sender<LedgerJob>,
}

/// Serves on `bound` until the target stops; `ready` is told when it begins. Gives the tally.
pub(crate) async fn run(
    bound: Bound,
    publication: Arc<Publication>,
    index: usize,
    ledger_jobs: Sender<LedgerJob>,
    ready: Sender<()>,
) -> Tally {
    system::set_timer_slack();
    let config = &publication.config;
    let executor = Rc::new(Executor {
        replies: Replies::new(config.body_size),
        tally: RefCell::new(Tally::new(publication.started_ns)),
        service: RefCell::new(Service::new(config, index, publication.started_ns)),
        holds: Holds::default(),
        stopping: Cell::new(false),
        connections: RefCell::new(HashMap::new()),
        ledger_jobs,
    });
    let unlisten = bound.unlisten();
    let listener = bound.into_listener();
    let accept = glommio::spawn_local(accept(Rc::clone(&executor), listener));
    let holder = Rc::clone(&executor);
    let holds = glommio::spawn_local(async move { holder.holds.keep().await });
    // Whoever starts the target may have given up waiting; then it stops us too.
    let _ = ready.send(());

    let mut published = 0;
    let pulse = &publication.pulses()[index];
    while !publication.stopped() {
        pulse.beat();
        Timer::new(LOOK_INTERVAL).await;
        publication.publish(index, &mut published, &executor.tally.borrow());
    }
    accept.cancel().await;
    if let Ok(unlisten) = unlisten {
        unlisten.now();
    }
    holds.cancel().await;
    executor.close_connections().await;
    pulse.end();
    executor.tally.borrow().clone()
}

async fn accept(executor: Rc<Executor>, listener: TcpListener) {
    for id in 0.. {
        match listener.accept().await {
            Ok(stream) => executor.open(id, stream),
            Err(_) => {
                executor.tally.borrow_mut().accept_errors += 1;
                Timer::new(ACCEPT_RETRY).await;
            }
        }
        // Thousands may connect at once; those that wait for their answer must not wait for that.
        glommio::executor().yield_task_queue_now().await;
    }
}

impl Executor {
    /// Whether the target stops and every task shall end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    fn open(self: &Rc<Executor>, id: u64, stream: TcpStream) {
        self.tally.borrow_mut().accepted += 1;
        // Without it a second response could wait for the acknowledgement of the first. Where it fails, the peer is
        // gone already and the first read says so.
        let _ = stream.set_nodelay(true);
        let executor = Rc::clone(self);
        glommio::spawn_local(async move {
            let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
            executor.connections.borrow_mut().insert(id, waker.clone());
            Connection::new(Rc::clone(&executor), stream, waker).serve().await;
            executor.connections.borrow_mut().remove(&id);
            executor.tally.borrow_mut().closed += 1;
        })
        .detach();
    }

    /// The ledger of the whole target; `None` when the target stops meanwhile.
    pub(crate) async fn ledger(&self) -> Option<Result<String, String>> {
        let job = LedgerJob::default();
        self.ledger_jobs.send(Arc::clone(&job)).ok()?;
        while !self.is_stopping() {
            Timer::new(Duration::from_millis(2)).await;
            let document = job.lock().unwrap_or_else(PoisonError::into_inner).take();
            if document.is_some() {
                return document;
            }
        }
        None
    }

    async fn close_connections(&self) {
        self.stopping.set(true);
        for _ in 0..STOP_TURNS_MAX {
            for waker in self.connections.borrow().values() {
                waker.wake_by_ref();
            }
            Timer::new(STOP_TURN).await;
            if self.connections.borrow().is_empty() {
                return;
            }
        }
    }
}
