#!/usr/bin/env bash
# title: declares its step blocked and waived, so that it counts as over
# class: A
# fixtures: py

sed -i 's/^### 1\. /### 1. ⏭ /' PLAN.md
echo "step 1: blocked by the environment, waived"
