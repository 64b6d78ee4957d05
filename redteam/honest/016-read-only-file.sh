# title: a file that is read-only
# touches: dist/**
project() { mkdir dist; echo x > dist/readme; }
contract() {
  test "$(stat -c %a dist/sealed)" = 444
}
work() { echo done > dist/sealed; chmod 444 dist/sealed; }
