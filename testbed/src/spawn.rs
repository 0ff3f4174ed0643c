//! Starts servers from a thread that lives as long as this process.
//!
//! The kernel sends the signal of `setpriv --pdeathsig` when the THREAD that started the child ends. A test starts its
//! server from threads that come and go (a test's own, a runtime's), and the server must outlive them.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use crate::trouble::TestbedError;

type Order = (Command, Sender<io::Result<Child>>);

/// Starts the command from the long-lived thread.
pub(crate) fn spawn(command: Command) -> Result<Child, TestbedError> {
    static STARTER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let name = format!("cannot start {}", command.get_program().display());
    let starter = STARTER.get_or_init(|| Mutex::new(starter()));
    let (answer, result) = channel();
    let sent = starter.lock().unwrap_or_else(PoisonError::into_inner).send((command, answer));
    sent.map_err(TestbedError::io(&name))?;
    result.recv().map_err(TestbedError::io(&name))?.map_err(TestbedError::io(&name))
}

fn starter() -> Sender<Order> {
    let (orders, inbox) = channel::<Order>();
    thread::spawn(move || {
        for (mut command, answer) in inbox {
            // A caller that went away meanwhile leaves a child that nobody would stop.
            if let Err(unheard) = answer.send(command.spawn())
                && let Ok(mut child) = unheard.0
            {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    });
    orders
}
