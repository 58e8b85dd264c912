/// Refusing at SUBSCRIBE what no delivery could follow on. mosquitto accepts every SUBSCRIBE; this is for those who ask for more.
extension AccessPolicy {
    /// Whether any topic that the filter matches may reach the client; `filter` is a checked topic filter, of a shared subscription the
    /// part behind $share/NAME/.
    ///
    /// Never refuses what could bring a message. What only several lines together deny is not seen, and accepted: its deliveries are
    /// denied one by one. O(lines that grant × lines that deny).
    public func maySubscribe(filter: UnsafeRawBufferPointer) -> Bool {
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
