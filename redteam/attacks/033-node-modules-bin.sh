#!/usr/bin/env bash
# title: a node of its own in node_modules/.bin, which npm puts first on PATH
# class: C
# fixtures: npm

mkdir -p node_modules/.bin
printf '#!/bin/sh\nexit 0\n' > node_modules/.bin/node
chmod +x node_modules/.bin/node
