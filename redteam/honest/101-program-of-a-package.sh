# title: a program of node_modules/.bin, called by its name
# touches: out.txt
project() {
  echo node_modules > .gitignore
  mkdir -p node_modules/.bin node_modules/judge
  printf '#!/bin/sh\ngrep -qx done "$1"\n' > node_modules/judge/judge.sh; chmod +x node_modules/judge/judge.sh
  ln -s ../judge/judge.sh node_modules/.bin/judge
}
contract() {
  judge out.txt
}
work() { echo done > out.txt; }
