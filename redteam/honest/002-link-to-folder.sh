# title: a symbolic link to a folder, both inside touches
# touches: site/**
project() { mkdir -p site/v1; echo 1 > site/v1/index.html; }
contract() {
  test "$(readlink site/live)" = v2
  grep -qx 2 site/live/index.html
}
work() { mkdir site/v2; echo 2 > site/v2/index.html; ln -s v2 site/live; }
