package import JSON

/// What a token must be to be accepted, and what is taken from it: what the operator has said.
package struct TokenRules: Sendable, Equatable {
    /// The algorithms that are taken; no other, whatever the keys are.
    package var algorithms: [SignatureAlgorithm] = []
    /// `iss` must be one of these, if there are any.
    package var issuers: [String] = []
    /// `aud` must hold one of these, if there are any. A token that has an audience is refused where there are none.
    /// [RFC 7519, section 4.1.3]
    package var audiences: [String] = []
    /// What else must stand in it.
    package var required: [RequiredClaim] = [RequiredClaim(name: "exp")]
    /// How far the clock of whoever made the token may be off, in seconds.
    package var leewaySeconds: Int64 = 30
    /// The claim with the user's name; nil to leave the name that the client gives.
    package var userNameClaim: String? = "sub"
    /// The claim that must be the Client Identifier; nil for none.
    package var clientIdentifierClaim: String?
    /// The claim with the names of roles: a text with blanks between them, or an array.
    package var rolesClaim: String?
    /// The claim with access rules.
    package var accessClaim: String? = "acl"
    package var superuserClaim: String? = "is_superuser"
    /// The claim with attributes: an object of texts.
    package var attributesClaim: String? = "client_attrs"
    /// Bytes of a token; nil for 16 KiB.
    package var tokenBytesMax: Int?

    package init() {}
}

/// A claim that a token must have.
package struct RequiredClaim: Sendable, Equatable {
    /// Its name, or the way to it: `realm_access.roles`.
    package let name: String
    /// What it must be, or hold: `%u` is the user name that the client gives, `%c` its Client Identifier. Nil for
    /// anything but null.
    package let value: String?

    package init(name: String, value: String? = nil) { (self.name, self.value) = (name, value) }

    /// Reads `name` or `name=value`; nil without a name.
    package init?(_ text: String) {
        let parts = text.utf8.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
        guard let name = parts.first.flatMap({ String($0) }), !name.isEmpty else { return nil }
        self.init(name: name, value: parts.count > 1 ? String(parts[1]) : nil)
    }
}

/// Who brings a token, by what CONNECT says.
package struct TokenBearer: Sendable {
    /// Nil for a client that gives none.
    package let userName: String?
    package let clientIdentifier: String

    package init(userName: String?, clientIdentifier: String) {
        (self.userName, self.clientIdentifier) = (userName, clientIdentifier)
    }

    /// A text with `%u` and `%c`; nil where one of them stands for nothing. `%%` is a percent sign.
    func filled(_ text: String) -> String? {
        var filled: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%"), let letter = rest.first else {
                filled.append(byte)
                continue
            }
            switch letter {
            case UInt8(ascii: "u"):
                guard let userName else { return nil }
                filled += userName.utf8
            case UInt8(ascii: "c"):
                guard !clientIdentifier.isEmpty else { return nil }
                filled += clientIdentifier.utf8
            case UInt8(ascii: "%"): filled.append(byte)
            default:
                filled.append(byte)
                continue
            }
            rest.removeFirst()
        }
        return String(decoding: filled, as: UTF8.self)
    }
}

/// Whom an accepted token makes of its bearer.
package struct TokenLogin: Sendable, Equatable {
    /// Nil to leave the name that the client gives.
    package var userName: String?
    /// The names of the roles that it gives.
    package var roles: [String] = []
    /// Whether no rule binds its bearer.
    package var isSuperuser = false
    package var attributes: [TokenAttribute] = []
    /// Its access rules; nil where it has none.
    package var access: TokenAccess?
    /// When it ends, in seconds since 1970, without leeway; nil for never.
    package var expiresAt: Int64?
    /// `jti`: the token's own name, for the log.
    package var identifier: String?

    package init() {}
}

/// A name and a text that a login says about a client.
package struct TokenAttribute: Sendable, Equatable {
    package let name: String
    package let value: String

    package init(name: String, value: String) { (self.name, self.value) = (name, value) }
}

