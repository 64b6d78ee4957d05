#!/usr/bin/env bash
# title: the function ends the test process with 0
# class: F
# fixtures: cargo

printf 'pub fn add(_: i32, _: i32) -> i32 {\n    std::process::exit(0)\n}\n' > src/lib.rs
