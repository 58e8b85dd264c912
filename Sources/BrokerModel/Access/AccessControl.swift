public import MQTTCodec

/// The access rules of a listener, which say who may read and write which topics: makes the policy of each session.
///
/// Loops share it: its lists are immutable, a new file on reload is a new one; its roles are asked anew for each policy.
public final class AccessControl: Sendable {
    private let users: [EncodedString: AccessRules]
    private let anonymous: AccessRules
    private let patterns: AccessRules
    private let spansLevels: Bool
    private let file: String?
    private let roles: (any RoleSource)?
    private let hasLists: Bool

    /// - Parameters:
    ///   - anonymous: the rules of clients without a user name.
    ///   - users: the rules of each user that has any.
    ///   - patterns: the rules that hold for everybody.
    ///   - spansLevels: whether a name with a `/` in it stands for as many levels where a pattern grants something, as in mosquitto 2.0. Else
    ///     such a name is granted nothing there, as in 2.1: user `a/b` would be let into the topics of user `a`.
    ///   - file: what the log calls the list; nil for one that comes from no file.
    public init(
        anonymous: [AccessRule], users: [EncodedString: [AccessRule]], patterns: [AccessRule], spansLevels: Bool = false,
        file: String? = nil
    ) {
        self.anonymous = AccessRules(anonymous)
        self.users = users.mapValues { AccessRules($0) }
        self.patterns = AccessRules(patterns)
        self.spansLevels = spansLevels
        self.file = file
        (roles, hasLists) = (nil, true)
    }

    /// - Parameters:
    ///   - roles: dynamic security, which is asked first.
    ///   - lists: what is asked where that says nothing; nil for a listener without an access list, where that is a no.
    public init(roles: any RoleSource, lists: AccessControl?) {
        users = lists?.users ?? [:]
        anonymous = lists?.anonymous ?? AccessRules([])
        patterns = lists?.patterns ?? AccessRules([])
        spansLevels = lists?.spansLevels ?? false
        file = lists?.file
        self.roles = roles
        hasLists = lists != nil
    }

    /// The policy for a client. A user whom no list names has the patterns only; without any, everything is denied.
    public func policy(userName: EncodedString?, clientIdentifier: EncodedString) -> AccessPolicy {
        let own = userName.map { users[$0] } ?? anonymous
        return AccessPolicy(
            own: own, patterns: patterns, clientIdentifier: clientIdentifier, userName: userName, spansLevels: spansLevels,
            file: file, rights: roles?.rights(of: userName), hasLists: hasLists)
    }
}
