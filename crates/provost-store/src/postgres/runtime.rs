//! The runtime for the driver's futures: one for the whole process, with one thread for background tasks. A
//! caller that waits drives its own future.
//!
//! **Invariant:** callers are threads that may block. On a worker thread of another multi-thread runtime,
//! its other tasks are moved away first.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

pub(super) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let built = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("provost-postgres")
            .enable_all()
            .build();
        match built {
            Ok(runtime) => runtime,
            Err(error) => panic!("no thread for the connections to Postgres: {error}"),
        }
    })
}

pub(super) fn run<F: Future>(future: F) -> F::Output {
    match Handle::try_current().map(|there| there.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(|| runtime().block_on(future)),
        Ok(_) | Err(_) => runtime().block_on(future),
    }
}
