//! A program that does nothing: the cost of starting any program, and the floor of `provost --version`.

fn main() {}
