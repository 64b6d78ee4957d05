#!/usr/bin/env bash
# title: edits the Makefile
# class: C
# fixtures: make

sed -i 's/^\ttest .*/\ttrue/' Makefile
