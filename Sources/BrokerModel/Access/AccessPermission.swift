/// What a line of an access file grants, or takes away.
public struct AccessPermission: OptionSet, Sendable, Hashable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Messages of the topic may reach the client.
    public static let read = AccessPermission(rawValue: 1)
    /// The client may publish to the topic.
    public static let write = AccessPermission(rawValue: 2)
    /// Neither, whatever another line of the same list grants.
    public static let deny = AccessPermission(rawValue: 4)
}

/// One line of an access file: a permission, and the topics that it is about.
public struct AccessRule: Sendable, Hashable {
    public let permission: AccessPermission
    public let filter: AccessFilter
    /// Where it stands in its file, counted from 1; 0 for nowhere.
    public let line: Int

    public init(_ permission: AccessPermission, _ filter: AccessFilter, line: Int = 0) {
        self.permission = permission
        self.filter = filter
        self.line = line
    }
}
