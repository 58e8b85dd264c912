import Cluster

/// Wills that stand in records although they are over: this node has published them without the cluster, or they are not to be published any more
/// and the record could not be told yet. Nobody publishes them by the record; the next one that is written has them no more.
///
/// Belongs to a `SessionDesk`.
struct EndedWills {
    private var names: [[UInt8]: Set<WillName>] = [:]
    private(set) var count = 0

    func contains(_ key: WillJob.Key) -> Bool { names[key.session]?.contains(key.name) ?? false }

    /// Beyond `Limits.endedWillsMax` nothing is kept.
    mutating func insert(_ name: WillName, of session: [UInt8]) {
        guard count < Limits.endedWillsMax else { return }
        if names[session, default: []].insert(name).inserted { count += 1 }
    }

    /// The session's record has these.
    mutating func keep(_ wills: [SessionRecord.LastWill], of session: [UInt8]) {
        guard let known = names[session] else { return }
        let left = known.intersection(wills.map(\.name))
        count -= known.count - left.count
        names[session] = left.isEmpty ? nil : left
    }
}
