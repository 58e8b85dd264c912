/// Finds names that several nodes have for good: a node that was started again counts beside its earlier incarnation
/// for some seconds.
///
/// Pure: `now` is milliseconds on any clock that does not go back.
public struct NamesakeWatch: Sendable {
    /// Since when names are shared.
    private var since: [String: UInt64] = [:]
    private var told: Set<String> = []

    public init() {}

    /// Gives each of a `MemberTable`'s namesakes once; to be called every second or so.
    public mutating func look(_ namesakes: [(name: String, nodes: [NodeID])], now: UInt64) -> [(name: String, nodes: [NodeID])] {
        let names = Set(namesakes.map(\.name))
        since = since.filter { names.contains($0.key) }
        var found: [(name: String, nodes: [NodeID])] = []
        for (name, nodes) in namesakes {
            let first = since[name] ?? now
            since[name] = first
            guard now - min(now, first) >= Limits.namesakeMilliseconds, told.count < Limits.membersMax, told.insert(name).inserted
            else { continue }
            found.append((name, nodes))
        }
        return found
    }
}
