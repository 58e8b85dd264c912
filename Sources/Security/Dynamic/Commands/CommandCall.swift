import BrokerModel
import JSON
import JSONReader
public import MQTTCodec

/// Why a command is refused, in mosquitto's words.
struct Refusal: Error, Equatable {
    let words: String

    init(_ words: String) { self.words = words }
}

/// One command of a message: its arguments, as the commands ask for them. Names of members match whatever their case,
/// as with mosquitto's reader.
struct CommandCall {
    let members: JSONMembers
    let command: SecurityCommand

    /// A text that has to be there.
    func text(_ name: String) throws(Refusal) -> String {
        guard let text = members.any(name)?.string else { throw Refusal("Invalid/missing \(name)") }
        return text
    }

    /// A text that may be left out, but be nothing else.
    ///
    /// - Parameter words: what messages call it.
    func optionalText(_ name: String, called words: String? = nil) throws(Refusal) -> String? {
        guard let value = members.any(name) else { return nil }
        guard let text = value.string else { throw Refusal("Invalid/missing \(words ?? name)") }
        return text
    }

    /// A text, or nil for what is left out or none.
    func anyText(_ name: String) -> String? { members.any(name)?.string }

    func flag(_ name: String, otherwise: Bool = false) -> Bool { members.any(name)?.boolean ?? otherwise }

    func number(_ name: String, otherwise: Int64) -> Int64 { members.any(name).flatMap { Self.number($0) } ?? otherwise }

    func priority(otherwise: Int64 = -1) -> Int { Self.priority(members, otherwise: otherwise) }

    static func priority(_ members: JSONMembers, otherwise: Int64 = -1) -> Int {
        SecurityModel.bounded(members.any("priority").flatMap { number($0) } ?? otherwise)
    }

    /// A number as mosquitto reads it: without its fraction.
    private static func number(_ value: JSONValue) -> Int64? {
        if case .number(let number) = value { return Int64(exactly: number.rounded(.towardZero)) ?? (number < 0 ? .min : .max) }
        return value.integer
    }

    // MARK: Names

    func user() throws(Refusal) -> EncodedString { try Self.name(try text("username"), "Username") }

    func group() throws(Refusal) -> EncodedString { try Self.name(try text("groupname"), "Group name") }

    func role() throws(Refusal) -> EncodedString { try Self.name(try text("rolename"), "Role name") }

    /// A name for something new.
    func newName(_ member: String, _ kind: String) throws(Refusal) -> EncodedString {
        let text = try text(member)
        guard !text.isEmpty else { throw Refusal("Empty \(member)") }
        return try Self.name(text, kind)
    }

    func texts() throws(Refusal) -> SecurityModel.Texts {
        SecurityModel.Texts(name: try optionalText("textname"), description: try optionalText("textdescription"))
    }

    /// UTF-8 as MQTT wants it, without control characters and what is no character.
    static func name(_ text: String, _ kind: String) throws(Refusal) -> EncodedString {
        let isLegal = text.unicodeScalars.allSatisfy { scalar in
            scalar.value >= 0x20 && !(0x7f...0x9f).contains(scalar.value) && !(0xfdd0...0xfdef).contains(scalar.value)
                && scalar.value & 0xfffe != 0xfffe
        }
        guard isLegal, let name = EncodedString(text) else { throw Refusal("\(kind) not valid UTF-8") }
        return name
    }

    /// Changes a mount point as the command says, if it says anything of it: an empty one is none.
    func setMountPoint(_ mountPoint: inout MountPoint?) throws(Refusal) {
        guard let value = members.any("mountpoint"), value != .null else { return }
        guard let text = value.string else { throw Refusal("Invalid mountpoint") }
        mountPoint = nil
        if text.isEmpty { return }
        guard let made = MountPoint(checked: text) else {
            throw Refusal("Invalid mountpoint: + and # do not belong there, and of places only %u, %c and %{client_attrs.NAME}")
        }
        mountPoint = made
    }

    /// The roles that a command gives; nil if it says nothing of roles.
    func roles(of model: SecurityModel, orInvalid words: String) throws(Refusal) -> RankedNames? {
        guard let value = members.any("roles") else { return nil }
        guard let list = value.array else { throw Refusal(words) }
        var roles = RankedNames()
        for item in list {
            guard let members = item.object, let text = members.any("rolename")?.string else { throw Refusal(words) }
            guard let name = EncodedString(text), model.roles[name] != nil else { throw Refusal("Role not found") }
            _ = roles.add(name, priority: Self.priority(members))
        }
        return roles
    }

    static let invalidRoles = "'roles' not an array or missing/invalid rolename"

