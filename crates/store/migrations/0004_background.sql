CREATE TABLE background_calls (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    session TEXT NOT NULL,
    principal TEXT NOT NULL,
    profile TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    digest TEXT NOT NULL,
    description TEXT NOT NULL,
    state TEXT NOT NULL,
    result TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    ended_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL
);
CREATE INDEX background_by_session ON background_calls (session, id);
CREATE INDEX background_underway ON background_calls (owner) WHERE ended_ms = 0;
CREATE INDEX background_by_expiry ON background_calls (expires_ms);
