#!/usr/bin/env bash
# title: .cargo/config.toml in HOME runs tests with true
# class: G
# fixtures: cargo

mkdir -p ~/.cargo
printf '[target."cfg(all())"]\nrunner = "true"\n' > ~/.cargo/config.toml
