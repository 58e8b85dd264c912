import JSON
import MQTTCodec

/// Why a command is refused, in mosquitto's words.
struct Refusal: Error, Equatable {
    let words: String

    init(_ words: String) { self.words = words }
}

/// One command of a message: its arguments, as the commands ask for them. Names of members match whatever their case, as with mosquitto's reader.
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

    /// The rules in a list of them, of which those that are none are passed over.
    static func rules(_ list: [JSONValue]) -> SecurityModel.Role {
        var role = SecurityModel.Role()
        for item in list {
            guard let members = item.object, let type = members.any("acltype")?.string, let kind = kind(named: type),
                let text = members.any("topic")?.string, !text.isEmpty, let topic = EncodedString(text)
            else { continue }
            let rule = SecurityModel.Rule(
                topic: topic, priority: priority(members, otherwise: 0), allows: members.any("allow")?.boolean ?? false)
            _ = role.add(rule, to: kind)
        }
        return role
    }

    static func kind(named name: String) -> SecurityModel.RuleKind? {
        SecurityModel.RuleKind.allCases.first { $0.rawValue.lowercased() == name.lowercased() }
    }
}
