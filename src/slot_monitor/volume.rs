//! How much WAL still fits on its volume.

use std::path::Path;

use super::look::WalFiles;
use crate::config::WalVolume;

/// What is known of the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Nobody said where it is.
    NotAsked,
    /// Its size, and what the WAL takes of it where the role may see that.
    Size { size: u64, used: Option<u64> },
    /// Bytes that are free there.
    Free(u64),
    /// The path cannot be looked at, and why.
    Unreadable(String),
}

/// Looks at the volume.
pub(super) async fn room(volume: Option<&WalVolume>, files: Option<&WalFiles>) -> Room {
    match volume {
        None => Room::NotAsked,
        Some(WalVolume::Size(size)) => {
            Room::Size { size: *size, used: files.and_then(|files| files.used_bytes) }
        }
        Some(WalVolume::Path(path)) => {
            let path = path.clone();
            // A file system over a network may keep its caller waiting.
            let asked = tokio::task::spawn_blocking(move || free_at(&path)).await;
            asked.unwrap_or_else(|error| Room::Unreadable(error.to_string()))
        }
    }
}

/// What a process without privileges may take.
fn free_at(path: &Path) -> Room {
    match rustix::fs::statvfs(path) {
        Ok(stat) => Room::Free(stat.f_bavail.saturating_mul(stat.f_frsize)),
        Err(error) => Room::Unreadable(format!("`{}`: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_path_tells_what_is_free_there() {
        let path = WalVolume::Path(std::env::temp_dir());
        assert!(matches!(room(Some(&path), None).await, Room::Free(bytes) if bytes > 0));
    }

    #[tokio::test]
    async fn a_path_that_is_not_there_is_named() {
        let path = WalVolume::Path("/no/such/volume".into());
        let Room::Unreadable(why) = room(Some(&path), None).await else { panic!() };
        assert!(why.contains("/no/such/volume"), "{why}");
    }
}
