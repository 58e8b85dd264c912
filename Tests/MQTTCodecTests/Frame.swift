import MQTTCodec
import Testing

/// Bytes of a packet, written down as a person reads them: `"10 0D 00 04 'MQTT 04 02 00 3C 00 01 'a"`.
///
/// Words are bytes in hexadecimal; a word that begins with an apostrophe is text.
struct Frame: Hashable, ExpressibleByStringLiteral, CustomStringConvertible {
    let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    init(stringLiteral value: String) {
        bytes = value.split(separator: " ").flatMap { word -> [UInt8] in
            if word.hasPrefix("'") { return Array(word.dropFirst().utf8) }
            guard let byte = UInt8(word, radix: 16), word.utf8.count == 2 else { preconditionFailure("not a byte: \(word)") }
            return [byte]
        }
    }

    /// A whole packet around `body`.
    init(first: UInt8, body: [UInt8]) {
        var length = body.count
        var bytes = [first]
        repeat {
            bytes.append(UInt8(length % 128) | (length >= 128 ? 0x80 : 0))
            length /= 128
        } while length > 0
        self.bytes = bytes + body
    }

    var description: String {
        bytes.prefix(64).map { byte in
            let digits = String(byte, radix: 16, uppercase: true)
            return digits.count == 1 ? "0" + digits : digits
        }.joined(separator: " ")
    }

    /// What the codec makes of the frame, which holds exactly one packet.
    func decoded(_ version: ProtocolVersion, from peer: Peer) -> Result<ControlPacket, WireError> {
        bytes.withUnsafeBytes { bytes in
            switch FrameScan.scan(bytes) {
            case .incomplete: return .failure(.truncated)
            case .malformed(let error): return .failure(error)
            case .packet(let firstByte, let headerLength, let bodyLength):
                guard headerLength + bodyLength == bytes.count else {
                    Issue.record("\(self) should have the remaining length \(bytes.count - headerLength)")
                    return .failure(.truncated)
                }
                let body = UnsafeRawBufferPointer(rebasing: bytes[headerLength...])
                return decode(firstByte, body, version, peer)
            }
        }
    }
}

/// `ControlPacket.decode` with its error as a value.
func decode(
    _ firstByte: UInt8, _ body: UnsafeRawBufferPointer, _ version: ProtocolVersion, _ peer: Peer
) -> Result<ControlPacket, WireError> {
    Result { () throws(WireError) in try ControlPacket.decode(firstByte: firstByte, body: body, version: version, from: peer) }
}
