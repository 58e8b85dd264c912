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
