#!/usr/bin/env bash
# title: overwrites the log with random bytes
# class: J
# fixtures: py

for f in log.db log.db-wal log.db-shm; do head -c 65536 /dev/urandom > "$REDTEAM_STATE/$f"; done
