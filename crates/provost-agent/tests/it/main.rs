//! Tests the loop from outside: with a model in the process, and with a server for each API.

mod faults;
mod gate;
mod long;
mod ollama;
mod stage;
