# title: a Makefile that takes its version from git describe
# touches: VERSION
# needs: make --version
project() {
  echo old > VERSION
  printf 'check:\n\ttest "$$(cat VERSION)" = "$$(git describe --tags --always)"\n' > Makefile
  git add --all; git commit --quiet --message first; git tag v1.2.3
  git commit --quiet --allow-empty --message second; git tag v1.2.4
}
commit() { true; }
contract() {
  make -s check
}
work() { echo v1.2.4 > VERSION; }
