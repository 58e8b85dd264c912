public import HTTP

/// One question or order to the API.
public struct ControlRequest: Sendable, Equatable {
    public var method: HTTPMethod
    /// Percent-encoded, with the query.
    public var target: String
    /// JSON; nil for none.
    public var body: String?

    /// - `segments`: of the path below `/api/martlet/v1`, as they are.
    /// - `query`: names and values as they are; those without a value are left out.
    public init(_ method: HTTPMethod, _ segments: [String], query: [(String, String?)] = [], body: String? = nil) {
        self.method = method
        target = Self.target("/api/martlet/v1", segments, query)
        self.body = body
    }

    /// A question.
    public init(_ segments: [String]) { self.init(.get, segments) }

    /// Outside the API: `/readyz`.
    init(plain path: String, query: [(String, String?)] = []) {
        method = .get
        target = Self.target(path, [], query)
    }

    private static func target(_ path: String, _ segments: [String], _ query: [(String, String?)]) -> String {
        let pairs = query.compactMap { name, value in value.map { "\(name)=\(PercentCoding.encode($0))" } }
        let path = segments.reduce(path) { $0 + "/" + PercentCoding.encode($1) }
        return path + (pairs.isEmpty ? "" : "?" + pairs.joined(separator: "&"))
    }
}

/// What came back.
public struct ControlAnswer: Sendable, Equatable {
    public var status: Int
    public var body: [UInt8]

    public init(status: Int, body: [UInt8]) { (self.status, self.body) = (status, body) }

    var isSuccess: Bool { (200..<300).contains(status) }
}

/// What answers requests: a broker, or a test.
public protocol ControlService {
    /// The whole answer, whatever its status.
    func answer(to request: ControlRequest) throws(ControlError) -> ControlAnswer

    /// A stream of events: each is given to `take` until that returns false or the stream ends. Answers other than 200 are thrown.
    func follow(_ request: ControlRequest, _ take: (ServerSentEvent) -> Bool) throws(ControlError)
}
