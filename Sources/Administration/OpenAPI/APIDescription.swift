internal import HTTP
internal import JSON

/// What the API's description says of a route besides what its row says.
struct RouteDocumentation: Sendable {
    enum Tag: String, Sendable, CaseIterable {
        case itself = "self"
        case broker, bridges, clients, topics, configuration, log, events, traces, access, health, metrics
    }

    /// A field of the request that the route goes by.
    struct Header: Sendable {
        let name: String
        let schema: Schema
        let isRequired: Bool
        let help: String?

        init(_ name: String, _ schema: Schema, isRequired: Bool = true, _ help: String? = nil) {
            (self.name, self.schema, self.isRequired, self.help) = (name, schema, isRequired, help)
        }
    }

    /// An answer that is not a refusal.
    struct Answer: Sendable {
        let status: HTTPStatus
        let words: String
        /// By media type; empty for an answer without a body.
        var content: [(type: String, schema: Schema)] = []
        var fields: [(name: String, schema: Schema)] = []

        static func ok(_ words: String, _ schema: Schema, setsCookie: Bool = false) -> Answer {
            Answer(
                status: .ok, words: words, content: [("application/json", schema)],
                fields: setsCookie ? [("Set-Cookie", .text)] : [])
        }

        /// Texts of these media types.
        static func ok(_ words: String, as types: [String]) -> Answer {
            Answer(status: .ok, words: words, content: types.map { ($0, .text) })
        }

        static func created(_ words: String, _ schema: Schema) -> Answer {
            Answer(status: .created, words: words, content: [("application/json", schema)])
        }

        static func accepted(_ words: String, _ schema: Schema) -> Answer {
            Answer(status: .accepted, words: words, content: [("application/json", schema)])
        }

        static func unprocessable(_ words: String, _ schema: Schema) -> Answer {
            Answer(status: .unprocessableContent, words: words, content: [("application/json", schema)])
        }

        /// Nothing is to be said.
        static func done(_ words: String) -> Answer { Answer(status: .noContent, words: words) }
        static let done = done("Done.")

        static func switching(_ words: String) -> Answer { Answer(status: .switchingProtocols, words: words) }

        /// A health that is not well.
        static func notWell(_ words: String) -> Answer {
            Answer(
                status: .serviceUnavailable, words: words, content: [("text/plain", .text)],
                fields: [("Retry-After", .anyInteger)])
        }
    }

    let tag: Tag
    let summary: String
    let details: String?
    let headers: [Header]
    let answers: [Answer]
    /// The refusals that not every route may give.
    let refusals: [HTTPStatus]
}

/// The description of the API as OpenAPI 3.1: made of the table of routes, of the resources and of the schemas.
///
/// It is served as it is made. In the repository it lies as a file, which `make openapi` writes and `make lint`
/// compares.
public enum APIDescription {
    /// The text of openapi.json.
    public static let bytes: [UInt8] = {
        var text = IndentedJSON()
        text.append(.object(JSONMembers(root)))
        return Array((text.text + "\n").utf8)
    }()

    private typealias Members = [(name: String, value: JSONValue)]

    private static func object(_ members: Members) -> JSONValue { .object(JSONMembers(members)) }

    private static var root: Members {
        [
            ("openapi", .string("3.1.0")),
            (
                "info",
                object([
                    ("title", .string("Martlet")), ("version", .string("1")), ("description", .string(introduction)),
                    (
                        "license",
                        object([("name", .string("Apache License 2.0")), ("identifier", .string("Apache-2.0"))])
                    ),
                ])
            ),
            ("servers", .array([object([("url", .string("/"))])])),
            ("tags", .array(RouteDocumentation.Tag.allCases.map { object([("name", .string($0.rawValue))]) })),
            ("paths", paths),
            ("components", components),
        ]
    }

    private static let introduction = """
        Watch and control an MQTT broker. `x-role` says who may: `none` needs no login, an `admin` may do what a `viewer` may. Topics and \
        filters travel in the query; times are RFC 3339 in UTC; lists are paged by key: give `meta.cursor` back as `cursor`.
        """

