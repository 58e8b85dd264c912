import ArgumentParsing
import Bench

/// The options of `martlet bench` that say what its connections go through.
struct BenchTransportOptions: ParsableArguments {
    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Let all TLS connections but the first resume a session.")
    var resume = false

    func validate() throws {
        guard connection.tls || !resume else { throw ValidationError("--resume needs --tls.") }
    }

    var transport: BenchTransport {
        var transport = BenchTransport()
        transport.usesTLS = connection.tls
        transport.usesWebSocket = connection.websocket
        transport.authoritiesFile = connection.certificates.cafile
        transport.verifiesBroker = !connection.certificates.insecure
        transport.certificateFile = connection.certificates.cert
        transport.keyFile = connection.certificates.key
        transport.resumesSessions = resume
        return transport
    }
}
