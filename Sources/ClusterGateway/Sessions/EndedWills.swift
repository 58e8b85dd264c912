import Cluster

/// Wills that stand in records although they are over: this node has published them without the cluster, or they are not to be published any more
/// and the record could not be told yet. Nobody publishes them by the record; the next one that is written has them no more.
///
/// Belongs to a `SessionCoordinator`.
struct EndedWills {
    private var names: [[UInt8]: Set<WillName>] = [:]
    private(set) var count = 0
    /// Bytes of the sessions' names.
    private var byteCount = 0

    func contains(_ key: WillJob.Key) -> Bool { names[key.session]?.contains(key.name) ?? false }

    /// Beyond `Limits.endedWillsMax`, and `Limits.sessionNameBytesMax`, nothing is kept.
    mutating func insert(_ name: WillName, of session: [UInt8]) {
        let newBytes = names[session] == nil ? session.count : 0
        guard count < Limits.endedWillsMax, byteCount + newBytes <= Limits.sessionNameBytesMax else { return }
        byteCount += newBytes
        if names[session, default: []].insert(name).inserted { count += 1 }
    }

    /// The session's record has these.
    mutating func keep(_ wills: [SessionRecord.LastWill], of session: [UInt8]) {
        guard let known = names[session] else { return }
        let left = known.intersection(wills.map(\.name))
        count -= known.count - left.count
        names[session] = left.isEmpty ? nil : left
        if left.isEmpty { byteCount -= session.count }
    }
}
