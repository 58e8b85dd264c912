/// One line of an access file: a permission, and the topics that it is about.
public struct AccessRule: Sendable, Hashable {
    public let permission: AccessPermission
    public let filter: AccessFilter

    public init(_ permission: AccessPermission, _ filter: AccessFilter) {
        self.permission = permission
        self.filter = filter
    }
}
