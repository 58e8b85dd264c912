package import MQTTCodec

/// What a client may subscribe to. Dynamic security says so; the lists accept every SUBSCRIBE as with mosquitto, unless the operator wants
/// refused what no delivery could follow on.
extension AccessPolicy {
    /// Whether a SUBSCRIBE to the filter is accepted.
    ///
    /// - Parameter asksLists: whether the lists are to be asked too, where dynamic security says nothing.
    package func maySubscribe(_ filter: TopicFilter, asksLists: Bool) -> Bool {
        if let rights {
            let verdict = rights.maySubscribe(filter, identity)
            if verdict != .deferred { return verdict == .granted }
        }
        guard hasLists else { return false }
        return !asksLists || filter.matchingBytes.withUnsafeBytes { maySubscribe(filter: $0) }
    }

    /// Whether an UNSUBSCRIBE of the filter is accepted.
    package func mayUnsubscribe(_ filter: TopicFilter) -> Bool {
        guard let rights else { return hasLists }
        let verdict = rights.mayUnsubscribe(filter, identity)
        return verdict == .deferred ? hasLists : verdict == .granted
    }

    /// Whether any topic that the filter matches may reach the client; `filter` is a checked topic filter, of a shared subscription the
    /// part behind $share/NAME/.
    ///
    /// Never refuses what could bring a message. What only several lines together deny is not seen, and accepted: its deliveries are
    /// denied one by one. O(lines that grant × lines that deny).
    public func maySubscribe(filter: UnsafeRawBufferPointer) -> Bool {
        // Of roles only a topic can tell.
        if rights != nil { return true }
        guard let asked = AccessFilter(filter, isPattern: false)?.levels else { return false }
        let ownDenied = denied(by: own)
        if overlaps(asked, readable(of: own), without: ownDenied) { return true }
        return overlaps(asked, readable(of: patterns), without: ownDenied + denied(by: patterns))
    }

    private func readable(of list: AccessRules?) -> [[AccessFilter.Level]] {
        (list?.rules ?? []).compactMap { $0.permission.contains(.read) ? $0.filter.levels(for: identity, .read) : nil }
    }

    private func denied(by list: AccessRules?) -> [[AccessFilter.Level]] {
        (list?.rules ?? []).compactMap { $0.permission.contains(.deny) ? $0.filter.levels(for: identity, .deny) : nil }
    }

    private func overlaps(
        _ asked: [AccessFilter.Level], _ granted: [[AccessFilter.Level]], without denied: [[AccessFilter.Level]]
    ) -> Bool {
        granted.contains { filter in
            guard let common = AccessOverlap.intersection(asked, filter) else { return false }
            return !denied.contains { AccessOverlap.covers($0, common) }
        }
    }
}
