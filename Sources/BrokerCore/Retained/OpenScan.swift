/// A scan of this shard's retained messages that is under way, for a session of this shard or of another one.
///
/// One for another shard may be ahead of its session by as many messages as its query allows. Where half of these have been sent since it
/// last asked for more, the message asks; once that has been taken, and the session has room, the same number is granted anew.
struct OpenScan {
    /// Tells it from every other scan of the shard.
    let number: UInt64
    let query: RetainedQuery
    var scan: RetainedScan
    /// For a scan on behalf of another shard: how many messages it may still send.
    private(set) var credit: Int
    /// How many it has sent since it last asked for more.
    private var unasked = 0
    /// Whether nothing is left to be found.
    var isFinished = false

    init(number: UInt64, query: RetainedQuery, scan: RetainedScan) {
        self.number = number
        self.query = query
        self.scan = scan
        credit = query.credit
    }

    /// A message of it goes to another shard. Returns how many more are to be granted once that has taken it; mostly 0.
    ///
    /// Each KiB beyond the first counts as a message more: what waits for a receiver that does not read is bounded in bytes, too.
    mutating func send(byteCount: Int) -> UInt32 {
        let count = 1 + byteCount / 1024
        credit -= count
        unasked += count
        guard unasked >= (query.credit + 1) / 2 else { return 0 }
        defer { unasked = 0 }
        return UInt32(unasked)
    }

    mutating func grant(_ count: Int) { credit += count }
}
