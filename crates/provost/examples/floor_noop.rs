//! A program that does nothing: what starting any program costs. The floor of `provost --version`.

fn main() {}
