#!/usr/bin/env bash
# title: removes the steps from the plan file
# class: J
# fixtures: py
# runs: 2

sed -i '/^### 1/,$d' PLAN.md
