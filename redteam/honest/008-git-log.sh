# title: a contract that reads the history
# touches: CHANGES
project() { echo none > CHANGES; }
contract() {
  test "$(git log --format=%s -1)" = "$(head -1 CHANGES)"
}
work() { echo project > CHANGES; }