    private static var components: JSONValue {
        let login: Members = [
            ("token", object([("type", .string("http")), ("scheme", .string("bearer"))])),
            ("password", object([("type", .string("http")), ("scheme", .string("basic"))])),
            (
                "session",
                object([("type", .string("apiKey")), ("in", .string("cookie")), ("name", .string(Administration.cookieName))])
            ),
        ]
        let parameters =
            sharedParameters.map { (name: $0.name, value: describe($0)) } + [(name: "clientid", value: argument("clientid"))]
        return object([
            ("securitySchemes", object(login)),
            ("parameters", object(parameters)),
            ("responses", object(Refusal.all.map { ($0.name, $0.json) })),
            ("schemas", object(SchemaCatalogue.all.map { ($0.name, $0.schema.json) })),
        ])
    }

    // MARK: Routes

    private static var paths: JSONValue {
        var paths: [(path: String, operations: Members)] = []
        for route in Route.table {
            let operation = (name: route.method.rawValue.lowercased(), value: describe(route))
            if let place = paths.firstIndex(where: { $0.path == route.path }) {
                paths[place].operations.append(operation)
            } else {
                paths.append((route.path, [operation]))
            }
        }
        return object(paths.map { ($0.path, object($0.operations)) })
    }

    private static func describe(_ route: Route) -> JSONValue {
        let documentation = route.documentation
        var members: Members = [
            ("operationId", .string(route.operation)), ("summary", .string(documentation.summary)),
        ]
        if let details = documentation.details { members.append(("description", .string(details))) }
        members.append(("tags", .array([.string(documentation.tag.rawValue)])))
        members.append(("x-role", .string(route.need.rawValue)))
        let ways = route.need == .nothing ? [] : ["token", "password", "session"]
        members.append(("security", .array(ways.map { object([($0, .array([]))]) })))
        let parameters =
            route.pattern.compactMap { if case .argument(let name) = $0 { argument(name, isShared: true) } else { nil } }
            + route.parameters.map { parameter in
                sharedParameters.contains { $0.name == parameter.name && $0.kind == parameter.kind }
                    ? reference("parameters", parameter.name) : describe(parameter)
            } + documentation.headers.map(describe)
        if !parameters.isEmpty { members.append(("parameters", .array(parameters))) }
        if let body = route.body {
            members.append(
                ("requestBody", object([("required", .boolean(true)), ("content", content([("application/json", .named(body))]))])))
        }
        members.append(("responses", responses(of: route)))
        return object(members)
    }

    private static func reference(_ kind: String, _ name: String) -> JSONValue {
        object([("$ref", .string("#/components/\(kind)/\(name)"))])
    }

    private static func content(_ types: [(type: String, schema: Schema)]) -> JSONValue {
        object(types.map { ($0.type, object([("schema", $0.schema.json)])) })
    }

    private static func fields(_ fields: [(name: String, schema: Schema)]) -> JSONValue {
        object(fields.map { ($0.name, object([("schema", $0.schema.json)])) })
    }

    private static func responses(of route: Route) -> JSONValue {
        var responses: [(status: Int, value: JSONValue)] = route.documentation.answers.map { answer in
            var members: Members = [("description", .string(answer.words))]
            if !answer.fields.isEmpty { members.append(("headers", fields(answer.fields))) }
            if !answer.content.isEmpty { members.append(("content", content(answer.content))) }
            return (answer.status.rawValue, object(members))
        }
        // What every request may be told: it is malformed, comes from a page of another origin, or names another
        // server.
        var refusals: [HTTPStatus] = [.badRequest, .forbidden, .misdirectedRequest]
        if route.need != .nothing { refusals.append(.unauthorized) }
        if route.takesBody { refusals += [.contentTooLarge, .unsupportedMediaType] }
        for status in refusals + route.documentation.refusals {
            guard let refusal = Refusal.all.first(where: { $0.status == status }) else { continue }
            responses.append((status.rawValue, reference("responses", refusal.name)))
        }
        return object(responses.sorted { $0.status < $1.status }.map { (String($0.status), $0.value) })
    }

    // MARK: Parameters

    /// The parameters that many routes have.
    private static let sharedParameters: [RouteParameter] = [.limit, .cluster, .cursor]

