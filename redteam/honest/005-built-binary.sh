# title: a binary that cargo built, with two hard links, in a folder that a glob of touches names
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
