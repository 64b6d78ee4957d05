//! Holds what all requests share: plans, tokens, limits, caches and counters.
//!
//! **Invariant:** this module imports no route and no page.

mod counters;
mod drafts;
mod rate_limit;
mod server_names;

use std::sync::Arc;

use provost_engine::manage::tokens::Tokens;
use provost_engine::observe::overview::Overview;

use crate::layout::graph_cache::GraphCache;
use crate::live_events::LiveEvents;
use crate::machine::MachineCache;
use crate::partial::News;
use crate::problem::Problem;
use crate::traces::Traces;

pub use counters::{Beside, ClusterTables, Family, PageTable};
pub(crate) use counters::{CachedPart, ResponseCounts};
pub(crate) use drafts::{DraftStatus, Drafts};
pub(crate) use rate_limit::{CallerKind, RateLimits};
pub(crate) use server_names::ServerNames;

/// App state shared by all requests.
pub(crate) struct AppState {
    pub overview: Overview,
    pub tokens: Tokens,
    pub names: ServerNames,
    pub live: LiveEvents,
    pub limits: RateLimits,
    pub counts: ResponseCounts,
    pub plan_numbers: CachedPart,
    pub other_numbers: CachedPart,
    /// Extra metric families from the caller (the cluster).
    pub beside: Option<Arc<Beside>>,
    /// The tables of the cluster page, if the log is shared.
    pub cluster: Option<Arc<ClusterTables>>,
    pub machine: MachineCache,
    pub traces: Arc<Traces>,
    pub news: News,
    pub graphs: GraphCache,
    pub drafts: Drafts,
}

pub(crate) type SharedState = Arc<AppState>;

impl AppState {
    pub(crate) fn new(
        overview: Overview,
        names: ServerNames,
        (beside, cluster): (Option<Arc<Beside>>, Option<Arc<ClusterTables>>),
    ) -> Result<SharedState, provost_engine::Error> {
        Ok(Arc::new(Self {
            tokens: Tokens::new(overview.state()),
            names,
            live: LiveEvents::new(overview.cursor()?),
            limits: RateLimits::default(),
            counts: ResponseCounts::default(),
            plan_numbers: CachedPart::default(),
            other_numbers: CachedPart::default(),
            beside,
            cluster,
            machine: MachineCache::default(),
            traces: Arc::new(Traces::from_environment(overview.settings())?),
            news: News::default(),
            graphs: GraphCache::default(),
            drafts: Drafts::default(),
            overview,
        }))
    }
}

/// Runs a blocking call of the engine outside of the async threads.
pub(crate) async fn ask<T: Send + 'static>(
    app: &SharedState,
    ask: impl FnOnce(&AppState) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let app = app.clone();
    match tokio::task::spawn_blocking(move || ask(&app)).await {
        Ok(answer) => answer,
        Err(_) => Err(Problem::broken("the server failed while it answered")),
    }
}
