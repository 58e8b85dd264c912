import HTTP
import JSON
import JSONReader
package import NATSClient
import Platform
import ServerLoops
import Transports

/// The monitoring of a NATS server, which alone says whether the server brings every record to its disk before it acknowledges it.
package struct ServerMonitor: Sendable, CustomStringConvertible {
    private let host: String
    private let port: UInt16

    /// The port that NATS servers have for it if nothing else is said.
    private static let usualPort: UInt16 = 8222

    /// Reads `http://HOST:PORT`. Throws what is wrong with it, and what would be right.
    package init(reading text: String) throws(ServerAddressError) {
        let scheme = "http://"
        guard text.hasPrefix(scheme) else { throw ServerAddressError("\(text) does not begin with \(scheme)") }
        let address = try ServerAddress(reading: String(text.dropFirst(scheme.count)))
        guard address.login == nil else { throw ServerAddressError("monitoring takes no login") }
        host = address.host
        port = address.port == ServerAddress.usualPort ? Self.usualPort : address.port
    }

    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// Asks, and waits for the answer.
    func ask() -> SyncConduct {
        do throws(BlockingChannel.Failure) {
            return SyncConduct(varz: try get("/varz"))
        } catch {
            return .unknown(error.reason)
        }
    }

    private func get(_ path: String) throws(BlockingChannel.Failure) -> [UInt8] {
        let addresses: [SocketAddress]
        do throws(ResolutionError) {
            addresses = try ListenAddress(host: .named(host), port: port).resolve()
        } catch {
            throw BlockingChannel.Failure("\(error)")
        }
        var failure = BlockingChannel.Failure("it has no address")
        let deadline = MonotonicClock.milliseconds() + Limits.monitorAnswerMillisecondsMax
        for address in addresses {
            do throws(BlockingChannel.Failure) {
                return try get(path, from: address, deadline)
            } catch {
                failure = error
            }
        }
        throw failure
    }

    private func get(
        _ path: String, from address: SocketAddress, _ deadline: UInt64
    ) throws(BlockingChannel.Failure) -> [UInt8] {
        var channel = try BlockingChannel(to: address, ClientLayers())
        defer { channel.close() }
        var request = Array("GET \(path) HTTP/1.1\r\nHost: \(self)\r\nConnection: close\r\n\r\n".utf8)[...]
        var reader = HTTPResponseReader(bodyBytesMax: Limits.monitorAnswerBytesMax)
        var body: [UInt8] = []
        while true {
            let chunk = try channel.exchange(&request, deadline: deadline)
            do throws(HTTPResponseError) {
                if let chunk { reader.append(chunk) } else { try reader.finish() }
                while true {
                    let event = try reader.next()
                    switch event {
                    case .head(let head) where head.status != .ok: throw HTTPResponseError("is status \(head.status.rawValue)")
                    case .body(let bytes): body += bytes
                    case .end: return body
                    default: break
                    }
                    if event == .needsMore { break }
                }
            } catch {
                throw BlockingChannel.Failure("what it answers \(error)")
            }
        }
    }
}

extension SyncConduct {
    /// Reads what the page `/varz` of a server says.
    init(varz: [UInt8]) {
        guard let page = try? JSONValue(reading: varz), let jetStream = page.object?["jetstream"]?.object?["config"]?.object else {
            self = .unknown("it says nothing of JetStream")
            return
        }
        if jetStream["sync_always"]?.boolean == true {
            self = .always
        } else if let nanoseconds = jetStream["sync_interval"]?.integer {
            self = .every(seconds: nanoseconds / 1_000_000_000)
        } else {
            self = .unknown("it does not say when it syncs")
        }
    }
}
