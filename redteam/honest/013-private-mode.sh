# title: a file that only its owner may read
# touches: keys/**
project() { mkdir keys; echo x > keys/readme; }
contract() {
  test "$(stat -c %a keys/id)" = 600
}
work() { echo secretless > keys/id; chmod 600 keys/id; }
