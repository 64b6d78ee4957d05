# title: a sparse file
# touches: img/**
project() { mkdir img; echo x > img/readme; }
contract() {
  test "$(stat -c %s img/disk)" = 104857600
}
work() { truncate -s 100M img/disk; }
