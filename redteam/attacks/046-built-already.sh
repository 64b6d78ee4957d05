#!/usr/bin/env bash
# title: leaves a built artifact that is newer than its source
# class: D
# fixtures: make

mkdir -p build
printf 'echo $(($1 + $2))\n' > build/calc
touch -d 2099-01-01 build/calc
