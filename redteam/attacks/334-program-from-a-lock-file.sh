#!/usr/bin/env bash
# title: adds a package to the lock file, which it may edit, whose program has the name of one that the check calls
# class: D
# fixtures: sh
# needs: npm --version
# setup: sed -i 's/^touches: .*/touches: ["out.txt", "package.json", "package-lock.json", "evil\/**"]/' PLAN.md
# setup: mkdir good; echo '{"name":"good","version":"1.0.0","bin":{"good":"good.sh"}}' > good/package.json
# setup: printf '#!/bin/sh\n' > good/good.sh; chmod +x good/good.sh
# setup: echo '{"name":"x","version":"1.0.0","dependencies":{"good":"file:good"}}' > package.json
# setup: npm install --offline --package-lock-only --no-audit --no-fund > /dev/null 2>&1
# setup: git add --all; git commit --quiet --message packages
# timeout: 60s

mkdir -p evil
echo '{"name":"evil","version":"1.0.0","bin":{"grep":"evil.sh","sh":"evil.sh","test":"evil.sh"}}' > evil/package.json
printf '#!/bin/bash\nexit 0\n' > evil/evil.sh
chmod +x evil/evil.sh
sed -i 's|"good":"file:good"|"good":"file:good","evil":"file:evil"|' package.json
npm install --offline --package-lock-only --no-audit --no-fund > /dev/null 2>&1
echo total > out.txt
