internal import HTTP

/// What a client may ask for: a row of the one table.
struct Route: Sendable {
    /// The right that a caller needs.
    enum Need: String, Sendable {
        case nothing = "none"
        case viewer
        case admin
        case metrics
    }

    /// What a listener may leave out, by `martlet_http_serve`.
    enum Part: Sendable {
        case health
        case metrics
        case api
    }

    enum Segment: Sendable, Equatable {
        case word(String)
        case argument(String)
    }

    typealias Handler = @Sendable (Administration) -> (Call) throws(APIError) -> Void

    /// What OpenAPI and the audit call it.
    let operation: String
    let method: HTTPMethod
    /// With `{name}` for arguments.
    let path: String
    let pattern: [Segment]
    let need: Need
    let part: Part
    let parameters: [RouteParameter]
    let takesBody: Bool
    let handler: Handler

    init(
        _ method: HTTPMethod, _ path: String, _ operation: String, _ need: Need, part: Part = .api,
        parameters: [RouteParameter] = [],
        takesBody: Bool = false, _ handler: @escaping Handler
    ) {
        (self.method, self.path, self.operation, self.need, self.part) = (
            method, path, operation, need, part
        )
        (self.parameters, self.takesBody, self.handler) = (parameters, takesBody, handler)
        pattern = path.split(separator: "/").map { word in
            word.first == "{" ? .argument(String(word.dropFirst().dropLast())) : .word(String(word))
        }
    }

    /// The arguments in a path; nil if it is another one. None of them is empty.
    func arguments(in segments: [String]) -> [String: String]? {
        guard segments.count == pattern.count else { return nil }
        var arguments: [String: String] = [:]
        for (segment, expected) in zip(segments, pattern) {
            switch expected {
            case .word(let word): guard word == segment else { return nil }
            case .argument(let name):
                guard !segment.isEmpty else { return nil }
                arguments[name] = segment
            }
        }
        return arguments
    }

    /// What a request is for.
    enum Match {
        case route(Route, [String: String])
        /// There is such a path, with these methods.
        case otherMethods([HTTPMethod])
        case none
    }

    /// Finds the row for a request; HEAD is GET without its body. O(rows).
    static func find(_ method: HTTPMethod, _ segments: [String]) -> Match {
        let wanted = method == .head ? HTTPMethod.get : method
        var methods: [HTTPMethod] = []
        for route in table {
            guard let arguments = route.arguments(in: segments) else { continue }
            if route.method == wanted { return .route(route, arguments) }
            methods.append(route.method)
            if route.method == .get { methods.append(.head) }
        }
        return methods.isEmpty ? .none : .otherMethods(methods)
    }
}
