import HTTP
import JSON

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
