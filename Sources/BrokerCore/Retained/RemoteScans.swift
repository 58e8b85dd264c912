/// The scans that walk the retained messages of other shards on behalf of this shard's sessions, as far as they wait for them.
///
/// A scan may be ahead of its session by as many messages as its query allows. Where half of these have been sent since it last asked for
/// more, the message asks; once that has been taken, and the session has room, the same number is granted anew.
struct RemoteScans {
    /// A scan that is to be told to go on, and by how many messages.
    struct Grant {
        let shard: Int
        let scan: UInt64
        let count: Int
        let sessionIndex: UInt32
        let sessionKey: UInt64
    }

    /// To be given once their sessions have room.
    var due: [Grant] = []

    /// A scan has come to its end: nothing more of it will arrive.
    mutating func finish(shard: Int, scan: UInt64) {
        due.removeAll { $0.shard == shard && $0.scan == scan }
    }

    /// The session that the scans are for has ended.
    mutating func removeAll(of sessionKey: UInt64) {
        due.removeAll { $0.sessionKey == sessionKey }
    }
}
