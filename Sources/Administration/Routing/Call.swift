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

    /// The members of the body, of which there are no others.
    func body(_ names: String...) throws(APIError) -> RequestBody {
        try RequestBody(request, names: names)
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
