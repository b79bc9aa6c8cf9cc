//! One shard's io_uring: its operations, one system call per turn, and the receive buffers.
//!
//! It is built on the thread that uses it and stays there. It owns all memory that the kernel may
//! touch: the bytes to send, the addresses to connect to and the receive buffers, so no operation
//! can outlive what it points to. It knows nothing of HTTP or requests; each operation carries a
//! token chosen by the caller.
//!
//! Receives are multishot, from one ring of buffers that all sockets share. Sends of short requests
//! are silent: `MSG_WAITALL` turns a short send into a failure, so `CQE_SKIP_SUCCESS` hides
//! nothing. Sockets are plain descriptors: registered ones gain nothing beyond noise
//! (`perf/README.md`), and cost a registration for every connect.
#![expect(
    unsafe_code,
    reason = "the kernel shares memory with us; every block states why it is sound"
)]

use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::RawFd;
use std::ptr::NonNull;

use io_uring::squeue::Flags;
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{
    CompletionQueue, EnterFlags, IoUring, SubmissionQueue, Submitter, cqueue, opcode, squeue,
};
use socket2::SockAddr;

use crate::buffers::BufferRing;
use crate::outbox::{Out, Outbox};
use crate::payload::Payload;
use crate::receive_stamps::{self, Chunk};
use crate::send_stamps::StampedSends;
use crate::sizes::RingSizes;

/// The token of operations whose completion is ignored.
pub const TOKEN_NONE: u64 = u64::MAX;

/// The number of submits of a full queue after which the ring counts as broken.
const SUBMITS_MAX: usize = 1_000;

/// The number of polls of [`Ring::settle`] after which it stops waiting: more than connections.
const SETTLE_POLLS_MAX: usize = 1_000_000;

/// The one group of receive buffers.
const BUFFER_GROUP: u16 = 0;

/// The parameters of a ring.
pub struct RingConfig {
    /// Sockets that may have operations in flight at once.
    pub sockets_max: usize,
    /// Size of one receive buffer in bytes.
    pub buffer_size: usize,
    /// The payloads whose parts [`Ring::send`] sends.
    pub payloads: Vec<Payload>,
    /// The addresses that [`Ring::connect`] connects to.
    pub addresses: Vec<SockAddr>,
    /// True if sockets also send bytes that are made as they leave: see [`Ring::send_out`].
    pub outbox: bool,
}

/// A completion of an operation: its only one, or one of many from a multishot operation.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// The operation's token.
    pub token: u64,
    /// Bytes, a descriptor, or a negative errno.
    pub result: i32,
    /// True if the operation is multishot and still armed.
    pub more: bool,
    /// The receive buffer that holds `result` bytes; it must be given back.
    pub buffer: Option<u16>,
}

/// An io_uring with its memory. Neither `Send` nor `Sync`: a single-issuer ring belongs to the
/// thread that made it.
pub struct Ring {
    submitter: ManuallyDrop<Submitter<'static>>,
    submissions: ManuallyDrop<SubmissionQueue<'static>>,
    completions: ManuallyDrop<CompletionQueue<'static>>,
    ring: NonNull<IoUring>,
    buffers: BufferRing,
    payloads: Vec<Payload>,
    outbox: Outbox,
    /// On the heap: the ring may move while a queued connect points to one.
    addresses: Box<[SockAddr]>,
    /// Boxed, like the addresses: armed receives point to it.
    stamped: Box<libc::msghdr>,
    /// On the heap, like the addresses.
    stamped_sends: StampedSends,
    no_sqarray: bool,
    buffers_exhausted: u64,
    overflows: u64,
    overflowing: bool,
    not_send: PhantomData<*const ()>,
}

