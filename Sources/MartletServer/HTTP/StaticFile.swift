import HTTP

/// Bytes that are served as they are: a file's, or what the binary brings along. Compressed once.
final class StaticFile {
    let bytes: [UInt8]
    private let type: String
    private let modified: Int64?
    private let tag: EntityTag
    private let compressed: [UInt8]?

    /// - Parameters:
    ///   - name: what it is is told from its end.
    ///   - tag: names this state of the bytes.
    ///   - modified: when they changed last, in seconds since 1970; nil when nobody knows.
    init(_ bytes: [UInt8], name: String, tag: String, modified: Int64? = nil) {
        self.bytes = bytes
        self.modified = modified
        self.tag = EntityTag(tag)
        let (type, isText) = MediaType.of(name)
        self.type = type
        let smaller = isText && Limits.compressedFileBytes.contains(bytes.count) ? Gzip.compress(bytes) : nil
        compressed = smaller.flatMap { $0.count < bytes.count ? $0 : nil }
    }

    /// What it takes in memory, in bytes.
    var byteCount: Int { bytes.count + (compressed?.count ?? 0) }

    /// The answer to a GET or HEAD of it: whole, compressed if the peer likes that, or 304 when the peer has it already.
    func answer(to request: HTTPRequest) -> HTTPResponse {
        let likes = request.fields["Accept-Encoding"].map { HTTPPreference($0).weight(ofCoding: "gzip") > 0 } ?? false
        let isCompressed = likes && compressed != nil
        let tag = isCompressed ? EntityTag(self.tag.opaque + "-gzip") : self.tag
        var fields: HTTPFields = ["ETag": tag.text, "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"]
        if compressed != nil { fields.append("Vary", "Accept-Encoding") }
        if let modified { fields.append("Last-Modified", HTTPDate.text(modified)) }
        if request.hasCurrent(tag, modified: modified) { return HTTPResponse(.notModified, fields: fields) }
        fields.append("Content-Type", type)
        if isCompressed { fields.append("Content-Encoding", "gzip") }
        return HTTPResponse(.ok, fields: fields, body: .bytes(isCompressed ? compressed ?? bytes : bytes))
    }
}
