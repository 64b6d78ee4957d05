# title: cargo test with doctests
# touches: src/**
# needs: cargo --version
# slow: yes
project() {
  printf 'target\n' > .gitignore
  printf '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml
  printf 'version = 4\n\n[[package]]\nname = "calc"\nversion = "0.1.0"\n' > Cargo.lock
  mkdir src; printf '/// Adds.\n///\n/// ```\n/// assert_eq!(calc::add(1, 2), 3);\n/// ```\npub fn add(a: i32, b: i32) -> i32 {\n    a - b\n}\n' > src/lib.rs
}
contract() {
  cargo test --offline --quiet
}
work() { sed -i 's/a - b/a + b/' src/lib.rs; }
