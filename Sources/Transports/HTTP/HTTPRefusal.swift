/// Why a request is not granted: what the peer is answered.
struct HTTPRefusal: Error, Equatable {
    let status: String
    /// Further fields, each a whole line without its end.
    var fields: [String] = []
    /// A sentence that helps.
    let explanation: String

    /// The whole answer. The connection ends after it.
    var response: String {
        let body = explanation + "\n"
        let lines =
            [
                "HTTP/1.1 \(status)", "Content-Type: text/plain; charset=utf-8", "Content-Length: \(body.utf8.count)",
                "Connection: close",
            ]
            + fields
        return lines.joined(separator: "\r\n") + "\r\n\r\n" + body
    }
}
