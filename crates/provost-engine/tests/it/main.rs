//! Tests the engine with a simulated world that lies and a harness that crashes, from a seed.

mod sim;
