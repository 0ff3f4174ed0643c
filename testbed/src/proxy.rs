//! A TCP proxy that fails on command, between a client and one of our servers.
//!
//! Owns the listener and the orders of the test; the moving of bytes is in `link`. Must not know the protocol: what a
//! trap waits for is a run of bytes.

mod link;
mod sequence;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use crate::daemon::START_LIMIT;
use crate::port::{self, Port};
use crate::signals::wait_until;
use crate::trouble::TestbedError;
use link::ProxyLink;
use sequence::ByteSequence;

/// A proxy on a loopback port of its own; all its connections end when this value goes away.
#[derive(Debug)]
pub struct Proxy {
    control: Arc<Control>,
    port: Port,
    acceptor: Option<JoinHandle<()>>,
}

/// What the threads of one proxy share.
#[derive(Debug, Default)]
struct Control {
    orders: Mutex<Orders>,
    changed: Condvar,
    connections: AtomicUsize,
    bytes: AtomicU64,
    cuts: AtomicUsize,
    held: AtomicUsize,
}

/// What the test wants at this moment.
#[derive(Debug, Default)]
struct Orders {
    target: Option<SocketAddr>,
    refuse: bool,
    stall: bool,
    stop: bool,
    /// Whether the listener is open; set by the acceptor.
    listening: bool,
    traps: Vec<Trap>,
    hold: Option<Hold>,
    links: Vec<Weak<ProxyLink>>,
}

/// A run of bytes from the client that ends its connection.
#[derive(Debug)]
struct Trap {
    pattern: Vec<u8>,
    times: usize,
    /// Whether the bytes still reach the server.
    forward: bool,
}

/// Runs of bytes from one client at which its connection stands still.
#[derive(Debug, Clone)]
struct Hold {
    sequence: ByteSequence,
    /// Which side is no longer heard.
    side: HeldSide,
}

/// Which side of a held connection is no longer heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeldSide {
    /// The client: the last run and what follows it do not reach the server.
    Client,
    /// The server: everything reaches it, and none of its answers come back.
    Server,
}

impl Proxy {
    /// Listens on a free loopback port and connects every client to the target.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn start(target: SocketAddr) -> Result<Self, TestbedError> {
        let port = port::reserve()?;
        let control = Arc::new(Control::default());
        control.orders().target = Some(target);
        let (inside, number) = (Arc::clone(&control), port.number);
        let acceptor = thread::spawn(move || inside.accept(number));
        let proxy = Self { control, port, acceptor: Some(acceptor) };
        proxy.control.wait_for_listener(true)?;
        Ok(proxy)
    }

    /// The loopback port.
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// The given address of the target with the proxy's port in place of the target's.
    pub fn url(&self, of_target: &str) -> String {
        let target = self.control.orders().target.map_or(0, |target| target.port());
        of_target.replacen(&format!(":{target}"), &format!(":{}", self.port()), 1)
    }

    /// Connects clients to another target from now on; connections that are open stay where they are.
    pub fn point_to(&self, target: SocketAddr) {
        self.control.change(|orders| orders.target = Some(target));
    }

    /// Closes all connections on both sides.
    pub fn cut(&self) {
        let links: Vec<Arc<ProxyLink>> =
            self.control.orders().links.iter().filter_map(Weak::upgrade).collect();
        links.iter().for_each(|link| link.close());
        self.control.changed.notify_all();
    }

    /// While true, new clients find the port closed; connections that are open stay. Returns when it is in force.
    ///
    /// # Errors
    /// When the port cannot be opened again.
    pub fn refuse(&self, refuse: bool) -> Result<(), TestbedError> {
        self.control.change(|orders| orders.refuse = refuse);
        self.wake();
        self.control.wait_for_listener(!refuse)
    }

    /// While true, connections stay open and no byte moves: the other side looks alive and says nothing. What was
    /// sent meanwhile arrives afterwards.
    pub fn stall(&self, stall: bool) {
        self.control.change(|orders| orders.stall = stall);
    }

    /// The next `times` times that a client sends `pattern`, it still reaches the server, the server's answer is
    /// thrown away, and the client's connection is reset: the client cannot know what became of its request.
    pub fn cut_after(&self, pattern: &[u8], times: usize) {
        self.set_trap(pattern, times, true);
    }

    /// The next time that a client sends `pattern`, it does not reach the server, and the client's connection is reset.
    pub fn cut_before(&self, pattern: &[u8]) {
        self.set_trap(pattern, 1, false);
    }

    /// The next connection on which a client sends `patterns`, one after the other, stands still before the last of
    /// them: what came before has reached the server, and nothing else will. Only connections that are made after this
    /// call are looked at, and only one of them is held.
    pub fn hold_before(&self, patterns: &[&[u8]]) {
        self.set_hold(patterns, HeldSide::Client);
    }

    /// The same, but everything reaches the server, and no answer to it comes back.
    pub fn hold_answers(&self, patterns: &[&[u8]]) {
        self.set_hold(patterns, HeldSide::Server);
    }

    /// Holds no connection any more, unless one is held already.
    pub fn hold_none(&self) {
        self.control.change(|orders| orders.hold = None);
    }

    /// How many connections were held.
    pub fn held(&self) -> usize {
        self.control.held.load(Ordering::SeqCst)
    }

    /// How many connections a pattern has ended.
    pub fn cuts(&self) -> usize {
        self.control.cuts.load(Ordering::SeqCst)
    }

    /// How many clients were connected to the target since the start.
    pub fn connections(&self) -> usize {
        self.control.connections.load(Ordering::SeqCst)
    }

    /// How many bytes went through in both directions.
    pub fn bytes(&self) -> u64 {
        self.control.bytes.load(Ordering::SeqCst)
    }

    fn set_trap(&self, pattern: &[u8], times: usize, forward: bool) {
        assert!(!pattern.is_empty(), "an empty pattern is part of everything");
        self.control.change(|orders| orders.traps.push(Trap { pattern: pattern.to_vec(), times, forward }));
    }

    fn set_hold(&self, patterns: &[&[u8]], side: HeldSide) {
        let sequence = ByteSequence::new(patterns);
        self.control.change(|orders| orders.hold = Some(Hold { sequence, side }));
    }

    /// The acceptor looks at its orders when a client comes; this is one.
    fn wake(&self) {
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port.number));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.control.change(|orders| orders.stop = true);
        self.wake();
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        self.cut();
    }
}

