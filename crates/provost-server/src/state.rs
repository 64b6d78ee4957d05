//! Holds what all requests share: plans, tokens, limits, caches and counters.
//!
//! **Invariant:** this module imports no route and no page.
//! **Invariant:** [`ask`] gives a request only the plans that its sender may see.

mod counters;
mod drafts;
mod rate_limit;
mod server_names;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use provost_engine::manage::tokens::Tokens;
use provost_engine::observe::overview::Overview;

use crate::layout::graph_cache::GraphCache;
use crate::live_events::LiveEvents;
use crate::machine::MachineCache;
use crate::oidc::Oidc;
use crate::partial::News;
use crate::problem::Problem;
use crate::traces::Traces;

pub use counters::{Beside, ClusterTables, Family, PageTable};
pub(crate) use counters::{CachedPart, ResponseCounts};
pub(crate) use drafts::{DraftStatus, Drafts};
pub(crate) use rate_limit::{CallerKind, RateLimits};
pub(crate) use server_names::ServerNames;

tokio::task_local! {
    /// The repositories that the sender of the current request may see. `router/guard.rs` opens it for each
    /// request, and `principal.rs` sets it.
    pub(crate) static REPOSITORIES: RefCell<Vec<PathBuf>>;
}

/// App state shared by all requests.
#[derive(Clone)]
pub(crate) struct AppState {
    pub overview: Overview,
    pub tokens: Tokens,
    pub names: ServerNames,
    pub live: Arc<LiveEvents>,
    pub limits: Arc<RateLimits>,
    pub counts: Arc<ResponseCounts>,
    pub plan_numbers: Arc<CachedPart>,
    pub other_numbers: Arc<CachedPart>,
    /// Whether the log could be read a moment ago.
    pub readiness: Arc<CachedPart>,
    /// Extra metric families from the caller (the cluster).
    pub beside: Option<Arc<Beside>>,
    /// The tables of the cluster page, if the log is shared.
    pub cluster: Option<Arc<ClusterTables>>,
    pub machine: Arc<MachineCache>,
    pub traces: Arc<Traces>,
    pub news: Arc<News>,
    pub graphs: Arc<GraphCache>,
    pub drafts: Arc<Drafts>,
    /// The identity provider at which people sign in.
    pub oidc: Option<Arc<Oidc>>,
}

pub(crate) type SharedState = Arc<AppState>;

impl AppState {
    pub(crate) fn new(
        overview: Overview,
        names: ServerNames,
        (beside, cluster): (Option<Arc<Beside>>, Option<Arc<ClusterTables>>),
        oidc: Option<Arc<Oidc>>,
    ) -> Result<SharedState, provost_engine::Error> {
        Ok(Arc::new(Self {
            tokens: Tokens::new(overview.state()),
            names,
            live: Arc::new(LiveEvents::new(overview.cursor()?)),
            limits: Arc::default(),
            counts: Arc::default(),
            plan_numbers: Arc::default(),
            other_numbers: Arc::default(),
            readiness: Arc::default(),
            beside,
            cluster,
            machine: Arc::default(),
            traces: Arc::new(Traces::from_environment(overview.settings())?),
            news: Arc::default(),
            graphs: Arc::default(),
            drafts: Arc::default(),
            oidc,
            overview,
        }))
    }
}

/// Returns the app state as the sender of the current request may see it: without the plans of other
/// repositories, if the sender is limited to some.
pub(crate) fn for_sender(app: &SharedState) -> SharedState {
    let only = REPOSITORIES.try_with(|only| only.borrow().clone()).unwrap_or_default();
    match only.is_empty() {
        true => app.clone(),
        false => Arc::new(AppState { overview: app.overview.only(&only), ..(**app).clone() }),
    }
}

/// Runs a blocking call of the engine outside of the async threads.
pub(crate) async fn ask<T: Send + 'static>(
    app: &SharedState,
    ask: impl FnOnce(&AppState) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let app = for_sender(app);
    match tokio::task::spawn_blocking(move || ask(&app)).await {
        Ok(answer) => answer,
        Err(_) => Err(Problem::broken("the server failed while it answered")),
    }
}
