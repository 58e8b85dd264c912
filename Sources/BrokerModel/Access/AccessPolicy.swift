package import MQTTCodec

/// What one session's client may do, by mosquitto's rules:
///
///     dynamic security:       a role's rule, or a default, that says yes or no    else the lists
///     the user's own lines:   one that denies ─► no    one that grants ─► yes    else the patterns
///     the patterns:           one that denies ─► no    one that grants ─► yes    else no
///
/// Immutable and small: two lists that it shares with other sessions, and the names that stand for `%c` and `%u`. An answer costs one walk
/// down each tree: 0.05 µs of CPU with a hundred lines in force.
public final class AccessPolicy: Sendable {
    package let own: AccessRules?
    package let patterns: AccessRules?
    package let identity: AccessIdentity
    /// What dynamic security says; nil where there is none, or of a user that it does not know.
    package let rights: RoleRights?
    /// Whether there are lists at all.
    package let hasLists: Bool
    /// What the log calls the list.
    package let file: String?

    package init(
        own: AccessRules?, patterns: AccessRules?, clientIdentifier: EncodedString, userName: EncodedString?, spansLevels: Bool,
        file: String?, rights: RoleRights? = nil, hasLists: Bool = true
    ) {
        self.file = file
        self.rights = rights
        self.hasLists = hasLists
        let identity = AccessIdentity(clientIdentifier: clientIdentifier, userName: userName, spansLevels: spansLevels)
        self.own = own.flatMap { $0.isEmpty ? nil : $0 }
        self.patterns = identity.isDangerous ? nil : patterns.flatMap { $0.isEmpty ? nil : $0 }
        self.identity = identity
    }

    /// Whether the client may publish to a topic; `topic` is a checked topic name.
    public func mayPublish(topic: UnsafeRawBufferPointer) -> Bool {
        if let rights {
            let verdict = rights.mayPublish(topic, identity)
            if verdict != .deferred { return verdict == .granted }
        }
        return grants(.write, on: topic)
    }

    /// Whether a rule that names topics below `$SYS` lets the client publish to one of them, and not just a default.
    package func allowsPublishing(below topic: UnsafeRawBufferPointer) -> Bool {
        if let rights {
            let verdict = rights.mayPublishByRole(topic, identity)
            if verdict != .deferred { return verdict == .granted }
        }
        return grants(.write, on: topic)
    }

    /// Whether messages of a topic may reach the client; `topic` is a checked topic name.
    public func mayReceive(topic: UnsafeRawBufferPointer) -> Bool {
        if let rights {
            let verdict = rights.mayReceive(topic, identity)
            if verdict != .deferred { return verdict == .granted }
        }
        return grants(.read, on: topic)
    }

    /// Whether messages of a topic that tells of clients may reach the client: only a rule that begins with `$SYS/brokers/` grants that.
    package func mayReceivePresence(topic: UnsafeRawBufferPointer) -> Bool {
        if let rights {
            let verdict = rights.mayReceivePresence(topic, identity)
            if verdict != .deferred { return verdict == .granted }
        }
        func grants(_ rules: AccessRules?) -> Bool? {
            guard let rules else { return nil }
            if rules.permissions(for: topic, identity).contains(.deny) { return false }
            return rules.permissionsBelow("$SYS", "brokers", for: topic, identity).contains(.read) ? true : nil
        }
        return grants(own) ?? grants(patterns) ?? false
    }

    @inline(__always)
    private func grants(_ wanted: AccessPermission, on topic: UnsafeRawBufferPointer) -> Bool {
        if let own {
            let found = own.permissions(for: topic, identity)
            if found.contains(.deny) { return false }
            if found.contains(wanted) { return true }
        }
        guard let patterns else { return false }
        let found = patterns.permissions(for: topic, identity)
        return found.contains(wanted) && !found.contains(.deny)
    }
}
