//! The volume of the server's WAL, where the relay is to look at it.

use std::io;
use std::path::Path;

use super::super::{Context, Finding};
use crate::config::WalVolume;
use crate::failure::Failure;

const SUBJECT: &str = "`monitor.wal_volume_path`";

pub(super) async fn ask(context: &Context<'_>) -> Result<Vec<Finding>, Failure> {
    let Some(WalVolume::Path(path)) = &context.config.monitor.wal_volume else {
        return Ok(Vec::new());
    };
    let asked = path.clone();
    // A file system over a network may keep its caller waiting.
    let looked = tokio::task::spawn_blocking(move || look(&asked)).await;
    let looked = looked.map_err(|_| Failure::transient("looking at it was interrupted"))?;
    Ok(looked.err().map(|error| not_seen(path, &error)).into_iter().collect())
}

/// As the monitor does, which asks for the room that is left.
fn look(path: &Path) -> io::Result<()> {
    rustix::fs::statvfs(path).map(drop).map_err(io::Error::from)
}

fn not_seen(path: &Path, error: &io::Error) -> Finding {
    let message = format!(
        "`{}` cannot be looked at, and so nothing tells when WAL will have filled the disk: {error}",
        path.display()
    );
    Finding::warning(SUBJECT, message).fix(
        "a path on the volume of the server's `pg_wal` as this machine or container sees it; where \
         it does not see that, `monitor.wal_volume_size` in its place",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_not_there_is_named_with_the_way_out() {
        assert!(look(&std::env::temp_dir()).is_ok());
        let path = Path::new("/no/such/volume");
        let finding = not_seen(path, &look(path).unwrap_err());
        assert!(finding.message.contains("`/no/such/volume`"), "{finding}");
        assert!(finding.fix.unwrap().contains("`monitor.wal_volume_size`"));
    }
}
