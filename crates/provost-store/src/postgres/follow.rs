//! Waits for the next event by LISTEN, with a look of its own now and then.
//!
//! A notification says only that there is something to look for; what is there is read from the log. So one
//! that is lost costs a second look, and nothing else.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::runtime::{run, runtime};
use crate::{Cursor, Error, Log};

/// A notification that was lost is made up for after this.
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// While there is nobody who listens: no connection, or a server that is a copy.
const POLL: Duration = Duration::from_millis(250);

/// Listens from the first wait on, with one connection for all who wait.
pub struct Bell {
    options: PgConnectOptions,
    listening: OnceLock<(watch::Receiver<Heard>, JoinHandle<()>)>,
}

#[derive(Clone, Copy, Default)]
struct Heard {
    is_listening: bool,
}

impl Bell {
    pub fn new(options: PgConnectOptions) -> Self {
        Self { options, listening: OnceLock::new() }
    }

    fn heard(&self) -> watch::Receiver<Heard> {
        let (heard, _) = self.listening.get_or_init(|| {
            let (tell, heard) = watch::channel(Heard::default());
            (heard, runtime().spawn(listen(self.options.clone(), tell)))
        });
        heard.clone()
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if let Some((_, listening)) = self.listening.get() {
            listening.abort();
        }
    }
}

pub fn wait(log: &dyn Log, bell: &Bell, after: Cursor, timeout: Duration) -> Result<Cursor, Error> {
    let deadline = Instant::now() + timeout;
    let mut heard = (!timeout.is_zero()).then(|| bell.heard());
    loop {
        // Before the look: what is appended after it rings.
        let is_listening = heard.as_mut().is_some_and(|heard| heard.borrow_and_update().is_listening);
        let now = log.cursor()?;
        let left = deadline.saturating_duration_since(Instant::now());
        let Some(heard) = heard.as_mut().filter(|_| now <= after && !left.is_zero()) else { return Ok(now) };
        let patience = left.min(if is_listening { SECOND_LOOK } else { POLL });
        let _ = run(async { tokio::time::timeout(patience, heard.changed()).await });
    }
}

async fn listen(options: PgConnectOptions, tell: watch::Sender<Heard>) {
    // A pool of one is what the listener takes.
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
    loop {
        if let Ok(mut listener) = PgListener::connect_with(&pool).await
            && listener.listen("provost").await.is_ok()
        {
            tell.send_replace(Heard { is_listening: true });
            // Nothing is a connection that was lost and made again: who waits must look.
            while listener.try_recv().await.is_ok() {
                tell.send_replace(Heard { is_listening: true });
            }
        }
        tell.send_replace(Heard { is_listening: false });
        tokio::time::sleep(POLL).await;
    }
}
