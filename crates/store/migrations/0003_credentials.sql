CREATE TABLE credentials (
    server TEXT NOT NULL,
    address TEXT NOT NULL,
    version TEXT NOT NULL,
    claim TEXT NOT NULL,
    sealed TEXT NOT NULL,
    changed_ms BIGINT NOT NULL,
    PRIMARY KEY (server, address)
);
