import BrokerModel
import Configuration
import HTTP
import JSON

/// The three answers of mosquitto's `http_api`, byte by byte as it writes them.
enum MosquittoRoutes {
    /// `/api/v1/version`
    static var version: HTTPResponse { open(.text(ProductVersion.text)) }

    /// `/api/v1/listeners`
    static func listeners(_ configuration: BrokerConfiguration) -> HTTPResponse {
        var writer = JSONWriter(.cJSONLines)
        writer.object { root in
            root.array("listeners") { list in
                for listener in configuration.openListeners where !listener.isBrokersOwn {
                    list.object { Self.write(listener, to: &$0) }
                }
            }
        }
        return open(.json(writer.bytes))
    }

    private static func write(_ listener: ListenerConfiguration, to object: inout JSONWriter) {
        switch listener.endpoint {
        case .tcp(let port, _), .loopback(let port): object.set("port", port)
        case .unixSocket(let path): object.set("path", path)
        }
        switch listener.application {
        case .mqtt: object.set("protocol", "mqtt")
        case .webSockets: object.set("protocol", "websockets")
        case .httpAPI: object.set("protocol", "httpapi")
        }
        object.set("tls", listener.tls.certificateFile != nil && listener.tls.keyFile != nil)
        object.set("mtls", listener.tls.requiresCertificate)
        object.set("allow_anonymous", listener.security.allowsAnonymous)
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
        var writer = JSONWriter(.cJSONLines)
        writer.object { root in for (name, value) in values { root.set("$SYS/broker/\(name)", value) } }
        return open(.json(writer.bytes))
    }

    /// Pages of any origin may read it, without the credentials that browsers keep.
    private static func open(_ response: HTTPResponse) -> HTTPResponse {
        var response = response
        response.fields.append("Access-Control-Allow-Origin", "*")
        return response
    }
}
