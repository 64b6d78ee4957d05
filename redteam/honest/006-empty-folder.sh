# title: an empty folder
# touches: var/**
project() { mkdir var; echo x > var/keep; }
contract() {
  test -d var/spool
}
work() { mkdir var/spool; }
