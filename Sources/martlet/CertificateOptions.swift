import ArgumentParsing
import Transports

/// Whose certificate is taken over TLS, and which one is shown.
struct CertificateOptions: ParsableArguments {
    @Option(help: "Whose certificate the broker may show, PEM. (default: the system's authorities)", completion: .file)
    var cafile: String?

    @Flag(help: "Take any certificate of the broker's.")
    var insecure = false

    @Option(help: "A certificate of one's own, PEM, for a broker that demands one.", completion: .file)
    var cert: String?

    @Option(help: "The key of --cert.", completion: .file)
    var key: String?

    /// Whether any of them was given.
    var areGiven: Bool { cafile != nil || insecure || cert != nil || key != nil }

    func validate() throws {
        guard cafile == nil || !insecure else { throw ValidationError("With --insecure nobody looks at --cafile.") }
        guard (cert == nil) == (key == nil) else { throw ValidationError("--cert and --key belong together.") }
    }

    /// The settings of a connection to a server of that name.
    func settings(serverName: String) -> TLSClientSettings {
        var settings = TLSClientSettings(serverName: serverName)
        settings.authoritiesFile = cafile
        settings.verifiesServer = !insecure
        settings.certificateFile = cert
        settings.keyFile = key
        return settings
    }
}
