//! The user's MCP servers: connected, supervised, restarted.
