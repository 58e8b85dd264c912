internal import ClientCore

/// Where the messages of a pipe come from. Any thread may call.
package protocol MessageSource: AnyObject, Sendable {
    /// The consumer took a message of QoS 1 or 2, or refuses it.
    func acknowledge(_ token: AcknowledgementToken, _ reason: ReasonCode, from pipe: MessagePipe)
    /// A pipe whose backlog was full has room again.
    func resume(_ pipe: MessagePipe)
    /// The clock by which messages get too old, in milliseconds.
    var uptimeMilliseconds: UInt64 { get }
    /// Nobody takes from the pipe any more; these tokens are not acknowledged.
    func close(_ pipe: MessagePipe, unacknowledged: [AcknowledgementToken])
}

extension MessageSource {
    // Doubles have no time: what they send does not get old.
    package var uptimeMilliseconds: UInt64 { 0 }
}
