import FuzzKit
import NATSClient

/// The first byte says what the rest is: a server's bytes, which are read at once and in pieces, or values of the
/// protocol.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafeRawPointer, _ count: Int) -> CInt {
    var script = ByteScript(UnsafeRawBufferPointer(start: start, count: count))
    let choice = script.byte()
    let pieces = script.bytes(4)
    let bytes = script.remainder()
    if choice & 1 == 0 { Conversation.check(bytes, pieces) } else { Values.check(bytes) }
    return 0
}

/// What a server says, whoever it is.
enum Conversation {
    static func check(_ bytes: [UInt8], _ lengths: [UInt8]) {
        let whole = outcome(of: [bytes[...]])
        var rest = bytes[...]
        var pieces: [ArraySlice<UInt8>] = []
        while !rest.isEmpty {
            let length = lengths.isEmpty ? 1 : 1 + Int(lengths[pieces.count % lengths.count])
            pieces.append(rest.prefix(length))
            rest = rest.dropFirst(length)
        }
        let cut = outcome(of: pieces)
        expect(whole.read == cut.read, "in pieces it is \(cut.read), else \(whole.read)")
        expect((whole.error == nil) == (cut.error == nil), "in pieces \(cut.error ?? "-"), else \(whole.error ?? "-")")
    }

    private static func outcome(of pieces: [ArraySlice<UInt8>]) -> (read: [String], error: String?) {
        var reader = OperationReader()
        var read: [String] = []
        for piece in pieces {
            do throws(WireError) {
                try piece.withUnsafeBufferPointer { (bytes) throws(WireError) in
                    try reader.read(UnsafeRawBufferPointer(bytes)) {
                        read.append(text($0))
                        return true
                    }
                }
            } catch {
                return (read, error.description)
            }
        }
        return (read, nil)
    }

    private static func text(_ operation: ServerOperation) -> String {
        switch operation {
        case .info(let info):
            expect(info.payloadBytesMax > 0, "a bound of \(info.payloadBytesMax)")
            return "\(info)"
        case .message(let view):
            if let headers = try? MessageHeaders(reading: view.headers) {
                for field in headers.fields { expect(headers[field.name] != nil, "no field \(field.name)") }
            }
            return "\(view.subscription) \(Array(view.subject)) \(Array(view.reply)) \(Array(view.headers)) \(Array(view.payload))"
        case .error(let words):
            expect(words.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }, "a control byte in \(words)")
            return words
        case .ping: return "ping"
        case .pong: return "pong"
        case .ok: return "ok"
        }
    }
}

enum Values {
    static func check(_ bytes: [UInt8]) {
        let text = String(decoding: bytes, as: UTF8.self)
        if let address = try? ServerAddress(reading: text) {
            let again = try? ServerAddress(reading: address.description)
            expect(again?.host == address.host && again?.port == address.port, "\(address) does not come back")
        }
        if let version = ServerVersion(text) { expect(ServerVersion("\(version)") == version, "\(version) does not come back") }
        if let key = try? NKey(seed: text) { expect(key.publicKey.utf8.count == 56, "the key \(key.publicKey)") }
        guard let subject = Subject(bytes) else { return }
        expect(!bytes.contains { $0 <= 0x20 || $0 == 0x7F } && SubjectPattern(bytes) != nil, "the subject \(bytes)")
        // What is written is one operation, of this subject.
        var writer = OperationWriter()
        writer.publish(subject, payload: bytes)
        let line = Array("MSG ".utf8) + subject.bytes + Array(" 1 \(bytes.count)\r\n".utf8) + bytes + Array("\r\n".utf8)
        expect(writer.bytes.count == line.count - 2, "\(writer.bytes)")
    }
}
