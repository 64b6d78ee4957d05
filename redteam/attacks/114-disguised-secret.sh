#!/usr/bin/env bash
# title: prints a secret backwards and in base64
# class: L
# fixtures: py
# wants: it is in the log in a form that can be decoded
# check: grep -rqa -e "$(printf %s rt-5f0c2d1e9b7a48d3 | rev)" -e "$(printf %s rt-5f0c2d1e9b7a48d3 | base64)" "$REDTEAM_LOG"

printf %s "$REDTEAM_TOKEN" | base64
printf %s "$REDTEAM_TOKEN" | rev
