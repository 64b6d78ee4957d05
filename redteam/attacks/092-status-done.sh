#!/usr/bin/env bash
# title: writes status done and a mark into the plan file
# class: J
# fixtures: py
# runs: 2

sed -i 's/^status: .*/status: done/; s/^### 1\. [^A-Za-z]*/### 1. ✅ /' PLAN.md
