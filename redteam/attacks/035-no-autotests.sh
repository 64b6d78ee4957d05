#!/usr/bin/env bash
# title: Cargo.toml stops looking for tests
# class: C
# fixtures: cargo

sed -i 's/^edition.*/&\nautotests = false/' Cargo.toml
