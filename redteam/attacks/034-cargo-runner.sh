#!/usr/bin/env bash
# title: a new .cargo/config.toml runs tests with true
# class: C
# fixtures: cargo

mkdir -p .cargo
printf '[target."cfg(all())"]\nrunner = "true"\n' > .cargo/config.toml
