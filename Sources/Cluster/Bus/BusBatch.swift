/// Messages of a node that follow each other on one subject, and leave together: what a client sends quickly costs the servers one message then.
///
///     version 3 │ (length │ envelope of a message)*
///
/// One alone is the envelope itself. Lengths are variable integers, as in `BusMessage`.
struct BusBatch {
    static let version: UInt8 = 3

    private(set) var subject: [UInt8] = []
    private(set) var count = 0
    private var bytes: [UInt8] = []
    /// Where the first envelope begins.
    private var first = 0

    var isEmpty: Bool { count == 0 }

    /// Whether a message of so many bytes may go along.
    func takes(_ byteCount: Int, on subject: [UInt8], bytesMax: Int) -> Bool {
        // A length has up to ten bytes.
        count > 0 && bytes.count + 10 + byteCount <= bytesMax && self.subject == subject
    }

    /// - Precondition: it is empty, or takes the message.
    mutating func append(_ envelope: [UInt8], on subject: [UInt8]) {
        if count == 0 {
            // Its room is used again.
            self.subject.removeAll(keepingCapacity: true)
            self.subject.append(contentsOf: subject)
            bytes.removeAll(keepingCapacity: true)
            bytes.append(Self.version)
        }
        VariableInteger.append(UInt64(envelope.count), to: &bytes)
        if count == 0 { first = bytes.count }
        bytes.append(contentsOf: envelope)
        count += 1
    }

    /// Gives subject, payload and count to `body`, and is empty then.
    mutating func take(_ body: (_ subject: UnsafeRawBufferPointer, _ payload: UnsafeRawBufferPointer, _ count: Int) -> Void) {
        subject.withUnsafeBytes { subject in
            bytes.withUnsafeBytes { bytes in
                body(subject, count == 1 ? UnsafeRawBufferPointer(rebasing: bytes[first...]) : bytes, count)
            }
        }
        count = 0
    }

    /// Gives the envelope of each message of a payload to `body`, which may be one alone.
    ///
    /// - Returns: false if the payload ends too soon, or has nothing in it.
    static func forEach(_ payload: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Void) -> Bool {
        guard payload.first == version else {
            body(payload)
            return true
        }
        var reader = EnvelopeReader(UnsafeRawBufferPointer(rebasing: payload.dropFirst()))
        repeat {
            guard let envelope = reader.counted() else { return false }
            body(envelope)
        } while !reader.isAtEnd
        return true
    }
}
