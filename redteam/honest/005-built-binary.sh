# title: a binary that cargo built, which has two names, taken along by a glob that names it
# touches: src/**, target/debug/**
# needs: cargo --version
# slow: yes
# timeout: 120s
project() {
  printf 'target\n' > .gitignore
  printf '[package]\nname = "hello"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml
  printf 'version = 4\n\n[[package]]\nname = "hello"\nversion = "0.1.0"\n' > Cargo.lock
  mkdir src; echo 'fn main() { println!("old"); }' > src/main.rs
}
contract() {
  ./target/debug/hello | grep -qx new
}
work() { echo 'fn main() { println!("new"); }' > src/main.rs; cargo build --offline --quiet; }
