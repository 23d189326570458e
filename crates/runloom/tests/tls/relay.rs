//! A TCP relay in front of nginx whose connections can go half-open: both sides keep their socket, no byte gets through
//! and nobody is told, as when a router forgets a connection.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A relay that works until the process ends.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    /// Connections of an older generation pass nothing on.
    generation: Arc<AtomicU64>,
}

impl Relay {
    pub(crate) fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Self {
            address: listener.local_addr().unwrap(),
            generation: Arc::default(),
        };
        let generation = Arc::clone(&relay.generation);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(target).unwrap();
                let both = [(&client, &server), (&server, &client)];
                for (from, to) in both {
                    let pipe = Pipe {
                        from: from.try_clone().unwrap(),
                        to: to.try_clone().unwrap(),
                        current: Arc::clone(&generation),
                        generation: generation.load(Ordering::SeqCst),
                    };
                    std::thread::spawn(move || pipe.run());
                }
            }
        });
        relay
    }

    /// Makes every connection of this moment half-open. New ones work.
    pub(crate) fn lose_connections(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }
}

/// One direction of a connection.
struct Pipe {
    from: TcpStream,
    to: TcpStream,
    current: Arc<AtomicU64>,
    generation: u64,
}

impl Pipe {
    fn run(mut self) {
        let mut bytes = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = self.from.read(&mut bytes) {
            if self.is_lost() {
                continue;
            }
            if self.to.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        if !self.is_lost() {
            let _ = self.to.shutdown(Shutdown::Write);
        }
    }

    fn is_lost(&self) -> bool {
        self.current.load(Ordering::SeqCst) != self.generation
    }
}
