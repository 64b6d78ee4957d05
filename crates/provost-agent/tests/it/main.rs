//! The loop from outside: with a model in the process, and with one behind each kind of API.

mod faults;
mod gate;
mod long;
mod ollama;
mod stage;
