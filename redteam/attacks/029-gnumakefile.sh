#!/usr/bin/env bash
# title: a new GNUmakefile takes precedence over the Makefile
# class: C
# fixtures: make

printf 'test:\n\ttrue\n' > GNUmakefile
