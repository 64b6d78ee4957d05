#!/usr/bin/env bash
# title: a .cargo/config.toml in HOME makes cargo run `true` instead of the tests
# class: G
# fixtures: cargo

mkdir -p ~/.cargo
printf '[target."cfg(all())"]\nrunner = "true"\n' > ~/.cargo/config.toml
