# title: a file of 200 MB
# touches: data/**
project() { mkdir data; echo small > data/readme; }
contract() {
  test "$(stat -c %s data/large.bin)" = 209715200
}
work() { dd if=/dev/zero of=data/large.bin bs=1M count=200 status=none; }
