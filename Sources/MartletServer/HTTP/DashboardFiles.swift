import CDashboard
import HTTP
import Platform

/// The dashboard's files, which the binary brings along. They say nothing about the broker, so that everybody gets them: what the page shows it
/// asks for as whoever has logged in there.
struct DashboardFiles {
    /// By path below `/dashboard/`.
    private let files: [String: StaticFile]

    init() {
        var files: [String: StaticFile] = [:]
        for index in 0..<martlet_dashboard_file_count {
            guard let file = martlet_dashboard_file_at(index)?.pointee, let path = file.path else { continue }
            let name = String(cString: path)
            let bytes = Array(UnsafeBufferPointer(start: file.bytes, count: file.byte_count))
            files[name] = StaticFile(bytes, name: name, tag: Self.tag(of: bytes))
        }
        self.files = files
    }

    /// Whether a request is for one of them.
    static func serve(_ request: HTTPRequest) -> Bool { request.segments.first == "dashboard" }

    /// Whether somebody has typed the host's name alone: what asks for it takes pages, as browsers do and mosquitto's clients do not.
    static func isFrontDoor(_ request: HTTPRequest) -> Bool {
        request.path == "/" && request.fields["Accept"]?.holds("text/html") ?? false
    }

    /// The answer to a GET or HEAD.
    ///
    /// - Parameter host: what the page's server is called: over WebSocket it is another origin to some browsers, also behind a proxy that speaks
    ///   TLS for it.
    func answer(to request: HTTPRequest, host: String) -> HTTPResponse {
        let below = request.segments.dropFirst()
        guard !below.isEmpty else {
            return HTTPResponse(.permanentRedirect, fields: ["Location": request.target.encodedPath + "/"])
        }
        let name = below == [""] ? "index.html" : below.joined(separator: "/")
        guard let file = files[name] else { return FileDirectory.notFound }
        var response = file.answer(to: request)
        let reached = host.isEmpty ? "'self'" : "'self' ws://\(host) wss://\(host)"
        response.fields["Content-Security-Policy"] =
            "default-src 'self'; connect-src \(reached); base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        response.fields["Referrer-Policy"] = "no-referrer"
        return response
    }

    /// FNV-1a, 64 bits: a name for what is in the file, not a secret.
    private static func tag(of bytes: [UInt8]) -> String {
        String(bytes.reduce(0xCBF2_9CE4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }, radix: 36)
    }
}
