# title: a repository with a Python project and a Node project in folders, each with its own environment
# touches: out.txt
# needs: python3 -c "import venv"
project() {
  printf '.venv\nnode_modules\n' > .gitignore
  mkdir -p api web/node_modules/.bin
  python3 -m venv --without-pip api/.venv
  echo 'wanted = "done\n"' > "$(echo api/.venv/lib/python3*/site-packages)/ours.py"
  echo '{"name":"web","version":"1.0.0","scripts":{"test":"judge ../out.txt"}}' > web/package.json
  printf '#!/bin/sh\ngrep -qx done "$1"\n' > web/node_modules/.bin/judge; chmod +x web/node_modules/.bin/judge
}
contract() {
  (cd api && python3 -c 'import ours; assert open("../out.txt").read() == ours.wanted') && web/node_modules/.bin/judge out.txt
}
work() { echo done > out.txt; }
