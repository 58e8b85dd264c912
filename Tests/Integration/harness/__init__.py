"""What the integration tests stand on: a real broker, real client programs, and a bare connection."""
