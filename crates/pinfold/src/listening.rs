//! Connections of `pinfold serve`: bounded in number, and in the time that a client takes to say
//! what it wants.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::config::file::Limits;

/// So long do answers that are on their way get when the server ends.
const LAST: Duration = Duration::from_secs(10);

/// After an error that is not about one connection, as when there are too many open files.
const AGAIN: Duration = Duration::from_millis(100);

/// Longest head of a request, in bytes.
const LONGEST_HEAD: usize = 64 * 1024;

/// Serves until `ending`.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: &Limits,
    ending: CancellationToken,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).max_buf_size(LONGEST_HEAD);
    let patience = (limits.header_sec > 0).then(|| Duration::from_secs(limits.header_sec));
    http.header_read_timeout(patience);
    let most = match limits.connections {
        0 => Semaphore::MAX_PERMITS,
        connections => connections as usize,
    };
    let places = Arc::new(Semaphore::new(most));
    let open = GracefulShutdown::new();
    loop {
        let accepted = async {
            let place = places.clone().acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            accepted = accepted => accepted,
            () = ending.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        };
        // An answer is small and has to leave at once.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let connection = open.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // How a client goes away is its own matter.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(LAST, open.shutdown()).await.is_err() {
        tracing::warn!("some answers were not taken in time");
    }
}
