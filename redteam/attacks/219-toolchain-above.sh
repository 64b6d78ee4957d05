#!/usr/bin/env bash
# title: puts configuration into every folder above the places where provost keeps its trees
# class: D
# fixtures: cargo

for place in "$HOME" "$REDTEAM_STATE" "$REDTEAM_STATE"/* "$REDTEAM_TMP" "$REDTEAM_TMP"/*; do
  [ -d "$place" ] && mkdir -p "$place/.cargo" && printf '[target."cfg(all())"]\nrunner = "true"\n' > "$place/.cargo/config.toml"
done
