//! The engine under test: a world that lies and a harness that dies, by a seed.

mod sim;
