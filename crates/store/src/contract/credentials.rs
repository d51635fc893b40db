//! Credentials: whose they are, and who renews them.

use super::fresh;
use crate::{CredentialPlace, Store};

fn place<'a>(server: &'a str, address: &'a str) -> CredentialPlace<'a> {
    CredentialPlace { server, address }
}

async fn sealed(store: &Store, at: CredentialPlace<'_>) -> Option<String> {
    store.credential(at).await.unwrap().map(|row| row.sealed)
}

pub(super) async fn a_credential_belongs_to_one_server_at_one_address(store: Store) {
    let (server, other) = (fresh("server"), fresh("server"));
    let here = place(&server, "a");
    assert_eq!(store.credential(here).await.unwrap(), None);
    let first = store.put_credential(here, "one", 5).await.unwrap();
    let second = store.put_credential(here, "two", 6).await.unwrap();
    assert_ne!(first, second);
    store.put_credential(place(&other, "a"), "theirs", 6).await.unwrap();
    let row = store.credential(here).await.unwrap().unwrap();
    assert_eq!((row.version.as_str(), row.sealed.as_str(), row.changed_ms), (&*second, "two", 6));
    assert_eq!(row.claim, "");
    assert!(!format!("{row:?}").contains("two"));
    assert_eq!(sealed(&store, place(&server, "b")).await, None);
    store.put_credential(place(&server, "b"), "before", 7).await.unwrap();
    assert_eq!(store.forget_credentials(&server).await.unwrap(), 2);
    assert_eq!(sealed(&store, here).await, None);
    assert_eq!(sealed(&store, place(&other, "a")).await.as_deref(), Some("theirs"));
    assert_eq!(store.forget_credentials(&server).await.unwrap(), 0);
}

pub(super) async fn of_two_who_would_renew_a_credential_one_does(store: Store) {
    let server = fresh("server");
    let here = place(&server, "a");
    let version = store.put_credential(here, "old", 1).await.unwrap();
    let claims: Vec<String> = (0..8).map(|_| fresh("claim")).collect();
    let tries = claims.iter().map(|claim| {
        let (store, server) = (store.clone(), server.clone());
        let (version, claim) = (version.clone(), claim.clone());
        tokio::spawn(async move {
            store.claim_credential(place(&server, "a"), &version, "", &claim).await.unwrap()
        })
    });
    let mut won = Vec::new();
    for (attempt, claim) in tries.collect::<Vec<_>>().into_iter().zip(&claims) {
        if attempt.await.unwrap() {
            won.push(claim);
        }
    }
    let [winner] = won[..] else { panic!("{won:?}") };
    // Whoever has no claim changes nothing.
    let swapped = store.swap_credential(here, &version, "somebody", "bad", 2).await.unwrap();
    assert_eq!(swapped, None);
    // One who died is followed by one who names that claim.
    let heir = fresh("claim");
    assert!(!store.claim_credential(here, &version, "guessed", &heir).await.unwrap());
    assert!(store.claim_credential(here, &version, winner, &heir).await.unwrap());
    assert_eq!(store.swap_credential(here, &version, winner, "late", 3).await.unwrap(), None);
    let next = store.swap_credential(here, &version, &heir, "new", 4).await.unwrap().unwrap();
    let row = store.credential(here).await.unwrap().unwrap();
    assert_eq!((row.version, row.sealed, row.claim), (next.clone(), "new".into(), String::new()));
    // A claim that is given up is there for the next.
    assert!(store.claim_credential(here, &next, "", &heir).await.unwrap());
    store.release_credential(here, &next, &heir).await.unwrap();
    assert!(store.claim_credential(here, &next, "", &fresh("claim")).await.unwrap());
}

pub(super) async fn what_is_renewed_late_does_not_undo_a_new_login(store: Store) {
    let server = fresh("server");
    let here = place(&server, "a");
    let version = store.put_credential(here, "old", 1).await.unwrap();
    assert!(store.claim_credential(here, &version, "", "mine").await.unwrap());
    store.put_credential(here, "login", 2).await.unwrap();
    assert_eq!(store.swap_credential(here, &version, "mine", "late", 3).await.unwrap(), None);
    assert_eq!(sealed(&store, here).await.as_deref(), Some("login"));
    let version = store.credential(here).await.unwrap().unwrap().version;
    assert!(store.claim_credential(here, &version, "", "mine").await.unwrap());
    store.forget_credentials(&server).await.unwrap();
    assert_eq!(store.swap_credential(here, &version, "mine", "late", 4).await.unwrap(), None);
    assert_eq!(sealed(&store, here).await, None);
}
