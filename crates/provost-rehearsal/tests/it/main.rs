//! The scripted model as clients meet it: bytes over a connection, in each dialect.

mod client;

mod dialects;
mod faults;
mod program;
mod scripts;
mod sdk;
