internal import BrokerModel
internal import HTTP
internal import JSON
internal import MQTTCodec

/// A moment on two clocks.
public struct Moment: Sendable {
    /// On a clock that only goes forwards.
    public var milliseconds: UInt64
    /// Since 1970.
    public var wallMilliseconds: UInt64

    public init(milliseconds: UInt64, wallMilliseconds: UInt64) {
        (self.milliseconds, self.wallMilliseconds) = (milliseconds, wallMilliseconds)
    }
}

/// Where a request comes from.
public struct RequestOrigin: Sendable {
    /// The peer's address without its port; of a Unix socket, what the broker calls it.
    public var address: String
    /// An index into the broker's listeners.
    public var listener: Int
    public var usesTLS: Bool
    /// Whether the peer is a process of root or of the broker's user, on this machine's Unix socket.
    public var isTrustedProcess: Bool
    /// The user whose process that is; nil where nobody knows.
    public var processUser: String?

    public init(
        address: String, listener: Int, usesTLS: Bool = false, isTrustedProcess: Bool = false, processUser: String? = nil
    ) {
        (self.address, self.listener) = (address, listener)
        (self.usesTLS, self.isTrustedProcess, self.processUser) = (usesTLS, isTrustedProcess, processUser)
    }
}

/// A request that is being answered, once.
final class Call {
    let request: HTTPRequest
    let origin: RequestOrigin
    let route: Route
    /// Of the path.
    let path: [String: String]
    let startedAt: Moment
    /// Of the query; set before the handler is called.
    private(set) var arguments: Arguments?
    /// Where the page begins; nil at the beginning.
    var cursor: String?
    var who = Identity.nobody
    /// Called when the peer goes while it is found out who it is. What it has ordered goes on without it.
    var onGone: (() -> Void)?
    /// Whether this node alone is meant, because it answers for itself among the nodes of the cluster.
    var isForNode = false
    /// What an audit says that it was about.
    var target: String?
    private var respond: ((Call, HTTPResponse) -> Void)?

    init(
        _ request: HTTPRequest, from origin: RequestOrigin, _ route: Route, _ path: [String: String],
        at now: Moment,
        _ respond: @escaping (Call, HTTPResponse) -> Void
    ) {
        (self.request, self.origin, self.route, self.path, startedAt) = (
            request, origin, route, path, now
        )
        self.respond = respond
        target = path.sorted { $0.key < $1.key }.map(\.value).joined(separator: " ")
    }

    var isAnswered: Bool { respond == nil }

    func read() throws(APIError) { arguments = try Arguments(request.query, route.parameters) }

    // MARK: What was asked

    func text(_ name: String) -> String? { arguments?.text(name) }
    func integer(_ name: String) -> Int? { arguments?.integer(name) }
    func boolean(_ name: String) -> Bool? { arguments?.boolean(name) }
    func list(_ name: String) -> [String]? { arguments?.list(name) }
    var limit: Int {
        let limit = arguments?.limit ?? 50
        return isForNode ? min(limit, Limits.nodePageRowsMax) : limit
    }

    /// The argument of the path that names a client.
    func client() throws(APIError) -> EncodedString {
        guard let client = path["clientid"].flatMap({ EncodedString($0) }) else {
            throw .badRequest("This is not a valid Client Identifier.")
        }
        return client
    }

    func network() throws(APIError) -> AddressRange? {
        guard let text = text("address") else { return nil }
        guard let range = AddressRange(text) else {
            throw .badRequest("address must be an IP address or a network such as 10.0.0.0/8.")
        }
        return range
    }

    func encoded(_ name: String) throws(APIError) -> EncodedString? {
        guard let text = text(name) else { return nil }
        guard let encoded = EncodedString(text) else {
            throw .badRequest("\(name) is not a valid MQTT string.")
        }
        return encoded
    }

    func filter(_ name: String = "filter") throws(APIError) -> TopicFilter? {
        guard let text = text(name) else { return nil }
        guard let filter = TopicFilter(text) else { throw .badRequest("\(name) is not a topic filter.") }
        return filter
    }

    func topic(_ name: String) throws(APIError) -> TopicName? {
        guard let text = text(name) else { return nil }
        guard let topic = TopicName(text) else { throw .badRequest("\(name) is not a topic name.") }
        return topic
    }

    /// The members of the body, of which there are no others than its schema has.
    func body() throws(APIError) -> RequestBody {
        try RequestBody(request, names: route.body.flatMap { SchemaCatalogue.bodyMembers[$0] } ?? [])
    }

