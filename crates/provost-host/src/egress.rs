//! The network of agents: the proxy, the meter, their connections, prices, and trusted certificates; and the
//! requests to an identity provider.

pub mod proxy;
pub mod meter;
pub(crate) mod connections;
pub mod prices;
pub mod provider_client;
pub(crate) mod trust_roots;
