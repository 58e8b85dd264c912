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