    // MARK: The answer

    func answer(_ response: HTTPResponse) {
        let respond = respond
        self.respond = nil
        onGone = nil
        respond?(self, response)
    }

    func answer(_ object: JSONObject, status: HTTPStatus = .ok) {
        answer(.json(object.text.utf8, status: status))
    }

    func fail(_ error: APIError) { answer(error.response) }

    /// Answers what `body` makes, or what it throws.
    func complete(_ body: () throws(APIError) -> Void) {
        do throws(APIError) {
            try body()
        } catch {
            fail(error)
        }
    }

}

/// The query of a request, checked against its route's parameters: each once, none that the route does not know.
struct Arguments {
    private var values: [String: String] = [:]

    init(_ query: HTTPQuery, _ parameters: [RouteParameter]) throws(APIError) {
        for item in query.items {
            guard let parameter = parameters.first(where: { $0.name == item.name }) else {
                let known = parameters.isEmpty ? "none" : parameters.map(\.name).joined(separator: ", ")
                throw .badRequest(
                    "Unknown parameter \(JSONName.shown(item.name)); known: \(known).")
            }
            guard values[item.name] == nil else {
                throw .badRequest("\(item.name) is given more than once.")
            }
            if let objection = parameter.objection(to: item.value) { throw .badRequest(objection) }
            values[item.name] = item.value
        }
        if let missing = parameters.first(where: { $0.isRequired && values[$0.name] == nil }) {
            throw .badRequest("\(missing.name) is missing.")
        }
    }

    func text(_ name: String) -> String? { values[name] }

    func integer(_ name: String) -> Int? { values[name].flatMap { RouteParameter.integer($0) } }

    func boolean(_ name: String) -> Bool? { values[name].map { $0 == "true" } }

    func list(_ name: String) -> [String]? { values[name].map { RouteParameter.parts($0) } }

    /// The rows of a page.
    var limit: Int { integer("limit") ?? 50 }
}

/// A stranger's name in a message of ours.
enum JSONName {
    static func shown(_ name: String) -> String {
        name.utf8.count <= 64 ? "'\(name)'" : "'\(name.prefix(64))...'"
    }
}

extension Administration {
    /// Bytes that clients have chosen, such as a topic, as answers have them.
    static func text(_ bytes: some Collection<UInt8>) -> String { String(decoding: Array(bytes), as: UTF8.self) }
}

/// Lists, a page at a time.
extension Administration {
    /// Answers with rows as all lists have them.
    ///
    /// - Parameters:
    ///   - call: who asks.
    ///   - rows: the page.
    ///   - cursor: where the next page begins; nil at the end.
    ///   - count: how many there are in all; nil where nobody counted.
    ///   - more: adds what a list has beside its rows.
    func answer(
        _ call: Call, page rows: [JSONObject], cursor: String?, count: Int? = nil, _ more: (inout JSONObject) -> Void = { _ in }
    ) {
        var meta = JSONObject()
        meta.set("cursor", orNull: cursor.map { call.isForNode ? $0 : longCursors.short($0) })
        meta.set("count", orNull: count)
        meta.set("as_of", Timestamp.text(call.startedAt.wallMilliseconds))
        var object = JSONObject()
        object.set("data", rows)
        more(&object)
        object.set("meta", meta)
        call.answer(object)
    }
}

/// Rows of a page on their way: as many as were asked for, or as there is room for; one at least.
struct PageRows {
    private(set) var rows: [JSONObject] = []
    private let countMax: Int
    private var bytesLeft: Int

    init(_ call: Call) {
        countMax = call.limit
        bytesLeft = call.isForNode ? Limits.nodePageBytesMax : Limits.pageBytesMax
    }

    init(countMax: Int) { (self.countMax, bytesLeft) = (countMax, Limits.pageBytesMax) }

    var count: Int { rows.count }
    var isFull: Bool { count >= countMax || bytesLeft <= 0 }

    /// Takes a row; false if there is no room for it.
    ///
    /// - Parameter bytes: what goes with it elsewhere in the answer.
    mutating func add(_ row: JSONObject, with bytes: Int = 0) -> Bool {
        let size = row.byteCount + 1 + bytes
        guard count < countMax, rows.isEmpty || size <= bytesLeft else { return false }
        bytesLeft -= size
        rows.append(row)
        return true
    }

    /// Takes rows from the front while there is room.
    mutating func fill<Row>(_ elements: some Sequence<Row>, _ write: (Row) -> JSONObject) {
        for element in elements { guard add(write(element)) else { return } }
    }
}
