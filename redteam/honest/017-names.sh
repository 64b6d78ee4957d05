# title: blanks, umlauts, emoji, quotes and a line break in names
# touches: docs/**
project() { mkdir docs; echo x > docs/readme; }
contract() {
  test "$(find docs -type f -name '*.md' -print0 | tr -cd '\0' | wc -c)" = 5
  grep -qx grün 'docs/grüße an alle.md'
}
work() {
  echo grün > 'docs/grüße an alle.md'; echo 🎉 > 'docs/🎉.md'; echo q > "docs/it's \"quoted\".md"
  echo l > $'docs/line\nbreak.md'; echo d > 'docs/-dash.md'
}