/// Checks tokens: their signature against keys, and what they say against rules. A value without state; for any
/// thread.
///
///     read ─► algorithm allowed ─► key ─► signature ─► times ─► issuer, audience ─► required claims ─► login
package struct TokenVerifier: Sendable {
    package let rules: TokenRules

    package init(_ rules: TokenRules) { self.rules = rules }

    /// Checks a token.
    ///
    /// - Parameters:
    ///   - bytes: the token.
    ///   - keys: those that it may be signed with.
    ///   - bearer: who brings it.
    ///   - now: seconds since 1970.
    package func verify(
        _ bytes: [UInt8], keys: TokenKeys, bearer: TokenBearer, now: Int64
    ) throws(TokenRefusal) -> TokenLogin {
        let token = try CompactToken(bytes, bytesMax: rules.tokenBytesMax)
        guard rules.algorithms.contains(token.algorithm) else {
            let allowed = rules.algorithms.map(\.rawValue).joined(separator: ", ")
            throw TokenRefusal(
                .algorithm, "its algorithm \(token.algorithm.rawValue) is not among those that are allowed: \(allowed)")
        }
        try checkSignature(of: token, keys)
        return try login(by: try token.claims(), bearer: bearer, now: now)
    }

    private func checkSignature(of token: CompactToken, _ keys: TokenKeys) throws(TokenRefusal) {
        let candidates = keys.candidates(identifier: token.keyIdentifier, token.algorithm)
        guard !candidates.isEmpty else {
            if let identifier = token.keyIdentifier, !keys.knows(identifier) {
                let remark = keys.remark(on: identifier).map { " (\($0))" } ?? ""
                throw TokenRefusal(.unknownKey, "no key has the name \"\(Shown.text(identifier))\"\(remark)")
            }
            throw TokenRefusal(.unknownKey, "no key that it may be signed with is for \(token.algorithm.rawValue)")
        }
        guard candidates.count <= Limits.candidatesMax else {
            throw TokenRefusal(.signature, "it does not say which key it is signed with (kid), and \(candidates.count) might be")
        }
        if candidates.contains(where: { $0.verifies(token.signature, of: token.signedBytes, by: token.algorithm) }) { return }
        let name = token.keyIdentifier.map { " of the key \"\(Shown.text($0))\"" } ?? ""
        throw TokenRefusal(.signature, "its signature is not that\(name.isEmpty ? " of any key" : name)")
    }

    /// Takes what claims say, as far as the rules let them: also of a token that somebody else has checked.
    ///
    /// - Parameters:
    ///   - claims: of the token.
    ///   - bearer: who brings it.
    ///   - now: seconds since 1970.
    package func login(by claims: JSONMembers, bearer: TokenBearer, now: Int64) throws(TokenRefusal) -> TokenLogin {
        var login = TokenLogin()
        login.expiresAt = try checkTimes(of: claims, now)
        try checkParties(of: claims)
        for claim in rules.required { try check(claim, claims, bearer) }
        if let name = rules.userNameClaim {
            guard let userName = try text(name, claims), !userName.isEmpty else {
                throw TokenRefusal(.claims, "it has no \"\(name)\" that names the user")
            }
            login.userName = userName
        }
        if let name = rules.clientIdentifierClaim {
            guard let identifier = try text(name, claims) else {
                throw TokenRefusal(.claims, "it has no \"\(name)\" that names the client")
            }
            guard identifier.utf8.elementsEqual(bearer.clientIdentifier.utf8) else {
                throw TokenRefusal(.claims, "it is for the Client Identifier \"\(Shown.text(identifier))\"")
            }
        }
        if let name = rules.rolesClaim, let roles = ClaimPath.value(name, in: claims) { login.roles = try texts(roles, name) }
        if let name = rules.superuserClaim, let value = ClaimPath.value(name, in: claims), value != .null {
            guard let isSuperuser = value.boolean else { throw TokenRefusal(.claims, "its \"\(name)\" is neither true nor false") }
            login.isSuperuser = isSuperuser
        }
        if let name = rules.attributesClaim, let value = ClaimPath.value(name, in: claims), value != .null {
            login.attributes = try attributes(value, name)
        }
        if let name = rules.accessClaim, let value = ClaimPath.value(name, in: claims), value != .null {
            login.access = try TokenAccess(value, claim: name)
        }
        login.identifier = claims["jti"]?.string
        return login
    }

    // MARK: Times

    /// - Returns: when the token ends.
    private func checkTimes(of claims: JSONMembers, _ now: Int64) throws(TokenRefusal) -> Int64? {
        let leeway = max(0, rules.leewaySeconds)
        let expiry = try time("exp", claims)
        if let expiry, expiry <= saturated(now, minus: leeway) {
            throw TokenRefusal(.time, "it expired \(Shown.duration(now - expiry)) ago")
        }
        if let start = try time("nbf", claims), start > now + leeway {
            throw TokenRefusal(.time, "it is valid only in \(Shown.duration(start - now)) (nbf)")
        }
        if let made = try time("iat", claims), made > now + leeway {
            throw TokenRefusal(.time, "it was made \(Shown.duration(made - now)) from now (iat): a clock is wrong")
        }
        return expiry
    }

    private func saturated(_ time: Int64, minus leeway: Int64) -> Int64 {
        let (value, overflow) = time.subtractingReportingOverflow(leeway)
        return overflow ? .min : value
    }

    /// A time in whole seconds since 1970. [RFC 7519, section 2: NumericDate]
    private func time(_ name: String, _ claims: JSONMembers) throws(TokenRefusal) -> Int64? {
        switch claims[name] {
        case nil: return nil
        case .integer(let seconds)? where (0...Self.lastSecond).contains(seconds): return seconds
        case .number(let seconds)? where seconds >= 0 && seconds <= Double(Self.lastSecond): return Int64(seconds)
        default: throw TokenRefusal(.claims, "its \"\(name)\" is no time: seconds since 1970, as a number")
        }
    }

    /// The end of the year 9999.
    private static let lastSecond: Int64 = 253_402_300_799

    // MARK: Who and for whom

    private func checkParties(of claims: JSONMembers) throws(TokenRefusal) {
        if !rules.issuers.isEmpty {
            guard let issuer = try text("iss", claims) else {
                throw TokenRefusal(.claims, "it does not say who has issued it (iss)")
            }
            guard rules.issuers.contains(where: { $0.utf8.elementsEqual(issuer.utf8) }) else {
                throw TokenRefusal(.claims, "it was issued by \"\(Shown.text(issuer))\"")
            }
        }
        guard let audience = claims["aud"] else {
            if rules.audiences.isEmpty { return }
            throw TokenRefusal(.claims, "it does not say for whom it is (aud)")
        }
        let names: [String]
        if let name = audience.string { names = [name] } else { names = try texts(audience, "aud") }
        let isMeant = names.contains { name in rules.audiences.contains { $0.utf8.elementsEqual(name.utf8) } }
        guard !isMeant else { return }
        let shown = names.prefix(4).map { "\"\(Shown.text($0))\"" }.joined(separator: ", ")
        throw TokenRefusal(.claims, "it is for \(shown.isEmpty ? "nobody" : shown) (aud)")
    }

    private func check(_ claim: RequiredClaim, _ claims: JSONMembers, _ bearer: TokenBearer) throws(TokenRefusal) {
        guard let value = ClaimPath.value(claim.name, in: claims), value != .null else {
            throw TokenRefusal(.claims, "it has no \"\(claim.name)\"")
        }
        guard let wanted = claim.value else { return }
        guard let text = bearer.filled(wanted) else {
            throw TokenRefusal(.claims, "its \"\(claim.name)\" is to be \(wanted), and the client gives none")
        }
        guard !ClaimPath.holds(value, text) else { return }
        throw TokenRefusal(.claims, "its \"\(claim.name)\" is not \"\(Shown.text(text))\"")
    }

    // MARK: Values

    private func text(_ name: String, _ claims: JSONMembers) throws(TokenRefusal) -> String? {
        guard let value = ClaimPath.value(name, in: claims), value != .null else { return nil }
        guard let text = value.string else { throw TokenRefusal(.claims, "its \"\(name)\" is no text") }
        return text
    }

    private func texts(_ value: JSONValue, _ name: String) throws(TokenRefusal) -> [String] {
        if case .null = value { return [] }
        if let text = value.string { return text.utf8.split(separator: 0x20).map { String($0) ?? "" } }
        guard let list = value.array else { throw TokenRefusal(.claims, "its \"\(name)\" is neither a text nor an array of texts") }
        var texts: [String] = []
        for element in list {
            guard let text = element.string else { throw TokenRefusal(.claims, "its \"\(name)\" holds something else than texts") }
            texts.append(text)
        }
        return texts
    }

    private func attributes(_ value: JSONValue, _ name: String) throws(TokenRefusal) -> [TokenAttribute] {
        guard let members = value.object else { throw TokenRefusal(.claims, "its \"\(name)\" is no object") }
        var attributes: [TokenAttribute] = []
        for attribute in members.names {
            guard let text = members[attribute]?.string else {
                throw TokenRefusal(.claims, "its \"\(name)\" holds something else than texts")
            }
            attributes.append(TokenAttribute(name: attribute, value: text))
        }
        return attributes
    }
}

