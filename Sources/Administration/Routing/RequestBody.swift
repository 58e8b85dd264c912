internal import HTTP
internal import JSON
internal import JSONReader
internal import MQTTCodec

/// A request's body: a JSON object.
struct RequestBody {
    private let members: JSONMembers

    init(_ request: HTTPRequest, names: [String]) throws(APIError) {
        try self.init(request)
        if let unknown = members.names.first(where: { !names.contains($0) }) {
            throw .badRequest(
                "The body has an unknown member \(JSONName.shown(unknown)); known: \(names.joined(separator: ", "))."
            )
        }
    }

    /// A body with members of any names.
    init(_ request: HTTPRequest) throws(APIError) {
        let type = request.fields["Content-Type"].map { $0.prefix { $0 != ";" }.lowercased() } ?? ""
        guard type.trimmingBlanks == "application/json" else {
            throw APIError(.unsupportedMediaType, "The body must have the type application/json.")
        }
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(reading: request.body)
        } catch {
            throw .badRequest("The body is not valid JSON: \(error).")
        }
        guard let members = value.object else { throw .badRequest("The body must be a JSON object.") }
        self.members = members
    }

    init(_ members: JSONMembers) { self.members = members }

    func has(_ name: String) -> Bool { members[name] != nil }

    /// Every member, in the order in which they came.
    var all: [(name: String, value: JSONValue)] { members.names.map { ($0, members[$0] ?? .null) } }

    func text(_ name: String, _ bytes: ClosedRange<Int> = 0...(1 << 24)) throws(APIError) -> String? {
        guard let value = members[name] else { return nil }
        guard let text = value.string else { throw .badRequest("\(name) must be a string.") }
        guard bytes.contains(text.utf8.count) else {
            throw .badRequest("\(name) must have \(bytes.lowerBound) to \(bytes.upperBound) bytes.")
        }
        return text
    }

    func required(_ name: String, _ bytes: ClosedRange<Int> = 1...65_535) throws(APIError) -> String {
        guard let text = try text(name, bytes) else { throw .badRequest("\(name) is missing.") }
        return text
    }

    func encoded(_ name: String) throws(APIError) -> EncodedString? {
        guard let text = try text(name) else { return nil }
        guard let encoded = EncodedString(text) else {
            throw .badRequest("\(name) is not a valid MQTT string.")
        }
        return encoded
    }

    func choice(_ name: String, _ words: [String]) throws(APIError) -> String? {
        guard let text = try text(name) else { return nil }
        guard words.contains(text) else {
            throw .badRequest("\(name) must be one of \(words.joined(separator: ", ")).")
        }
        return text
    }

    func integer(_ name: String, _ range: ClosedRange<Int>) throws(APIError) -> Int? {
        guard let value = members[name] else { return nil }
        guard let number = value.integer.map({ Int($0) }), range.contains(number) else {
            throw .badRequest("\(name) must be an integer from \(range.lowerBound) to \(range.upperBound).")
        }
        return number
    }

    func boolean(_ name: String) throws(APIError) -> Bool? {
        guard let value = members[name] else { return nil }
        guard let boolean = value.boolean else { throw .badRequest("\(name) must be true or false.") }
        return boolean
    }

    /// Milliseconds since 1970; nil if it is not there, or null.
    func time(_ name: String) throws(APIError) -> UInt64? {
        guard let value = members[name], value != .null else { return nil }
        guard let time = value.string.flatMap({ Timestamp.milliseconds($0) }) else {
            throw .badRequest("\(name) must be a time such as 2026-07-01T12:00:00Z.")
        }
        return time
    }

    func words(_ name: String) throws(APIError) -> [String]? {
        guard let value = members[name] else { return nil }
        guard let values = value.array else { throw .badRequest("\(name) must be an array of strings.") }
        let words = values.compactMap(\.string)
        guard words.count == values.count else { throw .badRequest("\(name) must be an array of strings.") }
        return words
    }

    /// An object in it, with no members but these.
    func object(_ name: String, _ names: [String]) throws(APIError) -> RequestBody? {
        guard let value = members[name] else { return nil }
        guard let object = value.object else { throw .badRequest("\(name) must be an object.") }
        if let unknown = object.names.first(where: { !names.contains($0) }) {
            throw .badRequest(
                "\(name) has an unknown member \(JSONName.shown(unknown)); known: \(names.joined(separator: ", "))."
            )
        }
        return RequestBody(object)
    }

    func objects(_ name: String, _ names: [String]) throws(APIError) -> [RequestBody] {
        guard let value = members[name] else { return [] }
        guard let values = value.array else { throw .badRequest("\(name) must be an array of objects.") }
        var bodies: [RequestBody] = []
        for value in values {
            guard let object = value.object, object.names.allSatisfy(names.contains) else {
                throw .badRequest("\(name) must be an array of objects with \(names.joined(separator: ", ")).")
            }
            bodies.append(RequestBody(object))
        }
        return bodies
    }
}

extension String {
    fileprivate var trimmingBlanks: String {
        String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
    }
}

/// Why a request is not done: what its client is answered.
struct APIError: Error {
    let status: HTTPStatus
    let message: String
    /// Further fields of the answer.
    let fields: HTTPFields

    init(_ status: HTTPStatus, _ message: String, fields: HTTPFields = HTTPFields()) {
        (self.status, self.message, self.fields) = (status, message, fields)
    }

    static func badRequest(_ message: String) -> APIError { APIError(.badRequest, message) }

    static func notFound(_ what: String) -> APIError {
        APIError(.notFound, "There is no such \(what).")
    }

    static let unavailable = APIError(
        .serviceUnavailable, "The broker is overloaded or about to stop.",
        fields: ["Retry-After": String(Limits.retryAfterSeconds)])

    /// For programs: the status' words in capitals.
    var code: String { String(status.reason.uppercased().map { $0 == " " ? "_" : $0 }) }

    var response: HTTPResponse {
        var object = JSONObject()
        object.set("code", code)
        object.set("message", message)
        var response = HTTPResponse.json(object.text.utf8, status: status)
        response.fields.append(contentsOf: fields)
        return response
    }
}
