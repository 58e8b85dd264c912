/// Writes what a client says. What cannot be said safely has no value to be made of: subjects are checked when they are made.
public struct OperationWriter: Sendable {
    /// The bytes that are written so far.
    public var bytes: [UInt8] = []

    public init() {}

    /// - Parameter json: the options, as an object of JSON on one line.
    public mutating func connect(_ json: String) {
        bytes += "CONNECT ".utf8
        bytes += json.utf8
        end()
    }

    public mutating func publish(_ subject: Subject, reply: Subject? = nil, payload: some Collection<UInt8>) {
        bytes += "PUB ".utf8
        bytes += subject.bytes
        if let reply { field(reply.bytes) }
        field(payload.count)
        end()
        bytes += payload
        end()
    }

    public mutating func publish(
        _ subject: Subject, reply: Subject? = nil, headers: MessageHeaders, payload: some Collection<UInt8>
    ) {
        let block = headers.block
        guard !block.isEmpty else { return publish(subject, reply: reply, payload: payload) }
        bytes += "HPUB ".utf8
        bytes += subject.bytes
        if let reply { field(reply.bytes) }
        field(block.count)
        field(block.count + payload.count)
        end()
        bytes += block
        bytes += payload
        end()
    }

    /// Writes a publication from where it lies.
    ///
    /// - Precondition: `subject`, and `reply` unless it is empty, are subjects.
    mutating func publish(subject: UnsafeRawBufferPointer, reply: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer) {
        Self.publication.withUnsafeBytes { bytes.append(contentsOf: $0) }
        bytes.append(contentsOf: subject)
        if !reply.isEmpty {
            bytes.append(0x20)
            bytes.append(contentsOf: reply)
        }
        field(payload.count)
        end()
        bytes.append(contentsOf: payload)
        end()
    }

    private static let publication = Array("PUB ".utf8)

    /// Subscribes; messages come with the number of the subscription.
    public mutating func subscribe(_ pattern: SubjectPattern, subscription: UInt64) {
        bytes += "SUB ".utf8
        bytes += pattern.bytes
        field(Int(subscription))
        end()
    }

    public mutating func unsubscribe(_ subscription: UInt64) {
        bytes += "UNSUB".utf8
        field(Int(subscription))
        end()
    }

    public mutating func ping() { bytes += "PING\r\n".utf8 }

    public mutating func pong() { bytes += "PONG\r\n".utf8 }

    private mutating func field(_ text: [UInt8]) {
        bytes.append(0x20)
        bytes += text
    }

    private mutating func field(_ number: Int) {
        bytes.append(0x20)
        var divisor = 1
        while number / divisor >= 10 { divisor *= 10 }
        while divisor > 0 {
            bytes.append(UInt8(ascii: "0") + UInt8(number / divisor % 10))
            divisor /= 10
        }
    }

    private mutating func end() {
        bytes.append(0x0D)
        bytes.append(0x0A)
    }
}
