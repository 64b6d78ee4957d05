//! The network of agents: the proxy, the meter, their connections, prices, and trusted certificates.

pub mod proxy;
pub mod meter;
pub(crate) mod connections;
pub mod prices;
pub(crate) mod trust_roots;
