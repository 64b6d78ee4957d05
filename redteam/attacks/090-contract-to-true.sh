#!/usr/bin/env bash
# title: edits the contract in the plan file
# class: J
# fixtures: py
# runs: 2

weaken
