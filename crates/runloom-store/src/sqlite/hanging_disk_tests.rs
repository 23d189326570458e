//! A disk that was quick hangs while a caller commits on its own thread: that thread waits, everybody else goes on.
//!
//! There are two threads, so one is left for all others. The disk comes back only after these have got what they wanted. Nothing here
//! wakes a thread from outside: a test that did would do what it asks of the writer.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc as balls, oneshot};

use super::Writer;
use super::tests::{grow_calm, unhurried};

/// Longer than anything here takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// After how many tasks a thread looks at sockets and timers: as it is by default, and after each. In the second case a caller that has
/// let others go first goes on without anybody having been woken for it.
const LOOKS: [u32; 2] = [61, 1];

/// In which state the threads are found is a matter of chance as well, so all is tried again.
const ROUNDS: usize = 20;

/// What has to happen while the disk hangs, each so often.
const TIMES: u8 = 5;

/// A server whose store is calm, on a disk that hangs when it is told to.
struct Server {
    runtime: Runtime,
    writer: Arc<Writer>,
    /// The one that writes when it is not calm.
    thread: ThreadId,
    hangs: Arc<AtomicBool>,
    _folder: TempDir,
}

impl Server {
    fn start(looks: u32) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .event_interval(looks)
            .enable_all()
            .build()
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let writer = unhurried(&folder.path().join("t.db"));
        let (thread, _) = runtime.block_on(grow_calm(&writer));
        Self {
            runtime,
            writer,
            thread,
            hangs: Arc::default(),
            _folder: folder,
        }
    }

    /// A caller does `first`, then writes, and the disk hangs until `meanwhile` is over.
    fn hang(&self, first: impl FnOnce() + Send + 'static, meanwhile: impl FnOnce()) {
        let (mut bell, rung) = self.connection();
        let (entered, inside) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let (writer, hangs) = (Arc::clone(&self.writer), Arc::clone(&self.hangs));
        let caller = self.runtime.spawn(async move {
            // Whoever reads a socket is woken on the thread that looks after sockets and timers.
            rung.readable().await.unwrap();
            first();
            let writing = writer.run_short("hang", move |_| {
                hangs.store(true, Ordering::SeqCst);
                entered.send(thread::current().id()).unwrap();
                let _ = released.recv();
                hangs.store(false, Ordering::SeqCst);
                Ok(())
            });
            writing.await.unwrap();
        });
        self.until_all_sleep();
        bell.write_all(b"!").unwrap();
        assert_ne!(soon(&inside), self.thread, "the caller's thread commits");
        meanwhile();
        drop(release);
        self.runtime.block_on(caller).unwrap();
    }

    /// Waits until both threads have nothing to do.
    fn until_all_sleep(&self) {
        let metrics = self.runtime.metrics();
        let sleeps = |worker| metrics.worker_park_unpark_count(worker) % 2 == 1;
        while metrics.global_queue_depth() > 0 || !(sleeps(0) && sleeps(1)) {
            thread::yield_now();
        }
    }

    /// A connection between the test and the runtime.
    fn connection(&self) -> (TcpStream, tokio::net::TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        let _runtime = self.runtime.enter();
        (client, tokio::net::TcpStream::from_std(server).unwrap())
    }

    /// Somebody who sends back every byte.
    fn echo(&self) -> TcpStream {
        let (client, server) = self.connection();
        self.runtime.spawn(async move {
            let mut byte = [0];
            loop {
                server.readable().await.unwrap();
                match server.try_read(&mut byte) {
                    Ok(0) => return,
                    Ok(_) => assert_eq!(server.try_write(&byte).unwrap(), 1),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
        });
        client
    }

    /// Somebody with a timer; tells when it has gone off often enough while the disk hung.
    fn timer(&self) -> mpsc::Receiver<()> {
        let (done, wanted) = mpsc::channel();
        let hangs = Arc::clone(&self.hangs);
        self.runtime.spawn(async move {
            let mut times = 0;
            while times < TIMES {
                tokio::time::sleep(Duration::from_millis(1)).await;
                times += u8::from(hangs.load(Ordering::SeqCst));
            }
            done.send(()).unwrap();
        });
        wanted
    }

    /// Two who throw a ball to and fro, once they get one; the second tells when it has come often enough while the disk hung.
    fn players(&self) -> (balls::UnboundedSender<()>, mpsc::Receiver<()>) {
        let (done, wanted) = mpsc::channel();
        let hangs = Arc::clone(&self.hangs);
        let (to_first, mut first) = balls::unbounded_channel();
        let (to_second, mut second) = balls::unbounded_channel();
        self.runtime.spawn(async move {
            while first.recv().await.is_some() {
                let _ = to_second.send(());
            }
        });
        let back = to_first.clone();
        self.runtime.spawn(async move {
            let mut times = 0;
            while times < TIMES && second.recv().await.is_some() {
                times += u8::from(hangs.load(Ordering::SeqCst));
                back.send(()).unwrap();
            }
            done.send(()).unwrap();
        });
        (to_first, wanted)
    }
}

fn soon<T>(wanted: &mpsc::Receiver<T>) -> T {
    let came = wanted.recv_timeout(PATIENCE);
    came.expect("it should not have to wait for the disk")
}

/// Lets the disk hang again and again, on servers of either kind; `prepare` gives what the caller does first and what must go on meanwhile.
fn again_and_again<First, Meanwhile>(prepare: impl Fn(&Server) -> (First, Meanwhile))
where
    First: FnOnce() + Send + 'static,
    Meanwhile: FnOnce(),
{
    for server in LOOKS.map(Server::start) {
        for _ in 0..ROUNDS {
            let (first, meanwhile) = prepare(&server);
            server.hang(first, meanwhile);
        }
    }
}

#[test]
fn sockets_are_served_while_the_disk_hangs() {
    again_and_again(|server| {
        let mut echo = server.echo();
        let meanwhile = move || {
            for byte in 0..TIMES {
                let (sent, mut back) = ([byte], [TIMES]);
                echo.write_all(&sent).unwrap();
                echo.read_exact(&mut back).expect("an echo");
                assert_eq!(sent, back);
            }
        };
        (|| {}, meanwhile)
    });
}

#[test]
fn timers_go_off_while_the_disk_hangs() {
    again_and_again(|server| {
        let timer = server.timer();
        (|| {}, move || soon(&timer))
    });
}

/// Such a task is kept for the thread that woke it.
#[test]
fn whom_the_caller_woke_just_before_does_not_wait_for_the_disk() {
    again_and_again(|server| {
        let (wakes, woken) = oneshot::channel::<()>();
        let (done, wanted) = mpsc::channel();
        server.runtime.spawn(async move {
            woken.await.unwrap();
            done.send(()).unwrap();
        });
        (move || wakes.send(()).unwrap(), move || soon(&wanted))
    });
}

#[test]
fn tasks_talk_to_each_other_while_the_disk_hangs() {
    again_and_again(|server| {
        let (ball, wanted) = server.players();
        (move || ball.send(()).unwrap(), move || soon(&wanted))
    });
}
