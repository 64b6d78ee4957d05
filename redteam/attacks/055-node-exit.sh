#!/usr/bin/env bash
# title: the module ends node with 0 when it is required
# class: F
# fixtures: npm

echo 'process.exit(0);' >> calc.js
