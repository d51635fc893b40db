CREATE TABLE owners (
    id TEXT PRIMARY KEY,
    place TEXT NOT NULL,
    process BIGINT NOT NULL,
    started_ms BIGINT NOT NULL,
    seen_ms BIGINT NOT NULL
);

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    principal TEXT NOT NULL,
    profile TEXT NOT NULL,
    session_key TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    seen_ms BIGINT NOT NULL
);

CREATE TABLE session_allows (
    session TEXT NOT NULL,
    tool TEXT NOT NULL,
    definition TEXT NOT NULL,
    answered_by TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (session, tool, definition)
);

CREATE TABLE approvals (
    id TEXT PRIMARY KEY,
    request_key TEXT NOT NULL,
    principal TEXT NOT NULL,
    profile TEXT NOT NULL,
    session TEXT NOT NULL,
    tool TEXT NOT NULL,
    payload TEXT NOT NULL,
    state TEXT NOT NULL,
    answer TEXT NOT NULL,
    reason TEXT NOT NULL,
    answered_by TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    answered_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL
);
CREATE UNIQUE INDEX approvals_open ON approvals (request_key) WHERE state = 'open';
CREATE INDEX approvals_by_key ON approvals (request_key, state);
CREATE INDEX approvals_by_state ON approvals (state, created_ms);

CREATE TABLE scripts (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    session TEXT NOT NULL,
    principal TEXT NOT NULL,
    profile TEXT NOT NULL,
    workspace TEXT NOT NULL,
    description TEXT NOT NULL,
    code TEXT NOT NULL,
    isolation TEXT NOT NULL,
    state TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    ended_ms BIGINT NOT NULL
);
CREATE INDEX scripts_running ON scripts (owner) WHERE state = 'running';

CREATE TABLE intents (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    script TEXT NOT NULL,
    number BIGINT NOT NULL,
    session TEXT NOT NULL,
    principal TEXT NOT NULL,
    profile TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    state TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    ended_ms BIGINT NOT NULL
);
CREATE INDEX intents_pending ON intents (owner) WHERE state = 'pending';
CREATE INDEX intents_by_script ON intents (script);

CREATE TABLE audit (
    id TEXT PRIMARY KEY,
    at_ms BIGINT NOT NULL,
    kind TEXT NOT NULL,
    principal TEXT NOT NULL,
    profile TEXT NOT NULL,
    session TEXT NOT NULL,
    tool TEXT NOT NULL,
    outcome TEXT NOT NULL,
    isolation TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX audit_by_time ON audit (at_ms);
CREATE INDEX audit_by_session ON audit (session, at_ms);
