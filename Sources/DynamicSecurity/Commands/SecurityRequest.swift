import JSON
import JSONReader
public import MQTTCodec
public import Security

/// A message of commands, `{"commands":[…]}`, read once.
public struct SecurityRequest: Sendable {
    let value: JSONValue?

    public init(_ payload: [UInt8]) { value = try? JSONValue(reading: payload) }

    /// The bytes of the passwords that its commands set, each once: whoever performs it needs their hashes, which take long to make.
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
