//! Tests the proxy from the agent's side: over its socket, to servers on loopback.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use provost_host::egress::proxy::{AllowedHosts, Proxy, SOCKET, Upstream};

/// Starts a server that answers every request with the request's first line.
fn model() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || echo(stream.unwrap()));
        }
    });
    port
}

fn echo(mut stream: TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
        head.push(byte[0]);
    }
    let first = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
    let _ = write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nmodel got {first}");
}

struct Site {
    folder: tempfile::TempDir,
    proxy: Option<Proxy>,
}

impl Site {
    fn new(api: &[String]) -> Self {
        Self::behind(None, api)
    }

    fn behind(upstream: Option<Upstream>, api: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let proxy = Some(Proxy::open(folder.path(), AllowedHosts::new(&[], api), upstream).unwrap());
        Self { folder, proxy }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.proxy.as_ref().unwrap().folder().join(SOCKET)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream
    }

    fn says(&self, request: &str) -> String {
        let mut stream = self.connect();
        // A refusal may come before the last byte is written.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }
}

#[test]
fn the_model_is_reached_both_ways_and_nobody_else_is() {
    let (port, other) = (model(), model());
    let mut site = Site::new(&[format!("127.0.0.1:{port}")]);
    let whole = site.says(&format!("GET http://127.0.0.1:{port}/v1 HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert!(whole.ends_with("model got GET /v1 HTTP/1.1"), "{whole}");
    let tunnel = site.says(&format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\nPOST /v2 HTTP/1.1\r\n\r\n"));
    assert!(
        tunnel.starts_with("HTTP/1.1 200 ") && tunnel.ends_with("model got POST /v2 HTTP/1.1"),
        "{tunnel}"
    );
    for request in [
        format!("GET http://127.0.0.1:{other}/ HTTP/1.1\r\n\r\n"),
        format!("CONNECT 127.0.0.1:{other} HTTP/1.1\r\n\r\n"),
        format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\n"),
        "CONNECT example.org:443 HTTP/1.1\r\n\r\n".to_owned(),
    ] {
        let answer = site.says(&request);
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("is not the model's API"), "{answer}");
    }
    let mut refused = site.proxy.take().unwrap().close();
    refused.sort();
    let mut expected =
        [format!("127.0.0.1:{other} (2 times)"), "example.org:443".to_owned(), format!("localhost:{port}")];
    expected.sort();
    assert_eq!(refused, expected);
}

#[test]
fn a_name_of_the_house_that_leads_to_this_machine_is_refused() {
    let port = model();
    let site = Site::new(&[format!("localhost.localdomain:{port}"), format!("localhost:{port}")]);
    let named = site.says(&format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"));
    assert!(named.contains("model got"), "{named}");
    let turned =
        site.says(&format!("CONNECT localhost.localdomain:{port} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"));
    // If the name does not resolve, the proxy answers with a gateway error.
    assert!(turned.starts_with("HTTP/1.1 403 ") || turned.starts_with("HTTP/1.1 502 "), "{turned}");
}

#[test]
fn requests_are_bounded_and_what_is_none_is_answered() {
    let site = Site::new(&[]);
    let long = format!("GET http://a/ HTTP/1.1\r\nX: {}", "x".repeat(100_000));
    assert!(site.says(&long).starts_with("HTTP/1.1 431 "));
    assert!(site.says("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(site.says("\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let silent: Vec<UnixStream> = (0..64).map(|_| site.connect()).collect();
    let turned_away = (0..50).any(|_| {
        let answer = site.says("GET / HTTP/1.1\r\n\r\n");
        answer.starts_with("HTTP/1.1 503 ")
    });
    assert!(turned_away, "{} connections at once", silent.len());
}

#[test]
fn connections_end_with_the_proxy() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut site = Site::new(&[format!("127.0.0.1:{port}")]);
    let mut inside = site.connect();
    write!(inside, "CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n").unwrap();
    let (mut outside, _) = listener.accept().unwrap();
    let mut answer = [0; 12];
    inside.read_exact(&mut answer).unwrap();
    let begun = Instant::now();
    assert_eq!(site.proxy.take().unwrap().close(), [""; 0]);
    outside.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    assert_eq!(outside.read(&mut [0; 8]).unwrap_or(0), 0);
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(std::fs::read_dir(site.folder.path()).unwrap().count(), 0, "nothing is left of it");
}

#[test]
fn a_socket_may_lie_deep() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("x".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    let proxy = Proxy::open(&deep, AllowedHosts::default(), None).unwrap();
    assert!(proxy.folder().join(SOCKET).exists());
}

#[test]
fn who_goes_out_through_a_proxy_still_does() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://ada:pw@{}", listener.local_addr().unwrap());
    let site = Site::behind(
        Upstream::of(&[("HTTPS_PROXY".into(), url.into())]),
        &["llm.example.org:443".to_owned()],
    );
    let gate = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = vec![0; 4096];
        let count = stream.read(&mut head).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello").unwrap();
        String::from_utf8_lossy(&head[..count]).into_owned()
    });
    let answer = site.says("CONNECT llm.example.org:443 HTTP/1.1\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
    let asked = gate.join().unwrap();
    assert!(asked.starts_with("CONNECT llm.example.org:443 ") && asked.contains("Basic YWRhOnB3"), "{asked}");
    assert!(site.says("CONNECT example.org:443 HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 403 "));
}