impl Ring {
    /// Builds the ring on this thread.
    ///
    /// # Errors
    /// The kernel's error if it refuses the ring, its buffers or the registration.
    pub fn new(config: RingConfig) -> io::Result<Ring> {
        let sizes = RingSizes::new(config.sockets_max);
        let mut builder = IoUring::<squeue::Entry, cqueue::Entry>::builder();
        builder
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize(sizes.completions);
        // NO_SQARRAY saves an indirection, from Linux 6.6 on. `features` reports whether it is in
        // use.
        let without_array = builder.clone().setup_no_sqarray().build(sizes.submissions);
        let no_sqarray = without_array.is_ok();
        let ring = without_array.or_else(|_| builder.build(sizes.submissions))?;
        let buffers = BufferRing::new(sizes.buffers, config.buffer_size)?;
        let outbox = Outbox::new(if config.outbox { config.sockets_max } else { 0 })?;
        let ring = NonNull::from(Box::leak(Box::new(ring)));
        // SAFETY: the box was leaked a line above, so the pointer is valid and unaliased; `drop`
        // takes the box back only after the three parts that borrow from it are gone.
        let (mut submitter, submissions, completions) = unsafe { (*ring.as_ptr()).split() };
        // The registered fd lives in this one submitter; making another per call would silently use
        // the plain fd.
        let registered = submitter.register_ring_fd().and_then(|()| {
            // SAFETY: the entries live in `buffers`, which the ring owns and drops after the ring
            // is closed.
            unsafe {
                submitter.register_buf_ring_with_flags(
                    buffers.entries_address(),
                    buffers.count(),
                    BUFFER_GROUP,
                    0,
                )
            }
        });
        let ring = Ring {
            submitter: ManuallyDrop::new(submitter),
            submissions: ManuallyDrop::new(submissions),
            completions: ManuallyDrop::new(completions),
            ring,
            buffers,
            stamped_sends: StampedSends::default(),
            payloads: config.payloads,
            outbox,
            addresses: config.addresses.into_boxed_slice(),
            stamped: Box::new(receive_stamps::message_header()),
            no_sqarray,
            buffers_exhausted: 0,
            overflows: 0,
            overflowing: false,
            not_send: PhantomData,
        };
        registered.map(|()| ring)
    }

    /// The io_uring features that this ring uses, by the kernel's names.
    pub fn features(&self) -> Vec<String> {
        let always = [
            "SINGLE_ISSUER",
            "DEFER_TASKRUN",
            "TASKRUN_FLAG",
            "SUBMIT_ALL",
            "CQE_SKIP_SUCCESS",
            "registered ring fd",
            "provided buffer ring",
            "multishot receive",
        ];
        let sometimes = self.no_sqarray.then_some("NO_SQARRAY");
        always.into_iter().chain(sometimes).map(str::to_owned).collect()
    }

    /// Connects a socket to the ring's address of this index.
    pub fn connect(&mut self, token: u64, fd: RawFd, address: usize) {
        let address = &self.addresses[address];
        let entry = opcode::Connect::new(Fd(fd), address.as_ptr().cast(), address.len());
        self.push(&entry.build().user_data(token));
    }

    /// Arms a multishot receive: every completion brings a buffer, and `more` shows whether it is
    /// still armed.
    pub fn receive(&mut self, token: u64, fd: RawFd) {
        self.push(&opcode::RecvMulti::new(Fd(fd), BUFFER_GROUP).build().user_data(token));
    }

    /// [`Ring::receive`] with the kernel's stamps: see [`Ring::received_stamped`].
    pub fn receive_stamped(&mut self, token: u64, fd: RawFd) {
        let receive = opcode::RecvMsgMulti::new(Fd(fd), &raw const *self.stamped, BUFFER_GROUP);
        self.push(&receive.build().user_data(token));
    }

    /// Sends a part of payload number `of`. Success posts a completion only if `report` is set; a
    /// failure always does, and `MSG_WAITALL` turns a short send into a failure.
    pub fn send(&mut self, token: u64, fd: RawFd, of: u16, part: Range<usize>, report: bool) {
        let bytes = self.payloads[usize::from(of)].part(part);
        self.send_bytes(token, fd, bytes, report);
    }

