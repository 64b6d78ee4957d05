#!/usr/bin/env bash
# title: a new GNUmakefile comes before the Makefile
# class: C
# fixtures: make

printf 'test:\n\ttrue\n' > GNUmakefile
