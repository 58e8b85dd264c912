import BrokerCore
import Configuration
import HTTP
import JSON

/// The three answers of mosquitto's `http_api`, byte by byte as it writes them.
enum MosquittoRoutes {
    /// `/api/v1/version`
    static var version: HTTPResponse { open(.text(ProductVersion.text)) }

    /// `/api/v1/listeners`
    static func listeners(_ configuration: BrokerConfiguration) -> HTTPResponse {
        let items = configuration.listeners.map { listener -> [(String, String)] in
            let place: (String, String) =
                switch listener.endpoint {
                case .tcp(let port, _), .loopback(let port): ("port", "\(port)")
                case .unixSocket(let path): ("path", JSONText.quoted(path))
                }
            let name =
                switch listener.application {
                case .mqtt: "mqtt"
                case .webSockets: "websockets"
                case .httpAPI: "httpapi"
                }
            let hasCertificate = listener.tls.certificateFile != nil && listener.tls.keyFile != nil
            return [
                place, ("protocol", JSONText.quoted(name)), ("tls", "\(hasCertificate)"),
                ("mtls", "\(listener.tls.requiresCertificate)"), ("allow_anonymous", "\(listener.security.allowsAnonymous)"),
            ]
        }
        let list = items.map { object($0, depth: 3) }.joined(separator: ", ")
        return open(json(object([("listeners", "[\(list)]")], depth: 1)))
    }

    /// `/api/v1/systree`
    ///
    /// - Parameters:
    ///   - sum: of all shards.
    ///   - clientsMaximum: the most clients that there were.
    ///   - heapMaximum: the most bytes of heap.
    ///   - uptime: in seconds.
    static func systemTree(_ sum: ShardStatistics, clientsMaximum: Int, heapMaximum: Int, uptime: UInt64) -> HTTPResponse {
        let values: [(String, UInt64)] = [
            ("clients/total", UInt64(sum.clientsTotal)), ("clients/maximum", UInt64(clientsMaximum)),
            ("clients/disconnected", UInt64(max(0, sum.clientsTotal - sum.clientsConnected))),
            ("clients/connected", UInt64(sum.clientsConnected)), ("clients/expired", sum.clientsExpired),
            ("messages/stored", UInt64(sum.storedMessages)), ("store/messages/bytes", UInt64(sum.storedBytes)),
            ("subscriptions/count", UInt64(sum.subscriptions)),
            ("shared_subscriptions/count", UInt64(sum.sharedSubscriptions)),
            ("retained messages/count", UInt64(sum.retainedMessages)), ("heap/current", UInt64(sum.heapBytes)),
            ("heap/maximum", UInt64(heapMaximum)), ("messages/received", sum.messagesReceived), ("messages/sent", sum.messagesSent),
            ("bytes/received", sum.bytesReceived), ("bytes/sent", sum.bytesSent),
            ("publish/bytes/received", sum.publishBytesReceived), ("publish/bytes/sent", sum.publishBytesSent),
            ("packet/out/count", sum.packetsWaiting), ("packet/out/bytes", UInt64(sum.outputBytes)),
            ("connections/socket/count", UInt64(sum.connections)), ("publish/messages/dropped", sum.publishDropped),
            ("publish/messages/received", sum.publishReceived), ("publish/messages/sent", sum.publishSent), ("uptime", uptime),
        ]
        return open(json(object(values.map { ("$SYS/broker/\($0.0)", "\($0.1)") }, depth: 1)))
    }

    /// An object as cJSON prints it: a line for each member, tabs in front and behind the colon.
    private static func object(_ members: [(String, String)], depth: Int) -> String {
        let tabs = String(repeating: "\t", count: depth)
        let lines = members.map { "\(tabs)\(JSONText.quoted($0.0)):\t\($0.1)" }
        return "{\n" + lines.joined(separator: ",\n") + "\n\(tabs.dropLast())}"
    }

    private static func json(_ text: String) -> HTTPResponse { .json(text.utf8) }

    /// Pages of any origin may read it, without the credentials that browsers keep.
    private static func open(_ response: HTTPResponse) -> HTTPResponse {
        var response = response
        response.fields.append("Access-Control-Allow-Origin", "*")
        return response
    }
}
