/// What a shard has received of scans that walk the retained messages of other shards on behalf of its sessions.
struct RemoteScans {
    /// A scan that waits to be told to go on.
    struct Grant {
        let shard: Int
        let scan: UInt64
        let sessionIndex: UInt32
        let sessionKey: UInt64
    }

    private struct Source: Hashable {
        let shard: Int
        let scan: UInt64
    }

    private struct Progress {
        var count: Int
        let sessionKey: UInt64
    }

    private var received: [Source: Progress] = [:]
    /// Scans whose last grant is used up.
    var due: [Grant] = []

    var isEmpty: Bool { received.isEmpty && due.isEmpty }

    /// Counts a message; every `perGrant` of them the scan waits for another grant.
    mutating func count(_ grant: Grant, perGrant: Int) {
        let source = Source(shard: grant.shard, scan: grant.scan)
        let count = (received[source]?.count ?? 0) + 1
        if count == perGrant {
            received[source] = nil
            due.append(grant)
        } else {
            received[source] = Progress(count: count, sessionKey: grant.sessionKey)
        }
    }

    /// A scan has come to its end: nothing more of it will arrive.
    mutating func finish(shard: Int, scan: UInt64) {
        received[Source(shard: shard, scan: scan)] = nil
        due.removeAll { $0.shard == shard && $0.scan == scan }
    }

    /// The session that the scans are for has ended.
    mutating func removeAll(of sessionKey: UInt64) {
        received = received.filter { $0.value.sessionKey != sessionKey }
        due.removeAll { $0.sessionKey == sessionKey }
    }
}
