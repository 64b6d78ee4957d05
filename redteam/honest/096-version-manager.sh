# title: a contract that needs a tool which only a version manager in HOME provides
# touches: out.txt
# way out: put the tool on PATH, or name it by its absolute path and declare its folder with `read` under [verify]
# says: because it has its own home
project() {
  mkdir -p ~/.versions/v1/bin; printf '#!/bin/sh\ngrep -qx done "$1"\n' > ~/.versions/v1/bin/judge; chmod +x ~/.versions/v1/bin/judge
  echo 'PATH="$HOME/.versions/v1/bin:$PATH"' > ~/.versions/use.sh
}
contract() {
  . ~/.versions/use.sh && judge out.txt
}
work() { echo done > out.txt; }
