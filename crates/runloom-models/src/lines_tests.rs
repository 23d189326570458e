//! Connections are kept when they can be, replaced when they cannot, and closed when nobody reads.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Uri};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::{IDLE, LineBody, LineError, Lines};

const HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
const END: &str = "0\r\n\r\n";

async fn listener() -> (TcpListener, Uri) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/path?q=1", listener.local_addr().unwrap());
    (listener, Lines::target(&url).unwrap())
}

fn lines() -> Arc<Lines> {
    Lines::new(Duration::from_secs(10))
}

async fn post(lines: &Arc<Lines>, target: &Uri) -> Result<LineBody, LineError> {
    let answer = lines.post(target.clone(), HeaderMap::new(), "asked".into());
    answer.await.map(http::Response::into_body)
}

/// One request, as it came.
async fn asked(socket: &mut TcpStream) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"asked") {
        assert_ne!(socket.read_buf(&mut request).await.unwrap(), 0, "hung up");
    }
    String::from_utf8(request).unwrap()
}

/// The next client, after it was told the beginning of an answer.
async fn answered(listener: &TcpListener, beginning: &str) -> TcpStream {
    let (mut socket, _) = listener.accept().await.unwrap();
    asked(&mut socket).await;
    say(&mut socket, &format!("{HEAD}{beginning}")).await;
    socket
}

async fn say(socket: &mut TcpStream, text: &str) {
    socket.write_all(text.as_bytes()).await.unwrap();
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// The rest of an answer.
async fn rest(body: &mut LineBody) -> hyper::Result<String> {
    let mut text = String::new();
    while let Some(bytes) = std::future::poll_fn(|cx| body.poll_chunk(cx)).await {
        text.push_str(std::str::from_utf8(&bytes?).unwrap());
    }
    Ok(text)
}

/// Whether the connection that is kept can be used, as far as this process has heard.
fn is_free(lines: &Lines, target: &Uri) -> bool {
    let mut unused = lines.unused();
    let kept = unused.lines.get_mut(target.authority().unwrap()).unwrap();
    assert_eq!(kept.len(), 1);
    kept[0].line.is_free()
}

#[tokio::test]
async fn a_request_names_its_host_and_the_next_one_takes_the_same_connection() {
    let (listener, target) = listener().await;
    let lines = lines();
    let serve = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        for _ in 0..2 {
            let request = asked(&mut socket).await;
            assert!(
                request.starts_with("POST /path?q=1 HTTP/1.1\r\n"),
                "{request}"
            );
            let host = format!("host: {}\r\n", target.authority().unwrap());
            assert!(request.contains(&host), "{request}");
            assert!(request.contains("content-length: 5\r\n"), "{request}");
            assert!(request.contains("user-agent: runloom/"), "{request}");
            say(&mut socket, &format!("{HEAD}{}{END}", chunk("hello"))).await;
        }
    };
    let call = async {
        for _ in 0..2 {
            let mut body = post(&lines, &target).await.unwrap();
            assert_eq!(rest(&mut body).await.unwrap(), "hello");
        }
    };
    tokio::join!(serve, call);
}

#[tokio::test]
async fn a_connection_that_was_closed_while_it_was_unused_is_replaced() {
    let (listener, target) = listener().await;
    let lines = lines();
    let (kept, close) = oneshot::channel::<()>();
    let serve = async {
        let socket = answered(&listener, END).await;
        close.await.unwrap();
        drop(socket);
        answered(&listener, &format!("{}{END}", chunk("second"))).await;
    };
    let call = async {
        let mut body = post(&lines, &target).await.unwrap();
        assert_eq!(rest(&mut body).await.unwrap(), "");
        assert!(is_free(&lines, &target));
        kept.send(()).unwrap();
        // Until this process has heard of it.
        while is_free(&lines, &target) {
            tokio::task::yield_now().await;
        }
        let mut body = post(&lines, &target).await.unwrap();
        assert_eq!(rest(&mut body).await.unwrap(), "second");
    };
    tokio::join!(serve, call);
}

#[tokio::test]
async fn a_request_comes_back_from_a_connection_that_is_found_closed() {
    let (listener, target) = listener().await;
    let lines = lines();
    let (kept, close) = oneshot::channel::<()>();
    let (closed, gone) = oneshot::channel::<()>();
    let serve = async {
        let socket = answered(&listener, END).await;
        close.await.unwrap();
        drop(socket);
        closed.send(()).unwrap();
    };
    let call = async {
        rest(&mut post(&lines, &target).await.unwrap())
            .await
            .unwrap();
        let mut line = lines.take(target.authority().unwrap()).unwrap();
        kept.send(()).unwrap();
        gone.await.unwrap();
        // This process has heard of the end, the connection not: nobody has polled it since.
        tokio::task::yield_now().await;
        let place = target.authority().unwrap();
        let request = super::request(&target, place, HeaderMap::new(), "asked".into());
        let mut refused = line.send(request).await.unwrap_err();
        assert!(refused.take_message().is_some(), "{refused:?}");
    };
    tokio::join!(serve, call);
}

