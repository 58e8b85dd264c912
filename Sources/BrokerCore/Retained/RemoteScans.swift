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

    private var received: [Source: Int] = [:]
    /// Scans whose last grant is used up.
    var due: [Grant] = []

    /// Counts a message; every `perGrant` of them the scan waits for another grant.
    mutating func count(_ grant: Grant, perGrant: Int) {
        let source = Source(shard: grant.shard, scan: grant.scan)
        let count = received[source, default: 0] + 1
        if count == perGrant {
            received[source] = nil
            due.append(grant)
        } else {
            received[source] = count
        }
    }
}
