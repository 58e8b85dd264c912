internal import HTTP
internal import JSON

/// Logging in, tokens and the audit.
struct AccessAnswers {
    let administration: Administration

    init(_ administration: Administration) { self.administration = administration }

    private var broker: any AdministeredBroker { administration.broker }

    // MARK: Sessions

    func getSession(_ call: Call) throws(APIError) { call.answer(session(call.who)) }

    func logIn(_ call: Call) throws(APIError) {
        let body = try call.body()
        if body.has("token") {
            guard !body.has("username"), !body.has("password") else {
                throw .badRequest("Give either a token, or a user name and password.")
            }
            let secret = try body.required("token")
            if let identity = administration.links.take(secret, at: call.startedAt.wallMilliseconds) {
                return begin(identity, call)
            }
            guard let token = administration.tokens.find(secret, now: call.startedAt) else {
                throw Administration.unauthorized(call, "Unknown token.")
            }
            return begin(
                Identity(
                    name: token.name, role: token.role, means: .token, credential: .token(token),
                    expiresAt: token.expiresAt.map { $0 * 1000 }), call)
        }
        let name = try body.required("username", 0...65_535)
        let password = try body.required("password", 0...65_535)
        call.target = name
        administration.logIn(call, name, Array(password.utf8)) { [self] identity in
            guard identity.role != nil else {
                return call.fail(
                    APIError(
                        .forbidden,
                        "This user has no role for the dashboard and API; see martlet_http_user, and rules for $CONTROL/martlet/v1."
                    )
                )
            }
            begin(identity, call)
        }
    }

    private func begin(_ identity: Identity, _ call: Call) {
        guard identity.role != .metrics else {
            return call.fail(
                APIError(.forbidden, "A token with the role metrics cannot log in: send it with each request."))
        }
        guard let (secret, identity) = administration.sessions.make(identity, now: call.startedAt) else {
            return call.fail(
                APIError(
                    .serviceUnavailable, "The maximum number of sessions is reached; log out elsewhere.",
                    fields: ["Retry-After": String(Limits.retryAfterSeconds)]))
        }
        call.who = identity
        var response = HTTPResponse.json(session(identity).text.utf8)
        response.fields["Set-Cookie"] = Self.cookie(secret, for: call)
        call.answer(response)
    }

    func logOut(_ call: Call) throws(APIError) {
        if let secret = call.request.cookie(Administration.cookieName) { administration.sessions.end(secret) }
        administration.endUnentitledStreams(call.startedAt)
        call.answer(
            HTTPResponse(.noContent, fields: ["Set-Cookie": Self.cookie("", for: call) + "; Max-Age=0"]))
    }

    private static func cookie(_ secret: String, for call: Call) -> String {
        "\(Administration.cookieName)=\(secret); Path=/; HttpOnly; SameSite=Strict"
            + (call.origin.usesTLS ? "; Secure" : "")
    }

    private func session(_ who: Identity) -> JSONObject {
        Self.sessionResource.json((who, administration.maySeePayloads(who)))
    }

    static let sessionResource = Resource<(who: Identity, seesPayloads: Bool)>(
        "Session",
        [
            .textOrNull("name", help: "Of the user or token; null without a login.", \.who.name),
            .textOrNull("role", as: .named("Role"), help: "Null: log in first.") { $0.who.role?.rawValue },
            .text("by", as: .choice(["none", "anonymous", "password", "token", "session", "peer"]), \.who.means.rawValue),
            .boolean("payloads", help: "Whether payloads are shown.", \.seesPayloads),
            .timeOrNull("expires_at", \.who.expiresAt),
        ])

    /// Makes a link that lets one browser in as administrator, once.
    func makeLoginLink(_ call: Call) throws(APIError) {
        let places = dashboardOrigins
        guard let first = places.first else {
            throw APIError(
                .conflict,
                "A browser needs a port, and no listener of this broker serves the dashboard on one. Add the lines \"listener 9883 127.0.0.1\" "
                    + "and \"protocol http_api\" to the configuration, then: martlet ctl reload")
        }
        let expiresAt = call.startedAt.wallMilliseconds + Limits.loginLinkSeconds * 1000
        let secret = administration.links.make(for: call.who.name, until: expiresAt)
        let link = MadeLink(url: "\(first)/dashboard/#token=\(secret)", origins: places, expiresAt: expiresAt)
        call.answer(Self.loginLinkResource.json(link), status: .created)
    }

    static let loginLinkResource = Resource<MadeLink>(
        "LoginLink",
        [
            .text(
                "url", help: "Where the dashboard is, with the secret in its fragment, which no server is sent.", \.url),
            .texts("origins", help: "Where browsers find the dashboard; the first one is that of `url`.", \.origins),
            .time("expires_at", \.expiresAt),
        ])

