/// Why a request is not taken: what its peer is answered. The connection ends after it, for where the next request begins is not known.
public struct HTTPRefusal: Error, Equatable, Sendable {
    public let status: HTTPStatus
    /// Fields that belong to the status, such as Allow.
    public var fields: HTTPFields
    /// A sentence that helps.
    public let explanation: String
    /// Whether the peer speaks another protocol than HTTP, so that its operator learns of it from the log alone.
    public private(set) var isOfForeigner = false

    public init(_ status: HTTPStatus, _ explanation: String, fields: HTTPFields = HTTPFields()) {
        self.status = status
        self.explanation = explanation
        self.fields = fields
    }

    static func malformed(_ explanation: String) -> HTTPRefusal { HTTPRefusal(.badRequest, explanation) }

    /// Of a peer whose first byte begins no request.
    static func foreign(firstByte: UInt8) -> HTTPRefusal {
        let words =
            switch firstByte {
            case 0x10: "The client speaks MQTT, and this port HTTP: let it connect to a listener without protocol http_api."
            case 0x16:
                "The client speaks TLS, and this port does not: let it use http instead of https, or give this listener certfile and keyfile."
            default: "This is not HTTP."
            }
        var refusal = malformed(words)
        refusal.isOfForeigner = true
        return refusal
    }

    /// The whole answer.
    public var response: HTTPResponse {
        var response = HTTPResponse.text(explanation + "\n", status: status)
        response.fields.append(contentsOf: fields)
        response.endsConnection = true
        return response
    }
}
