internal import HTTP
import Platform

/// What a request has to keep whoever sends it: pages of other sites must not use a browser's rights.
enum RequestRules {
    /// The refusal of a request whose Host names another server than the one it has reached: the page behind it may
    /// belong to somebody whose name points to this machine. Only where the listener's own names are known: on
    /// loopback, and where `martlet_http_host` gives some.
    static func misdirection(
        _ request: HTTPRequest, _ listener: AdministrationSettings.Listener, _ settings: AdministrationSettings
    ) -> APIError? {
        guard listener.isLoopback || !settings.hosts.isEmpty, !request.host.isEmpty else { return nil }
        let name = Self.name(ofHost: request.host)
        let known = ["localhost", "127.0.0.1", "[::1]"] + settings.hosts.map { $0.lowercased() }
        if known.contains(name) || known.contains(request.host) { return nil }
        return APIError(.misdirectedRequest, "This server is not called \(name); see martlet_http_host.")
    }

    /// Objects to a change that a page of another site asks for: browsers add cookies and passwords by themselves. The
    /// rule is that of Go 1.25's CrossOriginProtection.
    static func checkOrigin(_ request: HTTPRequest, _ settings: AdministrationSettings)
        throws(APIError)
    {
        // A WebSocket can do what a change can, and no browser keeps a page from opening one elsewhere.
        guard !request.method.isSafe || request.fields["Upgrade"] != nil else { return }
        let origin = request.fields["Origin"]
        if let origin, settings.origins.contains(origin) { return }
        let refusal = APIError(
            .forbidden, "The request comes from a page of another origin; see martlet_http_origin.")
        if let site = request.fields["Sec-Fetch-Site"] {
            guard site == "same-origin" || site == "none" else { throw refusal }
            return
        }
        // Not a browser.
        guard let origin else { return }
        guard let scheme = origin.firstPlace(of: "://"),
            origin[scheme.upperBound...].lowercased() == request.host
        else {
            throw refusal
        }
    }

    /// The fields by which a browser lets a page of another origin see an answer.
    static func sharing(with request: HTTPRequest, _ settings: AdministrationSettings) -> HTTPFields {
        guard let origin = request.fields["Origin"], settings.origins.contains(origin) else {
            return [:]
        }
        return [
            "Access-Control-Allow-Origin": origin, "Access-Control-Allow-Credentials": "true",
            "Vary": "Origin",
        ]
    }

    /// The fields of an answer to what a browser asks before a request.
    static func preflight(
        _ request: HTTPRequest, _ methods: [HTTPMethod], _ settings: AdministrationSettings
    ) -> HTTPResponse {
        let names = methods.map(\.rawValue).joined(separator: ", ")
        var fields: HTTPFields = ["Allow": names + ", OPTIONS"]
        let shared = sharing(with: request, settings)
        if !shared.all.isEmpty, request.fields["Access-Control-Request-Method"] != nil {
            fields.append("Access-Control-Allow-Methods", names)
            fields.append("Access-Control-Allow-Headers", "Authorization, Content-Type, Last-Event-ID")
            fields.append("Access-Control-Max-Age", "600")
        }
        return HTTPResponse(.noContent, fields: fields)
    }

    /// Without its port.
    private static func name(ofHost host: String) -> String { HTTPHost(host).name }
}
