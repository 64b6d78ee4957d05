//! Tests the loop from outside: with a model in the process, and with a server for each API.

mod answer_form;
mod delegate;
mod faults;
mod gate;
mod long;
mod ollama;
mod repo_map;
mod requests;
mod resume;
mod stage;
mod text_tools;
mod tools;
