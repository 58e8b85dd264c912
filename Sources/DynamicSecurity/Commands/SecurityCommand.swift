/// What can be asked of dynamic security, by the names that mosquitto gives it. Their case does not matter.
enum SecurityCommand: String, CaseIterable {
    case setDefaultACLAccess, getDefaultACLAccess, getDetails
    case createClient, deleteClient, getClient, listClients, modifyClient, setClientPassword, setClientId, enableClient
    case disableClient, addClientRole, removeClientRole
    case createGroup, deleteGroup, getGroup, listGroups, modifyGroup, addGroupClient, removeGroupClient, addGroupRole
    case removeGroupRole, setAnonymousGroup, getAnonymousGroup
    case createRole, deleteRole, getRole, listRoles, modifyRole, addRoleACL, removeRoleACL

    init?(named name: String) {
        guard let command = Self.byFoldedName[name.lowercased()] else { return nil }
        self = command
    }

    private static let byFoldedName = Dictionary(uniqueKeysWithValues: allCases.map { ($0.rawValue.lowercased(), $0) })
}
