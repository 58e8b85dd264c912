import ArgumentParsing
import Transports

/// Whose certificate is taken over TLS, and which one is shown.
struct CertificateOptions: ParsableArguments {
    @Option(help: "CA certificates for the broker's certificate, PEM. (default: the system's)", completion: .file)
    var cafile: String?

    @Flag(help: "Do not verify the broker's certificate.")
    var insecure = false

    @Option(help: "The client certificate, PEM, for a broker that requires one.", completion: .file)
    var cert: String?

    @Option(help: "The private key of --cert, PEM.", completion: .file)
    var key: String?

    /// Whether any of them was given.
    var areGiven: Bool { cafile != nil || insecure || cert != nil || key != nil }

    func validate() throws {
        guard cafile == nil || !insecure else {
            throw ValidationError("--insecure and --cafile exclude each other: with --insecure no certificate is verified.")
        }
        guard (cert == nil) == (key == nil) else { throw ValidationError("--cert and --key need each other.") }
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
