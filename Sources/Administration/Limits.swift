/// The bounds of administration, each with its unit and what happens beyond it.
enum Limits {
    /// Bytes of the rows of a page: then the page ends early, and its cursor says where to go on.
    static let pageBytesMax = 1 << 20

    /// Rows that a node gives of a page of the whole cluster: then the page ends early.
    static let nodePageRowsMax = 250

    /// Bytes of these rows and their places: then the page ends early. What one node sends another is bounded by the
    /// servers, to 1 MiB if they say nothing else.
    static let nodePageBytesMax = 512 << 10

    /// Entries of the audit that are kept in memory, of changes and of refusals each: the oldest goes for the next one.
    /// Bytes: `auditBytesMax`.
    static let auditEntriesMax = 1024

    /// Streams of all kinds: the next one is refused with 429. Bytes: 64 KiB each, `outputBytesMax` of HTTPServer.
    static let streamsMax = 16

    /// How often a stream that is silent is written to, in milliseconds.
    static let streamSilenceMilliseconds: UInt64 = 15_000

    /// Traces, those that have ended and are still kept included: with all of them running, another one is refused
    /// with 409.
    static let tracesMax = 8

    /// Seconds that a client is told to wait for what it may have later.
    static let retryAfterSeconds = 15
}
