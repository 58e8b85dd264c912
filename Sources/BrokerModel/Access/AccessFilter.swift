/// The topics that a line of an access file is about: a topic filter, in which a pattern's level may stand for the client itself.
///
///     topic   sensors/+/temperature          pattern   devices/%c/#          pattern   users/%u/inbox
public struct AccessFilter: Sendable, Hashable {
    package enum Level: Sendable, Hashable {
        case literal([UInt8])
        /// `+`
        case single
        /// `#`, which is always the last.
        case rest
        /// `%c`, in patterns only: the client identifier. One that holds a `/` stands for as many levels, where it may.
        case clientIdentifier
        /// `%u`, in patterns only: the user name.
        case userName
    }

    package let levels: [Level]

    /// Takes a filter as the file has it; nil for one that is empty, or whose wildcards do not fill their levels.
    public init?(_ bytes: some Collection<UInt8>, isPattern: Bool) {
        guard !bytes.isEmpty else { return nil }
        var levels: [Level] = []
        for part in bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            guard levels.last != .rest else { return nil }
            let text = Array(part)
            switch text {
            case Self.plus: levels.append(.single)
            case Self.hash: levels.append(.rest)
            case Self.client where isPattern: levels.append(.clientIdentifier)
            case Self.user where isPattern: levels.append(.userName)
            default:
                guard !text.contains(Self.plus[0]), !text.contains(Self.hash[0]) else { return nil }
                levels.append(.literal(text))
            }
        }
        self.levels = levels
    }

    /// Whether a level holds `%c` or `%u` without being just that: such a level is taken as it is written, which is rarely meant.
    public var hasPartialSubstitution: Bool {
        levels.contains { level in
            guard case .literal(let text) = level else { return false }
            return Self.occurs("%c", in: text) || Self.occurs("%u", in: text)
        }
    }

    /// Whether it stands for different topics for different clients.
    public var isPersonal: Bool { levels.contains(.clientIdentifier) || levels.contains(.userName) }

    /// The filter for one client, without `%c` and `%u`; nil when one of them stands for nothing, or may not say what the filter is for.
    package func levels(for identity: AccessIdentity, _ permission: AccessPermission) -> [Level]? {
        guard isPersonal else { return levels }
        var concrete: [Level] = []
        for level in levels {
            let value: [UInt8]
            switch level {
            case .clientIdentifier:
                guard identity.clientIdentifierPermissions.contains(permission) else { return nil }
                value = identity.clientIdentifier
            case .userName:
                guard identity.userNamePermissions.contains(permission) else { return nil }
                value = identity.userName
            case .literal, .single, .rest:
                concrete.append(level)
                continue
            }
            // Nothing, or a name with which a client would make its way into topics that begin with $.
            guard !value.isEmpty, !concrete.isEmpty || value.first != UInt8(ascii: "$") else { return nil }
            concrete += value.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { .literal(Array($0)) }
        }
        return concrete
    }

    private static func occurs(_ word: String, in text: [UInt8]) -> Bool {
        let word = Array(word.utf8)
        return text.indices.dropLast().contains { text[$0] == word[0] && text[$0 + 1] == word[1] }
    }

    private static let plus = Array("+".utf8)
    private static let hash = Array("#".utf8)
    private static let client = Array("%c".utf8)
    private static let user = Array("%u".utf8)
}
