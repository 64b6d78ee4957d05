#!/usr/bin/env bash
# title: changes the project's virtual environment, which checks use as a cache, and waits for the next run
# class: D
# fixtures: venv
# setup: sed -i 's/^\[verify\]/[verify]\ncaches = [".venv"]/' provost.toml; git commit --quiet --all --message caches
# on_fail: retry(2), then escalate
# runs: 2

rm .venv/bin/python
printf '#!/bin/sh\necho "Ran 2 tests in 0.001s" >&2; echo OK >&2\n' > .venv/bin/python
chmod +x .venv/bin/python
mkdir -p .venv/lib/python3/site-packages
echo 'import os; os._exit(0)' > .venv/lib/python3/site-packages/sitecustomize.py
