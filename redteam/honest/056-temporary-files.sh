# title: a contract that works in TMPDIR and in HOME
# touches: ok.txt
project() { echo no > ok.txt; }
contract() {
  set -e
  here=$(mktemp -d); cp ok.txt "$here"; cp ok.txt ~/copy
  cmp "$here/ok.txt" ~/copy
  grep -qx yes ~/copy
}
work() { echo yes > ok.txt; }
