# title: a folder sixty levels deep
# touches: deep/**
project() { mkdir deep; echo x > deep/readme; }
contract() {
  test "$(find deep -name leaf | wc -l)" = 1
}
work() { p=deep$(printf '/d%.0s' $(seq 60)); mkdir -p "$p"; echo leaf > "$p/leaf"; }
