import Platform
import Transports

/// What a node on trial says of its cluster, asked over HTTP.
enum DevNodeProbe {
    /// How many other nodes a node carries messages with; nil if it carries none, or does not answer.
    static func otherNodes(httpPort: UInt16) -> Int? {
        guard let answer = try? get("/metrics", httpPort) else { return nil }
        guard answer.hasPrefix("HTTP/1.1 200 "), value(of: "martlet_cluster_up", in: answer) == 1 else { return nil }
        return value(of: "martlet_cluster_other_nodes", in: answer)
    }

    private static func value(of metric: String, in text: String) -> Int? {
        // martlet_cluster_up{cluster="dev"} 1
        text.split(separator: "\n").first { $0.hasPrefix("\(metric){") }.flatMap { $0.split(separator: " ").last }.flatMap {
            Int($0)
        }
    }

    private static func get(_ path: String, _ port: UInt16) throws(BlockingChannel.Failure) -> String {
        var channel = try BlockingChannel(to: .loopbackIPv4(port: port), ClientLayers())
        defer { channel.close() }
        let deadline = MonotonicClock.milliseconds() + 2000
        var request = Array("GET \(path) HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".utf8)[...]
        var bytes: [UInt8] = []
        while let chunk = try channel.exchange(&request, deadline: deadline) { bytes += chunk }
        return String(decoding: bytes, as: UTF8.self)
    }
}
