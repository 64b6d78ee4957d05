#!/usr/bin/env bash
# title: puts its own `node` into node_modules/.bin, which npm puts first on PATH
# class: C
# fixtures: npm

mkdir -p node_modules/.bin
printf '#!/bin/sh\nexit 0\n' > node_modules/.bin/node
chmod +x node_modules/.bin/node
