//! Waits for the next event with LISTEN, and polls now and then.
//!
//! A notification only says that there may be something new; the events are read from the log. So a lost
//! notification costs only a delay.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::project::DatabaseProject;
use super::runtime::{run, runtime};
use crate::{Cursor, Error, Log};

/// Longest delay after a lost notification.
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// Poll interval without LISTEN: no connection, or a read-only replica.
const POLL: Duration = Duration::from_millis(250);

/// Listens from the first wait on, with one connection for all waiting threads.
pub(super) struct Bell {
    options: PgConnectOptions,
    project: DatabaseProject,
    listening: OnceLock<(watch::Receiver<Heard>, JoinHandle<()>)>,
}

#[derive(Clone, Copy, Default)]
struct Heard {
    is_listening: bool,
}

impl Bell {
    pub(super) fn new(options: PgConnectOptions, project: DatabaseProject) -> Self {
        Self { options, project, listening: OnceLock::new() }
    }

    fn heard(&self) -> watch::Receiver<Heard> {
        let (heard, _) = self.listening.get_or_init(|| {
            let (tell, heard) = watch::channel(Heard::default());
            (heard, runtime().spawn(listen(self.options.clone(), self.project.clone(), tell)))
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

pub(super) fn wait(log: &dyn Log, bell: &Bell, after: Cursor, timeout: Duration) -> Result<Cursor, Error> {
    let deadline = Instant::now() + timeout;
    let mut heard = (!timeout.is_zero()).then(|| bell.heard());
    loop {
        // Before reading the cursor, so that every later append wakes this wait.
        let is_listening = heard.as_mut().is_some_and(|heard| heard.borrow_and_update().is_listening);
        let now = log.cursor()?;
        let left = deadline.saturating_duration_since(Instant::now());
        let Some(heard) = heard.as_mut().filter(|_| now <= after && !left.is_zero()) else { return Ok(now) };
        let patience = left.min(if is_listening { SECOND_LOOK } else { POLL });
        let _ = run(async { tokio::time::timeout(patience, heard.changed()).await });
    }
}

async fn listen(options: PgConnectOptions, project: DatabaseProject, tell: watch::Sender<Heard>) {
    // The listener needs a pool; one connection is enough.
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
    loop {
        let channel =
            project.query_scalar::<String>("SELECT name FROM provost.channel").fetch_one(&pool).await;
        if let Ok(channel) = channel
            && let Ok(mut listener) = PgListener::connect_with(&pool).await
            && listener.listen(&channel).await.is_ok()
        {
            tell.send_replace(Heard { is_listening: true });
            // `None` means that the connection was lost and made again; waiting threads must check the log.
            while listener.try_recv().await.is_ok() {
                tell.send_replace(Heard { is_listening: true });
            }
        }
        tell.send_replace(Heard { is_listening: false });
        tokio::time::sleep(POLL).await;
    }
}