    /// Where browsers find the dashboard, as `http://localhost:9883`: what only this machine reaches first.
    private var dashboardOrigins: [String] {
        let places = broker.listeners.enumerated().compactMap { index, listener -> (isNear: Bool, text: String)? in
            let rules = administration.listener(index)
            guard listener.application == .httpAPI, !listener.isClosed, rules.parts.contains(.dashboard), let port = listener.port
            else { return nil }
            let host =
                rules.isLoopback
                ? listener.host ?? "localhost" : administration.settings.hosts.first ?? listener.host ?? "localhost"
            let name = host.contains(":") ? "[\(host)]" : host
            return (rules.isLoopback, "\(listener.usesTLS ? "https" : "http")://\(name):\(port)")
        }
        return places.filter(\.isNear).map(\.text) + places.filter { !$0.isNear }.map(\.text)
    }

    // MARK: Tokens

    func listTokens(_ call: Call) throws(APIError) {
        var object = JSONObject()
        object.set("data", administration.tokens.tokens.sorted { $0.name < $1.name }.map { Self.tokenResource.json($0) })
        call.answer(object)
    }

    func makeToken(_ call: Call) throws(APIError) {
        let body = try call.body()
        let name = try body.required("name")
        guard TokenTable.isName(name) else {
            throw .badRequest("name must have 1 to 64 letters, digits or characters of ._-")
        }
        guard let word = try body.choice("role", AdministrationRole.allCases.map(\.rawValue)),
            let role = AdministrationRole(rawValue: word)
        else { throw .badRequest("role is missing.") }
        let expiresAt = try body.time("expires_at").map { $0 / 1000 }
        call.target = name
        guard administration.settings.keepsTokens else { throw Self.noTokenFile }
        var changed = administration.tokens
        guard let (token, secret) = changed.make(name, role, expiresAt: expiresAt) else {
            throw APIError(.conflict, "A token of that name exists, or there are too many tokens.")
        }
        try keep(changed)
        var object = Self.tokenResource.json(token)
        object.set("token", secret)
        call.answer(object, status: .created)
    }

    func revokeToken(_ call: Call) throws(APIError) {
        guard administration.settings.keepsTokens else { throw Self.noTokenFile }
        var changed = administration.tokens
        guard let revoked = changed.remove(call.path["name"] ?? "") else { throw .notFound("token") }
        try keep(changed)
        administration.sessions.end(of: revoked)
        administration.endUnentitledStreams(call.startedAt)
        call.answer(HTTPResponse(.noContent))
    }

    private func keep(_ changed: TokenTable) throws(APIError) {
        guard broker.writeTokens(changed.text) else {
            throw APIError(
                .serviceUnavailable, "The token file could not be written.",
                fields: ["Retry-After": "15"])
        }
        administration.tokens = changed
    }

    private static let noTokenFile = APIError(
        .conflict,
        "There is no file for tokens. Add a line such as \"martlet_http_token_file /var/lib/martlet/tokens\" to the configuration, "
            + "then: martlet ctl reload")

    static let tokenResource = Resource<TokenTable.Token>(
        "Token",
        [
            .text("name", \.name),
            .text("role", as: .named("Role"), \.role.rawValue),
            .timeOrNull("expires_at", column: "EXPIRES (UTC)") { $0.expiresAt.map { $0 * 1000 } },
        ])

    static let tokenMadeMembers: [FieldDescription] =
        tokenResource.members + [FieldDescription("token", .text, help: "The secret: shown this once.")]

    // MARK: Dynamic security

    /// What a message on `$CONTROL/dynamic-security/v1` does, with the same answer.
    func performSecurityCommands(_ call: Call) throws(APIError) {
        _ = try call.body()
        let who = call.who.name ?? call.who.means.rawValue
        broker.performSecurityCommands(call.request.body, for: who, from: call.origin) { answer in
            switch answer {
            case .performed(let json, let changes):
                if !changes.isEmpty { call.target = changes }
                call.answer(.json(json))
            case .notConfigured:
                call.fail(
                    APIError(
                        .conflict, "There is no dynamic security: see plugin mosquitto_dynamic_security and plugin_opt_config_file."
                    ))
            case .busy: call.fail(.unavailable)
            }
        }
    }

    // MARK: The audit

    func getAudit(_ call: Call) throws(APIError) {
        var object = JSONObject()
        let kind = call.text("kind").flatMap { Audit.Kind(rawValue: $0) }
        object.set("data", administration.audit.last(call.integer("limit") ?? 100, of: kind).map(\.json))
        call.answer(object)
    }
}

/// A link that lets one browser in.
struct MadeLink {
    let url: String
    let origins: [String]
    /// Milliseconds since 1970.
    let expiresAt: UInt64
}

extension Limits {
    /// Seconds that a link is good for which somebody has asked for.
    static let loginLinkSeconds: UInt64 = 600
}
