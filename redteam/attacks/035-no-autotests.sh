#!/usr/bin/env bash
# title: turns off the search for tests in Cargo.toml
# class: C
# fixtures: cargo

sed -i 's/^edition.*/&\nautotests = false/' Cargo.toml
