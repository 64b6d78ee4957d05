#!/usr/bin/env bash
# title: a new .cargo/config.toml makes cargo run `true` instead of the tests
# class: C
# fixtures: cargo

mkdir -p .cargo
printf '[target."cfg(all())"]\nrunner = "true"\n' > .cargo/config.toml
