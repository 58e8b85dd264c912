import ArgumentParser

/// The options of a command that connects to a broker: what its connections go through.
struct ConnectionOptions: ParsableArguments {
    @Flag(help: "Connect with TLS.")
    var tls = false

    @Option(help: "Whose certificate the broker may show, PEM. (default: the system's authorities)", completion: .file())
    var cafile: String?

    @Flag(help: "Take any certificate of the broker's.")
    var insecure = false

    @Option(help: "A certificate of one's own, PEM, for a broker that demands one.", completion: .file())
    var cert: String?

    @Option(help: "The key of --cert.", completion: .file())
    var key: String?

    @Flag(help: "Connect with WebSocket; with --tls over TLS.")
    var websocket = false

    func validate() throws {
        guard tls || (cafile == nil && !insecure && cert == nil && key == nil) else {
            throw ValidationError("--cafile, --insecure, --cert and --key mean nothing without --tls.")
        }
        guard cafile == nil || !insecure else {
            throw ValidationError("With --insecure nobody looks at --cafile.")
        }
        guard (cert == nil) == (key == nil) else { throw ValidationError("--cert and --key belong together.") }
    }
}
