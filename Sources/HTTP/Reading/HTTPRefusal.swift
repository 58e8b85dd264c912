/// Why a request is not taken: what its peer is answered. The connection ends after it, for where the next request begins is not known.
public struct HTTPRefusal: Error, Equatable, Sendable {
    public let status: HTTPStatus
    /// Fields that belong to the status, such as Allow.
    public var fields: HTTPFields
    /// A sentence that helps.
    public let explanation: String

    public init(_ status: HTTPStatus, _ explanation: String, fields: HTTPFields = HTTPFields()) {
        self.status = status
        self.explanation = explanation
        self.fields = fields
    }

    static func malformed(_ explanation: String) -> HTTPRefusal { HTTPRefusal(.badRequest, explanation) }

    /// The whole answer.
    public var response: HTTPResponse {
        var response = HTTPResponse.text(explanation + "\n", status: status)
        response.fields.append(contentsOf: fields)
        response.endsConnection = true
        return response
    }
}
