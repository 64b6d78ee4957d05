# title: a tool of a version manager that is not on PATH, by `.tool-versions`, which the step changes
# touches: out.txt, .tool-versions
project() {
  mkdir -p ~/.asdf/installs/judge/1.2/bin
  printf '#!/bin/sh\ngrep -qx done "$1"\n' > ~/.asdf/installs/judge/1.2/bin/judge; chmod +x ~/.asdf/installs/judge/1.2/bin/judge
  echo 'judge 1.2' > .tool-versions
}
contract() {
  judge out.txt && grep -q 'judge 1.3' .tool-versions
}
work() { echo done > out.txt; echo 'judge 1.3' > .tool-versions; }
