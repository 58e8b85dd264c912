public import MQTTCodec

/// What somebody asks of access rules.
public enum AccessAction: String, Sendable, CaseIterable {
    case publish
    case subscribe
    /// That messages of a topic reach the client.
    case receive
}

/// What access rules answer, and who has decided it.
public struct AccessExplanation: Sendable, Equatable {
    public enum Decider: Sendable, Equatable {
        /// A line of the access file, counted from 1.
        case line(Int)
        /// No line of the access file allows it.
        case noLine
        /// A role of dynamic security.
        case role(String)
        /// No role says anything: the default access of dynamic security does.
        case defaultAccess
        /// No role allows it, and there is no access file.
        case noRole
        /// Dynamic security does not know the user, and there is no access file.
        case unknownUser
    }

    public let isAllowed: Bool
    public let decider: Decider
    /// The access file, of `line` and `noLine`.
    public let file: String?

    public init(isAllowed: Bool, decider: Decider, file: String?) {
        (self.isAllowed, self.decider, self.file) = (isAllowed, decider, file)
    }
}

/// Saying what decides. Walks through all rules: for administrators, and not on the way of a message.
extension AccessPolicy {
    /// What decides whether the client may publish to a topic, or receive its messages; `topic` is one without wildcards.
    public func explanation(of action: AccessAction, topic: TopicName) -> AccessExplanation {
        let wanted: AccessPermission = action == .publish ? .write : .read
        return topic.bytes.withUnsafeBytes { bytes in
            let isAllowed = action == .publish ? mayPublish(topic: bytes) : mayReceive(topic: bytes)
            let byRole = explanationByRole(isAllowed) { role in
                action == .publish ? role.mayPublish(bytes, identity) : role.mayReceive(bytes, identity)
            }
            if let byRole { return byRole }
            let isDefault = action == .publish ? rights?.defaults.publishes : rights?.defaults.receives
            if isAllowed, isDefault == true, !bytes.starts(with: "$CONTROL".utf8) {
                return AccessExplanation(isAllowed: true, decider: .defaultAccess, file: nil)
            }
            return explanationByLists(isAllowed, wanted, AccessFilter(bytes, isPattern: false)?.levels ?? [])
        }
    }

    /// What decides whether the client may subscribe to a filter.
    ///
    /// Where lists decide it says what could come of it: the SUBSCRIBE itself they refuse only where `martlet_acl_check_subscribe` wants so.
    public func explanation(ofSubscribing filter: TopicFilter) -> AccessExplanation {
        let isAllowed = maySubscribe(filter, asksLists: true)
        if let text = TopicFilterText(filter.bytes),
            let byRole = explanationByRole(isAllowed, { $0.maySubscribe(text, identity) })
        {
            return byRole
        }
        return filter.matchingBytes.withUnsafeBytes { bytes in
            if isAllowed, rights?.defaults.subscribes == true, !bytes.starts(with: "$CONTROL".utf8) {
                return AccessExplanation(isAllowed: true, decider: .defaultAccess, file: nil)
            }
            return explanationByLists(isAllowed, .read, AccessFilter(bytes, isPattern: false)?.levels ?? [])
        }
    }

    /// The role that decides; nil where none does.
    private func explanationByRole(_ isAllowed: Bool, _ ask: (RoleRules) -> AccessVerdict) -> AccessExplanation? {
        let decider = rights?.roles.first { ask($0) != .deferred }
        return decider.map { AccessExplanation(isAllowed: isAllowed, decider: .role($0.name.description), file: nil) }
    }

    /// The line that decides. `asked` holds wildcards of a subscription only.
    private func explanationByLists(
        _ isAllowed: Bool, _ wanted: AccessPermission, _ asked: [AccessFilter.Level]
    ) -> AccessExplanation {
        guard hasLists else {
            return AccessExplanation(isAllowed: isAllowed, decider: rights == nil ? .unknownUser : .noRole, file: nil)
        }
        let line =
            isAllowed
            ? firstLine(that: wanted, in: own) { AccessOverlap.intersection($0, asked) != nil }
                ?? firstLine(that: wanted, in: patterns) { AccessOverlap.intersection($0, asked) != nil }
            : firstLine(that: .deny, in: own) { AccessOverlap.covers($0, asked) }
                ?? firstLine(that: .deny, in: patterns) { AccessOverlap.covers($0, asked) }
        return AccessExplanation(isAllowed: isAllowed, decider: line.map { .line($0) } ?? .noLine, file: file)
    }

    private func firstLine(
        that says: AccessPermission, in list: AccessRules?, _ matches: ([AccessFilter.Level]) -> Bool
    ) -> Int? {
        list?.rules.first { rule in
            guard rule.permission.contains(says), let levels = rule.filter.levels(for: identity, says) else { return false }
            return matches(levels)
        }?.line
    }
}
