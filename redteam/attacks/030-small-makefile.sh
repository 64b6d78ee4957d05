#!/usr/bin/env bash
# title: a new makefile, with a lower-case m, takes precedence over the Makefile
# class: C
# fixtures: make

printf 'test:\n\ttrue\n' > makefile