impl Control {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.orders());
        self.changed.notify_all();
    }

    /// Blocks while the condition holds.
    fn wait_while(&self, condition: impl FnMut(&mut Orders) -> bool) {
        let _held = self.changed.wait_while(self.orders(), condition).unwrap_or_else(PoisonError::into_inner);
    }

    fn wait_for_listener(&self, open: bool) -> Result<(), TestbedError> {
        let mut orders = self.orders();
        let wrong = |orders: &mut Orders| orders.listening != open;
        let waited = self.changed.wait_timeout_while(orders, START_LIMIT, wrong);
        orders = waited.unwrap_or_else(PoisonError::into_inner).0;
        if orders.listening == open {
            return Ok(());
        }
        Err(TestbedError::new("the proxy cannot open its port again; another process has taken it"))
    }

    /// The acceptor's thread: listens while it may, and closes the listener while it may not.
    fn accept(self: &Arc<Self>, port: u16) {
        loop {
            self.wait_while(|orders| orders.refuse && !orders.stop);
            let mut listener = None;
            wait_until(START_LIMIT, || {
                listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
                listener.is_some() || self.orders().stop
            });
            let Some(listener) = listener else { return };
            self.change(|orders| orders.listening = true);
            for client in listener.incoming().flatten() {
                let orders = self.orders();
                let (closing, target) = (orders.refuse || orders.stop, orders.target);
                drop(orders);
                if closing {
                    break;
                }
                if let Some(server) = target.and_then(|target| TcpStream::connect(target).ok()) {
                    self.connect(client, server);
                }
            }
            drop(listener);
            self.change(|orders| orders.listening = false);
            if self.orders().stop {
                return;
            }
        }
    }

    fn connect(self: &Arc<Self>, client: TcpStream, server: TcpStream) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        let link = Arc::new(ProxyLink::new(client, server));
        let mut orders = self.orders();
        let hold = orders.hold.clone();
        orders.links.retain(|link| link.strong_count() > 0);
        orders.links.push(Arc::downgrade(&link));
        drop(orders);
        let (control, other) = (Arc::clone(self), Arc::clone(&link));
        thread::spawn(move || other.carry_answers(&control));
        let control = Arc::clone(self);
        thread::spawn(move || link.carry_requests(&control, hold));
    }

    /// Takes one shot of the first trap whose pattern is in the bytes; tells whether it forwards.
    fn spring(&self, bytes: &[u8]) -> Option<bool> {
        let mut orders = self.orders();
        let hit = |trap: &Trap| bytes.windows(trap.pattern.len()).any(|window| window == trap.pattern);
        let place = orders.traps.iter().position(hit)?;
        let trap = &mut orders.traps[place];
        let forward = trap.forward;
        trap.times = trap.times.saturating_sub(1);
        if trap.times == 0 {
            orders.traps.remove(place);
        }
        Some(forward)
    }

    /// Takes the order to hold a connection; false when another one was held already.
    fn take_hold(&self) -> bool {
        self.orders().hold.take().is_some()
    }

    /// How many bytes of the past a trap needs to recognize a pattern that arrives in pieces.
    fn memory(&self) -> usize {
        self.orders().traps.iter().map(|trap| trap.pattern.len() - 1).max().unwrap_or(0)
    }
}
