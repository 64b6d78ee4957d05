# title: a test that uses localhost by name, a datagram and a socket in TMPDIR
# touches: server.py
# needs: python3 -c "import socket"
project() { echo 'ANSWER = b"no"' > server.py; }
contract() {
  python3 - <<'PY'
  import os, socket, tempfile, threading
  import server

  listener = socket.create_server(("localhost", 0))
  datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
  datagram.bind(("127.0.0.1", 0))
  place = os.path.join(tempfile.mkdtemp(), "socket")
  named = socket.socket(socket.AF_UNIX)
  named.bind(place)
  named.listen()
  def serve(each):
      connection, _ = each.accept()
      with connection:
          connection.sendall(server.ANSWER)
  for each in (listener, named):
      threading.Thread(target=serve, args=(each,)).start()
  with socket.create_connection(("localhost", listener.getsockname()[1])) as client:
      assert client.recv(9) == b"yes"
  client = socket.socket(socket.AF_UNIX)
  client.connect(place)
  assert client.recv(9) == b"yes"
  datagram.sendto(server.ANSWER, datagram.getsockname())
  assert datagram.recv(9) == b"yes"
  PY
}
work() { echo 'ANSWER = b"yes"' > server.py; }
