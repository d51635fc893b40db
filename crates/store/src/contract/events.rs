//! Events: in order, and pruned.

use super::fresh;
use crate::{EventRow, NewEvent, Store};

pub(super) async fn events_are_read_in_order_and_pruned(store: Store) {
    let session = fresh("session");
    let event = |session: &str, number: usize| NewEvent {
        session: session.to_owned(),
        at_ms: 1_000,
        kind: "message".into(),
        data: format!("{{\"n\":{number},\"text\":\"päyload ✓\"}}"),
    };
    let before = store.event_head().await.unwrap().last;
    // Two processes that add at the same time, in batches of more than one statement.
    let writers = [0, 1].map(|which| {
        let (store, session) = (store.clone(), session.clone());
        tokio::spawn(async move {
            for round in 0..10_usize {
                let number = |n: usize| round * 1_000 + n;
                let mine = if which == 0 { session.clone() } else { fresh("other") };
                let events: Vec<_> = (0..120).map(|n| event(&mine, number(n))).collect();
                store.add_events(&events).await.unwrap();
            }
        })
    });
    for writer in writers {
        writer.await.unwrap();
    }
    let all = store.events_after(before, 10_000).await.unwrap();
    assert_eq!(all.len(), 2_400);
    assert!(all.windows(2).all(|pair| pair[0].id + 1 == pair[1].id));
    let head = store.event_head().await.unwrap();
    assert_eq!(head.last, all.last().unwrap().id);
    let mut mine = Vec::new();
    loop {
        let after = mine.last().map_or(0, |row: &EventRow| row.id);
        let page = store.session_events(&session, after, 500).await.unwrap();
        if page.is_empty() {
            break;
        }
        mine.extend(page);
    }
    let expected: Vec<_> = (0..10)
        .flat_map(|round| (0..120).map(move |n| round * 1_000 + n))
        .map(|number| event(&session, number).data)
        .collect();
    assert_eq!(mine.iter().map(|row| row.data.clone()).collect::<Vec<_>>(), expected);

    assert!(!store.prune_events(head.last, 1_000).await.unwrap());
    while store.prune_events(7, 1_000).await.unwrap() {}
    assert_eq!(store.event_head().await.unwrap().pruned, head.last - 7);
    assert_eq!(store.events_after(0, 100).await.unwrap().len(), 7);
    while store.prune_events(7, 2_000).await.unwrap() {}
    assert_eq!(store.events_after(0, 100).await.unwrap(), vec![]);
    let next = store.add_events(&[event(&session, 0)]).await.unwrap();
    assert_eq!(next, head.last + 1, "an id is never used again");
}
