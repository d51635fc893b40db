-- One row: the ids rise over all sessions, in the order in which they become visible.
CREATE TABLE event_head (
    one BIGINT PRIMARY KEY,
    last_id BIGINT NOT NULL,
    pruned_id BIGINT NOT NULL
);
INSERT INTO event_head (one, last_id, pruned_id) VALUES (1, 0, 0);

CREATE TABLE events (
    id BIGINT PRIMARY KEY,
    session TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL
);
CREATE INDEX events_by_session ON events (session, id);
