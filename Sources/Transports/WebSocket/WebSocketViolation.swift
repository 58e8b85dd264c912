/// What a peer did that RFC 6455 or the MQTT standard forbids, and the code that it is closed with.
struct WebSocketViolation: Error, Equatable {
    let code: WebSocketCloseCode
    let explanation: String

    init(_ code: WebSocketCloseCode, _ explanation: String) {
        self.code = code
        self.explanation = explanation
    }
}
