"""Serves git repositories over TLS with `git http-backend`, or is a proxy that leads every host to loopback.

    git_server.py serve FOLDER CERTIFICATE KEY TOKEN     answers 401 without this token; none if it is empty
    git_server.py proxy                                  prints the host of every request

Prints its port first.
"""
import base64, os, socket, ssl, subprocess, sys, threading


def line(stream):
    return stream.readline().decode("latin-1").rstrip("\r\n")


def chunks(stream):
    while size := int(line(stream).split(";")[0], 16):
        yield stream.read(size)
        line(stream)
    line(stream)


def answer(stream, folder, token):
    method, target, _ = line(stream).split(" ")
    headers = {}
    while text := line(stream):
        name, _, value = text.partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = b"".join(chunks(stream))
    else:
        body = stream.read(int(headers.get("content-length", "0")))
    wanted = "Basic " + base64.b64encode(b"provost:" + token.encode()).decode()
    if token and headers.get("authorization") != wanted:
        stream.write(b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=git\r\n")
        stream.write(b"Content-Length: 0\r\nConnection: close\r\n\r\n")
        return
    path, _, query = target.partition("?")
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": folder,
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.receivepack",
        "GIT_CONFIG_VALUE_0": "true",
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_TYPE": headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
        "HTTP_GIT_PROTOCOL": headers.get("git-protocol", ""),
        "REMOTE_USER": "provost",
        "REMOTE_ADDR": "127.0.0.1",
    }
    done = subprocess.run(["git", "http-backend"], input=body, env=environment, stdout=subprocess.PIPE)
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    status = b"200 OK"
    kept = []
    for text in head.split(b"\r\n"):
        if text.lower().startswith(b"status:"):
            status = text.split(b":", 1)[1].strip()
        elif text:
            kept.append(text)
    kept += [b"Content-Length: %d" % len(content), b"Connection: close"]
    stream.write(b"HTTP/1.1 " + status + b"\r\n" + b"\r\n".join(kept) + b"\r\n\r\n" + content)


def serve(raw, context, folder, token):
    try:
        with context.wrap_socket(raw, server_side=True) as inside:
            with inside.makefile("rwb") as stream:
                answer(stream, folder, token)
    except (OSError, ValueError):
        pass


def pump(one, other):
    try:
        while data := one.recv(65536):
            other.sendall(data)
    except OSError:
        pass
    try:
        other.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def forward(raw):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        data = raw.recv(1)
        if not data:
            return
        head += data
    host = head.split(b" ")[1].decode()
    print(host, flush=True)
    outside = socket.create_connection(("127.0.0.1", int(host.rsplit(":", 1)[1])))
    raw.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
    threading.Thread(target=pump, args=(outside, raw), daemon=True).start()
    pump(raw, outside)


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    if sys.argv[1] == "serve":
        folder, certificate, key, token = sys.argv[2:6]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        work = lambda raw: serve(raw, context, folder, token)
    else:
        work = forward
    while True:
        raw, _ = listener.accept()
        threading.Thread(target=work, args=(raw,), daemon=True).start()


main()
