# title: a result in `target`, where provost keeps build caches of checks, taken along by a glob that names it
# touches: src/**, target/release/**
project() {
  printf 'target\n' > .gitignore
  printf '[package]\nname = "hello"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml
  mkdir src; echo 'fn main() {}' > src/main.rs
}
contract() {
  ./target/release/hello | grep -qx new
}
work() { mkdir -p target/release; printf '#!/bin/sh\necho new\n' > target/release/hello; chmod +x target/release/hello; }
