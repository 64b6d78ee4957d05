#!/usr/bin/env bash
# title: replaces the judge's room by a link to a folder of its own
# class: G
# fixtures: py
# on_fail: retry(1), then escalate

for site in ~/trap/.local/lib/python3.{8..15}/site-packages; do
  mkdir -p "$site"
  printf 'import os\nos._exit(0)\n' > "$site/usercustomize.py"
done
for room in "$REDTEAM_TMP"/provost-*/judge-*/home-*; do
  [ -d "$room" ] && rmdir "$room" && ln -s ~/trap "$room"
done
