//! Looks whether files that a configuration was made from, or that connections read, have changed.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::info;

use crate::config::InputFile;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(5);

/// After a change was told: until the next relay has taken over, or to try again where what is new
/// does not work yet (a password that is rotated in the file before it is in the database).
const AGAIN: Duration = Duration::from_secs(30);

/// Looks until it is dropped.
pub(super) struct Rotation {
    changes: mpsc::Receiver<()>,
    task: JoinHandle<()>,
}

impl Rotation {
    pub(super) fn watch(files: Vec<InputFile>) -> Self {
        let (tell, changes) = mpsc::channel(1);
        Self { changes, task: tokio::spawn(look(files, tell)) }
    }

    /// Waits until a file has changed. Safe to drop and call again.
    pub(super) async fn changed(&mut self) {
        if self.changes.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Rotation {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look(files: Vec<InputFile>, tell: mpsc::Sender<()>) {
    if files.is_empty() {
        return;
    }
    loop {
        sleep(LOOK).await;
        let looked = files.clone();
        // A file may be on a server that does not answer.
        let changed = tokio::task::spawn_blocking(move || {
            looked.into_iter().find(InputFile::has_changed).map(|file| file.path().to_owned())
        });
        if let Ok(Some(path)) = changed.await {
            info!(file = %path.display(), "a file that the configuration names has changed");
            if tell.send(()).await.is_err() {
                return;
            }
            sleep(AGAIN).await;
        }
    }
}