/// Claims by their names, or by the way to them.
enum ClaimPath {
    /// The claim of exactly this name, as `https://example.com/roles` is one; else what is found by going down at each
    /// dot: `realm_access.roles`.
    static func value(_ name: String, in claims: JSONMembers) -> JSONValue? {
        if let value = claims[name] { return value }
        let parts = name.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count > 1 else { return nil }
        var value: JSONValue = .object(claims)
        for part in parts {
            guard let part = String(part), let next = value.object?[part] else { return nil }
            value = next
        }
        return value
    }

    /// Whether a claim is a text, or an array that holds it. Numbers and truth as JSON writes them.
    static func holds(_ value: JSONValue, _ text: String) -> Bool {
        switch value {
        case .string(let own): own.utf8.elementsEqual(text.utf8)
        case .integer(let number): String(number) == text
        case .boolean(let isTrue): (isTrue ? "true" : "false") == text
        case .array(let elements): elements.contains { element in if case .array = element { false } else { holds(element, text) } }
        case .null, .number, .object: false
        }
    }
}

extension Shown {
    /// A time in seconds as people say it: `34 s`, `5 min`, `3 h`, `12 d`.
    static func duration(_ seconds: Int64) -> String {
        switch max(0, seconds) {
        case let seconds where seconds < 120: "\(seconds) s"
        case let seconds where seconds < 2 * 3600: "\(seconds / 60) min"
        case let seconds where seconds < 48 * 3600: "\(seconds / 3600) h"
        case let seconds: "\(seconds / 86400) d"
        }
    }
}
