//! The latest of every alert, for all targets to read: who fires, and who is over.
//!
//! It holds one alert a rule, so it does not grow however long a target is away, and one that comes
//! back is told how things stand rather than how they came about.

use std::collections::BTreeMap;

use super::engine::Change;
use super::notice::Alert;

/// One alert a rule, by its name.
#[derive(Clone, Debug, Default)]
pub(super) struct Bulletin {
    entries: BTreeMap<String, Entry>,
    last_version: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    alert: Alert,
    /// Changes when it begins to fire, and when it is over.
    version: u64,
}

/// What one target has been told: the version of each alert.
pub(super) type Told = BTreeMap<String, u64>;

impl Bulletin {
    /// Takes what changed, and the news of what goes on firing. Whether there is a change that a
    /// target must be told at once.
    pub(super) fn update(
        &mut self,
        changes: &[Change],
        firing: impl Iterator<Item = Alert>,
    ) -> bool {
        for change in changes {
            let (Change::Fired(alert) | Change::Resolved(alert)) = change;
            self.last_version += 1;
            let entry = Entry { alert: alert.clone(), version: self.last_version };
            self.entries.insert(alert.name.clone(), entry);
        }
        for alert in firing {
            if let Some(entry) = self.entries.get_mut(&alert.name) {
                entry.alert = alert;
            }
        }
        !changes.is_empty()
    }

    /// All that fires.
    pub(super) fn firing(&self) -> Vec<Alert> {
        let alerts = self.entries.values().map(|entry| &entry.alert);
        alerts.filter(|alert| alert.ends_at.is_none()).cloned().collect()
    }

    /// What someone who knows `told` has not heard yet; with `again`, also all that fires.
    pub(super) fn news(&self, told: &Told, again: bool) -> Vec<&Alert> {
        let due = self.entries.iter().filter(|(name, entry)| {
            let is_news = told.get(*name) != Some(&entry.version);
            is_news || (again && entry.alert.ends_at.is_none())
        });
        due.map(|(_, entry)| &entry.alert).collect()
    }

    /// What someone knows who has heard it all.
    pub(super) fn told(&self) -> Told {
        self.entries.iter().map(|(name, entry)| (name.clone(), entry.version)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::engine::tests::alert;
    use super::*;
    use crate::timestamp::Timestamp;

    fn over(name: &str) -> Alert {
        Alert { ends_at: Some(Timestamp::from_micros(5)), ..alert(name) }
    }

    fn names(alerts: &[&Alert]) -> Vec<String> {
        alerts.iter().map(|alert| format!("{} {}", alert.name, alert.status())).collect()
    }

    #[test]
    fn a_change_is_news_once_and_what_fires_is_told_again() {
        let mut bulletin = Bulletin::default();
        let fired = [Change::Fired(alert("a")), Change::Fired(alert("b"))];
        assert!(bulletin.update(&fired, std::iter::empty()));
        let told = Told::new();
        assert_eq!(names(&bulletin.news(&told, false)), ["a firing", "b firing"]);
        let told = bulletin.told();
        assert!(bulletin.news(&told, false).is_empty());

        bulletin.update(&[Change::Resolved(over("a"))], std::iter::once(alert("b")));
        assert_eq!(names(&bulletin.news(&told, false)), ["a resolved"]);
        assert_eq!(names(&bulletin.news(&told, true)), ["a resolved", "b firing"]);
        let told = bulletin.told();
        assert_eq!(names(&bulletin.news(&told, true)), ["b firing"]);
    }

    #[test]
    fn who_was_away_is_told_how_things_stand() {
        let mut bulletin = Bulletin::default();
        for _ in 0..1000 {
            bulletin.update(&[Change::Fired(alert("a"))], std::iter::empty());
            bulletin.update(&[Change::Resolved(over("a"))], std::iter::empty());
        }
        assert_eq!(names(&bulletin.news(&Told::new(), true)), ["a resolved"]);
    }
}
