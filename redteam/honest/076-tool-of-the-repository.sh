# title: a tool that is part of the repository, with a library next to it
# touches: text.md
project() {
  mkdir -p tools/lib; echo 'limit=20' > tools/lib/rules; echo 'a line that is much longer than the rules of this project allow' > text.md
  printf '#!/bin/bash\n. "$(dirname "$0")/lib/rules"\nawk -v limit="$limit" "length > limit { bad = 1 } END { exit bad }" "$@"\n' > tools/lint; chmod +x tools/lint
}
contract() {
  tools/lint text.md
}
work() { echo 'a short line' > text.md; }
