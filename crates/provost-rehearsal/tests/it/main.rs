//! Tests the mock model as a client sees it: bytes over a connection, in each API.

mod client;

mod dialects;
mod faults;
mod program;
mod scripts;
mod sdk;
