import ArgumentParsing

/// The options of a command that connects to a broker: what its connections go through.
struct ConnectionOptions: ParsableArguments {
    @Flag(help: "Connect with TLS.")
    var tls = false

    @OptionGroup var certificates: CertificateOptions

    @Flag(help: "Connect with WebSocket; with --tls over TLS.")
    var websocket = false

    func validate() throws {
        guard tls || !certificates.areGiven else {
            throw ValidationError("--cafile, --insecure, --cert and --key need --tls.")
        }
    }
}
