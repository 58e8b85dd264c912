import Transports

/// What carries the connections of a load: TCP, with TLS, WebSocket or both on top.
public struct BenchTransport: Sendable {
    public var usesTLS = false
    public var usesWebSocket = false
    /// Whose certificate the broker may show; nil for the system's authorities.
    public var authoritiesFile: String?
    /// Whether the broker's certificate is looked at.
    public var verifiesBroker = true
    /// The load's own certificate and key, for a broker that demands one.
    public var certificateFile: String?
    public var keyFile: String?
    /// Whether all TLS connections but the first resume a session.
    public var resumesSessions = false

    public init() {}

    /// What it is called in a result.
    var name: String {
        switch (usesTLS, usesWebSocket) {
        case (false, false): "TCP"
        case (true, false): "TLS"
        case (false, true): "WebSocket"
        case (true, true): "WebSocket over TLS"
        }
    }

    /// The port that brokers have for it if nobody says otherwise.
    var usualPort: UInt16 { usesTLS ? 8883 : 1883 }

    /// nil without TLS.
    func tlsSettings(host: String) -> TLSClientSettings? {
        guard usesTLS else { return nil }
        var settings = TLSClientSettings(serverName: host)
        settings.authoritiesFile = authoritiesFile
        settings.verifiesServer = verifiesBroker
        settings.certificateFile = certificateFile
        settings.keyFile = keyFile
        settings.resumesSessions = resumesSessions
        return settings
    }
}