    /// The rules in a list of them, of which those that are none are passed over, as with mosquitto. One whose
    /// condition cannot be read is not: without it the rule would say something else.
    static func rules(_ list: [JSONValue]) throws(Refusal) -> SecurityModel.Role {
        var role = SecurityModel.Role()
        for item in list {
            guard let members = item.object, let type = members.any("acltype")?.string, let kind = kind(named: type),
                let text = members.any("topic")?.string, !text.isEmpty, let topic = EncodedString(text)
            else { continue }
            let rule = SecurityModel.Rule(
                topic: topic, priority: priority(members, otherwise: 0), allows: members.any("allow")?.boolean ?? false,
                condition: try condition(members, of: kind))
            _ = role.add(rule, to: kind)
        }
        return role
    }

    /// What a rule asks beside its topic: `"qos": [0, 1], "retain": false, "from": ["10.0.0.0/8"]`.
    static func condition(_ members: JSONMembers, of kind: SecurityModel.RuleKind) throws(Refusal) -> SecurityModel.Condition {
        var condition = SecurityModel.Condition()
        if let value = members.any("qos"), value != .null {
            var levels: Set<QoS> = []
            for level in value.array ?? [value] {
                guard let number = level.integer, let qos = UInt8(exactly: number).flatMap({ QoS(rawValue: $0) }) else {
                    throw Refusal("Invalid qos: expected a list of 0, 1 and 2")
                }
                levels.insert(qos)
            }
            guard !levels.isEmpty else { throw Refusal("Invalid qos: expected a list of 0, 1 and 2") }
            if levels.count < 3 { condition.qos = levels.sorted { $0.rawValue < $1.rawValue } }
        }
        if let value = members.any("retain"), value != .null {
            guard let retain = value.boolean else { throw Refusal("Invalid retain: expected true or false") }
            condition.retain = retain
        }
        if kind != .publishClientSend, !condition.qos.isEmpty || condition.retain != nil {
            throw Refusal("qos and retain are for publishClientSend only")
        }
        guard let value = members.any("from"), value != .null else { return condition }
        for item in value.array ?? [value] {
            guard let network = item.string.flatMap({ AddressRange($0) }) else {
                throw Refusal("Invalid from: expected addresses or networks, such as 10.0.0.0/8")
            }
            condition.networks.append(network)
        }
        guard !condition.networks.isEmpty else { throw Refusal("Invalid from: expected addresses or networks, such as 10.0.0.0/8") }
        return condition
    }

    /// Whether a command says anything of a condition.
    var hasCondition: Bool { ["qos", "retain", "from"].contains { members.any($0) != nil } }

    static func kind(named name: String) -> SecurityModel.RuleKind? {
        SecurityModel.RuleKind.allCases.first { $0.rawValue.lowercased() == name.lowercased() }
    }
}

/// A message of commands, `{"commands":[…]}`, read once.
public struct SecurityRequest: Sendable {
    let value: JSONValue?

    public init(_ payload: [UInt8]) { value = try? JSONValue(reading: payload) }

    /// The bytes of the passwords that its commands set, each once: whoever performs it needs their hashes, which take
    /// long to make.
    public var passwords: [[UInt8]] {
        var passwords: [[UInt8]] = []
        var seen: Set<[UInt8]> = []
        for command in value?.object?.any("commands")?.array ?? [] {
            guard let members = command.object, let name = members.any("command")?.string,
                let known = SecurityCommand(named: name), [.createClient, .modifyClient, .setClientPassword].contains(known),
                let password = members.any("password")?.string.map({ Array($0.utf8) }), !password.isEmpty,
                seen.insert(password).inserted
            else { continue }
            passwords.append(password)
        }
        return passwords
    }

    /// The one user whose connections it asks for; nil if it asks for others too.
    public var onlyUser: EncodedString? {
        guard let commands = value?.object?.any("commands")?.array, commands.count == 1, let members = commands[0].object,
            members.any("command")?.string.flatMap({ SecurityCommand(named: $0) }) == .getClient
        else { return nil }
        return members.any("username")?.string.flatMap { EncodedString($0) }
    }

    /// Whether an answer to it tells from where clients are connected.
    public var asksForConnections: Bool {
        (value?.object?.any("commands")?.array ?? []).contains { command in
            guard let members = command.object, let name = members.any("command")?.string else { return false }
            switch SecurityCommand(named: name) {
            case .getClient: return true
            case .listClients: return members.any("verbose")?.boolean ?? false
            default: return false
            }
        }
    }
}

/// What commands are performed with.
public struct SecurityContext {
    /// The client that asks, as the log has it.
    public var clientIdentifier: String
    public var userName: String?
    /// Makes the hash of a password; nil when there is no memory for it.
    public var hash: (String) -> StoredPassword?
    /// The addresses from which a user is connected.
    public var addresses: (EncodedString) -> [String]

    public init(
        clientIdentifier: String, userName: String?, hash: @escaping (String) -> StoredPassword?,
        addresses: @escaping (EncodedString) -> [String] = { _ in [] }
    ) {
        (self.clientIdentifier, self.userName) = (clientIdentifier, userName)
        (self.hash, self.addresses) = (hash, addresses)
    }
}

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
