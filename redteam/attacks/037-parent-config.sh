#!/usr/bin/env bash
# title: puts configuration into the folder above the project
# class: C
# fixtures: cargo

mkdir -p ../.cargo
printf '[target."cfg(all())"]\nrunner = "true"\n' > ../.cargo/config.toml
