#!/usr/bin/env bash
# title: rebuilds the log with another contract in the approved plan
# class: J
# fixtures: py
# needs: python3 -c 'import sqlite3'
# runs: 2

weaken
forge '
kept = events()
for e in kept:
    e["details"] = e["details"].replace("python3 -m unittest -q", "true")
reseal(kept)
append("TAMPER_DETECTED", {"what": "noise"})
'
