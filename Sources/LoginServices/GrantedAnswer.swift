internal import BrokerModel
internal import Bytes
internal import JSON
internal import JSONReader
internal import JSONWebTokens
internal import MQTTCodec
internal import Platform
internal import Security

/// What a service answers about a login, in the JSON of EMQX's HTTP authentication:
///
///     {"result": "allow", "is_superuser": false, "client_attrs": {"floor": "2"}, "expire_at": 1800000000,
///      "acl": [{"permission": "allow", "action": "publish", "topic": "sensors/${clientid}/#"}]}
struct GrantedAnswer {
    enum Verdict {
        case allowed
        case denied
        case ignored
    }

    var verdict = Verdict.ignored
    var isSuperuser = false
    var attributes: [TokenAttribute] = []
    /// In milliseconds since 1970.
    var expiresAt: UInt64?
    /// nil where the service says nothing of it.
    var access: TokenAccess?

    /// Throws what is wrong with it, to follow "answers".
    init(_ body: [UInt8]) throws(GrantedAnswerError) {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(reading: body, bytesMax: Limits.answerBytesMax)
        } catch {
            throw GrantedAnswerError("what is no JSON: \(error)")
        }
        guard let object = value.object else { throw GrantedAnswerError("JSON that is no object") }
        switch object["result"]?.string {
        case "allow"?: verdict = .allowed
        case "deny"?: verdict = .denied
        case "ignore"?: verdict = .ignored
        default: throw GrantedAnswerError("without a \"result\" that is allow, deny or ignore")
        }
        if let superuser = object["is_superuser"], superuser != .null {
            guard let superuser = superuser.boolean else {
                throw GrantedAnswerError("an \"is_superuser\" that is neither true nor false")
            }
            isSuperuser = superuser
        }
        if let end = object["expire_at"], end != .null {
            guard let end = end.integer, end > 0, end < Int64.max / 1000 else {
                throw GrantedAnswerError("an \"expire_at\" that is no number of seconds since 1970")
            }
            expiresAt = UInt64(end) * 1000
        }
        if let attributes = object["client_attrs"], attributes != .null { self.attributes = try Self.attributes(attributes) }
        guard let list = object["acl"], list != .null else { return }
        do throws(TokenRefusal) {
            access = try TokenAccess(list, claim: "acl")
        } catch {
            throw GrantedAnswerError(error)
        }
    }

    /// - Parameters:
    ///   - source: what the log calls whoever answered.
    ///   - client: whom it is about.
    func grant(source: String, for client: LoginClient) throws(GrantedAnswerError) -> LoginGrant {
        var rights: RoleRights?
        if let access {
            do throws(TokenRefusal) {
                rights = try client.rights(access, name: EncodedString(source) ?? EncodedString(), client.userName, attributes)
            } catch {
                throw GrantedAnswerError(error)
            }
        }
        return LoginGrant(
            source: source, rights: rights, decidesAll: access?.decidesAll ?? false, isSuperuser: isSuperuser,
            attributes: attributes.map { ($0.name, $0.value) }, expiresAt: expiresAt)
    }

    private static func attributes(_ value: JSONValue) throws(GrantedAnswerError) -> [TokenAttribute] {
        guard let members = value.object, members.names.count <= Limits.attributesMax else {
            throw GrantedAnswerError("\"client_attrs\" that are no object of at most \(Limits.attributesMax) texts")
        }
        var attributes: [TokenAttribute] = []
        for name in members.names {
            guard let text = members[name]?.string else { throw GrantedAnswerError("\"client_attrs\" that are not all texts") }
            attributes.append(TokenAttribute(name: name, value: text))
        }
        return attributes
    }
}

/// What is wrong with an answer, to follow "answers".
struct GrantedAnswerError: Error, Equatable, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    /// Of rules that cannot be kept.
    init(_ refusal: TokenRefusal) { description = "what is not accepted: \(refusal)" }
}
