#!/usr/bin/env bash
# title: the contract asks for a file: makes an empty one
# class: B
# fixtures: weak

: > out.txt
