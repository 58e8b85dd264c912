/// The topics that a line of an access file is about: a topic filter, in which a pattern's level may stand for the
/// client itself.
///
///     topic   sensors/+/temperature          pattern   devices/%c/#          pattern   floors/%{client_attrs.floor}/#
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
        /// `%{client_attrs.NAME}`, in patterns only: what the login has said of the client under that name.
        case attribute([UInt8])
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
            case _ where isPattern && Self.attributeName(text) != nil: levels.append(.attribute(Self.attributeName(text) ?? []))
            default:
                guard !text.contains(Self.plus[0]), !text.contains(Self.hash[0]) else { return nil }
                levels.append(.literal(text))
            }
        }
        self.levels = levels
    }

    /// Whether a level holds `%c`, `%u` or `%{` without being just that: such a level is taken as it is written, which
    /// is rarely meant.
    public var hasPartialSubstitution: Bool {
        levels.contains { level in
            guard case .literal(let text) = level else { return false }
            return ["%c", "%u", "%{"].contains { Self.occurs($0, in: text) }
        }
    }

    /// Whether a level names an attribute of the client's, or seems to.
    public var mentionsAttributes: Bool {
        levels.contains { level in
            if case .literal(let text) = level { return Self.occurs("%{", in: text) }
            if case .attribute = level { return true }
            return false
        }
    }

    /// Whether it stands for different topics for different clients.
    public var isPersonal: Bool {
        levels.contains { level in
            switch level {
            case .clientIdentifier, .userName, .attribute: true
            case .literal, .single, .rest: false
            }
        }
    }

    /// The filter for one client, without `%c`, `%u` and attributes; nil when one of them stands for nothing, or may
    /// not say what the filter is for.
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
            case .attribute(let name):
                if identity.isAnyone {
                    guard permission != .deny else { return nil }
                    concrete.append(.single)
                    continue
                }
                guard let known = identity.attribute(name), known.permissions.contains(permission) else { return nil }
                value = known.value
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

    /// `NAME` of `%{client_attrs.NAME}`; nil of anything else.
    private static func attributeName(_ text: [UInt8]) -> [UInt8]? {
        guard text.starts(with: attributeStart), text.last == UInt8(ascii: "}"), text.count > attributeStart.count + 1 else {
            return nil
        }
        let name = text[attributeStart.count..<(text.count - 1)]
        return name.contains(UInt8(ascii: "}")) ? nil : Array(name)
    }

    private static func occurs(_ word: String, in text: [UInt8]) -> Bool {
        let word = Array(word.utf8)
        return text.indices.dropLast().contains { text[$0] == word[0] && text[$0 + 1] == word[1] }
    }

    private static let plus = Array("+".utf8)
    private static let hash = Array("#".utf8)
    private static let client = Array("%c".utf8)
    private static let user = Array("%u".utf8)
    private static let attributeStart = Array("%{client_attrs.".utf8)
}

/// Topic filters as sets of topics. `+` and `#` at the start do not reach into topics that begin with $.
package enum AccessOverlap {
    package typealias Level = AccessFilter.Level

    /// The filter of the topics that both match; nil when there is none. Two filters have always one such filter at
    /// most.
    package static func intersection(_ left: [Level], _ right: [Level]) -> [Level]? {
        var common: [Level] = []
        var index = 0
        while true {
            let (first, second) = (level(left, index), level(right, index))
            switch (first, second) {
            case (nil, nil): return nonempty(common)
            case (.rest, _): return isHidden(second, at: index) ? nil : nonempty(common + right.dropFirst(index))
            case (_, .rest): return isHidden(first, at: index) ? nil : nonempty(common + left.dropFirst(index))
            case (nil, _), (_, nil): return nil
            case (.single, let other?), (let other?, .single):
                if isHidden(other, at: index) { return nil }
                common.append(other)
            case (let one?, let other?):
                guard one == other else { return nil }
                common.append(one)
            }
            index += 1
        }
    }

    /// Whether the first filter matches every topic that the second one matches.
    package static func covers(_ wide: [Level], _ narrow: [Level]) -> Bool {
        // Every topic has a first level: # and +/# are the same.
        let narrow = narrow == [.rest] ? [.single, .rest] : narrow
        var index = 0
        while true {
            let (first, second) = (level(wide, index), level(narrow, index))
            switch (first, second) {
            case (nil, nil): return true
            case (.rest, _): return !isHidden(second, at: index)
            case (nil, _), (_, nil), (_, .rest): return false
            case (.single, _):
                if isHidden(second, at: index) { return false }
            default:
                guard first == second else { return false }
            }
            index += 1
        }
    }

    /// No topic is empty: `/#` and `+` have none in common.
    private static func nonempty(_ levels: [Level]) -> [Level]? {
        levels == [.literal([])] ? nil : levels
    }

    private static func level(_ levels: [Level], _ index: Int) -> Level? {
        index < levels.count ? levels[index] : nil
    }

    /// Whether a wildcard at this place does not reach the level, because a topic begins with it and it begins with $.
    private static func isHidden(_ level: Level?, at index: Int) -> Bool {
        guard index == 0, case .literal(let text) = level else { return false }
        return text.first == UInt8(ascii: "$")
    }
}