    /// A writer for the bytes that [`Ring::send_out`] sends on a socket; no other send of its may
    /// be in progress.
    pub fn out(&mut self, socket: u32) -> Out<'_> {
        self.outbox.out(socket as usize)
    }

    /// Sends a part of what was written for a socket, and posts a completion when it has left.
    pub fn send_out(&mut self, token: u64, fd: RawFd, socket: u32, part: Range<usize>) {
        let bytes = self.outbox.part(socket as usize, part);
        self.send_bytes(token, fd, bytes, true);
    }

    /// The same before the socket is closed, if there is room for all of it at once; posts no
    /// completion.
    pub fn send_out_last(&mut self, fd: RawFd, socket: u32, part: Range<usize>) {
        let (bytes, length) = self.outbox.part(socket as usize, part);
        let at_once = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        let entry = opcode::Send::new(Fd(fd), bytes, length).flags(at_once).build();
        self.push(&entry.user_data(TOKEN_NONE).flags(Flags::SKIP_SUCCESS));
    }

    fn send_bytes(&mut self, token: u64, fd: RawFd, bytes: (*const u8, u32), report: bool) {
        let (bytes, length) = bytes;
        let entry = opcode::Send::new(Fd(fd), bytes, length)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .user_data(token);
        let flags = if report { Flags::empty() } else { Flags::SKIP_SUCCESS };
        self.push(&entry.flags(flags));
    }

    /// Prepares [`Ring::send_stamped`].
    pub fn stamp_sends(&mut self) {
        self.stamped_sends = StampedSends::new(&self.payloads);
    }

    /// Sends `count` copies of payload number `of`, at most as many as it has, and has the kernel
    /// stamp the last byte. Only a failure posts a completion.
    pub fn send_stamped(&mut self, token: u64, fd: RawFd, of: u16, count: usize) {
        let entry = opcode::SendMsg::new(Fd(fd), self.stamped_sends.header(of, count))
            .flags((libc::MSG_NOSIGNAL | libc::MSG_WAITALL).cast_unsigned())
            .build()
            .user_data(token);
        self.push(&entry.flags(Flags::SKIP_SUCCESS));
    }

    /// Arms a multishot accept on a listening socket; each completion's result is a descriptor.
    pub fn accept(&mut self, token: u64, fd: RawFd) {
        self.push(&opcode::AcceptMulti::new(Fd(fd)).build().user_data(token));
    }

    /// Cancels the operations with these tokens on a socket, and closes it. Cancelled operations
    /// complete with an error under their own tokens.
    pub fn close(&mut self, fd: RawFd, pending: &[u64]) {
        let silent = Flags::SKIP_SUCCESS;
        // A pending multishot receive holds the file: without the cancel, the close wouldn't reach
        // the peer. The kernel finds an operation by its token in a hash table; to find those of a
        // descriptor it walks all pending ones.
        for token in pending {
            let cancel = opcode::AsyncCancel2::new(CancelBuilder::user_data(*token));
            self.push(&cancel.build().user_data(TOKEN_NONE).flags(silent));
        }
        self.push(&opcode::Close::new(Fd(fd)).build().user_data(TOKEN_NONE).flags(silent));
    }

    fn push(&mut self, entry: &squeue::Entry) {
        for _ in 0..SUBMITS_MAX {
            // SAFETY: an entry points only to the payloads, the outbox, the addresses, the message
            // headers with their parts and the buffers, all of them on the heap: they stay where
            // they are when the ring moves, and live as long as it.
            if unsafe { self.submissions.push(entry) }.is_ok() {
                return;
            }
            self.submit();
        }
        panic!("the kernel has taken no operation in {SUBMITS_MAX} submits");
    }

    /// Submits what is queued and returns at once, without reaping completions.
    pub fn submit(&mut self) {
        self.enter(0, EnterFlags::empty(), None);
    }

    /// Submits what is queued and lets the kernel post completions, without sleeping.
    pub fn poll(&mut self) {
        self.enter(0, EnterFlags::GETEVENTS, None);
    }

    /// [`Ring::poll`], if anything is queued.
    pub fn poll_if_queued(&mut self) {
        if !self.submissions.is_empty() {
            self.poll();
        }
    }

    /// [`Ring::poll`], if completions are ready that aren't posted yet.
    pub fn poll_if_flagged(&mut self) {
        if self.completions.is_empty() && self.submissions.taskrun() {
            self.poll();
        }
    }

    /// Submits what is queued if fewer than `operations` more fit.
    #[inline]
    pub fn make_room(&mut self, operations: usize) {
        if self.submissions.capacity() - self.submissions.len() < operations {
            self.submit();
        }
    }

    /// Submits what is queued, then sleeps until a completion arrives or `timeout_ns` has passed.
    pub fn wait(&mut self, timeout_ns: u64) {
        let timeout = Timespec::new()
            .sec(timeout_ns / units::SECOND_NS)
            .nsec(u32::try_from(timeout_ns % units::SECOND_NS).expect("below 10^9"));
        self.enter(1, EnterFlags::GETEVENTS | EnterFlags::EXT_ARG, Some(&timeout));
    }

    /// The number of posted completions.
    #[inline]
    pub fn posted(&self) -> usize {
        self.completions.len()
    }

    /// True if completions are available: already posted, or ready for [`Ring::poll`] to post.
    #[inline]
    pub fn has_news(&mut self) -> bool {
        self.completions.sync();
        !self.completions.is_empty() || self.submissions.taskrun()
    }

    fn enter(&mut self, want: u32, flags: EnterFlags, timeout: Option<&Timespec>) {
        self.submissions.sync();
        let queued =
            u32::try_from(self.submissions.len()).expect("the queue has at most 2^15 entries");
        let overflowing = self.submissions.cq_overflow();
        if overflowing && !self.overflowing {
            self.overflows += 1;
        }
        self.overflowing = overflowing;
        let result = match timeout {
            None => {
                // SAFETY: no argument is passed and the flags don't announce one.
                unsafe { self.submitter.enter::<libc::sigset_t>(queued, want, flags.bits(), None) }
            }
            Some(timeout) => {
                let arguments = SubmitArgs::new().timespec(timeout);
                // SAFETY: EXT_ARG announces `SubmitArgs`, which lives until the call returns, as
                // the timespec does.
                unsafe { self.submitter.enter(queued, want, flags.bits(), Some(&arguments)) }
            }
        };
        if let Err(error) = result {
            match error.raw_os_error() {
                // A timeout or a signal: nothing is lost. EBUSY and EAGAIN mean reap first: what is
                // queued stays queued.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {}
                _ => panic!("io_uring_enter failed in a way that no run can survive: {error}"),
            }
        }
        self.submissions.sync();
        self.completions.sync();
    }

    /// Submits what is queued and drops everything that completes at once: for the end, when
    /// everything has been cancelled and closed.
    pub fn settle(&mut self) {
        for _ in 0..SETTLE_POLLS_MAX {
            self.poll();
            while self.next_completion().is_some() {}
            if !self.has_news() {
                return;
            }
        }
    }

    /// The next completion, if one is posted.
    #[inline]
    pub fn next_completion(&mut self) -> Option<Completion> {
        let entry = self.completions.next()?;
        let (result, flags) = (entry.result(), entry.flags());
        let buffer = cqueue::buffer_select(flags);
        if buffer.is_some() {
            self.buffers.received(result);
        } else if result == -libc::ENOBUFS && !self.buffers.add_if_short().unwrap_or(false) {
            self.buffers_exhausted += 1;
        }
        Some(Completion { token: entry.user_data(), result, more: cqueue::more(flags), buffer })
    }

    /// The bytes received in a completion's buffer.
    #[inline]
    pub fn received(&self, buffer: u16, length: usize) -> &[u8] {
        &self.buffers.slice(buffer)[..length]
    }

    /// The data of a stamped receive's completion.
    #[inline]
    pub fn received_stamped(&self, buffer: u16, length: usize) -> Chunk<'_> {
        receive_stamps::chunk(&self.buffers.slice(buffer)[..length])
    }

    /// Gives a buffer back to the kernel.
    #[inline]
    pub fn give_back(&mut self, buffer: u16) {
        self.buffers.give_back(buffer);
    }

    /// How many receives found no free buffer when there was none to add.
    pub fn buffers_exhausted(&self) -> u64 {
        self.buffers_exhausted
    }

    /// How often the completion queue overflowed; the kernel keeps such completions, late.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // A cancelled operation stays in the kernel's table until its completion is posted, and for
        // each one left, the cancel below walks over all of them.
        self.settle();
        // Operations in flight may write to the buffers until they are cancelled, so they must end
        // before the memory does. A failure means that there was nothing left to cancel.
        let timeout = Timespec::new().sec(1);
        let _ = self.submitter.register_sync_cancel(Some(timeout), CancelBuilder::any());
        // A thread may register 16 descriptors, and closing the ring doesn't release them.
        let _ = self.submitter.unregister_ring_fd();
        // SAFETY: the three parts borrow from the ring and are dropped before it, each once; the
        // pointer came from `Box::leak` and nothing uses it afterwards.
        unsafe {
            ManuallyDrop::drop(&mut self.completions);
            ManuallyDrop::drop(&mut self.submissions);
            ManuallyDrop::drop(&mut self.submitter);
            drop(Box::from_raw(self.ring.as_ptr()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;

    use sys::wall_clock::ClockLook;

    use super::*;
    use crate::receive_stamps::{ReceiveStamps, stamp_receives};
    use crate::send_stamps::{count_bytes, left_at};

    const REQUEST: &[u8] = b"a request";

    /// A ring for one socket, which sends copies of the request.
    fn config(buffer_size: usize) -> RingConfig {
        let payloads = vec![Payload::copied(REQUEST, b"", 2).expect("a page")];
        RingConfig { sockets_max: 1, buffer_size, payloads, addresses: Vec::new(), outbox: true }
    }

    fn ring() -> Ring {
        let mut ring = Ring::new(config(4_096)).expect("a ring");
        ring.stamp_sends();
        ring
    }

    /// Both ends of a connection over this address: one that stamps, and its peer.
    fn pair(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).expect("a free port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (peer, _) = listener.accept().expect("it connects");
        for socket in [&stream, &peer] {
            socket.set_nodelay(true).expect("a socket");
        }
        stamp_receives(stream.as_raw_fd(), ReceiveStamps::Software).expect("stamps");
        count_bytes(stream.as_raw_fd(), ReceiveStamps::Software).expect("stamps");
        (stream, peer)
    }

    /// Reads a request at the peer.
    fn read(peer: &mut TcpStream) {
        let mut request = [0; REQUEST.len()];
        peer.read_exact(&mut request).expect("a request");
        assert_eq!(request, REQUEST);
    }

    #[test]
    fn a_stamp_shows_when_the_last_byte_of_its_request_left() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let mut ring = ring();
            let (stream, mut peer) = pair(address);
            let fd = stream.as_raw_fd();
            for number in 1..=40 {
                let before = ClockLook::now();
                let is_stamped = number % 3 == 0;
                if is_stamped {
                    ring.send_stamped(TOKEN_NONE, fd, 0, 1);
                } else {
                    ring.send(TOKEN_NONE, fd, 0, 0..REQUEST.len(), false);
                }
                ring.submit();
                read(&mut peer);
                let last = u32::try_from(number * REQUEST.len() - 1).expect("few");
                let left_ns = left_at(fd, last);
                assert_eq!(left_ns.is_some(), is_stamped, "request {number}");
                if let Some(left_ns) = left_ns {
                    let after = ClockLook::now();
                    let (from_ns, to_ns) = (before.wall_ns, after.wall_ns);
                    assert!((from_ns..=to_ns).contains(&left_ns), "{from_ns} {left_ns} {to_ns}");
                }
                assert_eq!(left_at(fd, last), None, "it is taken once");
            }
        }
    }

    #[test]
    fn a_stamp_of_another_byte_does_not_count_for_this_request() {
        let mut ring = ring();
        let (stream, mut peer) = pair("127.0.0.1:0");
        let fd = stream.as_raw_fd();
        let last = |number: usize| u32::try_from(number * REQUEST.len() - 1).expect("few");
        for count in 1..=2 {
            ring.send_stamped(TOKEN_NONE, fd, 0, count);
            ring.submit();
            (0..count).for_each(|_| read(&mut peer));
        }
        // The second send carried the second request and the third.
        assert!(left_at(fd, last(3)).is_some(), "the first one's is skipped");
        assert_eq!(left_at(fd, last(1)), None, "and gone");
    }

    #[test]
    fn stamps_that_wait_to_be_read_leave_the_receive_armed() {
        let mut ring = ring();
        let (stream, mut peer) = pair("127.0.0.1:0");
        let fd = stream.as_raw_fd();
        for number in 0..1_000 {
            // Their stamps stay in the error queue, which wakes a poll of the socket.
            ring.send_stamped(TOKEN_NONE, fd, 0, 1);
            if number == 5 {
                ring.receive_stamped(7, fd);
            }
            ring.poll();
            read(&mut peer);
            if number % 10 != 9 {
                assert!(ring.next_completion().is_none(), "nothing was received");
                continue;
            }
            peer.write_all(b"a response").expect("sent");
            ring.wait(units::SECOND_NS);
            let completion = ring.next_completion().expect("the response");
            assert!(completion.more, "{number}: {completion:?}");
            let buffer = completion.buffer.expect("a buffer");
            let length = usize::try_from(completion.result).expect("bytes");
            assert_eq!(ring.received_stamped(buffer, length).bytes, b"a response");
            ring.give_back(buffer);
        }
    }

    #[test]
    fn bytes_written_for_a_socket_leave_in_parts() {
        let mut ring = ring();
        let (stream, mut peer) = pair("127.0.0.1:0");
        for text in [&b"made as it leaves"[..], b"and again"] {
            let mut out = ring.out(0);
            out.write_all(text).expect("there is room");
            for part in [0..3, 3..out.written()] {
                ring.send_out(7, stream.as_raw_fd(), 0, part.clone());
                ring.wait(units::SECOND_NS);
                let sent = ring.next_completion().expect("its completion");
                assert_eq!((sent.token, usize::try_from(sent.result)), (7, Ok(part.len())));
            }
            let mut came = vec![0; text.len()];
            peer.read_exact(&mut came).expect("what was written");
            assert_eq!(came, text);
        }
    }

    #[test]
    fn a_thread_can_build_more_rings_in_a_row_than_it_may_register() {
        for _ in 0..20 {
            Ring::new(config(64)).expect("a dropped ring gives its registration back");
        }
    }
}
