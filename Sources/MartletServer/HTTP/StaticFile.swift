import CZlib
import HTTP
import Platform

/// Bytes that are served as they are: a file's, or what the binary brings along. What is kept in memory is compressed
/// once.
final class StaticFile {
    /// The bytes of memory that it takes.
    let byteCount: Int
    /// Whether it stays in memory for who asks next.
    var isKept = true
    private let whole: HTTPBody
    private let compressed: [UInt8]?
    private let type: String
    private let modified: Int64?
    private let tag: EntityTag

    /// A file that is kept in memory.
    ///
    /// - Parameters:
    ///   - name: what it is is told from its end.
    ///   - tag: names this state of the bytes.
    ///   - modified: when they changed last, in seconds since 1970; nil when nobody knows.
    convenience init(_ bytes: [UInt8], name: String, tag: String, modified: Int64? = nil) {
        let isText = MediaType.of(name).isText
        let smaller = isText && Limits.compressedFileBytes.contains(bytes.count) ? Gzip.compress(bytes) : nil
        self.init(.bytes(bytes), smaller.flatMap { $0.count < bytes.count ? $0 : nil }, name: name, tag: tag, modified: modified)
    }

    /// A file that is read from the disk as its peer reads it.
    convenience init(_ content: OpenFile, name: String, tag: String, modified: Int64?) {
        self.init(.content(content), nil, name: name, tag: tag, modified: modified)
    }

    private init(_ whole: HTTPBody, _ compressed: [UInt8]?, name: String, tag: String, modified: Int64?) {
        (self.whole, self.compressed, self.modified, self.tag) = (whole, compressed, modified, EntityTag(tag))
        type = MediaType.of(name).type
        var byteCount = compressed?.count ?? 0
        if case .bytes(let bytes) = whole { byteCount += bytes.count }
        self.byteCount = byteCount
    }

    /// The answer to a GET or HEAD of it: whole, compressed if the peer likes that, or 304 when the peer has it
    /// already.
    func answer(to request: HTTPRequest) -> HTTPResponse {
        let likes = request.fields["Accept-Encoding"].map { HTTPPreference($0).weight(ofCoding: "gzip") > 0 } ?? false
        let chosen = likes ? compressed : nil
        let tag = chosen == nil ? tag : EntityTag(tag.opaque + "-gzip")
        var fields: HTTPFields = ["ETag": tag.text, "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"]
        if compressed != nil { fields.append("Vary", "Accept-Encoding") }
        if let modified { fields.append("Last-Modified", HTTPDate.text(modified)) }
        if request.hasCurrent(tag, modified: modified) { return HTTPResponse(.notModified, fields: fields) }
        fields.append("Content-Type", type)
        if chosen != nil { fields.append("Content-Encoding", "gzip") }
        return HTTPResponse(.ok, fields: fields, body: body(chosen))
    }

    private func body(_ compressed: [UInt8]?) -> HTTPBody {
        let body = compressed.map { HTTPBody.bytes($0) } ?? whole
        guard case .bytes(let bytes) = body, bytes.count > Limits.sharedFileBytesMin else { return body }
        return .content(KeptContent(bytes, of: self))
    }
}

/// A file's bytes in memory, which all who read it share.
private final class KeptContent: HTTPContent {
    private let whole: [UInt8]
    private let file: StaticFile

    init(_ whole: [UInt8], of file: StaticFile) { (self.whole, self.file) = (whole, file) }

    var byteCount: Int { whole.count }
    /// The bytes that only this reader keeps: those of a file that the directory has forgotten meanwhile.
    var heldByteCount: Int { file.isKept ? 0 : file.byteCount }

    func bytes(from offset: Int, count: Int) -> [UInt8] { Array(whole.dropFirst(offset).prefix(count)) }
}

/// What a file is, by the end of its name.
enum MediaType {
    /// The value of Content-Type, and whether compression makes it smaller.
    static func of(_ name: String) -> (type: String, isText: Bool) {
        let end = name.lastIndex(of: ".").map { name[name.index(after: $0)...].lowercased() } ?? ""
        if let type = texts[end] { return ("\(type); charset=utf-8", true) }
        if let type = others[end] { return (type, compressible.contains(end)) }
        return ("application/octet-stream", false)
    }

    private static let texts = [
        "html": "text/html", "htm": "text/html", "css": "text/css", "js": "text/javascript", "mjs": "text/javascript",
        "txt": "text/plain", "md": "text/markdown", "csv": "text/csv", "xml": "text/xml",
    ]
    private static let others = [
        "json": "application/json", "map": "application/json", "webmanifest": "application/manifest+json", "svg": "image/svg+xml",
        "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp",
        "avif": "image/avif",
        "ico": "image/x-icon", "woff2": "font/woff2", "woff": "font/woff", "ttf": "font/ttf", "wasm": "application/wasm",
        "pdf": "application/pdf",
    ]
    private static let compressible: Set = ["json", "map", "webmanifest", "svg", "wasm", "ttf", "ico"]
}

/// Compression for what is served often and does not change.
enum Gzip {
    /// The bytes as RFC 1952 has them, with the best compression; nil when there is no memory for it.
    static func compress(_ bytes: [UInt8]) -> [UInt8]? {
        var stream = z_stream()
        guard zlib_begin_gzip(&stream, 9) == Z_OK else { return nil }
        defer { deflateEnd(&stream) }
        let room = Int(deflateBound(&stream, UInt(bytes.count)))
        var source = bytes
        var result = Z_OK
        let compressed = [UInt8](unsafeUninitializedCapacity: room) { target, count in
            source.withUnsafeMutableBufferPointer { source in
                stream.next_in = source.baseAddress
                stream.avail_in = UInt32(source.count)
                stream.next_out = target.baseAddress
                stream.avail_out = UInt32(room)
                result = deflate(&stream, Z_FINISH)
            }
            count = room - Int(stream.avail_out)
        }
        return result == Z_STREAM_END ? compressed : nil
    }
}

/// A file on the disk that is sent piece by piece: none of it stays in memory.
final class OpenFile: HTTPContent {
    private let file: ReadFile

    init(_ file: ReadFile) { self.file = file }

    var byteCount: Int { file.byteCount }
    var heldByteCount: Int { 0 }

    func bytes(from offset: Int, count: Int) -> [UInt8] { (try? file.bytes(from: offset, count: count)) ?? [] }
}

extension Limits {
    /// Bytes of a file in memory that is sent piece by piece; less is copied for who asks.
    static let sharedFileBytesMin = 64 << 10

    /// Bytes of a file that is compressed: less gains nothing, and more would hold up others that ask.
    static let compressedFileBytes = 512...(2 << 20)
}
