/// The bounds of administration, each with its unit and what happens beyond it.
enum Limits {
    /// Bytes of a text in a query: a longer one is refused. A request's first line has room for 8 KiB.
    static let textParameterBytesMax = 4096
    /// Characters of a cursor: a longer one is kept here, and a short one stands for it.
    static let cursorBytesMax = 1024
    /// Cursors that are kept, of up to 90 KB each: the oldest goes for the next one. Bytes: 90 KB each at most.
    static let longCursorsMax = 64
    /// Rows of a page: a larger `limit` is refused.
    static let pageRowsMax = 1000
    /// Bytes of the rows of a page: then the page ends early, and its cursor says where to go on.
    static let pageBytesMax = 1 << 20
    /// Rows that a node gives of a page of the whole cluster: then the page ends early.
    static let nodePageRowsMax = 250
    /// Bytes of these rows and their places: then the page ends early. What one node sends another is bounded by the servers, to 1 MiB if they
    /// say nothing else.
    static let nodePageBytesMax = 512 << 10
    /// Questions that a shard is asked for one page of an answer that leaves most rows out: then the page ends early.
    static let questionsPerPageMax = 200
    /// Subscriptions that a shard is asked for at once while most are left out.
    static let strideRows = 1000
    /// Sessions of browsers: of those who may do least, the one that was used longest ago goes for the next one. Nobody ends the session of somebody
    /// who may do more: then the next one is refused with 503. Bytes: 8 KiB each at most, a name is from a head of HTTP.
    static let sessionsMax = 256
    /// Sessions of one user or token: of them the one that was used longest ago goes for the next one. Bytes: 8 KiB each at most.
    static let sessionsPerIdentityMax = 16
    /// How long a session stays without a request, in milliseconds.
    static let sessionIdleMilliseconds: UInt64 = 60 * 60 * 1000
    /// How long a session stays at most, in milliseconds.
    static let sessionMilliseconds: UInt64 = 12 * 60 * 60 * 1000
    /// Tokens: no more are made. Bytes: 256 each at most.
    static let tokensMax = 1024
    /// Links that let a browser in which nobody has used yet: the oldest gives way. Bytes: 512, as names of users of the machine are short.
    static let loginLinksMax = 16
    /// Seconds that a link is good for which somebody has asked for.
    static let loginLinkSeconds: UInt64 = 600
    /// Bytes of the words why somebody is banned: more are refused.
    static let banReasonBytesMax = 4096
    /// Clients that are sent away in a second where nothing else is said.
    static let drainPerSecond = 1000
    /// The most that may be asked for.
    static let drainPerSecondMax = 1_000_000
    /// Bytes of the name of another server: more are refused.
    static let serverReferenceBytesMax = 4096
    /// Entries of the audit that are kept in memory, of changes and of refusals each: the oldest goes for the next one. Bytes: `auditBytesMax`.
    static let auditEntriesMax = 1024
    /// Bytes of their lines, of changes and of refusals each: the oldest goes for the next one.
    static let auditBytesMax = 512 << 10
    /// Bytes of one text in a line of the audit: the rest is cut off.
    static let auditTextBytesMax = 1024
    /// Bytes of one text in a line about somebody who is no administrator: the rest is cut off.
    static let refusedTextBytesMax = 256
    /// Lines of a second about those who are no administrators: what else they are refused is counted, and told in one line for each of them.
    static let refusedLinesPerSecondMax = 100
    /// Such lines of a second about one network and name.
    static let refusedLinesPerPartyMax = 5
    /// Networks and names that refusals are counted for: those of all others are one. Bytes: `refusedTextBytesMax` each.
    static let refusalSumsMax = 64
    /// Values of each series by the second.
    static let historySeconds = 900
    /// Values of each series by the minute.
    static let historyMinutes = 1440
    /// Events that are kept for streams that come back: the oldest goes for the next one. Bytes: `eventsBytesMax`.
    static let eventsMax = 4096
    /// Bytes of memory that they take: the oldest go for the next one.
    static let eventsBytesMax = 4 << 20
    /// Where there is a `memory_limit`, they take at most one byte in so many of it.
    static let eventsMemoryShare = 32
    /// Streams of all kinds: the next one is refused with 429. Bytes: 64 KiB each, `outputBytesMax` of HTTPServer.
    static let streamsMax = 16
    /// Streams of one address: the next one is refused with 429. Bytes: 64 KiB each.
    static let streamsPerAddressMax = 8
    /// How often a stream that is silent is written to, in milliseconds.
    static let streamSilenceMilliseconds: UInt64 = 15_000
    /// Traces, those that have ended and are still kept included: with all of them running, another one is refused with 409.
    static let tracesMax = 8
    /// Bytes of a trace's lines: then it ends.
    static let traceBytesMax = 64 << 20
    /// How long a trace runs where nothing is said, in milliseconds.
    static let traceMilliseconds: UInt64 = 10 * 60_000
    /// How long a trace may run, in milliseconds: a later end is refused.
    static let traceMillisecondsMax: UInt64 = 24 * 3_600_000
    /// Bytes of a payload that a trace shows where nothing is said.
    static let tracePayloadBytes = 1024
    /// Bytes of a payload that a trace may show: more are refused.
    static let tracePayloadBytesMax = 16_384
    /// Bytes of a trace that are read at once: more than the longest line, of which every byte may be escaped.
    static let traceReadBytes = 256 << 10
    /// Alarms that are raised, or about to be: others are not looked at. Bytes: 4 KiB each at most.
    static let alarmsMax = 256
    /// Alarms that were cleared and are remembered: the oldest goes for the next one. Bytes: 4 KiB each at most.
    static let alarmHistoryMax = 1000
    /// Rows of alarms where nothing is said.
    static let alarmRows = 100
    /// How long all has to be well before an alarm is cleared, in milliseconds.
    static let alarmQuietMilliseconds: UInt64 = 10_000
    /// What comes back so soon after it was cleared, in milliseconds, takes twice as long to clear each time, but never longer than this.
    static let alarmReturnMilliseconds: UInt64 = 10 * 60_000
    /// From how many percent of `memory_limit` on an alarm is raised.
    static let highMemoryPercent: UInt64 = 80
    /// Below how many percent of it the alarm is cleared.
    static let clearMemoryPercent: UInt64 = 70
    /// How long a commit takes that is slow, of the slowest of a hundred, in milliseconds; half of it is quick again.
    static let slowCommitMilliseconds = 1000.0
    /// Free bytes that are few where the store is, if they are less than a tenth of the disk too; twice as many, and more than 15 %, are
    /// enough again.
    static let scarceDiskBytes: UInt64 = 1 << 30
    /// How long before a certificate ends an alarm is raised, in milliseconds: 14 days.
    static let certificateMilliseconds: UInt64 = 14 * 86_400_000
    /// How old the last turn of a loop may be, in milliseconds: then the broker does not live.
    static let turnAgeMillisecondsMax: UInt64 = 10_000
    /// Seconds that a client is told to wait for what it may have later.
    static let retryAfterSeconds = 15
}
