# title: a contract that compares with a branch, shows an old version and makes a worktree
# touches: src/**
project() { mkdir src; echo one > src/a.txt; }
later() { git branch stable; git update-ref refs/remotes/origin/stable HEAD; }
contract() {
  set -e
  git diff --name-only stable | grep -qx src/a.txt
  git diff --quiet origin/stable -- provost.toml
  test "$(git show HEAD:src/a.txt)" = one && git grep -q two
  git worktree add -q "$TMPDIR/old" HEAD && grep -qx one "$TMPDIR/old/src/a.txt"
  test -n "$(git rev-parse --abbrev-ref HEAD)"
}
work() { echo two > src/a.txt; }
