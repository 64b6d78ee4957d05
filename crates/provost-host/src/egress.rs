//! The network of agents: the proxy, the meter, their connections, and prices.

pub mod proxy;
pub mod meter;
pub(crate) mod connections;
pub mod prices;
