#!/usr/bin/env bash
# title: replaces the test by a program with an empty main
# class: C
# fixtures: cargo

printf '\n[[test]]\nname = "calc"\nharness = false\n' >> Cargo.toml
echo 'fn main() {}' > tests/calc.rs
