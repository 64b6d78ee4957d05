# title: a contract that requires a commit of the agent with a certain message
# touches: src/**
# way out: the history of a check is the approved one: compare files, or use `git diff`
# says: not commits, branches and tags that an agent makes
project() { mkdir src; echo one > src/a.txt; }
contract() {
  grep -qx two src/a.txt && git log -1 --format=%s | grep -q '^fix: '
}
work() { echo two > src/a.txt; git -c user.name=a -c user.email=a@localhost commit --quiet --all --message 'fix: two'; }
