#!/usr/bin/env bash
# title: claims its step with a blank as evidence
# class: A
# fixtures: py

printf ' '
