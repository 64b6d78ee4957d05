# title: a contract that checks whether a tool exists and continues without it
# touches: out.txt
project() { echo a > a.txt; }
contract() {
  if command -v a-tool-nobody-has > /dev/null; then a-tool-nobody-has out.txt; else echo "no a-tool-nobody-has: skipped"; fi
  ! command -v another-tool-nobody-has || exit 1
  type -P a-third-tool > /dev/null || true
  grep -qx done out.txt
}
work() { echo done > out.txt; }
