//! The MCP service over standard input and output, as clients start it.
//!
//! **Invariant:** only the end of its input, and nothing a client writes, ends the service.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use provost_engine::plan::sessions::ClientSession;
use provost_engine::session::agent_session::AgentSessions;
use provost_engine::session::attempt_tools::ItemFiles;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest};
use rmcp::service::{RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage, serve_server};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleServer, ServerHandler, transport};

use crate::mcp::{AttemptService, Mcp};

/// Maximum length of a message; longer ones are dropped.
const LINE_MAX: usize = 16 << 20;

/// Interval at which signals are checked.
const LOOK: Duration = Duration::from_millis(100);
const WINDING_DOWN: Duration = Duration::from_secs(5);

/// Serves until the input ends or a signal arrives. Tools answer within `patience`, finished or not.
pub fn serve(
    sessions: Arc<AgentSessions>,
    session: ClientSession,
    patience: Duration,
) -> std::io::Result<End> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let service = Mcp::new(sessions.clone(), session, patience);
    let end = runtime.block_on(async {
        tokio::select! {
            () = until_the_end(&service) => End::Input,
            () = stopped(&sessions) => End::Signal,
        }
    });
    // A running check is killed with its processes, and is due again next time.
    sessions.stop();
    service.wind_down(WINDING_DOWN);
    // A pending read of standard input must not block the exit.
    runtime.shutdown_background();
    Ok(end)
}

/// Reason why a service ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client closed its input.
    Input,
    /// A signal arrived.
    Signal,
}

/// Serves the work item of one attempt until the input ends.
pub fn serve_item(served: ItemFiles) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(until_the_end(&AttemptService::new(served)));
    runtime.shutdown_background();
    Ok(())
}

/// Waits for a signal.
async fn stopped(sessions: &AgentSessions) {
    while !sessions.is_stopped() {
        tokio::time::sleep(LOOK).await;
    }
}

async fn until_the_end<S: ServerHandler + Clone>(service: &S) {
    loop {
        let (input, output) = transport::stdio();
        let lines = AsyncRwTransport::<RoleServer, _, _>::new(input, output).with_max_line_length(LINE_MAX);
        match serve_server(service.clone(), Patient { lines, begun: false }).await {
            Ok(running) => {
                let _ = running.waiting().await;
                return;
            }
            Err(
                ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::TransportError { .. },
            ) => {
                return;
            }
            // The client asked for something unsupported, and may ask again.
            Err(_) => {}
        }
    }
}

/// Passes on messages that can start a conversation, and drops others until one has started.
struct Patient<T> {
    lines: T,
    begun: bool,
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Patient<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.lines.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = self.lines.receive().await?;
            match &message {
                ClientJsonRpcMessage::Request(request) => {
                    self.begun |= matches!(request.request, ClientRequest::InitializeRequest(_));
                }
                _ if !self.begun => continue,
                _ => {}
            }
            return Some(message);
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.lines.close()
    }
}
