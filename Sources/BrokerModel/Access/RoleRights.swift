public import MQTTCodec

/// What somebody may do by dynamic security: their roles in the order in which they are asked, and what holds where none says anything.
///
///     each role, its rules in their order ─► the first that matches decides    else the defaults, which never grant $CONTROL
///                                                                               else the other rules of the listener are asked
public struct RoleRights: Sendable {
    /// The rights of users whom no rule speaks of. `defaultACLAccess`
    public struct Defaults: Sendable, Equatable {
        public var publishes = false
        public var receives = true
        public var subscribes = false
        public var unsubscribes = true

        public init() {}
    }

    package let roles: [RoleRules]
    package let defaults: Defaults

    /// - Parameters:
    ///   - roles: the one that is asked first stands first.
    ///   - defaults: what holds where no role says anything.
    public init(roles: [RoleRules], defaults: Defaults) { (self.roles, self.defaults) = (roles, defaults) }

    @inline(__always)
    package func mayPublish(_ topic: UnsafeRawBufferPointer, _ identity: AccessIdentity) -> AccessVerdict {
        let verdict = mayPublishByRole(topic, identity)
        return verdict == .deferred ? fallback(defaults.publishes, topic) : verdict
    }

    /// Whether a role's rule lets the user publish; deferred where no rule says anything.
    @inline(__always)
    package func mayPublishByRole(_ topic: UnsafeRawBufferPointer, _ identity: AccessIdentity) -> AccessVerdict {
        for role in roles {
            let verdict = role.mayPublish(topic, identity)
            if verdict != .deferred { return verdict }
        }
        return .deferred
    }

    @inline(__always)
    package func mayReceive(_ topic: UnsafeRawBufferPointer, _ identity: AccessIdentity) -> AccessVerdict {
        for role in roles {
            let verdict = role.mayReceive(topic, identity)
            if verdict != .deferred { return verdict }
        }
        return fallback(defaults.receives, topic)
    }

    /// Whether the user may receive a topic that tells of clients, which no default grants.
    package func mayReceivePresence(_ topic: UnsafeRawBufferPointer, _ identity: AccessIdentity) -> AccessVerdict {
        roles.lazy.map { $0.mayReceivePresence(topic, identity) }.first { $0 != .deferred } ?? .deferred
    }

    /// A shared subscription is looked at as it is written, as mosquitto does: `$share/NAME/a` needs a rule of its own.
    package func maySubscribe(_ filter: TopicFilter, _ identity: AccessIdentity) -> AccessVerdict {
        verdict(filter, defaults.subscribes) { $0.maySubscribe($1, identity) }
    }

    package func mayUnsubscribe(_ filter: TopicFilter, _ identity: AccessIdentity) -> AccessVerdict {
        verdict(filter, defaults.unsubscribes) { $0.mayUnsubscribe($1, identity) }
    }

    private func verdict(
        _ filter: TopicFilter, _ isGrantedByDefault: Bool, _ ask: (RoleRules, TopicFilterText) -> AccessVerdict
    ) -> AccessVerdict {
        guard let text = TopicFilterText(filter.bytes) else { return .denied }
        for role in roles {
            let verdict = ask(role, text)
            if verdict != .deferred { return verdict }
        }
        return filter.matchingBytes.withUnsafeBytes { fallback(isGrantedByDefault, $0) }
    }

    /// What was never spoken of. Nobody administers the broker by default.
    @inline(__always)
    private func fallback(_ isGranted: Bool, _ topic: UnsafeRawBufferPointer) -> AccessVerdict {
        isGranted && !topic.starts(with: "$CONTROL".utf8) ? .granted : .deferred
    }
}

/// Knows what users may do, and changes while the broker runs. Asked when a client connects and when its rights have changed; for any thread.
public protocol RoleSource: AnyObject, Sendable {
    /// The rights of a user, of a client without a user name for nil; nil for a user that is not known here.
    func rights(of userName: EncodedString?) -> RoleRights?
}
