/// Saying why something is denied. Walks through all lines: for the log, and not on the way of a message.
extension AccessPolicy {
    /// Which line is to blame, as a part of a sentence.
    ///
    /// - Parameters:
    ///   - wanted: what the client may not do.
    ///   - topic: a checked topic name or filter.
    package func reason(denying wanted: AccessPermission, topic: UnsafeRawBufferPointer) -> String {
        if !hasLists || rights != nil, let reason = roleReason(denying: wanted, topic: topic) { return reason }
        let file = file ?? "the access list"
        guard let asked = AccessFilter(topic, isPattern: false)?.levels, let rule = denial(own, asked) ?? denial(patterns, asked)
        else {
            return "no line of \(file) allows it"
        }
        return rule.line > 0 ? "line \(rule.line) of \(file) denies it" : "\(file) denies it"
    }

    /// What dynamic security says against it; nil when it leaves that to the lists.
    private func roleReason(denying wanted: AccessPermission, topic: UnsafeRawBufferPointer) -> String? {
        let culprit = rights?.roles.first { role in
            let verdict = wanted == .write ? role.mayPublish(topic, identity) : role.mayReceive(topic, identity)
            return verdict == .denied
        }
        if let culprit { return "the role \(culprit.name) denies it" }
        if hasLists { return nil }
        return rights == nil ? "dynamic security does not know the user" : "no role allows it"
    }

    private func denial(_ list: AccessRules?, _ asked: [AccessFilter.Level]) -> AccessRule? {
        (list?.rules ?? []).first { rule in
            guard rule.permission.contains(.deny), let levels = rule.filter.levels(for: identity, .deny) else { return false }
            return AccessOverlap.covers(levels, asked)
        }
    }
}
