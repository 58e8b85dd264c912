internal import BrokerModel
internal import JSONWebTokens
internal import MQTTCodec
internal import Platform
internal import Security

/// Who logs in, and what is made of the rules that its token or a service has for it.
struct LoginClient: Sendable {
    let userName: EncodedString?
    let clientIdentifier: EncodedString
    /// As the log prints it.
    let address: String

    init(_ userName: EncodedString?, _ clientIdentifier: EncodedString, address: String) {
        (self.userName, self.clientIdentifier, self.address) = (userName, clientIdentifier, address)
    }

    init(_ question: LoginQuestion) {
        self.init(question.userName, question.clientIdentifier, address: question.info.address)
    }

    var bearer: TokenBearer {
        TokenBearer(userName: userName?.description, clientIdentifier: clientIdentifier.description)
    }

    /// What the core is told of a login.
    ///
    /// - Parameter leewaySeconds: as long as a token is taken past its end, the connection stays.
    func answer(
        _ login: TokenLogin, source: String, leewaySeconds: Int64, _ roles: TokenLoginSource.RoleLookup?
    ) throws(TokenRefusal) -> LoginAnswer {
        var userName: EncodedString?
        if let name = login.userName {
            userName = EncodedString(name)
            if userName == nil { throw TokenRefusal(.claims, "its user name is longer than 65535 bytes, or holds a NUL") }
        }
        var rights: RoleRights?
        if let access = login.access {
            rights = try self.rights(access, name: Self.listName, userName ?? self.userName, login.attributes)
        }
        if let roles, !login.roles.isEmpty {
            let added = roles(login.roles.compactMap { EncodedString($0) })
            let base = rights ?? GrantedRule.rights([], name: Self.listName)
            rights = base.map { RoleRights(roles: $0.roles + added, defaults: $0.defaults) }
        }
        let grant = LoginGrant(
            source: source, rights: rights, decidesAll: login.access?.decidesAll ?? false, isSuperuser: login.isSuperuser,
            attributes: login.attributes.map { ($0.name, $0.value) },
            expiresAt: login.expiresAt.map { UInt64($0 + leewaySeconds) * 1000 })
        return .allowed(userName: userName, grant)
    }

    private static let listName: EncodedString = "of its token"

    /// The rules of an `acl` as they hold for this client.
    ///
    /// - Parameters:
    ///   - access: what the `acl` says.
    ///   - name: what the log calls it.
    ///   - userName: the one that was proved.
    ///   - attributes: `${client_attrs.NAME}` in topics.
    func rights(
        _ access: TokenAccess, name: EncodedString, _ userName: EncodedString?, _ attributes: [TokenAttribute]
    ) throws(TokenRefusal) -> RoleRights {
        var rules: [GrantedRule] = []
        for rule in access.rules {
            guard try isMeant(by: rule.conditions.addresses) else { continue }
            guard let filter = try filled(rule, userName, attributes) else { continue }
            rules.append(
                GrantedRule(
                    allows: rule.allows, isForPublishing: rule.action != .subscribe, isForSubscribing: rule.action != .publish,
                    filter: filter, isLiteral: rule.isLiteral, qos: rule.conditions.qos.sorted().compactMap { QoS(rawValue: $0) },
                    retain: rule.conditions.retain))
        }
        guard let rights = GrantedRule.rights(rules, name: name) else {
            throw TokenRefusal(.claims, "its access rules hold a topic whose wildcards do not fill their levels")
        }
        return rights
    }

    private func isMeant(by addresses: [String]) throws(TokenRefusal) -> Bool {
        var isMeant = addresses.isEmpty
        for text in addresses {
            guard let range = AddressRange(text) else {
                throw TokenRefusal(.claims, "its access rules name an address that is none: \(StrangersText.shown(text))")
            }
            isMeant = isMeant || (AddressRange(address) != nil && range.contains(address))
        }
        return isMeant
    }

    /// A topic filter that this client alone is allowed by; nil for none, and for what would reach further by what a
    /// name holds.
    func filter(_ topic: String) -> AccessFilter? {
        guard let text = try? filled(TokenAccess.Rule(allows: true, action: .all, topic: topic), userName, []) else { return nil }
        return AccessFilter(Array(text.utf8), isPattern: true)
    }

    /// A rule's filter, with what stands for the client in a part of a level filled in; what fills a level is the
    /// core's. Nil for a rule that says nothing for this client: an allowing one must not reach further by what a name
    /// holds.
    private func filled(
        _ rule: TokenAccess.Rule, _ userName: EncodedString?, _ attributes: [TokenAttribute]
    ) throws(TokenRefusal) -> String? {
        var levels: [String] = []
        for level in rule.topic.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            var text = String(decoding: level, as: UTF8.self)
            if ["%c", "%u", "${clientid}", "${username}"].contains(text) {
                levels.append(text)
                continue
            }
            var values = [("%c", clientIdentifier.description), ("${clientid}", clientIdentifier.description)]
            values += [("%u", userName?.description ?? ""), ("${username}", userName?.description ?? "")]
            values += attributes.map { ("${client_attrs.\($0.name)}", $0.value) }
            for (place, value) in values where text.holds(place) {
                let isSafe = !value.isEmpty && !value.utf8.contains { [UInt8(ascii: "+"), UInt8(ascii: "#"), 0].contains($0) }
                guard isSafe, !rule.allows || !value.utf8.contains(UInt8(ascii: "/")) else { return nil }
                text = text.replacing(every: place, by: value)
            }
            if text.holds("${") {
                throw TokenRefusal(.claims, "its access rules name \(StrangersText.shown(text)), which nothing stands for")
            }
            levels.append(text)
        }
        return levels.joined(separator: "/")
    }
}