    private static func describe(_ parameter: RouteParameter) -> JSONValue {
        var members: Members = [("name", .string(parameter.name)), ("in", .string("query"))]
        if parameter.isRequired { members.append(("required", .boolean(true))) }
        var schema = parameter.schema ?? parameter.kind.schema
        if let standard = parameter.standard { schema = schema.defaulting(to: standard) }
        members.append(("schema", schema.json))
        if let help = parameter.help { members.append(("description", .string(help))) }
        if case .choices = parameter.kind { members += [("style", .string("form")), ("explode", .boolean(false))] }
        if parameter.isSaidByItself { members.append(("allowEmptyValue", .boolean(true))) }
        return object(members)
    }

    private static func describe(_ header: RouteDocumentation.Header) -> JSONValue {
        var members: Members = [("name", .string(header.name)), ("in", .string("header"))]
        if header.isRequired { members.append(("required", .boolean(true))) }
        members.append(("schema", header.schema.json))
        if let help = header.help { members.append(("description", .string(help))) }
        return object(members)
    }

    /// An argument in a path.
    ///
    /// - Parameter isShared: whether one that many routes have is only named.
    private static func argument(_ name: String, isShared: Bool = false) -> JSONValue {
        if isShared, name == "clientid" { return reference("parameters", name) }
        let (schema, help): (Schema, String?) =
            switch name {
            case "clientid": (.text(1...Int.max), "A Client Identifier, percent-encoded.")
            case "username": (Schema.named("Text").with("minLength", .integer(1)), nil)
            case "line": (.integer(1...Int.max), "Counted from 1.")
            case "as": (.named("BanKind"), nil)
            case "who": (.text(1...Int.max, pattern: #"^[^\u0000]+$"#), "Percent-encoded, a network's slash too.")
            case "number": (.text(1...Int.max, pattern: #"^[^\u0000]+$"#), nil)
            default: (.text(1...Int.max), nil)
            }
        var members: Members = [
            ("name", .string(name)), ("in", .string("path")), ("required", .boolean(true)), ("schema", schema.json),
        ]
        if let help { members.append(("description", .string(help))) }
        return object(members)
    }
}

extension Administration {
    func getOpenAPI(_ call: Call) throws(APIError) { call.answer(.json(APIDescription.bytes)) }
}

extension RouteParameter.Kind {
    fileprivate var schema: Schema {
        switch self {
        case .text(let bytes): .text(bytes)
        case .integer(let range): .integer(range)
        case .number(let numbers): .number(of: numbers)
        case .boolean: .boolean
        case .choice(let words): .choice(words)
        case .choices(let words):
            Schema([("type", .string("array")), ("minItems", .integer(1)), ("items", Schema.choice(words).json)])
        }
    }
}

/// An answer that many routes may give in place of their own.
private struct Refusal: Sendable {
    let status: HTTPStatus
    let name: String
    let words: String
    var field: (name: String, schema: Schema)?
    var isPlainToo = false

    static let all: [Refusal] = [
        Refusal(
            status: .badRequest, name: "BadRequest",
            words: "A parameter or the body is not what this page says; plain text where the request is not even one of HTTP.",
            isPlainToo: true),
        Refusal(
            status: .unauthorized, name: "Unauthorized", words: "No login, or an unknown user or token.",
            field: ("WWW-Authenticate", .text)),
        Refusal(
            status: .forbidden, name: "Forbidden",
            words: "The role does not allow this, or the request comes from a page of another origin."),
        Refusal(status: .notFound, name: "NotFound", words: "Not found."),
        Refusal(status: .methodNotAllowed, name: "MethodNotAllowed", words: "Not with this method.", field: ("Allow", .text)),
        Refusal(status: .conflict, name: "Conflict", words: "Not as things stand."),
        Refusal(status: .contentTooLarge, name: "TooLarge", words: "The body is too large."),
        Refusal(status: .unsupportedMediaType, name: "UnsupportedMediaType", words: "Bodies are `application/json`."),
        Refusal(status: .misdirectedRequest, name: "Misdirected", words: "The Host field names another server."),
        Refusal(
            status: .upgradeRequired, name: "UpgradeRequired",
            words: "This is a WebSocket, and the request does not ask for one."),
        Refusal(
            status: .tooManyRequests, name: "TooMany",
            words: "The maximum is open already, or too many logins have failed: try again later.",
            field: ("Retry-After", .anyInteger)),
        Refusal(
            status: .serviceUnavailable, name: "Unavailable",
            words: """
                The broker is overloaded or about to stop, or the other nodes of its cluster cannot be reached: try again later.
                """, field: ("Retry-After", .anyInteger)),
    ]

    var json: JSONValue {
        var content = [(name: "application/json", value: JSONValue.object(JSONMembers([("schema", Schema.named("Error").json)])))]
        if isPlainToo { content.append(("text/plain", .object(JSONMembers([("schema", Schema.text.json)])))) }
        var members: [(name: String, value: JSONValue)] = [
            ("description", .string(words)), ("content", .object(JSONMembers(content))),
        ]
        if let field {
            let value = JSONValue.object(JSONMembers([("schema", field.schema.json)]))
            members.append(("headers", .object(JSONMembers([(field.name, value)]))))
        }
        return .object(JSONMembers(members))
    }
}

/// JSON for people: what fits on a line stands on one, all else is indented.
private struct IndentedJSON {
    private(set) var text = ""
    private var depth = 0
    private static let lineWidth = 120

    /// - Parameter taken: columns of the line in front of the value and behind it.
    mutating func append(_ value: JSONValue, taken: Int = 0) {
        var line = ""
        if Self.write(value, on: &line, columnsMax: Self.lineWidth - taken - 2 * depth) {
            text += line
            return
        }
        switch value {
        case .object(let members):
            nest("{", "}", members.names) { text, name in
                let key = Self.line(.string(name)) + ": "
                text.text += key
                text.append(members[name] ?? .null, taken: key.utf8.count + 1)
            }
        case .array(let values) where values.allSatisfy({ $0.string != nil || $0.integer != nil }): fill(values)
        case .array(let values): nest("[", "]", values) { text, value in text.append(value, taken: 1) }
        default: text += Self.line(value)
        }
    }

    private mutating func nest<Element>(
        _ open: String, _ close: String, _ elements: [Element], _ write: (inout IndentedJSON, Element) -> Void
    ) {
        text += open
        depth += 1
        for (index, element) in elements.enumerated() {
            text += index == 0 ? "\n" : ",\n"
            text += String(repeating: "  ", count: depth)
            write(&self, element)
        }
        depth -= 1
        text += "\n" + String(repeating: "  ", count: depth) + close
    }

    /// Short values, as many on each line as it has room for.
    private mutating func fill(_ values: [JSONValue]) {
        let indent = String(repeating: "  ", count: depth + 1)
        var column = Self.lineWidth
        text += "["
        for (index, value) in values.enumerated() {
            let word = Self.line(value) + (index + 1 < values.count ? "," : "")
            if column + 1 + word.utf8.count > Self.lineWidth {
                text += "\n" + indent + word
                column = indent.utf8.count + word.utf8.count
            } else {
                text += " " + word
                column += 1 + word.utf8.count
            }
        }
        text += "\n" + String(repeating: "  ", count: depth) + "]"
    }

    private static func line(_ value: JSONValue) -> String {
        var text = ""
        _ = write(value, on: &text, columnsMax: .max)
        return text
    }

    /// Writes a value on one line, with blanks as people set them; false, and not all of it, if the line has no room
    /// for it.
    private static func write(_ value: JSONValue, on line: inout String, columnsMax: Int) -> Bool {
        switch value {
        case .object(let members):
            line += "{"
            for (index, name) in members.names.enumerated() {
                line += (index == 0 ? "" : ", ") + Self.line(.string(name)) + ": "
                guard write(members[name] ?? .null, on: &line, columnsMax: columnsMax) else { return false }
            }
            line += "}"
        case .array(let values):
            line += "["
            for (index, value) in values.enumerated() {
                line += index == 0 ? "" : ", "
                guard write(value, on: &line, columnsMax: columnsMax) else { return false }
            }
            line += "]"
        case .null, .boolean, .integer, .number, .string:
            var writer = JSONWriter()
            writer.add(value)
            line += String(decoding: writer.bytes, as: UTF8.self)
        }
        return line.utf8.count <= columnsMax
    }
}
