# title: 5,000 files
# touches: gen/**
project() { mkdir gen; echo x > gen/readme; }
contract() {
  test "$(find gen -name '*.txt' | wc -l)" = 5000
}
work() { for i in $(seq 50); do mkdir "gen/$i"; (cd "gen/$i"; for j in $(seq 100); do echo "$i $j" > "$j.txt"; done); done; }
