//! The state shared by the tasks of one executor: responses, counts, the services and the hold
//! queue.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_rustls::TlsAcceptor;
use glommio::timer::Timer;

use crate::TargetError;
use crate::config::{FaultKind, Http2};
use crate::control::Control;
use crate::counts::Counts;
use crate::hold_queue::HoldQueue;
use crate::responses::Responses;
use crate::router::Router;
use crate::service::Service;
use crate::shop::{Asked, Reply, Shop};
use crate::system;

/// How often a connection that asked for the ledger checks whether it is ready.
const LEDGER_POLL: Duration = Duration::from_millis(2);

/// A ledger requested over HTTP: the place where the thread that takes ledgers puts the document,
/// or the error.
pub(crate) type LedgerJob = Arc<Mutex<Option<Result<String, TargetError>>>>;

/// A request read in full, and when its response is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    /// When it was read in full, ns.
    pub(crate) parsed_ns: u64,
    /// When its response is sent, ns.
    pub(crate) due_ns: u64,
    /// What is to be wrong with its response.
    pub(crate) fault: Option<FaultKind>,
}

/// The state of one executor. Of it, only the shop is shared with the others.
pub(crate) struct ExecutorState {
    /// Finds the route of a path.
    pub(crate) router: Router,
    /// The rendered responses, by route.
    pub(crate) responses: Vec<Responses>,
    /// The counts so far.
    pub(crate) counts: RefCell<Counts>,
    /// Decide when each request is due, by route.
    pub(crate) services: RefCell<Vec<Service>>,
    /// The requests held until they are due.
    pub(crate) holds: HoldQueue,
    /// The TLS acceptor, if any.
    pub(crate) tls: Option<TlsAcceptor>,
    /// How HTTP/2 connections are treated.
    pub(crate) http2: Http2,
    /// The shop, if it is one.
    pub(crate) shop: Option<Arc<Shop>>,
    stopping: Cell<bool>,
    ledger_jobs: Sender<LedgerJob>,
}

impl ExecutorState {
    /// The state of executor number `executor` before its first request; ledgers are requested
    /// through `ledger_jobs`.
    pub(crate) fn new(
        control: &Control,
        executor: usize,
        tls: Option<TlsAcceptor>,
        ledger_jobs: Sender<LedgerJob>,
    ) -> ExecutorState {
        let (config, started_ns) = (&control.config, control.started_ns);
        ExecutorState {
            router: Router::new(config),
            responses: Responses::all(config),
            counts: RefCell::new(Counts::new(config, started_ns)),
            services: RefCell::new(Service::all(config, executor, started_ns)),
            holds: HoldQueue::default(),
            tls,
            http2: config.http2,
            shop: control.shop.clone(),
            stopping: Cell::new(false),
            ledger_jobs,
        }
    }

    /// True if the target is stopping and every task should end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Asks every task to end the next time it is polled.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
    }

    /// Waits until `poll` is ready; `None` if the target stops first.
    pub(crate) async fn until_stop<T>(
        &self,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        poll_fn(|context| {
            if self.is_stopping() {
                return Poll::Ready(None);
            }
            poll(context).map(Some)
        })
        .await
    }

    /// Counts a request of this route that has just been read in full, and whose first bytes
    /// arrived at `arrived_ns`. Decides when its response is due, and wakes `connection` then.
    pub(crate) fn receive(&self, route: usize, arrived_ns: u64, connection: &Waker) -> Hold {
        let parsed_ns = system::now_ns();
        let due = self.services.borrow_mut()[route].next(parsed_ns);
        self.counts.borrow_mut().receive(route, arrived_ns, due);
        if parsed_ns < due.due_ns {
            self.holds.add(due.due_ns, connection.clone());
        }
        Hold { parsed_ns, due_ns: due.due_ns, fault: due.fault }
    }

    /// The reply to a step of the shop's users, if the target is a shop, that has just been read in
    /// full and whose first bytes arrived at `arrived_ns`.
    pub(crate) fn reply(&self, asked: &Asked, arrived_ns: u64) -> Option<Box<Reply>> {
        let mut counts = self.counts.borrow_mut();
        let (shop, counts) = self.shop.as_ref().zip(counts.shop.as_mut())?;
        Some(Box::new(shop.reply(asked, arrived_ns, counts)))
    }

    /// Notes that a reply of the shop is handed to the kernel at `handed_ns`.
    pub(crate) fn hand_over(&self, reply: &Reply, handed_ns: u64) {
        if let Some(shop) = &self.shop {
            shop.hand_over(reply, handed_ns);
        }
    }

    /// The ledger of the whole target as JSON; `None` if the target stops first.
    pub(crate) async fn ledger(&self) -> Option<Result<String, TargetError>> {
        let job = LedgerJob::default();
        self.ledger_jobs.send(Arc::clone(&job)).ok()?;
        while !self.is_stopping() {
            Timer::new(LEDGER_POLL).await;
            let document = job.lock().unwrap_or_else(PoisonError::into_inner).take();
            if document.is_some() {
                return document;
            }
        }
        None
    }
}
