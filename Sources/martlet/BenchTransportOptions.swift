import ArgumentParser
import Bench

/// The options of `martlet bench` that say what its connections go through.
struct BenchTransportOptions: ParsableArguments {
    @Flag(help: "Connect with TLS.")
    var tls = false

    @Option(help: "Whose certificate the broker may show, PEM. (default: the system's authorities)", completion: .file())
    var cafile: String?

    @Flag(help: "Take any certificate of the broker's.")
    var insecure = false

    @Option(help: "The load's own certificate, PEM, for a broker that demands one.", completion: .file())
    var cert: String?

    @Option(help: "The key of --cert.", completion: .file())
    var key: String?

    @Flag(help: "Let all TLS connections but the first resume a session.")
    var resume = false

    @Flag(help: "Connect with WebSocket; with --tls over TLS.")
    var websocket = false

    func validate() throws {
        guard tls || (cafile == nil && !insecure && cert == nil && key == nil && !resume) else {
            throw ValidationError("--cafile, --insecure, --cert, --key and --resume mean nothing without --tls.")
        }
        guard cafile == nil || !insecure else {
            throw ValidationError("With --insecure nobody looks at --cafile.")
        }
        guard (cert == nil) == (key == nil) else { throw ValidationError("--cert and --key belong together.") }
    }

    var transport: BenchTransport {
        var transport = BenchTransport()
        transport.usesTLS = tls
        transport.usesWebSocket = websocket
        transport.authoritiesFile = cafile
        transport.verifiesBroker = !insecure
        transport.certificateFile = cert
        transport.keyFile = key
        transport.resumesSessions = resume
        return transport
    }
}
