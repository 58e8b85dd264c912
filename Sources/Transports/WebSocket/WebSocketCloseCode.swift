/// Why a WebSocket is closed, RFC 6455, section 7.4.1.
struct WebSocketCloseCode: Equatable {
    let rawValue: UInt16

    static let normal = WebSocketCloseCode(rawValue: 1000)
    static let protocolError = WebSocketCloseCode(rawValue: 1002)
    static let unacceptableData = WebSocketCloseCode(rawValue: 1003)
    static let inconsistentData = WebSocketCloseCode(rawValue: 1007)
    static let messageTooLarge = WebSocketCloseCode(rawValue: 1009)

    /// Whether a peer may send it: those that only describe the absence of one may not, nor those that nobody has defined.
    var mayBeSent: Bool {
        switch rawValue {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }
}

/// What a peer did that RFC 6455 or the MQTT standard forbids, and the code that it is closed with.
struct WebSocketViolation: Error, Equatable {
    let code: WebSocketCloseCode
    let explanation: String

    init(_ code: WebSocketCloseCode, _ explanation: String) {
        self.code = code
        self.explanation = explanation
    }
}
