/// The head of an HTTP request.
struct HTTPRequest {
    let method: String
    let version: String
    let fields: HTTPFields

    /// Reads a head without its last empty line; nil when it is none.
    init?(head: some Sequence<UInt8>) {
        let lines = HTTPFields.lines(of: head)
        let first = (lines.first ?? []).split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard first.count == 3, first.allSatisfy({ !$0.isEmpty }), let fields = HTTPFields(lines.dropFirst()) else { return nil }
        method = String(decoding: first[0], as: UTF8.self)
        version = String(decoding: first[2], as: UTF8.self)
        self.fields = fields
    }
}

/// The head of an HTTP response.
struct HTTPResponse {
    /// Code and words, such as `404 Not Found`.
    let status: String
    let fields: HTTPFields

    /// Reads a head without its last empty line; nil when it is none.
    init?(head: some Sequence<UInt8>) {
        let lines = HTTPFields.lines(of: head)
        let first = (lines.first ?? []).split(separator: UInt8(ascii: " "), maxSplits: 1)
        guard first.count == 2, first[0].elementsEqual("HTTP/1.1".utf8), let fields = HTTPFields(lines.dropFirst()) else {
            return nil
        }
        status = String(decoding: first[1], as: UTF8.self)
        self.fields = fields
    }
}