#[tokio::test]
async fn an_end_that_comes_late_leaves_the_connection_usable() {
    let (listener, target) = listener().await;
    let lines = lines();
    let (released, end) = oneshot::channel::<()>();
    let serve = async {
        let mut socket = answered(&listener, &chunk("last words")).await;
        end.await.unwrap();
        say(&mut socket, END).await;
        asked(&mut socket).await;
        say(&mut socket, &format!("{HEAD}{}{END}", chunk("again"))).await;
    };
    let call = async {
        let mut body = post(&lines, &target).await.unwrap();
        let first = std::future::poll_fn(|cx| body.poll_chunk(cx)).await;
        assert_eq!(&first.unwrap().unwrap()[..], b"last words");
        body.release();
        released.send(()).unwrap();
        while lines.unused().lines.is_empty() {
            tokio::task::yield_now().await;
        }
        let mut body = post(&lines, &target).await.unwrap();
        assert_eq!(rest(&mut body).await.unwrap(), "again");
    };
    tokio::join!(serve, call);
}

#[tokio::test]
async fn an_answer_that_nobody_reads_to_its_end_closes_its_connection() {
    let (listener, target) = listener().await;
    let lines = lines();
    let serve = async {
        let mut socket = answered(&listener, &chunk("half")).await;
        // The client closes with what it has not read, which may be told as a reset.
        assert!(!matches!(socket.read(&mut [0]).await, Ok(1..)));
    };
    let call = async {
        drop(post(&lines, &target).await.unwrap());
        assert!(lines.unused().lines.is_empty());
    };
    tokio::join!(serve, call);
}

#[tokio::test]
async fn a_connection_that_breaks_inside_an_answer_is_an_error_and_not_kept() {
    let (listener, target) = listener().await;
    let lines = lines();
    let serve = async {
        answered(&listener, &chunk("half")).await;
    };
    let call = async {
        let mut body = post(&lines, &target).await.unwrap();
        rest(&mut body).await.unwrap_err();
        assert!(lines.unused().lines.is_empty());
    };
    tokio::join!(serve, call);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_chunk_is_missed_however_they_come() {
    let (listener, target) = listener().await;
    let lines = lines();
    let serve = tokio::task::spawn_blocking({
        let listener = listener.into_std().unwrap();
        move || {
            use std::io::{Read, Write};
            listener.set_nonblocking(false).unwrap();
            let (mut socket, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"asked") {
                let mut some = [0; 1024];
                let read = socket.read(&mut some).unwrap();
                request.extend_from_slice(&some[..read]);
            }
            socket.write_all(HEAD.as_bytes()).unwrap();
            for n in 0..5_000 {
                // Alone, in pairs, cut in the middle: so that the reader is asleep, awake, or just falling asleep.
                let text = chunk(&format!("{n},"));
                let (before, after) = text.split_at(n % text.len());
                socket.write_all(before.as_bytes()).unwrap();
                if n % 3 == 0 {
                    std::thread::yield_now();
                }
                socket.write_all(after.as_bytes()).unwrap();
            }
            socket.write_all(END.as_bytes()).unwrap();
        }
    });
    let mut body = post(&lines, &target).await.unwrap();
    let expected: String = (0..5_000).map(|n| format!("{n},")).collect();
    assert_eq!(rest(&mut body).await.unwrap(), expected);
    serve.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_nobody_uses_is_closed_after_a_while() {
    let (listener, target) = listener().await;
    let lines = lines();
    let serve = async {
        let mut socket = answered(&listener, END).await;
        let kept = tokio::time::Instant::now();
        assert_eq!(socket.read(&mut [0]).await.unwrap(), 0);
        assert!(kept.elapsed() >= IDLE, "{:?}", kept.elapsed());
    };
    let call = async {
        rest(&mut post(&lines, &target).await.unwrap())
            .await
            .unwrap();
    };
    tokio::join!(serve, call);
}

#[tokio::test]
async fn who_cannot_be_reached_is_told_apart_from_who_hangs_up() {
    let (listener, target) = listener().await;
    let lines = lines();
    let hang_up = async { drop(listener.accept().await.unwrap()) };
    let (outcome, ()) = tokio::join!(post(&lines, &target), hang_up);
    let Err(LineError::Broken(cause)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(
        crate::answer::innermost(&cause),
        ": connection closed before message completed"
    );
    drop(listener);
    let outcome = post(&lines, &target).await;
    assert!(
        matches!(outcome, Err(LineError::Unreachable(_))),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn unused_connections_are_looked_after_again_after_a_runtime_has_ended() {
    let lines = lines();
    let sweep = super::Sweep(Arc::downgrade(&lines));
    lines.unused().swept = true;
    drop(sweep);
    assert!(!lines.unused().swept);
}

#[test]
fn only_plain_addresses_without_credentials_are_called_directly() {
    for direct in ["http://h/p", "http://127.0.0.1:80/", "http://[::1]:9/x?y"] {
        assert!(Lines::target(direct).is_some(), "{direct}");
    }
    let others = [
        "https://h/",
        "http://user:word@h/",
        "http://",
        "http://h:99999/",
        "http://h:x/",
        "http://h:/",
        "http://h:+80/",
        "http://h/a/../b",
        "http://h/{a}",
        "/p",
        "http://h/ö x",
    ];
    for other in others {
        assert!(Lines::target(other).is_none(), "{other}");
    }
}
