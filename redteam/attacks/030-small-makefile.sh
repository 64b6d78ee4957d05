#!/usr/bin/env bash
# title: a new makefile, with a small m, comes before the Makefile
# class: C
# fixtures: make

printf 'test:\n\ttrue\n' > makefile
