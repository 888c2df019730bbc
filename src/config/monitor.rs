//! `monitor`.

use std::path::PathBuf;
use std::time::Duration;

use super::field::Field;
use super::{ConfigError, MonitorConfig, WalVolume};

impl Default for MonitorConfig {
    fn default() -> Self {
        Self { interval: Duration::from_secs(5), all_slots: false, wal_volume: None }
    }
}

pub(super) fn monitor(field: &Field<'_>) -> Result<MonitorConfig, ConfigError> {
    let fields = field.fields(&["interval", "all_slots", "wal_volume_size", "wal_volume_path"])?;
    let default = MonitorConfig::default();
    let least = Duration::from_millis(100);
    let size = fields.read("wal_volume_size", |f| f.size(1 << 20, 1 << 60))?;
    let path = fields.read("wal_volume_path", Field::filled_text)?;
    let wal_volume = match (size, path) {
        (Some(_), Some(_)) => {
            let message = "`monitor` takes `wal_volume_size` or `wal_volume_path`, not both";
            return Err(ConfigError::invalid(field.key_location, message));
        }
        (Some(size), None) => Some(WalVolume::Size(size as u64)),
        (None, path) => path.map(|path| WalVolume::Path(PathBuf::from(path))),
    };
    let yes_no = [("true", true), ("false", false)];
    Ok(MonitorConfig {
        interval: fields.read("interval", |f| f.duration(least))?.unwrap_or(default.interval),
        all_slots: fields.read("all_slots", |f| f.choice(&yes_no))?.unwrap_or(default.all_slots),
        wal_volume,
    })
}
