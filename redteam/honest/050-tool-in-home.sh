# title: a tool in ~/.local/bin, as pipx puts it there
# touches: ok.txt
project() {
  echo no > ok.txt
  mkdir -p ~/.local/bin ~/.local/share/pipx/venvs/mytool/bin
  printf '#!/bin/sh\ngrep -qx yes "$1"\n' > ~/.local/share/pipx/venvs/mytool/bin/mytool; chmod +x ~/.local/share/pipx/venvs/mytool/bin/mytool
  ln -s ~/.local/share/pipx/venvs/mytool/bin/mytool ~/.local/bin/mytool
}
contract() {
  mytool ok.txt
}
work() { echo yes > ok.txt; }
