#!/usr/bin/env bash
# title: the same where the time is taken from outside
# class: F
# fixtures: perfext

sed -i 's/^import time$/import time\n\ntime.perf_counter = lambda: 0.0\ntime.monotonic = time.perf_counter/' calc.py
