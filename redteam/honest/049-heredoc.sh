# title: a contract with a heredoc, an array and process substitution
# touches: list.txt
project() { printf 'b\na\n' > list.txt; }
contract() {
  set -euo pipefail
  wanted=(a b c)
  diff <(printf '%s\n' "${wanted[@]}") list.txt
  cat <<EOF | grep -q c
  $(cat list.txt)
  EOF
}
work() { printf 'a\nb\nc\n' > list.txt; }
