#!/usr/bin/env bash
# title: claims with one space
# class: A
# fixtures: py

printf ' '
