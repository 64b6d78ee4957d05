# title: a test that uses a fixed name in /tmp and a named pipe
# touches: greet.sh
project() { echo 'echo no' > greet.sh; }
contract() {
  mkdir -p /tmp/greeting/a
  mkfifo /tmp/greeting/pipe
  sh greet.sh > /tmp/greeting/pipe &
  grep -qx hello < /tmp/greeting/pipe
}
work() { echo 'echo hello' > greet.sh; }
