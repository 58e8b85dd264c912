internal import Bytes
public import HTTP

/// The server's side of a WebSocket that carries MQTT on a connection which somebody else reads and writes, as a server of HTTP does.
///
///     answer(to:) ─► decode, encode … ─► finish()
///
/// Owned by the thread of that connection.
public final class WebSocketTunnel {
    /// What has come from the peer.
    public struct Decoded {
        /// Bytes of MQTT.
        public var bytes: [UInt8]
        /// What the peer is answered beside MQTT: pongs, and its Close.
        public var reply: [UInt8]
        /// Whether nothing more comes.
        public var isEnded: Bool
    }

    private let filter: WebSocketFilter
    private let scratch = ByteBlock(capacity: Limits.filteredSlackBytes)
    private let reply = ByteBlock(capacity: 1 << 10)

    public init(_ settings: WebSocketSettings) { filter = WebSocketFilter(opened: settings) }

    /// The fields of the answer that opens a WebSocket, which has the status 101.
    public static func answer(to request: HTTPRequest, _ settings: WebSocketSettings) throws(HTTPRefusal) -> HTTPFields {
        let opening = try WebSocketHandshake(settings: settings).opening(
            method: request.method, version: request.version, fields: request.fields, host: request.host)
        return [
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": opening.key,
            "Sec-WebSocket-Protocol": opening.subprotocol,
        ]
    }

    public func decode(_ bytes: UnsafeRawBufferPointer) -> Decoded {
        scratch.removeAll()
        reply.removeAll()
        _ = scratch.extend(by: bytes.count + Limits.filteredSlackBytes)
        let decoding = filter.decode(bytes, into: scratch.room, reply: reply)
        return Decoded(
            bytes: Array(scratch.room[..<decoding.count]), reply: Array(reply.bytes), isEnded: decoding.end != nil)
    }

    /// Bytes of MQTT, each packet in a frame of its own.
    public func encode(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
        guard let base = bytes.baseAddress else { return [] }
        scratch.removeAll()
        let slice = ByteSlice(base: base, count: bytes.count)
        withUnsafePointer(to: slice) { filter.encode(UnsafeBufferPointer(start: $0, count: 1), into: scratch) }
        return Array(scratch.bytes)
    }

    /// The farewell; empty if there was one.
    public func finish() -> [UInt8] {
        scratch.removeAll()
        filter.finish(into: scratch)
        return Array(scratch.bytes)
    }
}
