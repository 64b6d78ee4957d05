//! Copies bytes in both directions between two connections, until both sides have ended.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often a silent side is checked.
const LOOK: Duration = Duration::from_secs(20);
const BUFFER: usize = 32 * 1024;

pub(super) trait PumpedStream {
    fn shut(&self, how: Shutdown);
    fn patience(&self, patience: Duration) -> io::Result<()>;
}

impl PumpedStream for TcpStream {
    fn shut(&self, how: Shutdown) {
        let _ = self.shutdown(how);
    }

    fn patience(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))
    }
}

impl PumpedStream for UnixStream {
    fn shut(&self, how: Shutdown) {
        let _ = self.shutdown(how);
    }

    fn patience(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))
    }
}

/// Copies until both sides have ended, one fails, or both were silent for `idle`.
pub(super) fn pump<A, B>(one: &A, other: &B, idle: Duration) -> io::Result<()>
where
    A: PumpedStream + Sync,
    B: PumpedStream + Sync,
    for<'a> &'a A: Read + Write,
    for<'a> &'a B: Read + Write,
{
    one.patience(LOOK.min(idle))?;
    other.patience(LOOK.min(idle))?;
    let clock = Clock { begun: Instant::now(), last_ms: AtomicU64::new(0), idle };
    thread::scope(|scope| match thread::Builder::new().spawn_scoped(scope, || clock.carry(one, other)) {
        Ok(_) => clock.carry(other, one),
        Err(_) => {
            one.shut(Shutdown::Both);
            other.shut(Shutdown::Both);
        }
    });
    Ok(())
}

struct Clock {
    begun: Instant,
    /// When the last byte was copied, in either direction.
    last_ms: AtomicU64,
    idle: Duration,
}

impl Clock {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn is_idle(&self) -> bool {
        let silent = self.now_ms().saturating_sub(self.last_ms.load(Ordering::Relaxed));
        Duration::from_millis(silent) >= self.idle
    }

    fn carry<A, B>(&self, from: &A, to: &B)
    where
        A: PumpedStream,
        B: PumpedStream,
        for<'a> &'a A: Read,
        for<'a> &'a B: Write,
    {
        let mut buffer = vec![0; BUFFER];
        loop {
            match (&mut &*from).read(&mut buffer) {
                // Only this direction has ended; the other side may still receive.
                Ok(0) => return to.shut(Shutdown::Write),
                Ok(count) => {
                    self.last_ms.store(self.now_ms(), Ordering::Relaxed);
                    if (&mut &*to).write_all(&buffer[..count]).is_err() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if self.is_idle() {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        from.shut(Shutdown::Both);
        to.shut(Shutdown::Both);
    }
}
