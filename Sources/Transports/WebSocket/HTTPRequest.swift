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
