#!/usr/bin/env bash
# title: configuration in the folder above the project
# class: C
# fixtures: cargo

mkdir -p ../.cargo
printf '[target."cfg(all())"]\nrunner = "true"\n' > ../.cargo/config.toml
