/// Which end of a WebSocket this is.
enum WebSocketSide {
    case server(WebSocketSettings)
    case client(WebSocketOffer)

    /// How long the head of the peer's HTTP message may be.
    var headBytesMax: Int {
        switch self {
        case .server(let settings): settings.headerBytesMax
        case .client: 8192
        }
    }

    var frameBytesMax: UInt64 {
        switch self {
        case .server(let settings): settings.frameBytesMax
        case .client(let offer): offer.settings.frameBytesMax
        }
    }

    var isServer: Bool {
        switch self {
        case .server: true
        case .client: false
        }
    }

    /// The mask of the next frame that goes out; a server's have none.
    var nextMask: WebSocketMask? { isServer ? nil : .random() }
}
